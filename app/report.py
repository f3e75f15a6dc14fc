"""The report of a run: one HTML file that needs nothing else, drawn from what the run folder holds.

Everything that a model, a kernel or a task wrote is escaped; the page has no script and loads nothing.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from agents.reflection import hit_rates
from app import quantities
from app.judging import by_reason
from app.pages import rendered
from app.plots import Level, Mark, Point, Spot, bars, progress, roofline
from app.spending import Round, spending_of
from app.summary import Summary, read_verdict, summarize
from memory.files import write_atomically
from memory.runs import Attempt, RunFolder
from tools.errors import KernelError
from tools.facts import TaskFacts
from tools.profiles import Profile
from tools.records import Accepted, Kernel, StageReport, Verdict
from tools.tunables import parse_tunables

REPORT_NAME = "report.html"
_DETAIL_LENGTH = 240


class DiffLine(BaseModel):
    """A line of a unified diff and how to colour it."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["added", "removed", "place", "same"]
    text: str


class StageRow(BaseModel):
    """What one stage of the gauntlet saw, for a table."""

    model_config = ConfigDict(frozen=True)

    stage: str
    passed: bool
    seconds: float
    details: tuple[str, ...]


def write_report(run: RunFolder) -> Path:
    """Render the run as it stands into `report.html` in its folder. Raises RunFolderError when it can't."""
    path = run.path / REPORT_NAME
    write_atomically(path, render(run).encode("utf-8", "replace").decode("utf-8"))
    return path


def render(run: RunFolder) -> str:
    """The page as text."""
    return rendered("report.html.j2", page_fields(run), count=quantities.count)


def page_fields(run: RunFolder) -> dict[str, object]:
    """What the template shows. Absent things are None or empty, never a made-up figure."""
    summary = summarize(run)
    facts = TaskFacts.model_validate(run.facts()) if run.facts() is not None else None
    attempts = run.attempts()
    winner = next((a for a in attempts if a.id == summary.best), None)
    start = next((a for a in attempts if a.id == "a0"), None)
    verdict = read_verdict(run, winner.id) if winner else None
    profile = run.profile(winner.id) if winner else None
    return {
        "summary": summary,
        "facts": facts,
        "baseline": baseline_name(run),
        "attempts": attempts,
        "tally": _tally(summary),
        "rates": hit_rates(run),
        "progress": progress([_point(a) for a in attempts], _levels(summary, baseline_name(run))),
        "roofline": _roofline(summary, facts, baseline_name(run)),
        "winner": Kernel.model_validate(winner.kernel) if winner else None,
        "settings": setting_changes(start, winner),
        "diff": source_diff(start, winner),
        "stages": _stage_rows(verdict),
        "worst_error": verdict.worst_error if isinstance(verdict, Accepted) else None,
        "profile": Profile.model_validate(profile) if profile is not None else None,
        "missing": by_reason(Profile.model_validate(profile).missing) if profile is not None else [],
        "hardware": hardware_rows(facts),
        **_spending_fields(run),
        "command": command(run),
        "check_command": check_command(run, summary.best) if summary.best else "",
        "config": run.config(),
    }


def _spending_fields(run: RunFolder) -> dict[str, object]:
    spending = spending_of(run)
    several = len(spending.rows) > 1
    return {
        "spending": spending,
        "spending_rows": [*spending.rows, *([spending.total] if several else [])],
        "corrections": quantities.tally(spending.corrections),
        "budget_words": budget_words(run),
        "money": bars(
            [(str(r.iteration), r.dollars, f"iteration {r.iteration}: {_round_words(r)}") for r in spending.rounds],
            "US dollars",
            "iteration",
        ),
    }


def _round_words(spent: Round) -> str:
    return f"{quantities.cost(spent.dollars, spent.unpriced_tokens)}, {quantities.tokens(spent.tokens)} tokens"


