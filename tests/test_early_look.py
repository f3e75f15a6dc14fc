"""Sanitizers beside the checks: what they find counts as if they had run alone, and nothing of them is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from small_tasks import HONEST, WRONG, cpp, saxpy
from toolkit import needs_nvcc

from tools.buffers import WorkloadBuffers
from tools.cpu_device import CpuDevice
from tools.cuda_look import tell
from tools.cuda_process import Host
from tools.cuda_sanitizer import FOUND, LEAKS, Outcome, Sanitizing, outcome_of
from tools.device import Look
from tools.judge import Judge
from tools.process import is_running, run_command
from tools.records import Accepted, Kernel, Rejected
from tools.runner import Failed
from tools.sandbox import detect
from tools.stages import Evidence
from tools.targets.base import Build
from tools.targets.cuda_toolkit import Toolkit

# ---------------------------------------------------------------------------------------------------- in the gauntlet


class Watched:
    """A look that says what it is told to, and what was done with it."""

    def __init__(self, finding: Failed | None) -> None:
        self.finding, self.said = finding, list[str]()

    def __enter__(self) -> Watched:
        self.said.append("begun")
        return self

    def __exit__(self, *_: object) -> None:
        self.said.append("ended")

    def load(self, build: Build) -> None:
        assert build.library is not None
        self.said.append("given")

    def report(self, evidence: Evidence) -> None:
        self.said.append("asked")
        if self.finding is not None:
            raise self.finding
        evidence.details["checked"] = ["early"]


class LookingDevice(CpuDevice):
    """The CPU, as a device that can look early."""

    look = Watched(None)

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[tuple[int, int]] = []

    def prepare(self, buffers: Sequence[WorkloadBuffers], count: int, begun: int = 0) -> None:
        self.prepared.append((count, begun))
        super().prepare(buffers, count, begun)

    def look_early(self, judge: Judge, kernel: Kernel) -> Look | None:  # type: ignore[override] # noqa: ARG002
        return self.look


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(saxpy(), LookingDevice(), lambda _: None) as judge:
        judge.open()
        yield judge


def looked(judge: Judge, kernel: Kernel, finding: Failed | None = None, incumbent: Kernel | None = None) -> object:
    device = judge.device
    assert isinstance(device, LookingDevice)
    device.look = Watched(finding)
    return judge.evaluate(kernel, incumbent)


def said(judge: Judge) -> list[str]:
    assert isinstance(judge.device, LookingDevice)
    return judge.device.look.said


def test_what_it_says_is_the_stage_memory_safe(judge: Judge) -> None:
    verdict = looked(judge, cpp(HONEST))
    assert isinstance(verdict, Accepted)
    (stage,) = [stage for stage in verdict.stages if stage.stage == "memory-safe"]
    assert stage.details == {"checked": ["early"]} and said(judge) == ["begun", "given", "asked", "ended"]
    order = [stage.stage for stage in verdict.stages if stage.stage != "open"]
    assert order == ["screen", "build", "correct", "deterministic", "memory-safe", "time", "audit"]


def test_what_it_finds_rejects_before_any_timing(judge: Judge) -> None:
    verdict = looked(judge, cpp(HONEST), Failed("memory_error", "a race in shared memory"))
    assert isinstance(verdict, Rejected)
    assert (verdict.stage, verdict.reason, verdict.message) == (
        "memory-safe",
        "memory_error",
        "a race in shared memory",
    )
    assert "time" not in {stage.stage for stage in verdict.stages} and said(judge)[-1] == "ended"


def test_a_wrong_kernel_does_not_wait_for_it(judge: Judge) -> None:
    verdict = looked(judge, cpp(WRONG), Failed("memory_error", "not asked"))
    assert isinstance(verdict, Rejected) and verdict.reason == "wrong_result"
    assert said(judge) == ["begun", "given", "ended"]


def test_it_begins_before_the_build_and_ends_with_a_failed_one(judge: Judge) -> None:
    verdict = looked(judge, cpp("int x = ;"), Failed("memory_error", "not asked"))
    assert isinstance(verdict, Rejected) and verdict.stage == "build"
    assert said(judge) == ["begun", "ended"]


def test_a_crash_is_explained_by_it(judge: Judge) -> None:
    crash = HONEST.replace("    for", "    *(volatile float*)nullptr = 1;\n    for")
    verdict = looked(judge, cpp(crash), Failed("memory_error", "Invalid write at kernel.cpp:3"))
    assert isinstance(verdict, Rejected) and (verdict.stage, verdict.reason) == ("correct", "crashed")
    assert verdict.stages[-1].details["sanitizer"] == "Invalid write at kernel.cpp:3"
    assert said(judge) == ["begun", "given", "asked", "ended"]


def test_with_an_incumbent_only_a_winner_is_looked_at(judge: Judge) -> None:
    verdict = looked(judge, cpp(HONEST + "\n// again\n"), Failed("memory_error", "not asked"), cpp(HONEST))
    assert isinstance(verdict, Accepted) and said(judge) == []


def test_the_second_sessions_worker_does_not_come_up_before_it(judge: Judge) -> None:
    """A driver makes contexts one after the other: the sanitizers would wait for a worker that is wanted after them."""
    device = judge.device
    assert isinstance(device, LookingDevice)
    device.prepared.clear()
    looked(judge, cpp(HONEST))
    assert device.prepared == [(1, 0), (2, 1)]
    looked(judge, cpp(WRONG), None, cpp(HONEST))
    assert device.prepared[2:] == [(4, 0)], "nobody looks early where there is an incumbent"


# --------------------------------------------------------------------------------------------- compute-sanitizer itself

RACE = "========= Error: Race reported between Write access at k(float*) in kernel.cu:15 and Read at kernel.cu:6"
STAND_IN = f"""#!/bin/sh
case "$*" in
  *racecheck*) echo "{RACE}"; exit {FOUND} ;;
  *initcheck*) {{initcheck}} ;;
  *)
    for word in "$@"; do case "$word" in */kernel.so) library="$word" ;; esac; done
    until test -e "$library"; do sleep 0.01; done
    test "$(cat "$HOME/../0") of $(cat "$library")" = "plan 0 of the kernel" || exit 9
    echo "replay: done" ;;
