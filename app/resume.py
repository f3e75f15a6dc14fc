"""`warpsmith resume`: a run that was begun before goes on, as it was asked for but for what is asked otherwise now.

`config.json` always holds what is asked for; its `history` says what was asked for before, one entry a resumption that
changed something, and is only ever added to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import JsonValue, ValidationError

from agents.limits import STOP_WORDS, StopReason
from agents.models.registry import resolve
from agents.models.spec import TAKES_REST_AS_IT_IS, parse_spec
from agents.secrets import MARK
from agents.settings import ROLES, Budgets, Models, RunSettings
from agents.upgrade import upgrade
from app.configuration import Asked, Configuration, RoleChoice, Sourced, configure, fallbacks, require_usable
from app.inputs import documents_at, find_run
from app.optimize import asked_for, carry_out, judged_at, near_limit_of, span_of
from memory.files import Json, RunFolderError
from memory.runs import RunFolder
from tools.errors import WarpsmithError
from tools.task import TaskSource

Changes: TypeAlias = Mapping[str, tuple[JsonValue, JsonValue]]
"""What is asked for otherwise, before and after, by dotted name: `budgets.iterations`, `models.coder`, `executor`."""

THE_RUN: Final = "as before"
"""The source of what nobody asks for otherwise."""
_LIMITS: Final[dict[StopReason, tuple[str, str]]] = {
    "iterations": ("iterations", "--iterations 400"),
    "near_limit": ("near_limit", "--near-limit 2"),
    "patience": ("patience", "--patience 80"),
    "money": ("dollars", "--max-dollars 20"),
    "tokens": ("tokens", "--max-tokens 5000000"),
    "wall_time": ("wall_time", "--wall-time 8h"),
    "device_time": ("device_time", "--device-time 2h"),
}
"""Reasons to end that a larger budget takes away: the budget, and how to give one."""


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. None or empty is as before."""

    run: str
    runs: Path
    asked: Asked
    """What is said about models and their budgets."""
    command: tuple[str, ...]
    iterations: int | None = None
    wall_time: str | None = None
    device_time: str | None = None
    patience: int | None = None
    near_limit: float | None = None
    """Percent; 0 switches it off."""
    parallel: int | None = None
    docs: tuple[Path, ...] = ()
    """Join those that the run has."""
    hints: tuple[str, ...] = ()
    """What every role is told from the next iteration on."""
    executor: str | None = None
    state: str | None = None
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
    with run.alone():
        upgrade(run)
        begun = Begun.of(run)
        configuration = _configuration(request.asked, begun)
        require_usable(configuration)
        _require_local_models(configuration)
        settings = changed_settings(request, begun.settings, configuration)
        spec, state = request.executor or begun.executor, request.state or begun.state
        wanted = asked_for(settings, configuration, spec, state, request.command)
        changes = changes_between(begun.config, wanted)
        _refuse_at_its_limit(run, changes)
        executor = judged_at(spec, configuration)
        run.write_config(_with_history(begun.config, wanted, changes))
        return carry_out(
            begun.task,
            settings,
            run,
            executor,
            configuration=configuration,
            as_json=as_json,
            state=state,
            changes=_told(changes),
            hints=request.hints,
            otel=request.otel,
        )


def changed_settings(request: Request, before: RunSettings, configuration: Configuration) -> RunSettings:
    """The run's settings with what is asked otherwise. Raises WarpsmithError."""
    said: dict[str, object] = {
        "iterations": request.iterations,
        "patience": request.patience,
        "dollars": request.asked.max_dollars,
        "tokens": request.asked.max_tokens,
        "wall_time": None if request.wall_time is None else span_of(request.wall_time, "--wall-time"),
        "device_time": None if request.device_time is None else span_of(request.device_time, "--device-time"),
    }
    budgets = before.budgets.model_dump() | {name: value for name, value in said.items() if value is not None}
    if request.near_limit is not None:
        budgets["near_limit"] = near_limit_of(request.near_limit)
    documents = [*before.documents, *(str(documents_at(path)) for path in request.docs)]
    return before.model_copy(
        update={
            "budgets": Budgets.model_validate(budgets),
            "models": Models(
                **{role: configuration.roles[role].model.value for role in ROLES},
                fallback={role: choice.fallback.value for role, choice in configuration.roles.items()},
            ),
            "parallel": request.parallel or before.parallel,
            "documents": tuple(dict.fromkeys(documents)),
        }
    )


