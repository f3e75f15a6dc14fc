"""How far our count of tokens is from a model's own, learnt from what providers report.

Until a model has reported, its factor is an upper bound from a table. Afterwards it is the largest ratio of the last
iterations with a margin: a prompt that turns out too long costs a refused call, one that is a little short costs
nothing. A factor for an iteration depends on earlier iterations only, and each report is a line on disk, so that a
resumed run counts as the run that was killed did.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

from memory.files import Clean, as_it_is
from memory.history import JsonLines

RECENT: Final = 8
"""Iterations with reports that are looked at."""
MARGIN: Final = 1.05
STEP: Final = 0.05
"""Factors are rounded up to a multiple, so that a view does not move with every report."""
WORTH_LEARNING: Final = 500
"""Tokens; the ratio of a shorter prompt says more about a provider's framing than about its vocabulary."""

BOUNDS: Final = (
    # The vocabulary is o200k_base itself; the rest is for what a provider adds around messages and tools.
    (re.compile(r"\b(gpt-|chatgpt|o[1-9]\b)"), 1.1),
    # Claude 3 to Opus 4.6 gave 1.20-1.54 times as many on Python and CUDA headers, as far as an unofficial
    # reconstruction of that vocabulary (ctok 1.3.0) is right.
    (re.compile(r"claude-(instant|[23]\b|(opus|sonnet|haiku)-4(-[0-6])?(?![-.]?[7-9])\b)"), 1.6),
    # Opus 4.8 and Sonnet 5, by the same reconstruction, 1.56-2.32. Newer ones are taken for alike.
    (re.compile(r"claude"), 2.4),
    (re.compile(r"^builtin:"), 1.0),
)
"""First match of a model's name (`provider:model`) to the factor before its first report."""
UNKNOWN: Final = 1.6
"""For a model that the table does not know. cl100k_base, which the vocabularies of Llama 3 and Qwen build on, counted
0.995 times as many on a megabyte of Python and of CUDA headers each; some split numbers into digits. None was measured
here, so this is a guess on the safe side; a prompt that is too long all the same is made smaller once the provider
says so."""


def bound_of(model: str) -> float:
    """The factor of a model that has not reported yet."""
    return next((factor for pattern, factor in BOUNDS if pattern.search(model)), UNKNOWN)


class Calibration:
    """Reports of one run, by role and model: a coder's prompts are made of other text than a planner's."""

    def __init__(self, path: Path, clean: Clean = as_it_is) -> None:
        self._file = JsonLines(path, clean)
        self._ratios: dict[tuple[str, str], dict[int, float]] | None = None

    def observe(self, role: str, model: str, iteration: int, counted: int, reported: int) -> None:
        """A prompt that we counted as `counted` tokens of o200k_base was `reported` by the provider."""
        if counted < WORTH_LEARNING or reported <= 0:
            return
        ratios = self._known()
        self._file.add({"iteration": iteration, "role": role, "model": model, "counted": counted, "reported": reported})
        _enter(ratios, role, model, iteration, reported / counted)

    def factor(self, role: str, model: str, iteration: int) -> float:
        """What to multiply counts with in a turn of that iteration."""
        seen = self._known().get((role, model), {})
        before = sorted((i for i in seen if i < iteration), reverse=True)[:RECENT]
        if not before:
            return bound_of(model)
        return round(math.ceil(max(seen[i] for i in before) * MARGIN / STEP) * STEP, 2)

    def _known(self) -> dict[tuple[str, str], dict[int, float]]:
        if self._ratios is None:
            self._ratios = {}
            for line in self._file.lines():
                counted, reported, iteration = line.get("counted"), line.get("reported"), line.get("iteration")
                if isinstance(counted, int) and isinstance(reported, int) and isinstance(iteration, int) and counted:
                    _enter(self._ratios, str(line["role"]), str(line["model"]), iteration, reported / counted)
        return self._ratios


def _enter(
    ratios: dict[tuple[str, str], dict[int, float]], role: str, model: str, iteration: int, ratio: float
) -> None:
    of_model = ratios.setdefault((role, model), {})
    of_model[iteration] = max(ratio, of_model.get(iteration, 0.0))
