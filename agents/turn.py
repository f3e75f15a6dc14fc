"""One turn of one role: ask the model, do what it asks for, until it is done.

Every model call and every tool call is a task of its own, so that a run which was killed in the middle of a turn goes
on after the last finished call and pays for nothing twice. Results travel by blob id.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from langgraph.func import task

from agents.limits import out_of_budget
from agents.models.base import ChatModel, Message, Reply, Request, ToolCall
from agents.seat import Seat
from agents.state import NOTHING_SPENT, Spent, added, device_time
from agents.thread import COUNTER, within_window
from agents.toolbox import Answer, Toolbox
from memory.view import shorten
from tools.records import Kernel

ANSWER_TOKENS = 8_000
"""The most that one tool result may take; the rest is in the run folder."""
REMINDERS = 2
"""How often a role that must end with a certain tool is asked to."""


class Asked(TypedDict):
    """A finished model call."""

    reply: str
    spent: Spent


class Acted(TypedDict):
    """A finished tool call."""

    answer: str
    spent: Spent


@dataclass(frozen=True)
class TurnEnd:
    """What a turn left behind: the answer of the tool that ended it (None when no such tool was called), and its cost.

    `kernel` is the last candidate that a tool handled, as JSON text.
    """

    answer: Answer | None
    kernel: str | None
    spent: Spent


async def converse(seat: Seat, name: str, opening: Sequence[Message], toolbox: Toolbox, reminder: str = "") -> TurnEnd:
    """Let the model of the seat's role work until it stops calling tools, ends its turn, or a budget is used up.

    name: unique in the run and equal when a resumed run does the turn again. reminder: said to a model that stops
    without ending its turn by a tool; empty when it may.
    """
    context = seat.context
    model, settings = context.models[seat.role], context.settings
    thread, spent, kernel, reminders = list(opening), NOTHING_SPENT, None, 0
    for _ in range(settings.turn_steps):
        if out_of_budget(added(seat.spent, spent), context.clock.elapsed, settings.budgets):
            break
        request = Request(
            messages=within_window(thread, toolbox.specs, seat),
            tools=tuple(toolbox.specs),
            reply_tokens=settings.reply_tokens,
            cache_key=f"{context.run.id}-{seat.role}",
        )
        asked = await ask(seat, name, model, request)
        reply = Reply.model_validate_json(context.run.blobs.get(asked["reply"]))
        thread.append(reply.message)
        spent = added(spent, asked["spent"])
        for call in reply.tool_calls:
            acted = await act(seat, name, toolbox, call)
            answer = Answer.model_validate_json(context.run.blobs.get(acted["answer"]))
            thread.append(
                Message(
                    speaker="tool", text=answer.text, call=call.id, failed=answer.fault is not None, label=call.name
                )
            )
            spent = added(spent, acted["spent"])
            kernel = answer.kernel.model_dump_json() if answer.kernel is not None else kernel
            if answer.ends_turn:
                return TurnEnd(answer, kernel, spent)
        if not reply.tool_calls:
            if not reminder or reminders == REMINDERS:
                break
            reminders += 1
            thread.append(Message(speaker="user", text=reminder, label="reminder"))
    return TurnEnd(None, kernel, spent)


@task
async def ask(seat: Seat, name: str, model: ChatModel, request: Request) -> Asked:
    """One model call."""
    context = seat.context
    started = time.monotonic()
    reply = await model.reply(request)
    seconds = time.monotonic() - started
    context.clock.outside(seconds)
    context.journal.tell(
        "model_called", role=seat.role, model=model.name, **reply.usage.model_dump(mode="json"), seconds=seconds
    )
    _write_down(seat, name, request.messages, reply)
    usage = reply.usage
    cost = Spent(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        dollars=usage.dollars or 0.0,
        device_seconds=0.0,
    )
    return Asked(reply=context.run.blobs.put(reply.model_dump_json()), spent=cost)


@task
async def act(seat: Seat, name: str, toolbox: Toolbox, call: ToolCall) -> Acted:
    """One tool call. The answer is cut to what a prompt can hold; the transcript has it whole."""
    context = seat.context
    started = time.monotonic()
    answer = await toolbox.call(call)
    context.clock.outside(answer.device_seconds)
    context.journal.tell(
        "tool_called",
        role=seat.role,
        tool=call.name,
        ok=answer.fault is None,
        error=answer.fault,
        seconds=time.monotonic() - started,
    )
    context.run.transcript(name).add({"speaker": "tool", "call": call.id, "tool": call.name, "text": answer.text})
    kept = (
        answer if answer.ends_turn else answer.model_copy(update={"text": shorten(answer.text, ANSWER_TOKENS, COUNTER)})
    )
    return Acted(answer=context.run.blobs.put(kept.model_dump_json()), spent=device_time(answer.device_seconds))


@task
async def judge_last(seat: Seat, kernel: str) -> Spent:
    """Judge the last candidate of a turn (a Kernel as JSON) if it was not judged yet."""
    judged = await seat.context.attempts.judge(
        Kernel.model_validate_json(kernel), seat.parent, seat.iteration, seat.hypothesis
    )
    seat.context.clock.outside(judged.device_seconds)
    return device_time(judged.device_seconds)


def _write_down(seat: Seat, name: str, messages: Sequence[Message], reply: Reply) -> None:
    """The reply, and before a turn's first reply its opening: by blob id, so that equal parts are stored once.

    The ledger is left out: it grows with the run and can be rendered again from the attempts that the seat was told of.
    """
    transcript = seat.context.run.transcript(name)
    if not any(message.speaker == "assistant" for message in messages):
        for message in messages:
            if message.label == "ledger":
                transcript.add({"speaker": message.speaker, "label": "ledger", "attempts": seat.attempts})
            else:
                blob = seat.context.run.blobs.put(message.text)
                transcript.add({"speaker": message.speaker, "label": message.label, "blob": blob})
    transcript.add({"speaker": "assistant", **reply.model_dump(mode="json", exclude={"opaque"})})
