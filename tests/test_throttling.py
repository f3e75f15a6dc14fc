"""The device's own clock around each timing: what a throttled one leads to. A script stands in for the worker and a
list for the driver's library; no GPU is needed."""

# ruff: noqa: ARG002, ARG005 (a protocol names arguments that a stand-in does not need)

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console
from test_cuda_process import SCRIPT
from test_golden_h200 import VERDICT, recorded_rows

from agents.last_measurement import LastMeasurement
from app.pages import _environment
from app.verdict_tables import print_verdict
from tools.buffers import WorkloadBuffers
from tools.clock import Allowance, Clocks, Reading
from tools.cuda_buffers import DeviceOutputs
from tools.cuda_outputs import OutputPool
from tools.cuda_process import CudaWorker, Host
from tools.nvml import REASONS, SLOWED, Clock
from tools.process import descendants
from tools.records import Accepted
from tools.runner import UNDISTURBED_TRIES, Means, Runner
from tools.sandbox import Confinement, Sandbox
from tools.timings import Session, clock_details, throttled_share
from tools.worker import Launch

FULL, CAPPED, HOT, BRAKED = Clock(1980, 0), Clock(1755, 0x4), Clock(1200, 0x60), Clock(345, 0x80)
DONE = "answer(nonce, Kind.DONE)"
LAUNCHING = SCRIPT.replace(
    DONE, "os.write(answers, MESSAGE.pack(nonce, Kind.DONE, LAUNCHING, 5000, 0, 0, Place.ELSEWHERE, -1, b''))"
)
"""Each call takes 5 us by the worker's clock, and its launches LAUNCHING microseconds."""


class NoArrays(DeviceOutputs):
    """Outputs of which nothing lies on a device."""

    def __init__(self) -> None:
        self.copy_seconds = 0.0

    def poison(self, seed: int) -> None: ...

    def clear(self) -> None: ...

    def close(self) -> None: ...


class Told:
    """In the library's place: says what it was told to, and the last of it again and again."""

    def __init__(self, *clocks: Clock | None) -> None:
        self.clocks, self.asked = clocks, 0

    def clock(self) -> Clock | None:
        self.asked += 1
        return self.clocks[min(self.asked, len(self.clocks)) - 1]

    def processes(self) -> frozenset[int]:
        return frozenset(descendants(os.getpid()))


class OneWorkload(CudaWorker):
    """A worker whose program is a script and whose only workload has no arrays."""

    def __init__(self, monitor: Told | None, log: Path, launching: int) -> None:
        self.arguments = ("-c", LAUNCHING.replace("LAUNCHING", str(launching)))
        self.log = str(log)
        host = Host("GPU-0", Path("/nowhere"), cast(Sandbox, Unconfined()), cast(Any, monitor))
        super().__init__([cast(WorkloadBuffers, None)], host, OutputPool(lambda: (NoArrays(),)))

    def _launch(self, library: Path, requests: int, answers: int) -> Launch:
        command = (sys.executable, *self.arguments, str(requests), str(answers), str(library), self.log)
        return Launch(command, Confinement(), {}, (), b"plan", opens_files=True)


class Unconfined:
    def wrap(self, argv: Sequence[str], policy: object) -> list[str]:
        return list(argv)


class Given:
    """Content of the only workload."""

    workload, name = 0, "only"


@contextmanager
def runner(folder: Path, monitor: Told | None, launching: int = 40) -> Iterator[Runner]:
    library = folder / "kernel"
    library.write_text("a kernel ")
    worker = OneWorkload(monitor, folder / "log", launching)
    worker.load(library)
    means = Means(lambda: 1e-4, lambda inputs, outputs: None, Allowance(coarse=True))
    with Runner(worker, worker.buffers, [5.0], means) as made:
        yield made


