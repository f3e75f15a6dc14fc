"""One call to a model: from the run's patience and purse to the lines of the journal.

A reply counts once it stands in events.jsonl: a resumed run that comes to the same call finds it there and pays for
nothing twice, however it was killed. A call's name is that of its turn and how much came before it in that turn, so it
is the same while it is tried with one model after the other, and in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from pydantic import JsonValue

from agents import nearing
from agents.context import Context
from agents.events import bound, where
from agents.limits import StopReason, out_of_budget, spending
from agents.models.base import ModelError, ModelUnavailable, Reply, Request
from agents.models.failover import Candidate, Change, Voice, Why, learnt_window
from agents.models.money import BudgetSpent, prompt_tokens
from agents.models.parting import CHOSEN, Parted
from agents.models.retry import Patience, Tried, persist
from agents.models.spec import is_built_in
from agents.repairs import Case
from agents.room import observe
from agents.seat import Seat
from agents.told import COSTLY
from memory.tokens import TokenCounter


class Asked(TypedDict):
    """How a call to `model` ended. Exactly one of the rest is not None: the reply's blob, why another model must be
    asked (`user`: a person chose others before anything was heard of it), the window that the prompt did not fit, or
    the budget that is used up."""

    model: str
    reply: str | None
    gone: tuple[Why, str] | None
    window: int | None
    ended: StopReason | None


@dataclass(frozen=True)
class Question:
    """A request to one of the models that are left, the next one first. `call` is the call's name; `counter` counts its
    tokens; `change` and `corrected` are told with it."""

    call: str
    request: Request
    voice: Voice
    counter: TokenCounter
    change: Change | None = None
    corrected: Case | None = None
    can_do_without: bool = False
    """Then nobody is waited for longer than while another model can take over."""


async def put(seat: Seat, question: Question, write_reply: Callable[[Reply], None]) -> Asked:
    """Ask for the next message.

    Raises ModelUnavailable when the model can't reply and no other is left, or when the run is to stop: such a call is
    made again by a resumed run.
    """
    context, voice = seat.context, question.voice
    earlier = context.answered.find(question.call)
    if earlier is not None and context.run.blobs.holds(earlier.blob):
        return _asked(earlier.model, reply=earlier.blob)
    if context.stopping.is_set:
        raise await _stopped(context)
    left = voice.left()
    if not left:
        raise voice.unavailable()
    model = left[0].name
    if unasked := _unasked(seat, voice, model):
        return unasked
    _tell_what_nears(seat)
    clerk = _Clerk(seat, question.request, question.call, model, write_reply)
    clerk.tell_first(question)
    try:
        with bound(model=model), context.in_flight.one(), context.purse.watched(lambda: _tell_what_nears(seat)):
            await persist(
                left[0].model,
                question.request,
                lambda piece: context.on_text(seat.role, piece),
                _patience(seat, voice, model, len(left) > 1 or question.can_do_without),
                clerk.tried,
            )
    except BudgetSpent as spent_up:
        return _asked(model, ended=spent_up.reason)
    except (ModelError, ModelUnavailable) as error:
        return await _unanswered(seat, question, left, error)
    finally:
        context.clock.outside(clerk.outside)
    return _asked(model, reply=clerk.blob)


def _unasked(seat: Seat, voice: Voice, model: str) -> Asked | None:
    """Why the call is not made, where that is so: a person chose others, or a budget is used up."""
    if ended := _over(seat):
        return _asked(model, ended=ended)
    return _asked(model, gone=("user", CHOSEN)) if voice.lineup.parting.is_set else None


def _over(seat: Seat) -> StopReason | None:
    """The budget that is used up, if one is."""
    context = seat.context
    spent = context.purse.spent_with(seat.device_seconds)
    return out_of_budget(spent, context.clock.elapsed, context.settings.budgets) or context.purse.common_over


def _tell_what_nears(seat: Seat) -> None:
    context = seat.context
    spent = context.purse.spent_with(seat.device_seconds)
    nearing.tell(spending(spent, context.clock.elapsed, context.settings.budgets), seat.iteration, context)


async def _stopped(context: Context) -> ModelUnavailable:
    """For a call that is not made any more, once what other coders do is finished: an error here would cut it off."""
    await context.in_flight.none()
    return ModelUnavailable("the run is to stop")


async def _unanswered(
    seat: Seat, question: Question, left: list[Candidate], error: ModelError | ModelUnavailable
) -> Asked:
    """What becomes of a call that came to nothing. Raises ModelUnavailable."""
    context, model = seat.context, left[0].name
    was_let_go = isinstance(error, Parted | ModelUnavailable) and not context.stopping.is_set
    if was_let_go and (ended := _over(seat)):
        return _asked(model, ended=ended)
    if isinstance(error, ModelError):
        return _failed(question, left, error)
    if was_let_go and question.voice.lineup.parting.is_set:
        return _asked(model, gone=("user", CHOSEN))
    raise await _stopped(context) from None


def _failed(question: Question, left: list[Candidate], error: ModelError) -> Asked:
    """Another model is asked, or the same one with less; with none left the run ends."""
    voice, model = question.voice, left[0].name
    if voice.lineup.parting.is_set or isinstance(error, Parted):
        return _asked(model, gone=("user", CHOSEN))
    if error.fault == "overflow" and voice.may_refit(model):
        request = question.request
        prompt = prompt_tokens(request, question.counter)
        return _asked(model, window=learnt_window(str(error), prompt, request.reply_tokens))
    voice.lineup.rests.begin(left[0], error.fault, error.message, error.unreachable)
    if len(left) == 1:
        raise voice.unavailable(model, f"{error.fault}: {error.message}") from error
    return _asked(model, gone=(error.fault, error.message))


def _asked(
    model: str,
    *,
    reply: str | None = None,
    gone: tuple[Why, str] | None = None,
    window: int | None = None,
    ended: StopReason | None = None,
) -> Asked:
    return Asked(model=model, reply=reply, gone=gone, window=window, ended=ended)


@dataclass
class _Clerk:
    """Writes down what happens in one call."""

    seat: Seat
    request: Request
    call: str
    model: str
    write_reply: Callable[[Reply], None]
    outside: float = 0.0
    """Seconds that were the provider's."""
    blob: str = ""

    def tell_first(self, question: Question) -> None:
        """What led to the call, once however often it is made."""
        about: dict[str, JsonValue] = {"role": self.seat.role, "iteration": self.seat.iteration, "call": self.call}
        context, change = self.seat.context, question.change
        if question.corrected is not None and context.answered.is_new("model_corrected", self.call):
            context.journal.tell("model_corrected", **about, model=question.voice.speaking, case=question.corrected)
        if change is not None and context.answered.is_new("model_changed", self.call):
            context.journal.tell(
                "model_changed",
                **about,
                before=change.before,
                after=change.after,
                why=change.why,
                message=change.message,
            )

        self._tell_of_turn()

    def _tell_of_turn(self) -> None:
        """Who is waited for, once a turn in each process: nothing else tells it before the first reply."""
        context, turn = self.seat.context, where().get("turn")
        if isinstance(turn, str) and turn not in context.turns and not is_built_in(self.model):
            context.turns.add(turn)
            context.journal.tell(
                "turn_started", role=self.seat.role, iteration=self.seat.iteration, turn=turn, model=self.model
            )

    def tried(self, tried: Tried) -> None:
        self.outside += tried.seconds + (tried.wait or 0.0)
        about: dict[str, JsonValue] = {
            "role": self.seat.role,
            "model": self.model,
            "iteration": self.seat.iteration,
            "call": self.call,
            "tries": tried.attempt,
            "seconds": tried.seconds,
        }
        context = self.seat.context
        if isinstance(tried.outcome, ModelError):
            error = tried.outcome
            about |= {"fault": error.why if isinstance(error, Parted) else error.fault, "message": error.message}
            about |= {} if error.usage is None else error.usage.model_dump(mode="json")
            if tried.wait is None:
                context.journal.tell("model_failed", **about)
            else:
                context.journal.tell("model_retried", **about, wait=tried.wait)
            return
        reply = tried.outcome
        context.answered.heard(self.model)
        costly = tried.seconds >= COSTLY or bool(reply.usage.dollars)
        self.blob = context.run.blobs.put(reply.model_dump_json(), durable=costly)
        self.write_reply(reply)
        observe(self.seat, self.request, reply.usage, self.model)
        context.journal.tell(
            "model_called", **about, stop=reply.stop, reply=self.blob, **reply.usage.model_dump(mode="json")
        )
        if costly:
            context.journal.flush()


def _patience(seat: Seat, voice: Voice, model: str, has_another: bool) -> Patience:
    """As long as the settings say, and no longer than the run may last."""
    context = seat.context
    settings, wall_time = context.settings, context.settings.budgets.wall_time
    seconds = settings.outage_seconds
    if not context.answered.knows(model):
        seconds = min(seconds, settings.contact_seconds)
    if has_another:
        seconds = min(seconds, settings.failover_seconds)
    if wall_time is not None:
        seconds = min(seconds, max(0.0, wall_time - context.clock.elapsed))
    return Patience(seconds, context.stopping, parting=voice.lineup.parting)
