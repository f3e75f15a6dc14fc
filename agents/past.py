"""What a role of an iteration can know of the run: the attempts up to then, and what was said of them by then.

Later profiles, readings and measurements are invisible here, so that a prompt can be made again, byte for byte, at any
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from agents.ideas import kind_of
from agents.reflection import Score
from agents.state import Kind
from memory.files import Json
from memory.ledger import LedgerEntry
from memory.runs import Attempt, RunFolder


@dataclass(frozen=True)
class Past:
    """`attempts` are a0 to a<n-1>, all that were judged when the role's turn began."""

    run: RunFolder
    attempts: tuple[Attempt, ...]
    iteration: int

    @classmethod
    def of(cls, run: RunFolder, attempts: int, iteration: int) -> Past:
        return cls(run, tuple(run.attempts()[:attempts]), iteration)

    @cached_property
    def best(self) -> Attempt | None:
        best = self.run.best_of(self.attempts, self.iteration)
        return None if best is None else self.find(best)

    @property
    def standing(self) -> str | None:
        """The attempt to go on from: the best, or the first while none was accepted."""
        if self.best is not None:
            return self.best.id
        return self.attempts[0].id if self.attempts else None

    def find(self, attempt_id: str | None) -> Attempt | None:
        return next((attempt for attempt in self.attempts if attempt.id == attempt_id), None)

    def diagnosis(self, attempt: Attempt) -> Json | None:
        """The analyst's reading, which comes at the end of the attempt's own iteration."""
        return self.run.diagnosis(attempt.id) if attempt.iteration < self.iteration else None

    @cached_property
    def scores(self) -> dict[str, Score]:
        """What hypotheses came to, by attempt; known once the attempt's iteration is over."""
        over = {attempt.id for attempt in self.attempts if attempt.iteration < self.iteration}
        return {name: Score.model_validate(line) for name, line in self.run.scores().items() if name in over}

    def entries(self) -> list[LedgerEntry]:
        """The ledger's."""
        return [self._entry(attempt) for attempt in self.attempts]

    def _entry(self, attempt: Attempt) -> LedgerEntry:
        score = self.scores.get(attempt.id)
        return _told(attempt.entry, score.words if score else "", kind_of(attempt.hypothesis))

    def hints(self) -> list[str]:
        """What the user told the agents, oldest first."""
        return self.run.standing_hints(self.iteration)


@lru_cache(maxsize=4096)
def _told(entry: LedgerEntry, measured: str, kind: Kind) -> LedgerEntry:
    """`entry` with what its hypothesis came to; made once, since each prompt asks for all of them."""
    return entry.model_copy(update={"measured": measured, "kind": kind})
