"""What a role gets to see: sections of a prompt, made to fit a token budget. Pure: the same history gives the same
view.

Not covered: a turn's own messages (`memory.compaction`). Whatever gives way here is still whole in the run folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from memory.tokens import TokenCounter

OVERHEAD = 8
"""Tokens that a provider adds for each message."""
SHORTEST = 1_600
"""Characters of head and tail that are left of the longest section that may be cut."""

Form: TypeAlias = str | Callable[[], str]
"""A text, or what makes it when it is needed."""


class ViewTooLarge(Exception):
    """What must always be in a prompt does not fit: it takes `needed` tokens of `budget`."""

    def __init__(self, needed: int, budget: int) -> None:
        super().__init__(f"what every prompt must hold takes {needed} tokens, and there is room for {budget}")
        self.needed = needed
        self.budget = budget


@dataclass(frozen=True)
class Section:
    """One part of a prompt.

    `shorter` holds what may stand in its place, longest first; the empty text leaves the section out. Sections of a low
    `keep` give way first. When all have, those that `may_be_cut` lose their middle, lowest `keep` first again.
    """

    label: str
    text: str
    shorter: tuple[Form, ...] = ()
    keep: int = 0
    may_be_cut: bool = False

    def step_down(self) -> Section:
        form = self.shorter[0]
        return replace(self, text=form if isinstance(form, str) else form(), shorter=self.shorter[1:])


def fit(sections: Sequence[Section], budget: int, counter: TokenCounter) -> list[Section]:
    """`sections` in their order, reduced until they cost at most `budget` tokens; empty ones are left out.

    Raises ViewTooLarge when they can't.
    """
    chosen = list(sections)
    costs = [cost(section.text, counter) for section in chosen]
    while sum(costs) > budget:
        i = _next_to_give_way(chosen)
        if i is None:
            break
        chosen[i] = chosen[i].step_down()
        costs[i] = cost(chosen[i].text, counter)
    for i in sorted(range(len(chosen)), key=lambda index: (chosen[index].keep, index)):
        if sum(costs) <= budget:
            break
        if chosen[i].may_be_cut:
            room = budget - (sum(costs) - costs[i]) - OVERHEAD
            chosen[i] = replace(chosen[i], text=shorten(chosen[i].text, room, counter, SHORTEST))
            costs[i] = cost(chosen[i].text, counter)
    if sum(costs) > budget:
        raise ViewTooLarge(sum(costs), budget)
    return [section for section in chosen if section.text]


def cost(text: str, counter: TokenCounter) -> int:
    """Tokens of a message with that text; no text, no message."""
    return counter.count(text) + OVERHEAD if text else 0


def shorten(text: str, tokens: int, counter: TokenCounter, shortest: int = 100) -> str:
    """`text`, cut in its middle until it costs at most `tokens`, or has at most about `shortest` characters."""
    whole = counter.count(text)
    if whole <= tokens or len(text) <= shortest:
        return text
    kept = max(shortest, int(len(text) * max(0, tokens) / whole))
    while True:
        short = clip(text, kept - kept // 3, kept // 3)
        if kept <= shortest or counter.count(short) <= tokens:
            return short
        kept = max(shortest, kept * 9 // 10)


def clip(text: str, head: int, tail: int, where: str = "") -> str:
    """About the first `head` and the last `tail` characters of `text`, at line ends where they are near.

    The mark between them says how much is left out, and `where` it is whole.
    """
    if len(text) <= head + tail:
        return text
    first, last = text[:head], text[len(text) - tail :] if tail else ""
    if (end := first.rfind("\n")) > head // 2:
        first = first[:end]
    if 0 <= (start := last.find("\n")) < tail // 2:
        last = last[start + 1 :]
    gone = len(text) - len(first) - len(last)
    return f"{first}\n… {gone} characters left out{f'; whole in {where}' if where else ''} …\n{last}"


def _next_to_give_way(sections: Sequence[Section]) -> int | None:
    ready = [(section.keep, i) for i, section in enumerate(sections) if section.shorter]
    return min(ready)[1] if ready else None
