"""`warpsmith lessons …`: the lessons of all runs, listed, shown, edited, deleted, exported and imported."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue, ValidationError
from rich.console import Console
from rich.markup import escape

from app.exits import DONE
from app.plain import one_line, printable
from app.terminal import console_for, plain_table
from memory.files import write_atomically
from memory.lesson_file import LessonsError
from memory.lesson_store import LessonStore, default_path
from memory.lessons import FADED, SPEAKS_FOR, Draft, Lesson

MOST_LINE = 1 << 20
"""Characters of one imported line."""
_SAYS = {"helps": "helps", "no_gain": "no gain", "fails": "fails"}
_HEAD = "# Lines that begin with # are left out. What was measured can't be changed."


def open_store(path: Path | None) -> LessonStore:
    """The lessons at `path`, else the user's own."""
    return LessonStore(path or default_path())


def list_lessons(store: LessonStore, text: str | None, chip: str | None, as_json: bool) -> int:
    """A table, the best confirmed first."""
    lessons = _chosen(store, text, chip)
    if as_json:
        print(json.dumps([_as_json(lesson) for lesson in lessons]))
        return DONE
    console = console_for()
    if not lessons:
        _print_damaged(store, console)
        which = "that fit" if text or chip else f"in {store.path}; runs with models leave them there"
        console.print(f"no lessons {which}", markup=False, highlight=False, soft_wrap=True)
        return DONE
    table = plain_table("lesson", "says", "for", "against", "operation", "chip", "claim", numeric=("lesson", "for"))
    for lesson in lessons:
        cells = (lesson.operation, lesson.chip, lesson.claim)
        style = "dim" if lesson.score < FADED else ""
        table.add_row(
            str(lesson.id),
            _SAYS[lesson.says],
            str(lesson.confirmed),
            str(lesson.contradicted),
            *(escape(one_line(cell)) for cell in cells),
            style=style,
        )
    console.print(table)
    _print_damaged(store, console)
    if any(lesson.score < FADED for lesson in lessons):
        console.print("Lessons with more against than for them are no longer shown to planners.", highlight=False)
    return DONE


def _print_damaged(store: LessonStore, console: Console) -> None:
    for number, why in store.damaged().items():
        text = (
            f"lesson {number} is damaged and left out: {one_line(why)}; `warpsmith lessons delete {number}` removes it"
        )
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def show_lesson(store: LessonStore, number: int, as_json: bool) -> int:
    """One lesson in full."""
    lesson = store.get(number)
    if as_json:
        print(json.dumps(_as_json(lesson)))
        return DONE
    faded = " (faded: no longer shown to planners)" if lesson.score < FADED else ""
    lines = [
        ("lesson", f"{lesson.id}, {_SAYS[lesson.says]}{faded}"),
        ("claim", lesson.claim),
        ("operation", lesson.operation),
        ("chip", f"{lesson.chip} ({lesson.target})"),
        ("inputs", ", ".join(lesson.shapes)),
        ("learnt", f"{_day(lesson.created)}, last shown {_day(lesson.used) if lesson.used else 'never'}"),
    ]
    console = console_for()
    for label, value in lines:
        console.print(f"{label:<10}{one_line(value)}", markup=False, highlight=False, soft_wrap=True)
    table = plain_table("measured", "counts", "run", "on")
    for each in lesson.evidence:
        counts = {True: "for", False: "against", None: "-"}[SPEAKS_FOR[lesson.says][each.kind]]
        table.add_row(*(escape(one_line(cell)) for cell in (str(each), counts, each.run, _day(each.at))))
    console.print()
    console.print(table)
    return DONE


def edit_lesson(store: LessonStore, number: int, claim: str | None, operation: str | None, as_json: bool) -> int:
    """Other words for a lesson, from the command line or from $EDITOR."""
    lesson = store.get(number)
    if claim is None and operation is None:
        claim, operation = _from_editor(lesson)
    edited = store.edit(
        number,
        lesson.claim if claim is None else claim,
        lesson.operation if operation is None else operation,
    )
    if as_json:
        print(json.dumps(_as_json(edited)))
    else:
        print(printable(f"lesson {number} is kept: {one_line(edited.claim)}"))
    return DONE


