"""Profiles: what each instrument says, how figures become a class, and that nothing missing is ever read as 0.

Hardware counters exist on few test machines, so perf's part is tested on output in its format, and by its detection.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tools.contract import Scalar, Signature, Tensor, slots, task_header
from tools.errors import InfrastructureError, KernelError
from tools.executor import LocalExecutor
from tools.judge import Judge, open_task
from tools.profilers import perf, sampling, valgrind
from tools.profilers.classify import Observed, classify
from tools.profilers.cpu import profile_kernel
from tools.profilers.gather import Subject, gather
from tools.profilers.replay import count_regions, record
from tools.profilers.vectorization import parse_report
from tools.profiles import Metric, Profile, Roofline
from tools.records import Kernel
from tools.sandbox import LEVELS, Level, attempt, detect
from tools.targets.cpu import CpuTarget
from tools.task import TaskSource, WorkloadSpec
from tools.toolchain import find_compiler

STAT = """# started on Tue Mar  4 10:21:07 2025

4021337214,,cycles:u,1203882211,71.43,,
9872113456,,instructions:u,1203882211,85.71,2.45,insn per cycle
1203388112,,branches:u,1203882211,71.43,999.590,M/sec
1203388,,branch-misses:u,1203882211,71.43,0.10,of all branches
51200000,,cache-references:u,1203882211,71.43,42.529,M/sec
25600000,,cache-misses:u,1203882211,71.43,50.00,of all cache refs
3000000000,,L1-dcache-loads:u,1203882211,71.43,2.492,G/sec
<not counted>,,L1-dcache-load-misses:u,0,0.00,,
<not supported>,,stalled-cycles-backend:u,0,100.00,,
1203.88,msec,task-clock:u,1203882211,100.00,1.987,CPUs utilized
,,,,,0.53,insn per cycle
"""
HYBRID = (
    "600,,cpu_core/cycles/,10,60.00,,\n400,,cpu_atom/cycles/,10,40.00,,\n<not counted>,,cpu_atom/branches/,0,0.00,,\n"
)
CACHEGRIND = """desc: I1 cache: 32768 B, 64 B, 8-way associative
cmd: ./replay kernel.so plan 1 8
events: Ir Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim
fl=./kernel.cpp
fn=solve
10 700 100 50 10 100 0 0 100 1 0 0
11 200 100 0 0 0 0 0 0 0 0 0
fl=/usr/include/c++/12/cmath
fn=solve
99 100 0 0 0 0 0 0 0 0 0 0
summary: 1000 200 50 10 100 0 0 100 1 0 0
"""
ROOF = Roofline(bytes=4e6, seconds=1e-3, peak_bandwidth=1e10, flops=1e6, peak_flops=1e11)


def metric(name: str, value: float) -> Metric:
    return Metric(name=name, value=value, unit="x", source="perf")


# ------------------------------------------------------------------------------------------------------------- perf


def test_perf_counts_are_read_and_what_was_not_measured_is_missing() -> None:
    counts, missing = perf.parse_stat(STAT)
    assert counts["cycles"] == 4021337214
    assert counts["task-clock"] == 1203.88
    assert missing == ("L1-dcache-load-misses", "stalled-cycles-backend")
    assert not set(missing) & set(counts)


def test_perf_units_of_a_hybrid_chip_are_added_up() -> None:
    counts, missing = perf.parse_stat(HYBRID)
    assert counts == {"cycles": 1000.0}
    assert missing == ("branches",)


def test_figures_that_need_a_missing_count_are_missing_not_zero() -> None:
    found, missing = perf.metrics(perf.parse_stat(STAT)[0])
    values = {figure.name: figure.value for figure in found}
    assert values["ipc"] == pytest.approx(2.455, abs=0.001)
    assert values["traffic"] == 25600000 * 64
    assert values["llc_miss_rate"] == 0.5
    assert set(missing) == {"backend_stalls", "l1d_miss_rate", "dtlb_miss_rate", "page_faults"}
    assert not set(missing) & set(values)
    assert perf.metrics({}) == ((), tuple(name for name, _, _ in perf.METRICS))


def test_one_call_is_the_difference_to_a_run_without_calls() -> None:
    calls = perf.per_call({"cycles": 1000.0, "branches": 50.0}, {"cycles": 200.0, "branches": 60.0}, 8)
    assert calls == {"cycles": 100.0}


def test_the_detection_agrees_with_perf_itself() -> None:
    perf.missing_reason.cache_clear()
    reason = perf.missing_reason()
    if shutil.which("perf") is None:
        assert reason == "perf is not installed"
        return
    command = ["perf", "stat", "-x,", "-e", "cycles,instructions", "--", "true"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    works = not any(mark in said for mark in ("<not", "rror", "No permission")) and "cycles" in said
    assert (reason is None) == works


def test_without_perf_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    perf.missing_reason.cache_clear()
    assert perf.missing_reason() == "perf is not installed"
    monkeypatch.undo()
    perf.missing_reason.cache_clear()


# --------------------------------------------------------------------------------------------------------- valgrind


def test_cachegrind_s_result_is_read_by_line() -> None:
    result = valgrind.parse(CACHEGRIND)
    assert result.totals["Ir"] == 1000
    assert result.lines["./kernel.cpp", 10]["D1mr"] == 50
    found, missing = valgrind.metrics(result.totals, complete=True)
    values = {figure.name: figure.value for figure in found}
    assert values["instructions"] == 1000
    assert values["traffic"] == 10 * 64
    assert values["l1d_miss_rate"] == pytest.approx(50 / 300)
    assert missing == ()


def test_a_cut_off_simulation_gives_rates_but_no_totals() -> None:
    found, missing = valgrind.metrics(valgrind.parse(CACHEGRIND).totals, complete=False)
    assert {figure.name for figure in found} & {"instructions", "loads", "stores", "traffic"} == set()
    assert set(missing) == {"instructions", "loads", "stores", "traffic"}


def test_a_rate_over_nothing_is_missing() -> None:
    found, missing = valgrind.metrics({"Ir": 10, "Dr": 0, "Dw": 0, "Bc": 0, "Bi": 0}, complete=True)
    assert set(missing) == {"l1d_miss_rate", "l2_miss_rate", "branch_miss_rate"}
    assert "l1d_miss_rate" not in {figure.name for figure in found}


def test_hot_lines_are_the_kernel_s_own_with_what_stands_out() -> None:
    files = {"kernel.cpp": "\n" * 9 + "    c += a[i * n];\n    d += 1;\n"}
    first, second = valgrind.hot_lines(valgrind.parse(CACHEGRIND), files)
    assert (first.file, first.line, first.text) == ("kernel.cpp", 10, "c += a[i * n];")
    assert first.share == pytest.approx(700 / 900)
    assert "25% of its accesses miss L1 (100% of all L1 misses)" in first.note
    assert second.line == 11


@pytest.mark.parametrize("text", ["", "events: Ir\nfl=a\n", "summary: 12\n"])
def test_half_a_result_is_an_error(text: str) -> None:
    with pytest.raises(InfrastructureError, match="no complete result"):
        valgrind.parse(text)


def test_the_simulated_caches_are_those_of_a_core(tmp_path: Path) -> None:
    def cache(index: int, level: int, kind: str, size: str, ways: int) -> None:
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        texts = {"level": level, "type": kind, "size": size, "ways_of_associativity": ways, "coherency_line_size": 64}
        for name, value in texts.items():
            (folder / name).write_text(f"{value}\n")

    cache(0, 1, "Data", "48K", 12)
    cache(1, 1, "Instruction", "32K", 8)
    assert valgrind.cache_options(tmp_path) == ()
    cache(2, 2, "Unified", "2048K", 16)
    cache(3, 3, "Unified", "307200K", 20)
    assert valgrind.cache_options(tmp_path) == ("--D1=49152,12,64", "--LL=2097152,16,64")
    assert valgrind.cache_options(tmp_path / "none") == ()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("./kernel.cpp", "kernel.cpp"),
        ("/any/where/src/./lib/tile.hpp", "lib/tile.hpp"),
        ("/usr/include/tile.hpp", None),
        ("mykernel.cpp", None),
    ],
)
def test_a_path_in_debug_information_means_a_kernel_s_file(path: str, name: str | None) -> None:
    assert valgrind.source_name(path, ["kernel.cpp", "lib/tile.hpp"]) == name


# --------------------------------------------------------------------------------------------------------- sampling

SCRIPT = """    7f16c34ba1d7 solve._omp_fn.0 (/cache/ab/kernel.so)
  kernel.cpp:11
    7f16c34ba1d9 solve._omp_fn.0 (/cache/ab/kernel.so)
  kernel.cpp:12
    7f16c348b622 [unknown] (/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0)
    55a201170593 [unknown] (/usr/bin/bwrap)
    7fae2eac999a _dl_lookup_symbol_x (/usr/lib/ld-linux-x86-64.so.2)
  dl-new-hash.h:77
