"""`warpsmith optimize`: one task driven to an end, with progress on the way and a table and a report at the end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from pydantic import JsonValue
from rich.console import Console

from agents.control import Control
from agents.drive import optimize
from agents.events import OnEvent
from agents.limits import StopReason
from agents.outcome import RunBroken
from agents.pausing import forget
from agents.secrets import Scrubber
from agents.settings import ROLES, Budgets, Models, RunSettings
from agents.state_address import passwords_in, public_address
from agents.steering_fork import successor_of
from agents.wishes import Wishes
from app.bill import bill_of
from app.changes import as_told
from app.configuration import Asked, Configuration, Sourced, configure, require_usable
from app.exits import DONE, REJECTED
from app.inputs import documents_at, kernel_at, lessons_at, seconds_of, task_at
from app.live import Progress, progress_for
from app.pausing import may_wait, wait_for_a_person
from app.plain import one_line
from app.report import baseline_name, write_report
from app.signals import CUTTING, FINISHING, exit_code_of, stopped_by_signals
from app.summary import summarize
from app.terminal import console_for, print_summary
from app.tracing import traced
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.errors import WarpsmithError
from tools.executor import Executor, executor_for
from tools.records import TargetName
from tools.targets.choice import target_of
from tools.task import TaskSource

BEGUN = "iteration_started"


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
    device_time: str | None = None
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


def prepared(request: Request) -> Prepared:
    """Raises TaskError, KernelError, WarpsmithError."""
    task = task_at(request.task, request.settings)
    language = "torch" if list(task.start) == ["torch"] else None
    if request.start is not None:
        kernel = kernel_at(request.start)
        language = kernel.language
        task = task.model_copy(update={"start": task.start | {kernel.language: kernel}})
        request = replace(request, target=request.target or target_of([kernel.language], [kernel]))
    configuration = configure(request.asked, os.environ, Path.cwd())
    require_usable(configuration)
    settings = run_settings(request, configuration)
    if language == "torch":
        settings = settings.model_copy(update={"language": language, "target": request.target})
    executor = judged_at(request.executor, configuration)
    return Prepared(task, settings, executor, configuration, _config(request, task, settings, configuration))


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
                _drive(
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
        if isinstance(error, RunBroken) and (report := _report(run)) is not None:
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
        budgets=_budgets(request, configuration),
        models=Models(
            **{role: configuration.roles[role].model.value for role in ROLES},
            fallback={role: choice.fallback.value for role, choice in configuration.roles.items()},
        ),
        parallel=request.parallel,
        approve=request.approve,
        samples=request.samples,
        pause_at_limit=request.pause_at_limit,
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
        budgets["near_limit"] = near_limit_of(request.near_limit)
    wall_time = Sourced(request.wall_time, "--wall-time") if request.wall_time is not None else said.get("wall_time")
    if wall_time is not None:
        budgets["wall_time"] = span_of(str(wall_time.value), wall_time.source)
    if request.device_time is not None:
        budgets["device_time"] = span_of(request.device_time, "--device-time")
    return Budgets.model_validate(budgets)


def near_limit_of(percent: float) -> float | None:
    """As a fraction; 0 switches it off. Raises WarpsmithError."""
    if not 0 <= percent < 100:
        raise WarpsmithError(f"--near-limit {percent:g} is not a percentage below 100")
    return percent / 100 or None


def span_of(text: str, source: str) -> float:
    """Seconds. Raises WarpsmithError, which names the source."""
    try:
        return seconds_of(text)
    except ValueError as error:
        raise WarpsmithError(f"{source}: {error}", "Give a number with s, m, h or d.") from error


async def _drive(
    task: TaskSource,
    settings: RunSettings,
    run: RunFolder,
    executor: Executor,
    *,
    progress: Progress,
    on_event: OnEvent,
    configuration: Configuration,
    state: str | None,
    changes: dict[str, JsonValue] | None,
) -> int | None:
    """Drive the run; the number of the signal that stopped it, if one did. Everything it started is gone afterwards."""
    control = Control()

    def stop(at_once: bool) -> None:
        progress.note(CUTTING if at_once else FINISHING)
        control.stop("user", grace=0.0) if at_once else control.finish("user")

    async def drive(settings: RunSettings, changes: dict[str, JsonValue] | None) -> StopReason:
        outcome = await optimize(
            task,
            settings,
            run,
            executor,
            on_event,
            control=control,
            connections=configuration.connections,
            catalogue=configuration.catalogue,
            on_text=progress.say,
            state=state,
            changes=changes,
        )
        return outcome.reason

    with run.alone(), stopped_by_signals(stop) as caught, progress:
        try:
            reason = await drive(settings, changes)
            while may_wait(settings, reason) and not caught:
                await executor.close()  # others may have the device meanwhile
                lifted = await wait_for_a_person(
                    run,
                    task.name,
                    reason,
                    on_event=on_event,
                    on_paused=lambda: _report(run),
                    given_up=lambda: caught,
                )
                if lifted is None:
                    break
                settings = lifted.settings
                control.renew()
                reason = await drive(settings, as_told(lifted.changes))
        finally:
            await executor.close()
    return caught[0] if caught else None


def _report(run: RunFolder) -> Path | None:
    """One that can't be written costs a sentence, not the result."""
    try:
        return write_report(RunFolder(run.path))
    except RunFolderError as error:
        print(f"warning: {error}", file=sys.stderr)
        return None


def finish(run: RunFolder, console: Console, as_json: bool, stopped: int | None) -> int:
    """Report and table of a run that ended, or that a signal of this number stopped; the exit code."""
    run = RunFolder(run.path)
    summary = summarize(run)
    report = _report(run)
    print_summary(console, summary, baseline_name(run))
    console.print(f"run       {run.path}", markup=False, highlight=False, soft_wrap=True)
    if report is not None:
        console.print(f"report    {report}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print(json.dumps(summary.model_dump(mode="json") | {"report": str(report) if report else None}))
    if stopped is not None:
        return exit_code_of(stopped)
    return DONE if summary.best is not None else REJECTED


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
    return {
        "task_path": str(request.task),
        "task": task.model_dump(mode="json"),
        **asked_for(settings, configuration, request.executor, request.state, request.command),
    }


def asked_for(
    settings: RunSettings, configuration: Configuration, executor: str, state: str | None, command: Sequence[str]
) -> dict[str, JsonValue]:
    """The part of `config.json` that may be another one when the run is resumed. No key is in it."""
    kept = {"wire", "base_url", "key_env", "dialect", "window", "output"}
    scrubber = Scrubber.of(configuration.connections, passwords_in(state))
    return {
        "version": version("warpsmith"),
        "command": [scrubber.text(word) for word in command],
        "executor": executor,
        "state": None if state is None else public_address(state),
        "settings": settings.model_dump(mode="json"),
        "endpoints": {
            name: scrubber.json(c.model_dump(mode="json", include=kept)) for name, c in configuration.providers.items()
        },
    }