esac
"""


JOBS = [("memcheck", "0"), ("racecheck", "0"), ("initcheck", "0")]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a stand-in for compute-sanitizer lies; the sandbox shows the program that it starts."""
    path = tmp_path.resolve() / "compute-sanitizer"
    monkeypatch.setattr(Toolkit, "tool", lambda *_: path if path.exists() else None)
    return path


def install(path: Path, initcheck: str) -> None:
    path.write_text(STAND_IN.replace("{initcheck}", initcheck))
    path.chmod(0o755)


def sanitizing() -> Sanitizing:
    return Sanitizing(Host("GPU-0", Path("/nowhere"), detect(), None), lambda name: f"plan {name}".encode(), JOBS)


@needs_nvcc
def test_its_jobs_run_at_once_and_confined(tool: Path, tmp_path: Path) -> None:
    install(tool, "test -e /etc/passwd && exit 8; echo nothing; exit 3")
    library = tmp_path / "built.so"
    library.write_text("the kernel")
    with sanitizing() as running:
        running.load(library)
        memcheck, racecheck, initcheck = running.outcomes()
    assert (memcheck.finding, memcheck.trouble) == (None, "")
    assert racecheck.finding is not None and "kernel.cu:15" in racecheck.finding.summary
    assert initcheck.trouble == "it ended with exit code 3: nothing"
    with pytest.raises(Failed, match="a race in shared memory") as caught:
        tell(Evidence(), [["even"]] * 3, [memcheck, racecheck, initcheck])
    assert caught.value.reason == "memory_error"
    evidence = Evidence()
    tell(evidence, [["even"], ["odd"]], [memcheck, initcheck])
    assert evidence.details["checked"] == ["even/memcheck"]
    assert evidence.details["could_not_check"] == ["odd/initcheck: it ended with exit code 3: nothing"]


ONE_BY_ONE = """#!/bin/sh
while test "${1##*/}" != kernel.so; do shift; done
until test -e "$1"; do sleep 0.01; done
shift 2
for plan in "$@"; do
  case "$(cat "$plan")" in
    "plan bad") {bad} ;;
    *) echo "replay: passed" ;;
  esac
done
echo "replay: done"
"""
INVALID = "echo '========= Invalid __global__ read of size 4 bytes at k+0x1 in kernel.cu:3'; exit 77"
LATER = "echo '========= Program hit cudaErrorInvalidValue (error 1)'; echo 'replay: passed'"


@needs_nvcc
@pytest.mark.parametrize(
    ("bad", "after", "where"),
    [(INVALID, "", "workload bad"), (LATER, "exit 77", "workload small or bad or large")],
)
def test_a_finding_is_told_of_the_workload_that_was_not_passed(
    tool: Path, tmp_path: Path, bad: str, after: str, where: str
) -> None:
    tool.write_text(ONE_BY_ONE.replace("{bad}", bad) + after)
    tool.chmod(0o755)
    outcome = watched_one_by_one(tmp_path)
    with pytest.raises(Failed, match=where):
        tell(Evidence(), [["small", "bad", "large"]], [outcome])


@needs_nvcc
def test_what_was_passed_before_a_tool_gave_up_counts_as_looked_at(tool: Path, tmp_path: Path) -> None:
    tool.write_text(ONE_BY_ONE.replace("{bad}", "echo odd; exit 3"))
    tool.chmod(0o755)
    evidence = Evidence()
    tell(evidence, [["small", "bad", "large"]], [watched_one_by_one(tmp_path)])
    assert evidence.details["checked"] == ["small/memcheck"]
    trouble = "it ended with exit code 3: odd"
    assert evidence.details["could_not_check"] == [f"bad/memcheck: {trouble}", f"large/memcheck: {trouble}"]


