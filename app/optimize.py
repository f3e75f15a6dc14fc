"""`warpsmith optimize`: one task driven to an end, with progress on the way and a table and a report at the end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from pydantic import JsonValue
from rich.console import Console

from agents.control import Control
from agents.drive import optimize
from agents.secrets import Scrubber
from agents.settings import ROLES, Budgets, Models, RunSettings
from app.configuration import Asked, Configuration, Sourced, configure, require_usable
from app.exits import DONE, INTERRUPTED, REJECTED
from app.inputs import documents_at, kernel_at, lessons_at, seconds_of, task_at
from app.live import Progress, progress_for
from app.report import baseline_name, write_report
from app.summary import summarize
from app.terminal import console_for, print_summary
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.errors import WarpsmithError
from tools.executor import Executor, executor_for
from tools.records import TargetName
from tools.task import TaskSource

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. None is the default of `agents.settings`."""

    task: Path
    target: TargetName | None
    """Follows from the starting kernel when it is not named, and is the CPU without one."""
    start: Path | None
    settings: tuple[str, ...]
    iterations: int | None
    wall_time: str | None
    patience: int | None
    near_limit: float | None
    """Percent; 0 switches it off."""
    parallel: int
    asked: Asked
    """What is said about models and their budgets."""
    docs: tuple[Path, ...]
    """Files and folders to search."""
    lessons: str | None
    """The file of lessons; `none` for no lessons, None for the user's own file."""
    seed: int
    runs: Path
    executor: str
    """`local` or `command:…`."""
    command: tuple[str, ...]


def optimize_task(request: Request, as_json: bool) -> int:
    """Run to an end and return the exit code. Raises TaskError, KernelError, InfrastructureError, RunFolderError."""
    task = task_at(request.task, request.settings)
    if request.start is not None:
        kernel = kernel_at(request.start)
        task = task.model_copy(update={"start": task.start | {kernel.language: kernel}})
        request = replace(request, target=request.target or ("cuda" if kernel.language == "cuda" else "cpu"))
    configuration = configure(request.asked, os.environ, Path.cwd())
    require_usable(configuration)
    settings = run_settings(request, configuration)
    keys = [connection.key_env for connection in configuration.connections.providers.values() if connection.key_env]
    executor = executor_for(request.executor, withheld=keys)
    run = RunFolder.create(request.runs, task.name, _config(request, task, settings, configuration))
    console = console_for(stderr=as_json)
    for text in model_lines(configuration):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    progress = progress_for(console, settings.budgets.wall_time)
    try:
        stopped = asyncio.run(_drive(task, settings, run, executor, progress=progress, configuration=configuration))
    except WarpsmithError:
        _keep_or_drop(run, console)
        raise
    return _finish(run, console, as_json, stopped)


def run_settings(request: Request, configuration: Configuration) -> RunSettings:
    """The request as settings, each default in its own home. Raises WarpsmithError."""
    return RunSettings(
        language="cuda" if request.target == "cuda" else "cpp",
        budgets=_budgets(request, configuration),
        models=Models(
            **{role: configuration.roles[role].model.value for role in ROLES},
            fallback={role: choice.fallback.value for role, choice in configuration.roles.items()},
        ),
        parallel=request.parallel,
        documents=tuple(str(documents_at(path)) for path in request.docs),
        lessons=lessons_at(request.lessons),
        seed=request.seed,
    )


def _budgets(request: Request, configuration: Configuration) -> Budgets:
    """What the command line says, over what the environment and the settings files say."""
    said = {name: budget for name, budget in configuration.budgets.items()}
    budgets: dict[str, object] = {
        setting: said[name].value
        for name, setting in (("max_dollars", "dollars"), ("max_tokens", "tokens"))
        if name in said
    }
    for name, value in (("iterations", request.iterations), ("patience", request.patience)):
        if value is not None:
            budgets[name] = value
        elif name in said:
            budgets[name] = said[name].value
    if request.near_limit is not None:
        if not 0 <= request.near_limit < 100:
            raise WarpsmithError(f"--near-limit {request.near_limit:g} is not a percentage below 100")
        budgets["near_limit"] = request.near_limit / 100 or None
    wall_time = Sourced(request.wall_time, "--wall-time") if request.wall_time is not None else said.get("wall_time")
    if wall_time is not None:
        try:
            budgets["wall_time"] = seconds_of(str(wall_time.value))
        except ValueError as error:
            raise WarpsmithError(f"{wall_time.source}: {error}", "Give a number with s, m, h or d.") from error
    return Budgets.model_validate(budgets)


