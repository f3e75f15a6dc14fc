"""What a run came to so far, folded from its event lines: all that the panes show. Knows no terminal.

The texts of others in here are as they were written; whoever shows them makes them harmless (`app.session.lines`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agents.last_measurement import LastMeasurement
from agents.limits import STOP_WORDS, time_left
from agents.settings import Budgets
from agents.wishes import Wishes
from app.bill import PAID, Bill
from app.doing import Out, doing_after, moment_of, once_open, timed, while_spoken
from app.event_lines import bound_words
from app.session.exports import Export
from app.session.given import Given
from app.session.states import state_of
from app.session.tried import Idea, Tried

_ANOTHER_VERSION: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What comes of a field that is not there, or holds something else."""
NOBODY_AT_WORK: Final = "no process works on it"
"""What goes on in a run that is gone."""


@dataclass
class Story:
    """The run so far. `version` grows with each line, so that a pane knows whether it is behind."""

    run: str = ""
    task: str = ""
    target: str = ""
    version: int = 0
    attempts: dict[str, Tried] = field(default_factory=dict)
    ideas: list[Idea] = field(default_factory=list)
    best: str | None = None
    iteration: int = 0
    iterations: int | None = None
    stale: int = 0
    elapsed: float = 0.0
    time_left: float | None = None
    doing: str = "opening the task"
    ended: str | None = None
    """Why, in words; None while it goes on."""
    failed: bool = False
    at_limit: str | None = None
    """The limit that it waits at for a person, in words."""
    is_behind: bool = False
    """What happened so far is being read yet."""
    is_gone: bool = False
    """No process works on it, though it has not ended."""
    last: LastMeasurement | None = None
    """What the last, fresh measurement of the best found, once the run ended with one."""
    successor: str | None = None
    """The run that goes on under another policy."""
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """The hypotheses of the plan that waits for a word."""
    models: dict[str, str] = field(default_factory=dict)
    """Who plays each role."""
    budgets: dict[str, Any] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)
    diagnoses: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[str, str, str]] = field(default_factory=list)
    """Question, answer, and who gave it."""
    device_seconds: float = 0.0
    calls: dict[tuple[str, str], int] = field(default_factory=dict)
    """By the model that was asked, and the role that it played."""
    since: float | None = None
    """When what it does began, in seconds of the clock."""
    given: Given = field(default_factory=Given)
    """What was handed to the run, and is not heeded yet."""
    bill: Bill = field(default_factory=Bill)
    wishes: Wishes = field(default_factory=Wishes)
    out: Out = field(default_factory=Out)
    exports: list[Export] = field(default_factory=list)
    """Those that this session began, and those that the log tells of."""
    _has_begun: bool = False
    """A line came."""
    _done: tuple[int, float] = (0, 0.0)
    """The iteration that ended last, and the seconds of work until then."""

    def see(self, at_work: bool) -> None:
        """Whether a process works on the run now."""
        is_gone = not at_work and (self.ended is None or self.at_limit is not None)
        if is_gone != self.is_gone:
            self.is_gone = is_gone
            self.touch()

    def touch(self) -> None:
        """Something that is shown is another one, though no line came."""
        self.version += 1

    @property
    def is_unread(self) -> bool:
        """Nothing is known of it yet, or not what it came to."""
        return self.is_behind or not self._has_begun

    @property
    def idle(self) -> str:
        """What is said where something that was tried would stand."""
        if self.is_behind:
            return "reading what happened so far"
        return NOBODY_AT_WORK if self.is_gone else self.ended or self.doing

    @property
    def state(self) -> str:
        """In a word or two."""
        return state_of(self)

    def take(self, line: Mapping[str, Any]) -> None:
        """The next event line. Of one whose fields are none that this version knows, nothing more is taken in."""
        self.version, self._has_begun = self.version + 1, True
        with suppress(*_ANOTHER_VERSION):
            self.wishes.take(line)
        with suppress(*_ANOTHER_VERSION):
            kind, before = str(line.get("event")), self.doing
            if kind in PAID:
                self._paid(kind, line)
            take = getattr(self, f"_on_{kind}", None)
            if take is not None:
                take(line)
            goes_on = doing_after(kind, line, self.models)
            self.doing = self.doing if goes_on is None else goes_on
            if goes_on is not None or self.doing != before:
                self.since = moment_of(line)
            several = self.out.take(kind, line, self.models, moment_of(line) or 0.0)
            self.doing, self.since = several or (self.doing, self.since)
            self.given.take(line)

    def hear(self, roles: Iterable[str]) -> None:
        """Models that play these say something."""
        for role in roles:
            self.doing = while_spoken(self.doing, role)

    def now(self, moment: float) -> str:
        """What it does at that second of the clock, and for how long; what it came to, once it does nothing."""
        if self.is_behind or self.is_gone or self.ended is not None:
            return self.idle
        at_work = self.since is not None and self.state in ("running", "ending")
        return timed(self.doing, moment - (self.since or 0.0)) if at_work else self.doing

    def _on_run_started(self, line: Mapping[str, Any]) -> None:
        self.run, self.task, self.target = str(line["run"]), str(line["task"]), str(line["target"])
        models = line["models"]
        self.models = {role: str(models[role]) for role in ("planner", "coder", "analyst")}
        self.budgets = dict(line["budgets"])
        self.bill.limits(self.budgets)
        self.iterations = self.budgets.get("iterations")
        self.ended, self.failed, self.at_limit, self.successor, self.waiting = None, False, None, None, []
        self.last = None
        self.doing = "opening the task, measuring the machine and the baseline"

    _on_run_resumed = _on_run_started

    def _on_task_opened(self, _line: Mapping[str, Any]) -> None:
        self.doing = once_open(len(self.attempts))

    def _on_iteration_started(self, line: Mapping[str, Any]) -> None:
        self.iteration, self.iterations = int(line["iteration"]), int(line["iterations"])

    def _on_hypothesis(self, line: Mapping[str, Any]) -> None:
        change, why, metric, expected = (str(line.get(name) or "") for name in ("change", "idea", "metric", "expected"))
        parent = None if line.get("parent") is None else str(line["parent"])
        idea = Idea(int(line["iteration"]), change, why, metric, expected, parent)
        self.ideas.append(idea)

    def _on_plan_waits(self, line: Mapping[str, Any]) -> None:
        self.waiting = [dict(item) for item in line["hypotheses"]]
        for idea in self._open(int(line["iteration"])):
            idea.mark = "waits"
        self.doing = "the plan waits for your word"

    def _open(self, iteration: int) -> list[Idea]:
        """Hypotheses of that iteration that nothing came of yet."""
        return [i for i in self.ideas if i.iteration == iteration and not i.attempts and i.mark != "dropped"]

    def _on_attempt_judged(self, line: Mapping[str, Any]) -> None:
        parent, iteration = line.get("parent"), int(line["iteration"])
        person = line.get("person")
        idea = None if person is not None else self._idea_of(iteration, parent, str(line.get("turn")))
        tried = Tried(
            id=str(line["attempt"]),
            parent=None if parent is None else str(parent),
            iteration=iteration,
            outcome=line["outcome"],
            change=str(line.get("change") or ""),
            note=str(line.get("note") or ""),
            seconds=line.get("seconds"),
            share=line.get("share_of_limit"),
            speedup=line.get("speedup"),
            person=None if person is None else str(person),
            idea=idea,
        )
        if idea is not None:
            self._decided("approve", iteration)
            idea.attempts.append(tried.id)
            idea.mark = tried.outcome
        self.attempts[tried.id] = tried
        self.device_seconds += float(line.get("device_seconds") or 0.0)

    def _idea_of(self, iteration: int, parent: Any, turn: str) -> Idea | None:
        """The hypothesis that an attempt is about: that of its coder, as the turn says (`0003-coder-1`); where it does
        not, one of the iteration, from its parent where there is a choice."""
        found = [idea for idea in self.ideas if idea.iteration == iteration and idea.mark != "dropped"]
        slot = re.fullmatch(r"\d+-(?:coder|choose)-(\d+)", turn)
        if slot is not None and int(slot[1]) < len(found):
            return found[int(slot[1])]
        fresh = [idea for idea in found if not idea.attempts]
        same = [idea for idea in (*fresh, *found) if idea.parent == parent]
        return next(iter((*same, *fresh, *found)), None)

    def _on_best_changed(self, line: Mapping[str, Any]) -> None:
        self.best = str(line["attempt"])

    def _on_diagnosed(self, line: Mapping[str, Any]) -> None:
        self.diagnoses[str(line["attempt"])] = str(line["summary"])
        self.doing = f"analyst: {bound_words(line)}"

    def _on_profiled(self, line: Mapping[str, Any]) -> None:
        self.device_seconds += float(line.get("seconds") or 0.0)

    def _on_iteration_ended(self, line: Mapping[str, Any]) -> None:
        self.elapsed, self.time_left, self.stale = float(line["elapsed"]), line.get("time_left"), int(line["stale"])
        self._done = int(line["iteration"]), self.elapsed
        self.iterations = int(line["iterations"])
        self.best, self.waiting = line.get("best") or self.best, []
        for idea in self._open(int(line["iteration"])):
            idea.mark = "dropped"

    def _on_model_changed(self, line: Mapping[str, Any]) -> None:
        if line.get("role") is not None:
            self.models[str(line["role"])] = str(line["after"])

    def _on_steered(self, line: Mapping[str, Any]) -> None:
        about, action = line.get("about") or {}, line.get("action")
        match action:
            case "hint":
                self.hints.append(str(about["text"]))
            case "withdraw":
                self.hints = [hint for hint in self.hints if hint != about["text"]]
            case "model":
                self.models[str(about["role"])] = str(about["models"][0])
            case "budget":
                self.budgets |= {
                    name: n for name, n in about["limits"].items() if n is None or isinstance(n, int | float)
                }
                self.bill.limits(self.budgets)
                self.iterations = self.budgets.get("iterations")
                with suppress(ValueError):
                    self.time_left = time_left(*self._done, Budgets.model_validate(self.budgets))
            case "policy":
                self.successor = str(about["run"])
                self._decided("stop", self.iteration)
            case "approve" | "plan" | "reject":
                self._decided(str(action), int(about.get("decided") or 0))
            case "approval" if not about.get("on"):
                self._decided("approve", self.iteration)  # it waits for nobody any more
            case "accept" | "stop":
                self._decided("stop", self.iteration)
            case _:
                pass

    def _decided(self, action: str, iteration: int) -> None:
        """What becomes of the plan that waits."""
        if not self.waiting:
            return
        for idea in self._open(iteration):
            idea.mark = "tried" if action == "approve" else "dropped"
            if action == "approve":
                self.doing = doing_after("hypothesis", {"change": idea.change}, self.models) or self.doing
        if action == "reject":
            self.doing = doing_after("iteration_started", {}, self.models) or self.doing
        self.waiting = []

    def _on_answered(self, line: Mapping[str, Any]) -> None:
        self.answers.append((str(line["question"]), str(line["answer"]), str(line["by"])))

    def _on_exported(self, line: Mapping[str, Any]) -> None:
        folder = Path(str(line["folder"]))
        export = next((export for export in self.exports if export.folder == folder), None)
        if export is None:
            export = Export(str(line["attempt"]), line["form"], folder)
            self.exports.append(export)
        export.end(str(line["said"]), str(line["status"]))

    def _on_stopping(self, line: Mapping[str, Any]) -> None:
        self.doing = f"stopping: {_reason(line)}; measuring the best kernel afresh"

    def _on_run_paused(self, line: Mapping[str, Any]) -> None:
        self.at_limit = _reason(line)
        self.ended, self.doing = f"waits at a limit: {self.at_limit}", "l gives a larger one"

    def _on_run_ended(self, line: Mapping[str, Any]) -> None:
        self.ended, self.best = _reason(line), line.get("best") or self.best
        self.elapsed = float(line.get("elapsed") or self.elapsed)
        self.doing, self.waiting = "", []
        for idea in self.ideas:
            if not idea.attempts and idea.mark in ("tried", "waits"):
                idea.mark = "dropped"
        if line.get("last") is not None:
            self.last = LastMeasurement.model_validate(line["last"])

    def _on_run_failed(self, line: Mapping[str, Any]) -> None:
        self.ended, self.failed, self.doing = str(line.get("message")), True, str(line.get("advice") or "")

    def _paid(self, kind: str, line: Mapping[str, Any]) -> None:
        self.bill.add(line)
        role = str(line.get("role"))
        if kind == "model_called":
            key = (str(line.get("model")), role)
            self.calls[key] = self.calls.get(key, 0) + 1


def _reason(line: Mapping[str, Any]) -> str:
    reason = line.get("reason")
    return next((words for known, words in STOP_WORDS.items() if known == reason), str(reason))
