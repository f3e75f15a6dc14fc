"""`warpsmith resume`: a run that was begun before goes on, as it was asked for but for what is asked otherwise now.

One that waits at its limit in another process goes on there (`app.pausing`).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from agents.models.registry import resolve
from agents.models.spec import TAKES_REST_AS_IT_IS, parse_spec
from agents.pausing import paused_in
from agents.secrets import MARK
from agents.settings import RunSettings
from agents.upgrade import upgrade
from app.as_before import with_models_of, with_source
from app.budgets import budgets_over
from app.changes import as_told, changes_between, with_history
from app.configuration import Asked, Configuration, configure, require_usable
from app.exits import DONE
from app.inputs import documents_at, find_run
from app.optimize import carry_out, judged_at
from app.options import RunLimits
from app.pausing import ask_to_go_on, refuse_at_its_limit, say_whether_it_ends_at_once
from app.run_config import asked_for
from app.terminal import console_for
from memory.files import Json, RunFolderError
from memory.lock import FolderInUse
from memory.runs import RunFolder
from tools.errors import WarpsmithError
from tools.task import TaskSource

IN_THE_FOLDER: Final = "folder"
"""Takes a run's checkpoints out of a database that is gone, or was never there."""


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. None or empty is as before."""

    run: str
    runs: Path
    asked: Asked
    """What is said about models and their budgets."""
    command: tuple[str, ...]
    limits: RunLimits = field(default_factory=RunLimits)
    parallel: int | None = None
    samples: int | None = None
    pause_at_limit: bool | None = None
    docs: tuple[Path, ...] = ()
    """Join those that the run has."""
    hints: tuple[str, ...] = ()
    """What every role is told from the next iteration on."""
    executor: str | None = None
    state: str | None = None
    """Where checkpoints are kept from now on: an address, or `IN_THE_FOLDER`."""
    otel: str | None = None
    """Where traces go; as of `app.tracing.traced`."""


@dataclass(frozen=True)
class Begun:
    """What `config.json` says."""

    config: Json
    task: TaskSource
    settings: RunSettings
    executor: str
    state: str | None

    @classmethod
    def of(cls, run: RunFolder) -> Begun:
        """Raises RunFolderError when something is missing or damaged."""
        config = run.config()
        try:
            return cls(
                config=config,
                task=TaskSource.model_validate(config["task"]),
                settings=RunSettings.model_validate(config["settings"]),
                executor=str(config["executor"]),
                state=None if config.get("state") is None else str(config["state"]),
            )
        except (KeyError, ValidationError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
            advice = f"It was written by warpsmith {config.get('version', '?')}; the attempts are whole all the same."
            raise RunFolderError(f"{run.path / 'config.json'} can't be used: {what}", advice) from error


def resume_run(request: Request, as_json: bool) -> int:
    """Go on with a run and return the exit code.

    Raises RunFolderError (there is no such run, it is in use, damaged or of a newer version), WarpsmithError (an
    option can't be used, or the run reached a limit that is as it was), and what `agents.drive.optimize` raises.
    """
    run = find_run(request.run, request.runs)
    try:
        with run.alone():
            return _go_on(run, request, as_json)
    except FolderInUse:
        if paused_in(run.path) is None:
            raise
    if _lift(run, request, as_json):
        return DONE
    with run.alone():  # the process that waited is gone
        return _go_on(run, request, as_json)


def _go_on(run: RunFolder, request: Request, as_json: bool) -> int:
    """In this process, which holds the run's folder."""
    upgrade(run)
    begun = Begun.of(run)
    configuration = _configuration(request.asked, begun)
    require_usable(configuration)
    _require_local_models(configuration)
    settings = changed_settings(request, begun.settings, configuration)
    spec = request.executor or begun.executor
    state = None if request.state == IN_THE_FOLDER else request.state or begun.state
    wanted = asked_for(settings, configuration, spec, state, request.command)
    changes = changes_between(begun.config, wanted)
    refuse_at_its_limit(run, settings)
    say_whether_it_ends_at_once(run, settings)
    executor = judged_at(spec, configuration)
    run.write_config(with_history(begun.config, wanted, changes))
    return carry_out(
        begun.task,
        settings,
        run,
        executor,
        configuration=configuration,
        as_json=as_json,
        state=state,
        changes=as_told(changes),
        hints=request.hints,
        otel=request.otel,
    )


def _lift(run: RunFolder, request: Request, as_json: bool) -> bool:
    """Have the process that waits there go on with what is asked for; False when it is gone.

    Raises WarpsmithError for what only a process that begins can take.
    """
    asked = request.asked
    other = (asked.model, asked.planner, asked.coder, asked.analyst, asked.fallback, asked.base_url, asked.dialect)
    if any(other) or request.executor or request.state or request.otel is not None:
        paused = paused_in(run.path)
        raise WarpsmithError(
            f"{run.id} waits in another process, which keeps its models, executor, state and traces",
            f"Stop it first, then resume: kill -INT {paused.pid if paused else 'PID'}",
        )
    begun = Begun.of(run)
    settings = changed_settings(request, begun.settings, _configuration(asked, begun))
    wanted: Json = {name: begun.config.get(name) for name in ("version", "executor", "state", "endpoints")}
    wanted |= {"command": list(request.command), "settings": settings.model_dump(mode="json")}
    changes = changes_between(begun.config, wanted)
    refuse_at_its_limit(run, settings)
    say_whether_it_ends_at_once(run, settings)
    paused = ask_to_go_on(run, wanted, request.hints)
    if paused is None:
        return False
    if as_json:
        print(json.dumps({"run": run.id, "path": str(run.path), "process": paused.pid, "changes": as_told(changes)}))
    else:
        console_for().print(
            f"run       {run.path} goes on in process {paused.pid}; see it: warpsmith logs {run.id} --follow",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return True


def changed_settings(request: Request, before: RunSettings, configuration: Configuration) -> RunSettings:
    """The run's settings with what is asked otherwise. Raises WarpsmithError."""
    documents = [*before.documents, *(str(documents_at(path)) for path in request.docs)]
    return before.model_copy(
        update={
            "budgets": budgets_over(before.budgets, request.limits, request.asked),
            "models": configuration.models,
            "parallel": request.parallel or before.parallel,
            "samples": request.samples or before.samples,
            "pause_at_limit": before.pause_at_limit if request.pause_at_limit is None else request.pause_at_limit,
            "documents": tuple(dict.fromkeys(documents)),
        }
    )


def _configuration(asked: Asked, begun: Begun) -> Configuration:
    """Models and servers as the run has them, but for what is asked. Raises WarpsmithError."""
    own = with_models_of(asked, begun.settings.models)
    found = configure(own, os.environ, Path.cwd())
    urls, dialects = [], []
    endpoints = begun.config.get("endpoints")
    for name, known in (endpoints if isinstance(endpoints, dict) else {}).items():
        connection = found.connections.providers.get(name)
        if connection is None or not isinstance(known, dict):
            continue
        url, dialect = known.get("base_url"), known.get("dialect")
        if url != connection.base_url and isinstance(url, str) and MARK not in url:
            urls.append(f"{name}={url}")
        if dialect != connection.dialect and isinstance(dialect, str):
            dialects.append(f"{name}={dialect}")
    base_url = (*urls, *asked.base_url)  # of two for one provider the last one holds
    found = configure(replace(own, base_url=base_url, dialect=(*dialects, *asked.dialect)), os.environ, Path.cwd())
    return with_source(found, asked)


def _require_local_models(configuration: Configuration) -> None:
    """Raises UnknownModel for one of ours that can't be used, before anything is written down."""
    for spec in configuration.specs:
        if parse_spec(spec).provider in TAKES_REST_AS_IT_IS:
            resolve(spec)
