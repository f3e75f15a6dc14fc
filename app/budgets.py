"""The budgets of a run, of what was said on the command line and in the settings."""

from __future__ import annotations

from collections.abc import Mapping

from agents.settings import Budgets
from app.batch_options import TaskLimits
from app.configuration import Asked, Configuration, Sourced
from app.inputs import seconds_of
from app.options import RunLimits
from tools.errors import WarpsmithError


def budgets_of(limits: RunLimits, configuration: Configuration) -> Budgets:
    """What the command line says, over what the environment and the settings files say. Raises WarpsmithError."""
    said = configuration.budgets
    budgets: dict[str, object] = {
        setting: said[name].value
        for name, setting in (("max_dollars", "dollars"), ("max_tokens", "tokens"))
        if name in said
    }
    budgets |= ends_of_search(limits, said)
    wall_time = Sourced(limits.wall_time, "--wall-time") if limits.wall_time is not None else said.get("wall_time")
    if wall_time is not None:
        budgets["wall_time"] = span_of(str(wall_time.value), wall_time.source)
    if limits.device_time is not None:
        budgets["device_time"] = span_of(limits.device_time, "--device-time")
    return Budgets.model_validate(budgets)


def budgets_over(before: Budgets, limits: RunLimits, asked: Asked) -> Budgets:
    """Those of a run that was begun before, with what the command line says otherwise. Raises WarpsmithError."""
    said = {
        "dollars": asked.max_dollars,
        "tokens": asked.max_tokens,
        "wall_time": span_of(limits.wall_time, "--wall-time"),
        "device_time": span_of(limits.device_time, "--device-time"),
    }
    given = {name: value for name, value in said.items() if value is not None}
    return Budgets.model_validate(before.model_dump() | ends_of_search(limits, {}) | given)


def ends_of_search(limits: RunLimits | TaskLimits, said: Mapping[str, Sourced[float | int | str]]) -> dict[str, object]:
    """The iterations, the patience and the nearness to the physical limit that the command line says, and of the first
    two else what is `said` elsewhere. Raises WarpsmithError."""
    counts = ("iterations", "patience")
    found: dict[str, object] = {name: said[name].value for name in counts if name in said}
    found |= {name: given for name in counts if (given := getattr(limits, name)) is not None}
    if limits.near_limit is not None:
        if not 0 <= limits.near_limit < 100:
            raise WarpsmithError(f"--near-limit {limits.near_limit:g} is not a percentage below 100")
        found["near_limit"] = limits.near_limit / 100 or None
    return found


def span_of(text: str | None, source: str) -> float | None:
    """Seconds; None when nothing was said. Raises WarpsmithError, which names the source."""
    if text is None:
        return None
    try:
        return seconds_of(text)
    except ValueError as error:
        raise WarpsmithError(f"{source}: {error}", "Give a number with s, m, h or d.") from error
