"""What a GPU's hardware counters say about a kernel, or why they say nothing. A part of `tools.profiles.Profile`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

Cause: TypeAlias = Literal[
    "dram_bandwidth",
    "l2_bandwidth",
    "l1_bandwidth",
    "uncoalesced",
    "bank_conflicts",
    "register_spills",
    "compute_pipe",
    "issue_slots",
    "divergence",
    "atomics",
    "small_grid",
    "launch_overhead",
    "low_occupancy",
    "imbalance",
    "memory_latency",
    "shared_memory_latency",
    "synchronization",
    "dependencies",
]

Fault: TypeAlias = Literal[
    "no_permission",
    "no_profiler",
    "unsupported",
    "busy",
    "timeout",
    "no_kernels",
    "program_failed",
    "metrics_missing",
    "failed",
]


class Stall(BaseModel, frozen=True, extra="forbid"):
    """Why warps wait, and for which share of the time between two of their instructions."""

    reason: str
    share: float
    meaning: str


class Rule(BaseModel, frozen=True, extra="forbid"):
    """What one of the profiler's own rules says, in its words."""

    name: str
    text: str
    speedup: float | None = None
    """Its estimate, as the share of the time that would be saved; absent where the rule gives none."""
    scope: Literal["global", "local"] | None = None
    """Of the kernel's whole time (global) or of the part that the rule looks at (local)."""


class Counted(BaseModel, frozen=True, extra="forbid"):
    """The counters were read."""

    status: Literal["counted"] = "counted"
    kernel: str
    """The launch that was read, as the profiler names it."""
    cause: Cause
    """What is behind the profile's bottleneck."""
    unit: str | None = None
    """The unit at its limit, where one is."""
    stalls: tuple[Stall, ...] = ()
    """Most frequent first."""
    rules: tuple[Rule, ...] = ()
    """Largest estimated gain first."""


class Uncounted(BaseModel, frozen=True, extra="forbid"):
    """The counters could not be read, so the profile is made of what is known without them."""

    status: Literal["uncounted"] = "uncounted"
    reason: Fault
    message: str
    """What happened and what to do about it, for the person and the model."""


Counters: TypeAlias = Annotated[Counted | Uncounted, Field(discriminator="status")]
