"""What each page of the dashboard shows: fields for its template, read from the folders when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from app.batch_report import HOW_COUNTED, bounds, ending, figures
from app.batch_summary import summarize_batch
from app.compare import LETTERS, MOST, Contender, compare
from app.compare_report import parts_of
from app.quantities import times
from app.replies import NOBODY, NOBODY_YET
from app.report import baseline_name, facts_of, progress_of
from app.report_claim import subjects
from app.report_failures import mismatch_words
from app.report_judging import stage_rows
from app.report_money import spending_fields
from app.report_path import built_of, diagnosis_of, meant_by, scores_of, setting_changes, shortened, source_diff, way_to
from app.report_profiles import profiles, read_profile
from app.report_source import sources
from app.report_tree import tree
from app.serve.catalog import Catalog, batch_href, last_events, run_href, shown, state_of
from app.serve.feed import latest
from app.serve.problems import NotThere
from app.serve.waiting import waits_for
from app.summary import read_verdict, refuted, summarize, task_name
from memory.lesson_store import LessonStore
from memory.lessons import FADED, SPEAKS_FOR
from memory.movement import movement, outcome_words, race_in
from memory.runs import Attempt, RunFolder
from tools.records import Accepted, Rejected

Fields = dict[str, Any]
LOG_LINES: Final = 200
"""That a run's page begins with."""
PAGE: Final = 100
"""Runs, lessons or attempts on one page."""
DIFF_CHARACTERS: Final = 120_000


def home(catalog: Catalog, page: int) -> Fields:
    """All runs, newest first, and the batches."""
    runs = catalog.runs()
    pages = max(1, -(-len(runs) // PAGE))
    page = min(max(page, 1), pages)
    return {
        "runs": runs[(page - 1) * PAGE : page * PAGE],
        "all_runs": len(runs),
        "live": sum(run.state == "live" for run in runs),
        "batches": catalog.batches() if page == 1 else [],
        "page": page,
        "pages": pages,
        "root": shown(str(catalog.root)),
    }


def run_page(run: RunFolder, href: str) -> Fields:
    """A run as it stands, and the last lines of its log."""
    lines, place = latest(run.path / "events.jsonl", LOG_LINES)
    quiet = NOBODY if (run.path / "outcome.json").exists() else NOBODY_YET
    return run_now(run, href) | {"lines": lines, "place": place, "quiet": quiet}


def run_now(run: RunFolder, href: str) -> Fields:
    """The part of a run's page that is made anew while it goes on."""
    summary, attempts, baseline = summarize(run), run.attempts(), baseline_name(run)
    way = way_to(summary.best, attempts)
    start = attempts[0] if attempts and attempts[0].iteration == 0 else None
    state = state_of(run.path)
    return {
        "summary": summary,
        "state": state,
        "waits": waits_for(last_events(run.path / "events.jsonl")) if state == "live" else "",
        "built": built_of,
        "meant": meant_by,
        "facts": facts_of(run),
        "baseline": baseline,
        "progress": progress_of(attempts, subjects(summary, run.facts(), baseline), refuted(run, attempts)),
        "attempts": attempts[::-1][:PAGE],
        "older": attempts[::-1][PAGE:],
        "vs_start": _against(start, attempts),
        "tree": tree(attempts, way, scores_of(run, attempts)),
        "profiles": profiles(run, way),
        "hints": run.standing_hints(),
        "href": href,
        "address": _attempts_of(href),
        **spending_fields(run, summary.spending),
    }


def attempt_page(run: RunFolder, href: str, name: str) -> Fields:
    """One attempt: what it was meant to do, what the judge and the profiler saw, its source. Raises NotThere."""
    attempts = run.attempts()
    place = next((place for place, each in enumerate(attempts) if each.id == name), None)
    if place is None:
        raise NotThere(f"attempt {name} in this run")
    attempt = attempts[place]
    parent = next((each for each in attempts if each.id == attempt.parent), None)
    verdict = read_verdict(run, attempt.id)
    diff = source_diff(parent, attempt, (parent.id if parent else "", attempt.id))
    return {
        "run": shown(run.id),
        "task": task_name(run),
        "baseline": baseline_name(run),
        "attempt": attempt,
        "built": built_of(attempt),
        "meant": meant_by(attempt),
        "race": race_in(attempt.note),
        "hypothesis": {key: str(value) for key, value in (attempt.hypothesis or {}).items() if value},
        "score": scores_of(run, attempts).get(attempt.id),
        "parent": parent,
        "children": [each.id for each in attempts if each.parent == attempt.id],
        "before": attempts[place - 1].id if place else None,
        "after": attempts[place + 1].id if place + 1 < len(attempts) else None,
        "verdict": verdict,
        "timings": verdict.timings if isinstance(verdict, Accepted) else (),
        "mismatch": mismatch_words(verdict.mismatch) if isinstance(verdict, Rejected) and verdict.mismatch else "",
        "stages": stage_rows(verdict),
        "seen": read_profile(run, attempt.id),
        "diagnosis": diagnosis_of(run, attempt.id),
        "settings": setting_changes(parent, attempt),
        "diff": shortened(diff, DIFF_CHARACTERS),
        "sources": sources(run, attempt),
        "href": href,
        "address": _attempts_of(href),
    }


def comparison(catalog: Catalog, names: Sequence[str]) -> Fields:
    """The chosen runs side by side, and all runs to choose from. A name is `RUN` or `BATCH/RUN`. Raises NotThere."""
    chosen = list(dict.fromkeys(names))[:MOST]
    hrefs: dict[str, str] = {}
    runs = []
    for letter, name in zip(LETTERS, chosen, strict=False):
        own, batch = name.rpartition("/")[2], name.rpartition("/")[0] or None
        runs.append(catalog.run(own, batch))
        hrefs[letter] = run_href(own, batch)

    def address(run: Contender) -> str:
        return hrefs.get(run.letter, "")

    compared = parts_of(compare(runs)) if len(runs) > 1 else None
    return {"compared": compared, "address": address, "chosen": chosen, "runs": catalog.runs()[: 2 * PAGE]}


def lessons_page(store: LessonStore, text: str, page: int) -> Fields:
    """Lessons of all runs, the best confirmed first, or those that hold a word of `text`. Raises LessonsError."""
    found = store.find(text, PAGE) if text.strip() else store.all()
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 1), pages)
    rows = [
        {
            "lesson": lesson,
            "faded": lesson.score < FADED,
            "evidence": [_evidence(lesson.says, e) for e in lesson.evidence],
        }
        for lesson in found[(page - 1) * PAGE : page * PAGE]
    ]
    return {"rows": rows, "all_lessons": len(found), "asked": text, "page": page, "pages": pages, "path": store.path}


