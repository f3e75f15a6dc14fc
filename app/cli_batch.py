"""The command `warpsmith batch`. Everything heavy is imported inside it, so that `--help` answers at once."""

from __future__ import annotations

import sys

import typer

from app.batch_options import (
    AllDeviceTime,
    AllDollars,
    AllTokens,
    AllWallTime,
    AsJson,
    Executor,
    Jobs,
    Name,
    PauseAtLimit,
    Resume,
    Retries,
    Seed,
    Target,
    TaskLimits,
    Tasks,
    Turn,
)
from app.exits import guarded
from app.options import (
    RUNS,
    Config,
    Debug,
    Docs,
    LessonsFile,
    ModelOptions,
    Otel,
    Parallel,
    RunsRoot,
    Samples,
    State,
    grouped,
)

EXIT_CODES = """Exit codes: 0 every task has an accepted kernel, 1 some task has none or failed, 2 could not do it,
130 stopped by Ctrl-C (go on with --resume)."""

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=EXIT_CODES)
@grouped
def batch(
    tasks: Tasks = None,
    *,
    jobs: Jobs = None,
    resume: Resume = None,
    max_dollars: AllDollars = None,
    max_tokens: AllTokens = None,
    wall_time: AllWallTime = None,
    device_time: AllDeviceTime = None,
    each: TaskLimits,
    pause_at_limit: PauseAtLimit = None,
    turn: Turn = None,
    retries: Retries = None,
    target: Target = None,
    parallel: Parallel = None,
    samples: Samples = None,
    models: ModelOptions,
    config: Config = None,
    docs: Docs = None,
    lessons: LessonsFile = None,
    seed: Seed = None,
    name: Name = None,
    runs: RunsRoot = RUNS,
    executor: Executor = None,
    state: State = None,
    otel: Otel = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make the kernels of many tasks faster, with one budget for all and one report.

    For instance: warpsmith batch examples/ --jobs 2 --iterations 20 --wall-time 2h

    Each task has a run folder of its own in the batch's folder. Ctrl-C finishes the steps that go on, saves and
    reports; a second one stops at once. After that, a crash or a power cut: warpsmith batch --resume latest
    """
    with guarded(debug, as_json):
        from app.batch import BatchRequest, run_batch

        request = BatchRequest(
            paths=tuple(tasks or ()),
            resume=resume,
            name=name,
            jobs=jobs,
            turn=turn,
            retries=retries,
            target=target,
            each=each,
            wall_time=wall_time,
            device_time=device_time,
            parallel=parallel,
            samples=samples,
            pause_at_limit=pause_at_limit,
            state=state,
            otel=otel,
            asked=models.asked(config, max_dollars=max_dollars, max_tokens=max_tokens),
            docs=tuple(docs or ()),
            lessons=lessons,
            seed=seed,
            runs=runs,
            executor=executor,
            command=("warpsmith", *sys.argv[1:]),
        )
        sys.exit(run_batch(request, as_json))
