"""The command line. Everything heavy is imported inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from app import cli_batch, cli_export, cli_lessons, cli_models, cli_pages, cli_resume, cli_steer, export, logs
from app.exits import EXIT_CODES, guarded
from app.options import (
    LOCAL,
    RUNS,
    AsJson,
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
    with_address,
)

app = typer.Typer(
    name="warpsmith",
    help="Makes compute kernels faster by execution feedback, and believes only what it measured.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

TaskPath = Annotated[
    Path, typer.Argument(metavar="TASK", help="A NumPy file, a KernelBench file, or a folder with task.toml.")
]
KernelPath = Annotated[
    Path,
    typer.Argument(metavar="KERNEL", help="A source file, a folder of sources, or the folder of a run's attempt."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Give a number that the task's file defines another value, as ROWS=4096; may be repeated.",
    ),
]
Defines = Annotated[
    list[str] | None,
    typer.Option(
        "--define",
        "-D",
        metavar="NAME=VALUE",
        help="Set a parameter that the kernel declares with `// tune:`; may be repeated.",
    ),
]
Flags = Annotated[
    list[str] | None,
    typer.Option("--flag", metavar="FLAG", help="Add a compiler flag, as --flag=-O3; may be repeated."),
]
ExecutorSpec = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="SPEC",
        envvar="WARPSMITH_EXECUTOR",
        help="Where kernels are built and judged: local, or command:CMD where CMD runs `warpsmith worker`, "
        "as in 'command:ssh gpu1 warpsmith worker'.",
    ),
]


@app.callback(invoke_without_command=True)
def version_or_help(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Makes compute kernels faster by execution feedback, and believes only what it measured."""
    if version:
        from importlib.metadata import version as installed

        print(f"warpsmith {installed('warpsmith')}")
        raise typer.Exit()


@app.command(epilog=EXIT_CODES)
@grouped
def optimize(
    task: TaskPath,
    *,
    start: Annotated[
        Path | None,
        typer.Option(metavar="KERNEL", help="Source file or folder of the kernel to start from [the task's own]."),
    ] = None,
    target: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Make it fast on the CPU or on a GPU [that of the starting kernel, else cpu]."),
    ] = None,
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
    lessons: LessonsFile = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of builtin:autotune's search.")] = 0,
    runs: RunsRoot = RUNS,
    settings: Settings = None,
    executor: ExecutorSpec = LOCAL,
    state: State = None,
    otel: Otel = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a kernel faster until a budget ends, and write a report.

    For instance: warpsmith optimize examples/softmax --wall-time 5m

    Ctrl-C (or SIGTERM) finishes the step that goes on, saves and reports; a second one stops at once. After that, a
    crash or a power cut: warpsmith resume latest
    """
    with guarded(debug, as_json):
        from app.optimize import Request, optimize_task

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
        )
        sys.exit(optimize_task(request, as_json))


@app.command(epilog="Exit codes: 0 accepted, 1 rejected, 2 could not judge, 130 stopped by Ctrl-C.")
def check(
    task: TaskPath,
    kernel: KernelPath,
    *,
    defines: Defines = None,
    flags: Flags = None,
    settings: Settings = None,
    executor: ExecutorSpec = LOCAL,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Judge one kernel alone: is it right, and how fast is it?"""
    with guarded(debug, as_json):
        from app.judging import Judged, check_kernel

        sys.exit(check_kernel(Judged.of(task, kernel, settings, defines, flags, executor=executor), as_json))


@app.command(epilog=EXIT_CODES)
def profile(
    task: TaskPath,
    kernel: KernelPath,
    *,
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Profile this workload of the task [the heaviest].")
    ] = None,
    defines: Defines = None,
    flags: Flags = None,
    settings: Settings = None,
    executor: ExecutorSpec = LOCAL,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say where a kernel's time goes, with the evidence."""
    with guarded(debug, as_json):
        from app.judging import Judged, profile_kernel

        sys.exit(
            profile_kernel(Judged.of(task, kernel, settings, defines, flags, executor=executor), workload, as_json)
        )


@app.command(epilog=EXIT_CODES)
def show(
    run: RunName,
    attempt: Annotated[
        str | None, typer.Argument(metavar="[ATTEMPT]", help="An attempt of it, as a7, or `best`.")
    ] = None,
    *,
    context: Annotated[
        Literal["planner", "coder", "analyst"] | None,
        typer.Option("--context", metavar="ROLE", help="Show what planner, coder or analyst was told, word for word."),
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --context: in which iteration [its last].")
    ] = None,
    slot: Annotated[
        int, typer.Option(min=0, metavar="N", help="With --context coder: which of the iteration's coders, from 0.")
    ] = 0,
    runs: RunsRoot = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show a run's result and attempts, one attempt in full, or what a role was told."""
    with guarded(debug, as_json):
        from app.show import show_attempt, show_run

        if context is not None:
            from app.context import show_context
            from app.inputs import find_run

            sys.exit(show_context(find_run(run, runs), context, at, slot, as_json))
        sys.exit(show_run(run, runs, as_json) if attempt is None else show_attempt(run, attempt, runs, as_json))


@app.command("runs", epilog=EXIT_CODES)
def list_all(runs: RunsRoot = RUNS, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the runs, oldest first."""
    with guarded(debug, as_json):
        from app.show import show_runs

        sys.exit(show_runs(runs, as_json))


@app.command(
    epilog="Exit codes: 0 every job was answered, 1 some only with an error, 2 the answers could not be written."
)
def worker() -> None:
    """Do jobs for another machine: JSON lines on standard input, one answer each on standard output.

    Another warpsmith starts it with --executor 'command:ssh THIS-MACHINE warpsmith worker'. In batch:
    warpsmith worker < jobs.jsonl > results.jsonl. The lines are described in docs/worker.md.
    """
    from tools.jobs import main

    main()


@app.command(epilog="Exit codes: 0 everything that a run needs is there, 1 something is missing.")
def doctor(as_json: AsJson = False, debug: Debug = False) -> None:
    """Say what this machine offers and what to do about what it lacks."""
    with guarded(debug, as_json):
        from app.doctor import examine

        sys.exit(examine(as_json))


app.add_typer(cli_resume.app)
app.add_typer(cli_steer.app)
app.add_typer(cli_batch.app)
app.add_typer(cli_pages.app)
app.add_typer(cli_models.app, name="models")
app.add_typer(cli_export.app)
app.add_typer(export.app)
app.add_typer(cli_lessons.app, name="lessons")
app.add_typer(logs.app)


def run() -> None:
    """Parse the arguments and do what they say; ends the process. Text that a terminal can't show is replaced."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(with_address(sys.argv[1:]), prog_name="warpsmith")


if __name__ == "__main__":
    run()
