"""A run's result on the terminal: the final table, the attempts, models and money."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from app.claim import span_of
from app.outcomes import OUTCOMES, outcome_counts
from app.quantities import cost, duration, percent, span, tally, times, tokens
from app.spending import Spending
from app.summary import Summary
from app.terminal import plain_table
from app.verdict_tables import by_baseline, print_disturbance
from memory.movement import outcome_words
from memory.runs import Attempt

_MEASURED = {
    "in the last race": "Measured afresh at the end, best and start in turns: times are medians",
    "as judged at the start": "As judged in the search, the start at its beginning: times are medians",
    "afresh": "Measured afresh at the end: times are medians",
    "in the run": "As judged in the search: times are medians",
}
"""Where the figures of a result come from: by how the start was measured, else the best."""
CHANGES_SHOWN = 5
"""Of models that took over."""


def print_summary(console: Console, summary: Summary, baseline: str) -> None:
    """The final table of a run."""
    console.print()
    console.print(f"[bold]{escape(summary.task)}[/bold]  {_ending(summary)}", soft_wrap=True)
    if summary.rows:
        console.print()
        console.print(_MEASURED[_measured(summary)], style="dim", highlight=False)
        console.print(_result_table(summary, baseline))
        console.print()
        console.print(_headline(summary, baseline))
        print_disturbance(console, summary.cores_used_by_others, summary.throttled)
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
            f"[{style}]{a.outcome}[/{style}]" if style else outcome_words(a.outcome),
            duration(a.seconds),
            percent(a.share_of_limit),
            escape(a.note),
        )
    console.print(table)


def _result_table(summary: Summary, baseline: str) -> Table:
    """A race has one gain for all workloads, in the line below; here each stands alone."""
    rows = summary.rows
    numeric = ("start", "best", summary.gain_heading, baseline, f"vs {baseline}", "limit", "of limit")
    table = plain_table("workload", *numeric, numeric=numeric)
    for row in rows:
        table.add_row(
            escape(row.workload),
            duration(row.start_seconds),
            f"[bold]{duration(row.best_seconds)}[/bold]",
            times(row.gain) + (f" {span_of(row.gain_low, row.gain_high)}" if row.gain_low and row.gain_high else ""),
            duration(row.baseline_seconds),
            times(row.speedup),
            duration(row.limit_seconds),
            percent(row.share_of_limit),
        )
    return table


def _headline(summary: Summary, baseline: str) -> str:
    claim = summary.claim
    parts = [f"best      {summary.best}"]
    if claim is not None and claim.standing == "start":
        others = "nothing was faster beyond noise" if summary.attempts > 1 else "nothing else was tried"
        parts.append(f"the starting kernel: {others}")
    elif claim is not None and claim.standing != "no start":
        parts.append(f"[bold]{escape(claim.sentence)}[/bold]")
    by_name = by_baseline(summary.speedup_over_eager, summary.speedup_over_compile)
    parts.append(f"{times(summary.speedup)} against {baseline}{by_name}")
    parts.append(f"{percent(summary.share_of_limit)} of what the hardware allows")
    change = f"\nchange    {escape(summary.best_change)}" if summary.best_change and summary.best != "a0" else ""
    caution = f"\n[yellow]caution[/yellow]   {escape(claim.caution)}." if claim is not None and claim.caution else ""
    return "; ".join(parts) + change + caution


def _measured(summary: Summary) -> str:
    if summary.measured == "afresh":
        return summary.start_measured if summary.start_measured == "in the last race" else "afresh"
    return summary.start_measured or "in the run"


def _ending(summary: Summary) -> str:
    if summary.state in ("open", "stopped"):
        return escape(f"{'not ended' if summary.state == 'open' else 'stopped'}: {summary.standing}")
    took = f" after {span(summary.elapsed)}" if summary.elapsed is not None else ""
    some = "iteration" if summary.iterations == 1 else "iterations"
    rounds = f", {summary.iterations} {some}" if summary.iterations is not None else ""
    return escape(f"{summary.state}{took}{rounds}: {summary.reason_words}")


def _attempt_tally(summary: Summary) -> str:
    text = (
        f"{summary.accepted} accepted ({tally(outcome_counts(summary.counts), OUTCOMES[:3])})"
        if summary.accepted
        else ""
    )
    if summary.counts.get("rejected"):
        text += f", {summary.counts['rejected']} rejected ({tally(summary.rejections)})"
    if summary.counts.get("unjudged"):
        text += f", {summary.counts['unjudged']} not judged"
    return text.lstrip(", ") or "none"
