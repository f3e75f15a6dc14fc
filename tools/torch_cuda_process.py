"""The judge's handle on a worker for torch kernels on a GPU."""

from __future__ import annotations

from typing import Any

from tools.buffers import OutputBuffers, WorkloadBuffers
from tools.clock import Allowance
from tools.cuda_buffers import DeviceInputs, DeviceOutputs
from tools.cuda_outputs import outputs_for
from tools.cuda_process import (
    DELAY,
    DELAY_FACTOR,
    LEAST_DELAY,
    MOST_DELAY,
    MOST_ROW_DELAY,
    ROW_DELAY,
    ROW_DELAY_FACTOR,
    wait_until_left,
)
from tools.messages import CALLS_SHIFT, REQUEST
from tools.torch_process import UNCLOCKED, TorchWorker
from tools.wire import Message
from tools.worker import Call

LAUNCHING = 500e-6
"""Seconds that a call's Python code may take on a GPU's host beside what it launches."""


class TorchCudaWorker(TorchWorker):
    """A torch kernel on a GPU. Clocks as for `CudaWorker`: events with the launches queued ahead, and the judge's own
    span less the delay and the copies that were ordered."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._delays: dict[int, int] = {}
        self._outrun = False
        self._launching: dict[int, int] = {}
        self._row = (0, 0)
        """Calls in a row that the next request asks for, and their delay."""
        self._row_launching = 0
        super().__init__(*arguments, **named)

    @property
    def allowance(self) -> Allowance:
        return Allowance(coarse=True, slack=300e-6, launching=LAUNCHING)

    def row(self, workload: int, calls: int, timeout: float, *, held: bool) -> tuple[float, bool] | None:
        """None for a task whose outputs are updated in place."""
        output = self.outputs[workload]
        assert isinstance(output, DeviceOutputs)
        if self._buffers[workload].signature.in_place:
            return None
        launching = calls * (ROW_DELAY_FACTOR * self._launching.get(workload, 0) + ROW_DELAY)
        delay = min(round(launching), MOST_ROW_DELAY) if held else 0
        cold = self._home.cold if held else None
        copies = 3 * output.copy_seconds_in_a_row() + calls * output.copy_seconds_in_a_row(cold)
        self._row = (calls, delay)
        try:
            outer = self._ask(workload, timeout + calls * 1e-3, True).outer
        finally:
            self._row = (0, 0)
        return (outer - delay * 1e-6 - copies) / calls, self._row_launching <= delay

    def disturbed(self) -> bool:
        """See `CudaWorker`."""
        return self._outrun or (self.clock is not None and self.clock.slowed)

    def close(self) -> None:
        """Kill it; returns when its processes are gone and the device holds nothing of theirs."""
        pid = self.pid
        super().close()
        monitor = self._home.monitor
        if pid and monitor is not None:
            wait_until_left(monitor, lambda computing: pid not in computing)

    def _make_outputs(self) -> tuple[OutputBuffers, ...]:
        return outputs_for(self._buffers, 0)

    def _parts(self, inputs: WorkloadBuffers, outputs: OutputBuffers) -> tuple[dict[str, int], dict[str, int]]:
        assert isinstance(inputs, DeviceInputs) and isinstance(outputs, DeviceOutputs)
        blocks = {"inputs": inputs.block, "outputs": outputs.block, "snapshot": outputs.snapshot}
        fds = {name: block.fd for name, block in blocks.items()}
        return {**fds, "host": inputs.read_only_fd}, {name: block.size for name, block in blocks.items()}

    def _request(self, nonce: int, workload: int) -> bytes:
        calls, delay = self._row
        if calls:
            return REQUEST.pack(nonce, workload, delay | calls << CALLS_SHIFT)
        delay = self._delays.get(workload, DELAY) if workload >= 0 else 0
        return REQUEST.pack(nonce, workload, delay | (0 if self.clocked or workload < 0 else UNCLOCKED))

    def _reading(self, workload: int, message: Message, outer: float) -> Call:
        if workload < 0:
            return Call(0.0, outer)
        if self._row[0]:
            self._row_launching = message.number
            return Call(0.0, outer)
        self._launching[workload] = message.number
        if self._home.monitor is not None:
            self.clock = self._home.monitor.clock()
        output = self.outputs[workload]
        assert isinstance(output, DeviceOutputs)
        delay = self._delays.get(workload, DELAY)
        wanted = max(round(DELAY_FACTOR * message.number), LEAST_DELAY)
        self._delays[workload] = wanted if wanted <= MOST_DELAY else 0
        self._outrun = self.clocked and message.number > 0.8 * delay and self._delays[workload] > delay
        return Call(message.value * 1e-9, outer - delay * 1e-6 - 2 * output.copy_seconds)
