"""What a prediction says, read out of a person's or a model's phrase: `-20 %`, `2x faster`, `from 30 % to 60 %`.

What can't be read gives an empty prediction rather than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

TIMES = ("seconds", "time", "runtime", "latency", "duration", "kerneltime", "walltime", "executiontime")
"""Plain names under which models predict the time of a call."""
_PLAIN_MARKS = {0x2212: "-", 0x2013: " to ", 0xD7: "x", 0x2192: "->"}
"""A minus, an en dash, a multiplication sign and an arrow, as people paste them."""
_NUMBER = r"([+-]?\d+(?:\.\d+)?(?:e-?\d+)?)"
_LESS = re.compile(r"\b(less|lower|fewer|down|fall|drop|decreas|reduc|shrink|smaller|cut|below|under|halv|fast)")
_MORE = re.compile(r"\b(more|higher|up|rise|increas|grow|larger|gain|above|over|doubl|slow)")
_UNMOVED = re.compile(r"\b(unchanged|same|constant|no change|not change|stays)\b")


@dataclass(frozen=True)
class Prediction:
    """What an `expected` text says. direction: -1, 0 or 1. relative: -0.2 for a fifth less. target: the figure that the
    metric should reach, as written; `in_percent` when it was."""

    direction: int | None = None
    relative: float | None = None
    target: float | None = None
    in_percent: bool = False

    def toward(self, before: float) -> Prediction:
        """With the movement that leads from `before` to the target."""
        if self.target is None or not before:
            return self
        target = self.target / 100 if self.in_percent and abs(before) <= 1 else self.target
        relative = target / before - 1
        return Prediction(direction=sign(relative), relative=relative)


def read_prediction(expected: str, metric: str) -> Prediction:
    """What `expected` says about `metric`. Nothing that can be read gives an empty prediction."""
    text = " ".join(expected.lower().translate(_PLAIN_MARKS).split())
    text = re.sub(r"\b(up to|at most|about|roughly|around|approximately) |(?<=[+-]) (?=\d)", "", text)
    is_time = plain(metric) in TIMES
    for read in _READINGS:
        if (found := read(text, is_time)) is not None:
            return found
    return Prediction(direction=_direction_in(text, is_time))


def plain(name: str) -> str:
    """A metric's name, however it is written: lower case letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def sign(value: float) -> int:
    """-1, 0 or 1."""
    return (value > 0) - (value < 0)


def _direction_in(text: str, is_time: bool) -> int | None:
    """Which way the words point. `faster` is less time, and more of anything else."""
    if _UNMOVED.search(text):
        return 0
    less, more = _LESS.search(text), _MORE.search(text)
    if (less is None) == (more is None):
        return None
    word = (less or more or [""])[0]
    if not is_time and word in ("fast", "slow"):
        return 1 if word == "fast" else -1
    return -1 if less else 1


def _from_to(text: str, _is_time: bool) -> Prediction | None:
    """`from 30 % to 60 %`, `30 -> 60`."""
    found = re.search(rf"(?:from )?{_NUMBER} ?[^\d\s]* ?(?:->|\bto\b) ?{_NUMBER}", text)
    if found is None or (not text.startswith("from") and "->" not in text):
        return None
    before, after = float(found[1]), float(found[2])
    if not before:
        return None
    return Prediction(direction=sign(after - before), relative=after / before - 1)


def _percent(text: str, is_time: bool) -> Prediction | None:
    """`-20 %`, `+5 to +10 %`, `20 % less`, `at least 15 % faster`. Without a sign and a direction it is a target."""
    found = re.search(rf"{_NUMBER}(?: ?%?(?: to |\.\.){_NUMBER})? ?(?:%|percent)", text)
    if found is None:
        return None
    values = [float(value) for value in found.groups() if value is not None]
    size = sum(abs(value) for value in values) / len(values) / 100
    if found[1][0] in "+-":
        direction: int | None = sign(float(found[1]))
    elif re.search(r"(\bto\b|[<>=≥≤]|\b(?:at least|above|below|under|over|reach)\b) ?[\d.]+ ?%?\s*$", text):
        return Prediction(_direction_in(text, is_time), target=values[-1], in_percent=True)
    else:
        direction = _direction_in(text, is_time)
    if direction is None:
        return Prediction(target=values[-1], in_percent=True)
    if is_time and direction < 0 and "fast" in text:
        return Prediction(direction, 1 / (1 + size) - 1)
    return Prediction(direction, direction * size)


def _factor(text: str, is_time: bool) -> Prediction | None:
    """`2x`, `x1.5`, `1.3x faster`, `halve`, `double`."""
    if "halv" in text or re.search(r"\bhalf\b", text):
        return Prediction(-1, -0.5)
    if "doubl" in text:
        return Prediction(1, 1.0)
    found = re.search(rf"{_NUMBER} ?x\b|\bx ?{_NUMBER}", text)
    factor = float(found[1] or found[2]) if found else 0.0
    if factor <= 0:
        return None
    lowers = is_time or bool(re.search(r"\b(less|fewer|lower|smaller)\b", text))
    ratio = 1 / factor if lowers and factor > 1 else factor
    return Prediction(sign(ratio - 1), ratio - 1)


_READINGS: tuple[Callable[[str, bool], Prediction | None], ...] = (_from_to, _percent, _factor)
