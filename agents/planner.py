"""The planner's turn: from everything known to hypotheses."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents import briefing
from agents.actions import TOOLS
from agents.context import Context
from agents.seat import Seat
from agents.state import Hypothesis, Spent, State
from agents.thread import prompt_budget
from agents.toolbox import Toolbox
from agents.turn import converse


@dataclass(frozen=True)
class Proposed:
    """Blob ids of the hypotheses. `nothing_left` when the planner said so, which is not the same as saying nothing."""

    hypotheses: tuple[str, ...]
    nothing_left: bool
    spent: Spent


async def propose(state: State, context: Context) -> Proposed:
    """Ask the planner what to try in the next iteration."""
    iteration = state["iteration"] + 1
    context.clock.begin_lap()
    context.journal.tell("iteration_started", iteration=iteration, iterations=context.settings.budgets.iterations)
    seat = Seat(context, "planner", iteration, state["attempts"], state["spent"])
    opening = briefing.for_planner(
        context, context.attempts.first(state["attempts"]), iteration, state["stale"], prompt_budget(seat)
    )
    toolbox = Toolbox(TOOLS["planner"], seat)
    end = await converse(
        seat, f"{iteration:04d}-planner", opening, toolbox, "Propose what to try by calling `propose`."
    )
    if end.answer is None:
        return Proposed((), False, end.spent)
    hypotheses = [Hypothesis.model_validate(item) for item in json.loads(end.answer.text)]
    for hypothesis in hypotheses:
        context.journal.tell("hypothesis", iteration=iteration, **hypothesis.model_dump(mode="json"))
    ids = tuple(context.run.blobs.put(hypothesis.model_dump_json()) for hypothesis in hypotheses)
    return Proposed(ids, not hypotheses, end.spent)
