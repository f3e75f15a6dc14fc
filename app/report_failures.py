"""What failed and why: rejected and unjudged attempts by the judge's reason, with its evidence in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from app.plain import one_line
from app.report_path import idea_of
from app.summary import read_verdict
from memory.files import RunFolderError
from memory.runs import Attempt, RunFolder
from tools.records import Mismatch, Rejected, Unjudged

TEXT_LENGTH = 320
"""Characters of a message or an idea."""


class Failure(BaseModel):
    """One attempt that failed."""

    model_config = ConfigDict(frozen=True)

    attempt: str
    text: str
    """What was tried."""
    stage: str
    message: str
    detail: str = ""
    """The first wrong element, or the compiler's first error."""


class Failures(BaseModel):
    """Those with one reason."""

    model_config = ConfigDict(frozen=True)

    reason: str
    """In words."""
    found: tuple[Failure, ...]


def failures(run: RunFolder, attempts: Sequence[Attempt]) -> list[Failures]:
    """By reason, the most frequent first."""
    groups: dict[str, list[Failure]] = {}
    for attempt in attempts:
        if attempt.outcome in ("rejected", "unjudged"):
            reason, failure = _read(run, attempt)
            groups.setdefault(reason, []).append(failure)
    found = [Failures(reason=reason, found=tuple(group)) for reason, group in groups.items()]
    return sorted(found, key=lambda group: -len(group.found))


def mismatch_words(mismatch: Mismatch) -> str:
    """The first wrong element in a sentence."""
    where = ", ".join(str(index) for index in mismatch.index)
    counts = f"{mismatch.wrong:,} of {mismatch.total:,} wrong"
    return (
        f"{mismatch.output}[{where}] is {mismatch.actual}, not {mismatch.expected}"
        f" (workload {mismatch.workload}, {mismatch.distribution} inputs; {counts})"
    )


def _read(run: RunFolder, attempt: Attempt) -> tuple[str, Failure]:
    text = _short(idea_of(attempt))
    try:
        verdict = read_verdict(run, attempt.id)
    except RunFolderError as error:
        return "verdict lost", Failure(attempt=attempt.id, text=text, stage="", message=error.message)
    match verdict:
        case Rejected():
            message, detail = _said_once(_short(verdict.message), _detail(verdict))
            return verdict.reason.replace("_", " "), Failure(
                attempt=attempt.id,
                text=text,
                stage=verdict.stage,
                message=message,
                detail=detail,
            )
        case Unjudged():
            return "not judged", Failure(attempt=attempt.id, text=text, stage="", message=_short(verdict.message))
        case _:
            return "refuted afresh", Failure(attempt=attempt.id, text=text, stage="", message=_short(attempt.note))


def _said_once(message: str, detail: str) -> tuple[str, str]:
    """Both, or the longer one alone where it has the other in it."""
    if detail in message or message in detail:
        return max(message, detail, key=len), ""
    return message, detail


def _detail(verdict: Rejected) -> str:
    if verdict.mismatch is not None:
        return _short(mismatch_words(verdict.mismatch))
    first = next((d for d in verdict.diagnostics if d.severity == "error"), None)
    if first is None:
        return ""
    where = f"{first.file}:{first.line}: " if first.file and first.line else ""
    return _short(where + first.message)


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= TEXT_LENGTH else line[: TEXT_LENGTH - 1] + "…"
