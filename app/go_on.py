"""How a run that is at a limit goes on, as a command."""

from __future__ import annotations

import shlex
from typing import Final

from agents.limits import StopReason
from memory.runs import RunFolder

RAISES: Final[dict[StopReason, tuple[str, str]]] = {
    "iterations": ("iterations", "--iterations 400"),
    "near_limit": ("near_limit", "--near-limit 2"),
    "patience": ("patience", "--patience 80"),
    "money": ("dollars", "--max-dollars 20"),
    "tokens": ("tokens", "--max-tokens 5000000"),
    "wall_time": ("wall_time", "--wall-time 8h"),
    "device_time": ("device_time", "--device-time 2h"),
}
"""Reasons to end that a larger budget takes away: the budget, and how to give one."""


def how_to_go_on(run: RunFolder, reason: StopReason) -> str:
    """The command that lifts the limit, with an amount for an example."""
    return f"warpsmith resume {shlex.quote(str(run.path))} {RAISES[reason][1]}"
