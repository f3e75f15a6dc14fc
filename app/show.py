"""`warpsmith show`, `runs` and `report`: runs read back from their folders."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import JsonValue
from rich.console import Console
from rich.markup import escape

from app.exits import DONE
from app.inputs import find_run
from app.judging import print_profile
from app.quantities import duration, percent, times
from app.report import REPORT_NAME, baseline_name, write_report
from app.report_path import setting_changes, source_diff
from app.result_tables import print_attempts, print_summary
from app.summary import read_verdict, summarize
from app.terminal import console_for, plain_table
from app.verdict_tables import print_verdict
from memory.files import RunFolderError
from memory.movement import movement, outcome_words
from memory.runs import Attempt, RunFolder, list_runs
from tools.profiles import Profile

_DIFF_STYLES = {"added": "green", "removed": "red", "place": "dim", "same": ""}


def show_run(name: str, runs_root: Path, as_json: bool) -> int:
    """A run's result and its attempts."""
    run = find_run(name, runs_root)
    summary, attempts = summarize(run), run.attempts()
    if as_json:
        lines = [attempt.entry.model_dump(mode="json") for attempt in attempts]
        print(json.dumps(summary.model_dump(mode="json") | {"ledger": lines}))
        return DONE
    console = console_for()
    print_summary(console, summary, baseline_name(run))
    console.print()
    print_attempts(console, attempts)
    report = run.path / REPORT_NAME
    console.print(f"\nrun       {run.path}", markup=False, highlight=False, soft_wrap=True)
    if report.exists():
        console.print(f"report    {report}", markup=False, highlight=False, soft_wrap=True)
    return DONE


def show_attempt(name: str, attempt_id: str, runs_root: Path, as_json: bool) -> int:
    """One attempt in full: its hypothesis, what changed against its parent, the verdict, the profile."""
    run = find_run(name, runs_root)
    if attempt_id == "best":
        best = run.best()
        if best is None:
            raise RunFolderError(f"{run.id} has no accepted attempt", f"`warpsmith show {run.id}` says why.")
        attempt_id = best
    attempt = run.attempt(attempt_id)
    if as_json:
        print(json.dumps(_attempt_json(run, attempt)))
        return DONE
    console = console_for()
    _print_attempt(console, run, attempt)
    return DONE


def show_runs(runs_root: Path, as_json: bool) -> int:
    """All runs; one whose folder is damaged gets a line that says so."""
    console = console_for()
    table = plain_table(
        "run", "state", "best", "time", "vs start", "of limit", "attempts", numeric=("time", "vs start")
    )
    rows: list[JsonValue] = []
    for run in list_runs(runs_root):
        try:
            s = summarize(run)
        except RunFolderError as error:
            rows.append({"run": run.id, "error": str(error)})
            table.add_row(escape(run.id), f"damaged: {escape(error.message)}")
            continue
        rows.append(s.model_dump(mode="json"))
        claimed = s.claim.cell if s.claim is not None else times(None)
        figures = (duration(s.best_seconds), escape(claimed), percent(s.share_of_limit), str(s.attempts))
        state = (s.reason or s.state).replace("_", " ")
        table.add_row(escape(run.id), state, s.best or "-", *figures)
    if as_json:
        print(json.dumps(rows))
    elif rows:
        console.print(table)
    else:
        console.print(f"no runs under {runs_root}; `warpsmith optimize TASK` starts one", markup=False, highlight=False)
    return DONE


def report_run(name: str, runs_root: Path, as_json: bool) -> int:
    """Write the report anew and print where it is."""
    path = write_report(find_run(name, runs_root))
    print(json.dumps({"report": str(path)}) if as_json else path)
    return DONE


def _attempt_json(run: RunFolder, attempt: Attempt) -> dict[str, JsonValue]:
    return {
        "attempt": attempt.model_dump(mode="json"),
        "verdict": run.verdict(attempt.id),
        "profile": run.profile(attempt.id),
        "diagnosis": run.diagnosis(attempt.id),
        "path": str(run.folder_of(attempt.id)),
    }


def _print_attempt(console: Console, run: RunFolder, attempt: Attempt) -> None:
    came, outcome = f" from {attempt.parent}" if attempt.parent else "", outcome_words(attempt.outcome)
    console.print(f"[bold]{attempt.id}[/bold]{came}, iteration {attempt.iteration}: {outcome}", highlight=False)
    for label, text in (("change", attempt.change), ("why", attempt.note)):
        if text:
            console.print(f"{label:<10}{escape(text)}", highlight=False)
    for label, value in (attempt.hypothesis or {}).items():
        if value and label not in ("parent", "change"):
            console.print(f"{label:<10}{escape(str(value))}", highlight=False)
    parent = run.attempt(attempt.parent) if attempt.parent else None
    moved = movement(attempt, parent, {each.id: each for each in run.attempts()})
    if moved is not None:
        console.print(f"{'moved':<10}time {moved.words} against {moved.against}, {moved.basis}", highlight=False)
    for change in setting_changes(parent, attempt):
        console.print(f"{'build':<10}{escape(change)}", highlight=False)
    for piece in source_diff(parent, attempt, ("parent", attempt.id)):
        console.print(piece.text, style=_DIFF_STYLES[piece.kind], markup=False, highlight=False, soft_wrap=True)
    console.print()
    print_verdict(console, read_verdict(run, attempt.id), baseline_name(run))
    profile = run.profile(attempt.id)
    if profile is not None:
        console.print()
        print_profile(console, Profile.model_validate(profile))
    console.print(f"\nfiles     {run.folder_of(attempt.id)}", markup=False, highlight=False, soft_wrap=True)
