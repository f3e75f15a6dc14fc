"""What each role is told: a pure projection of the run's past into messages that fit its window.

What changes least comes first, so that a provider's cache hits: the system message (role, task, machine, contract) is
the same for a whole run, byte for byte, as are the lessons; the ledger's full blocks and the kernels change every few
iterations; only the newest lines, the recent attempts and the question are new each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents import nearing, reflection, sections
from agents.limits import BUDGET_WORDS
from agents.models.base import Message
from agents.models.spec import is_built_in
from agents.past import Past
from agents.room import Room
from agents.seat import Seat
from agents.thread import Opening
from memory.runs import Attempt
from memory.view import Section, ViewTooLarge, fit
from prompts.render import render

SHARE_OF_OPENING = 0.6
"""Of the prompt's budget; the rest is for the turn itself."""
MOST_OF_OPENING = 0.75
"""In a window so small that what must be there needs more."""

Build = Callable[[Room], list[Section]]


def for_planner(seat: Seat, stale: int) -> Opening:
    """How a planner's turn begins. stale: attempts since the last gain."""
    past = past_of(seat)
    settings, wishes = seat.context.settings, seat.context.steering.wishes
    wanted = past.find(wishes.parent_in(seat.iteration))
    ask = render(
        "planner_ask.md",
        iteration=seat.iteration,
        iterations=settings.budgets.iterations,
        stale=stale,
        best=past.best,
        parallel=settings.parallel,
        parent=wishes.parent_in(seat.iteration),
        forbidden=wishes.forbidden_in(seat.iteration),
        rejected=wishes.rejections(seat.iteration),
        low=[BUDGET_WORDS[budget] for budget in nearing.told_before(seat.iteration, seat.context)],
    )

    def build(room: Room) -> list[Section]:
        kernel = sections.in_full(seat.context, past, "Best kernel", past.best)
        kernel = kernel or sections.in_full(seat.context, past, "Starting kernel", next(iter(past.attempts), None))
        if wanted is not None and wanted != past.best:
            kernel = [*sections.in_full(seat.context, past, "Parent", wanted), *kernel]
        return [
            sections.lessons(seat.context.lessons.text),
            *_body(seat, past, room, kernel),
            sections.track_record(reflection.rates_of(past.attempts, past.scores)),
            Section("ask", ask, keep=99),
        ]

    return _opening(seat, build, stale=stale)


def for_coder(seat: Seat) -> Opening:
    """How a coder's turn begins, about the seat's hypothesis."""
    past, hypothesis = past_of(seat), seat.hypothesis
    assert hypothesis is not None, "a coder has a hypothesis"
    parent = past.find(hypothesis.parent or past.standing)
    ask = render(
        "coder_ask.md",
        hypothesis=hypothesis,
        sample=seat.sample,
        samples=seat.context.settings.samples,
        forbidden=seat.context.steering.wishes.forbidden_in(seat.iteration),
    )

    def build(room: Room) -> list[Section]:
        kernels = sections.in_full(seat.context, past, "Best kernel", past.best)
        if parent is not None and parent != past.best:
            kernels += sections.in_full(seat.context, past, "Parent", parent)
        return [*_body(seat, past, room, kernels), Section("ask", ask, keep=99)]

    return _opening(seat, build)


def for_analyst(seat: Seat, new: Sequence[Attempt]) -> Opening:
    """How an analyst's turn begins, about the attempts `new` of its own iteration."""
    past = past_of(seat)
    new_best = past.best.id if past.best is not None and past.best in new else None
    ask = render(
        "analyst_ask.md",
        iteration=seat.iteration,
        attempts=[attempt.id for attempt in new],
        new_best=new_best,
        best=None if past.best is None else past.best.id,
    )

    def build(room: Room) -> list[Section]:
        kernel = sections.in_full(seat.context, past, "Best kernel", past.best)
        details = [sections.detail(seat.context, past, attempt) for attempt in new]
        return [*_body(seat, past, room, kernel, recent=False), *details, Section("ask", ask, keep=99)]

    return _opening(seat, build)


def for_question(seat: Seat, question: str) -> Opening:
    """How a call begins that answers a person's question about the run."""
    past = past_of(seat)

    def build(room: Room) -> list[Section]:
        kernel = sections.in_full(seat.context, past, "Best kernel", past.best)
        return [*_body(seat, past, room, kernel), Section("ask", render("question.md", question=question), keep=99)]

    return _opening(seat, build)


def past_of(seat: Seat) -> Past:
    """What the seat's role knows."""
    return Past.of(seat.context.run, seat.attempts, seat.iteration)


def _body(seat: Seat, past: Past, room: Room, kernels: Sequence[Section], recent: bool = True) -> list[Section]:
    """Hints, ledger, kernels and the newest: the part that all roles share."""
    share = int(room.budget * sections.SHARE_OF_LEDGER)
    closed, newest = sections.ledger(past, share, room.counter, whole=is_built_in(room.model))
    details = sections.recent(seat.context, past) if recent else []
    return [sections.hints(past), closed, *kernels, newest, *details]


def _opening(seat: Seat, build: Build, **facts: int) -> Opening:
    def project(room: Room) -> list[Message]:
        system = Section(seat.role, sections.system(seat.role, seat.context), keep=99)
        parts = [system, *build(room)]
        try:
            chosen = fit(parts, int(room.budget * SHARE_OF_OPENING), room.counter)
        except ViewTooLarge:
            chosen = fit(parts, int(room.budget * MOST_OF_OPENING), room.counter)
        return [
            Message(speaker="system" if part.label == seat.role else "user", text=part.text, label=part.label)
            for part in chosen
        ]

    return Opening(project, dict(facts))