"""


def test_samples_count_the_kernel_and_its_runtime_only() -> None:
    samples = sampling.parse_script(SCRIPT * 20, "kernel.so")
    assert (samples.total, samples.waiting) == (60, 20)
    assert samples.lines == {("kernel.cpp", 11): 20, ("kernel.cpp", 12): 20}
    lines = sampling.hot_lines(samples, {"kernel.cpp": "\n" * 10 + "hot();\nwarm();\n"})
    assert [(line.line, line.text, line.share) for line in lines] == [(11, "hot();", 1 / 3), (12, "warm();", 1 / 3)]


def test_too_few_samples_name_no_line() -> None:
    assert sampling.hot_lines(sampling.parse_script(SCRIPT, "kernel.so"), {"kernel.cpp": "\n" * 20}) == ()


# ---------------------------------------------------------------------------------------------------- vectorisation

SIGNATURE = Signature(
    inputs=(Tensor(name="a", dtype="float32", shape=(4096,)), Tensor(name="idx", dtype="int32", shape=(4096,))),
    outputs=(Tensor(name="y", dtype="float32", shape=(4096,)),),
)
LOOPS = """#include "task.h"
extern "C" void solve(const task::Args& args, void*) {
    const float* __restrict a = args.a; const int32_t* __restrict idx = args.idx; float* __restrict y = args.y;
    for (int64_t i = 0; i < args.y_size; ++i) y[i] = a[i] * 2.0f;  // plain
    for (int64_t i = 1; i < args.y_size; ++i) y[i] = y[i - 1] * a[i];  // recurrence
    for (int64_t i = 0; i < args.y_size; ++i) { if (a[i] > 3.0f) break; y[i] = 1.0f; }  // exit
    for (int64_t i = 0; i < args.y_size; ++i) y[idx[i]] += 1.0f;  // scatter
}
"""


def test_the_report_explains_each_loop_at_its_line() -> None:
    kernel = Kernel(language="cpp", files={"kernel.cpp": LOOPS}, flags=("-O3",))
    build = CpuTarget().compile_kernel(kernel, task_header("loops", [SIGNATURE]), "profile")
    assert build.library is not None, build.message
    notes = {line.line: line.note for line in parse_report(build.report.output, kernel.files)}
    assert notes[4].startswith("vectorised, ")
    assert "result of an earlier one" in notes[5]
    assert "early exit" in notes[6]
    assert "out of memory" in notes[7]


def test_loops_around_loops_and_other_files_are_not_listed() -> None:
    report = (
        "kernel.cpp:1:1: missed:  not vectorized: multiple nested loops.\n"
        "kernel.cpp:1:1: missed: couldn't vectorize loop\n"
        "kernel.cpp:3:1: missed:   not vectorized: control flow in loop.\n"
        "kernel.cpp:3:1: missed: couldn't vectorize loop\n"
        "kernel.cpp:4:5: optimized: loop vectorized using 32 byte vectors\n"
        "/usr/include/c++/12/vector:9:1: optimized: loop vectorized using 16 byte vectors\n"
        "a line that is something else\n"
    )
    text = "for (;;)\n\nfor (i)\n    for (j) x;\n"
    assert [(line.line, line.text) for line in parse_report(report, {"kernel.cpp": text})] == [(4, "for (j) x;")]


# ------------------------------------------------------------------------------------------------------- classifier


@pytest.mark.parametrize(
    ("expected", "observed"),
    [
        ("memory", Observed(roofline=ROOF.model_copy(update={"bytes": 7e6}), cores=2)),
        ("memory", Observed(roofline=ROOF, cores=2, metrics=(metric("traffic", 9e6),))),
        ("compute", Observed(roofline=ROOF.model_copy(update={"flops": 6e7}), cores=2)),
        ("compute", Observed(roofline=ROOF.model_copy(update={"flops": None}), cores=2, metrics=(metric("ipc", 3.0),))),
        (
            "compute",
            Observed(roofline=ROOF, cores=2, metrics=(metric("instructions", 1e7),), clock_hertz=2e9, busy=1.0),
        ),
        ("latency", Observed(roofline=ROOF.model_copy(update={"bytes": 1e5}), cores=2, metrics=(metric("ipc", 0.3),))),
        ("latency", Observed(roofline=ROOF.model_copy(update={"bytes": 1e5, "flops": None}), cores=2)),
        ("overhead", Observed(roofline=ROOF.model_copy(update={"seconds": 5e-6, "bytes": 64.0}), cores=2)),
        ("overhead", Observed(roofline=ROOF, cores=2, regions=200, fork_seconds=4e-6)),
    ],
)
def test_the_class_follows_from_the_figures(expected: str, observed: Observed) -> None:
    bottleneck, evidence = classify(observed)
    assert bottleneck == expected
    assert evidence
    assert all(any(digit.isdigit() for digit in sentence) for sentence in evidence)


def test_no_share_above_the_whole_is_claimed_where_the_simulated_build_retires_more_than_the_native_one_can() -> None:
    metrics = (metric("instructions", 1e8),)
    bottleneck, evidence = classify(Observed(roofline=ROOF, cores=2, metrics=metrics, clock_hertz=2e9, busy=1.0))
    assert bottleneck == "compute"
    assert "simulated" in evidence[0] and "not as measured" in evidence[0]
    assert not [share for share in re.findall(r"(\d+)%", " ".join(evidence)) if int(share) > 100]


def test_idle_cores_are_said() -> None:
    _, evidence = classify(Observed(roofline=ROOF, cores=8, busy=0.13))
    assert any("1.0 of 8 cores busy" in sentence for sentence in evidence)


# ----------------------------------------------------------------------------------------------------------- replay

CHECKING = """#include "task.h"
extern "C" int64_t scratch_bytes(const task::Args& args) { return args.x_d0 * 8; }
extern "C" void solve(const task::Args& args, void* scratch) {
    static_cast<double*>(scratch)[args.x_d0 - 1] = 1.0;
    bool right = args.x_d0 == 3 && args.x[2] == 2.5 && args.k == -7 && args.f == 0.25 && args.flag == 1;
    right = right && args.zero[0] == 9 && args.y[1] == 4.0f && args.none_size == 0;
    if (!right) __builtin_trap();
#pragma omp parallel num_threads(2)
    args.y[0] = 1.0f;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < 2; ++i) args.z[i] = 1;
}
"""


def scalars_and_shapes(rows: int) -> Signature:
    return Signature(
        inputs=(
            Tensor(name="x", dtype="float64", shape=(rows,)),
            Scalar(name="k", ctype="int64"),
            Scalar(name="f", ctype="float64"),
            Scalar(name="flag", ctype="bool"),
            Tensor(name="zero", dtype="int8", shape=()),
            Tensor(name="none", dtype="float32", shape=(0, 4)),
            Tensor(name="y", dtype="float32", shape=(2,)),
        ),
        outputs=(Tensor(name="y", dtype="float32", shape=(2,)), Tensor(name="z", dtype="int64", shape=(2,))),
    )


def test_a_recorded_workload_gives_the_kernel_every_kind_of_argument(tmp_path: Path) -> None:
    signatures = [scalars_and_shapes(3), scalars_and_shapes(5)]
    kernel = Kernel(language="cpp", files={"kernel.cpp": CHECKING})
    build = CpuTarget().compile_kernel(kernel, task_header("all kinds", signatures))
    assert build.library is not None, build.message
    inputs = {
        "x": np.array([0.5, 1.5, 2.5]),
        "k": -7,
        "f": 0.25,
        "flag": True,
        "zero": np.array(9, np.int8),
        "none": np.zeros((0, 4), np.float32),
        "y": np.array([3, 4], np.float32),
    }
    replay = record(signatures[0], slots(signatures[0], signatures), inputs, tmp_path.resolve(), detect())
    regions = count_regions(replay, build.library, 20)
    assert regions.count == 2
    assert 0 < regions.fork_seconds < 1
    wrong = record(signatures[0], slots(signatures[0], signatures), inputs | {"k": 8}, tmp_path.resolve(), detect())
    with pytest.raises(InfrastructureError, match="ended with"):
        count_regions(wrong, build.library, 20)


SPIN = """#include "task.h"
extern "C" void solve(const task::Args& args, void*) {
    float value = args.a[0];
    for (int64_t i = 0; i < 100000000; ++i) value = value * 0.999f + 1.0f;
    args.y[0] = value;
}
"""


def can_sample(folder: Path) -> bool:
    command = ["perf", "record", "-q", "-e", "cpu-clock:u", "-o", str(folder / "try"), "--", "true"]
    return (
        shutil.which("perf") is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize("level", LEVELS)
def test_time_is_sampled_by_line_behind_every_kind_of_sandbox(level: Level, tmp_path: Path) -> None:
    sandbox = attempt(level)
    if sandbox is None or not can_sample(tmp_path):
        pytest.skip("this machine has no such sandbox, or does not let us sample")
    kernel = Kernel(language="cpp", files={"kernel.cpp": SPIN})
    build = CpuTarget().compile_kernel(kernel, task_header("spin", [SIGNATURE]), "profile")
    assert build.library is not None
    inputs = {"a": np.ones(4096, np.float32), "idx": np.zeros(4096, np.int32)}
    replay = record(SIGNATURE, slots(SIGNATURE, [SIGNATURE]), inputs, tmp_path.resolve(), sandbox)
    argv = replay.confined(replay.program(build.library, 2, 30), build.library, observed=True)
    samples = sampling.sample(argv, build.library, tmp_path / "samples", 60)
    hottest = sampling.hot_lines(samples, kernel.files)[0]
    assert hottest.line == 4
    assert hottest.share is not None
    assert hottest.share > 0.8


PERF = """#!/bin/sh
mode=$1
if [ "$mode" = stat ]; then
  while [ "$1" != -- ]; do [ "$1" = -o ] && out=$2; shift; done
  shift; "$@" >/dev/null || exit 1
  if [ -z "$out" ]; then printf '9,,cycles,1,1,,\\n9,,instructions,1,1,,\\n' >&2; exit 0; fi
  case "$*" in *empty*) f=1;; *) f=3;; esac
  printf '%s000000,,cycles,1,1,,\\n%s000000,,instructions,1,1,,\\n<not supported>,,branches,0,1,,\\n' $f $f >"$out"
