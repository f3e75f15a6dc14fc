"""Other limits by a person's hand: what they come to, those that were given while no process worked on a run, and those
that let a run go on which waits at one.

A run that waits at its limit heeds what is about that: a larger limit, and `stop`. All else that is given to it waits
in the run folder, and is heeded once the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from agents import steering_actions as acts
from agents.events import Journal
from agents.limits import STOP_WORDS, StopReason
from agents.settings import Budgets, RunSettings
from agents.standing import Standing
from agents.steering_actions import Action, Command, SetBudget
from agents.steering_box import Box
from agents.wishes import Wishes
from memory.runs import RunFolder
from tools.errors import WarpsmithError

HEEDED_AT_A_LIMIT: Final[tuple[type[BaseModel], ...]] = (SetBudget, acts.Stop, acts.Accept, acts.Pause, acts.GoOn)
"""Actions that a run which waits at its limit answers."""
LIMIT_OF: Final[Mapping[StopReason, str]] = {
    "iterations": "iterations",
    "near_limit": "near_limit",
    "patience": "patience",
    "money": "dollars",
    "tokens": "tokens",
    "wall_time": "wall_time",
    "device_time": "device_time",
}
"""The budget that a reason to end is about."""


def with_limits(old: Budgets, limits: Mapping[str, float | int | None]) -> Budgets:
    """These limits instead of those of that name. Raises WarpsmithError."""
    unknown = next((name for name in limits if name not in Budgets.model_fields), None)
    if unknown is not None:
        raise WarpsmithError(f"there is no limit {unknown}", f"There are: {', '.join(Budgets.model_fields)}.")
    try:
        return Budgets.model_validate(old.model_dump() | dict(limits))
    except ValidationError as error:
        raise _no_limit(*(error.errors(include_url=False)[0][part] for part in ("loc", "input"))) from error


def _no_limit(where: Sequence[str | int], given: object) -> WarpsmithError:
    """Why that can't be given as a limit."""
    name = str(where[0])
    kinds = {each: (field.annotation, *get_args(field.annotation)) for each, field in Budgets.model_fields.items()}
    if given is None:
        *lifted, last = (each for each, kind in kinds.items() if type(None) in kind)
        advice = f"Give a larger number. `none` lifts {', '.join(lifted)} and {last}."
        return WarpsmithError(f"a run has to have a limit of {name}", advice)
    if name == "near_limit" and isinstance(given, int | float):
        return WarpsmithError(f"near_limit can't be {given * 100:g} %", "It takes a percentage above 0 and below 100.")
    takes = "a whole number from 1" if int in kinds[name] else "a number above 0"
    shown = f"{given:.12g}" if isinstance(given, float) else given
    return WarpsmithError(f"{name} can't be {shown}", f"It takes {takes}.")


def about_limits(old: Budgets, new: Budgets, action: SetBudget) -> dict[str, JsonValue]:
    """What the event of an action says of it."""
    return {
        "limits": {name: getattr(new, name) for name in action.limits},
        "before": {name: getattr(old, name) for name in action.limits},
    }


def with_given(run: RunFolder, budgets: Budgets) -> Budgets:
    """These limits with those that were given to the run and not heeded yet: whoever works on it next heeds them.

    Raises RunFolderError when the folder can't be read.
    """
    with Box(run.path, Wishes.of(run.events()).done) as box:
        for command in box.new():
            if isinstance(command.action, SetBudget):
                try:
                    budgets = with_limits(budgets, command.action.limits)
                except WarpsmithError:
                    continue  # it will be refused
    return budgets


def limits_at_its_end(run: RunFolder) -> dict[str, Any]:
    """The limits for which the run ended last, by name; nothing where it never did. One may have been changed since,
    while the best was measured afresh."""
    now: dict[str, Any] = {}
    ended: dict[str, Any] = {}
    is_ending = False
    events: list[dict[str, Any]] = [*run.events()]
    for line in events:
        match line["event"]:
            case "run_started" | "run_resumed":
                now, is_ending = dict(line.get("budgets") or {}), False
            case "steered" if line.get("action") == "budget":
                now |= line["about"]["limits"]
            case "stopping":
                ended, is_ending = dict(now), True
            case "run_ended" if not is_ending:
                ended = dict(now)
            case _:
                pass
    return ended


class AtLimit:
    """A person's hand on a run that ended at a limit and waits there. The caller holds the run's folder."""

    def __init__(self, run: RunFolder, settings: RunSettings, reason: StopReason, journal: Journal) -> None:
        self._run, self._settings, self._reason, self._journal = run, settings, reason, journal
        events = run.events()
        self._hears = 1 + Wishes.of(events).iteration
        self._box = Box(run.path, Wishes.of(events).done)
        self._ended = limits_at_its_end(run)
        self._raised: tuple[Command, dict[str, JsonValue]] | None = None
        self.is_over = False
        """Whether the person wants it to wait no longer."""

    def __enter__(self) -> AtLimit:
        return self

    def __exit__(self, *_: object) -> None:
        self._box.__exit__(None, None, None)

    def look(self) -> RunSettings | None:
        """The settings with which the run is to go on, once somebody gave a limit that lets it; at once where that was
        while the run was ending."""
        if self._is_lifted(self._settings.budgets):
            return self._settings
        for command in self._box.new():
            action = command.action
            if isinstance(action, acts.Exported):
                self._tell("exported", command, **action.model_dump(mode="json", exclude={"action"}))
                continue
            if not isinstance(action, HEEDED_AT_A_LIMIT):
                continue  # heeded once the run goes on
            try:
                found = self._heed(command, action)
            except WarpsmithError as error:
                self._say("steer_refused", command, message=error.message, advice=error.advice)
                continue
            if found is not None or self.is_over:
                return found
        return None

    def tell(self) -> None:
        """The limits took effect: the settings are written down."""
        if self._raised is not None:
            command, about = self._raised
            self._say("steered", command, iteration=self._hears, about=about)

    def _heed(self, command: Command, action: Action) -> RunSettings | None:
        if isinstance(action, acts.Stop):
            self.is_over = True
            self._say("steered", command, iteration=self._hears, about={})
            return None
        if not isinstance(action, SetBudget):
            raise self._still("the run waits at its limit")
        old = self._settings.budgets
        new = with_limits(old, action.limits)
        if not self._is_lifted(new):
            raise self._still("the run would end at once", Standing.of(self._run).reaches(new))
        self._raised = command, about_limits(old, new, action)
        return self._settings.model_copy(update={"budgets": new})

    def _is_lifted(self, budgets: Budgets) -> bool:
        """Whether the limit is another one than that for which the run ended, and no other one is reached."""
        name = LIMIT_OF[self._reason]
        return getattr(budgets, name) != self._ended.get(name) and Standing.of(self._run).reaches(budgets) is None

    def _still(self, what: str, reason: StopReason | None = None) -> WarpsmithError:
        reason = reason or self._reason
        name = LIMIT_OF[reason]
        change = "a smaller one, or none," if name == "near_limit" else "a larger one"
        return WarpsmithError(f"{what}: {STOP_WORDS[reason]}", f"Give {change} to go on: budget {name}=VALUE")

    def _say(self, event: Any, command: Command, **fields: JsonValue) -> None:
        self._tell(event, command, action=command.action.action, **fields)

    def _tell(self, event: Any, command: Command, **fields: JsonValue) -> None:
        """On the disk before anything follows from it."""
        self._journal.tell(event, id=command.id, **fields)
        self._journal.flush()
