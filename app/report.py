"""The report of a run: one HTML file that needs nothing else, drawn from what the run folder holds.

Everything that a model, a kernel or a task wrote is escaped; the page has no script and loads nothing. However long the
run was, diffs and sources are cut where they would make the file large, and the page says what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue, ValidationError

from agents.reflection import rates_of
from app import quantities
from app.outcomes import OUTCOMES, outcome_counts
from app.pages import rendered
from app.plot_claim import claim
from app.plot_frame import pictures
from app.plots import Level, Mark, Point, progress
from app.report_claim import Subject, main_baseline, subjects
from app.report_commands import check_command, command, exports, profile_command
from app.report_failures import failures
from app.report_judging import stage_rows
from app.report_money import spending_fields
from app.report_path import scores_of, settings_in_force, shortened, source_diff, steps, way_to
from app.report_person import deeds, left_out
from app.report_profiles import profiles
from app.report_roofline import roofline_of
from app.report_source import Source, sources
from app.report_tree import tree
from app.summary import Summary, read_verdict, refuted, summarize
from memory.files import RunFolderError, write_atomically
from memory.movement import outcome_words
from memory.runs import Attempt, RunFolder
from tools.facts import TaskFacts
from tools.records import Accepted

REPORT_NAME = "report.html"
DIFF_CHARACTERS = 250_000
"""Of the diff from the start to the best."""


def write_report(run: RunFolder) -> Path:
    """Render the run as it stands into `report.html` in its folder. Raises RunFolderError when it can't."""
    path = run.path / REPORT_NAME
    write_atomically(path, writable(render(run)))
    return path


def render(run: RunFolder) -> str:
    """The page as text."""
    return rendered("report.html.j2", page_fields(run))


def writable(page: str) -> str:
    """The page without lone surrogates, which no file can hold."""
    return page.encode("utf-8", "replace").decode("utf-8")


def page_fields(run: RunFolder) -> dict[str, object]:
    """What the template shows. Absent things are None or empty, never a made-up figure."""
    summary, facts, attempts, baseline = summarize(run), facts_of(run), run.attempts(), baseline_name(run)
    scores = scores_of(run, attempts)
    way = way_to(summary.best, attempts)
    held = subjects(summary, run.facts(), baseline)
    done = deeds(run.events())
    return {
        "summary": summary,
        "facts": facts,
        "baseline": baseline,
        "subjects": held,
        "claim": pictures(lambda frame: claim(frame, held)),
        "attempts": attempts,
        "tally": _tally(summary),
        "rates": rates_of(attempts, scores),
        "progress": progress_of(attempts, held, refuted(run, attempts)),
        "roofline": roofline_of(summary, facts, baseline),
        "profiles": profiles(run, way),
        "way": way,
        "steps": steps(run, way, scores, attempts),
        "tree": tree(attempts, way, scores),
        "failures": failures(run, attempts),
        "hardware": hardware_rows(facts),
        **_winner_fields(run, attempts, summary),
        **spending_fields(run, summary.spending),
        "command": command(run),
        "check_command": check_command(run, summary.best) if summary.best else "",
        "profile_command": profile_command(run, summary.best) if summary.best else "",
        "exports": exports(run),
        "deeds": done,
        "left_out": left_out(done),
        "config": run.config(),
    }


def facts_of(run: RunFolder) -> TaskFacts | None:
    """What was known of the task before any kernel ran; None before it was opened. Raises RunFolderError."""
    told = run.facts()
    try:
        return TaskFacts.model_validate(told) if told is not None else None
    except ValidationError as error:
        raise RunFolderError(
            f"{run.path / 'facts.json'} does not hold a task's facts", "The run folder may be damaged."
        ) from error


def baseline_name(run: RunFolder) -> str:
    """What the baseline is, in a word or two."""
    task = run.config().get("task")
    of_kind = "PyTorch" if isinstance(task, dict) and task.get("kind") == "kernelbench" else "NumPy"
    return main_baseline(run.facts(), of_kind)


def progress_of(attempts: Sequence[Attempt], held: Sequence[Subject], refuted: frozenset[str]) -> str:
    """The times of all attempts, with the baselines and the limit of `held` as lines; empty when there are none.
    What was `refuted` is not shown as a best."""
    levels = [
        Level(s.name if s.style == "limit" else f"{s.name} baseline", s.seconds, s.style)
        for s in held
        if s.style in ("baseline", "limit")
    ]
    points = [_point(attempt, attempt.id in refuted) for attempt in attempts]
    return pictures(lambda frame: progress(frame, points, levels))


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


def _winner_fields(run: RunFolder, attempts: Sequence[Attempt], summary: Summary) -> dict[str, object]:
    known = {attempt.id: attempt for attempt in attempts}
    start, winner = known.get("a0"), known.get(summary.best or "")
    verdict = read_verdict(run, winner.id) if winner else None
    shown: list[Source] = sources(run, winner) if winner else []
    race = verdict.comparison if isinstance(verdict, Accepted) else None
    return {
        "winner": shown,
        "settings": settings_in_force(start, winner),
        "diff": shortened(source_diff(start, winner), DIFF_CHARACTERS),
        "stages": stage_rows(verdict),
        "worst_error": verdict.worst_error if isinstance(verdict, Accepted) else None,
        "race_confidence": race.interval.confidence if race is not None else None,
    }


def _figure(name: str, value: JsonValue) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    for ending, unit in (("bandwidth", "B/s"), ("flops", "FLOP/s"), ("bytes", "B")):
        if ending in name:
            return quantities.amount(value, unit)
    return f"{value:g}"


def _point(attempt: Attempt, refuted: bool) -> Point:
    kept = attempt.outcome == "kept" and not refuted
    mark: Mark = "kept" if kept else "other" if attempt.seconds is not None else "rejected"
    outcome = "kept, then refuted by a fresh measurement" if refuted else outcome_words(attempt.outcome)
    figures = f"{quantities.duration(attempt.seconds)}, {outcome}" if attempt.seconds else outcome
    label = f"{attempt.id}: {attempt.change or 'no change'}, {figures}. {attempt.note}".strip()
    return Point(attempt.id, mark, attempt.seconds, label)


def _tally(summary: Summary) -> str:
    parts: Sequence[str] = (
        quantities.tally(outcome_counts(summary.counts), OUTCOMES),
        f"rejected for: {quantities.tally(summary.rejections)}" if summary.rejections else "",
    )
    return "; ".join(part for part in parts if part)
