"""The budgets of a run, of what was said on the command line and in the settings."""

from __future__ import annotations

from agents.settings import Budgets
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
    for name, value in (("iterations", limits.iterations), ("patience", limits.patience)):
        if value is not None:
            budgets[name] = value
        elif name in said:
            budgets[name] = said[name].value
    if limits.near_limit is not None:
        budgets["near_limit"] = near_limit_of(limits.near_limit)
    wall_time = Sourced(limits.wall_time, "--wall-time") if limits.wall_time is not None else said.get("wall_time")
    if wall_time is not None:
        budgets["wall_time"] = span_of(str(wall_time.value), wall_time.source)
    if limits.device_time is not None:
        budgets["device_time"] = span_of(limits.device_time, "--device-time")
    return Budgets.model_validate(budgets)


def budgets_over(before: Budgets, limits: RunLimits, asked: Asked) -> Budgets:
    """Those of a run that was begun before, with what the command line says otherwise. Raises WarpsmithError."""
    said: dict[str, object] = {
        "iterations": limits.iterations,
        "patience": limits.patience,
        "dollars": asked.max_dollars,
        "tokens": asked.max_tokens,
        "wall_time": span_of(limits.wall_time, "--wall-time"),
        "device_time": span_of(limits.device_time, "--device-time"),
    }
    budgets = before.model_dump() | {name: value for name, value in said.items() if value is not None}
    if limits.near_limit is not None:
        budgets["near_limit"] = near_limit_of(limits.near_limit)
    return Budgets.model_validate(budgets)


def near_limit_of(percent: float) -> float | None:
    """As a fraction; 0 switches it off. Raises WarpsmithError."""
    if not 0 <= percent < 100:
        raise WarpsmithError(f"--near-limit {percent:g} is not a percentage below 100")
    return percent / 100 or None


def span_of(text: str | None, source: str) -> float | None:
    """Seconds; None when nothing was said. Raises WarpsmithError, which names the source."""
    if text is None:
        return None
    try:
        return seconds_of(text)
    except ValueError as error:
        raise WarpsmithError(f"{source}: {error}", "Give a number with s, m, h or d.") from error
