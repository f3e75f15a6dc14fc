"""The analyst's turn: from what was measured to what bounds the kernel."""

from __future__ import annotations

from agents import briefing
from agents.actions import TOOLS
from agents.context import Context
from agents.seat import Seat
from agents.state import State
from agents.toolbox import Toolbox
from agents.turn import converse


async def examine(state: State, context: Context) -> float:
    """Have the analyst read this iteration's attempts, if it judged any that are new. Returns seconds on the device."""
    iteration = state["iteration"] + 1
    attempts = context.attempts.first(state["attempts"])
    new = [attempt for attempt in attempts if attempt.iteration == iteration]
    if not new:
        return 0.0
    seat = Seat(context, "analyst", iteration, state["attempts"], state.get("device_seconds", 0.0))
    opening = briefing.for_analyst(seat, new)
    toolbox = Toolbox(TOOLS["analyst"], seat)
    end = await converse(seat, f"{iteration:04d}-analyst", opening, toolbox)
    return end.device_seconds
