"""What the judge makes of a GPU's answers, replayed from what an H200 gave; no device is needed."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from tools.clock import Allowance, Clocks, Reading
from tools.contract import Scalar, Signature, Tensor, slots
from tools.cuda_device import CudaDevice
from tools.cuda_look import may_leak
from tools.cuda_sanitizer import LEAK_CALLS, LEAKS, Left, encode_plan, leak_outcome, outcome_of, read_finding, read_left
from tools.errors import InfrastructureError
from tools.facts import TaskFacts
from tools.messages import MESSAGE, MESSAGE_BYTES, Kind, Place
from tools.process import Completed
from tools.records import STAGES, Accepted, Kernel, Rejected, Verdict
from tools.sandbox import LEVELS, Confinement, Level, attempt
from tools.targets.cuda_toolkit import PYCUDA_ADVICE
from tools.wire import decode, explain

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/golden/h200/judge"
VERDICT: TypeAdapter[Accepted | Rejected] = TypeAdapter(Verdict)


def recorded(section: str) -> dict[str, Any]:
    record = json.loads((GOLDEN / f"{section}.json").read_text())
    assert record["chip"] == "NVIDIA H200"
    assert record["driver"] and record["date"]
    found: dict[str, Any] = record[section]
    return found


def verdict_of(name: str) -> Accepted | Rejected:
    return VERDICT.validate_python(recorded("fixtures")[name]["verdict"])


def said_by(name: str) -> str:
    """What the sanitizer printed of a fixture."""
    return verdict_of(name).stages[-1].stdout


def test_every_example_was_accepted_in_the_strongest_sandbox_of_that_machine() -> None:
    found = recorded("examples")
    assert set(found) == {path.parent.name for path in (ROOT / "examples").glob("*/task.toml")}
    for row in found.values():
        verdict, facts = VERDICT.validate_python(row["verdict"]), TaskFacts.model_validate(row["facts"])
        assert isinstance(verdict, Accepted)
        assert {report.stage for report in verdict.stages} >= set(STAGES) - {"open"}
        assert verdict.share_of_limit < 1
        assert facts.sandbox == "namespaces + Landlock 7 + seccomp + rlimits"
        assert 4.0e12 < facts.hardware["copy_bandwidth"] < 4.8e12  # type: ignore[operator]


COARSE = Allowance(coarse=True, slack=250e-6)


def single_calls() -> dict[str, Any]:
    """Readings of one session by both clocks, and the round trips around them."""
    found: dict[str, Any] = json.loads((GOLDEN.parent / "live/clocks.json").read_text())["clocks"]["judge"]
    return found


def test_the_recorded_clocks_agree_and_the_precise_one_counts() -> None:
    found = single_calls()
    readings = tuple(Reading(*pair) for pair in found["readings"])
    clocks = Clocks(readings, tuple(found["round_trips"]), COARSE)
    assert clocks.disagreement() is None
    assert clocks.seconds == [reading.inner for reading in readings]
    assert np.quantile(clocks.seconds, 0.9) < 1.3 * min(clocks.seconds), "single calls of 12 us, the slowest left out"


@pytest.mark.parametrize("hidden", [0.0005, 0.002])
def test_work_that_events_do_not_see_makes_the_clocks_disagree(hidden: float) -> None:
    found = single_calls()
    readings = tuple(Reading(inner, outer + hidden) for inner, outer in found["readings"])
    why = Clocks(readings, tuple(found["round_trips"]), COARSE).disagreement()
    assert why is not None
    assert "judge's clock" in why


def test_one_disturbed_call_does_not_make_them_disagree() -> None:
    found = single_calls()
    readings = [Reading(inner, outer) for inner, outer in found["readings"]]
    readings[3] = Reading(readings[3].inner, readings[3].outer + 0.1)
    assert Clocks(tuple(readings), tuple(found["round_trips"]), COARSE).disagreement() is None


@pytest.mark.parametrize(
    ("name", "tool", "summary", "lines"),
    [
        ("cuda_race", "racecheck", "a race in shared memory at kernel.cu:15 and kernel.cu:6 (racecheck)", [15, 6]),
        (
            "cuda_uninitialised",
            "initcheck",
            "Uninitialized __global__ memory read of size 4 bytes at kernel.cu:17 (initcheck)",
            [17],
        ),
        (
            "cuda_read_past_end",
            "memcheck",
            "Invalid __global__ read of size 4 bytes at kernel.cu:17 (memcheck)",
            [17],
        ),
    ],
)
def test_a_sanitizer_is_read_with_its_source_lines(name: str, tool: str, summary: str, lines: list[int]) -> None:
    finding = read_finding(tool, said_by(name))
    assert finding is not None
    assert finding.summary == summary
    assert [diagnostic.line for diagnostic in finding.diagnostics] == lines


def finished(code: int, text: str, *, timed_out: bool = False) -> Completed:
    return Completed(("tool",), code, None, timed_out, False, text, "", 1.0, False)


def test_a_sanitizer_that_could_not_look_is_no_acquittal() -> None:
    clean = "========= COMPUTE-SANITIZER\nreplay: done\n========= ERROR SUMMARY: 0 errors\n"
    assert outcome_of("memcheck", finished(0, clean)).trouble == ""
    assert "Device not supported" in outcome_of("memcheck", finished(1, "Device not supported")).trouble
    assert outcome_of("memcheck", finished(0, "")).trouble
    assert "more than" in outcome_of("memcheck", finished(-9, clean, timed_out=True)).trouble
    assert outcome_of("racecheck", finished(77, said_by("cuda_race"))).finding is not None


LEFT = """replay: done
========= Leaked 4,194,304 bytes at 0x7f2b40000000
=========     Saved host backtrace up to driver entry point at allocation time
=========
========= LEAK SUMMARY: 16777216 bytes leaked in 4 allocations
========= ERROR SUMMARY: 4 errors
"""


def test_what_a_kernel_keeps_is_no_finding_and_what_grows_is() -> None:
    kept, clean = outcome_of(LEAKS, finished(77, LEFT)), outcome_of(LEAKS, finished(0, "replay: done\n"))
    assert kept == clean and clean.finding is None and not clean.trouble
    first = read_left(LEFT)
    assert first == Left(4, 16 << 20) and read_left("========= ERROR SUMMARY: 0 errors") == Left(0, 0)
    assert leak_outcome(first, first, clean).finding is None
    assert leak_outcome(first, Left(7, 28 << 20), clean).finding is None  # not in every call
    grown = leak_outcome(first, Left(4 + LEAK_CALLS, 32 << 20), clean).finding
    assert grown is not None and "4,194,304 bytes a call" in grown.summary
    broken = finished(77, "========= Invalid __global__ read of size 4 bytes\n" + LEFT)
    found = outcome_of(LEAKS, broken).finding
    assert found is not None and "(memcheck)" in found.summary


@pytest.mark.parametrize(
    ("code", "said", "left"),
    [
        (1, "", True),
        (0, "", True),
        (3, "replay: kernel: cudaErrorLaunchFailure\n", False),
        (11, "========= Error: process didn't terminate successfully\n", False),
    ],
)
def test_a_kernel_that_leaves_only_when_it_is_watched_is_found(code: int, said: str, left: bool) -> None:
    outcome = outcome_of("memcheck", finished(code, f"{said}========= ERROR SUMMARY: 0 errors\n"))
    assert (outcome.finding is not None) == left and bool(outcome.trouble) == (not left)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "crashed"),
        ("CUDA_ERROR_ASSERT", "crashed"),
        ("CUDA_ERROR_LAUNCH_FAILED", "crashed"),
        ("CUDA_ERROR_MISALIGNED_ADDRESS", "crashed"),
        ("CUDA_ERROR_HARDWARE_STACK_ERROR", "crashed"),
        ("CUDA_ERROR_OUT_OF_MEMORY", "out_of_memory"),
        ("CUDA_ERROR_SOMETHING_NEW", "crashed"),
    ],
)
def test_a_device_fault_is_told_by_its_name(error: str, reason: str) -> None:
    data = MESSAGE.pack(0, Kind.DEVICE_FAULT, 0, 0, 0, 0, Place.ELSEWHERE, -1, error.encode())
    assert len(data) == MESSAGE_BYTES
    failure = explain(decode(data), [], 0, "")
    assert (failure.reason, failure.details) == (reason, {"error": error})
    assert error in failure.message


def test_a_recorded_workload_holds_inputs_values_and_room_for_outputs() -> None:
    def signature(rows: int) -> Signature:
        x, y = (Tensor(name=name, dtype="float32", shape=(rows,)) for name in "xy")
        return Signature(inputs=(x, Scalar(name="a", ctype="float64")), outputs=(y,))

    both = [signature(3), signature(4)]
    x = np.array([1, 2, 3], np.float32)
    plan = encode_plan(both[0], slots(both[0], both), {"x": x, "a": 0.5})
    (count,), place, found = struct.unpack_from("=Q", plan), 8, []
    for _ in range(count):
        kind, size, value, filled = struct.unpack_from("=QQQQ", plan, place)
        content = plan[place + 32 : place + 32 + size * filled]
        place += 32 + len(content)
        found.append((kind, size, value, content))
    assert place == len(plan)
    assert (0, 12, 0, x.tobytes()) in found
    assert (1, 12, 0, b"") in found
    assert (2, 0, 3, b"") in found
    assert (3, 0, struct.unpack("=Q", struct.pack("=d", 0.5))[0], b"") in found


PROBE = """
import os, socket
def tried(family):
    try:
        with socket.socket(family) as made:
            if family == socket.AF_UNIX:
                made.bind("\\0warpsmith-probe")
                made.listen(1)
        return "yes"
    except OSError:
        return "no"
