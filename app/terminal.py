"""Tables on the terminal: a run's result, an attempt, a verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from app.plain import printable
from app.quantities import cost, disturbance, duration, percent, span, tally, times, tokens
from app.spending import Spending
from app.summary import Summary
from memory.runs import Attempt
from tools.records import (
    Accepted,
    DeviceCode,
    DeviceFunction,
    Diagnostic,
    Occupancy,
    Rejected,
    Verdict,
    WorkloadTiming,
)

_MEASURED = {
    "afresh": "Measured afresh at the end, best and start in turns: medians",
    "in the run": "As judged in the search: medians",
}
"""Where the figures of a result come from."""
CHANGES_SHOWN = 5
"""Of models that took over."""


class LastingConsole(Console):
    """Shows what others wrote and never obeys it; falls silent when its reader goes away (`| head`), where rich
    would end the program and with it the run."""

    def __init__(self, **settings: Any) -> None:
        """As rich's, but `:m:` in a model's name or a text stays what it is and becomes no emoji."""
        super().__init__(emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, less every control character in a text: whatever is printed here comes through this."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console_for(stderr: bool = False) -> Console:
    """A console that doesn't fold lines to 80 columns when it writes into a file or a pipe."""
    console = LastingConsole(stderr=stderr)
    return console if console.is_terminal else LastingConsole(stderr=stderr, width=160)


