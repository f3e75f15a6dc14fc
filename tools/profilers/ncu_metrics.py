"""The Nsight Compute metrics that a profile is made of: a table, checked against what the chip has.

A figure that the chip does not have, or that a run did not deliver, is listed as dropped and is nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

Group: TypeAlias = Literal["speed", "traffic", "access", "pipes", "occupancy", "warps", "launch"]

ELAPSED: Final = ".avg.pct_of_peak_sustained_elapsed"
L1: Final = "l1tex__t_"
PERCENT: Final = 0.01


class Figure(NamedTuple):
    """One row of the table. `sources` are ncu's names for it, the best first: chips differ in what they call it."""

    name: str
    sources: tuple[str, ...]
    unit: str
    group: Group
    use: str
    factor: float = 1.0
    """ncu's value, in base units, times this is the figure."""


def _peak(name: str, metric: str, group: Group, use: str, *others: str) -> Figure:
    """A share of what a unit can sustain, over the kernel's whole time."""
    sources = tuple(each + ELAPSED for each in (metric, *others))
    return Figure(name, sources, "fraction of peak", group, use, PERCENT)


def _percent(name: str, metric: str, unit: str, group: Group, use: str) -> Figure:
    return Figure(name, (metric,), unit, group, use, PERCENT)


def _count(name: str, metric: str, unit: str, group: Group, use: str) -> Figure:
    return Figure(name, (metric,), unit, group, use)


def _sectors(name: str, metric: str, use: str) -> Figure:
    return _count(name, f"{L1}sectors_pipe_lsu_mem_{metric}.sum", "sectors of 32 B", "traffic", use)


def _requests(name: str, metric: str, use: str) -> Figure:
    return _count(name, f"{L1}requests_pipe_lsu_mem_{metric}.sum", "requests of a warp", "access", use)


def _limit(name: str, use: str) -> Figure:
    return _count(f"limit_{name}", f"launch__occupancy_limit_{name}", "blocks/SM", "occupancy", use)


TENSOR: Final = "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active"
"""Matrix instructions alone. The plain tensor pipe also counts HFMA2, which compilers use to load constants: a kernel
without any matrix instruction was seen at 3 % of it."""

