"""The command `warpsmith resume`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.exits import EXIT_CODES, guarded
from app.options import (
    RUNS,
    AsJson,
    Config,
    Debug,
    Docs,
    Hints,
    MaxDollars,
    MaxTokens,
    ModelOptions,
    Otel,
    Parallel,
    PauseAtLimit,
    RunLimits,
    RunName,
    RunsRoot,
    Samples,
    grouped,
)

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=EXIT_CODES)
@grouped
def resume(
    run: RunName,
    *,
    limits: RunLimits,
    max_dollars: MaxDollars = None,
    max_tokens: MaxTokens = None,
    pause_at_limit: PauseAtLimit = None,
    parallel: Parallel = None,
    samples: Samples = None,
    models: ModelOptions,
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
        from app.resume import Request, resume_run

        request = Request(
            run=run,
            runs=runs,
            limits=limits,
            parallel=parallel,
            samples=samples,
            pause_at_limit=pause_at_limit,
            asked=models.asked(config, max_dollars=max_dollars, max_tokens=max_tokens),
            docs=tuple(docs or ()),
            hints=tuple(hint or ()),
            executor=executor,
            state=state,
            otel=otel,
            command=("warpsmith", *sys.argv[1:]),
        )
        sys.exit(resume_run(request, as_json))
