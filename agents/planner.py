"""The planner's turn: from everything known to hypotheses."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    rejected: int = 0
    """Plans of the iteration that a person rejected before."""


async def propose(state: State, context: Context) -> Proposed:
    """Ask the planner what to try in the next iteration."""
    iteration = state["iteration"] + 1
    rejected = len(context.steering.wishes.rejections(iteration))
    if not rejected:
        context.clock.begin_lap()
        context.journal.tell("iteration_started", iteration=iteration, iterations=context.settings.budgets.iterations)
    context.steering.begins(iteration)
    seat = Seat(context, "planner", iteration, state["attempts"], state.get("device_seconds", 0.0))
    opening = briefing.for_planner(seat, state["stale"])
    toolbox = Toolbox(TOOLS["planner"], seat)
    name = f"{iteration:04d}-planner" + (f"-{rejected}" if rejected else "")
    end = await converse(seat, name, opening, toolbox)
    if not end.answers:
        return Proposed((), False, end.device_seconds, rejected)
    proposed = [item for answer in end.answers for item in json.loads(answer.text)]
    hypotheses = [Hypothesis.model_validate(item) for item in proposed[: context.settings.parallel]]
    return Proposed(put_down(hypotheses, iteration, context), not hypotheses, end.device_seconds, rejected)


def put_down(hypotheses: Sequence[Hypothesis], iteration: int, context: Context) -> tuple[str, ...]:
    """Tell and store what is to be tried; the blob ids."""
    for hypothesis in hypotheses:
        context.journal.tell("hypothesis", iteration=iteration, **hypothesis.model_dump(mode="json"))
    return tuple(context.run.blobs.put(hypothesis.model_dump_json(), durable=True) for hypothesis in hypotheses)