def batch_page(catalog: Catalog, name: str) -> Fields:
    """One batch with its tasks, each with its run. Raises NotThere and RunFolderError."""
    folder = catalog.batch(name)
    summary = summarize_batch(folder)
    hrefs = {row.task: run_href(row.run.rpartition("/")[2], name) for row in summary.tasks if row.run}
    states = {row.task: state_of(folder.runs / row.run.rpartition("/")[2]) for row in summary.tasks if row.run}
    return {
        "summary": summary,
        "ending": ending(summary),
        "figures": figures(summary),
        "bounds": bounds(summary.plan),
        "how": HOW_COUNTED,
        "hrefs": hrefs,
        "states": states,
        "live": any(state == "live" for state in states.values()),
        "chosen": [f"{name}/{row.run.rpartition('/')[2]}" for row in summary.tasks if row.run],
        "href": batch_href(name),
    }


def _against(start: Attempt | None, attempts: Sequence[Attempt]) -> Callable[[Attempt], str]:
    """How many times as fast as the start an attempt is, by races where they lead to it; `~` where they don't."""
    known = {attempt.id: attempt for attempt in attempts}

    def ratio(attempt: Attempt) -> str:
        if attempt is start and attempt.seconds:
            return times(1.0)
        moved = movement(attempt, start, known)
        if moved is not None and moved.evidence != "medians" and not moved.direction:
            return outcome_words("same")
        return times(None) if moved is None else f"{'~' if moved.evidence == 'medians' else ''}{times(moved.ratio)}"

    return ratio


def _attempts_of(href: str) -> Callable[[str], str]:
    def address(attempt: str) -> str:
        return f"{href}/attempt/{quote(attempt, safe='')}"

    return address


def _evidence(says: Any, evidence: Any) -> tuple[str, str]:
    counts = {True: "for", False: "against", None: "neither"}[SPEAKS_FOR[says][evidence.kind]]
    return counts, f"{evidence} in {evidence.run}"
