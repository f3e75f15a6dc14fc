"""`warpsmith optimize`: one task driven to an end, with progress on the way and a table and a report at the end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue
from rich.console import Console

from agents.outcome import RunBroken
from agents.pausing import forget
from agents.settings import RunSettings
from agents.steering_fork import successor_of
from agents.wishes import Wishes
from app.bill import bill_of
from app.budgets import budgets_of
from app.configuration import Asked, Configuration, configure, model_lines, require_usable
from app.driving import drive, report_of
from app.exits import DONE, REJECTED
from app.inputs import documents_at, kernel_at, lessons_at, task_at
from app.live import Progress, progress_for
from app.options import RunLimits
from app.plain import one_line
from app.report import baseline_name
from app.result_tables import print_summary
from app.run_config import asked_for
from app.signals import exit_code_of
from app.summary import summarize
from app.terminal import console_for
from app.tracing import traced
from memory.runs import RunFolder
from tools.errors import KernelError, WarpsmithError
from tools.executor import Executor, executor_for
from tools.records import Kernel, TargetName
from tools.targets.choice import target_of
from tools.task import TaskSource

BEGUN = "iteration_started"
_WRITTEN_IN: dict[TargetName, str] = {"cpu": "C++", "cuda": "CUDA C++"}


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. None is the default of `agents.settings`."""

    task: Path
    target: TargetName | None
    """Follows from the starting kernel when it is not named, and is the CPU without one."""
    start: Path | None
    settings: tuple[str, ...]
    limits: RunLimits
    parallel: int
    asked: Asked
    """What is said about models and their budgets."""
    docs: tuple[Path, ...]
    hints: tuple[str, ...]
    """What every role is told."""
    """Files and folders to search."""
    lessons: str | None
    """The file of lessons; `none` for no lessons, None for the user's own file."""
    seed: int
    runs: Path
    executor: str
    """`local` or `command:…`."""
    command: tuple[str, ...]
    state: str | None = None
    """Where checkpoints are kept: an address of PostgreSQL, None for the run folder."""
    otel: str | None = None
    """Where traces go; empty for the usual address, None for nowhere unless the environment says where."""
    samples: int = 1
    pause_at_limit: bool = False
    approve: bool = False
    """Each plan waits for a person's word."""


@dataclass(frozen=True)
class Prepared:
    """What was asked for, read and resolved; nothing is written yet."""

    task: TaskSource
    settings: RunSettings
    executor: Executor
    configuration: Configuration
    config: dict[str, JsonValue]
    """What is to be written down of the run when it begins. No key is in it."""


def prepared(request: Request) -> Prepared:
    """Raises TaskError, KernelError, WarpsmithError."""
    task = task_at(request.task, request.settings)
    language = "torch" if list(task.start) == ["torch"] else None
    if request.start is not None:
        kernel = kernel_at(request.start)
        _require_fitting(request.start, kernel, request.target)
        language = kernel.language
        task = task.model_copy(update={"start": task.start | {kernel.language: kernel}})
        request = replace(request, target=request.target or target_of([kernel.language], [kernel]))
    configuration = configure(request.asked, os.environ, Path.cwd())
    require_usable(configuration)
    settings = run_settings(request, configuration)
    if language == "torch":
        settings = settings.model_copy(update={"language": language, "target": request.target})
    executor = judged_at(request.executor, configuration)
    config: dict[str, JsonValue] = {
        "task_path": str(request.task),
        "task": task.model_dump(mode="json"),
        **asked_for(settings, configuration, request.executor, request.state, request.command),
    }
    return Prepared(task, settings, executor, configuration, config)


def optimize_task(request: Request, as_json: bool, progress: Progress | None = None) -> int:
    """Run to an end and return the exit code. progress: how it is shown, otherwise than usual.

    Raises TaskError, KernelError, InfrastructureError, RunFolderError.
    """
    asked = prepared(request)
    run = RunFolder.create(request.runs, asked.task.name, asked.config)
    try:
        return carry_out(
            asked.task,
            asked.settings,
            run,
            asked.executor,
            configuration=asked.configuration,
            as_json=as_json,
            state=request.state,
            hints=request.hints,
            otel=request.otel,
            progress=progress,
        )
    except WarpsmithError:
        if not run.has_attempts():
            shutil.rmtree(run.path, ignore_errors=True)
        raise


def judged_at(executor: str, configuration: Configuration) -> Executor:
    """The executor of that name; what it starts does not see the keys of models. Raises WarpsmithError."""
    keys = [connection.key_env for connection in configuration.connections.providers.values() if connection.key_env]
    return executor_for(executor, withheld=keys)


