"""The command `warpsmith resume`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.exits import EXIT_CODES, guarded
from app.options import (
    RUNS,
    Analyst,
    AsJson,
    BaseUrl,
    Coder,
    Config,
    Debug,
    DeviceTime,
    DialectOption,
    Docs,
    Fallback,
    Hints,
    Iterations,
    MaxDollars,
    MaxTokens,
    Model,
    NearLimit,
    Otel,
    Parallel,
    PauseAtLimit,
    Planner,
    RunName,
    RunsRoot,
    Samples,
    StopPatience,
    WallTime,
)

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=EXIT_CODES)
def resume(
    run: RunName,
    *,
    iterations: Iterations = None,
    wall_time: WallTime = None,
    device_time: DeviceTime = None,
    patience: StopPatience = None,
    near_limit: NearLimit = None,
    max_dollars: MaxDollars = None,
    max_tokens: MaxTokens = None,
    pause_at_limit: PauseAtLimit = None,
    parallel: Parallel = None,
    samples: Samples = None,
    model: Model = None,
    planner: Planner = None,
    coder: Coder = None,
    analyst: Analyst = None,
    fallback: Fallback = None,
    base_url: BaseUrl = None,
    dialect: DialectOption = None,
    config: Config = None,
    docs: Docs = None,
    hint: Hints = None,
    executor: Annotated[
        str | None,
        typer.Option("--executor", metavar="SPEC", help="Where kernels are judged from now on: local, or command:CMD."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="URL|folder",
            help="Keep checkpoints from now on in PostgreSQL, as postgresql://user@host/database, or in the run "
            "folder. A password is better left to PGPASSWORD or ~/.pgpass.",
        ),
    ] = None,
    otel: Otel = None,
    runs: RunsRoot = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Go on with a run that was stopped, killed or ended, from its last finished step.

    For instance: warpsmith resume latest --iterations 400

    Everything is as it was asked for before, but for what is given here (defaults in brackets are those of a new run);
    each change is written down in the run's config.json. Nothing that was paid for or measured is paid for or measured
    again. A run that ended goes on when the limit that it reached is larger. One that waits at its limit in another
    process (--pause-at-limit) goes on there.
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
            samples=samples,
            pause_at_limit=pause_at_limit,
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