FIGURES: Final[tuple[Figure, ...]] = (
    _count("duration", "gpu__time_duration.sum", "s", "speed", "how long the kernel ran, with cold caches"),
    _peak("memory", "gpu__compute_memory_throughput", "speed", "busiest part of the memory system: the class"),
    _peak("compute", "sm__throughput", "speed", "busiest part of the multiprocessors: the class"),
    _peak("dram", "gpu__dram_throughput", "speed", "which memory level is the limit"),
    _peak("l1", "l1tex__throughput", "speed", "which memory level is the limit"),
    _peak("l2", "lts__t_sectors", "speed", "sectors through L2, as a share of what it can look up"),
    _count("dram_read", "dram__bytes_read.sum", "B", "traffic", "against the bytes that must move"),
    _count("dram_written", "dram__bytes_write.sum", "B", "traffic", "against the bytes that must move"),
    _percent("l1_hit_rate", f"{L1}sector_hit_rate.pct", "fraction", "traffic", "reuse inside a block"),
    _percent(
        "l1_load_hit_rate",
        f"{L1}sector_pipe_lsu_mem_global_op_ld_hit_rate.pct",
        "fraction",
        "traffic",
        "what of badly coalesced loads never leaves L1",
    ),
    _percent("l2_hit_rate", "lts__t_sector_hit_rate.pct", "fraction", "traffic", "reuse between blocks"),
    _count(
        "l2_sectors", "lts__t_sectors_srcunit_tex.sum", "sectors of 32 B", "traffic", "all that multiprocessors ask"
    ),
    _sectors("load_sectors", "global_op_ld", "sectors per request"),
    _sectors("store_sectors", "global_op_st", "sectors per request"),
    _sectors("reduction_sectors", "global_op_red", "atomics without an answer"),
    _sectors("atomic_sectors", "global_op_atom", "atomics with an answer"),
    _sectors("local_load_sectors", "local_op_ld", "spills and indexed local arrays"),
    _sectors("local_store_sectors", "local_op_st", "spills and indexed local arrays"),
    _requests("load_requests", "global_op_ld", "sectors per request"),
    _requests("store_requests", "global_op_st", "sectors per request"),
    _count(
        "excess_sectors",
        "derived__memory_l2_theoretical_sectors_global_excessive",
        "sectors of 32 B",
        "access",
        "sectors beyond those that the same bytes need when neighbours lie together",
    ),
    _count("spill_instructions", "sass__inst_executed_register_spilling", "instructions", "access", "spills alone"),
    _count("shared_wavefronts", "memory_l1_wavefronts_shared", "wavefronts", "access", "bank conflicts"),
    _count(
        "excess_wavefronts",
        "derived__memory_l1_wavefronts_shared_excessive",
        "wavefronts",
        "access",
        "passes through shared memory that conflicts add",
    ),
    _count("shared_loads", "sass__inst_executed_shared_loads", "instructions", "access", "ways of a bank conflict"),
    _count("shared_stores", "sass__inst_executed_shared_stores", "instructions", "access", "ways of a bank conflict"),
    Figure(
        "shared_pipe",
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed",),
        "fraction of peak",
        "access",
        "how busy shared memory is",
        PERCENT,
    ),
    _peak("issue", "sm__inst_issued", "pipes", "issue slots: the limit of a kernel that no single pipe holds up"),
    _peak("fp32_pipe", "sm__pipe_fma_cycles_active", "pipes", "which pipe is the limit", "sm__inst_executed_pipe_fma"),
    _peak("alu_pipe", "sm__pipe_alu_cycles_active", "pipes", "which pipe is the limit", "sm__inst_executed_pipe_alu"),
    _peak(
        "fp64_pipe", "sm__pipe_fp64_cycles_active", "pipes", "which pipe is the limit", "sm__inst_executed_pipe_fp64"
    ),
    _peak("xu_pipe", "sm__inst_executed_pipe_xu", "pipes", "special functions and conversions"),
    _peak("lsu_pipe", "sm__inst_executed_pipe_lsu", "pipes", "load and store instructions"),
    _peak(
        "tensor_pipe", TENSOR, "pipes", "whether tensor cores are used, and how well", "sm__pipe_tensor_cycles_active"
    ),
    _percent(
        "occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", "fraction of warps", "occupancy", "achieved"
    ),
    _percent(
        "theoretical_occupancy",
        "sm__maximum_warps_per_active_cycle_pct",
        "fraction of warps",
        "occupancy",
        "what registers, shared memory and block size allow",
    ),
    _limit("registers", "what limits occupancy"),
    _limit("shared_mem", "what limits occupancy"),
    _limit("warps", "what limits occupancy"),
    _limit("blocks", "what limits occupancy"),
    _limit("barriers", "what limits occupancy"),
    _percent(
        "issue_active",
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "fraction of cycles",
        "warps",
        "cycles in which a scheduler found a warp that could go on",
    ),
    _count("eligible_warps", "smsp__warps_eligible.avg.per_cycle_active", "warps/scheduler", "warps", "ready to issue"),
    _count(
        "warp_latency",
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "cycles/instruction",
        "warps",
        "how long a warp takes from one instruction to the next",
    ),
    _count(
        "active_lanes",
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "threads/instruction",
        "warps",
        "threads that take part in an instruction, of 32: divergence",
    ),
    _count("registers", "launch__registers_per_thread", "registers/thread", "launch", "occupancy, spills"),
    _count("shared_memory", "launch__shared_mem_per_block", "B/block", "launch", "occupancy"),
    _count("block_size", "launch__block_size", "threads", "launch", "occupancy"),
    _count("grid_size", "launch__grid_size", "blocks", "launch", "whether every multiprocessor has work"),
    _count("multiprocessors", "launch__sm_count", "SMs", "launch", "whether every multiprocessor has work"),
    _count("waves", "launch__waves_per_multiprocessor", "waves", "launch", "a nearly empty last wave"),
)


class StallReason(NamedTuple):
    """Why a warp does not issue: ncu's name, the column of the source page, and what it means."""

    name: str
    column: str
    meaning: str

    @property
    def source(self) -> str:
        """Warps in this state for each instruction issued, which is its cycles between two instructions of a warp."""
        return f"smsp__average_warps_issue_stalled_{self.name}_per_issue_active.ratio"


STALLS: Final[tuple[StallReason, ...]] = (
    StallReason("long_scoreboard", "stall_long_sb", "waits for a load from L1, L2 or DRAM"),
    StallReason("lg_throttle", "stall_lg", "waits because too many global or local accesses are queued"),
    StallReason("drain", "stall_drain", "has ended, and waits for its stores or atomics to be done"),
    StallReason("membar", "stall_membar", "waits at a memory fence"),
    StallReason("tex_throttle", "stall_tex", "waits because the texture queue is full"),
    StallReason("short_scoreboard", "stall_short_sb", "waits for shared memory, a special function or a conversion"),
    StallReason("mio_throttle", "stall_mio", "waits because too many shared-memory or special instructions are queued"),
    StallReason("barrier", "stall_barrier", "waits at __syncthreads for other warps of its block"),
    StallReason("gmma", "stall_gmma", "waits for an asynchronous matrix instruction"),
    StallReason("wait", "stall_wait", "waits out the fixed latency of its previous instruction"),
    StallReason("math_pipe_throttle", "stall_math", "waits for an arithmetic pipe that others keep busy"),
    StallReason("branch_resolving", "stall_branch_resolving", "waits for the target of a branch"),
    StallReason("no_instruction", "stall_no_inst", "waits for its instructions to be fetched"),
    StallReason("imc_miss", "stall_imc", "waits for a constant that is not in the cache"),
    StallReason("dispatch_stall", "stall_dispatch", "waits for the dispatcher"),
    StallReason("sleeping", "stall_sleep", "sleeps on __nanosleep"),
    StallReason("misc", "stall_misc", "waits for another reason"),
    StallReason("not_selected", "stall_not_selected", "could go on, but another warp was chosen"),
    StallReason("selected", "stall_selected", "issues an instruction"),
)

