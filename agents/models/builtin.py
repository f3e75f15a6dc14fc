"""`builtin:autotune`: a model without a network that plays all three roles by tuning what a kernel declares.

It reads the same prompts and calls the same tools as any other model, and it is the baseline that every other must
beat. As planner it asks Optuna for the next values of the declared tunables and compiler flags, as coder it has them
judged, as one of several coders it suggests another point, as analyst it profiles each new best. Not covered: it never
writes source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from zlib import crc32

from pydantic import JsonValue

from agents.ideas import forbids
from agents.models.base import Dialect, Message, OnText, Reply, Request, ToolCall, Usage
from agents.settings_in_words import UNSET, settings_in
from memory import ledger
from memory.ledger import LedgerEntry
from tools.space import Assignment, Space, suggest

_HEADING = re.compile(r"^### Tunables of (a\d+)$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_AXIS = re.compile(r"^(\w+): (.+) \(now (.+)\)$", re.MULTILINE)
_MOST = re.compile(r"Propose at most (\d+)")
_LINE = re.compile(r"^(Parent|Change): (.+)$", re.MULTILINE)
_JUDGED = re.compile(r"^Iteration \d+ judged (.+)\.$", re.MULTILINE)
_NEW_BEST = re.compile(r"^New best: (a\d+)\.$", re.MULTILINE)
_SAMPLE = re.compile(r"^You are coder (\d+) of \d+ ", re.MULTILINE)
_FORBIDDEN = re.compile(r"^The user forbids this idea, whoever proposed it: (.+)$", re.MULTILINE)
_NO_FLAGS = "(none)"
BROKEN = 4
"""Configurations of one source that do not compile, after which no other is tried."""


class Autotune:
    """Deterministic: the same prompts get the same replies. It tells its role by the tools that it is offered."""

    name = "builtin:autotune"
    window = 1_000_000
    dialects: tuple[Dialect, ...] = ("native",)

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        reply = self._answer(request)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply.model_copy(update={"usage": Usage(dollars=0.0)})

    async def aclose(self) -> None:
        """Nothing is open."""

    def _answer(self, request: Request) -> Reply:
        offered = {tool.name for tool in request.tools}
        prompt = "\n".join(message.text for message in request.messages if message.speaker == "user")
        answers = [message for message in request.messages if message.speaker == "tool"]
        if "propose" in offered:
            plan = _plan(prompt, self._seed + len(answers), _refused(request.messages))
            return _call(f"call-{len(answers)}", "propose", {"hypotheses": plan})
        if "diagnose" in offered:
            return _analyse(prompt, answers)
        return Reply(text="Judged.") if answers else _code(prompt, self._seed)


@dataclass
class _Search:
    """What was tried of one attempt's source, and what may be."""

    parent: str
    space: Space
    others: list[str]
    """The parent's flags that are not varied."""
    seen: list[tuple[Assignment, float | None]]
    typical: float
    """Seconds that a point which is not measured yet is taken to need."""
    forbidden: list[str]
    """Ideas of which nothing may be measured."""

    def next(self, seed: int) -> Assignment | None:
        """The next point to measure, which counts as seen from now on."""
        found = suggest(self.space, self.seen, seed, allowed=self._may if self.forbidden else None)
        if found is not None:
            self.seen.append((found, self.typical))
        return found

    def _may(self, assignment: Assignment) -> bool:
        return not any(forbids(idea, self.words(assignment)) for idea in self.forbidden)

    def words(self, assignment: Assignment) -> str:
        defines = (f"{name}={value}" for name, value in assignment.defines.items())
        return " ".join([*defines, *self.others, *assignment.flags]) or UNSET


def _search(prompt: str, parent: str | None = None) -> _Search | None:
    """Around the attempt of that id, or the one that the prompt shows first; None when it declares nothing, or its
    source does not compile whatever the configuration."""
    found = next((f for f in _HEADING.finditer(prompt) if parent in (None, f[1])), None)
    if found is None:
        return None
    entries, space = ledger.parse(prompt), _space(found[2])
    now = next((entry.change for entry in entries if entry.attempt == found[1]), "")
    others = [flag for flag in settings_in(now).flags if not any(flag in a for group in space.flags for a in group)]
    family = _family(entries, found[1])
    if len(family) >= BROKEN and all(entry.note.startswith("build: compile_error") for entry in family):
        return None
    seen = [(_normal(space, settings_in(entry.change)), entry.seconds) for entry in family]
    typical = median([seconds for _, seconds in seen if seconds is not None] or [1.0])
    return _Search(found[1], space, others, seen, typical, _FORBIDDEN.findall(prompt))


def _refused(messages: Sequence[Message]) -> list[list[str]]:
    """The changes of each plan that was refused in this turn."""
    failed = {message.call for message in messages if message.failed}
    plans = [json.loads(call.arguments) for m in messages for call in m.tool_calls if call.id in failed]
    return [[str(hypothesis["change"]) for hypothesis in plan["hypotheses"]] for plan in plans]


