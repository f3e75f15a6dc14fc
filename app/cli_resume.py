"""The command `warpsmith resume`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.exits import EXIT_CODES, guarded
from app.options import (
    Analyst,
    BaseUrl,
    Coder,
    Config,
    DialectOption,
    Docs,
    Fallback,
    Hints,
    MaxDollars,
    MaxTokens,
    Model,
    Otel,
    Planner,
    State,
)

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=EXIT_CODES)
def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, its name, part of its name, or `latest`.")],
    *,
    iterations: Annotated[int | None, typer.Option(min=1, help="End after so many iterations in all.")] = None,
    wall_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="End the search after a time in all: 90s, 10m, 2h.")
    ] = None,
    device_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End after so much building, judging and profiling in all."),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help="End after so many attempts in a row without a gain.")
    ] = None,
    near_limit: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="End when within so many percent of the physical limit; 0 never."),
    ] = None,
    parallel: Annotated[int | None, typer.Option(min=1, max=16, help="Hypotheses an iteration.")] = None,
    model: Model = None,
    planner: Planner = None,
    coder: Coder = None,
    analyst: Analyst = None,
    fallback: Fallback = None,
    base_url: BaseUrl = None,
    dialect: DialectOption = None,
    max_dollars: MaxDollars = None,
    max_tokens: MaxTokens = None,
    config: Config = None,
    docs: Docs = None,
    hint: Hints = None,
    executor: Annotated[
        str | None,
        typer.Option("--executor", metavar="SPEC", help="Where kernels are judged from now on: local, or command:CMD."),
    ] = None,
    state: State = None,
    otel: Otel = None,
    runs: Annotated[
        Path, typer.Option("--runs", metavar="DIR", help="Where run folders are.", envvar="WARPSMITH_RUNS")
    ] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Go on with a run that was stopped, killed or ended, from its last finished step.

    Everything is as it was asked for before, but for what is given here; each change is written down in the run's
    config.json. Nothing that was paid for or measured is paid for or measured again. A run that ended goes on when the
    limit that it reached is larger.
    """
    with guarded(debug, as_json):
        from app.configuration import Asked
        from app.resume import Request, resume_run

        request = Request(
            run=run,
            runs=runs,
            iterations=iterations,
            wall_time=wall_time,
            device_time=device_time,
            patience=patience,
            near_limit=near_limit,
            parallel=parallel,
            asked=Asked(
                model=model,
                planner=planner,
                coder=coder,
                analyst=analyst,
                fallback=tuple(fallback or ()),
                base_url=tuple(base_url or ()),
                dialect=tuple(dialect or ()),
                max_dollars=max_dollars,
                max_tokens=max_tokens,
                config=config,
            ),
            docs=tuple(docs or ()),
            hints=tuple(hint or ()),
            executor=executor,
            state=state,
            otel=otel,
            command=("warpsmith", *sys.argv[1:]),
        )
        sys.exit(resume_run(request, as_json))