WORKING: Final = frozenset({"selected", "not_selected"})
"""States that are not waiting: the more of them, the fuller the issue slots."""

_QUERIED: Final = re.compile(r"([A-Za-z][\w.]*__\w+)\s+(?:Counter|Ratio|Throughput)\b")
_ROLLED_UP: Final = re.compile(r"\w\.(sum|min|max|avg|pct|ratio|max_rate)(\.\w+)?$")
_IN_REPORTS_ONLY: Final = ("derived__", "sass__", "memory_", "sm__maximum_warps_")
"""Prefixes of metrics that come with a section of the report, which no query lists."""


def named() -> tuple[str, ...]:
    """Every ncu name in the table, in its order."""
    names = [source for figure in FIGURES for source in figure.sources]
    return tuple(dict.fromkeys([*names, *(stall.source for stall in STALLS)]))


def can_be_asked(name: str) -> bool:
    """Whether `--metrics` takes the name. Without a roll-up (`launch__`, `derived__`, `sass__`) a metric comes with its
    section or not at all: asked for by name, one that ncu does not find ends the whole run."""
    return _ROLLED_UP.search(name) is not None


def parse_query(text: str) -> frozenset[str]:
    """Base names out of `ncu --query-metrics` (any number of its outputs, one after the other)."""
    return frozenset(match[1] for line in text.splitlines() if (match := _QUERIED.match(line)))


def is_known(name: str, queried: frozenset[str]) -> bool:
    """Whether the chip has the metric `name`. A family that the query does not cover at all gets the benefit of the
    doubt; it is checked by what a run delivers."""
    base = name.partition(".")[0]
    family = base.partition("__")[0] + "__"
    if base.startswith(_IN_REPORTS_ONLY) or not any(each.startswith(family) for each in queried):
        return True
    return base in queried


def validate(names: Iterable[str], queried: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`names` that the chip has, and those to drop."""
    every = tuple(dict.fromkeys(names))
    return tuple(n for n in every if is_known(n, queried)), tuple(n for n in every if not is_known(n, queried))


INTERMEDIATE: Final = frozenset(
    {"l2_sectors", "load_requests", "store_requests", "shared_loads", "shared_stores", "shared_wavefronts"}
    | {f"limit_{name}" for name in ("registers", "shared_mem", "warps", "blocks", "barriers")}
    | {figure.name for figure in FIGURES if figure.name.endswith("_sectors") and figure.name != "excess_sectors"}
)
"""Figures that others are made of: read, but not shown. A reader who gets every counter reads none."""


class Quotient(NamedTuple):
    """A figure made of two others; it does not exist where the second is 0."""

    name: str
    over: str
    under: tuple[str, ...]
    unit: str


QUOTIENTS: Final[tuple[Quotient, ...]] = (
    Quotient(
        "sectors_per_load", "load_sectors", ("load_requests",), "sectors/request (4 for 4-byte elements in a row)"
    ),
    Quotient("sectors_per_store", "store_sectors", ("store_requests",), "sectors/request"),
    Quotient("passes_per_shared_access", "shared_wavefronts", ("shared_loads", "shared_stores"), "passes (1 is ideal)"),
)


def read(values: Mapping[str, float]) -> tuple[dict[str, float], tuple[str, ...]]:
    """The table's figures out of one launch's metrics (ncu name to value in base units), and the names of those that
    were not delivered. Stalls are figures too, as `stall_NAME`, in cycles of a warp for each instruction."""
    figures: dict[str, float] = {}
    for figure in FIGURES:
        source = next((source for source in figure.sources if source in values), None)
        if source is not None:
            figures[figure.name] = values[source] * figure.factor
    for stall in STALLS:
        if stall.source in values:
            figures[f"stall_{stall.name}"] = values[stall.source]
    expected = [figure.name for figure in FIGURES] + [f"stall_{stall.name}" for stall in STALLS]
    missing = tuple(name for name in expected if name not in figures)
    for quotient in QUOTIENTS:
        if quotient.over in figures and all(name in figures for name in quotient.under):
            under = sum(figures[name] for name in quotient.under)
            if under > 0:
                figures[quotient.name] = figures[quotient.over] / under
    return figures, missing
