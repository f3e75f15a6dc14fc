"""The coder's turn: from a hypothesis to a kernel that was judged."""

from __future__ import annotations

from agents import briefing
from agents.actions import TOOLS
from agents.context import Context
from agents.seat import Seat
from agents.state import CodeOrder, Hypothesis, State, added
from agents.thread import prompt_budget
from agents.toolbox import Toolbox
from agents.turn import converse, judge_last


async def realise(order: CodeOrder, context: Context) -> State:
    """Have the coder turn one hypothesis into attempts. What it built but did not hand in is judged for it, so that
    every idea that became code has its line in the ledger."""
    hypothesis = Hypothesis.model_validate_json(context.run.blobs.get(order["hypothesis"]))
    seat = Seat(context, "coder", order["iteration"], order["attempts"], order["spent"], hypothesis)
    opening = briefing.for_coder(
        context, context.attempts.first(order["attempts"]), hypothesis, seat.parent, prompt_budget(seat)
    )
    name = f"{order['iteration']:04d}-coder-{order['slot']}"
    end = await converse(seat, name, opening, Toolbox(TOOLS["coder"], seat))
    spent = end.spent
    if end.kernel is not None:
        spent = added(spent, await judge_last(seat, end.kernel))
    return State(attempts=context.attempts.count, spent=spent)