@needs_nvcc
@pytest.mark.parametrize("says", [4, 2])
def test_a_kernel_that_says_itself_that_it_passed_is_not_looked_at_for_that(
    tool: Path, tmp_path: Path, says: int
) -> None:
    """Its own prints come the same way. Trouble stays trouble, and none is called seen where all are said to be."""
    tool.write_text(ONE_BY_ONE.replace("{bad}", "echo 'replay: passed'; " * says + "echo odd; exit 3"))
    tool.chmod(0o755)
    evidence = Evidence()
    tell(evidence, [["small", "bad", "large"]], [watched_one_by_one(tmp_path)])
    assert evidence.details["checked"] == []
    trouble = "it ended with exit code 3: odd"
    names = ["small", "bad", "large"]
    assert evidence.details["could_not_check"] == [f"{name}/memcheck: {trouble}" for name in names]


def test_what_took_too_long_is_told_with_the_time_that_it_had(tmp_path: Path) -> None:
    ran = run_command(["sleep", "600"], timeout=0.01, cwd=tmp_path)
    assert outcome_of("memcheck", ran, 180.0) == Outcome("memcheck", trouble="it took more than 180 s")


def watched_one_by_one(tmp_path: Path) -> Outcome:
    """How the stand-in ended on three workloads, the second of which is bad."""
    (tmp_path / "built.so").write_text("the kernel")
    host = Host("GPU-0", Path("/nowhere"), detect(), None)
    jobs = [("memcheck", ["small", "bad", "large"])]
    with Sanitizing(host, lambda name: f"plan {name}".encode(), jobs) as running:
        running.load(tmp_path / "built.so")
        (outcome,) = running.outcomes()
    return outcome


LEAKY = """#!/bin/sh
while test "${1##*/}" != kernel.so; do shift; done; calls="$2"
echo "replay: done"
echo "========= LEAK SUMMARY: $(({bytes})) bytes leaked in $(({count})) allocations"
echo "========= ERROR SUMMARY: $(({count})) errors"
exit 77
"""


@needs_nvcc
@pytest.mark.parametrize(
    ("count", "size", "says"),
    [("calls + 1", "4194304 * calls + 512", "4,194,304 bytes a call"), ("1", "4194304", ""), ("9", "9 * 512", "")],
)
def test_only_what_grows_with_every_call_is_a_leak(
    tool: Path, tmp_path: Path, count: str, size: str, says: str
) -> None:
    tool.write_text(LEAKY.replace("{bytes}", size).replace("{count}", count))
    tool.chmod(0o755)
    (tmp_path / "built.so").write_text("the kernel")
    host = Host("GPU-0", Path("/nowhere"), detect(), None)
    with Sanitizing(host, lambda _: b"plan", [(LEAKS, ["0"])]) as running:
        running.load(tmp_path / "built.so")
        (outcome,) = running.outcomes()
    assert outcome.trouble == "" and (outcome.finding is not None) == bool(says)
    assert says in (outcome.finding.summary if outcome.finding else "")


@needs_nvcc
def test_a_call_that_fails_at_the_end_is_no_leak(tool: Path, tmp_path: Path) -> None:
    """As when a library's last destructor frees what went with the device: told of unless the tool is told not to."""
    tool.write_text(
        """#!/bin/sh
echo "replay: done"
case "$*" in *"--report-api-errors no"*) exit 0 ;; esac
echo '========= Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" on CUDA API call to cudaFree.'
exit 77
"""
    )
    tool.chmod(0o755)
    (tmp_path / "built.so").write_text("the kernel")
    host = Host("GPU-0", Path("/nowhere"), detect(), None)
    with Sanitizing(host, lambda _: b"plan", [(LEAKS, ["0"]), ("memcheck", ["0"])]) as running:
        running.load(tmp_path / "built.so")
        leaks, memcheck = running.outcomes()
    assert leaks == Outcome(LEAKS)
    assert memcheck.finding is not None


@needs_nvcc
def test_leaving_it_ends_what_still_runs(tool: Path) -> None:
    install(tool, "sleep 600 & sleep 600")
    begin = time.monotonic()
    with sanitizing() as running:
        pass
    assert time.monotonic() - begin < 60
    assert all(run.done() for run in running._runs)
    assert not Path(running._folder.name).exists() and not running._inbox.exists()
    running.close()


def test_without_the_tool_nothing_was_checked(tool: Path) -> None:
    with sanitizing() as running:
        found = running.outcomes()
    assert found == [Outcome(name, trouble="this machine has no compute-sanitizer") for name, _ in JOBS]


def test_a_command_is_ended_from_outside(tmp_path: Path) -> None:
    stop = os.eventfd(0)
    try:
        os.eventfd_write(stop, 1)
        script = f"sleep 600 & echo $! > {tmp_path}/child; echo begun; sleep 600"
        ran = run_command(["sh", "-c", script], timeout=60, stop=stop)
        assert ran.timed_out and ran.signal == signal.SIGKILL and ran.seconds < 60
        child = tmp_path / "child"
        assert not child.exists() or not child.read_text() or not is_running(int(child.read_text()))
        assert run_command(["true"], timeout=60).ok
    finally:
        os.close(stop)
