"""The analyst's turn: from what was measured to what bounds the kernel."""

from __future__ import annotations

from agents import briefing
from agents.actions import TOOLS
from agents.context import Context
from agents.seat import Seat
from agents.state import NOTHING_SPENT, Spent, State
from agents.thread import prompt_budget
from agents.toolbox import Toolbox
from agents.turn import converse


async def examine(state: State, context: Context) -> Spent:
    """Have the analyst read this iteration's attempts, if it judged any that are new. Returns what the turn cost."""
    iteration = state["iteration"] + 1
    attempts = context.attempts.first(state["attempts"])
    new = [attempt for attempt in attempts if attempt.iteration == iteration]
    if not new:
        return NOTHING_SPENT
    seat = Seat(context, "analyst", iteration, state["attempts"], state["spent"])
    opening = briefing.for_analyst(context, attempts, new, iteration, prompt_budget(seat))
    toolbox = Toolbox(TOOLS["analyst"], seat)
    end = await converse(
        seat, f"{iteration:04d}-analyst", opening, toolbox, "Hand in your diagnoses by calling `diagnose`."
    )
    return end.spent
