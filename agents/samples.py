"""Several kernels for one hypothesis: the judge races them in one call, and the fastest is judged in full.

Each comes from a coder of its own, which knows nothing of the others. A short race only chooses: what stands in the
ledger is the one that went through the gauntlet, and an idea of which every sample fails has a line that says why.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from langgraph.func import task
from pydantic import JsonValue

from agents.calls import judge_last
from agents.context import Context
from agents.events import bound
from agents.seat import Seat
from agents.state import Draft, Hypothesis, State
from agents.told import Raced
from tools.records import Kernel, QuickResult


async def choose(state: State, context: Context) -> State:
    """For each hypothesis of the iteration in turn: race its drafts, and judge the fastest."""
    iteration = state["iteration"] + 1
    drafts = sorted(state["drafts"], key=lambda draft: draft["slot"])
    device_seconds = 0.0
    for place, (blob, found) in enumerate(groupby(drafts, key=lambda draft: draft["hypothesis"])):
        hypothesis = Hypothesis.model_validate_json(context.run.blobs.get(blob))
        name = f"{iteration:04d}-choose-{place}"
        call = context.told.name_of(name, iteration)
        seat = Seat(context, "coder", iteration, state["attempts"], state.get("device_seconds", 0.0), hypothesis, call)
        device_seconds += await _choose_one(seat, name, list(found))
    return State(attempts=context.attempts.count_until(iteration), device_seconds=device_seconds)


async def _choose_one(seat: Seat, name: str, drafts: Sequence[Draft]) -> float:
    """Seconds on the device."""
    with bound(iteration=seat.iteration, role=seat.role, turn=name):
        raced = await race(seat, drafts)
        chosen = next((draft for draft in drafts if draft["sample"] == raced["chosen"]), None)
        if chosen is None or chosen["kernel"] is None:
            return raced["device_seconds"]
        seat = replace(seat, call=f"{seat.call}/chosen", sample=chosen["sample"])
        return raced["device_seconds"] + await judge_last(seat, seat.context.run.blobs.get(chosen["kernel"]))


@task
async def race(seat: Seat, drafts: Sequence[Draft]) -> Raced:
    """The fastest draft, timed side by side with the others and the best kernel; the first one when none was timed.

    Kernels that are the same are timed once; a single one is not timed at all.
    """
    context, call = seat.context, seat.call or ""
    earlier = context.told.raced(call)
    if earlier is not None:
        return earlier
    kernels = {
        draft["sample"]: Kernel.model_validate_json(context.run.blobs.get(draft["kernel"]))
        for draft in drafts
        if draft["kernel"] is not None
    }
    different = list({kernel.id: kernel for kernel in kernels.values()}.values())
    started = time.monotonic()
    results: list[QuickResult] = []
    if len(different) > 1:
        best = context.attempts.best()
        incumbent = None if best is None else context.attempts.kernel(best.id)
        with context.in_flight.one():
            results = await context.executor.quick(context.task, different, incumbent)
    seconds = time.monotonic() - started
    context.clock.outside(seconds)
    timed = {result.kernel: result for result in results}
    raced = Raced(chosen=fastest(kernels, timed), device_seconds=seconds)
    context.journal.tell(
        "samples_raced",
        iteration=seat.iteration,
        change="" if seat.hypothesis is None else seat.hypothesis.change,
        samples=[_told(draft, kernels.get(draft["sample"]), timed) for draft in drafts],
        call=call,
        **raced,
    )
    context.journal.flush()
    return raced


def fastest(kernels: dict[int, Kernel], timed: dict[str, QuickResult]) -> int | None:
    """The sample with the shortest time, the first one of equals; the first one at all when none was timed."""
    seconds = {sample: timed[kernel.id].seconds for sample, kernel in kernels.items() if kernel.id in timed}
    measured = {sample: time for sample, time in seconds.items() if time is not None}
    return min(measured, key=lambda sample: (measured[sample], sample)) if measured else min(kernels, default=None)


def _told(draft: Draft, kernel: Kernel | None, timed: dict[str, QuickResult]) -> dict[str, JsonValue]:
    result = None if kernel is None else timed.get(kernel.id)
    return {
        "sample": draft["sample"],
        "turn": draft["turn"],
        "kernel": None if kernel is None else kernel.id,
        "seconds": None if result is None else result.seconds,
        "reason": None if result is None else result.reason,
    }
