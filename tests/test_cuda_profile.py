"""A CUDA profile as a whole: the profiler is run confined on the kernel alone, and without counters the rest is told.

No GPU is needed: a script stands in for ncu, which answers with what ncu said on an H200 or fails in ncu's words.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from small_tasks import HONEST, cpp, saxpy
from toolkit import needs_nvcc

from app.judging import print_profile
from app.terminal import console_for
from tools.counters import Counted, Uncounted
from tools.cuda_process import Host
from tools.device_code import DeviceCode, DeviceFunction
from tools.errors import InfrastructureError, KernelError
from tools.executor import LocalExecutor
from tools.facts import WorkloadFacts
from tools.profilers import ncu, sass
from tools.profilers.cuda import Standing, assemble, profile_kernel
from tools.profilers.kernel_names import bare_name, function_names
from tools.profilers.ncu_live import Subject, count
from tools.profilers.ncu_report import Findings, Pages, read_report
from tools.profiles import Profile, Roofline
from tools.records import Interval, Kernel
from tools.sandbox import LEVELS, Level, attempt, detect
from tools.targets.cuda_toolkit import find_devices

ZOO = Path(__file__).parent / "golden" / "h200" / "zoo"
DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
PROFILED = '==PROF== Profiling "scale": 0%....50%....100% - 38 passes'
SASS = """Function : _Z5scalePf
0000: LDC R1, c[0x0][0x28]
0010: @P0 EXIT
0020: LDG.E.128.CONSTANT R4, desc[UR4][R2.64]
0030: @!P1 LDG.E R5, desc[UR4][R2.64]
0040: FFMA R4, R5, R6, R7
0050: HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24
0060: STG.E.128 desc[UR4][R2.64], R4
0070: STL [R1], R2
0080: LDSM.16.M88.4 R4, [R2]
0090: BRA `(.L_x_1)
00a0: NOP
"""
CODE = DeviceCode(
    architecture="sm_90a",
    functions=(
        DeviceFunction(
            kind="kernel",
            name="void (anonymous namespace)::scale<float, 4>(float*, float const*)",
            symbol="_Z5scalePf",
            stack_bytes=8,
            spill_store_bytes=4,
            spill_load_bytes=4,
            registers=40,
            static_shared_bytes=1024,
        ),
        DeviceFunction(
            kind="function",
            name="helper(int)",
            symbol="_Z6helperi",
            stack_bytes=0,
            spill_store_bytes=0,
            spill_load_bytes=0,
        ),
    ),
)


# -------------------------------------------------------------------------------------------------- the profiler itself

STAND_IN = """#!/bin/sh
here={folder}
case "$*" in
  *--query-metrics*) gzip -dc $here/query.gz ;;
  *"--page raw"*) echo "$*" >> $TMPDIR/pages; gzip -dc $here/raw.gz ;;
  *"--page details"*) gzip -dc $here/details.gz ;;
  *"--page source"*) cat $here/source.csv ;;
  *) {collect} ;;
esac
"""
GOOD = f"touch $TMPDIR/report.ncu-rep; echo '{PROFILED}'"


@pytest.fixture
def profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in's folder; `install` puts it there."""
    folder = tmp_path.resolve() / "ncu-2025.3"
    folder.mkdir()
    for name, source in (
        ("query.gz", "query_metrics_gh100.txt.gz"),
        ("raw.gz", "zoo_ncu_raw.csv.gz"),
        ("details.gz", "zoo_ncu_details.csv.gz"),
        ("source.csv", "zoo_ncu_source_bank_conflict.csv"),
    ):
        shutil.copyfile(ZOO / source, folder / name)
    monkeypatch.setattr(ncu, "find_ncu", lambda: str(folder / "ncu"))
    return folder


def install(folder: Path, collect: str) -> None:
    (folder / "ncu").write_text(STAND_IN.format(folder=folder, collect=collect))
    (folder / "ncu").chmod(0o755)


def host(level: Level | None = None) -> Host:
    sandbox = detect() if level is None else attempt(level)
    if sandbox is None:
        pytest.skip(f"no {level} here")
    return Host("GPU-0", Path("/nowhere"), sandbox, None)


def subject(folder: Path) -> Subject:
    library = folder / "kernel.so"
    library.write_bytes(b"")
    return Subject(library, {"kernel.cu": "// nothing"}, CODE, b"the plan")


@needs_nvcc
@pytest.mark.parametrize("level", LEVELS)
def test_the_profiler_sees_its_program_and_nothing_else(profiler: Path, tmp_path: Path, level: Level) -> None:
    """It fails unless it can read plan and library, write its own folder, and (in a root of its own) nothing else."""
    bare = "" if level in ("landlock", "rlimits") else "test -e /etc/passwd && exit 7; "
    hidden = "" if level == "rlimits" else f"cat {tmp_path}/secret 2>/dev/null && exit 8; "
    (tmp_path / "secret").write_text("treasure")
    seen = f"{bare}{hidden}for word; do last2=$last1; last1=$last; last=$word; done; "
    seen += 'test "$(cat $last)" = "the plan" || exit 9; test -r $last2 || exit 10; test $last1 = 1 || exit 11; '
    seen += 'test "$HOME" = "$TMPDIR" || exit 12; test "$CUDA_VISIBLE_DEVICES" = GPU-0 || exit 13; '
    install(profiler, f"{seen}{GOOD}")
    found = count(host(level), subject(tmp_path.resolve()), ["dram__bytes.sum.per_second", "sm__no_such_thing.avg"], 30)
    assert isinstance(found, Findings), found
    assert found.counters.cause == "low_occupancy"  # of the zoo's launches the longest
    assert "dram__bytes.sum.per_second" in {metric.name for metric in found.metrics}
    assert any(line.startswith("sm__no_such_thing.avg: ") for line in found.missing)


@needs_nvcc
def test_kernels_are_asked_for_by_name_and_then_by_none(profiler: Path, tmp_path: Path) -> None:
    nothing = "echo '==WARNING== No kernels were profiled.'; exit 0"
    install(profiler, f'case "$*" in *"--kernel-name regex"*) {nothing} ;; *) {GOOD} ;; esac')
    assert isinstance(count(host(), subject(tmp_path.resolve()), (), 30), Findings)
    named = 'case "$*" in *"--kernel-name regex:(^|::)(scale)(<|$)"*) ' + GOOD + " ;; *) exit 3 ;; esac"
    install(profiler, named)
    assert isinstance(count(host(), subject(tmp_path.resolve()), (), 30), Findings)


@needs_nvcc
@pytest.mark.parametrize(
    ("collect", "reason"),
    [
        (f"echo '{DENIED}'; exit 1", "no_permission"),
        ("echo 'Failed to initialize the profiler: LibraryNotLoaded'; exit 1", "unsupported"),
        ("echo '==ERROR== LaunchFailed'; exit 1", "program_failed"),
        ("sleep 600", "timeout"),
        ("(sleep 600 &) ; sleep 600", "timeout"),
        ("while :; do echo flood flood flood; done", "timeout"),
        (f"echo '{PROFILED}'; exit 0", "failed"),
        ("exit 0", "failed"),
    ],
)
def test_every_way_to_fail_leaves_a_reason(profiler: Path, tmp_path: Path, collect: str, reason: str) -> None:
    install(profiler, collect)
    found = count(host(), subject(tmp_path.resolve()), (), 1.5 if reason == "timeout" else 30)
    assert isinstance(found, Uncounted)
    assert found.reason == reason and found.message


def test_a_machine_without_a_profiler_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    found = count(host("rlimits"), subject(tmp_path), (), 1)
    assert isinstance(found, Uncounted) and found.reason == "no_profiler"


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void (anonymous namespace)::scale<256>(float*)", "scale"),
        ("(anonymous namespace)::count(unsigned int const*, int)", "count"),
        ("a::b::run<std::pair<int, float>, (Kind)2>(a::T<int>)", "run"),
        ("softmax", "softmax"),
        ("_Z3fooPf", "_Z3fooPf"),
        ("void cutlass::Kernel2<cutlass_80_tensorop>(Params)", "Kernel2"),
    ],
)
def test_a_kernel_is_called_by_its_bare_name(name: str, bare: str) -> None:
    assert bare_name(name) == bare
    assert function_names(CODE) == ("scale",) and function_names(None) == ()


# ---------------------------------------------------------------------------------------------------- the whole profile


def standing(seconds: float = 1e-3, code: str | None = SASS) -> Standing:
    facts = WorkloadFacts(
        workload="large",
        weight=1.0,
        inputs=("x: float32[1]",),
        outputs=("y: float32[1]",),
        bytes=4e9,
        flops=1e9,
        baseline_seconds=2e-3,
        baseline_interval=Interval(low=2e-3, high=2e-3),
        limit_seconds=9e-4,
    )
    roofline = Roofline(bytes=4e9, seconds=seconds, peak_bandwidth=4.2e12, flops=1e9, peak_flops=6e13)
    return Standing("k" * 16, facts, roofline, "float32", CODE, code)


def findings() -> Findings:
    raw, details = (
        gzip.decompress((ZOO / f"zoo_ncu_{page}.csv.gz").read_bytes()).decode() for page in ("raw", "details")
    )
    found = read_report(Pages(raw, details, ""), {}, ["launch__stack_size"])
    assert isinstance(found, Findings)
    return found


def test_with_counters_the_profile_is_what_they_say() -> None:
    profile = assemble(standing(), findings(), ["launch__stack_size"])
    assert isinstance(profile.counters, Counted) and profile.counters.rules and profile.counters.stalls
    assert (profile.bottleneck, profile.counters.cause) == ("latency", "low_occupancy")
    assert {metric.source for metric in profile.metrics} == {"clock", "ncu"}
    assert "launch__stack_size" in {metric.name for metric in profile.metrics}
    assert profile.evidence[-2].startswith("95% of the measured bandwidth")
    assert Profile.model_validate_json(profile.model_dump_json()) == profile


@pytest.mark.parametrize("reason", ["no_permission", "no_profiler", "timeout", "program_failed", "busy"])
def test_without_counters_it_says_so_and_tells_the_rest(reason: str) -> None:
    profile = assemble(standing(), ncu.uncounted(reason), ["dram__bytes.sum"])  # type: ignore[arg-type]
    assert isinstance(profile.counters, Uncounted) and profile.counters.reason == reason
    assert profile.missing[0].startswith("hardware counters: ") and profile.missing[1].startswith("dram__bytes.sum: ")
    text = " | ".join(profile.evidence)
    assert "without counters" in profile.evidence[0] and "95% of the measured bandwidth" in text
    assert "scale: 40 registers, 8 bytes spilled, 1024 bytes of static shared memory" in text
    assert "1 global loads of 128 bits" in text and "1 tensor core instructions" in text
    assert profile.bottleneck == "memory"
    assert assemble(standing(seconds=1e-2), ncu.uncounted("timeout")).bottleneck == "latency"
    assert "ncu" not in {metric.source for metric in profile.metrics}


def test_without_a_disassembler_its_figures_are_missing_not_zero() -> None:
    profile = assemble(standing(code=None), ncu.uncounted("no_profiler"))
    assert any("no cuobjdump" in line for line in profile.missing)
    assert not any(metric.name.startswith("sass_") for metric in profile.metrics)


def test_instructions_are_counted_by_what_they_do() -> None:
    counts = sass.count(SASS)
    assert counts["all"] == 10
    wanted = {"wide_loads": 1, "narrow_loads": 1, "wide_stores": 1, "local_accesses": 1, "shared_accesses": 1}
    assert {name: counts[name] for name in wanted} == wanted
    assert (counts["fp32"], counts["tensor_instructions"], counts["narrow_stores"]) == (1, 1, 0)
    values = {metric.name: metric.value for metric in sass.metrics(sass.count(""))}
    assert values == {
        "sass_wide_loads": 0,
        "sass_narrow_loads": 0,
        "sass_local_accesses": 0,
        "sass_tensor_instructions": 0,
    }


@pytest.mark.parametrize("name", ["dram__bytes.sum,x", "--help", "a b", "", "x;y", "../x"])
def test_a_name_that_no_metric_can_have_is_refused(name: str) -> None:
    with pytest.raises(KernelError, match="can't be the name of a metric"):
        profile_kernel(None, Kernel(language="cuda", files={"kernel.cu": ""}), None, [name])  # type: ignore[arg-type]


def test_what_the_counters_say_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_profile(console_for(), assemble(standing(), findings()))
    told = " ".join(capsys.readouterr().out.split())
    assert "cause: low_occupancy" in told and "long_scoreboard" in told
    assert "the profiler's own rules" in told
    print_profile(console_for(), assemble(standing(), ncu.uncounted("no_permission")))
    assert "NVreg_RestrictProfilingToAdminUsers=0" in " ".join(capsys.readouterr().out.split())


async def test_metrics_by_name_are_a_gpu_s_and_a_gpu_s_profile_needs_one() -> None:
    async with LocalExecutor() as executor:
        with pytest.raises(KernelError, match="takes no further metrics"):
            await executor.profile(saxpy(), cpp(HONEST), None, ["dram__bytes.sum"])
        if not find_devices():
            kernel = Kernel(language="cuda", files={"kernel.cu": ""})
            with pytest.raises(InfrastructureError, match="no CUDA device"):
                await executor.profile(saxpy(), kernel, None, ["dram__bytes.sum"])
