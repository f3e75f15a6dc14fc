"""What a person may do to a run, as records: each is a line of the run's commands and an event once it took effect."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agents.settings import Role
from agents.state import Hypothesis
from agents.steer_events import ExportForm, ExportStatus
from tools.records import Policy

AttemptId: TypeAlias = Annotated[str, Field(pattern=r"^a\d+$")]
Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=4_000)]


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Pause(_Action):
    """Nothing new is begun: no model is asked and no plan made, until `resume`. What goes on is finished."""

    action: Literal["pause"] = "pause"


class GoOn(_Action):
    """The end of a pause."""

    action: Literal["resume"] = "resume"


class Hint(_Action):
    """Every role is told `text`, until it is withdrawn."""

    action: Literal["hint"] = "hint"
    text: Words


class Withdraw(_Action):
    """Nobody is told that hint any more."""

    action: Literal["withdraw"] = "withdraw"
    text: Words


class Approval(_Action):
    """Whether each plan waits for a person's word."""

    action: Literal["approval"] = "approval"
    on: bool


class Approve(_Action):
    """The plan that waits is carried out."""

    action: Literal["approve"] = "approve"


class EditPlan(_Action):
    """These hypotheses are carried out instead of those that wait."""

    action: Literal["plan"] = "plan"
    hypotheses: tuple[Hypothesis, ...] = Field(min_length=1, max_length=16)


class Reject(_Action):
    """The planner is asked again, and told why."""

    action: Literal["reject"] = "reject"
    why: str = Field(default="", max_length=4_000)


class EditKernel(_Action):
    """A kernel by the person's own hand is judged as an attempt."""

    action: Literal["edit"] = "edit"
    parent: AttemptId | None = None
    """The attempt whose flags and tunables hold where none are given; the best when left out."""
    files: dict[str, str] = Field(min_length=1)
    """All its files, path to text."""
    defines: dict[str, str] | None = None
    flags: tuple[str, ...] | None = None
    note: str = Field(default="", max_length=1_000)
    """What it is about."""


class Pin(_Action):
    """Every hypothesis starts from that attempt, until `unpin`."""

    action: Literal["pin"] = "pin"
    attempt: AttemptId


class Unpin(_Action):
    """The planner chooses parents again."""

    action: Literal["unpin"] = "unpin"


class Fork(_Action):
    """The hypotheses of the next plan start from that attempt."""

    action: Literal["fork"] = "fork"
    attempt: AttemptId


class Forbid(_Action):
    """No hypothesis with all of these words is carried out, until `allow`."""

    action: Literal["forbid"] = "forbid"
    idea: Words


class Allow(_Action):
    """An idea is no longer forbidden."""

    action: Literal["allow"] = "allow"
    idea: Words


class UseModel(_Action):
    """From its next call on these models play the role, the first one preferred."""

    action: Literal["model"] = "model"
    role: Role
    models: tuple[str, ...] = Field(min_length=1, max_length=8)
    address: str | None = Field(default=None, max_length=2_000)
    """Of the server of the first one that has any; None: as the settings say, which are read again."""


class SetBudget(_Action):
    """Other limits, by name as in `agents.settings.Budgets`; null takes one away."""

    action: Literal["budget"] = "budget"
    limits: dict[str, float | int | None] = Field(min_length=1)


class SetPolicy(_Action):
    """Another numerics policy: the run ends, and a new one goes on from its best kernel under that policy."""

    action: Literal["policy"] = "policy"
    policy: Policy


class Ask(_Action):
    """A question about the run."""

    action: Literal["ask"] = "ask"
    question: Words


class Accept(_Action):
    """The best kernel is good enough: it is measured afresh and the run ends."""

    action: Literal["accept"] = "accept"


class Stop(_Action):
    """The run ends now, as by Ctrl-C."""

    action: Literal["stop"] = "stop"


Action: TypeAlias = Annotated[
    Pause
    | GoOn
    | Hint
    | Withdraw
    | Approval
    | Approve
    | EditPlan
    | Reject
    | EditKernel
    | Pin
    | Unpin
    | Fork
    | Forbid
    | Allow
    | UseModel
    | SetBudget
    | SetPolicy
    | Ask
    | Accept
    | Stop,
    Field(discriminator="action"),
]
"""Anything that a person may do."""


class Exported(_Action):
    """An accepted kernel was exported by another process, which leaves it to the run's own to write that down. Nothing
    that a person may do: it is given by who exports."""

    action: Literal["exported"] = "exported"
    attempt: AttemptId
    form: ExportForm
    folder: str
    status: ExportStatus
    said: str = Field(max_length=4_000)


ACTION: Final[TypeAdapter[Action]] = TypeAdapter(Action)
ACTIONS: Final[dict[str, type[BaseModel]]] = {
    str(get_args(kind.model_fields["action"].annotation)[0]): kind for kind in get_args(get_args(Action)[0])
}
"""By name."""


class Command(BaseModel):
    """What was given to a run, and when (Unix time). Its id names it in the answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    at: float
    action: Action | Exported