def carry_out(
    task: TaskSource,
    settings: RunSettings,
    run: RunFolder,
    executor: Executor,
    *,
    configuration: Configuration,
    as_json: bool,
    state: str | None = None,
    changes: dict[str, JsonValue] | None = None,
    hints: Sequence[str] = (),
    otel: str | None = None,
    progress: Progress | None = None,
) -> int:
    """Drive a run that begins or goes on, show how it does, and return the exit code.

    state, changes: as of `agents.drive.optimize`; hints: told from the next iteration on; otel: as of
    `app.tracing.traced`. Raises what those raise, once it was said where the run folder is.
    """
    console = console_for(stderr=as_json)
    for text in model_lines(configuration):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    forget(run.path)
    told = run.events()
    for text in hints:
        run.add_hint(text, 1 + max((int(str(line["iteration"])) for line in told if line["event"] == BEGUN), default=0))
    progress = progress or progress_for(console, settings.budgets.wall_time, bill_of(told))
    if Wishes.of(told).paused:
        console.print(f"paused    `warpsmith steer {run.id} resume` goes on", markup=False, highlight=False)

    def warn(text: str) -> None:
        console.print(f"warning: {one_line(text)}", markup=False, highlight=False, soft_wrap=True)

    try:
        with traced(otel, os.environ, run.id, progress.show, warn) as on_event:
            stopped = asyncio.run(
                drive(
                    task,
                    settings,
                    run,
                    executor,
                    progress=progress,
                    on_event=on_event,
                    configuration=configuration,
                    state=state,
                    changes=changes,
                )
            )
    except WarpsmithError as error:
        if run.has_attempts():
            where = f"run       {run.path} (what was found so far)"
            console.print(where, markup=False, highlight=False, soft_wrap=True)
        if isinstance(error, RunBroken) and (report := report_of(run)) is not None:
            console.print(f"report    {report}", markup=False, highlight=False, soft_wrap=True)
        raise
    code = finish(run, console, as_json, stopped)
    return code if (fork := successor_of(run)) is None or stopped is not None else _go_on_as(fork, console, as_json)


def _go_on_as(fork: RunFolder, console: Console, as_json: bool) -> int:
    """The same process goes on with the run that another policy made."""
    from app.resume import Request as Resumption
    from app.resume import resume_run

    console.print(f"goes on   as {fork.id}, under another numerics policy", markup=False, highlight=False)
    command = ("warpsmith", "resume", fork.id)
    return resume_run(Resumption(str(fork.path), fork.path.parent, Asked(), command), as_json)


def run_settings(request: Request, configuration: Configuration) -> RunSettings:
    """The request as settings, each default in its own home. Raises WarpsmithError."""
    return RunSettings(
        language="cuda" if request.target == "cuda" else "cpp",
        budgets=budgets_of(request.limits, configuration),
        models=configuration.models,
        parallel=request.parallel,
        approve=request.approve,
        samples=request.samples,
        pause_at_limit=request.pause_at_limit,
        documents=tuple(str(documents_at(path)) for path in request.docs),
        lessons=lessons_at(request.lessons),
        seed=request.seed,
    )


def _require_fitting(path: Path, kernel: Kernel, target: TargetName | None) -> None:
    """KernelError for a starting kernel that the target does not run: it would be left aside, and another one tuned."""
    if target is None or kernel.language == "torch" or target_of([kernel.language]) == target:
        return
    right: TargetName = target_of([kernel.language])
    wanted, given = (_WRITTEN_IN[each] for each in (target, right))
    message = f"--start {path} is {given}, and --target {target} takes {wanted}"
    raise KernelError(message, f"Leave out --target, say --target {right}, or start from another kernel.")


def finish(run: RunFolder, console: Console, as_json: bool, stopped: int | None) -> int:
    """Report and table of a run that ended, or that a signal of this number stopped; the exit code."""
    run = RunFolder(run.path)
    summary = summarize(run)
    report = report_of(run)
    print_summary(console, summary, baseline_name(run))
    console.print(f"run       {run.path}", markup=False, highlight=False, soft_wrap=True)
    if report is not None:
        console.print(f"report    {report}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print(json.dumps(summary.model_dump(mode="json") | {"report": str(report) if report else None}))
    if stopped is not None:
        return exit_code_of(stopped)
    return DONE if summary.best is not None else REJECTED
