"""A verdict on the terminal: the stages, and the times or the reason."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from app.quantities import disturbance, duration, percent, throttling, times
from app.terminal import plain_table
from tools.device_code import DeviceCode, DeviceFunction, Occupancy
from tools.no_device import ADVICE
from tools.records import Accepted, Diagnostic, Rejected, Verdict, WorkloadTiming


def print_verdict(console: Console, verdict: Verdict, baseline: str) -> None:
    """The judge's answer: the stages, and the times or the reason."""
    table = plain_table("stage", "", "took", numeric=("took",))
    for stage in verdict.stages:
        mark = "[green]passed[/green]" if stage.passed else "[red]failed[/red]"
        table.add_row(stage.stage, mark, duration(stage.seconds))
    console.print(table)
    for stage in verdict.stages:
        if stage.build is not None and stage.build.device is not None:
            print_device_code(console, stage.build.device)
    console.print()
    if isinstance(verdict, Accepted):
        console.print("[bold green]accepted[/bold green]")
        console.print(timing_table(verdict.timings, baseline))
        console.print(
            f"{times(verdict.speedup)} against {baseline}"
            f"{by_baseline(verdict.speedup_over_eager, verdict.speedup_over_compile)},"
            f" {percent(verdict.share_of_limit)} of what the hardware allows,"
            f" largest error {percent(verdict.worst_error)} of its tolerance",
            highlight=False,
        )
        print_disturbance(console, verdict.cores_used_by_others, verdict.throttled)
    elif isinstance(verdict, Rejected):
        _print_rejection(console, verdict)
    else:
        console.print(f"[bold yellow]could not judge[/bold yellow]: {escape(verdict.message)}")
        if verdict.message in ADVICE:
            console.print(escape(ADVICE[verdict.message]), highlight=False)


def print_device_code(console: Console, code: DeviceCode) -> None:
    """What each kernel takes of a multiprocessor, and how full blocks of its size can make one."""
    numeric = ("registers", "stack", "spilled", "shared", "threads", "occupancy")
    table = plain_table(code.architecture, *numeric, "limited by", numeric=numeric)
    for f in code.functions:
        best = fullest(f)
        table.add_row(
            escape(f.name),
            "" if f.registers is None else str(f.registers),
            f"{f.stack_bytes} B",
            f"{f.spill_store_bytes + f.spill_load_bytes} B",
            "" if f.static_shared_bytes is None else f"{f.static_shared_bytes} B",
            _threads(f, best),
            percent(best.share) if best else "",
            ", ".join(best.limited_by) if best else "",
        )
    console.print()
    console.print(table)


def _threads(function: DeviceFunction, shown: Occupancy | None) -> str:
    """Of a block: as declared, or those with which a multiprocessor is fullest, where the launch alone decides."""
    if shown is None:
        return ""
    return str(shown.threads) if function.most_threads is not None else f"best at {shown.threads}"


def fullest(function: DeviceFunction) -> Occupancy | None:
    """The occupancy to show of a kernel: of its declared size of block, else the highest with the fewest threads."""
    declared = [each for each in function.occupancy if each.threads == function.most_threads]
    return next(iter(declared), None) or max(function.occupancy, key=lambda o: (o.share, -o.threads), default=None)


def timing_table(timings: Sequence[WorkloadTiming], baseline: str) -> Table:
    """Times by workload against the baseline and the limit."""
    numeric = ("time", "95 % interval", baseline, "limit", "of limit")
    table = plain_table("workload", *numeric, numeric=numeric)
    for t in timings:
        table.add_row(
            escape(t.workload),
            duration(t.seconds),
            f"{duration(t.interval.low)} - {duration(t.interval.high)}",
            duration(t.baseline_seconds),
            duration(t.limit_seconds),
            percent(t.limit_seconds / t.seconds),
        )
    return table


def place(diagnostic: Diagnostic) -> str:
    """`kernel.cpp:12:` or nothing."""
    if diagnostic.file is None:
        return ""
    return f"{diagnostic.file}:{diagnostic.line}: " if diagnostic.line is not None else f"{diagnostic.file}: "


def by_baseline(eager: float | None, compiled: float | None) -> str:
    """The speed against PyTorch as it is and against the better torch.compile, where both were timed."""
    if eager is None or compiled is None:
        return ""
    return f" ({times(eager)} against eager, {times(compiled)} against the better torch.compile)"


def print_disturbance(console: Console, cores: float | None, throttled: float | None) -> None:
    """A note where other programs kept cores busy meanwhile, and one where the device stayed throttled."""
    for told in (cores is not None and disturbance(cores), throttled is not None and throttling(throttled)):
        if told:
            console.print(f"[yellow]note[/yellow]      {told}.", highlight=False)


def _print_rejection(console: Console, verdict: Rejected) -> None:
    words = verdict.reason.replace("_", " ")
    console.print(f"[bold red]rejected[/bold red] at {verdict.stage}: {words}", highlight=False)
    console.print(escape(verdict.message), highlight=False)
    for d in verdict.diagnostics[:10]:
        console.print(f"  {escape(place(d))}{d.severity}: {escape(d.message)}", highlight=False)
    m = verdict.mismatch
    if m is not None:
        where = f"{m.output}[{', '.join(map(str, m.index))}]"
        console.print(
            f"  first wrong: {escape(where)} is {escape(m.actual)}, expected {escape(m.expected)};"
            f" {m.wrong} of {m.total} wrong (workload {escape(m.workload)}, {escape(m.distribution)} data)",
            highlight=False,
        )
        if m.worst_slice:
            console.print(f"  worst slice: {escape(m.worst_slice)}", highlight=False)
