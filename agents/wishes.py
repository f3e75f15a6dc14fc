"""What a person asked of a run, as its events tell it: the same after a kill as before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from agents.ideas import forbids

DECISIONS = ("approve", "plan", "reject")


@dataclass(frozen=True)
class Decision:
    """A person's word on a plan that waited: `approve`, `plan` (with other hypotheses) or `reject` (with a reason)."""

    action: str
    about: Mapping[str, Any]


@dataclass
class Wishes:
    """Folded from event lines, oldest first. An iteration's planner knows what was told before it began."""

    done: set[str] = field(default_factory=set)
    """Ids of commands that were answered."""
    paused: bool = False
    over: str | None = None
    """The action that ends the run, `accept` or `policy`, until it has ended."""
    iteration: int = 0
    """The last one that began."""
    waiting: int | None = None
    """The iteration whose plan waits."""
    _pins: list[tuple[int, str | None]] = field(default_factory=list)
    _forks: dict[int, str] = field(default_factory=dict)
    _forbidden: list[tuple[int, str, bool]] = field(default_factory=list)
    _decided: dict[int, list[Decision]] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Wishes:
        """What all these lines come to."""
        wishes = cls()
        for line in events:
            wishes.take(line)
        return wishes

    def take(self, line: Mapping[str, Any]) -> None:
        """The next line."""
        match line.get("event"):
            case "iteration_started":
                self.iteration = max(self.iteration, _whole(line.get("iteration")))
            case "iteration_ended":
                self.waiting = None
            case "turn_started" | "tool_called" if (
                line.get("role") == "coder"
            ):  # also where no word was wanted any more
                self.waiting = None
            case "plan_waits":
                self.waiting = _whole(line.get("iteration"))
            case "run_ended":
                self.paused, self.over, self.waiting = False, None, None
            case "steer_refused" | "answered" | "exported":
                self.done.add(str(line.get("id")))
            case "steered":
                self.done.add(str(line.get("id")))
                self._steered(str(line.get("action")), line.get("about") or {}, _whole(line.get("iteration")))
            case _:
                pass

    def _steered(self, action: str, about: Mapping[str, Any], iteration: int) -> None:
        match action:
            case "pause" | "resume":
                self.paused = action == "pause"
            case "accept" | "policy":
                self.over, self.paused, self.waiting = action, False, None
            case "approval" if not about.get("on"):
                self.waiting = None
            case "pin" | "unpin":
                self._pins.append((iteration, str(about["attempt"]) if action == "pin" else None))
            case "fork":
                self._forks[iteration] = str(about["attempt"])
            case "forbid" | "allow":
                self._forbidden.append((iteration, str(about["idea"]), action == "forbid"))
            case "approve" | "plan" | "reject":
                self._decided.setdefault(_whole(about.get("decided")), []).append(Decision(action, about))
                self.waiting = None
            case _:
                pass

    @property
    def hears(self) -> int:
        """The next iteration whose planner learns what is said now; while a plan waits, its own: it may be made
        again."""
        return self.waiting if self.waiting is not None else self.iteration + 1

    def parent_in(self, iteration: int) -> str | None:
        """The attempt that every hypothesis of that iteration is to start from."""
        pinned = [attempt for since, attempt in self._pins if since <= iteration]
        return self._forks.get(iteration) or (pinned[-1] if pinned else None)

    @property
    def pinned(self) -> str | None:
        """The attempt that is pinned now."""
        return self._pins[-1][1] if self._pins else None

    def forbidden_in(self, iteration: int) -> tuple[str, ...]:
        """Ideas that nobody is to try in that iteration, oldest first."""
        found: dict[str, bool] = {}
        for since, idea, on in self._forbidden:
            if since <= iteration:
                found.pop(idea, None)
                found[idea] = on
        return tuple(idea for idea, on in found.items() if on)

    def objection(self, iteration: int, change: str, parent: str | None) -> str | None:
        """Why a hypothesis is not what the person wants; None when it may be tried."""
        wanted = self.parent_in(iteration)
        if wanted is not None and parent != wanted:
            return f"the user wants every hypothesis to start from {wanted}, not from {parent}"
        idea = next((idea for idea in self.forbidden_in(iteration) if forbids(idea, change)), None)
        return None if idea is None else f"the user forbids this idea: {idea}"

    def restraints(self, iteration: int) -> str:
        """What keeps that iteration's planner from trying more, in words; empty when nothing does."""
        parent, ideas = self.parent_in(iteration), self.forbidden_in(iteration)
        told = [f"every hypothesis has to start from {parent}"] if parent is not None else []
        return ", and ".join([*told, *([f"forbidden is {'; '.join(ideas)}"] if ideas else [])])

    def rejections(self, iteration: int) -> list[str]:
        """Why plans of that iteration were rejected, in their order; a reason may be empty."""
        return [str(d.about.get("why", "")) for d in self._decided.get(iteration, ()) if d.action == "reject"]

    def decision(self, iteration: int, plan: int) -> Decision | None:
        """The word on that iteration's plan number `plan`, from 0; None while there is none."""
        decided = self._decided.get(iteration, [])
        return decided[plan] if plan < len(decided) else None


def _whole(value: JsonValue | object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
