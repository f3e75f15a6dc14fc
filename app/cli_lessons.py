"""The commands `warpsmith lessons …`: what earlier runs learnt, read and looked after by a person."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.exits import guarded
from app.options import AsJson, Debug

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
Store = Annotated[
    Path | None,
    typer.Option("--lessons", metavar="FILE", help="The file they are in [the one in your data folder]."),
]
Words = Annotated[str | None, typer.Option("--text", metavar="WORDS", help="Only lessons with any of these words.")]
Chip = Annotated[str | None, typer.Option("--chip", metavar="NAME", help="Only of chips whose name holds this.")]
Number = Annotated[int, typer.Argument(metavar="LESSON", help="Its number.")]
EPILOG = "Exit codes: 0 done, 2 could not do it; then nothing was changed."


@app.callback(epilog=EPILOG)
def lessons(
    context: typer.Context,
    *,
    text: Words = None,
    chip: Chip = None,
    store: Store = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List, show, edit, delete, export and import what runs have learnt."""
    if context.invoked_subcommand is None:
        _list(text, chip, store, as_json, debug)


@app.command("list", epilog=EPILOG)
def list_them(
    *, text: Words = None, chip: Chip = None, store: Store = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List lessons, the best confirmed first."""
    _list(text, chip, store, as_json, debug)


@app.command(epilog=EPILOG)
def show(lesson: Number, *, store: Store = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show one lesson with all that was measured for and against it."""
    with guarded(debug, as_json):
        from app.lessons import open_store, show_lesson

        sys.exit(show_lesson(open_store(store), lesson, as_json))


@app.command(epilog=EPILOG)
def edit(
    lesson: Number,
    *,
    claim: Annotated[str | None, typer.Option(help="The new claim; without --claim and --operation $EDITOR.")] = None,
    operation: Annotated[str | None, typer.Option(help="The new class of operation.")] = None,
    store: Store = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Put a lesson in other words. What was measured stays."""
    with guarded(debug, as_json):
        from app.lessons import edit_lesson, open_store

        sys.exit(edit_lesson(open_store(store), lesson, claim, operation, as_json))


@app.command(epilog=EPILOG)
def delete(
    lessons: Annotated[list[int], typer.Argument(metavar="LESSON...", help="Their numbers.")],
    *,
    store: Store = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete lessons: all that are named, or none when one of them does not exist."""
    with guarded(debug, as_json):
        from app.lessons import delete_lessons, open_store

        sys.exit(delete_lessons(open_store(store), lessons, as_json))


@app.command(epilog=EPILOG)
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; standard output when left out.")] = None,
    *,
    text: Words = None,
    chip: Chip = None,
    store: Store = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write lessons as JSON lines, for another machine or a colleague."""
    with guarded(debug, as_json):
        from app.lessons import export_lessons, open_store

        sys.exit(export_lessons(open_store(store), file, text, chip, as_json))


@app.command("import", epilog=EPILOG)
def import_them(
    file: Annotated[Path, typer.Argument(help="What `export` wrote; - for standard input.")],
    *,
    store: Store = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Bring in exported lessons: new ones are added, known ones joined with what was measured elsewhere.

    A file with a line that is no lesson is refused as a whole.
    """
    with guarded(debug, as_json):
        from app.lessons import import_lessons, open_store

        sys.exit(import_lessons(open_store(store), file, as_json))


def _list(text: str | None, chip: str | None, store: Path | None, as_json: bool, debug: bool) -> None:
    with guarded(debug, as_json):
        from app.lessons import list_lessons, open_store

        sys.exit(list_lessons(open_store(store), text, chip, as_json))
