"""Nsight Compute: its CSV is read from recordings, what was not delivered never becomes 0, and kernels whose
bottleneck is known are called by it. The profiler itself runs on few test machines: a shell script stands in for it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.counters import Counted, Uncounted
from tools.process import Completed
from tools.profilers import ncu
from tools.profilers.ncu import Wanted, collect_command, fault_of, page_command, uncounted
from tools.profilers.ncu_causes import SUSPECTS
from tools.profilers.ncu_classify import CLASSES, Reading, classify, top_stalls
from tools.profilers.ncu_csv import LineSamples, base_unit, number, parse_raw, parse_rules, parse_source
from tools.profilers.ncu_limits import find_limit, stall_shares
from tools.profilers.ncu_metrics import FIGURES, STALLS, can_be_asked, is_known, named, parse_query, read, validate
from tools.profilers.ncu_report import Findings, Pages, hot_lines, read_report
from tools.profiles import Metric, Profile, Roofline

GOLDEN = Path(__file__).parent / "golden" / "h200"
ZOO, TENSOR = GOLDEN / "zoo", GOLDEN / "tensor"


def text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


RAW = text(ZOO / "zoo_ncu_raw.csv.gz")
DETAILS = text(ZOO / "zoo_ncu_details.csv.gz")
CONFLICT = text(ZOO / "zoo_ncu_source_bank_conflict.csv")
QUERY = text(ZOO / "query_metrics_gh100.txt.gz")
LAUNCHES = {launch.kernel.partition("(")[0]: launch for launch in parse_raw(RAW)}
KNOWN = [
    # kernel, its comment in zoo.cu, class, cause, unit at its limit
    ("coalesced_copy", "DRAM-bandwidth bound", "memory", "dram_bandwidth", "dram"),
    ("strided_copy", "uncoalesced loads: 1 useful float a sector", "memory", "uncoalesced", "dram"),
    ("bank_conflict_transpose", "32-way shared-memory bank conflicts", "memory", "bank_conflicts", None),
    ("register_spill", "256 live values, 64 registers", "memory", "register_spills", None),
    ("naive_matmul", "L1/latency bound, no reuse in shared memory", "memory", "l1_bandwidth", "l1"),
    ("divergent", "each lane takes its own path", "compute", "divergence", "issue slots"),
    ("fma_bound", "fp32 pipe bound", "compute", "compute_pipe", "fp32_pipe"),
    ("atomic_contention", "all threads on 4 addresses", "latency", "atomics", None),
    ("low_occupancy", "one small block an SM: 200 KB of dynamic shared memory", "latency", "low_occupancy", None),
    ("tiny_launch", "too little work for the chip", "overhead", "small_grid", None),
]


def figures_of(kernel: str) -> dict[str, float]:
    return read(LAUNCHES[kernel].values)[0]


def reading_of(figures: dict[str, float]) -> Reading:
    reading = classify(figures)
    assert reading is not None
    return reading


# ----------------------------------------------------------------------------------------------------- classification


@pytest.mark.parametrize(("kernel", "comment", "bottleneck", "cause", "unit"), KNOWN)
def test_a_kernel_of_the_zoo_is_classified_as_its_comment_says(
    kernel: str, comment: str, bottleneck: str, cause: str, unit: str | None
) -> None:
    assert re.search(rf"\b{kernel}\(.*// {re.escape(comment)}", text(ZOO / "zoo.cu"))
    reading = reading_of(figures_of(kernel))
    assert (reading.bottleneck, reading.cause, reading.unit) == (bottleneck, cause, unit)
    assert reading.unexamined == ()


@pytest.mark.parametrize("kernel", [known[0] for known in KNOWN])
@pytest.mark.parametrize("factor", [0.93, 1.07])
def test_a_class_does_not_hang_on_a_few_percent(kernel: str, factor: float) -> None:
    """Every rate 7 % lower or higher, as on a run at another clock: the cause stays."""
    exact = ("duration", "active_lanes", "theoretical_occupancy", "waves", "grid_size", "multiprocessors")
    moved = {
        name: value if name in exact or value > 1 or name.startswith("stall_") else min(value * factor, 1.0)
        for name, value in figures_of(kernel).items()
    }
    assert reading_of(moved).cause == reading_of(figures_of(kernel)).cause


@pytest.mark.parametrize("kernel", [known[0] for known in KNOWN])
def test_the_decisive_sentence_comes_first_and_explains_the_cause(kernel: str) -> None:
    reading = reading_of(figures_of(kernel))
    words = {
        "dram_bandwidth": "the limit is dram at 87%",
        "uncoalesced": "78% of its memory traffic is sectors that coalesced accesses would not need",
        "bank_conflicts": "94% of the passes through shared memory are bank conflicts",
        "register_spills": "89% of its memory traffic is local memory (spilled registers)",
        "l1_bandwidth": "the limit is l1 at 91%",
        "divergence": "only 16.5 of 32 threads",
        "compute_pipe": "the limit is fp32_pipe at 88%",
        "atomics": "73% of its memory traffic is atomics",
        "low_occupancy": "only 3% of the warps that a multiprocessor holds can be resident (limited by shared memory)",
        "small_grid": "its 4 block(s) leave 128 of 132 multiprocessors without work",
    }
    assert words[reading.cause] in reading.evidence[0]


def test_kernels_that_no_threshold_was_chosen_for() -> None:
    launches = parse_raw(text(TENSOR / "tensor_ncu_raw.csv.gz"))
    scale, multiply = (read(launches[index].values)[0] for index in (0, 2))
    assert (reading_of(multiply).cause, reading_of(multiply).unit) == ("compute_pipe", "tensor_pipe")
    assert any("tensor pipe is busy 97%" in sentence for sentence in reading_of(multiply).evidence)
    # 56 % of DRAM's peak from blocks of one element a thread: it waits, and a third of the warps is not there to wait
    assert (reading_of(scale).bottleneck, reading_of(scale).cause) == ("latency", "imbalance")


def test_the_sections_that_are_asked_for_deliver_the_table() -> None:
    """A run with `SECTIONS` alone, of a kernel that reads shared memory with a stride of four: 4-way conflicts."""
    figures, missing = read(parse_raw(text(TENSOR / "four_way_ncu_raw.csv.gz"))[0].values)
    assert missing == ()
    assert figures["passes_per_shared_access"] == pytest.approx(4)
    assert reading_of(figures).cause == "bank_conflicts"


def test_loads_that_l1_serves_are_no_waste_of_dram() -> None:
    """Bad coalescing with all its sectors reused in L1 does not burden DRAM; without reuse it does."""
    figures = figures_of("strided_copy")
    assert reading_of(figures | {"l1_load_hit_rate": 0.875}).cause == "dram_bandwidth"


def test_memory_waste_is_no_cause_of_a_kernel_that_computes() -> None:
    figures = figures_of("strided_copy") | {"compute": 0.9, "issue": 0.9, "memory": 0.5, "dram": 0.5}
    assert reading_of(figures).cause == "issue_slots"


def test_few_warps_are_no_fault_of_a_kernel_that_feeds_tensor_cores() -> None:
    figures = figures_of("low_occupancy")
    assert reading_of(figures | {"tensor_pipe": 0.5, "compute": 0.5}).cause == "memory_latency"


def test_a_small_grid_that_runs_long_is_latency_not_overhead() -> None:
    reading = reading_of(figures_of("tiny_launch") | {"duration": 1e-3})
    assert (reading.bottleneck, reading.cause) == ("latency", "small_grid")


def test_a_short_launch_that_fills_the_chip_is_overhead() -> None:
    figures = figures_of("tiny_launch") | {"grid_size": 132.0, "theoretical_occupancy": 1.0, "duration": 2e-6}
    assert (reading_of(figures).bottleneck, reading_of(figures).cause) == ("overhead", "launch_overhead")


@pytest.mark.parametrize(
    ("stall", "cause"),
    [
        ("long_scoreboard", "memory_latency"),
        ("short_scoreboard", "shared_memory_latency"),
        ("barrier", "synchronization"),
        ("wait", "dependencies"),
        ("gmma", "dependencies"),
    ],
)
def test_where_nothing_else_explains_it_the_cause_is_what_warps_wait_for(stall: str, cause: str) -> None:
    figures = figures_of("low_occupancy") | {"theoretical_occupancy": 1.0, "occupancy": 1.0}
    figures |= {f"stall_{each.name}": 0.1 for each in STALLS} | {f"stall_{stall}": 20.0}
    assert reading_of(figures).cause == cause
    assert top_stalls(figures)[0].reason == stall


def test_every_cause_has_a_class_and_shares_are_shares() -> None:
    assert {suspect.cause for suspect in SUSPECTS} <= set(CLASSES)
    for launch in LAUNCHES.values():
        figures, _ = read(launch.values)
        limit = find_limit(figures)
        assert limit is not None
        assert all(0 <= suspect.share(figures, limit)[0] <= 1 for suspect in SUSPECTS)
        assert sum(stall_shares(figures).values()) == pytest.approx(1)


# ------------------------------------------------------------------------------------------- what was not delivered


@pytest.mark.parametrize("cell", ["", "no data", "n/a", "N/A", "nan", "inf", "-", "PolicySpread", "(256, 1, 1)"])
def test_a_cell_without_a_number_is_missing(cell: str) -> None:
    assert number(cell) is None


def test_missing_cells_have_no_value_and_are_listed() -> None:
    launch = LAUNCHES["coalesced_copy"]
    for name in (
        "sass__inst_executed_register_spilling_mem_local",  # no data
        "FBSP.TriageCompute.dramc__throughput.avg.pct_of_peak_sustained_elapsed",  # empty
        "derived_tempMetric4",  # nan
    ):
        assert name in launch.absent
        assert name not in launch.values


@pytest.mark.parametrize("kernel", [known[0] for known in KNOWN])
def test_without_a_figure_no_cause_is_made_up(kernel: str) -> None:
    """Taking any one metric away keeps the cause, or withdraws the judgement; what could not be examined is listed."""
    launch = LAUNCHES[kernel]
    whole = reading_of(figures_of(kernel))
    for figure in FIGURES:
        figures, missing = read({name: value for name, value in launch.values.items() if name not in figure.sources})
        assert figure.name in missing
        assert figure.name not in figures
        reading = classify(figures)
        if reading is not None and reading.cause != whole.cause:
            assert any(whole.cause in line and figure.name in line for line in reading.unexamined), figure.name


def test_one_side_of_the_chip_does_not_decide_alone() -> None:
    """Compute at 61 % looks like a limit as long as nobody knows that L1 is at 91 %."""
    for kernel in ("naive_matmul", "tiny_launch"):
        for side in ("memory", "compute"):
            assert classify({name: value for name, value in figures_of(kernel).items() if name != side}) is None
    assert classify({}) is None


def test_a_wait_is_not_named_when_stalls_were_not_delivered() -> None:
    """Without stalls the largest of no shares would be the first in the list."""
    for kernel, decided in (("atomic_contention", False), ("coalesced_copy", True)):
        figures = {n: value for n, value in figures_of(kernel).items() if n != "stall_long_scoreboard"}
        assert (classify(figures) is not None) == decided
    pre_hopper = {name: value for name, value in figures_of("atomic_contention").items() if name != "stall_gmma"}
    assert reading_of(pre_hopper).cause == "atomics"


@given(st.sets(st.sampled_from([figure.name for figure in FIGURES])), st.sampled_from([known[0] for known in KNOWN]))
def test_any_set_of_metrics_can_be_missing(gone: set[str], kernel: str) -> None:
    figures = {name: value for name, value in figures_of(kernel).items() if name not in gone}
    reading = classify(figures)
    if {"memory", "compute"} & gone:
        assert reading is None
    if reading is not None:
        examined = {suspect.cause for suspect in SUSPECTS if not set(suspect.needs) & gone}
        listed = {line.split()[1] for line in reading.unexamined} - {"compute_pipe"}
        assert listed == {suspect.cause for suspect in SUSPECTS} - examined
        assert reading.cause in examined | {
            suspect for suspect in CLASSES if suspect not in {s.cause for s in SUSPECTS}
        }


# ------------------------------------------------------------------------------------------------------------ pages


def test_raw_values_are_in_base_units_without_separators() -> None:
    launch = LAUNCHES["coalesced_copy"]
    assert launch.values["gpu__time_duration.sum"] == pytest.approx(123.04e-6)
    assert launch.values["dram__bytes_read.sum"] == pytest.approx(268.445e6)
    assert launch.units["dram__bytes_read.sum"] == "byte"
    assert launch.values["dram__bytes.sum.per_second"] == pytest.approx(4.168722e12)
    assert LAUNCHES["atomic_contention"].values["derived_tempMetric1"] == 3_276_800  # 3,276,800 in the page
    assert (launch.grid, launch.block, launch.id) == ("(65536, 1, 1)", "(256, 1, 1)", 0)
    assert len(LAUNCHES) == 10


@pytest.mark.parametrize(
    ("unit", "factor", "base"),
    [
        ("Gbyte/s", 1e9, "byte/s"),
        ("us", 1e-6, "s"),
        ("nsecond", 1e-9, "s"),
        ("sector/ns", 1e9, "sector/s"),
        ("Ghz", 1e9, "hz"),
        ("Kbyte/block", 1e3, "byte/block"),
        ("%", 1, "%"),
        ("", 1, ""),
        ("byte", 1, "byte"),
        ("SM", 1, "SM"),
    ],
)
def test_units_become_base_units(unit: str, factor: float, base: str) -> None:
    assert base_unit(unit) == (pytest.approx(factor), base)


def test_what_is_printed_around_the_table_is_skipped() -> None:
    noise = '==PROF== Connected to process 483 (/zoo)\n==PROF== Profiling "copy": 0%....100% - 38 passes\ndone, "x"\n'
    assert [launch.kernel for launch in parse_raw(noise + RAW + "==PROF== Disconnected\n")] == [
        launch.kernel for launch in LAUNCHES.values()
    ]
    assert len(parse_rules(noise + DETAILS)) == len(parse_rules(DETAILS))


@pytest.mark.parametrize("page", ["", "==ERROR== nothing\n", '"ID","Kernel Name"\n', "no, table\n", '"ID"\n'])
def test_a_page_without_a_table_has_no_launches(page: str) -> None:
    assert parse_raw(page) == ()
    assert parse_rules(page) == ()
    assert parse_source(page) == ()


def test_a_page_that_breaks_off_keeps_its_whole_rows() -> None:
    assert len(parse_raw(RAW[: len(RAW) * 3 // 4])) in range(5, 10)


def test_rules_come_with_their_estimate() -> None:
    rows = parse_rules(DETAILS)
    assert len(rows) == 94
    conflicts = next(row for row in rows if row.rule.name == "UncoalescedSharedAccess")
    assert (conflicts.launch, conflicts.kind, conflicts.rule.scope) == (2, "OPT", "global")
    assert conflicts.rule.speedup == pytest.approx(0.881)
    assert "16252928 excessive wavefronts" in conflicts.rule.text
    assert next(row for row in rows if row.rule.name == "SOLBottleneck").rule.speedup is None
    assert not any("http" in row.rule.text for row in rows)


def test_samples_by_line_are_read_and_instructions_are_not_counted_twice() -> None:
    lines = parse_source(CONFLICT)
    assert {line.line: line.samples for line in lines} == {14: 129, 16: 1177, 17: 3157, 18: 2, 19: 6462, 20: 3784}
    counted = LAUNCHES["bank_conflict_transpose"].values["smsp__pcsamp_sample_count"]
    assert sum(line.samples for line in lines) == counted == 14711


def test_source_pages_without_samples_have_no_lines() -> None:
    assert parse_source(text(ZOO / "zoo_ncu_source_matmul_cuda.csv")) == ()
    assert parse_source(text(TENSOR / "tensor_ncu_source_sass.csv.gz")) == ()


def test_launches_of_one_function_are_added_up() -> None:
    lines = [line for line in parse_source(text(TENSOR / "tensor_ncu_source.csv.gz")) if "scale" in line.function]
    assert [line.line for line in lines] == [4, 5]


def test_hot_lines_say_what_warps_wait_for() -> None:
    files = {"zoo.cu": text(ZOO / "zoo.cu")}
    lines = hot_lines(parse_source(CONFLICT), LAUNCHES["bank_conflict_transpose"].kernel, files)
    assert [line.line for line in lines] == [19, 20, 17, 16]
    assert lines[0].share == pytest.approx(6462 / 14711)
    assert "= tile[threadIdx.x][threadIdx.y];" in lines[0].text
    assert "short_scoreboard" in lines[0].note
    assert hot_lines(parse_source(CONFLICT), "another(int)", files) == ()


def test_a_line_that_the_profiler_could_not_open_has_its_text_from_the_kernel() -> None:
    unopened = [
        LineSamples("kernel.cu", "f", 2, "<Unable to open source file>", 60, {}),
        LineSamples("/usr/include/cuda_fp16.hpp", "f", 7, "<Unable to open source file>", 30, {}),
        LineSamples("kernel.cu", "f", 99, "<Unable to open source file>", 10, {}),
    ]
    lines = hot_lines(unopened, "f", {"kernel.cu": "void f() {\n    wait();\n}\n"})
    assert [(line.file, line.line, line.text) for line in lines] == [
        ("kernel.cu", 2, "wait();"),
        ("/usr/include/cuda_fp16.hpp", 7, ""),
        ("kernel.cu", 99, ""),
    ]


def test_sectors_beyond_need_are_shown_and_told_where_they_are_not_the_cause() -> None:
    strided = reading_of(figures_of("strided_copy"))
    assert sum("coalesced accesses would not need" in sentence for sentence in strided.evidence) == 1
    served = reading_of(figures_of("strided_copy") | {"l1_load_hit_rate": 0.97})
    assert served.cause == "dram_bandwidth"
    assert any("would not need; L1 serves 97% of its loads" in sentence for sentence in served.evidence)
    found = read_report(Pages(RAW, DETAILS, ""), {})
    assert isinstance(found, Findings)
    assert "excess_sectors" in {metric.name for metric in found.metrics}


# ---------------------------------------------------------------------------------------------------- table and chip


def test_the_chip_has_what_is_asked_for_and_the_rest_is_dropped() -> None:
    queried = parse_query(QUERY)
    assert len(queried) > 3000
    kept, dropped = validate((*named(), "bogus__metric.sum", "sm__no_such_thing.avg"), queried)
    assert dropped == ("sm__no_such_thing.avg",)  # a family that the query does not cover is not judged
    assert kept == (*named(), "bogus__metric.sum")
    for name in (
        "smsp__warp_issue_stalled_memory_dependency_per_warp_active.pct",
        "sm__inst_executed_pipe_fp32.avg.pct_of_peak_sustained_active",
    ):
        assert not is_known(name, queried)
    assert is_known("anything__at_all.sum", frozenset())


def test_every_row_of_the_table_is_delivered_by_the_recorded_run() -> None:
    assert read(LAUNCHES["coalesced_copy"].values)[1] == ()
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)
    assert all(figure.use and figure.unit for figure in FIGURES)


def test_another_name_of_the_same_figure_is_used_when_the_first_is_not_there() -> None:
    values = dict(LAUNCHES["fma_bound"].values)
    first, second = next(figure for figure in FIGURES if figure.name == "tensor_pipe").sources
    assert read(values)[0]["tensor_pipe"] == 0
    del values[first]
    assert read(values)[0]["tensor_pipe"] == pytest.approx(values[second] / 100)


# ---------------------------------------------------------------------------------------------------------- findings


def pages(source: str = "") -> Pages:
    return Pages(RAW, DETAILS, source)


def test_a_report_becomes_the_parts_of_a_profile() -> None:
    one = "\n".join(line for line in RAW.splitlines() if not re.match(r'"[013-9]"', line))
    found = read_report(
        Pages(one, DETAILS, CONFLICT), {"zoo.cu": text(ZOO / "zoo.cu")}, ["launch__stack_size", "bogus__metric.sum"]
    )
    assert isinstance(found, Findings)
    assert (found.bottleneck, found.counters.cause) == ("memory", "bank_conflicts")
    assert found.counters.rules[0].name == "UncoalescedSharedAccess"
    assert not any(rule.name == "MemoryL2Compression" for rule in found.counters.rules)
    metrics = {metric.name: metric for metric in found.metrics}
    assert metrics["passes_per_shared_access"].value == pytest.approx(16.5)
    assert metrics["sectors_per_load"].value == pytest.approx(4)
    assert metrics["launch__stack_size"].value == 1024
    assert found.missing == ("bogus__metric.sum: this chip does not have it, or not under this name",)
    assert {metric.source for metric in found.metrics} == {"ncu"}
    profile = Profile(
        kernel="k",
        workload="w",
        bottleneck=found.bottleneck,
        evidence=found.evidence,
        metrics=found.metrics,
        missing=found.missing,
        hot_lines=found.hot_lines,
        roofline=Roofline(bytes=1, seconds=1, peak_bandwidth=1),
        counters=found.counters,
    )
    assert Profile.model_validate_json(profile.model_dump_json()) == profile


def test_of_several_launches_the_longest_is_reported() -> None:
    found = read_report(pages(), {})
    assert isinstance(found, Findings)
    assert found.counters.kernel.startswith("low_occupancy(")
    assert any("of 10 profiled launches" in sentence for sentence in found.evidence)
    assert any("time by source line" in line for line in found.missing)


def test_a_report_that_holds_too_little_is_uncounted() -> None:
    nothing = read_report(Pages("", "", ""), {})
    assert isinstance(nothing, Uncounted)
    assert nothing.reason == "no_kernels"
    rows = RAW.splitlines()
    blank = rows[0].replace("gpu__compute_memory_throughput.avg", "gpu__other.avg").replace("sm__throughput", "sm__x")
    little = read_report(Pages("\n".join([blank, *rows[1:]]), "", ""), {})
    assert isinstance(little, Uncounted)
    assert little.reason == "metrics_missing"


def test_a_profile_without_counters_has_no_figures_of_them() -> None:
    fields = {
        "kernel": "k",
        "workload": "w",
        "bottleneck": "memory",
        "evidence": ("it is",),
        "metrics": (Metric(name="dram", value=0.5, unit="fraction of peak", source="ncu"),),
        "roofline": Roofline(bytes=1, seconds=1, peak_bandwidth=1),
    }
    for counters in (None, uncounted("timeout")):
        with pytest.raises(ValueError, match="no ncu metrics"):
            Profile(**fields, counters=counters)  # type: ignore[arg-type]
    Profile(**fields, counters=Counted(kernel="f", cause="dram_bandwidth"))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ commands and faults

HEAD = "==WARNING== Note: Running with unmodified GPU clocks.\n==PROF== Connected to process 912 (/replay)\n"
PROFILED = '==PROF== Profiling "scale": 0%....50%....100% - 38 passes\n'
TAIL = "==PROF== Disconnected from process 912\n"
EXIT = "==ERROR== The application returned an error code (3).\n"
DENIED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see https://example.com\n"
)


def ran(output: str, *, timed_out: bool = False, exit_code: int = 0) -> Completed:
    return Completed(("ncu",), exit_code, None, timed_out, False, output, "", 1.0, False)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (HEAD + DENIED + TAIL + EXIT, "no_permission"),
        (HEAD + "==PROF== No kernels were profiled.\n" + TAIL, "no_kernels"),
        ("==WARNING== No kernels were profiled.\n", "no_kernels"),
        (HEAD + "done 0\n" + TAIL, "no_kernels"),
        (HEAD + TAIL + EXIT, "program_failed"),
        (HEAD + "==ERROR== LaunchFailed\n" + TAIL, "program_failed"),
        ("==ERROR== './nope' does not exist or is not an executable.\n", "failed"),
        ("==ERROR== Option '--section NoSuch' did not match any section.\n", "failed"),
        ("Failed to initialize the profiler: LibraryNotLoaded\n", "unsupported"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.\n" + HEAD + EXIT, "unsupported"),
        ("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool\n", "busy"),
        ("", "failed"),
    ],
)
def test_each_way_to_fail_has_its_reason(output: str, reason: str) -> None:
    fault = fault_of(ran(output, exit_code=1), has_report=False)
    assert fault is not None
    assert fault.reason == reason
    assert fault.message.startswith(ncu.ADVICE[fault.reason][0])


def test_a_program_that_fails_after_its_launches_were_profiled_is_no_fault() -> None:
    output = HEAD + PROFILED + TAIL + EXIT
    assert fault_of(ran(output, exit_code=3), has_report=True) is None
    missing_report = fault_of(ran(output, exit_code=3), has_report=False)
    assert missing_report is not None


def test_a_run_that_was_cut_off_is_a_timeout_even_with_a_report() -> None:
    fault = fault_of(ran(HEAD + PROFILED, timed_out=True), has_report=True)
    assert fault is not None
    assert fault.reason == "timeout"


def test_the_command_profiles_the_kernel_alone() -> None:
    wanted = Wanted(kernels=("solve_rows", "finish"), skip=2, count=4, metrics=("dram__bytes.sum",))
    command = collect_command("ncu", ["./replay", "kernel.so"], Path("r.ncu-rep"), wanted, ["a__b.sum", "c__d.avg"])
    text_of = " ".join(command)
    assert "--clock-control none" in text_of
    assert "--kernel-name regex:(^|::)(solve_rows|finish)(<|$)" in text_of
    assert "--launch-skip 2 --launch-count 4" in text_of
    assert "--metrics a__b.sum,c__d.avg" in text_of
    assert text_of.count("--section ") == len(ncu.SECTIONS)
    assert command[-2:] == ["./replay", "kernel.so"]
    assert "--kernel-name" not in collect_command("ncu", ["x"], Path("r"), Wanted(), [])
    assert "--print-units base" in " ".join(page_command("ncu", Path("r"), "raw"))
    assert page_command("ncu", Path("r"), "source")[-2:] == ["--print-source", "cuda,sass"]


STAND_IN = """#!/bin/sh
case "$*" in
  *--query-metrics*) gzip -dc {zoo}/query_metrics_gh100.txt.gz ;;
  *"--page raw"*) gzip -dc {zoo}/zoo_ncu_raw.csv.gz ;;
  *"--page details"*) gzip -dc {zoo}/zoo_ncu_details.csv.gz ;;
  *"--page source"*) cat {zoo}/zoo_ncu_source_bank_conflict.csv ;;
  *) {collect} ;;
