"""The commands `warpsmith session` and `warpsmith steer`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.exits import EXIT_CODES, guarded
from app.options import (
    LOCAL,
    RUNS,
    Config,
    Debug,
    Docs,
    Hints,
    LessonsFile,
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
    State,
    grouped,
)

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=EXIT_CODES)
@grouped
def session(
    task: Annotated[
        Path | None,
        typer.Argument(metavar="[TASK]", help="A NumPy file, a KernelBench file, or a folder with task.toml."),
    ] = None,
    *,
    attach: Annotated[
        str | None,
        typer.Option("--attach", metavar="RUN", help="Join a run that goes on elsewhere, or look at one that ended."),
    ] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Each plan waits for your word.")] = False,
    start: Annotated[Path | None, typer.Option(help="The kernel to start from; the task's own otherwise.")] = None,
    target: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Where it must be fast [that of the starting kernel, else cpu]."),
    ] = None,
    limits: RunLimits,
    pause_at_limit: PauseAtLimit = None,
    parallel: Parallel = None,
    samples: Samples = None,
    models: ModelOptions,
    max_dollars: MaxDollars = None,
    max_tokens: MaxTokens = None,
    config: Config = None,
    docs: Docs = None,
    hint: Hints = None,
    lessons: LessonsFile = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of builtin:autotune's search.")] = 0,
    runs: RunsRoot = RUNS,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a size of the task; may be repeated."),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            "--executor",
            metavar="SPEC",
            envvar="WARPSMITH_EXECUTOR",
            help="Where kernels are judged: local, command:CMD.",
        ),
    ] = LOCAL,
    state: State = None,
    otel: Otel = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a screen, as without a terminal.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run's events as JSON lines.")] = False,
    debug: Debug = False,
) -> None:
    """Sit beside a run: watch it, say what to try, take the wheel and give it back. `?` shows the keys.

    Give a TASK to start a run in this terminal, or --attach RUN to join one that goes on elsewhere. Without a terminal,
    as in a pipe or in CI, the same run is shown as lines.
    """
    with guarded(debug, as_json):
        from app.session_start import attach_to, require_one, start_session

        require_one(task, attach)
        if attach is not None:
            sys.exit(attach_to(attach, runs, plain=plain, as_json=as_json))
        assert task is not None
        from app.optimize import Request

        request = Request(
            task=task,
            target=target,
            start=start,
            settings=tuple(settings or ()),
            limits=limits,
            parallel=parallel or 1,
            samples=samples or 1,
            pause_at_limit=bool(pause_at_limit),
            asked=models.asked(config, max_dollars=max_dollars, max_tokens=max_tokens),
            docs=tuple(docs or ()),
            hints=tuple(hint or ()),
            lessons=lessons,
            seed=seed,
            runs=runs,
            executor=executor,
            command=("warpsmith", *sys.argv[1:]),
            state=state,
            otel=otel,
            approve=approve,
        )
        sys.exit(start_session(request, plain=plain, as_json=as_json))


@app.command(
    epilog="Exit codes: 0 it took effect, or was given with --no-wait or to a run that no process works on or that is "
    "ending; 1 refused; 2 it could not be given, or nothing was heard of it; 130 stopped by Ctrl-C."
)
def steer(
    run: RunName,
    action: Annotated[
        list[str], typer.Argument(metavar="ACTION…", help="As `hint rows are short`, `fork a3`, `budget dollars=5`.")
    ],
    *,
    wait: Annotated[
        str, typer.Option("--wait", metavar="SPAN", help="How long to wait at most until it took effect.")
    ] = "10m",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Don't wait until it took effect.")] = False,
    runs: RunsRoot = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the event that answers as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Do something to a run that goes on: the same actions as in a session.

    pause, resume, hint TEXT, withdraw TEXT, approval on|off, approve, plan FILE, reject [WHY], edit PATH [aN] [NOTE],
    pin aN, unpin, fork aN, forbid IDEA, allow IDEA, model ROLE SPEC [URL], budget NAME=VALUE…,
    policy strict|tf32|mixed, ask QUESTION, accept, stop. docs/session.md describes each. What was given to a run that
    no process works on is done when it is resumed.
    """
    with guarded(debug, as_json):
        from app.budgets import span_of
        from app.inputs import find_run
        from app.steer import steer as give_to
        from app.steer_words import action_of

        found = find_run(run, runs)
        sys.exit(give_to(found, action_of(action), patience=0 if no_wait else span_of(wait, "--wait"), as_json=as_json))
