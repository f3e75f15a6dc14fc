"""The coder's turn: from a hypothesis to a kernel that was judged."""

from __future__ import annotations

from dataclasses import replace

from agents import briefing
from agents.actions import TOOLS
from agents.calls import judge_last
from agents.context import Context
from agents.events import bound
from agents.seat import Seat
from agents.state import CodeOrder, Draft, Hypothesis, State
from agents.toolbox import Toolbox
from agents.turn import converse


async def realise(order: CodeOrder, context: Context) -> State:
    """Have the coder turn one hypothesis into attempts, or, as one of several, into a draft. What it built but did not
    hand in is judged for it, so that every idea that became code has its line in the ledger."""
    hypothesis = Hypothesis.model_validate_json(context.run.blobs.get(order["hypothesis"]))
    iteration, sample = order["iteration"], order.get("sample")
    seat = Seat(context, "coder", iteration, order["attempts"], order["device_seconds"], hypothesis, sample=sample)
    opening = briefing.for_coder(seat)
    name = f"{iteration:04d}-coder-{order['slot']}"
    end = await converse(seat, name, opening, Toolbox(TOOLS["coder"], seat))
    device_seconds = end.device_seconds
    if sample is not None:
        kernel = None if end.kernel is None else context.run.blobs.put(end.kernel, durable=True)
        draft = Draft(
            iteration=iteration,
            slot=order["slot"],
            sample=sample,
            turn=name,
            hypothesis=order["hypothesis"],
            kernel=kernel,
        )
        return State(drafts=[draft], device_seconds=device_seconds)
    if end.kernel is not None:
        seat = replace(seat, call=f"{context.told.name_of(name, seat.iteration)}/last")
        with bound(iteration=seat.iteration, role=seat.role, turn=name):
            device_seconds += await judge_last(seat, end.kernel)
    return State(attempts=context.attempts.count_until(seat.iteration), device_seconds=device_seconds)
