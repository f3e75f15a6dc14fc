"""Answers to a person's questions about the run: the analyst's model reads the ledger, or the facts are looked up.

An answer is paid for like any other call and stands in the run's events, so no question is paid for twice. No tool is
offered: nothing that is asked changes the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from agents import asking, briefing
from agents.asking import Question
from agents.models.base import ModelUnavailable, Reply, Request
from agents.models.failover import Voice
from agents.models.spec import is_built_in
from agents.reflection import rates_of
from agents.room import room_for
from agents.seat import Seat
from agents.thread import Thread, WindowTooSmall
from agents.wishes import Wishes
from memory.ledger import Outcome
from memory.movement import outcome_words
from memory.runs import Attempt, RunFolder
from tools.errors import WarpsmithError

if TYPE_CHECKING:
    from agents.context import Context

FACTS: Final = "facts"
"""Who answers when the analyst is built in."""
REPLY_TOKENS: Final = 1_600
_SHOWN: Final = 8
"""Attempts that an answer names at most."""


async def answer(context: Context, command: str, question: str, wishes: Wishes) -> tuple[str, str]:
    """The answer, and who gave it: the analyst's model, or `facts`."""
    facts = answer_from_facts(context.run, question)
    left = Voice(context.models["analyst"]).left()
    if not left or is_built_in(left[0].name):
        return facts, FACTS
    seat = Seat(context, "analyst", max(1, wishes.iteration), context.attempts.count, 0.0)
    try:
        said = await _ask(seat, command, question)
    except (ModelUnavailable, WindowTooSmall, WarpsmithError) as error:
        return f"{facts}\n(The analyst could not be asked: {error.message}.)", FACTS
    return said or (f"{facts}\n(The analyst gave no answer.)", FACTS)


async def _ask(seat: Seat, command: str, question: str) -> tuple[str, str] | None:
    """What the analyst's model says, one of a lineup after the other; None when it says nothing."""
    name, voice = f"question-{command}", Voice(seat.context.models[seat.role])
    opening = briefing.for_question(seat, question)
    thread = Thread(seat, name, opening)
    while left := voice.left():
        speaker = left[0]
        room = room_for(seat, (), speaker.name, speaker.window, speaker.output)
        request = Request(
            messages=thread.messages(room),
            reply_tokens=min(room.reply, REPLY_TOKENS),
            cache_key=f"{seat.context.run.id}-{name}",
        )
        asked = await asking.put(
            seat, Question(f"{name}/0", request, voice, room.counter, can_do_without=True), _not_in_a_transcript
        )
        if asked["reply"] is not None:
            reply = Reply.model_validate_json(seat.context.run.blobs.get(asked["reply"]))
            return (reply.text.strip(), asked["model"]) if reply.text.strip() else None
        if asked["gone"] is not None:
            voice.drop(asked["model"], *asked["gone"])
            voice.recast(seat.context.models[seat.role])
        elif asked["window"] is not None:
            voice.refit(asked["model"], asked["window"])
        else:
            return None
    return None


def _not_in_a_transcript(_reply: Reply) -> None:
    """The reply stands in the events."""


def answer_from_facts(run: RunFolder, question: str) -> str:
    """What the run folder says about the attempts that a question names, or about what its words are about."""
    attempts = run.attempts()
    named = [a for a in attempts if re.search(rf"\b{a.id}\b", question)]
    if named:
        return "\n".join(_told(run, attempt) for attempt in named[:_SHOWN])
    asked = question.lower()
    found = next((tell for words, tell in _TOPICS if any(word in asked for word in words)), _state)
    return found(run, attempts)


def _state(run: RunFolder, attempts: Sequence[Attempt]) -> str:
    """How the run stands."""
    best = run.best()
    counts: dict[Outcome, int] = {}
    for attempt in attempts:
        counts[attempt.outcome] = counts.get(attempt.outcome, 0) + 1
    tally = ", ".join(f"{number} {outcome_words(outcome)}" for outcome, number in counts.items()) or "none"
    head = f"{len(attempts)} attempt{'' if len(attempts) == 1 else 's'}: {tally}."
    return head if best is None else f"{head} The best is {_told(run, run.attempt(best))}"


def _failures(_run: RunFolder, attempts: Sequence[Attempt]) -> str:
    failed = [a for a in attempts if a.outcome in ("rejected", "unjudged")]
    lines = [f"{a.id}: {a.note} ({_change(a)})" for a in failed[-_SHOWN:]]
    return "\n".join([f"{len(failed)} of {len(attempts)} attempts failed.", *lines])


def _gains(run: RunFolder, attempts: Sequence[Attempt]) -> str:
    kept = [a for a in attempts if a.outcome == "kept"]
    lines = [_told(run, attempt) for attempt in kept[-_SHOWN:]]
    return "\n".join([f"{len(kept)} of {len(attempts)} attempts were kept.", *lines])


def _bounds(run: RunFolder, _attempts: Sequence[Attempt]) -> str:
    best = run.best()
    profile = None if best is None else run.profile(best)
    if best is None or profile is None:
        return "No accepted kernel was profiled yet."
    evidence = profile.get("evidence")
    told = "; ".join(map(str, evidence)) if isinstance(evidence, list) else ""
    return f"{best} is bound by {profile.get('bottleneck')}: {told}."


def _ideas(run: RunFolder, attempts: Sequence[Attempt]) -> str:
    from agents.reflection import Score

    scores = {name: Score.model_validate(line) for name, line in run.scores().items()}
    rates = rates_of(attempts, scores)
    lines = [f"{r.kind.replace('_', ' ')}: {r.tried} tried, {r.gained} gained" for r in rates]
    return "\n".join(lines) or "No hypothesis was tried yet."


def _told(run: RunFolder, attempt: Attempt) -> str:
    """One attempt in a sentence or two."""
    figures = ""
    if attempt.seconds is not None and attempt.share_of_limit is not None:
        figures = f", {attempt.seconds * 1000:.4g} ms, {attempt.share_of_limit * 100:.3g} % of the limit"
    stands = f"{outcome_words(attempt.outcome)}{figures}"
    words = f"{attempt.id} ({stands}), from {attempt.parent or 'nothing'}: {_change(attempt)}."
    note = f" {attempt.note}." if attempt.note else ""
    diagnosis = run.diagnosis(attempt.id)
    read = "" if diagnosis is None else f" {diagnosis.get('summary')}"
    return words + note + read


def _change(attempt: Attempt) -> str:
    return attempt.entry.idea or attempt.change


_TOPICS: Final[tuple[tuple[tuple[str, ...], Callable[[RunFolder, Sequence[Attempt]], str]], ...]] = (
    (("fail", "reject", "wrong", "broke", "crash"), _failures),
    (("bound", "bottleneck", "limit", "profile", "memory", "compute"), _bounds),
    (("gain", "kept", "faster", "improve", "worked", "helped"), _gains),
    (("idea", "hypothes", "kind", "tried"), _ideas),
)
"""By words of the question, the first that fits; else how the run stands."""
