"""One turn's conversation, kept within what its model can be sent: the opening is projected anew for another window,
and the turn's own messages give way, cheapest first, a summary last.

The whole texts are in the transcript and under `evicted/`. What is sent depends only on the run's past, on what was
said in this turn, on the settings and on the window, so a resumed turn sends what the killed one did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from agents.models.base import Message
from agents.room import Room, cost, spoken
from agents.seat import Seat
from memory import compaction
from memory.compaction import AIM, FULL, Spoken
from memory.view import OVERHEAD, ViewTooLarge
from prompts.render import render
from tools.errors import WarpsmithError

SUMMARIES = 3
"""Summaries by a model in one turn; what gives way afterwards, or after one that was of no use, gets a digest."""
SUMMARY_TOKENS = 800
WORTH_A_SUMMARY = 2_000
"""Tokens; fewer are digested without asking a model."""

ONLY_HERE = ("compile", "run", "tune", "experiment")
"""Tools whose answers stand nowhere else in the run folder but in the transcript."""
WORTH_KEEPING = 400
"""Characters of such an answer."""
WINDOW_A_TOKEN = 2
"""Tokens that a window must grow by for one more in an opening, at most: a quarter goes to the reply, and a part of the
rest to what is said after the opening."""

Summarise: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[str | None]]
"""Asks a model, for one reply without tools; None when it failed, refused or broke off."""


class WindowTooSmall(WarpsmithError):
    """A model's window can't hold what every prompt needs."""


@dataclass(frozen=True)
class Opening:
    """How a turn begins. `project` makes its messages for a room; `facts` say what of, for the transcript."""

    project: Callable[[Room], list[Message]]
    facts: dict[str, JsonValue]


class Thread:
    """The messages of one turn. `name` is the turn's, under which its transcript lies."""

    def __init__(self, seat: Seat, name: str, opening: Opening) -> None:
        self._seat = seat
        self._name = name
        self._opening = opening
        self._said: list[Message] = []
        self._now: _Fitted | None = None
        self._summaries = 0

    @property
    def said(self) -> tuple[Message, ...]:
        """All that was said after the opening, whole."""
        return tuple(self._said)

    def add(self, *messages: Message) -> None:
        """What was said next."""
        for message in messages:
            if self._now is not None:
                self._now.items.append(spoken(len(self._said), message))
            self._said.append(message)

    async def prepare(self, room: Room, summarise: Summarise | None = None) -> None:
        """Make the thread fit `room`, with the help of a model where nothing cheaper helps. Writes the opening down.

        Raises WindowTooSmall when the opening's fixed parts and the newest round don't fit.
        """
        if self._now is None or self._now.room != room:
            self._now = self._begun(room, self._now)
            record_opening(self._seat, self._name, self._opening, room, self._now.head)
        fitted = self._now
        if (excess := self._cheaply(fitted)) > 0 and (
            count := compaction.oldest_rounds(fitted.items, excess, room.counter)
        ):
            await self._replace_first(fitted, count, summarise)
        self._must_fit(fitted)

    def messages(self, room: Room) -> tuple[Message, ...]:
        """What to send to a model with that room: what was prepared for it, else made to fit without a model.

        Raises WindowTooSmall.
        """
        if self._now is None or self._now.room != room:
            fitted = self._begun(room, self._now)
            excess = self._cheaply(fitted)
            if excess > 0 and (count := compaction.oldest_rounds(fitted.items, excess, room.counter)):
                self._digest_first(fitted, count)
            self._must_fit(fitted)
        else:
            fitted = self._now
        return (*fitted.head, *(self._message(item) for item in fitted.items))

    def leave(self) -> None:
        """The turn is over and no later prompt holds it: what its tools said and stands nowhere else goes to
        `evicted/`, where `search` finds it."""
        told = [
            f"[{message.label}]\n{message.text}"
            for message in self._said
            if message.speaker == "tool" and message.label in ONLY_HERE and len(message.text) > WORTH_KEEPING
        ]
        if told:
            self._keep(f"{self._name}\n\n" + "\n\n".join(told))

    def _begun(self, room: Room, before: _Fitted | None) -> _Fitted:
        """The opening for `room`, and what was said, as far as it had already given way."""
        try:
            head = self._opening.project(room)
        except ViewTooLarge as error:
            needed = room.window + WINDOW_A_TOKEN * (error.needed - error.budget)
            raise WindowTooSmall(
                f"{room.model} has a window of {room.window} tokens, and the {self._seat.role}'s task, ledger, tools "
                f"and reply, with some room to work in, need about {needed}",
                "Name a model with a larger window.",
            ) from error
        items = [spoken(key, message) for key, message in enumerate(self._said)] if before is None else before.items
        return _Fitted(room, head, sum(cost(message, room.counter) for message in head), list(items))

    def _cheaply(self, fitted: _Fitted) -> int:
        """Shorten what can be shortened without a summary, once the room is nearly full; the tokens still too many."""
        room, counter = fitted.room, fitted.room.counter
        if fitted.taken + compaction.total(fitted.items, counter) <= FULL * room.budget:
            return 0
        aim = int(AIM * room.budget) - fitted.taken
        fitted.items = compaction.without_words(fitted.items, aim, counter, self._keep)
        return compaction.total(fitted.items, counter) - aim

    def _must_fit(self, fitted: _Fitted) -> None:
        """Cut even the newest round, if that is what it takes."""
        left, counter = fitted.room.budget - fitted.taken, fitted.room.counter
        if compaction.total(fitted.items, counter) > left:
            fitted.items = compaction.last_resort(fitted.items, left, counter, self._keep)
        if (needed := compaction.total(fitted.items, counter)) > left:
            raise WindowTooSmall(
                f"{fitted.room.model} has a window of {fitted.room.window} tokens, and the {self._seat.role}'s newest "
                f"messages need {needed} where {left} are left",
                "Name a model with a larger window.",
            )

    async def _replace_first(self, fitted: _Fitted, count: int, summarise: Summarise | None) -> None:
        """A summary in place of the first messages, which are written to `evicted/` before anybody is asked."""
        old, room = fitted.items[:count], fitted.room
        size = compaction.total(old, room.counter)
        if summarise is None or self._summaries == SUMMARIES or size < WORTH_A_SUMMARY:
            self._digest_first(fitted, count)
            return
        self._summaries += 1
        whole = self._whole(old)
        where = self._keep(whole)
        words = await self._summary(whole, room, summarise)
        if words is None or room.counter.count(words) >= size:
            self._summaries = SUMMARIES  # the next would hardly be better, and may be as long in coming
            self._digest_first(fitted, count)
        else:
            fitted.replace_first(count, render("earlier.md", where=where, words=words))

    def _digest_first(self, fitted: _Fitted, count: int) -> None:
        """What happened in a few lines in place of the first messages."""
        old = fitted.items[:count]
        where = self._keep(self._whole(old))
        fitted.replace_first(count, render("earlier.md", where=where, words=compaction.digest(old, where)))

    async def _summary(self, whole: str, room: Room, summarise: Summarise) -> str | None:
        """A model's summary of `whole`; None when there is none that is worth having."""
        system = render("summary.md")
        most = room.budget - room.counter.count(system) - 4 * OVERHEAD
        text = compaction.clipped_to(whole, most, room.counter)
        said = await summarise((Message(speaker="system", text=system), Message(speaker="user", text=text)))
        if said is None or not said.strip() or room.counter.count(said) > 2 * SUMMARY_TOKENS:
            return None
        return said.strip()

    def _whole(self, items: Sequence[Spoken]) -> str:
        return compaction.as_text([item if item.key < 0 else spoken(item.key, self._said[item.key]) for item in items])

    def _keep(self, text: str) -> str:
        return self._seat.context.run.evicted.put(text)

    def _message(self, item: Spoken) -> Message:
        """What is left of a message; a note has a negative key."""
        if item.key < 0:
            return Message(speaker="user", text=item.text, label="earlier")
        said = self._said[item.key]
        calls = tuple(
            call.model_copy(update={"arguments": arguments})
            for call, arguments in zip(said.tool_calls, item.arguments, strict=True)
        )
        opaque = said.opaque if item.attached else None
        return said.model_copy(update={"text": item.text, "tool_calls": calls, "opaque": opaque})