else
  echo "no permission to sample" >&2; exit 255
fi
"""


def test_with_counters_a_profile_uses_them_and_not_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "perf").write_text(PERF)
    (tmp_path / "bin" / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    perf.missing_reason.cache_clear()
    kernel = Kernel(language="cpp", files={"kernel.cpp": LOOPS})
    build = CpuTarget().compile_kernel(kernel, task_header("loops", [SIGNATURE]), "profile")
    assert build.library is not None
    inputs = {"a": np.ones(4096, np.float32), "idx": np.zeros(4096, np.int32)}
    replay = record(SIGNATURE, slots(SIGNATURE, [SIGNATURE]), inputs, tmp_path.resolve(), detect())

    def no_simulation() -> object:
        raise AssertionError("there are counters")

    findings = gather(Subject(kernel, build.library, no_simulation, replay, 0.25))  # type: ignore[arg-type]
    monkeypatch.undo()
    perf.missing_reason.cache_clear()
    values = {figure.name: (figure.value, figure.source) for figure in findings.metrics}
    assert values["cycles"] == (1e6, "perf")
    assert values["ipc"] == (1.0, "perf")
    assert "no permission to sample" in findings.missing["time by source line"]
    assert "branch_miss_rate" in findings.missing
    assert not set(findings.missing) & set(values)


# ------------------------------------------------------------------------------------------------- the whole profile

REFERENCE = """
import numpy as np

