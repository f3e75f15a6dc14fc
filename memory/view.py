"""What a role gets to see: sections of a prompt, made to fit a token budget. Pure: the same history gives the same
view.

Not covered: summaries by a model. Whatever gives way here is still whole in the run folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory.tokens import TokenCounter

OVERHEAD = 8
"""Tokens that a provider adds for each message."""


@dataclass(frozen=True)
class Section:
    """One part of a prompt.

    `shorter` holds what may stand in its place, longest first; the empty text leaves the section out.
    Sections of a low `keep` give way first; a section without `shorter` stays whatever happens.
    """

    label: str
    text: str
    shorter: tuple[str, ...] = ()
    keep: int = 0

    def step_down(self) -> Section:
        return replace(self, text=self.shorter[0], shorter=self.shorter[1:])


def fit(sections: Sequence[Section], budget: int, counter: TokenCounter) -> list[Section]:
    """`sections` in their order, reduced until they cost at most `budget` tokens.

    Each step replaces the first section of the lowest `keep` by its next shorter form. When nothing is left to give
    way, the longest section is cut in its middle, which says so.
    """
    chosen = list(sections)
    costs = [_cost(section, counter) for section in chosen]
    while sum(costs) > budget:
        open_to_cut = [i for i, section in enumerate(chosen) if section.shorter]
        if not open_to_cut:
            break
        i = min(open_to_cut, key=lambda index: (chosen[index].keep, index))
        chosen[i] = chosen[i].step_down()
        costs[i] = _cost(chosen[i], counter)
    while (excess := sum(costs) - budget) > 0 and max(costs) > 2 * OVERHEAD:
        i = costs.index(max(costs))
        chosen[i] = replace(chosen[i], text=_cut(chosen[i].text, costs[i], excess))
        costs[i] = _cost(chosen[i], counter)
    return [section for section in chosen if section.text]


def shorten(text: str, tokens: int, counter: TokenCounter) -> str:
    """`text`, cut in its middle to cost at most about `tokens`."""
    cost = counter.count(text)
    while cost > tokens and len(text) > 100:
        text = _cut(text, cost, cost - tokens)
        cost = counter.count(text)
    return text


def _cost(section: Section, counter: TokenCounter) -> int:
    return counter.count(section.text) + OVERHEAD if section.text else 0


def _cut(text: str, cost: int, excess: int) -> str:
    """Less of `text`: its head and tail, at least `excess` of its `cost` tokens and a tenth of it taken out of the
    middle."""
    share = 0.9 * max(0.0, cost - excess) / cost
    half = int(len(text) * share / 2)
    left_out = len(text) - 2 * half
    mark = f"\n… {left_out} characters left out …\n" if left_out > 40 else ""
    return text[:half] + mark + (text[-half:] if half else "")