@dataclass
class _Fitted:
    """A thread as it is sent to a model with a certain room. `taken`: tokens of its opening."""

    room: Room
    head: list[Message]
    taken: int
    items: list[Spoken]

    def replace_first(self, count: int, note: str) -> None:
        """One note in place of the first `count` messages."""
        self.items = [Spoken(key=-1, speaker="user", text=note, gave_way=True), *self.items[count:]]


def record_opening(seat: Seat, name: str, opening: Opening, room: Room, messages: Sequence[Message]) -> None:
    """Write down what a turn begins with, before anybody is asked: a `view` line, then each part by blob id.

    A resumed turn that begins with the very same is not written down again.
    """
    transcript, blobs = seat.context.run.transcript(name), seat.context.run.blobs
    parts: list[dict[str, JsonValue]] = [
        {
            "speaker": message.speaker,
            "label": message.label,
            "blob": blobs.put(message.text),
            "tokens": room.counter.count(message.text),
        }
        for message in messages
    ]
    view: dict[str, JsonValue] = {
        "speaker": "view",
        "role": seat.role,
        "iteration": seat.iteration,
        "attempts": seat.attempts,
        "model": room.model,
        "window": room.window,
        "budget": room.budget,
        "factor": room.factor,
        "tools": room.tools,
        "reply": room.reply,
        **opening.facts,
    }
    written = transcript.lines()
    last = max((i for i, line in enumerate(written) if line.get("speaker") == "view"), default=None)
    if last is not None and written[last : last + 1 + len(parts)] == [view, *parts]:
        return
    for line in (view, *parts):
        transcript.add(line)