def budget_words(run: RunFolder) -> str:
    """The run's limits of money and tokens as a sentence; empty when it has none."""
    settings = run.config().get("settings")
    budgets = settings.get("budgets") if isinstance(settings, dict) else None
    found = budgets if isinstance(budgets, dict) else {}
    dollars, most = found.get("dollars"), found.get("tokens")
    parts = [quantities.money(dollars)] if isinstance(dollars, int | float) else []
    parts += [f"{quantities.count(most)} tokens"] if isinstance(most, int) else []
    return f"The budget was {' and '.join(parts)}." if parts else ""


def baseline_name(run: RunFolder) -> str:
    """What the baseline is, in a word."""
    task = run.config().get("task")
    return "PyTorch" if isinstance(task, dict) and task.get("kind") == "kernelbench" else "NumPy"


def command(run: RunFolder) -> str:
    """The command line that started the run."""
    words = run.config().get("command")
    return shlex.join(str(word) for word in words) if isinstance(words, list) else ""


def check_command(run: RunFolder, attempt: str) -> str:
    """The command line that judges one attempt again."""
    config = run.config()
    task = config.get("task")
    overrides = task.get("overrides") if isinstance(task, dict) else None
    values = overrides if isinstance(overrides, dict) else {}
    settings = [word for name, value in values.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    executor = config.get("executor", "local")
    where = [] if executor == "local" else ["--executor", str(executor)]
    return shlex.join(
        ["warpsmith", "check", str(config.get("task_path", "TASK")), str(run.folder_of(attempt)), *settings, *where]
    )


def setting_changes(start: Attempt | None, winner: Attempt | None) -> list[str]:
    """How the winner's build settings differ from the start's, one phrase each."""
    if start is None or winner is None:
        return []
    before, after = Kernel.model_validate(start.kernel), Kernel.model_validate(winner.kernel)
    old, new = _tunables(before), _tunables(after)
    changes = [
        f"{name}: {old.get(name, 'unset')} → {new.get(name, 'unset')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if before.flags != after.flags:
        changes.append(f"flags: {' '.join(before.flags) or 'default'} → {' '.join(after.flags) or 'default'}")
    return changes


def _tunables(kernel: Kernel) -> dict[str, str]:
    """The value in force of every tunable: what was set, else the source's own default."""
    try:
        declared = parse_tunables(kernel.files)
    except KernelError:
        declared = {}
    return {name: values[0] for name, values in declared.items()} | kernel.defines


def source_diff(
    start: Attempt | None, winner: Attempt | None, names: tuple[str, str] = ("start", "best")
) -> list[DiffLine]:
    """Unified diff of all files, start against winner, under these `names`."""
    if start is None or winner is None:
        return []
    before, after = Kernel.model_validate(start.kernel).files, Kernel.model_validate(winner.kernel).files
    lines: list[DiffLine] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "").splitlines(), after.get(name, "").splitlines()
        diff = difflib.unified_diff(old, new, f"{names[0]}/{name}", f"{names[1]}/{name}", lineterm="")
        lines += [DiffLine(kind=_diff_kind(line), text=line) for line in diff]
    return lines


def hardware_rows(facts: TaskFacts | None) -> list[tuple[str, str]]:
    """The machine as the judge measured it, as label and text."""
    if facts is None:
        return []
    rows: list[tuple[str, str]] = []
    for name, value in facts.hardware.items():
        if isinstance(value, dict):
            rows += [(f"{name} {key}".replace("_", " "), _figure(name, item)) for key, item in value.items()]
        else:
            rows.append((name.replace("_", " "), _figure(name, value)))
    return rows


def _figure(name: str, value: JsonValue) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    for ending, unit in (("bandwidth", "B/s"), ("flops", "FLOP/s"), ("bytes", "B")):
        if ending in name:
            return quantities.amount(value, unit)
    return f"{value:g}"


def _diff_kind(line: str) -> Literal["added", "removed", "place", "same"]:
    if line.startswith(("+++", "---", "@@")):
        return "place"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "same"


def _point(attempt: Attempt) -> Point:
    mark: Mark = "kept" if attempt.outcome == "kept" else "other" if attempt.seconds is not None else "rejected"
    figures = f"{quantities.duration(attempt.seconds)}, {attempt.outcome}" if attempt.seconds else attempt.outcome
    label = f"{attempt.id}: {attempt.change or 'no change'}, {figures}. {attempt.note}".strip()
    return Point(attempt.id, mark, attempt.seconds, label)


def _levels(summary: Summary, baseline: str) -> list[Level]:
    if summary.best_seconds is None or summary.speedup is None or summary.share_of_limit is None:
        return []
    return [
        Level(f"{baseline} baseline", summary.best_seconds * summary.speedup, "baseline"),
        Level("hardware limit", summary.best_seconds * summary.share_of_limit, "limit"),
    ]


def _roofline(summary: Summary, facts: TaskFacts | None, baseline: str) -> str:
    """The first workload with a known operation count under the roofs that set the limit."""
    if facts is None:
        return ""
    known = {w.workload: w for w in facts.workloads if w.flops and w.bytes}
    row = next((row for row in summary.rows if row.workload in known), None)
    bandwidth, peak = _roofs(facts)
    if row is None or bandwidth is None:
        return ""
    work = known[row.workload]
    assert work.flops is not None
    times: list[tuple[str, float | None, Literal["start", "best", "baseline"]]] = [
        ("start", row.start_seconds, "start"),
        ("best", row.best_seconds, "best"),
        (baseline, row.baseline_seconds, "baseline"),
    ]
    spots = [Spot(name, work.flops / work.bytes, work.flops / s, style) for name, s, style in times if s]
    return roofline(spots, bandwidth, peak)


def _roofs(facts: TaskFacts) -> tuple[float | None, float | None]:
    """Measured bandwidth, bytes/s, and the multiply-add peak of the widest floating type that the task's data uses."""
    rates = [v for k, v in facts.hardware.items() if k.endswith("bandwidth") and isinstance(v, int | float)]
    peaks = facts.hardware.get("peak_flops")
    text = " ".join(name for w in facts.workloads for name in (*w.inputs, *w.outputs))
    peak = None
    if isinstance(peaks, dict):
        dtype = next((d for d in ("float64", "float32", "float16") if f": {d}" in text), "float32")
        found = peaks.get(dtype)
        peak = float(found) if isinstance(found, int | float) else None
    return (max(rates) if rates else None), peak


def _stage_rows(verdict: Verdict | None) -> list[StageRow]:
    return [] if verdict is None else [_stage_row(stage) for stage in verdict.stages]


def _stage_row(stage: StageReport) -> StageRow:
    details = [f"{name.replace('_', ' ')}: {_short(value, name)}" for name, value in stage.details.items()]
    if stage.command:
        details.insert(0, shlex.join(stage.command))
    return StageRow(stage=stage.stage, passed=stage.passed, seconds=stage.seconds, details=tuple(details))


def _short(value: JsonValue, name: str = "") -> str:
    if isinstance(value, list):
        text = ", ".join(_short(item) for item in value)
    elif isinstance(value, dict):
        text = ", ".join(f"{key.replace('_', ' ')} {_short(item, key)}" for key, item in value.items())
    elif isinstance(value, float):
        text = quantities.duration(value) if name.endswith("seconds") else f"{value:.4g}"
    else:
        text = str(value)
    return text if len(text) <= _DETAIL_LENGTH else text[: _DETAIL_LENGTH - 1] + "…"


def _tally(summary: Summary) -> str:
    parts: Sequence[str] = (
        quantities.tally(summary.counts, ("kept", "same", "slower", "rejected", "unjudged")),
        f"rejected for: {quantities.tally(summary.rejections)}" if summary.rejections else "",
    )
    return "; ".join(part for part in parts if part)
