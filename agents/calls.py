"""The calls of a turn, to a model, to a tool and to the judge: each is a task of its own in the checkpoint."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from langgraph.func import task
from pydantic import JsonValue

from agents import asking
from agents.asking import Asked, Question
from agents.models.base import Message, ModelUnavailable, Reply, Request, ToolCall
from agents.models.failover import Voice
from agents.room import bounded, room_for
from agents.seat import Seat
from agents.told import COSTLY, Acted
from agents.toolbox import Answer, Toolbox
from agents.transcript import adds_up, given_line
from tools.records import Kernel

TOLD = 240
"""Characters of an error that its event tells."""
SUMMARY_REPLY = 3_200
"""Tokens that a summary may take, reasoning included."""


@task
async def ask(seat: Seat, name: str, question: Question, fresh: Sequence[Message]) -> Asked:
    """One model call. fresh: what was said since the last one."""
    return await asking.put(seat, question, lambda reply: _write_down(seat, name, fresh, question.request, reply))


@task
async def sum_up(seat: Seat, name: str, key: str, voice: Voice, messages: tuple[Message, ...]) -> str | None:
    """A model call beside the turn, in which no tool is offered: the reply's blob, or None. key: the call's name."""

    def write_down(reply: Reply) -> None:
        _write_down(seat, f"{name}-summary", messages, request, reply)

    voice = replace(voice)  # the turn's own learns of others at its next step
    while True:
        speaker = (voice.left() or voice.lineup.candidates)[0]  # with nobody left, an earlier answer may still be found
        room = room_for(seat, (), speaker.name, speaker.window, speaker.output)
        request = Request(messages=messages, reply_tokens=min(room.reply, SUMMARY_REPLY))
        try:
            asked = await asking.put(seat, Question(key, request, voice, room.counter, can_do_without=True), write_down)
        except ModelUnavailable:
            return None
        if asked["gone"] is None or asked["gone"][0] != "user":
            return asked["reply"]
        voice.recast(seat.context.models[seat.role])


@task
async def act(seat: Seat, name: str, toolbox: Toolbox, call: ToolCall) -> Acted:
    """One tool call, named by the seat. The answer is cut to what a prompt can hold; the transcript has it whole."""
    context, key = seat.context, seat.call or ""
    earlier = context.told.acted(key)
    if earlier is not None and context.run.blobs.holds(earlier["answer"]):
        return earlier
    started = time.monotonic()
    with context.in_flight.one():
        answer = await toolbox.seated(seat).call(call)
    seconds = time.monotonic() - started
    answer = answer.model_copy(update={"text": context.scrubber.known(answer.text)})
    context.clock.outside(answer.device_seconds)
    context.run.transcript(name).add({"speaker": "tool", "call": call.id, "tool": call.name, "text": answer.text})
    kept = answer if answer.ends_turn else answer.model_copy(update={"text": bounded(seat, answer.text)})
    acted = Acted(
        answer=context.run.blobs.put(kept.model_dump_json(), durable=seconds >= COSTLY),
        device_seconds=answer.device_seconds,
    )
    context.journal.tell(
        "tool_called",
        role=seat.role,
        tool=call.name,
        ok=answer.fault is None,
        error=answer.fault,
        **_why(answer),
        seconds=seconds,
        call=key,
        **acted,
    )
    if seconds >= COSTLY:
        context.journal.flush()
    return acted


def _why(answer: Answer) -> dict[str, JsonValue]:
    """What an event says of a call that came to nothing."""
    if answer.fault is None:
        return {}
    words = " ".join(answer.text.removeprefix(f"error: {answer.fault}: ").split())
    return {"message": words if len(words) <= TOLD else f"{words[: TOLD - 1]}…"}


@task
async def judge_last(seat: Seat, kernel: str) -> float:
    """Judge the last candidate of a turn (a Kernel as JSON) if it was not judged yet. Returns seconds on the device."""
    with seat.context.in_flight.one():
        judged = await seat.context.attempts.judge(
            Kernel.model_validate_json(kernel),
            seat.parent,
            seat.iteration,
            seat.hypothesis,
            seat.call,
            sample=seat.sample,
        )
    seat.context.clock.outside(judged.device_seconds)
    return judged.device_seconds


def _write_down(seat: Seat, name: str, fresh: Sequence[Message], request: Request, reply: Reply) -> None:
    """The reply, and before it what the model was told since its last one beside tools' answers, which were written
    when they came, and the opening, which was written when it was made.

    Where that does not add up to what was sent, since something gave way to the window, the whole prompt is written.
    """
    transcript, blobs = seat.context.run.transcript(name), seat.context.run.blobs
    for message in fresh:
        if message.speaker in ("system", "user"):
            transcript.add({"speaker": message.speaker, "label": message.label, "blob": blobs.put(message.text)})
    if not adds_up(transcript.lines(), blobs, request.messages):
        transcript.add(given_line(request.messages, blobs))
    transcript.add({"speaker": "assistant", **reply.model_dump(mode="json", exclude={"opaque"})})
