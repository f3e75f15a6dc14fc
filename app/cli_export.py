"""`warpsmith export`: a run's kernel for use elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.exits import guarded
from app.options import LOCAL, RUNS, AsJson, Debug, RunName, RunsRoot

app = typer.Typer(rich_markup_mode=None)


@app.command(
    "export", epilog="Exit codes: 0 written and accepted again, 1 rejected, 2 not exported, or written but not judged."
)
def export(
    run: RunName,
    attempt: Annotated[
        str | None, typer.Argument(metavar="[ATTEMPT]", help="An accepted attempt of it, as a7 [the best].")
    ] = None,
    *,
    form: Annotated[
        Literal["sources", "kernelbench", "torch-op"],
        typer.Option(
            "--as",
            help="sources: as they are, with task.h and the compiler's command. kernelbench: one file with ModelNew. "
            "torch-op: a package that registers an operator of PyTorch's.",
        ),
    ] = "sources",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="The folder to write [named after task and form].")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Judge what was written, and install a package.")
    ] = True,
    executor: Annotated[
        str,
        typer.Option(metavar="SPEC", envvar="WARPSMITH_EXECUTOR", help="Where it is judged: local, or command:CMD."),
    ] = LOCAL,
    runs: RunsRoot = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Export an accepted kernel for use elsewhere, and judge it again as it was written.

    For instance: warpsmith export latest --as torch-op --out softmax_op
    """
    with guarded(debug, as_json):
        from app.export_kernel import Wanted, export_kernel

        wanted = Wanted(run=run, attempt=attempt, form=form, out=out, check=check, executor=executor)
        sys.exit(export_kernel(wanted, runs, as_json))
