"""How a batch is to be run: the command line over the environment, the settings files, and, for a batch that is taken
up again, over what it was run with before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from agents.batch import Plan, SharedBudget
from agents.settings import Budgets, RunSettings
from agents.state_address import public_address
from app.as_before import with_models_of, with_source
from app.batch_options import TaskLimits
from app.budgets import ends_of_search, span_of
from app.configuration import Asked, Configuration, Sourced, configure
from app.inputs import documents_at, lessons_at
from tools.errors import WarpsmithError
from tools.records import TargetName

STATE_VARIABLE = "WARPSMITH_BATCH_STATE"
"""In the environment of a task's process: where checkpoints are kept, with the password that nobody may read."""


@dataclass(frozen=True)
class BatchRequest:
    """What was asked for on the command line. None is what the batch had before, or the default."""

    paths: tuple[Path, ...]
    resume: str | None
    name: str | None
    jobs: int | None
    turn: int | None
    retries: int | None
    target: TargetName | None
    each: TaskLimits
    wall_time: str | None
    device_time: str | None
    parallel: int | None
    samples: int | None
    pause_at_limit: bool | None
    state: str | None
    """With a password, perhaps: it is never written down."""
    otel: str | None
    asked: Asked
    docs: tuple[Path, ...]
    lessons: str | None
    seed: int | None
    runs: Path
    executor: str | None
    command: tuple[str, ...]


def plan_for(
    request: BatchRequest, before: Plan | None, environ: Mapping[str, str], folder: Path
) -> tuple[Plan, Configuration]:
    """The plan, and how its models are reached. Raises WarpsmithError."""
    asked = _asked_over(request.asked, before)
    configuration = configure(asked, environ, folder)
    old = before or Plan(settings=RunSettings(lessons=lessons_at(request.lessons)))
    settings = _settings(request, old.settings, configuration, is_new=before is None)
    pinned = with_models_of(replace(asked, fallback=()), settings.models)
    values: dict[str, Any] = {
        "settings": settings,
        "shared": _shared(request, old.shared, configuration, is_new=before is None),
        "asked": {name: _plain(value) for name, value in asdict(pinned).items()},
    }
    values["state"] = old.state if request.state is None else public_address(request.state)
    for name in ("jobs", "turn", "retries", "executor", "otel", "pause_at_limit"):
        given = getattr(request, name)
        values[name] = getattr(old, name) if given is None else given
    told = configuration if before is None else with_source(configuration, request.asked)
    return Plan.model_validate(values | {"pause": old.pause}), told


def configuration_of(plan: Plan, environ: Mapping[str, str], folder: Path) -> Configuration:
    """How the models of a plan are reached, for the process of one task."""
    return configure(_asked_in(plan), environ, folder)


def _settings(request: BatchRequest, old: RunSettings, configuration: Configuration, is_new: bool) -> RunSettings:
    changes: dict[str, object] = {
        "budgets": _own(request.each, old.budgets, configuration if is_new else None),
        "models": configuration.models,
    }
    given: dict[str, object | None] = {
        "language": None if request.target is None else "cuda" if request.target == "cuda" else "cpp",
        "parallel": request.parallel,
        "samples": request.samples,
        "seed": request.seed,
        "documents": tuple(str(documents_at(path)) for path in request.docs) or None,
    }
    changes |= {name: value for name, value in given.items() if value is not None}
    if request.lessons is not None:
        changes["lessons"] = lessons_at(request.lessons)
    return RunSettings.model_validate(old.model_dump() | changes)


def _own(each: TaskLimits, old: Budgets, configuration: Configuration | None) -> Budgets:
    """Each task's budgets. configuration: where a new batch finds what the command line does not say."""
    said = {} if configuration is None else configuration.budgets
    given = {
        "wall_time": span_of(each.task_wall_time, "--task-wall-time"),
        "device_time": span_of(each.task_device_time, "--task-device-time"),
        "dollars": _amount(each.task_dollars, "--task-dollars"),
        "tokens": _amount(each.task_tokens, "--task-tokens"),
    }
    own = {name: value for name, value in given.items() if value is not None}
    return Budgets.model_validate(old.model_dump() | ends_of_search(each, said) | own)


def _shared(request: BatchRequest, old: SharedBudget, configuration: Configuration, *, is_new: bool) -> SharedBudget:
    """Of a batch that was begun before only what the command line says now is another one."""
    now = [name for name in ("max_dollars", "max_tokens") if getattr(request.asked, name) is not None]
    said = {name: budget for name, budget in configuration.budgets.items() if is_new or name in now}
    wall_time = Sourced(request.wall_time, "--wall-time") if request.wall_time is not None else said.get("wall_time")
    given = {
        "dollars": said["max_dollars"].value if "max_dollars" in said else None,
        "tokens": said["max_tokens"].value if "max_tokens" in said else None,
        "device_time": span_of(request.device_time, "--device-time"),
        "wall_time": None if wall_time is None else span_of(str(wall_time.value), wall_time.source),
    }
    return SharedBudget.model_validate(old.model_dump() | {n: value for n, value in given.items() if value is not None})


def _asked_over(asked: Asked, before: Plan | None) -> Asked:
    """What is asked now, over what was asked when the batch was last run."""
    if before is None:
        return asked
    earlier, now = asdict(_asked_in(before)), asdict(with_models_of(asked, before.settings.models))
    return Asked(
        **(earlier | {name: value for name, value in now.items() if value not in (None, ())} | {"model": None})
    )


def _asked_in(plan: Plan) -> Asked:
    known = {field.name for field in fields(Asked)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in plan.asked.items() if name in known
    }
    if values.get("config") is not None:
        values["config"] = Path(values["config"])
    return Asked(**values)


def _plain(value: object) -> object:
    return str(value.absolute()) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def _amount(value: float | None, source: str) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise WarpsmithError(f"{source} is {value:g}, which is no amount above zero", "For instance: 5")
    return value
