"""An attempt: a kernel that was judged, as the run folder remembers it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from memory.files import Json, RunFolderError, read_json
from memory.ledger import LedgerEntry, Outcome, settings_of
from memory.movement import race_in


class Attempt(BaseModel):
    """`attempt.json`. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """a0 (the starting kernel), a1, ... in the order of judging."""
    parent: str | None
    iteration: int
    """0 for the starting kernel."""
    kernel_id: str
    kernel: Json
    """A `tools.records.Kernel` as JSON."""
    hypothesis: Json | None = None
    """An `agents.state.Hypothesis` as JSON; None for the starting kernel."""
    change: str
    """Build settings and edits in words."""
    outcome: Outcome
    note: str = ""
    """Why, in a few words."""
    seconds: float | None = None
    """Present only when accepted, as are the two below."""
    share_of_limit: float | None = None
    speedup: float | None = None
    """Baseline time / attempt time."""
    judged_at: float
    """Unix time."""
    device_seconds: float
    """What judging cost."""
    call: str | None = None
    """The step of the run that had it judged; None in runs of format 1."""
    person: str | None = None
    """What a person said of a kernel by his or her own hand; None where a coder wrote it."""
    sample: int | None = None
    """Which of the kernels that were drawn for its hypothesis it is, from 1; None when only one was."""

    @classmethod
    def at(cls, path: Path) -> Attempt:
        """As it is written down at `path`. Raises RunFolderError."""
        try:
            return cls.model_validate(read_json(path))
        except ValidationError as error:
            raise RunFolderError(f"{path} does not describe an attempt", "The run folder may be damaged.") from error

    @cached_property
    def entry(self) -> LedgerEntry:
        """Its ledger line, without what its metric did."""
        said = {name: str(value) for name, value in (self.hypothesis or {}).items() if value is not None}
        idea = said.get("change", "") if self.person is None else f"by the user: {self.person}"
        return LedgerEntry(
            attempt=self.id,
            parent=self.parent,
            change=self.change,
            outcome=self.outcome,
            seconds=self.seconds,
            share_of_limit=self.share_of_limit,
            note=self._short_note(),
            idea="" if idea == settings_of(self.change) else idea,
            kind=said.get("kind", "other"),
            metric=said.get("metric", ""),
            expected=said.get("expected", ""),
        )

    def _short_note(self) -> str:
        """The note; of a race only its ratio, and which sample it was."""
        race = race_in(self.note)
        if race is None:
            return self.note
        return f"{race.ratio:.2f}x" + ("" if self.sample is None else f" sample {self.sample}")