esac
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, collect: str) -> None:
    """A script in ncu's place that answers with the recordings."""
    script = folder / "ncu"
    script.write_text(STAND_IN.format(zoo=ZOO, collect=collect))
    script.chmod(0o755)
    monkeypatch.setattr(ncu, "find_ncu", lambda: str(script))


def collected(folder: Path, timeout: float = 20.0, metrics: tuple[str, ...] = ()) -> Findings | Uncounted:
    env = {"PATH": "/usr/bin:/bin"}
    wanted = Wanted(metrics=metrics)
    return ncu.collect(["./replay"], files={}, wanted=wanted, folder=folder, timeout=timeout, env=env)


def test_a_run_goes_from_the_program_to_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "said"
    stand_in(tmp_path, monkeypatch, f"echo \"$*\" > {log}; touch {tmp_path}/report.ncu-rep; echo '{PROFILED}'")
    found = collected(tmp_path, metrics=("sm__no_such_thing.avg",))
    assert isinstance(found, Findings)
    assert found.counters.cause == "low_occupancy"
    assert found.missing[0].startswith("sm__no_such_thing.avg: this chip does not have it")
    assert "sm__no_such_thing" not in log.read_text()
    assert "gpu__time_duration.sum" in log.read_text()


def test_a_chip_is_asked_for_its_metrics_once_and_not_kept_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    script, log = tmp_path / "ncu", tmp_path / "asked"
    answer = f'echo "$*" >> {log}; gzip -dc {ZOO}/query_metrics_gh100.txt.gz; case "$*" in *launch*) exit $FAILS;; esac'
    script.write_text(f"#!/bin/sh\n{answer}\n")
    script.chmod(0o755)
    for fails, asked in (("1", 2), ("0", 4), ("0", 4)):
        monkeypatch.setenv("FAILS", fails)
        ncu.chip_metrics.cache_clear()
        assert "dram__bytes" in ncu.chip_metrics(str(script))
        assert len(log.read_text().splitlines()) == asked


def test_only_what_has_a_roll_up_is_asked_for_by_name() -> None:
    assert can_be_asked("dram__bytes_read.sum.per_second")
    assert not any(map(can_be_asked, ("launch__grid_size", "derived__local_spilling_requests", "dram__bytes.sum;x")))


def test_a_metric_that_ends_the_run_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = "echo '==ERROR== Failed to find metric regex:^a__b$'; exit 9"
    profile = f"touch {tmp_path}/report.ncu-rep; echo '{PROFILED}'"
    stand_in(tmp_path, monkeypatch, f'case "$*" in *--metrics*) {refuse} ;; *) {profile} ;; esac')
    assert isinstance(collected(tmp_path), Findings)


def test_a_profiler_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "sleep 600")
    found = collected(tmp_path, timeout=0.5)
    assert isinstance(found, Uncounted)
    assert found.reason == "timeout"


def test_counters_that_are_denied_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"echo '{DENIED}'; exit 1")
    found = collected(tmp_path)
    assert isinstance(found, Uncounted)
    assert found.reason == "no_permission"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.message


def test_no_profiler_is_a_reason_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", ())
    found = collected(tmp_path)
    assert isinstance(found, Uncounted)
    assert found.reason == "no_profiler"
