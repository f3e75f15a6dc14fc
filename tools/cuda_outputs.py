"""Outputs on the device that are made once for a task and lent to one worker after the other.

Where outputs lie in the device's memory makes a difference of some per cent to a short kernel. So evaluations get the
same memory again, and in a verdict's second session the candidate has what its rival had in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.cuda_buffers import DeviceInputs, DeviceOutputs

Outputs = tuple[DeviceOutputs, ...]
"""One worker's, by workload."""
RACERS = 2


class OutputPool:
    """The outputs of a task's workloads, as often as workers need them at the same time."""

    def __init__(self, make: Callable[[], Outputs]) -> None:
        self._make = make
        self._made: list[Outputs] = []
        self._holders: list[int] = []

    def lend(self, number: int | None = None) -> Outputs:
        """Those of that number, also where another worker has them that will not be called any more; else the first
        that nobody has. Nothing of what they held before is left. What `make` raises."""
        if number is None:
            number = self._free(1)[0]
        while number >= len(self._made):
            self._made.append(self._make())
            self._holders.append(0)
        for each in self._made[number]:
            each.clear()
        self._holders[number] += 1
        return self._made[number]

    def changing(self) -> list[int]:
        """Numbers for the workers of two racers in two sessions, one session after the other: of two that nobody has,
        each racer has one first and then the other."""
        one, other = self._free(RACERS)
        return [one, other, other, one]

    def take_back(self, outputs: Sequence[OutputBuffers]) -> None:
        """One worker has done with them."""
        number = next(number for number, made in enumerate(self._made) if made is outputs)
        self._holders[number] -= 1

    def close(self) -> None:
        for outputs in self._made:
            _close(outputs)
        self._made.clear()
        self._holders.clear()

    def _free(self, count: int) -> list[int]:
        unused = [number for number, holders in enumerate(self._holders) if not holders]
        return [*unused, *range(len(self._made), len(self._made) + count)][:count]


def outputs_for(buffers: Sequence[WorkloadBuffers], device: int) -> Outputs:
    """New ones. Needs a current context. InfrastructureError when there is no room."""
    made: list[DeviceOutputs] = []
    try:
        made += (DeviceOutputs(each, device) for each in buffers if isinstance(each, DeviceInputs))
    except BaseException:
        _close(made)
        raise
    return tuple(made)


def _close(outputs: Sequence[DeviceOutputs]) -> None:
    for each in outputs:
        each.close()