def _plan(prompt: str, seed: int, refused: Sequence[Sequence[str]] = ()) -> list[JsonValue]:
    """Up to as many hypotheses as asked for; none when every configuration that is allowed was tried.

    refused: plans of this turn. What was refused alone is not proposed again; after several that were refused together
    one is proposed at a time.
    """
    search, most = _search(prompt), _MOST.search(prompt)
    if search is not None:
        alone = [settings_in(plan[0]) for plan in refused if len(plan) == 1]
        search.seen += [(_normal(search.space, assignment), None) for assignment in alone]
    hypotheses: list[JsonValue] = []
    for _ in range(int(most[1]) if most and not refused else 1):
        assignment = None if search is None else search.next(seed)
        if search is None or assignment is None:
            break
        hypotheses.append(
            {
                "idea": "The next point that the tuner expects to be worth measuring.",
                "change": search.words(assignment),
                "metric": "seconds",
                "expected": "less than the best",
                "parent": search.parent,
            }
        )
    return hypotheses


def _code(prompt: str, seed: int) -> Reply:
    """Have the hypothesis judged. Another coder's ledger may hold the same words, so the last ones count."""
    asked = prompt[prompt.rfind("## Your hypothesis") :]
    order, drawn = dict(_LINE.findall(asked)), _SAMPLE.search(asked)
    words = order.get("Change", "")
    if drawn is not None:
        words = _sample(prompt, order.get("Parent"), words, int(drawn[1]), seed)
    assignment = settings_in(words)
    candidate: dict[str, JsonValue] = {
        "base": order.get("Parent"),
        "defines": dict(assignment.defines),
        "flags": list(assignment.flags),
    }
    return _call("call-0", "run", {"mode": "full", "candidates": [candidate]})


def _sample(prompt: str, parent: str | None, words: str, number: int, seed: int) -> str:
    """The settings of one of several coders: the first makes the hypothesis's change, each further one the next
    suggestion after it. Where nothing is left to suggest, it is the same change again."""
    search = _search(prompt, parent)
    if search is None:
        return words
    search.seen.append((_normal(search.space, settings_in(words)), search.typical))
    suggested = words
    for _ in range(number - 1):
        assignment = search.next(seed + crc32(words.encode()))
        suggested = words if assignment is None else search.words(assignment)
    return suggested


def _analyse(prompt: str, answers: Sequence[Message]) -> Reply:
    """Profile a new best, then hand in what the profile says; other attempts are scored by their outcome."""
    judged, new_best = _JUDGED.search(prompt), _NEW_BEST.search(prompt)
    if new_best and not answers:
        return _call("call-0", "profile", {"attempt": new_best[1]})
    profile = _json_object(answers[-1].text) if answers else {}
    diagnoses: list[JsonValue] = []
    for attempt in judged[1].split(", ") if judged else []:
        is_best = new_best is not None and attempt == new_best[1]
        seen = profile if is_best and "bottleneck" in profile else {}
        outcome = "faster than the best before it" if is_best else "not faster than the best beyond noise"
        diagnoses.append(
            {
                "attempt": attempt,
                "bottleneck": seen.get("bottleneck", "unknown"),
                "evidence": seen.get("evidence", [outcome]),
                "summary": f"{attempt} is {outcome}.",
                "hypothesis_held": is_best,
            }
        )
    return _call(f"call-{len(answers)}", "diagnose", {"diagnoses": diagnoses})


def _space(section: str) -> Space:
    """The axes that a kernel's section lists, and the values in force as the start."""
    tunables: dict[str, tuple[str, ...]] = {}
    groups: list[tuple[tuple[str, ...], ...]] = []
    defines: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    for name, values, now in _AXIS.findall(section):
        options = tuple(values.split(" | "))
        if name == "flags":
            groups.append(tuple(_flags(option) for option in options))
            flags += _flags(now)
        else:
            tunables[name], defines[name] = options, now
    space = Space(tunables=tunables, flags=tuple(groups), start=Assignment(defines=defines, flags=flags))
    return space.model_copy(update={"start": _normal(space, space.start)})


def _flags(words: str) -> tuple[str, ...]:
    return () if words == _NO_FLAGS else tuple(words.split())


def _normal(space: Space, assignment: Assignment) -> Assignment:
    """`assignment` as the space would write it, so that equal points are equal."""
    point = space.point(assignment)
    return assignment if point is None else space.assignment(point)


def _family(entries: Sequence[LedgerEntry], attempt: str) -> list[LedgerEntry]:
    """The attempts with the same source as `attempt`: times of other sources say nothing about its parameters.

    A source is known by the attempt that last edited it; a parent stands above its children in the ledger.
    """
    source: dict[str, str] = {}
    for entry in entries:
        inherited = None if entry.change.startswith("edited ") else source.get(entry.parent or "")
        source[entry.attempt] = inherited or entry.attempt
    return [e for e in entries if e.outcome != "unjudged" and source[e.attempt] == source.get(attempt)]


def _json_object(text: str) -> dict[str, JsonValue]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _call(call: str, name: str, arguments: dict[str, JsonValue]) -> Reply:
    return Reply(tool_calls=(ToolCall(id=call, name=name, arguments=json.dumps(arguments)),), stop="tools")
