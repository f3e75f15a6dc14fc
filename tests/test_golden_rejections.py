"""What the judge says of kernels that an H200 saw fail, said again from the recorded figures by the code of today: each
rejection is made anew of what its worker, outputs, clocks or a sanitizer showed, with the same reason and in the same
words. One that no device has a part in is made by the part itself."""

# ruff: noqa: ARG005 (a stand-in takes what the real one does)

from __future__ import annotations

import dataclasses
import json
import math
import re
import struct
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from golden_verdicts import NATIVE, TORCH, Row, accepted, details, rejected

from tools.clock import Clocks, Reading, Rows
from tools.content import Content
from tools.cuda_look import tell
from tools.cuda_sanitizer import FOUND, LEAKS, Left, Outcome, leak_outcome, outcome_of, read_finding
from tools.gauntlet import Gauntlet
from tools.judge import TIMEOUT_FACTOR, TIMEOUT_LEAST, Judge
from tools.messages import Kind, Place
from tools.numerics import CAP, Check, compare, granted
from tools.process import Completed
from tools.race import Inspection
from tools.records import Kernel, Mismatch, Policy, Rejected
from tools.runner import Failed, Means, Runner
from tools.screen import screen
from tools.stages import Evidence
from tools.targets.cuda import CudaTarget
from tools.task import read_kernel
from tools.torch_cuda_process import TorchCudaWorker
from tools.torch_trace import require_own_work
from tools.wire import Message, WorkerFailed, explain, explain_exit

KERNELS = Path(__file__).parent / "kernels"
MANIFESTS = {
    NATIVE: tomllib.loads((KERNELS / "cuda.toml").read_text()),
    TORCH: tomllib.loads((KERNELS / "torch.toml").read_text()),
}
REJECTED = rejected()
MEMORY = 16 << 30


class Said(NamedTuple):
    """The judge's answer, as far as it is compared."""

    reason: str
    message: str
    diagnostics: tuple[Any, ...] | None = None


def of_failed(failed: Failed) -> Said:
    return Said(failed.reason, failed.message, failed.diagnostics)


def of_worker(failure: WorkerFailed) -> Said:
    """As `tools.stages` tells it."""
    return Said(failure.reason, f"it {failure.message}", failure.diagnostics)


# ------------------------------------------------------------------------------------------------------ wrong outputs

SIZE = 64
"""Elements of the shortest slice."""
NOISE = 16
"""How many times as bad as one rounding of the inputs makes them results may be."""


def checked(mismatch: Mismatch, policy: Policy) -> Check:
    """The wrong element compared afresh, among elements that are right, where the recorded tolerance is granted."""
    dtype: Any = np.int64 if mismatch.tolerance == 0.0 else np.float32
    expected = np.zeros(SIZE, np.int64 if mismatch.tolerance == 0.0 else np.float64)
    expected[0] = expected.dtype.type(mismatch.expected)
    actual = expected.astype(dtype)
    actual[0] = dtype(mismatch.actual)
    noise = {"out": np.full(SIZE, (mismatch.tolerance or 0.0) / NOISE)}
    found = compare({"out": actual}, {"out": expected}, {"out": expected.astype(dtype)}, policy, noise=noise)
    assert not found.ok and found.wrong == 1 and (found.expected, found.actual) == (mismatch.expected, mismatch.actual)
    for mine, told in ((found.error, mismatch.error), (found.tolerance, mismatch.tolerance)):
        assert mine is None if told is None else mine == pytest.approx(told, rel=1e-6, abs=1e-9 * abs(expected[0]))
    told_of: Any = {"output": mismatch.output, "index": mismatch.index, "worst_slice": mismatch.worst_slice}
    return dataclasses.replace(found, **told_of, wrong=mismatch.wrong, total=mismatch.total)


