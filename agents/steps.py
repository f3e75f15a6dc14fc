"""What the graph's nodes do beside talking to models: each returns the state's update."""

from __future__ import annotations

import json
from typing import cast

from pydantic import JsonValue

from agents import limits, nearing, planner, reflection
from agents.context import Context
from agents.limits import StopReason
from agents.planner import Proposed
from agents.state import Begin, CodeOrder, Hypothesis, State


async def judge_start(state: Begin, context: Context) -> State:
    """Judge the starting kernel, if the task has one, as attempt a0."""
    start = context.task.start.get(context.settings.language)
    device_seconds = 0.0
    known = context.attempts.first(1)
    if start is not None and (not known or known[0].call is not None):
        judged = await context.attempts.judge(start, None, 0, None, call="start")
        device_seconds = judged.device_seconds
    context.clock.start()
    return State(
        iteration=state["iteration"],
        attempts=context.attempts.count_until(0),
        best=_best(context),
        stale=0,
        device_seconds=device_seconds,
        elapsed=context.clock.elapsed,
        stop=None,
    )


async def heed(state: State, context: Context) -> State:
    """The state with what a person did since: every command is heeded, and kernels by his or her hand are judged."""
    await context.steering.settle()
    known = max(state["attempts"], context.attempts.count_until(state["iteration"]))
    return cast(State, {**state, "attempts": known})


def reason_to_stop(state: State, context: Context) -> StopReason | None:
    """Why there is no next iteration, or None. One that was begun before is finished, unless a person ended the run."""
    if context.steering.is_over:
        return "user"
    iteration = state["iteration"] + 1
    if not context.told.is_new("iteration_started", {"iteration": iteration}):
        return None
    best = context.run.best_of(context.attempts.first(state["attempts"]), iteration)
    share = None if best is None else context.attempts.find(best).share_of_limit
    spent = context.purse.spent_with(state.get("device_seconds", 0.0))
    elapsed, budgets = context.clock.elapsed, context.settings.budgets
    own = limits.reason_to_stop(state, spent, share, elapsed, budgets)
    if reason := own or context.purse.common_over:
        return reason
    nearing.tell(limits.gauges(state, spent, elapsed, budgets), state["iteration"], context)
    return None


def planned(state: State, proposed: Proposed, context: Context) -> State:
    """state: as `heed` left it."""
    return State(
        hypotheses=len(proposed.hypotheses),
        attempts=state["attempts"],
        device_seconds=proposed.device_seconds + context.steering.take_device_seconds(),
        plan=list(proposed.hypotheses),
        plans=proposed.rejected,
    )


def waits_for_a_word(state: State, context: Context) -> list[JsonValue] | None:
    """The hypotheses of a plan that waits; None when a person gave his or her word, or none is wanted any more."""
    steering, iteration = context.steering, state["iteration"] + 1
    if not context.settings.approve or steering.is_over or steering.wishes.decision(iteration, state["plans"]):
        return None
    waiting: list[JsonValue] = [json.loads(context.run.blobs.get(blob)) for blob in state["plan"]]
    steering.plan_waits(iteration, waiting)
    return waiting


def approved(state: State, context: Context) -> Proposed | None:
    """What is carried out of a plan that waited; None when the planner is to be asked again, or the run is to end."""
    steering, iteration = context.steering, state["iteration"] + 1
    word = steering.wishes.decision(iteration, state["plans"])
    if steering.is_over or (word is not None and word.action == "reject"):
        return None
    steering.wishes.waiting = None
    if word is None or word.action == "approve":
        return Proposed(tuple(state["plan"]), False, 0.0)
    hypotheses = [Hypothesis.model_validate(item) for item in word.about["hypotheses"]]
    return Proposed(planner.put_down(hypotheses, iteration, context), False, 0.0)


def exhausted(proposed: Proposed) -> State:
    return State(hypotheses=0, device_seconds=proposed.device_seconds, stop="exhausted")


def orders(state: State, proposed: Proposed, context: Context) -> list[CodeOrder]:
    """One for each kernel that is drawn for each hypothesis."""
    most = context.settings.samples
    drawn = [
        (hypothesis, sample if most > 1 else None)
        for hypothesis in proposed.hypotheses
        for sample in range(1, most + 1)
    ]
    return [
        CodeOrder(
            iteration=state["iteration"] + 1,
            slot=slot,
            sample=sample,
            attempts=state["attempts"],
            device_seconds=state.get("device_seconds", 0.0) + proposed.device_seconds,
            hypothesis=hypothesis,
        )
        for slot, (hypothesis, sample) in enumerate(drawn)
    ]


def close_iteration(state: State, device_seconds: float, context: Context) -> State:
    """Count the iteration, the attempts since the last gain, and the iterations of which none came."""
    iteration = state["iteration"] + 1
    attempts = context.attempts.first(state["attempts"])
    new = [attempt for attempt in attempts if attempt.iteration == iteration]
    reflection.score_iteration(context.run, new)
    context.lessons.score_cited(new)
    gained = any(attempt.outcome == "kept" for attempt in new)
    stale = 0 if gained else state["stale"] + len(new)
    idle = 0 if new else state.get("idle", 0) + 1
    best, budgets, elapsed = context.attempts.best(), context.settings.budgets, context.clock.elapsed
    context.journal.tell(
        "iteration_ended",
        iteration=iteration,
        iterations=budgets.iterations,
        attempts=len(attempts),
        best=None if best is None else best.id,
        seconds=None if best is None else best.seconds,
        share_of_limit=None if best is None else best.share_of_limit,
        elapsed=elapsed,
        time_left=limits.time_left(iteration, elapsed, budgets),
        stale=stale,
        harness_seconds=context.clock.lap_inside,
    )
    return State(
        iteration=iteration, best=_best(context), stale=stale, idle=idle, device_seconds=device_seconds, elapsed=elapsed
    )


async def measure_winner(state: State, context: Context) -> State:
    """Measure the best kernel afresh against the starting kernel, and take the next best when it does not stand."""
    iteration = state["iteration"]
    context.steering.enters("end")
    if state.get("stop") is not None:
        about: dict[str, JsonValue] = {"reason": state["stop"], "iteration": iteration}
        wished = context.steering.wishes.restraints(iteration + 1) if state["stop"] in ("exhausted", "idle") else ""
        context.journal.tell("stopping", **about, **({"message": wished} if wished else {}))
    counted = context.attempts.final_seconds(iteration) if context.told.ended_after(iteration) else 0.0
    await context.attempts.measure_winner(iteration)
    seconds = context.attempts.final_seconds(iteration) - counted
    return State(best=_best(context), device_seconds=seconds, elapsed=context.clock.elapsed)


def _best(context: Context) -> str | None:
    best = context.attempts.best()
    return None if best is None else best.id
