"""`warpsmith report` and `warpsmith serve`: runs as pages, in a file and in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.exits import EXIT_CODES, guarded
from app.options import RUNS, AsJson, Debug, RunsRoot

app = typer.Typer()


@app.command(epilog=EXIT_CODES)
def report(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="A run folder, its name, part of its name, or `latest`."),
    ],
    *,
    compare: Annotated[bool, typer.Option("--compare", help="Put several runs side by side on one page.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the comparison goes [compare.html where the runs are].")
    ] = None,
    runs: RunsRoot = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a run's HTML report again and print its path; with --compare, that of several runs side by side.

    For instance: warpsmith report --compare softmax-1 softmax-2 --out models.html
    """
    with guarded(debug, as_json):
        if compare:
            from app.compare_report import compare_runs

            sys.exit(compare_runs(names, runs, out, as_json))
        from app.show import report_run
        from tools.errors import WarpsmithError

        if len(names) > 1 or out is not None:
            raise WarpsmithError(
                "a report is of one run, and lies in its folder", "Give --compare to put several side by side."
            )
        sys.exit(report_run(names[0], runs, as_json))


@app.command(epilog="Exit codes: 0 ended by Ctrl-C, 2 could not serve.")
def serve(
    *,
    runs: RunsRoot = RUNS,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8750,
    host: Annotated[str, typer.Option(help="Address to serve on. There is no TLS: keep it local.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further name of this machine; may be repeated."),
    ] = None,
    lessons: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where lessons are read from [in your data folder].")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show runs and batches in a browser while they go on; it shows and never steers.

    Open the address that it prints: it holds a token, made anew at each start unless WARPSMITH_SERVE_TOKEN is set.
    From another machine, go through ssh: ssh -L 8750:localhost:8750 THAT-MACHINE
    """
    with guarded(debug, as_json):
        from app.serve.server import serve as serve_runs

        sys.exit(serve_runs(runs, host, port, names=allow_host or (), lessons=lessons, as_json=as_json))
