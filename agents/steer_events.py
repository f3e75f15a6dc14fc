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

ExportForm: TypeAlias = Literal["sources", "kernelbench", "torch-op"]
ExportStatus: TypeAlias = Literal["accepted", "rejected", "unjudged"]


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


class ExportTold(Line):
    """An accepted kernel was exported, and this is what the judge said of it as it was written. Told at the end: of an
    export that was cut off nothing is told. Also after `run_ended`, of a run that nobody works on."""

    event: Literal["exported"]
    id: str
    """The export's."""
    attempt: str
    form: ExportForm
    folder: str
    """Where it was written, on the machine that did it."""
    status: ExportStatus
    said: str
    """What came of it, in a sentence."""


class PlanWaits(Line):
    """The plan of an iteration waits for a person's word. Told again when a resumed run waits again."""

    event: Literal["plan_waits"]
    iteration: int
    hypotheses: list[JsonValue]
    """Each as in `hypothesis`."""
