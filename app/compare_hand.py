"""What of a run a person wrote: no gain of the models that played it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from memory.runs import Attempt

_FAILED = ("rejected", "unjudged")


class ByHand(BaseModel):
    """The attempts with a kernel by a person's hand. Those that models made of one are not among them, unless it is
    said."""

    model_config = ConfigDict(frozen=True)

    best: str | None = None
    """The one that the best is, or grew from; None where the best is the models' alone."""
    attempts: int = 0
    failed: int = 0
    accepted: int = 0
    """With those that grew from one."""

    def words(self, best: str | None) -> str:
        """Of a run's best: whose it is; empty where it is the models'."""
        return "" if self.best is None else "by hand" if self.best == best else f"from {self.best}, by hand"


def by_hand_in(attempts: Sequence[Attempt], best: str | None) -> ByHand:
    """What a person wrote among a run's attempts, of which `best` is the best."""
    known = {attempt.id: attempt for attempt in attempts}
    written = [attempt for attempt in attempts if attempt.person is not None]
    return ByHand(
        best=_hand_behind(best, known),
        attempts=len(written),
        failed=sum(attempt.outcome in _FAILED for attempt in written),
        accepted=sum(a.outcome not in _FAILED and _hand_behind(a.id, known) is not None for a in attempts),
    )


def _hand_behind(attempt: str | None, known: Mapping[str, Attempt]) -> str | None:
    """The nearest attempt by hand on the way to that one, itself included."""
    passed: set[str] = set()
    while attempt is not None and attempt in known and attempt not in passed:
        if known[attempt].person is not None:
            return attempt
        passed.add(attempt)
        attempt = known[attempt].parent
    return None
