"""A run as trajectories: each turn's model calls with what they saw, did and were worth, in order.

Whose kernel an attempt is: a call owns the attempts that its own tools judged for the first time; what a turn left
unjudged and the graph judged for it belongs to the turn's last call. A planner is credited with the attempts of its
iteration, an analyst with none.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue, TypeAdapter, ValidationError

from agents import rewards
from agents.models.base import Message, Reply
from agents.rewards import Reward
from agents.transcript import Heard, Reading, Returned
from memory.files import RunFolderError
from memory.runs import Attempt, RunFolder
from tools.records import Verdict

SUMMARY = "summary"
"""The role of calls that shorten a turn's own messages."""
_ORDER = ("planner", "coder", "analyst")
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


@dataclass(frozen=True)
class Call:
    """One model call. `attempts` are those it owns; `results` what its tools returned, whole."""

    model: str
    prompt: tuple[Message, ...]
    fresh: int
    """How many of the prompt's last messages came since the model's reply before."""
    reply: Reply
    exact: bool
    results: tuple[Returned, ...] = ()
    attempts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Turn:
    """One turn of one role. `attempts` are those it is credited with."""

    name: str
    role: str
    iteration: int
    calls: tuple[Call, ...]
    attempts: tuple[str, ...]

    def owned_by(self, index: int) -> tuple[str, ...]:
        """The attempts of one call; those that a planner is credited with belong to its last."""
        if self.role == "planner":
            return self.attempts if index + 1 == len(self.calls) else ()
        return self.calls[index].attempts


@dataclass(frozen=True)
class Past:
    """A run that trajectories are taken from. Nothing of it is written."""

    run: RunFolder

    @cached_property
    def attempts(self) -> dict[str, Attempt]:
        return {attempt.id: attempt for attempt in self.run.attempts()}

    @cached_property
    def start_seconds(self) -> float | None:
        """Of the accepted starting kernel."""
        return rewards.start_seconds(self.attempts.get("a0"))

    @cached_property
    def facts(self) -> Mapping[str, JsonValue]:
        """The `tools.facts.TaskFacts` as JSON; empty when the task was never opened."""
        return self.run.facts() or {}

    @property
    def task(self) -> str:
        """The task's name, as its author wrote it."""
        task = self.run.config().get("task")
        return str(task.get("name", "")) if isinstance(task, dict) else ""

    @property
    def chip(self) -> str:
        hardware = self.facts.get("hardware")
        return str(hardware.get("model", hardware.get("name", ""))) if isinstance(hardware, dict) else ""

    def reward(self, attempt_id: str) -> Reward | None:
        """By the verdict of a winner's fresh measurement where there is one, else by its own; None for nothing
        learnt."""
        attempt = self.attempts.get(attempt_id)
        if attempt is None:
            return None
        final = self.run.final(attempt_id)
        try:
            verdict = None if final is None else _VERDICT.validate_python(final.get("verdict"))
        except ValidationError:  # of another version
            verdict = None
        again = None if verdict is None else rewards.of_verdict(verdict, self.start_seconds)
        return again or rewards.of_attempt(attempt, self.start_seconds)

    def best_reward(self, attempts: Sequence[str]) -> Reward | None:
        """The highest of several attempts' rewards."""
        found = [reward for attempt in attempts if (reward := self.reward(attempt)) is not None]
        return max(found, key=lambda reward: (reward.continuous, reward.steps), default=None)

    def unjudged(self, attempts: Sequence[str]) -> bool:
        """Whether the machinery failed on one of them."""
        return any(self.attempts[name].outcome == "unjudged" for name in attempts if name in self.attempts)


_Drawn: TypeAlias = tuple[int, str, int]
"""A sample, by iteration, its hypothesis's change and its number."""


def turns(past: Past, damaged: Counter[str] | None = None) -> Iterator[Turn]:
    """The run's turns, iteration by iteration: planner, coders, analyst. One is in memory at a time.

    A transcript that can't be read is left out and counted in `damaged` by the run's name.
    """
    counted = _Counted.of(past.run)
    ideas: dict[str, str] = {}
    drawn = _drawn(past.run)
    owned: set[str] = set()
    for path in sorted((past.run.path / "transcript").glob("*.jsonl"), key=_place):
        try:
            iteration, role, calls = _read(past, path, counted, owned)
        except (RunFolderError, ValidationError):
            if damaged is not None:
                damaged[past.run.id] += 1
            continue
        if role == "planner":
            ideas = {f"{iteration:04d}-coder-{slot}": change for slot, change in enumerate(_proposed(calls))}
        if role == "coder" and calls and (left := _left_over(past, path.stem, ideas.get(path.stem), owned, drawn)):
            calls[-1] = replace(calls[-1], attempts=(*calls[-1].attempts, *left))
            owned.update(left)
        if calls:
            yield Turn(path.stem, role, iteration, tuple(calls), _credited(past, role, iteration, calls))