def changes_between(
    before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]
) -> dict[str, tuple[JsonValue, JsonValue]]:
    """What is asked for otherwise, by dotted name: `budgets.iterations`, `models.coder`, `executor`, `version`."""
    old, new = dict(_flat(_compared(before))), dict(_flat(_compared(after)))
    names = [*old, *(name for name in new if name not in old)]
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _configuration(asked: Asked, begun: Begun) -> Configuration:
    """Models and servers as the run has them, but for what is asked. Raises WarpsmithError."""
    own = _inherited(asked, begun.settings.models)
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
    return replace(found, roles={role: _with_source(role, choice, asked) for role, choice in found.roles.items()})


def _require_local_models(configuration: Configuration) -> None:
    """Raises UnknownModel for one of ours that can't be used, before anything is written down."""
    for spec in configuration.specs:
        if parse_spec(spec).provider in TAKES_REST_AS_IT_IS:
            resolve(spec)


def _inherited(asked: Asked, models: Models) -> Asked:
    """With the run's own models where none is asked for, so that no file and no variable changes them."""
    said = fallbacks(asked.fallback)
    kept = [
        f"{role}={','.join(models.fallback.get(role, ())) or 'none'}"
        for role in ROLES
        if not {"fallback", f"{role}.fallback"} & said.keys()
    ]
    return replace(
        asked,
        model=None,
        planner=asked.planner or asked.model or models.planner,
        coder=asked.coder or asked.model or models.coder,
        analyst=asked.analyst or asked.model or models.analyst,
        fallback=(*asked.fallback, *kept),
    )


def _with_source(role: str, choice: RoleChoice, asked: Asked) -> RoleChoice:
    """Nobody gave a flag for what is as before."""
    model, fallback = choice.model, choice.fallback
    if getattr(asked, role) is None:
        model = Sourced(model.value, THE_RUN if asked.model is None else "--model")
    return RoleChoice(model, fallback)


def _compared(config: Mapping[str, JsonValue]) -> Json:
    """What may change, under the names that a person is told."""
    settings = config.get("settings")
    kept = {name: config.get(name) for name in ("executor", "state", "version")}
    return {**(settings if isinstance(settings, dict) else {}), **kept, "endpoints": config.get("endpoints") or {}}


def _flat(value: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Nested objects as dotted names; an empty one, and one that lacks a field that another has, as None."""
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _flat(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part or None


def _told(changes: Changes) -> Json:
    return {name: {"before": before, "after": after} for name, (before, after) in changes.items()}


def _with_history(before: Json, wanted: Json, changes: Changes) -> Json:
    """The configuration from now on."""
    history = before.get("history")
    entries = list(history) if isinstance(history, list) else []
    if changes:
        entries.append({"at": time.time(), "command": wanted["command"], "changes": _told(changes)})
    return before | wanted | {"command": before.get("command", wanted["command"]), "history": entries}


def _refuse_at_its_limit(run: RunFolder, changes: Changes) -> None:
    """Raises WarpsmithError for a run that ended at a limit which is as it was: it would end at once."""
    reason = (run.outcome() or {}).get("reason")
    limit = next((limit for known, limit in _LIMITS.items() if known == reason), None)
    if limit is not None and f"budgets.{limit[0]}" not in changes:
        words = next(words for known, words in STOP_WORDS.items() if known == reason)
        raise WarpsmithError(f"{run.id} ended since {words}, and that limit is as it was", f"Raise it: {limit[1]}")
