"""The report of a batch: `summary.json`, `summary.md` and a page that needs nothing else.

Everything that a task, a kernel or a model wrote is escaped; the page has no script and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agents.batch import Plan
from agents.batch_queue import BatchFolder
from agents.batch_scores import FAILURE_COUNTS_AS
from agents.limits import STOP_WORDS
from app import quantities
from app.batch_summary import BatchSummary, TaskRow
from app.pages import rendered
from app.plain import one_line
from memory.files import write_atomically

JSON_NAME, MARKDOWN_NAME, PAGE_NAME = "summary.json", "summary.md", "report.html"


def write_summary(folder: BatchFolder, summary: BatchSummary) -> Path:
    """Write the three files; returns the page's path. Raises RunFolderError when they can't be written."""
    write_atomically(folder.path / JSON_NAME, summary.model_dump_json(indent=1) + "\n")
    write_atomically(folder.path / MARKDOWN_NAME, _writable(markdown(summary)))
    page = folder.path / PAGE_NAME
    write_atomically(page, _writable(render(summary, folder.path)))
    return page


def markdown(summary: BatchSummary) -> str:
    """The summary as a Markdown page."""
    head = "| task | start | best | gain | against baseline | of the limit | attempts | reward | end |"
    lines = [
        f"# {_cell(summary.batch)}",
        "",
        *[f"- {name}: {text}" for name, text in figures(summary)],
        "",
        head,
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        *[_markdown_row(row) for row in summary.tasks],
    ]
    if summary.passed_over:
        lines += ["", "Passed over:", ""]
        lines += [f"- {_cell(each.path)}: {_cell(each.reason)}" for each in summary.passed_over]
    notes = [text for mark, text in MARKS.items() if any(mark in _marks(row) for row in summary.tasks)]
    return "\n".join([*lines, "", *notes, "", HOW_COUNTED, ""])


MARKS = {
    "*": "\\* Measured beside other programs, which makes times read long.",
    "†": "† From the search itself: the last, fresh measurement was not taken, or could not be.",
}

HOW_COUNTED = (
    "fast_p is the share of all tasks whose kernel is right and more than p times as fast as the baseline (KernelBench,"
    " arXiv 2502.10517); a task without an accepted kernel counts as not right. The mean with failures counts such a"
    f" task as {FAILURE_COUNTS_AS:g}x, since one goes on with the baseline; a kernel slower than the baseline counts as"
    " what it is. Rewards are CUDA Agent's (arXiv 2602.24286): -1 wrong, 1 right, 2 more than 5 % faster than the"
    " baseline, 3 than the starting kernel too. What is no task, or could not be opened, is in no figure."
)


def figures(summary: BatchSummary) -> list[tuple[str, str]]:
    """The figures over all tasks, as label and text."""
    s = summary.scores
    fast = ", ".join(f"fast_{p} {quantities.percent(share)}" for p, share in s.fast.items())
    rewards = ", ".join(f"{count} of {reward}" for reward, count in s.rewards.items() if count)
    mean = "" if s.mean_reward is None else f", {s.mean_reward:.2f} on average"
    lost = quantities.money(summary.lost_dollars) if summary.lost_dollars else ""
    lost = lost or (f"{quantities.tokens(summary.lost_tokens)} tokens" if summary.lost_tokens else "")
    money = f"{quantities.cost(summary.dollars, summary.unpriced_tokens)}, {quantities.tokens(summary.tokens)} tokens"
    return [
        ("tasks", f"{s.correct} of {s.tasks} with an accepted kernel"),
        ("fast_p", fast),
        ("speed-up, geometric mean", _pair(s.geomean, s.geomean_with_failures)),
        ("gain over the starting kernel", quantities.times(s.gain_geomean)),
        ("rewards", f"{rewards or 'none'}{mean}"),
        (
            "time",
            f"{quantities.span(summary.elapsed)} at work, {quantities.span(summary.device_seconds)} on the device",
        ),
        ("models", money + (f", and at most {lost} in calls that were cut off" if lost else "")),
        ("state", ending(summary)),
    ]


def ending(summary: BatchSummary) -> str:
    """How the batch stands, in words."""
    if summary.state == "ended":
        return "every task is over"
    why = STOP_WORDS[summary.reason] if summary.reason else "it still runs, or it was stopped from outside"
    left = sum(row.status in ("waiting", "paused", "running") for row in summary.tasks)
    return f"{left} of {len(summary.tasks)} tasks may go on: {why}"


def render(summary: BatchSummary, folder: Path) -> str:
    """The page as text."""
    fields = {"summary": summary, "figures": figures(summary), "ending": ending(summary), "how": HOW_COUNTED}

    def within(run: str) -> str:
        return str(Path(run).relative_to(folder)) if Path(run).is_relative_to(folder) else run

    return rendered(
        "batch.html.j2", fields | {"bounds": bounds(summary.plan), "within": within}, ("page.css", "batch.css")
    )


def bounds(plan: Plan) -> list[tuple[str, str]]:
    """The limits in force, as label and text."""
    shared, own = plan.shared, plan.settings.budgets
    return [
        (f"{owner}: {name}", text)
        for owner, budget in (("all tasks", shared), ("each task", own))
        for name, text in _bounds(budget.model_dump())
    ]


def _bounds(budget: dict[str, float | int | None]) -> Sequence[tuple[str, str]]:
    shown: dict[str, Callable[[float], str]] = {
        "iterations": lambda v: f"{v:.0f}",
        "near_limit": lambda v: f"within {quantities.percent(v)}",
        "patience": lambda v: f"{v:.0f} attempts without a gain",
        "dollars": quantities.money,
        "tokens": lambda v: quantities.count(int(v)),
        "wall_time": quantities.span,
        "device_time": quantities.span,
    }
    return [
        (name.replace("_", " "), shown[name](value))
        for name, value in budget.items()
        if value is not None and name in shown
    ]


def _markdown_row(row: TaskRow) -> str:
    cells = [
        _cell(row.task),
        quantities.duration(row.start_seconds),
        quantities.duration(row.best_seconds) + _marks(row),
        _cell(row.gained),
        f"{quantities.times(row.speedup)} {row.baseline}" if row.speedup else "-",
        quantities.percent(row.share_of_limit),
        str(row.attempts),
        "-" if row.reward is None else str(row.reward),
        _cell(row.ending),
    ]
    return f"| {' | '.join(cells)} |"


def _marks(row: TaskRow) -> str:
    disturbed = " \\*" if row.cores_used_by_others else ""
    return disturbed + (" †" if row.measured == "in the run" else "")


def _pair(without: float | None, with_failures: float | None) -> str:
    return f"{quantities.times(without)} without failures, {quantities.times(with_failures)} with them"


def _cell(text: str) -> str:
    """Text that others wrote, on one line of a Markdown table."""
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
