"""Events of a person's hand on a run."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import JsonValue

from agents.event_line import Line

ActionName: TypeAlias = Literal[
    "pause",
    "resume",
    "hint",
    "withdraw",
    "approval",
    "approve",
    "plan",
    "reject",
    "edit",
    "pin",
    "unpin",
    "fork",
    "forbid",
    "allow",
    "model",
    "budget",
    "policy",
    "ask",
    "accept",
    "stop",
]


class Steered(Line):
    """What a person did took effect. Told before anything follows from it, so that a resumed run knows it."""

    event: Literal["steered"]
    id: str
    """The command's."""
    action: ActionName
    iteration: int
    """The first one whose planner knows it."""
    about: dict[str, JsonValue]
    """The action's own fields, as docs/session.md lists them; of a kernel the attempt instead of its text, of a change
    of policy the run that goes on."""


class SteerRefused(Line):
    """What a person wanted could not be done."""

    event: Literal["steer_refused"]
    id: str
    """The command's."""
    action: ActionName
    message: str
    advice: str


class Answered(Line):
    """A person's question about the run was answered."""

    event: Literal["answered"]
    id: str
    """The command's."""
    question: str
    answer: str
    by: str
    """The model that answered; `facts` where it was looked up in the run folder."""


class PlanWaits(Line):
    """The plan of an iteration waits for a person's word. Told again when a resumed run waits again."""

    event: Literal["plan_waits"]
    iteration: int
    hypotheses: list[JsonValue]
    """Each as in `hypothesis`."""
