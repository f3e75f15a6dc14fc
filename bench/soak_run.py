"""What `bench.soak` watches: one process that works on runs without a pause, with the real judge on a small task.

    python -m bench.soak_run builtin|scripted SECONDS FOLDER

`builtin` is the tuner. `scripted` writes kernels as a model would, good ones and bad ones: some don't compile, some are
wrong, some crash, and one in sixty never returns. A run that ends before the time is up is followed by another one in
the same process. What is left in FOLDER is the runs, and `told.json` with what was done.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from pydantic import JsonValue

from agents.drive import optimize
from agents.models import registry
from agents.models.base import Dialect, Message, OnText, Reply, Request, ToolCall, Usage
from agents.settings import Budgets, Models, RunSettings
from memory.runs import RunFolder
from tools.executor import LocalExecutor
from tools.records import Kernel
from tools.task import TaskSource

REFERENCE = '''"""Squares, summed over rows."""
import numpy as np

def inputs(rng):
    return {"x": rng.standard_normal((128, 1024)).astype(np.float32)}

def reference(x):
    return {"y": (x * x).sum(axis=1)}
'''
KERNEL = """#include "task.h"
// tune: LANES = 4,1,2,8,16,32,64
// tune: AHEAD = 0,8,16,32,64,128
// tune: STEP = 1,2,4,8
// tune: ROWS = 1,2,4,8,16
#ifndef LANES
#define LANES 4
#endif
#ifndef AHEAD
#define AHEAD 0
#endif
#ifndef STEP
#define STEP 1
#endif
#ifndef ROWS
#define ROWS 1
#endif
extern "C" void solve(const task::Args& args, void*) {
  for (int64_t block = 0; block < args.x_d0; block += ROWS)
    for (int64_t i = block; i < block + ROWS; ++i) {
      const float* row = args.x + i * args.x_d1;
      float sums[LANES] = {};
      for (int64_t j = 0; j < args.x_d1; j += LANES) {
        if (AHEAD && j % (64 * STEP) == 0) __builtin_prefetch(row + j + AHEAD);
        for (int64_t k = 0; k < LANES; ++k) sums[k] += row[j + k] * row[j + k];
      }
      float sum = 0;
      for (float part : sums) sum += part;
      args.y[i] = sum;
    }
}
"""
TASK = TaskSource(
    name="soak",
    kind="numpy",
    entry="reference.py",
    files={"reference.py": REFERENCE},
    start={"cpp": Kernel(language="cpp", files={"kernel.cpp": KERNEL})},
)
MOODS = {"good": 30, "broken": 8, "wrong": 8, "crash": 6, "greedy": 4, "quick": 3, "endless": 1}
"""What the scripted model writes, and how often of 60."""
BAD = {
    "broken": ("args.y[i] = sum;", "args.y[i] = summ;"),
    "wrong": ("args.y[i] = sum;", "args.y[i] = sum * 1.01f;"),
    "crash": ("args.y[i] = sum;", "*(volatile float*)8 = sum;"),
    "greedy": ("float sum = 0;", "float sum = 0; static_cast<volatile char*>(__builtin_malloc(1 << 16))[0] = 1;"),
    "endless": ("args.y[i] = sum;", "for (volatile int64_t w = 0; w >= 0;) w = 1;"),
}
"""Where the kernel is bent, and into what."""


class Scripted:
    """A model that follows its dice through all three roles."""

    name = "soak:scripted"
    window = 128_000
    dialects: tuple[Dialect, ...] = ("native",)

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        offered = {tool.name for tool in request.tools}
        opening = "\n".join(message.text for message in request.messages if message.speaker == "user")
        answers = [message for message in request.messages if message.speaker == "tool"]
        if on_text is not None:
            on_text("Let me see. ")
        if "propose" in offered:
            reply = self._plan(opening, answers)
        elif "diagnose" in offered:
            reply = self._analyse(opening, answers)
        else:
            reply = self._code(answers)
        return reply.model_copy(update={"usage": Usage(input_tokens=9000, output_tokens=300, dollars=0.001)})

    async def aclose(self) -> None:
        """Nothing is open."""

    def _plan(self, opening: str, answers: Sequence[Message]) -> Reply:
        if not answers and self._random.random() < 0.3:
            return _call(answers, "search", {"query": "cache blocking vector loads", "limit": 3})
        iteration, best = _found(r"Iteration (\d+) of", opening), _found(r"(?:Best|Starting) kernel: (a\d+)", opening)
        words = f"Change {iteration}.{len(answers)}: other lanes and prefetching"
        idea: dict[str, JsonValue] = {
            "idea": "Memory waits; this should shorten it.",
            "change": words,
            "metric": "seconds",
            "expected": "-5 %",
            "parent": best or None,
        }
        return _call(answers, "propose", {"hypotheses": [idea]})

    def _code(self, answers: Sequence[Message]) -> Reply:
        mood = self._random.choices(list(MOODS), list(MOODS.values()))[0]
        if len(answers) >= 4:
            return Reply(text="Done.")
        if not answers:
            return _call(answers, "compile", {"candidate": self._candidate("good")})
        if mood == "quick":
            return _call(answers, "run", {"mode": "quick", "candidates": [self._candidate("good") for _ in range(4)]})
        return _call(answers, "run", {"mode": "full", "candidates": [self._candidate(mood)]})

    def _candidate(self, mood: str) -> JsonValue:
        dice = self._random
        source = KERNEL.replace("float sum = 0;", f"float sum = 0;  // draft {dice.randrange(10**9)}")
        source = source.replace(*BAD[mood]) if mood in BAD else source
        defines = {"LANES": 2 ** dice.randrange(7), "AHEAD": dice.choice((0, 16, 64)), "ROWS": 2 ** dice.randrange(5)}
        return {"files": {"kernel.cpp": source}, "defines": {name: str(value) for name, value in defines.items()}}

    def _analyse(self, opening: str, answers: Sequence[Message]) -> Reply:
        best = _found(r"^New best: (a\d+)\.$", opening)
        if best and not answers:
            return _call(answers, "profile", {"attempt": best})
        judged = _found(r"Iteration \d+ judged (.+)\.", opening)
        reading = {"bottleneck": "memory", "evidence": ["it waits"], "summary": "It streams.", "hypothesis_held": None}
        readings: list[JsonValue] = [{"attempt": attempt, **reading} for attempt in judged.split(", ") if attempt]
        return _call(answers, "diagnose", {"diagnoses": readings}) if readings else Reply(text="Nothing was judged.")


def _call(answers: Sequence[Message], tool: str, arguments: dict[str, JsonValue]) -> Reply:
    call = ToolCall(id=f"c{len(answers)}", name=tool, arguments=json.dumps(arguments))
    return Reply(tool_calls=(call,), stop="tools")


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


async def work(kind: str, seconds: float, folder: Path) -> None:
    """Runs until the time is up; then `told.json` says what was done."""
    models = Models.choose("soak:scripted" if kind == "scripted" else None)
    ends, runs, outcomes = time.monotonic() + seconds, 0, Counter[str]()
    iterations = 0
    async with LocalExecutor() as executor:
        while (left := ends - time.monotonic()) > 1:
            run = RunFolder.create(folder / "runs", TASK.name, {})
            budgets = Budgets(iterations=1_000_000, near_limit=None, patience=None, wall_time=left)
            settings = RunSettings(budgets=budgets, models=models, seed=runs)
            outcome = await optimize(TASK, settings, run, executor, lambda _: None)
            runs, iterations = runs + 1, iterations + outcome.iterations
            outcomes.update(outcome.counts)
    told = {"runs": runs, "iterations": iterations, "attempts": dict(outcomes)}
    (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")


def main() -> None:
    kind, seconds, folder = sys.argv[1:]
    registry.LOCAL["soak"] = lambda _, seed: Scripted(seed)
    asyncio.run(work(kind, float(seconds), Path(folder)))


if __name__ == "__main__":
    main()
