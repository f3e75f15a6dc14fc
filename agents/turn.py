"""One turn of one role: ask the model, do what it asks for, until it is done.

Every model call and every tool call is a task of its own with a name of its own (`agents.calls`), so that a run which
was killed in the middle of a turn goes on after the last finished call and pays for nothing twice. Results travel by
blob id. Replies that can't be used are answered, a bounded number of times (`agents.repairs`); then another way of
calling tools or another model is tried.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from agents import repairs
from agents.asking import Asked, Question
from agents.calls import act, ask, sum_up
from agents.events import bound
from agents.models.base import Message, ModelUnavailable, Reply, Request, ToolCall
from agents.models.failover import Voice
from agents.repairs import WORDS, Case
from agents.room import reply_room, room_for
from agents.seat import Seat
from agents.thread import Opening, Thread, WindowTooSmall
from agents.toolbox import Answer, Fault, Toolbox

MISCALLED: tuple[Fault, ...] = ("unknown_tool", "invalid_json", "wrong_arguments")
"""Faults in how a tool was called, not in what was wanted of it."""


@dataclass(frozen=True)
class TurnEnd:
    """What a turn left behind: the answers of the tools that ended it (none when no such tool was called), and its
    seconds on the device.

    `kernel` is the last candidate that was handed in, else the last one that a tool handled, as JSON text.
    """

    answers: tuple[Answer, ...]
    kernel: str | None
    device_seconds: float


@dataclass
class _Turn:
    """What a turn knows while it goes on."""

    seat: Seat
    name: str
    key: str
    """What its calls' names begin with."""
    toolbox: Toolbox
    thread: Thread
    voice: Voice
    device_seconds: float = 0.0
    kernel: str | None = None
    handed_in: bool = False
    """Whether `kernel` is what the role wants to be judged."""
    ending: list[Answer] = field(default_factory=list)
    fenced: set[str] = field(default_factory=set)
    """Entry files that were judged out of fenced blocks."""
    failures: int = 0
    """Replies in a row that could not be used."""
    corrected: Case | None = None
    """What was wrong with the last one."""
    told: int = 0
    """How much of what was said the transcript has."""
    done: int = 0
    """Replies and answers that came."""
    over: bool = False

    async def step(self) -> None:
        """One call to the model whose turn it is, and what follows from it; none once a person ended the run."""
        await self.seat.context.steering.gate()
        if self.seat.context.steering.is_over:
            self.over = True
            return
        asked = await self._ask()
        if asked is None or asked["ended"] is not None:
            self.over = asked is not None
        elif asked["window"] is not None:
            self.voice.refit(asked["model"], asked["window"])
        elif asked["gone"] is not None:
            self.voice.drop(asked["model"], *asked["gone"])
        elif asked["reply"] is not None:
            reply = Reply.model_validate_json(self.seat.context.run.blobs.get(asked["reply"]))
            self.done += 1
            self.voice.heard(asked["model"], reply.dialect)
            self.corrected = None
            if reply.stop == "refused" and len(self.voice.left()) > 1:
                self.voice.drop(asked["model"], "refusal", "it declined to answer")
            else:
                await self._take(reply)

    async def _ask(self) -> Asked | None:
        """The next call's outcome; None when the model's window is too small and another is left.

        Raises ModelUnavailable when it is too small and none is.
        """
        seat, specs = self.seat, tuple(self.toolbox.specs)
        self.voice.recast(seat.context.models[seat.role])
        left = self.voice.left()
        speaker = (left or self.voice.lineup.candidates)[0]
        room = room_for(seat, specs, speaker.name, speaker.window, speaker.output)
        try:
            await self.thread.prepare(room, self._summed_up)
            messages = self.thread.messages(room)
        except WindowTooSmall as error:
            if len(left) < 2:
                raise ModelUnavailable(error.message, error.advice) from error
            self.voice.drop(speaker.name, "overflow", error.message)
            return None
        request = Request(
            messages=messages,
            tools=specs,
            reply_tokens=room.reply,
            cache_key=f"{seat.context.run.id}-{seat.role}",
            dialect=self.voice.dialect_of(speaker),
        )
        question = Question(
            f"{self.key}/{self.done}", request, self.voice, room.counter, self.voice.change_to(speaker), self.corrected
        )
        fresh, self.told = self.thread.said[self.told :], len(self.thread.said)
        return await ask(seat, self.name, question, fresh)

    async def _take(self, reply: Reply) -> None:
        """Do what a reply asks for, or say why it can't be done."""
        language = self.seat.context.settings.language
        case = repairs.read(reply)
        code = repairs.fenced_kernel(reply.text, language) if self.seat.role == "coder" else None
        if case is not None:
            self._correct(case, reply)
        elif reply.tool_calls:
            self.thread.add(reply.message)
            await self._make(reply)
        elif code is not None and code not in self.fenced:
            self.fenced.add(code)
            self.thread.add(reply.message)
            answer = await self._act(repairs.call_for(code, language, f"fenced-{len(self.fenced)}"))
            self.thread.add(repairs.answer_to_fence(answer.text, language))
            self.failures = 0
        elif self.seat.role == "coder" and self.kernel is not None:
            self.over = True
        else:
            self._correct("prose", reply)

    async def _make(self, reply: Reply) -> None:
        """All calls in their order; each gets its answer, also those after one that ends the turn."""
        answers = []
        for call in reply.tool_calls:
            answer = await self._act(call)
            answers.append(answer)
            failed = answer.fault is not None
            self.thread.add(Message(speaker="tool", text=answer.text, call=call.id, failed=failed, label=call.name))
        self.ending = [answer for answer in answers if answer.ends_turn]
        self.over = bool(self.ending)
        self.failures = self.failures if all(answer.fault in MISCALLED for answer in answers) else -1
        self._count_failure("arguments")

    async def _act(self, call: ToolCall) -> Answer:
        seat = replace(self.seat, call=f"{self.key}/{self.done}-{_digest(call.name, call.arguments)}")
        acted = await act(seat, self.name, self.toolbox, call)
        self.done += 1
        answer = Answer.model_validate_json(self.seat.context.run.blobs.get(acted["answer"]))
        self.device_seconds += acted["device_seconds"]
        if answer.kernel is not None and (answer.handed_in or not self.handed_in):
            self.kernel, self.handed_in = answer.kernel.model_dump_json(), answer.handed_in
        return answer

    async def _summed_up(self, messages: tuple[Message, ...]) -> str | None:
        """What a model of the seat's role makes of a conversation's older part; None when none could or would."""
        said = _digest(*(message.model_dump_json() for message in messages))
        blob = await sum_up(self.seat, self.name, f"{self.key}/summary-{said}", self.voice, messages)
        if blob is None:
            return None
        reply = Reply.model_validate_json(self.seat.context.run.blobs.get(blob))
        return reply.text if reply.stop == "done" and not reply.tool_calls else None

    def _correct(self, case: Case, reply: Reply) -> None:
        seat = self.seat
        room = reply_room(seat, seat.context.models[seat.role].window)
        self.thread.add(*repairs.told(case, seat.role, reply, seat.context.settings.language, room))
        self._count_failure(case)

    def _count_failure(self, case: Case) -> None:
        """After as many in a row as the settings allow: another dialect, another model, or the turn's end."""
        most = self.seat.context.settings.format_failures
        self.failures += 1
        self.corrected = case if self.failures else None
        if self.failures < most:
            return
        self.failures = 0
        if case == "refused":  # by the last one that was left, as the next call says
            self.voice.drop(self.voice.speaking or "", "refusal", f"it declined {most} times")
            return
        message = f"{most} replies in a row could not be used, the last one was {WORDS[case]}"
        self.over = self.over or not self.voice.adapt(message, may_switch=case != "truncated")


async def converse(seat: Seat, name: str, opening: Opening, toolbox: Toolbox) -> TurnEnd:
    """Let the model of the seat's role work until it ends its turn, stops calling tools, or a budget is used up.

    name: the transcript's; unique in the run and equal when a resumed run does the turn again. Raises ModelUnavailable.
    """
    key = seat.context.told.name_of(name, seat.iteration)
    turn = _Turn(seat, name, key, toolbox, Thread(seat, name, opening), Voice(seat.context.models[seat.role]))
    with bound(iteration=seat.iteration, role=seat.role, turn=name):
        for _ in range(seat.context.settings.turn_steps):
            await turn.step()
            if turn.over:
                break
    turn.thread.leave()
    return TurnEnd(tuple(turn.ending), turn.kernel, turn.device_seconds)


def _digest(*texts: str) -> str:
    """Tells what was said from anything else that could stand in the same place."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:12]
