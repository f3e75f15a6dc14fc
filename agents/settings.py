"""What a person may set about a run, each with its default in this one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field

from tools.records import Language, TargetName

Role: TypeAlias = Literal["planner", "coder", "analyst"]

DEFAULT_MODEL = "builtin:autotune"


class Budgets(BaseModel):
    """When a run ends. None is no bound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iterations: int = Field(default=200, ge=1)
    """Rounds of plan, code and analyse."""
    near_limit: float | None = Field(default=0.05, gt=0, lt=1)
    """End when the best time is this near to the physical limit; 0.05: at 95 % of what the hardware allows."""
    patience: int | None = Field(default=40, ge=1)
    """End after this many judged attempts in a row without a gain."""
    dollars: float | None = Field(default=None, gt=0)
    """Money for model calls, US dollars."""
    tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens of all model calls."""
    wall_time: float | None = Field(default=None, gt=0)
    """Seconds of search: opening the task and judging the starting kernel come before it, a last measurement after."""
    device_time: float | None = Field(default=None, gt=0)
    """Seconds of building, judging and profiling."""


ROLES: tuple[Role, ...] = get_args(Role)


class Models(BaseModel):
    """Which model plays each role, as `provider:model[@effort]`, and which take over when it can't."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    planner: str = DEFAULT_MODEL
    coder: str = DEFAULT_MODEL
    analyst: str = DEFAULT_MODEL
    fallback: dict[Role, tuple[str, ...]] = {}
    """By role, in the order in which they are tried; none where a role is left out."""

    @classmethod
    def choose(
        cls,
        model: str | None = None,
        planner: str | None = None,
        coder: str | None = None,
        analyst: str | None = None,
        fallback: Sequence[str] = (),
    ) -> Models:
        """`model` for every role that has none of its own, and `fallback` for all of them."""
        every = model or DEFAULT_MODEL
        return cls(
            planner=planner or every,
            coder=coder or every,
            analyst=analyst or every,
            fallback={role: tuple(fallback) for role in ROLES} if fallback else {},
        )

    def of(self, role: Role) -> tuple[str, ...]:
        """All models of a role, the preferred one first."""
        preferred: dict[Role, str] = {"planner": self.planner, "coder": self.coder, "analyst": self.analyst}
        return (preferred[role], *self.fallback.get(role, ()))


class RunSettings(BaseModel):
    """One run's settings, resolved: nothing in here is inherited from anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budgets: Budgets = Budgets()
    models: Models = Models()
    language: Language = "cpp"
    """What kernels are written in; the target follows from it."""
    target: TargetName | None = None
    """Where torch kernels run, which no language says; None: on the GPU where there is one."""
    parallel: int = Field(default=1, ge=1, le=16)
    """Hypotheses an iteration; their coders run in parallel, timings never do."""
    samples: int = Field(default=1, ge=1, le=8)
    """Kernels that are drawn for each hypothesis, by as many coders; the judge chooses between them."""
    pause_at_limit: bool = False
    """Wait for a person at a limit instead of ending (`agents.pausing`)."""
    approve: bool = False
    """Each plan waits for a person's word before anything of it is coded."""
    turn_steps: int = Field(default=40, ge=1)
    """Model calls in one turn of one role."""
    context_tokens: int = Field(default=128_000, ge=8_000)
    """A prompt never holds more, whatever the model's window."""
    reply_tokens: int = Field(default=16_000, ge=1_000)
    """Kept free for the model's reply."""
    outage_seconds: float = Field(default=14_400.0, ge=0)
    """How long a model that replied before in this run and is out of order now is waited for, in one call."""
    contact_seconds: float = Field(default=900.0, ge=0)
    """The same of one that has not replied yet: its address may be a wrong one."""
    failover_seconds: float = Field(default=120.0, ge=0)
    """The same while another model can take over."""
    judge_waits: tuple[float, ...] = (5.0, 20.0, 60.0)
    """Seconds before each further try of a job that the judge could not do for reasons of the machine."""
    format_failures: int = Field(default=3, ge=1)
    """Replies in a row that can't be used before another way of calling tools, or another model, is tried."""
    documents: tuple[str, ...] = ()
    """The user's files and folders that `search` looks through, as absolute paths."""
    lessons: str | None = None
    """The file that lessons are taken from and left in; None for a run that does neither."""
    seed: int = 0
    """Of `builtin:autotune`'s search; the judge's seeds are secret and never set."""
