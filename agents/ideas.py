"""What sort of idea a hypothesis is, and whether it was tried before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast, get_args

from agents.state import Kind
from memory.runs import Attempt
from tools.errors import KernelError
from tools.records import Kernel
from tools.tunables import parse_tunables

_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("prefetching", re.compile(r"prefetch|cp\.async|double.?buffer|pipelin|\btma\b|\bstages\b")),
    ("vectorization", re.compile(r"vectori[sz]|simd|avx|float4|int4|128.bit|wide load|packed")),
    ("unrolling", re.compile(r"unroll")),
    ("fusion", re.compile(r"\bfus(e|ing|ed|ion)|single pass|one pass|merge .*(loop|pass|kernel)")),
    (
        "precision",
        re.compile(r"\b(tf32|fp16|bf16|fp8|half precision|mixed precision|precision)\b|tensor core|wgmma|\bmma"),
    ),
    ("memory_layout", re.compile(r"layout|transpos|pad(ding)?\b|swizzl|coalesc|bank conflict|align|\bsoa\b|\baos\b")),
    ("tiling", re.compile(r"\btil(e|es|ed|ing)\b|block(ing|ed|s)?\b|shared memory|register block|cache block")),
    ("parallelism", re.compile(r"thread|warp|occupancy|grid|parallel|split.?k|persistent|launch|openmp|cores?\b")),
    ("algorithm", re.compile(r"algorithm|online|recurrence|reformulat|strassen|winograd|fft|approximat")),
)
"""First that fits a change's words."""
_SETTING = re.compile(r"^(\w+=\S+|-\S+)$")
_NAMED = re.compile(r"^(\w+)=(\S+)$")
_FILLER = re.compile(r"^(an?|and|as|at|by|for|from|in|into|is|its?|of|on|or|so|that|the|then|this|to|us(e|ing)|with)$")
_NAMED_KINDS = frozenset(get_args(Kind)) - {"other"}
ALIKE = 0.9
"""Share of common words from which two changes are the same change in other words."""


def kind_of(hypothesis: Mapping[str, object] | None) -> Kind:
    """The kind that its author named, else what its words suggest."""
    if hypothesis is None:
        return "other"
    named = hypothesis.get("kind")
    if named in _NAMED_KINDS:
        return cast(Kind, named)
    return _kind_in(str(hypothesis.get("change", "")))


@lru_cache(maxsize=4096)
def _kind_in(change: str) -> Kind:
    if settings_in(change) is not None:
        return "flags"
    text = change.lower()
    return next((kind for kind, pattern in _WORDS if pattern.search(text)), "other")


def settings_in(change: str) -> tuple[dict[str, str], tuple[str, ...]] | None:
    """Values and flags when `change` consists of nothing else: `BLOCK=128 -O3`. None for a change in words."""
    words = change.split()
    if not words or not all(_SETTING.match(word) for word in words):
        return None
    named = {found[1]: found[2] for word in words if (found := _NAMED.match(word))}
    return named, tuple(word for word in words if word.startswith("-"))


def tried_before(change: str, parent: str | None, attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt that made this very change to this parent, and what it came to; None when there is none.

    Settings are compared as the kernel that they make, everything else as words without filler and in any spelling of
    case and marks: numbers must be equal, and nine words in ten. A coder may have built on another attempt than the one
    that the hypothesis named: the change was tried on both. An attempt that could not be judged does not count.
    Of several the last is returned, one that was kept before the others.
    """
    settings = settings_in(change)
    if settings is not None:
        base = next((attempt for attempt in attempts if attempt.id == parent), None)
        return None if base is None else _same_settings(base, *settings, attempts)
    found = [
        attempt
        for attempt in attempts
        if attempt.outcome != "unjudged"
        and attempt.hypothesis is not None
        and parent in (attempt.parent, attempt.hypothesis.get("parent"))
        and same_change(change, str(attempt.hypothesis.get("change", "")))
    ]
    kept = [attempt for attempt in found if attempt.outcome == "kept"]
    return (kept or found)[-1] if found else None


def same_change(a: str, b: str) -> bool:
    """Whether two changes to one parent say the same."""
    left, right = settings_in(a), settings_in(b)
    if left is not None or right is not None:
        return left == right
    return _alike(_gist(a), _gist(b))


def _same_settings(
    base: Attempt, named: dict[str, str], flags: tuple[str, ...], attempts: Sequence[Attempt]
) -> Attempt | None:
    """The attempt with the base's sources and these settings in force.

    Words that name no flag may mean the base's flags or none: then both must have been tried.
    """
    kernel = Kernel.model_validate(base.kernel)
    try:
        declared = {name: values[0] for name, values in parse_tunables(kernel.files).items()}
    except KernelError:
        declared = {}
    goal = declared | kernel.defines | named
    same_source = [a for a in attempts if a.outcome != "unjudged" and a.kernel.get("files") == kernel.files]
    known = {_Settings.of(declared, attempt): attempt for attempt in reversed(same_source)}
    wanted = {flags} if flags else {(), kernel.flags}
    found = [known.get(_Settings(frozenset(goal.items()), option)) for option in sorted(wanted)]
    return found[-1] if all(found) else None


class _Settings(NamedTuple):
    """Every tunable's value, set or by default, and the flags."""

    values: frozenset[tuple[str, str]]
    flags: tuple[str, ...]

    @classmethod
    def of(cls, declared: dict[str, str], attempt: Attempt) -> _Settings:
        defines, flags = attempt.kernel.get("defines"), attempt.kernel.get("flags")
        named = {str(k): str(v) for k, v in defines.items()} if isinstance(defines, dict) else {}
        return cls(
            frozenset((declared | named).items()),
            tuple(str(flag) for flag in flags) if isinstance(flags, list | tuple) else (),
        )


def _gist(change: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """The words that carry the meaning, and the numbers in their order."""
    words = re.findall(r"[^\W\d]+|\d+(?:\.\d+)?", change.lower())
    numbers = tuple(word for word in words if word[0].isdigit())
    return frozenset(_stem(word) for word in words if not word[0].isdigit() and not _FILLER.match(word)), numbers


def _stem(word: str) -> str:
    """Without a plural's s, so that `tiles` is `tile`."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _alike(a: tuple[frozenset[str], tuple[str, ...]], b: tuple[frozenset[str], tuple[str, ...]]) -> bool:
    if a[1] != b[1] or not (a[0] | b[0]):
        return False
    return len(a[0] & b[0]) / len(a[0] | b[0]) >= ALIKE


def forbids(idea: str, change: str) -> bool:
    """Whether a change is of an idea that a person forbade: it has all of the idea's words and numbers, in any order
    and spelling of case; settings (`UNROLL=4`) must stand in it as they are."""
    settings = settings_in(idea)
    if settings is not None:
        return set(idea.split()) <= set(change.split())
    words, numbers = _gist(idea)
    of_change, numbers_of_change = _gist(change)
    return bool(words or numbers) and words <= of_change and set(numbers) <= set(numbers_of_change)