def delete_lessons(store: LessonStore, numbers: Sequence[int], as_json: bool) -> int:
    """All of them or none."""
    deleted = store.delete(numbers)
    if as_json:
        print(json.dumps({"deleted": [{"id": number, "claim": claim} for number, claim in deleted.items()]}))
    else:
        for number, claim in deleted.items():
            print(printable(f"deleted {number}: {one_line(claim)}"))
    return DONE


def export_lessons(store: LessonStore, file: Path | None, text: str | None, chip: str | None, as_json: bool) -> int:
    """JSON lines; the file appears whole or not at all."""
    lessons = _chosen(store, text, chip)
    lines = "".join(f"{_exported(lesson)}\n" for lesson in lessons)
    if file is None:
        sys.stdout.write(lines)
        return DONE
    write_atomically(file, lines)
    print(json.dumps({"exported": len(lessons), "file": str(file)}) if as_json else f"{len(lessons)} lessons in {file}")
    return DONE


def import_lessons(store: LessonStore, file: Path, as_json: bool) -> int:
    """All lines or none."""
    merged = store.merge(_read(file))
    if as_json:
        print(json.dumps({"added": merged.added, "joined": merged.joined, "known": merged.known}))
    else:
        print(f"{merged.added} lessons added, {merged.joined} joined with ones that were here, {merged.known} known")
    return DONE


def _chosen(store: LessonStore, text: str | None, chip: str | None) -> list[Lesson]:
    found = store.all()
    if text:
        fitting = {lesson.id for lesson in store.find(text, max(1, len(found)))}
        found = [lesson for lesson in found if lesson.id in fitting]
    return [lesson for lesson in found if not chip or chip.casefold() in lesson.chip.casefold()]


def _as_json(lesson: Lesson) -> dict[str, JsonValue]:
    counted: dict[str, JsonValue] = {
        "confirmed": lesson.confirmed,
        "contradicted": lesson.contradicted,
        "score": lesson.score,
    }
    return lesson.model_dump(mode="json") | counted


def _exported(lesson: Lesson) -> str:
    """Without its number, which means something in one store only."""
    return lesson.model_dump_json(exclude={"id"})


def _read(file: Path) -> list[Draft]:
    """Raises LessonsError that names the first lines that are no lessons."""
    if str(file) == "-":
        text = sys.stdin.read()
    else:
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise LessonsError(f"{file} is not UTF-8 text: {error.reason}", "Import what `export` wrote.") from error
    drafts, problems = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            if len(line) > MOST_LINE:
                raise ValueError(f"longer than {MOST_LINE} characters")
            drafts.append(Draft.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            problems.append(f"line {number}: {where}{': ' if where else ''}{first['msg']}")
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise LessonsError(f"{file} holds what is no lesson: {'; '.join(problems[:3])}{more}", "Nothing was imported.")
    return drafts


def _from_editor(lesson: Lesson) -> tuple[str, str]:
    """What the user made of the claim and the operation."""
    edited = _edited(f"{_HEAD}\nclaim: {one_line(lesson.claim)}\noperation: {one_line(lesson.operation)}\n")
    lines = [line for line in edited.splitlines() if line.strip() and not line.startswith("#")]
    fields = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    missing = next((name for name in ("claim", "operation") if not fields.get(name)), None)
    if missing is not None or len(lines) != 2:
        raise LessonsError("the text has not one line each for `claim:` and `operation:`", "The lesson is as it was.")
    return fields["claim"], fields["operation"]


def _edited(text: str) -> str:
    """The text as $VISUAL, $EDITOR or vi leaves it. LessonsError when there is no such editor, or it fails."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
        path = Path(folder, "lesson.txt")
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*command, str(path)], check=False)
        except OSError as error:
            raise LessonsError(f"can't start {command[0]}: {error.strerror}", "Set EDITOR, or use --claim.") from error
        if done.returncode:
            raise LessonsError(f"{command[0]} ended with {done.returncode}", "The lesson is as it was.")
        return path.read_text(encoding="utf-8", errors="replace")


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d")
