"""The command `warpsmith batch`. Everything heavy is imported inside it, so that `--help` answers at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.exits import guarded
from app.options import (
    RUNS,
    Analyst,
    BaseUrl,
    Coder,
    Config,
    Debug,
    DialectOption,
    Docs,
    Fallback,
    LessonsFile,
    Model,
    Otel,
    Parallel,
    Planner,
    RunsRoot,
    Samples,
    State,
)

EXIT_CODES = """Exit codes: 0 every task has an accepted kernel, 1 some task has none or failed, 2 could not do it,
130 stopped by Ctrl-C (go on with --resume)."""

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=EXIT_CODES)
def batch(
    tasks: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[TASKS]...",
            help="Tasks, folders of tasks (each sub-folder with task.toml, each *.py file), or lists of them: text "
            "files with one path a line. What is no task is passed over, with the reason.",
            show_default=False,
        ),
    ] = None,
    *,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, max=64, help="Tasks at the same time [1]. Their timings never overlap on a device."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="BATCH",
            help="Go on with a batch: its folder, part of its name, or `latest`. Finished tasks are not run again. "
            "Limits given with it replace the batch's.",
        ),
    ] = None,
    max_dollars: Annotated[
        float | None, typer.Option(metavar="USD", help="All tasks together: end when model calls have cost so much.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="All tasks together: end after N tokens of model calls, in and out.")
    ] = None,
    wall_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="All tasks together: end the search after a time, as 90m or 2d. Last measurements follow it.",
        ),
    ] = None,
    device_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="All tasks together: end after so much building, judging and profiling, as 8h."
        ),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Each task: end after N iterations [200].")
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Each task: end after N attempts in a row without a gain [40]."),
    ] = None,
    near_limit: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Each task: end when its best kernel is within so many percent of the shortest time that the hardware "
            "allows [5]; 0 never.",
        ),
    ] = None,
    task_wall_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Each task: end its search after a time, as 30m.")
    ] = None,
    task_device_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Each task: end after so much device time, as 30m.")
    ] = None,
    task_dollars: Annotated[
        float | None, typer.Option(metavar="USD", help="Each task: end when its model calls have cost so much.")
    ] = None,
    task_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Each task: end after N tokens, in and out.")
    ] = None,
    pause_at_limit: Annotated[
        bool | None,
        typer.Option(
            "--pause-at-limit/--end-at-limit",
            help="Once only limits stand in the way, wait for a person instead of ending: from another terminal "
            "`warpsmith batch --resume BATCH` with a larger limit lets it go on [end].",
            show_default=False,
        ),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Iterations of one turn [5]; then the task that promises most has the next (docs/batches.md).",
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="How often in a row a task is tried again after its machine or its process failed [2]. A verdict is "
            "never retried.",
        ),
    ] = None,
    target: Annotated[Literal["cpu", "cuda"] | None, typer.Option(help="Where the kernels must be fast [cpu].")] = None,
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
    lessons: LessonsFile = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of builtin:autotune's search [0].")] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the batch's folder [that of the folder of tasks].")
    ] = None,
    runs: RunsRoot = RUNS,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            envvar="WARPSMITH_EXECUTOR",
            help="Where kernels are built and judged: local, or command:CMD where CMD runs `warpsmith worker` [local].",
        ),
    ] = None,
    state: State = None,
    otel: Otel = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events as JSON lines on standard output, the summary last.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Make the kernels of many tasks faster, with one budget for all and one report.

    For instance: warpsmith batch examples/ --jobs 2 --iterations 20 --wall-time 2h

    Each task has a run folder of its own in the batch's folder. Ctrl-C finishes the steps that go on, saves and
    reports; a second one stops at once. After that, a crash or a power cut: warpsmith batch --resume latest
    """
    with guarded(debug, as_json):
        from app.batch import BatchRequest, run_batch
        from app.configuration import Asked

        request = BatchRequest(
            paths=tuple(tasks or ()),
            resume=resume,
            name=name,
            jobs=jobs,
            turn=turn,
            retries=retries,
            target=target,
            iterations=iterations,
            patience=patience,
            near_limit=near_limit,
            task_wall_time=task_wall_time,
            task_device_time=task_device_time,
            task_dollars=task_dollars,
            task_tokens=task_tokens,
            wall_time=wall_time,
            device_time=device_time,
            parallel=parallel,
            samples=samples,
            pause_at_limit=pause_at_limit,
            state=state,
            otel=otel,
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
            lessons=lessons,
            seed=seed,
            runs=runs,
            executor=executor,
            command=("warpsmith", *sys.argv[1:]),
        )
        sys.exit(run_batch(request, as_json))