@dataclass(frozen=True)
class _Counted:
    """The replies that the run's events hold: those that counted. None for a run whose events don't name them."""

    replies: Counter[str] | None

    @classmethod
    def of(cls, run: RunFolder) -> _Counted:
        blobs = [event.get("reply") for event in run.events() if event.get("event") == "model_called"]
        if not blobs or not all(isinstance(blob, str) for blob in blobs):
            return cls(None)
        try:
            return cls(Counter(_print_of(Reply.model_validate_json(run.blobs.get(str(blob)))) for blob in blobs))
        except (RunFolderError, ValidationError):
            return cls(None)

    def take(self, reply: Reply) -> bool:
        """Whether the reply counts; each does once."""
        if self.replies is None:
            return True
        key = _print_of(reply)
        self.replies[key] -= 1
        return self.replies[key] >= 0


def _print_of(reply: Reply) -> str:
    return hashlib.sha256(reply.model_dump_json(exclude={"opaque"}).encode()).hexdigest()


def _place(path: Path) -> tuple[int, int, str]:
    """Where a turn stands in its run: by iteration, then planner, coders, analyst."""
    iteration, role = _named(path.stem)
    return iteration, _ORDER.index(role) if role in _ORDER else len(_ORDER), path.stem


def _named(name: str) -> tuple[int, str]:
    """Iteration and role of `0003-coder-1`; the role of `0003-coder-1-summary` is SUMMARY."""
    parts = name.split("-")
    iteration = int(parts[0]) if parts[0].isdecimal() else 0
    return iteration, SUMMARY if parts[-1] == SUMMARY else parts[1] if len(parts) > 1 else name


def _read(past: Past, path: Path, counted: _Counted, owned: set[str]) -> tuple[int, str, list[Call]]:
    iteration, role = _named(path.stem)
    reading = Reading(past.run.blobs, tuple(past.attempts.values()))
    calls: list[Call] = []
    model = ""
    for line in past.run.transcript(path.stem).lines():
        if line.get("speaker") == "view":
            model = str(line.get("model", ""))
        found = reading.take(line)
        if isinstance(found, Heard):
            if not counted.take(found.reply):
                reading.forget_last()
                continue
            who = found.reply.model or model
            calls.append(Call(who, found.prompt, found.fresh, found.reply, found.exact))
        elif isinstance(found, Returned) and calls:
            calls[-1] = _with_result(past, calls[-1], found, owned)
    return iteration, role, calls


def _with_result(past: Past, call: Call, result: Returned, owned: set[str]) -> Call:
    """A tool that is called again after a kill has one answer, its last."""
    results = (*(before for before in call.results if before.call != result.call), result)
    attempt = _judged_by(result)
    if attempt is None or attempt in owned or attempt not in past.attempts:
        return replace(call, results=results)
    owned.add(attempt)
    return replace(call, results=results, attempts=(*call.attempts, attempt))


def _judged_by(result: Returned) -> str | None:
    """The attempt that a `run` in mode `full` made."""
    found = _parsed(result.text) if result.tool == "run" else None
    return str(found["attempt"]) if isinstance(found, dict) and "attempt" in found else None


def _proposed(calls: Sequence[Call]) -> list[str]:
    """The changes of the hypotheses that a planner handed in, in their order."""
    answers = [result for call in calls for result in call.results if result.tool == "propose"]
    found = [item for answer in answers if isinstance(items := _parsed(answer.text), list) for item in items]
    return [str(item.get("change")) for item in found if isinstance(item, dict)]


def _drawn(run: RunFolder) -> dict[_Drawn, str]:
    """The turn that drew each sample."""
    return {
        (int(str(event["iteration"])), str(event["change"]), int(str(sample["sample"]))): str(sample["turn"])
        for event in run.events()
        if event["event"] == "samples_raced" and isinstance(event["samples"], list)
        for sample in event["samples"]
        if isinstance(sample, dict)
    }


def _left_over(past: Past, turn: str, change: str | None, owned: set[str], drawn: dict[_Drawn, str]) -> list[str]:
    """Attempts that no call owns: the graph judged a coder's last candidate for it, or chose it between several."""
    iteration, _ = _named(turn)
    found = []
    for attempt in past.attempts.values():
        said = (attempt.hypothesis or {}).get("change")
        if attempt.sample is not None:
            mine = drawn.get((iteration, str(said), attempt.sample)) == turn
        else:
            mine = change is None or said == change
        if mine and attempt.iteration == iteration and attempt.id not in owned:
            found.append(attempt.id)
    return found


def _credited(past: Past, role: str, iteration: int, calls: Sequence[Call]) -> tuple[str, ...]:
    if role == "planner":
        return tuple(a.id for a in past.attempts.values() if a.iteration == iteration)
    return tuple(name for call in calls for name in call.attempts)


def _parsed(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
