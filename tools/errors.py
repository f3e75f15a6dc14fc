"""The expected failures of `tools`: one sentence that says what happened, one that says what to do."""

from __future__ import annotations

from typing import Literal


class WarpsmithError(Exception):
    """An expected failure that a person reads.

    `message` is one sentence without a final full stop; `advice` says what to do about it and may be empty.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(f"{message}. {advice}".rstrip() if advice else message)
        self.message = message
        self.advice = advice


TaskFault = Literal["missing", "not_python", "not_a_task", "raised", "not_finite", "shapes", "too_large", "degenerate"]


class TaskError(WarpsmithError):
    """The task can't be used: its file, its reference or what its audit found. `fault` is the closed reason."""

    def __init__(self, fault: TaskFault, message: str, advice: str = "") -> None:
        super().__init__(message, advice)
        self.fault: TaskFault = fault


class KernelError(WarpsmithError):
    """The kernel's files can't be read or its build settings are not allowed (never a verdict on what it computes)."""


class InfrastructureError(WarpsmithError):
    """The judge, its machine or the channel to it failed: nothing was learnt about the kernel, so it may be retried."""
