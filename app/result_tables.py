"""A run's result on the terminal: the final table, the attempts, models and money."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from app.quantities import cost, duration, percent, span, tally, times, tokens
from app.spending import Spending
from app.summary import Summary
from app.terminal import plain_table
from app.verdict_tables import by_baseline, print_disturbance
from memory.runs import Attempt

_MEASURED = {
    "afresh": "Measured afresh at the end, best and start in turns: medians",
    "in the run": "As judged in the search: medians",
}
"""Where the figures of a result come from."""
CHANGES_SHOWN = 5
"""Of models that took over."""


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
        print_disturbance(console, summary.cores_used_by_others)
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
    by_name = by_baseline(summary.speedup_over_eager, summary.speedup_over_compile)
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
    some = "iteration" if summary.iterations == 1 else "iterations"
    rounds = f", {summary.iterations} {some}" if summary.iterations is not None else ""
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
