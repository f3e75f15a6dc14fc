"""The tree of hypotheses: which attempt came from which, what was predicted and what was measured.

The way to the best is the trunk and stays at the left edge; of every other fork the largest branch goes on at its level
and the rest is set in. So a tree of n attempts is at most log2(n) levels deep, however long its chains are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from agents.reflection import Score
from app.predicted import measured_words, predicted_words
from app.report_path import built_of, meant_by
from memory.runs import Attempt

TEXT_LENGTH = 220
"""Characters of an idea in the tree."""


class Node(BaseModel):
    """One attempt, with the chains that fork off here and do not go on at its level."""

    model_config = ConfigDict(frozen=True)

    attempt: Attempt
    trunk: bool
    """Whether it lies on the way to the best."""
    text: str
    """What was built."""
    idea: str
    """What was meant, in its author's words; empty where that is what was built."""
    predicted: str
    """As `seconds -20 %`; empty for the start."""
    measured: str
    """How the metric moved; empty where it was not measured."""
    held: bool | None
    """Whether it moved as predicted; None where that can't be said."""
    judgement: str
    """The same in words."""
    branches: tuple[tuple[Node, ...], ...] = ()


def tree(attempts: Sequence[Attempt], way: Sequence[Attempt], scores: Mapping[str, Score]) -> list[tuple[Node, ...]]:
    """The chains at the left edge; attempts whose parent is not there begin one of their own."""
    known = {attempt.id for attempt in attempts}
    children: dict[str | None, list[Attempt]] = {}
    for attempt in attempts:
        parent = attempt.parent if attempt.parent in known and attempt.parent != attempt.id else None
        children.setdefault(parent, []).append(attempt)
    sizes = _sizes(attempts, children)
    trunk = {attempt.id for attempt in way}
    return [_chain(first, children, sizes, trunk, scores) for first in children.get(None, [])]


def _sizes(attempts: Sequence[Attempt], children: Mapping[str | None, list[Attempt]]) -> dict[str, int]:
    """How many attempts hang on each, itself included. An attempt comes after its parent."""
    sizes: dict[str, int] = {}
    for attempt in reversed(attempts):
        sizes[attempt.id] = 1 + sum(sizes.get(child.id, 0) for child in children.get(attempt.id, []))
    return sizes


def _chain(
    first: Attempt,
    children: Mapping[str | None, list[Attempt]],
    sizes: Mapping[str, int],
    trunk: set[str],
    scores: Mapping[str, Score],
) -> tuple[Node, ...]:
    nodes = []
    at: Attempt | None = first
    while at is not None:
        forks = children.get(at.id, [])
        onward = max(forks, key=lambda child: (child.id in trunk, sizes[child.id]), default=None)
        if at.id in trunk and (onward is None or onward.id not in trunk):
            onward = None  # beyond the best everything is a branch
        aside = tuple(_chain(child, children, sizes, trunk, scores) for child in forks if child is not onward)
        nodes.append(_node(at, at.id in trunk, scores.get(at.id), aside))
        at = onward
    return tuple(nodes)


def _node(attempt: Attempt, trunk: bool, score: Score | None, branches: tuple[tuple[Node, ...], ...]) -> Node:
    return Node(
        attempt=attempt,
        trunk=trunk,
        text=_cut(built_of(attempt)),
        idea=_cut(meant_by(attempt)),
        predicted=predicted_words(attempt.hypothesis),
        measured=measured_words(score),
        held=score.direction_right if score is not None else None,
        judgement=score.judgement if score is not None else "",
        branches=branches,
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"
