"""Three roles that play a script on examples/softmax: pictures need ideas, predictions and words without a provider."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NamedTuple

from pydantic import JsonValue

from agents.models.base import Dialect, OnText, Reply, Request, ToolCall, Usage
from memory.runs import RunFolder


class Idea(NamedTuple):
    """A hypothesis, and the candidate that the coder makes of it."""

    change: str
    why: str
    expected: str
    candidate: dict[str, Any]
    kind: str


def edited(old: str, new: str) -> dict[str, Any]:
    """A candidate that differs from its parent in one place."""
    return {"edits": [{"file": "kernel.cpp", "old": old, "new": new}]}


POLYNOMIAL = "POLYNOMIAL=1: a polynomial instead of the library's exponential"
SHORT = "Leave out the two highest terms of the polynomial"
DYNAMIC = "schedule(dynamic): rows are handed out as threads come free"
TERMS = """    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
"""
PLANS: tuple[tuple[Idea, ...], ...] = (
    (
        Idea(POLYNOMIAL, "The library's exponential is a call for each element; a polynomial can be inlined.", "-30 %",
             {"defines": {"POLYNOMIAL": 1}}, "algorithm"),
        Idea("THREADS=0, CHUNK=16: all cores share the rows", "Rows do not depend on each other.", "-45 %",
             {"defines": {"THREADS": 0, "CHUNK": 16}}, "parallelism"),
    ),
    (
        Idea("LANES=8 with the polynomial", "A chain of steps waits for each of them; eight fill a register.", "-60 %",
             {"defines": {"POLYNOMIAL": 1, "LANES": 8}}, "vectorization"),
        Idea("All cores and the polynomial", "Both were seen apart; neither excludes the other.", "-30 %",
             {"defines": {"POLYNOMIAL": 1, "THREADS": 0, "CHUNK": 16}}, "parallelism"),
    ),
    (
        Idea(SHORT, "Fewer multiplications an element, if the tolerance allows it.", "-10 %",
             edited(TERMS, "    float p = 8.3334519073e-3f;\n"), "precision"),
        Idea("-Ofast: let the compiler reorder sums", "The sums are the judge's to accept, not the compiler's to keep.",
             "-8 %", {"flags": ["-Ofast", "-funroll-loops"]}, "flags"),
    ),
    (
        Idea("-O3 and vectors of 512 bits", "Loops are vectorised by now; wider registers take more at once.", "-10 %",
             {"flags": ["-O3", "-mprefer-vector-width=512"]}, "flags"),
        Idea(DYNAMIC, "The last thread waits for the others when rows are handed out in advance.", "-5 %",
             edited("schedule(static, CHUNK)", "schedule(dynamic, CHUNK)"), "parallelism"),
    ),
)  # fmt: skip


class Script:
    """Plays the three roles out of what it is told."""

    window = 200_000
    dialects: tuple[Dialect, ...] = ("native",)

    def __init__(self, name: str, run: RunFolder) -> None:
        self.name = name
        self._run = run
        self._plans = iter(PLANS)

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        said = "\n".join(message.text for message in request.messages)
        call: tuple[str, JsonValue] | None
        if "You are the planner" in said:
            text, call = self._plan()
        elif "You are the analyst" in said:
            text, call = self._read(said, request.messages[-1].call is not None)
        else:
            text, call = _code(said, request.messages[-1].call is not None)
        for word in re.findall(r"\S+\s*", text):
            if on_text is not None:
                on_text(word)
            await asyncio.sleep(0.02)
        used = Usage(input_tokens=len(said) // 4, output_tokens=len(text) // 4, dollars=0.0, estimated=True)
        if call is None:
            return Reply(text=text, usage=used)
        made = ToolCall(id="c0", name=call[0], arguments=json.dumps(call[1]))
        return Reply(text=text, tool_calls=(made,), usage=used, stop="tools")

    def _plan(self) -> tuple[str, tuple[str, JsonValue]]:
        plan = next(self._plans, ())
        best = RunFolder(self._run.path).best()
        made: list[JsonValue] = [
            {
                "idea": idea.why,
                "change": idea.change,
                "metric": "seconds",
                "expected": idea.expected,
                "parent": best,
                "kind": idea.kind,
            }
            for idea in plan
        ]
        text = f"{best} is the fastest so far. What is worth trying from it: " + " ".join(idea.why for idea in plan)
        return text if plan else "Nothing is left that is worth trying.", ("propose", {"hypotheses": made})

    def _read(self, said: str, is_profiled: bool) -> tuple[str, tuple[str, JsonValue]]:
        judged = re.findall(r"Iteration \d+ judged (.+)\.", said)[-1].split(", ")
        run = RunFolder(self._run.path)
        kept = [name for name in judged if run.attempt(name).outcome == "kept"]
        if kept and not is_profiled:
            return f"Where does the time of {kept[-1]} go?", ("profile", {"attempt": kept[-1]})
        found: list[JsonValue] = []
        for name in judged:
            attempt = run.attempt(name)
            accepted = attempt.seconds is not None
            words = "was measured" if accepted else f"was rejected: {attempt.note}"
            found.append(
                {
                    "attempt": name,
                    "bottleneck": "compute" if accepted else "unknown",
                    "evidence": [f"{name}: {attempt.outcome}"],
                    "summary": f"{attempt.change} {words}; {attempt.outcome}.",
                    "hypothesis_held": attempt.outcome == "kept" if accepted else None,
                }
            )
        return f"I compare {', '.join(judged)} with what was predicted.", ("diagnose", {"diagnoses": found})

    async def aclose(self) -> None:
        """Nothing is open."""


def _code(said: str, is_judged: bool) -> tuple[str, tuple[str, JsonValue] | None]:
    if is_judged:
        return "The judge has spoken; this is as far as the hypothesis goes.", None
    idea = max((idea for plan in PLANS for idea in plan), key=lambda idea: said.rfind(f"Change: {idea.change}"))
    arguments: JsonValue = {"mode": "full", "candidates": [idea.candidate]}
    return f"{idea.why} I change one thing only: {idea.change}.", ("run", arguments)