async def _drive(
    task: TaskSource,
    settings: RunSettings,
    run: RunFolder,
    executor: Executor,
    *,
    progress: Progress,
    configuration: Configuration,
) -> int | None:
    """Drive the run; the number of the signal that stopped it, if one did. Everything it started is gone afterwards."""
    control = Control()
    with _signals_stop(control) as caught, progress:
        try:
            await optimize(
                task,
                settings,
                run,
                executor,
                progress.show,
                control=control,
                connections=configuration.connections,
                catalogue=configuration.catalogue,
                on_text=progress.say,
            )
        finally:
            await executor.close()
    return caught[0] if caught else None


@contextmanager
def _signals_stop(control: Control) -> Iterator[list[int]]:
    """The first Ctrl-C asks the run to end, the second cuts it; the list gets the signals that came."""
    loop = asyncio.get_running_loop()
    caught: list[int] = []

    def stop(number: int) -> None:
        caught.append(number)
        control.stop("user")

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield caught
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def _finish(run: RunFolder, console: Console, as_json: bool, stopped: int | None) -> int:
    """Report and table; a report that can't be written costs a sentence, not the result."""
    run = RunFolder(run.path)
    summary = summarize(run)
    report: Path | None = None
    try:
        report = write_report(run)
    except RunFolderError as error:
        print(f"warning: {error}", file=sys.stderr)
    print_summary(console, summary, baseline_name(run))
    console.print(f"run       {run.path}", markup=False, highlight=False, soft_wrap=True)
    if report is not None:
        console.print(f"report    {report}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print(json.dumps(summary.model_dump(mode="json") | {"report": str(report) if report else None}))
    if stopped is not None:
        return INTERRUPTED if stopped == signal.SIGINT else 128 + stopped
    return DONE if summary.best is not None else REJECTED


def _keep_or_drop(run: RunFolder, console: Console) -> None:
    """After a failure: say where the run folder is when it holds attempts, remove it when nothing was learnt."""
    if RunFolder(run.path).attempts():
        console.print(f"run       {run.path} (what was found so far)", markup=False, highlight=False, soft_wrap=True)
    else:
        shutil.rmtree(run.path, ignore_errors=True)


def model_lines(configuration: Configuration) -> list[str]:
    """Which models will be asked, where, and who says so; nothing for a run that asks none over a network."""
    used = configuration.providers
    if not used:
        return []
    lines = [
        f"{role:<12}{', then '.join(choice.specs)} ({choice.model.source})"
        for role, choice in configuration.roles.items()
    ]
    for name, connection in used.items():
        if connection.base_url is not None:
            source = configuration.endpoints.origin(name, "base_url")
            lines.append(f"{name:<12}at {connection.base_url} ({source})")
    return lines


def _config(
    request: Request, task: TaskSource, settings: RunSettings, configuration: Configuration
) -> dict[str, JsonValue]:
    """What is written down of a run when it begins. No key is in it."""
    kept = {"wire", "base_url", "key_env", "dialect", "window", "output"}
    scrubber = Scrubber.of(configuration.connections)
    return {
        "version": version("warpsmith"),
        "command": [scrubber.text(word) for word in request.command],
        "task_path": str(request.task),
        "executor": request.executor,
        "task": task.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
        "endpoints": {
            name: scrubber.json(c.model_dump(mode="json", include=kept)) for name, c in configuration.providers.items()
        },
    }
