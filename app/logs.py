"""`warpsmith logs`: a run's events as lines, those that were and, with --follow, those to come."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.exits import DONE, REJECTED, guarded
from app.options import RUNS, Debug, RunsRoot

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog="Exit codes: 0 all was shown, with --follow the run ended; 1 with --follow its process is gone without an "
    "end; 2 could not do it; 130 stopped by Ctrl-C."
)
def logs(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, its name, part of its name, or `latest`.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show what comes too, until the run ends.")] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only what came since: 90s, 10m, 2h ago, or a time as 2026-11-30T10:00."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only this kind, as attempt_judged (docs/events.md); may be repeated."),
    ] = None,
    role: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="Only planner, coder or analyst; may be repeated.")
    ] = None,
    runs: RunsRoot = RUNS,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the lines as JSON, as they stand in events.jsonl.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Show what a run did, one line an event; with --follow also what it does."""
    with guarded(debug):
        from app.following import show_run_log, wanted_of
        from app.inputs import find_run

        wanted = wanted_of(kind or (), role or (), since)
        sys.exit(DONE if show_run_log(find_run(run, runs), wanted, follow=follow, as_json=as_json) else REJECTED)
