"""The planner's turn: from everything known to hypotheses."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents import briefing
from agents.actions import TOOLS
from agents.context import Context
from agents.seat import Seat
from agents.state import Hypothesis, State
from agents.toolbox import Toolbox
from agents.turn import converse


@dataclass(frozen=True)
class Proposed:
    """Blob ids of the hypotheses. `nothing_left` when the planner said so, which is not the same as saying nothing."""

    hypotheses: tuple[str, ...]
    nothing_left: bool
    device_seconds: float


async def propose(state: State, context: Context) -> Proposed:
    """Ask the planner what to try in the next iteration."""
    iteration = state["iteration"] + 1
    context.clock.begin_lap()
    context.journal.tell("iteration_started", iteration=iteration, iterations=context.settings.budgets.iterations)
    seat = Seat(context, "planner", iteration, state["attempts"], state.get("device_seconds", 0.0))
    opening = briefing.for_planner(seat, state["stale"])
    toolbox = Toolbox(TOOLS["planner"], seat)
    end = await converse(seat, f"{iteration:04d}-planner", opening, toolbox)
    if not end.answers:
        return Proposed((), False, end.device_seconds)
    proposed = [item for answer in end.answers for item in json.loads(answer.text)]
    hypotheses = [Hypothesis.model_validate(item) for item in proposed[: context.settings.parallel]]
    for hypothesis in hypotheses:
        context.journal.tell("hypothesis", iteration=iteration, **hypothesis.model_dump(mode="json"))
    ids = tuple(context.run.blobs.put(hypothesis.model_dump_json(), durable=True) for hypothesis in hypotheses)
    return Proposed(ids, not hypotheses, end.device_seconds)
