"""The control flow of a run, on one screen:

    begin ─> plan ─> code (one a kernel, in parallel) ─> [choose ─>] analyse ─┐
             │ ^ └─> approve (a person's word) ─> code                        │
             │ └──────────┴───────────────────────────────────────────────────┘
             └> finish

Each node's return type names where it can go.
"""

from __future__ import annotations

from typing import Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt

from agents import analyst, coder, planner, samples, steps
from agents.context import Context
from agents.state import Begin, CodeOrder, State


async def begin(state: Begin, runtime: Runtime[Context]) -> Command[Literal["plan"]]:
    """Judge the starting kernel: attempt a0."""
    return Command(update=await steps.judge_start(state, runtime.context), goto="plan")


async def plan(state: State, runtime: Runtime[Context]) -> Command[Literal["code", "approve", "analyse", "finish"]]:
    """End the run, or ask the planner what to try next."""
    state = await steps.heed(state, runtime.context)
    if reason := steps.reason_to_stop(state, runtime.context):
        return Command(update={"stop": reason}, goto="finish")
    proposed = await planner.propose(state, runtime.context)
    if proposed.nothing_left:
        return Command(update=steps.exhausted(proposed), goto="finish")
    if runtime.context.settings.approve and proposed.hypotheses:
        return Command(update=steps.planned(state, proposed, runtime.context), goto="approve")
    orders = [Send("code", order) for order in steps.orders(state, proposed, runtime.context)]
    return Command(update=steps.planned(state, proposed, runtime.context), goto=orders or "analyse")


async def approve(state: State, runtime: Runtime[Context]) -> Command[Literal["code", "plan"]]:
    """Wait for a person's word on the plan. The question stays in the checkpoint while nobody answers."""
    if (waits := steps.waits_for_a_word(state, runtime.context)) is not None:
        interrupt(waits)
    approved = steps.approved(state, runtime.context)
    if approved is None:
        return Command(goto="plan")
    return Command(goto=[Send("code", order) for order in steps.orders(state, approved, runtime.context)])


async def code(state: CodeOrder, runtime: Runtime[Context]) -> Command[Literal["choose", "analyse"]]:
    """Turn one hypothesis into a kernel that was judged, or into one of several to choose from."""
    only = state.get("sample") is None
    return Command(update=await coder.realise(state, runtime.context), goto="analyse" if only else "choose")


async def choose(state: State, runtime: Runtime[Context]) -> Command[Literal["analyse"]]:
    """Let the judge choose between the kernels that were drawn for each hypothesis."""
    return Command(update=await samples.choose(state, runtime.context), goto="analyse")


async def analyse(state: State, runtime: Runtime[Context]) -> Command[Literal["plan"]]:
    """Read what this iteration's attempts measured, and close the iteration."""
    device_seconds = await analyst.examine(state, runtime.context)
    return Command(update=steps.close_iteration(state, device_seconds, runtime.context), goto="plan")


async def finish(state: State, runtime: Runtime[Context]) -> Command[Literal["__end__"]]:
    """Measure the winner afresh."""
    return Command(update=await steps.measure_winner(state, runtime.context), goto="__end__")


def build_graph(checkpointer: BaseCheckpointSaver[str]) -> CompiledStateGraph[State, Context, Begin, State]:
    graph = StateGraph(State, context_schema=Context, input_schema=Begin)
    graph.add_node(begin).add_node(plan).add_node(approve).add_node(code).add_node(choose).add_node(analyse)
    graph.add_node(finish)
    graph.add_edge(START, "begin")
    return graph.compile(checkpointer)