@pytest.mark.parametrize(
    ("clocks", "asked", "details"),
    [
        ([FULL], 3, (1980, 1980, 1980, [], 0, 0)),
        ([CAPPED, FULL], 3, (1755, 1980, 1980, ["power cap"], 0, 0)),
        ([FULL, HOT, FULL], 4, (1980, 1980, 1980, [], 1, 0)),
        ([FULL, BRAKED, HOT, FULL], 5, (1980, 1980, 1980, [], 1, 0)),
        ([FULL, HOT], 7, (1200, 1200, 1980, ["heat, told by hardware", "heat, told by software"], 2, 2)),
        ([BRAKED], 9, (345, 345, 345, ["power brake"], 3, 3)),
    ],
)
def test_a_call_is_repeated_while_the_device_is_throttled_and_says_so_if_it_stays_so(
    tmp_path: Path, clocks: list[Clock], asked: int, details: tuple[Any, ...]
) -> None:
    monitor = Told(*clocks)
    with runner(tmp_path, monitor) as made:
        for _ in range(3):
            made.call(cast(Any, Given()))
        found = clock_details(made.clocks(0), None, recycled=False)
        session = Session(made, None, None, cast(Any, None))
        share = throttled_share([session], 1)
    assert monitor.asked == asked, "once a call, and once for each repeat"
    lowest, median, highest, causes, repeated, throttled = details
    assert found["sm_megahertz"] == {"lowest": lowest, "median": median, "highest": highest}
    assert found["clock_held_down_by"] == causes
    assert (found["calls_repeated"], found["calls_throttled"]) == (repeated, throttled)
    assert found["samples"] == 3, "a repeat replaces the reading that it repeats"
    assert share == (throttled / 3 or None)


def test_a_call_whose_launches_were_not_queued_in_time_is_repeated_too(tmp_path: Path) -> None:
    with runner(tmp_path, Told(FULL), launching=390) as made:
        made.call(cast(Any, Given()))
        made.call(cast(Any, Given()))
        first, second = made.clocks(0).readings
    assert (first.repeats, second.repeats) == (1, 0), "the second was held for long enough at once"
    assert not first.throttled


def test_without_the_library_nothing_is_said_of_clocks(tmp_path: Path) -> None:
    with runner(tmp_path, None) as made:
        made.call(cast(Any, Given()))
        found = clock_details(made.clocks(0), None, recycled=False)
        assert throttled_share([Session(made, None, None, cast(Any, None))], 1) is None
    assert not {"sm_megahertz", "clock_held_down_by", "calls_repeated", "calls_throttled"} & set(found)


def test_dropped_readings_take_their_clocks_with_them(tmp_path: Path) -> None:
    with runner(tmp_path, Told(*[HOT] * (1 + UNDISTURBED_TRIES), FULL)) as made:
        made.call(cast(Any, Given()))
        made.drop_readings(0)
        made.call(cast(Any, Given()))
        assert [reading.device for reading in made.clocks(0).readings] == [FULL]


def test_the_workload_that_met_most_counts() -> None:
    def readings(*clocks: Clock | None) -> Clocks:
        return Clocks(tuple(Reading(1e-5, 1e-4, device=clock) for clock in clocks), (1e-4,))

    class Two:
        def clocks(self, workload: int) -> Clocks:
            return (readings(FULL, FULL, CAPPED, None), readings(FULL, HOT, FULL, FULL))[workload]

    session = Session(cast(Any, Two()), None, None, cast(Any, None))
    assert throttled_share([session, session], 2) == 0.25
    assert throttled_share([session], 1) is None, "a power cap is how a chip of this kind works"


@pytest.mark.parametrize("bit", [1 << place for place in range(9)])
def test_reasons_are_told_in_words_and_some_of_them_repeat_a_timing(bit: int) -> None:
    clock = Clock(1500, bit)
    assert clock.causes == (REASONS[bit],)
    assert clock.slowed == any(word in REASONS[bit] for word in ("slowdown", "heat", "brake")) == bool(bit & SLOWED)


def test_an_unknown_reason_is_told_by_its_number() -> None:
    assert Clock(1500, 0x4 | 0x800).causes == ("power cap", "reason 0x800") and not Clock(1500, 0x800).slowed


def test_a_verdict_says_that_its_times_were_taken_throttled() -> None:
    verdict = VERDICT.validate_python(recorded_rows("fixtures")["cuda_honest"]["verdict"])
    for share, said in ((None, False), (0.25, True)):
        console = Console(file=io.StringIO(), width=200)
        print_verdict(console, verdict.model_copy(update={"throttled": share}), "numpy")
        text = cast(io.StringIO, console.file).getvalue()
        assert ("The device stayed throttled in 25 % of the timed calls: times may read long." in text) == said


def test_the_last_measurement_of_a_run_says_so_too() -> None:
    verdict = VERDICT.validate_python(recorded_rows("fixtures")["cuda_honest"]["verdict"])
    assert isinstance(verdict, Accepted) and LastMeasurement.of(verdict).throttled is None
    assert LastMeasurement.of(verdict.model_copy(update={"throttled": 0.25})).throttled == 0.25
    page = _environment().from_string("{{ share|throttling }}").render(share=0.25)
    assert page == "The device stayed throttled in 25 % of the timed calls: times may read long"