def written(path):
    try:
        with open(path, "r+") as file:
            file.write(file.read())
        return "yes"
    except OSError:
        return "no"
own = f"/proc/self/task/{os.getpid()}/comm"
print(tried(socket.AF_UNIX), tried(socket.AF_INET), written(own), written("/proc/sys/kernel/hostname"))
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_with_devices_may_do_what_a_driver_insists_on_and_no_more(level: Level) -> None:
    sandbox = attempt(level)
    if sandbox is None or not sandbox.seccomp:
        pytest.skip(f"{level} does not work here")
    home = Path(sys.base_prefix).resolve()
    policy = Confinement(read_only=(home,), devices=(Path("/dev/zero"),), proc=True)
    command = sandbox.wrap([str(Path(sys.executable).resolve()), "-P", "-c", PROBE], policy)
    ran = subprocess.run(command, capture_output=True, text=True, env={}, cwd="/", timeout=30, check=False)
    unix, internet, own_name, settings = ran.stdout.split() or pytest.fail(ran.stderr)
    assert (unix, internet, own_name) == ("yes", "no", "yes")
    if level != "rlimits":
        assert settings == "no"


def test_without_pycuda_or_a_driver_the_device_says_what_is_missing() -> None:
    with pytest.raises(InfrastructureError, match=r"PyCUDA does not load|CUDA does not start") as caught:
        CudaDevice()
    assert caught.value.advice == (PYCUDA_ADVICE if "PyCUDA" in caught.value.message else "Run `warpsmith doctor`.")


@pytest.mark.parametrize(
    ("text", "looked_at"),
    [
        ("float* p; cudaMalloc(&p, 4);", True),
        ("cudaMallocAsync(&p, 4, stream);", True),
        ("cublasCreate(&handle);", True),
        ("cudaGraphInstantiate(&graph, g);", True),
        ("thrust::device_vector<float> v(4);", True),
        ("__global__ void k() { auto p = new float[4]; }", True),
        ("#define CALL(a, b) a##b\nCALL(cudaMa, lloc)(&p, 4);", True),
        ("// cudaMalloc would cost too much here\n#define VECTOR 4\nk<<<1, 32>>>();", False),
    ],
)
def test_what_a_kernel_leaves_behind_is_looked_at_where_its_text_may_take_memory(text: str, looked_at: bool) -> None:
    assert may_leak(Kernel(language="cuda", files={"task.h": "", "kernel.cu": text})) is looked_at


def test_no_starting_kernel_waits_for_a_look_at_what_it_leaves_behind() -> None:
    paths = list((ROOT / "examples").glob("*/kernel.cu"))
    assert len(paths) == 6
    for path in paths:
        assert not may_leak(Kernel(language="cuda", files={"kernel.cu": path.read_text()})), path
