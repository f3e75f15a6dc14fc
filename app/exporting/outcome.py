"""What came of an export: for a person, for an exit code, and for the run's log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agents.steer_events import ExportStatus
from app.exits import DONE, FAILED, REJECTED
from app.exporting.checks import Tested
from app.quantities import duration, percent
from tools.records import Accepted, Rejected, Unjudged, Verdict

_CODES = {"accepted": DONE, "rejected": REJECTED, "unjudged": FAILED}


@dataclass(frozen=True)
class Outcome:
    """What was written, and what came of judging it."""

    folder: Path
    files: tuple[str, ...]
    verdict: Verdict | None = None
    tested: Tested | None = None
    unchecked: str = ""
    """Why it was not judged, or not in full."""

    @property
    def code(self) -> int:
        if self.verdict is not None and self.verdict.status != "accepted":
            return _CODES[self.verdict.status]
        if self.tested is not None and self.tested.status == "failed":
            return REJECTED
        return FAILED if self.unchecked else DONE

    @property
    def status(self) -> ExportStatus:
        """In a word. What was accepted and could not be installed here is accepted."""
        if self.tested is not None and self.tested.status == "failed":
            return "rejected"
        return "unjudged" if self.verdict is None else self.verdict.status

    @property
    def said(self) -> str:
        """In a sentence."""
        verdict, tested = self.verdict, self.tested
        if isinstance(verdict, Rejected):
            return f"rejected at {verdict.stage}: {verdict.message}"
        if tested is not None and tested.status == "failed":
            return f"installed, and its self-test failed: {tested.said}"
        if isinstance(verdict, Accepted):
            found = f"accepted again: {duration(verdict.seconds)}, {percent(verdict.share_of_limit)} of the limit"
            found += "; installed, and its self-test passed" if tested is not None and tested.status == "passed" else ""
            return found + (f"; its installation was not checked: {self.unchecked}" if self.unchecked else "")
        why = verdict.message if isinstance(verdict, Unjudged) else self.unchecked
        return f"not judged again: {why or 'as asked'}"