def plain_table(*columns: str, numeric: Sequence[str] = ()) -> Table:
    """An empty table with a rule under its head; columns named in `numeric` are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    return table


def print_summary(console: Console, summary: Summary, baseline: str) -> None:
    """The final table of a run."""
    console.print()
    console.print(f"[bold]{escape(summary.task)}[/bold]  {_ending(summary)}", soft_wrap=True)
    if summary.rows:
        console.print()
        console.print(_MEASURED[summary.measured or "in the run"], style="dim", highlight=False)
        console.print(_result_table(summary, baseline))
        console.print()
        console.print(_headline(summary, baseline))
        _print_disturbance(console, summary.cores_used_by_others)
    elif summary.start_problem:
        console.print(f"The starting kernel was not accepted: {escape(summary.start_problem)}")
    else:
        console.print("No attempt has been accepted.")
    console.print(f"attempts  {summary.attempts}: {_attempt_tally(summary)}", highlight=False)
    print_spending(console, summary.spending)


def print_spending(console: Console, spending: Spending) -> None:
    """Models and money; nothing for a run that asked no model that is paid by tokens."""
    if not spending.tokens and not spending.changes:
        return
    numeric = ("calls", "tokens in", "cached", "out", "reasoning", "cost", "retries", "failed")
    table = plain_table("role", "model", *numeric, numeric=numeric)
    for row in (*spending.rows, *([spending.total] if len(spending.rows) > 1 else [])):
        table.add_row(
            row.role or "all",
            escape(row.model),
            str(row.calls),
            tokens(row.input_tokens),
            percent(row.cached_share),
            tokens(row.output_tokens),
            tokens(row.reasoning_tokens) if row.reasoning_tokens else "",
            cost(row.dollars, row.unpriced_tokens),
            str(row.retries or ""),
            str(row.failed or ""),
        )
    console.print()
    console.print(table)
    for change in spending.changes[:CHANGES_SHOWN]:
        text = f"{change.role} in iteration {change.iteration}: {change.after} took over, since {change.before}"
        console.print(f"[yellow]changed[/yellow]   {escape(text)} {escape(change.why)}", highlight=False)
    if len(spending.changes) > CHANGES_SHOWN:
        console.print(
            f"          and {len(spending.changes) - CHANGES_SHOWN} more; the report has all", highlight=False
        )


def print_attempts(console: Console, attempts: Sequence[Attempt]) -> None:
    """One line an attempt, each as it was judged in the search."""
    console.print("Each attempt as it was judged in the search", style="dim", highlight=False)
    numeric = ("time", "of limit")
    table = plain_table("attempt", "from", "change", "outcome", "time", "of limit", "why", numeric=numeric)
    for a in attempts:
        style = {"kept": "green", "rejected": "red", "unjudged": "red"}.get(a.outcome, "")
        table.add_row(
            a.id,
            a.parent or "",
            escape(a.change),
            f"[{style}]{a.outcome}[/{style}]" if style else a.outcome,
            duration(a.seconds),
            percent(a.share_of_limit),
            escape(a.note),
        )
    console.print(table)


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
            f"{_by_baseline(verdict.speedup_over_eager, verdict.speedup_over_compile)},"
            f" {percent(verdict.share_of_limit)} of what the hardware allows,"
            f" largest error {percent(verdict.worst_error)} of its tolerance",
            highlight=False,
        )
        _print_disturbance(console, verdict.cores_used_by_others)
    elif isinstance(verdict, Rejected):
        _print_rejection(console, verdict)
    else:
        console.print(f"[bold yellow]could not judge[/bold yellow]: {escape(verdict.message)}")


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
            str(best.threads) if best else "",
            percent(best.share) if best else "",
            ", ".join(best.limited_by) if best else "",
        )
    console.print()
    console.print(table)


def fullest(function: DeviceFunction) -> Occupancy | None:
    """The occupancy to show of a kernel: of its declared size of block, else the highest with the fewest threads."""
    declared = [each for each in function.occupancy if each.threads == function.most_threads]
    return next(iter(declared), None) or max(function.occupancy, key=lambda o: (o.share, -o.threads), default=None)


def _by_baseline(eager: float | None, compiled: float | None) -> str:
    """The speed against PyTorch as it is and against the better torch.compile, where both were timed."""
    if eager is None or compiled is None:
        return ""
    return f" ({times(eager)} against eager, {times(compiled)} against the better torch.compile)"


def _print_disturbance(console: Console, cores: float | None) -> None:
    if cores is not None:
        console.print(f"[yellow]note[/yellow]      {disturbance(cores)}.", highlight=False)


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


def _result_table(summary: Summary, baseline: str) -> Table:
    """A race has one gain for all workloads, in the line below; here times are held against each other."""
    rows, raced = summary.rows, summary.gain_interval is not None
    numeric = ("start", "best", "start/best" if raced else "gain", baseline, f"vs {baseline}", "limit", "of limit")
    table = plain_table("workload", *numeric, numeric=numeric)
    for row in rows:
        table.add_row(
            escape(row.workload),
            duration(row.start_seconds),
            f"[bold]{duration(row.best_seconds)}[/bold]",
            times(row.gain),
            duration(row.baseline_seconds),
            times(row.speedup),
            duration(row.limit_seconds),
            percent(row.share_of_limit),
        )
    return table


def _headline(summary: Summary, baseline: str) -> str:
    parts = [f"best      {summary.best}"]
    if summary.best == "a0":
        others = "nothing was faster beyond noise" if summary.attempts > 1 else "nothing else was tried"
        parts.append(f"the starting kernel: {others}")
    elif summary.gain is not None:
        how = " in the last race" if summary.gain_interval is not None else ""
        parts.append(f"[bold]{times(summary.gain)}[/bold] against the start{how}{_range(summary)}")
    by_name = _by_baseline(summary.speedup_over_eager, summary.speedup_over_compile)
    parts.append(f"{times(summary.speedup)} against {baseline}{by_name}")
    parts.append(f"{percent(summary.share_of_limit)} of what the hardware allows")
    change = f"\nchange    {escape(summary.best_change)}" if summary.best_change and summary.best != "a0" else ""
    return ", ".join(parts) + change


def _range(summary: Summary) -> str:
    interval = summary.gain_interval
    return f" ({times(interval.low)} to {times(interval.high)})" if interval else ""


def _ending(summary: Summary) -> str:
    if summary.state in ("open", "stopped"):
        return escape(f"{'not ended' if summary.state == 'open' else 'stopped'}: {summary.standing}")
    took = f" after {span(summary.elapsed)}" if summary.elapsed is not None else ""
    rounds = f", {summary.iterations} iterations" if summary.iterations is not None else ""
    return escape(f"{summary.state}{took}{rounds}: {summary.reason_words}")


def _attempt_tally(summary: Summary) -> str:
    text = (
        f"{summary.accepted} accepted ({tally(summary.counts, ('kept', 'same', 'slower'))})" if summary.accepted else ""
    )
    if summary.counts.get("rejected"):
        text += f", {summary.counts['rejected']} rejected ({tally(summary.rejections)})"
    if summary.counts.get("unjudged"):
        text += f", {summary.counts['unjudged']} not judged"
    return text.lstrip(", ") or "none"