def inputs(rng, n):
    order = rng.permutation(n).astype(np.int32)
    following = np.empty(n, np.int32)
    following[order] = np.roll(order, -1)
    return {"following": following}

def reference(following):
    return following * np.int32(3) + np.int32(1)
"""
CHASE = """#include "task.h"
extern "C" void solve(const task::Args& args, void*) {
    int32_t at = 0;
    for (int64_t i = 0; i < args.following_size; ++i) {
        const int32_t next = args.following[at];
        args.out[at] = next * 3 + 1;
        at = next;
    }
}
"""
COPY = """#include "task.h"
extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i < args.following_size; ++i) args.out[i] = args.following[i] * 3 + 1;
}
"""
WIDE = """#include "task.h"
#include <immintrin.h>
extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i + 16 <= args.following_size; i += 16)
        _mm512_storeu_si512(args.out + i, _mm512_loadu_si512(args.following + i));
}
"""
TASK = TaskSource(
    name="cycle",
    kind="numpy",
    entry="cycle.py",
    files={"cycle.py": REFERENCE},
    workloads=(
        WorkloadSpec(name="tiny", parameters={"n": 64}),
        WorkloadSpec(name="large", parameters={"n": 1 << 21}),
    ),
)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_task(TASK) as judge:
        yield judge


def cpp(text: str) -> Kernel:
    return Kernel(language="cpp", files={"kernel.cpp": text})


def consistent(profile: Profile) -> dict[str, float]:
    """Checks what holds for every profile; its metrics by name."""
    values = {figure.name: figure.value for figure in profile.metrics}
    assert len(values) == len(profile.metrics)
    missing = {name for entry in profile.missing for name in entry.partition(": ")[0].split(", ")}
    assert not missing & set(values)
    assert values["seconds"] == profile.roofline.seconds > 0
    return values


def test_a_walk_through_memory_waits_on_latency_at_its_line(judge: Judge) -> None:
    found = profile_kernel(judge, cpp(CHASE))
    values = consistent(found)
    assert found.workload == "large"
    assert found.bottleneck == "latency"
    if "l1d_miss_rate" in values:
        assert values["l1d_miss_rate"] > 0.3
    if shutil.which("valgrind") or shutil.which("perf"):
        assert found.hot_lines[0].line in (4, 5, 6, 7)
    assert found.roofline.bytes == 2 * 4 * (1 << 21)
    assert found.roofline.flops is None


def test_a_tiny_call_is_overhead(judge: Judge) -> None:
    found = profile_kernel(judge, cpp(COPY), "tiny")
    consistent(found)
    assert (found.workload, found.bottleneck) == ("tiny", "overhead")
    assert any(line.note.startswith("vectorised") or "not vectorised" in line.note for line in found.vectorization)


def test_what_valgrind_can_t_run_is_missing_with_the_reason(judge: Judge) -> None:
    if "avx512f" not in find_compiler().cpu.split():
        pytest.skip("this machine has no AVX-512")
    if perf.missing_reason() is None:
        pytest.skip("this machine has counters and needs no simulation")
    found = profile_kernel(judge, cpp(WIDE), "large")
    consistent(found)
    assert any("does not build for an instruction set that valgrind can run" in entry for entry in found.missing)


def test_without_any_instrument_there_is_a_roofline_and_a_list(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = cpp(COPY)
    build = judge.build_variant(kernel, "profile")
    assert build.library is not None
    monkeypatch.setattr(shutil, "which", lambda _: None)
    perf.missing_reason.cache_clear()
    found = profile_kernel(judge, kernel, "tiny")
    monkeypatch.undo()
    perf.missing_reason.cache_clear()
    values = consistent(found)
    assert set(values) <= {"seconds", "busy_cores", "share_of_limit", "parallel_regions"}
    named = " ".join(found.missing)
    assert "perf is not installed" in named
    assert "valgrind is not installed" in named
    assert found.hot_lines == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#include "task.h"\nextern "C" void solve(const task::Args&, void*) { oops; }\n', r"kernel\.cpp:2: .*oops"),
        ('#include "task.h"\nextern "C" void solve(const task::Args&, void*) { *(int*)8 = 1; }\n', "can't be profiled"),
    ],
)
def test_a_kernel_that_does_not_build_or_run_is_an_error(judge: Judge, text: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        profile_kernel(judge, cpp(text), "tiny")


def test_an_unknown_workload_is_an_error_that_names_the_known_ones(judge: Judge) -> None:
    with pytest.raises(KernelError, match="tiny, large"):
        profile_kernel(judge, cpp(COPY), "huge")


async def test_the_tool_profiles_through_the_service() -> None:
    async with LocalExecutor() as executor:
        found = await executor.profile(TASK, cpp(COPY), "tiny")
        with pytest.raises(KernelError, match="no workload"):
            await executor.profile(TASK, cpp(COPY), "huge")
    assert found.workload == "tiny"
