"""What ends a run from outside, by the error that tells of it: a closed set of reasons, as for any other end.

A run that was ended by a fault has kept all that was measured; it is resumed once the fault is seen to.
"""

from __future__ import annotations

from typing import Final

from agents.checkpoints import StateLost
from agents.limits import StopReason
from memory.files import RunFolderError
from tools.errors import InfrastructureError

REASONS: Final[tuple[tuple[type[BaseException], StopReason], ...]] = (
    (RunFolderError, "disk"),
    (MemoryError, "memory"),
    (StateLost, "state"),
    (InfrastructureError, "judge"),
)
"""The first that fits counts."""
_OUT_OF_MEMORY = ("the process ran out of memory", "Free some, or allow it more; what was measured is kept.")


def reason_of(error: BaseException) -> StopReason | None:
    """Why a run ends for that error; None when it is no fault from outside."""
    return next((reason for cls, reason in REASONS if isinstance(error, cls)), None)


def in_words(error: BaseException) -> tuple[str, str]:
    """What happened and what to do about it."""
    if isinstance(error, MemoryError):
        return _OUT_OF_MEMORY
    return str(getattr(error, "message", error)), str(getattr(error, "advice", ""))