def shape_for(mismatch: Mismatch) -> tuple[int, ...]:
    """One of as many elements and dimensions that has the index in it."""
    index = mismatch.index
    for columns in range(index[-1] + 1, mismatch.total + 1):
        if mismatch.total % columns == 0 and (len(index) == 1 or mismatch.total // columns > index[0]):
            return (mismatch.total // columns, columns) if len(index) > 1 else (columns,)
    raise AssertionError(mismatch)


class Outputs:
    """Of a worker: what was not written, and what they hold."""

    def __init__(self, mismatch: Mismatch | None, unwritten: int, overrun: str | None = None) -> None:
        self.mismatch, self.unwritten, self._overrun, self.outputs = mismatch, unwritten, overrun, dict[str, Any]()

    def fetch(self, late: bool = False) -> None: ...

    def overrun(self) -> str | None:
        return self._overrun

    def untouched(self, output: str) -> Any:
        assert self.mismatch is not None and output == self.mismatch.output
        found = np.zeros(self.mismatch.total, bool)
        found[: max(self.unwritten - 1, 0)] = True
        place = int(np.ravel_multi_index(self.mismatch.index, shape_for(self.mismatch)))
        if self.unwritten and found[place]:
            found[self.unwritten - 1] = True
        found[place] = bool(self.unwritten)
        return found.reshape(shape_for(self.mismatch))


def looked_at(outputs: Outputs, checks: list[Check], mismatch: Mismatch | None) -> Runner:
    """A runner after a call whose outputs are these; each look at them gives the next of the checks."""
    worker: Any = SimpleNamespace(outputs=[outputs], pause=lambda: None, resume=lambda: None)
    buffers: Any = SimpleNamespace(intact=lambda: True)
    made = Runner(worker, [buffers], [1.0], cast(Means, None))
    left = iter(checks)
    made._late_seconds = 0.0
    made._last = cast(
        Content,
        SimpleNamespace(
            workload=0,
            name=mismatch.workload if mismatch else "",
            distribution=mismatch.distribution if mismatch else "",
            check=lambda live: next(left),
        ),
    )
    return made


def by_outputs(row: Row) -> Said:
    """The check that failed, and what the runner makes of it: wrong, not written, late, or different each time."""
    assert isinstance(row.verdict, Rejected) and row.verdict.mismatch is not None
    mismatch, message = row.verdict.mismatch, row.verdict.message
    count = re.search(r"was not written, as (\d+) of", message)
    wrong = checked(mismatch, MANIFESTS[row.section][row.name].get("policy", "strict"))
    second = Check(ok=True, worst=0.0) if row.verdict.reason == "late_work" else wrong
    runner = looked_at(Outputs(mismatch, int(count[1]) if count else 0), [wrong, second], mismatch)
    with pytest.raises(Failed) as failed:
        if message.startswith("another run on the same inputs differs: "):
            Gauntlet._verify_repeat(runner)
        elif message.startswith("other runs on the same inputs differ: "):
            runner.differs_when_repeated = lambda: True  # type: ignore[method-assign]
            Inspection(runner).check(cast(Content, None))
        else:
            runner.verify_last()
    assert failed.value.mismatch == mismatch.model_copy(update={"error": wrong.error, "tolerance": wrong.tolerance})
    return of_failed(failed.value)


def by_guards(row: Row) -> Said:
    """What lies around an output was overwritten."""
    overrun = re.fullmatch(r"it wrote past the end of `(\w+)`", verdict_of(row).message)
    assert overrun is not None
    with pytest.raises(Failed) as failed:
        looked_at(Outputs(None, 0, overrun[1]), [], None).verify_last()
    return of_failed(failed.value)


# -------------------------------------------------------------------------------------------------- faults and answers


def report(kind: Kind, text: str = "", number: int = 0) -> Message:
    return Message(1, kind, number, 0, -1, -1, Place.ELSEWHERE, None, text)


def by_fault(row: Row) -> Said:
    """The error that the driver gave."""
    error = str(details(row, verdict_of(row).stage)["error"])
    return of_worker(explain(report(Kind.DEVICE_FAULT, error), [], MEMORY, ""))


def by_exit(row: Row) -> Said:
    code = re.search(r"exited with code (\d+)", verdict_of(row).message)
    assert code is not None
    return of_worker(explain(report(Kind.EXIT, number=int(code[1])), [], MEMORY, ""))


def by_forgery(row: Row) -> Said:
    """What a forged message says has no part in it: none that was awaited is like it."""
    forged = [explain(each, [], MEMORY, "") for each in (None, report(Kind.READY), report(Kind.DONE))]
    assert len({(each.reason, each.message) for each in forged}) == 1
    return of_worker(forged[0])


def by_signal(row: Row) -> Said:
    """The system ended it for a call that it may not make (SIGSYS)."""
    return of_worker(explain_exit(-31, MEMORY, ""))


def by_report(row: Row) -> Said:
    """What a torch worker reported of itself: believed only where it is one of the reasons that it may give."""
    verdict = verdict_of(row)
    first = next(iter(verdict.diagnostics), None)
    told = {"reason": verdict.reason, "message": verdict.message.removeprefix("it ")}
    place = {"file": first.file, "line": first.line} if first is not None else {}

    def answer(**fields: object) -> WorkerFailed:
        worker = TorchCudaWorker.__new__(TorchCudaWorker)
        text = json.dumps(fields).encode()
        worker._report = cast(Any, struct.pack("=I", len(text)) + text)
        return worker._explain(report(Kind.BROKEN), "")

    for forged in ({**told, "reason": "accepted"}, {**told, "reason": "below_limit"}, {**told, "message": 5}):
        assert answer(**forged).reason == "forged_answer"
    return of_worker(answer(**told, **place))


def by_time_limit(row: Row) -> Said:
    """It gets five seconds and a hundred times the baseline's time, which is known of the honest twin's evaluation."""
    verdict = verdict_of(row)
    seconds = re.fullmatch(r"it did not return within ([\d.]+) s", verdict.message)
    assert seconds is not None
    twins = [each.verdict for each in accepted() if each.section == row.section]
    known = [timing.baseline_seconds for twin in twins for timing in twin.timings]  # type: ignore[union-attr]
    judge: Any = SimpleNamespace(baseline_seconds=[min(known), max(known)])
    least, most = Judge.timeouts.fget(judge)  # type: ignore[attr-defined]
    assert least == TIMEOUT_LEAST + TIMEOUT_FACTOR * min(known)
    assert least / 1.5 <= float(seconds[1]) <= 1.5 * most
    return Said("timeout", verdict.message)


# ------------------------------------------------------------------------------------------------- clocks, instruments

_IN_A_ROW = re.compile(
    r"the worker's clock reads (?P<inner>[\d.]+) us a call, and (?P<calls>\d+) calls in a row take (?P<row>[\d.]+) us "
    r"each(?P<free>, launching included)? by the judge's clock \(workload (?P<workload>\w+)\)"
)
_SINGLE = re.compile(
    r"the worker's clock reads (?P<inner>[\d.]+) us a call, the judge's clock (?P<outer>[\d.]+) us, and they may "
    r"differ by (?P<slack>[\d.]+) us \(workload (?P<workload>\w+)\)"
)


def by_clocks(row: Row) -> Said:
    """The two clocks as the sentence has them, to a tenth of a microsecond, and what is recorded beside it."""
    verdict = verdict_of(row)
    kept: Any = details(row, verdict.stage).get("clocks")
    if (said := _IN_A_ROW.fullmatch(verdict.message)) is not None:
        inner, seconds = float(said["inner"]) * 1e-6, float(said["row"]) * 1e-6
        rows = Rows(int(said["calls"]), 0.0 if said["free"] else seconds, seconds if said["free"] else 0.0)
        why = rows.disagreement(inner, row.allowance)
        honest = Rows(rows.calls, min(rows.held, inner), min(rows.free, inner))
        assert honest.disagreement(inner, row.allowance) is None
        if kept is not None:
            own = kept[said["workload"]]
            assert Rows(**own["in_a_row"]).disagreement(own["inner_seconds"], row.allowance) == why
    else:
        said = _SINGLE.fullmatch(verdict.message)
        assert said is not None, verdict.message
        inner, outer = float(said["inner"]) * 1e-6, float(said["outer"]) * 1e-6
        why = Clocks((Reading(inner, outer + 1e-4),), (1e-4,), row.allowance).disagreement()
    return Said("clocks_disagree", f"{why} (workload {said['workload']})")


def by_sanitizer(row: Row) -> Said:
    """The tool's own words, as they stand in the record."""
    verdict = verdict_of(row)
    tool, text = str(details(row, "memory-safe")["tool"]), verdict.stages[-1].stdout
    workload = re.search(r"\(workload (\w+)\)$", verdict.message)
    assert workload is not None
    if row.section == TORCH:  # only a part of the tool's text is about the kernel's call
        finding = read_finding(tool, text)
        assert finding is not None and finding.summary in verdict.message
        return Said("memory_error", verdict.message)
    ran = Completed((tool,), FOUND, None, False, False, text, "", 1.0, False)
    with pytest.raises(Failed) as failed:
        tell(Evidence(), [[workload[1]]], [outcome_of(tool, ran)])
    clean = dataclasses.replace(ran, exit_code=0, stdout="replay: done\n")
    tell(Evidence(), [[workload[1]]], [outcome_of(tool, clean)])
    return of_failed(failed.value)


def by_leak(row: Row) -> Said:
    """What so many calls left on the device, and twice as many."""
    figures = r"as (\d+) calls leave ([\d,]+) bytes and (\d+) leave ([\d,]+) .*\(workload (\w+)\)$"
    left = re.search(figures, verdict_of(row).message)
    assert left is not None
    some, first, more, second = (int(left[place].replace(",", "")) for place in range(1, 5))
    outcome = leak_outcome(Left(some, first), Left(more, second), Outcome(LEAKS))
    assert leak_outcome(Left(some, first), Left(some + 1, second), Outcome(LEAKS)).finding is None, "taken once"
    with pytest.raises(Failed) as failed:
        tell(Evidence(), [[left[5]]], [outcome])
    return of_failed(failed.value)


# --------------------------------------------------------------------------------------------------- whose work it is


def kernel_of(row: Row) -> Kernel:
    name = MANIFESTS[row.section][row.name].get("kernel", row.name)
    if row.section == NATIVE:
        return read_kernel(KERNELS / name)
    files = {"kernel.py": f"{name}.py", "rows.py": "rows.py"}
    return Kernel(language="torch", files={n: (KERNELS / "torch" / f).read_text() for n, f in files.items()})


def by_screen(row: Row) -> Said:
    found = screen(kernel_of(row))
    return Said("forbidden_source", f"{found[0].file}:{found[0].line}: {found[0].message}", tuple(found))


def by_library(row: Row) -> Said:
    """What it has mapped, of which the target knows nothing."""
    library = re.search(r"it loads (\S+), which", verdict_of(row).message)
    assert library is not None
    allowed = ("libcudart.so.13", "libcuda.so.580.159.04", "libstdc++.so.6", "libc.so.6")
    runner: Any = SimpleNamespace(worker=SimpleNamespace(mapped_libraries=lambda: (*allowed, library[1])))
    judge: Any = SimpleNamespace(may_map=lambda name: CudaTarget.may_map(cast(CudaTarget, None), name))
    with pytest.raises(Failed) as failed:
        Gauntlet._require_known_libraries(cast(Gauntlet, SimpleNamespace(_judge=judge)), runner)
    return of_failed(failed.value)


def by_trace(row: Row) -> Said:
    """What ran on the device or was dispatched, held against the kernel's sources."""
    message, names = verdict_of(row).message, details(row, verdict_of(row).stage).get("device_kernels", [])
    workload = re.search(r"\(workload (\w+)\)$", message)
    assert workload is not None and isinstance(names, list)
    called = re.search(r"it called (\S+),", message)
    seen: dict[str, Any] = {"operators": {called[1]: [1, 1.0]}} if called else {}
    named = max(map(str, names), key=lambda name: (name[:100] in message, len(name)), default="")
    seen["kernels"] = {str(name): [1, 2.0 if name == named else 1.0] for name in names}
    with pytest.raises(Failed) as failed:
        require_own_work(kernel_of(row), [workload[1]], [seen], MANIFESTS[row.section][row.name].get("libraries", ()))
    return of_failed(failed.value)


# ----------------------------------------------------------------------------------------------------------- the table


def verdict_of(row: Row) -> Rejected:
    assert isinstance(row.verdict, Rejected)
    return row.verdict


Way = Callable[[Row], Said]
WAYS: tuple[tuple[Callable[[Rejected], bool], Way | None], ...] = (
    (lambda v: v.stage == "build", None),
    (lambda v: v.stage == "screen", by_screen),
    (lambda v: v.mismatch is not None, by_outputs),
    (lambda v: "error" in v.stages[-1].details, by_fault),
    (lambda v: v.stage == "memory-safe" and v.stages[-1].details.get("tool") == LEAKS, by_leak),
    (lambda v: v.stage == "memory-safe", by_sanitizer),
    (lambda v: v.reason == "clocks_disagree", by_clocks),
    (lambda v: v.reason == "timeout", by_time_limit),
    (lambda v: v.reason == "forged_answer", by_forgery),
    (lambda v: v.reason == "forbidden_library", by_library),
    (lambda v: v.message.startswith("it exited with code"), by_exit),
    (lambda v: v.message.startswith("it made a system call"), by_signal),
    (lambda v: "past the end of" in v.message, by_guards),
    (lambda v: "(workload " in v.message, by_trace),
    (lambda v: True, by_report),
)
"""How a rejection is made again: the first that applies. None for what the build refused: tests build that for real."""


def way_of(row: Row) -> Way | None:
    return next(way for applies, way in WAYS if applies(verdict_of(row)))


REPLAYED = [row for row in REJECTED if way_of(row) is not None]
REWORDED = ("it made a system call that a kernel may not make",)
"""Beginnings of sentences whose ends were written anew since they were recorded."""


@pytest.mark.parametrize("row", REPLAYED, ids=str)
def test_a_rejection_is_made_again_from_what_was_recorded(row: Row) -> None:
    way, verdict = way_of(row), verdict_of(row)
    assert way is not None
    said = way(row)
    assert said.reason == verdict.reason
    beginning = next((words for words in REWORDED if verdict.message.startswith(words)), None)
    assert said.message == verdict.message if beginning is None else said.message.startswith(beginning)
    assert said.diagnostics is None or not verdict.diagnostics or said.diagnostics == verdict.diagnostics


def test_what_is_not_replayed_was_refused_by_the_build() -> None:
    left = [row for row in REJECTED if row not in REPLAYED]
    assert {verdict_of(row).stage for row in left} == {"build"} and len(left) < len(REJECTED) / 10
    assert len(REPLAYED) > 100
    assert {way_of(row) for row in REPLAYED} >= {by_outputs, by_fault, by_clocks, by_sanitizer, by_report, by_trace}


@pytest.mark.parametrize("row", [row for row in REPLAYED if verdict_of(row).mismatch], ids=str)
def test_a_recorded_tolerance_is_none_too_wide_and_the_error_beyond_it(row: Row) -> None:
    mismatch = verdict_of(row).mismatch
    assert mismatch is not None and 1 <= mismatch.wrong <= mismatch.total
    expected, policy = abs(float(mismatch.expected)), MANIFESTS[row.section][row.name].get("policy", "strict")
    if mismatch.error is None or mismatch.tolerance is None:
        assert not math.isfinite(float(mismatch.actual))
        return
    assert mismatch.error > mismatch.tolerance >= granted(np.dtype(np.float32), policy) * expected * 0.999
    scale = re.search(r"largest error (\S+) of its scale (\S+)$", mismatch.worst_slice)
    assert scale is not None and not float(scale[1]) <= granted(np.dtype(np.float32), policy), "nan is no small error"
    assert mismatch.tolerance <= CAP * max(expected, float(scale[2])) * 1.01


@pytest.mark.parametrize("row", [row for row in accepted() if row.section == TORCH], ids=str)
def test_what_ran_on_the_device_was_an_honest_kernel_s_own(row: Row) -> None:
    """The recorded trace against the sources of today; and against sources that name none of it."""
    correct = details(row, "correct")
    seen: Any = correct["device_kernels"]
    libraries = MANIFESTS[row.section][row.name].get("libraries", ())
    shares = require_own_work(kernel_of(row), [each["workload"] for each in seen], seen, libraries)
    assert shares == pytest.approx(correct["own_share_of_device_time"])
    if not any(each["kernels"] for each in seen):
        return
    nothing = Kernel(language="torch", files={"kernel.py": "class ModelNew: ..."})
    with pytest.raises(Failed) as failed:
        require_own_work(nothing, [each["workload"] for each in seen], seen)
    assert failed.value.reason == "framework_op"
