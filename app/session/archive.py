"""What a run folder holds of an attempt beside its events: sources, verdict, profile. Read once and kept."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from memory.files import RunFolderError, read_json, read_json_if_there
from memory.runs import Attempt
from tools.facts import TaskFacts
from tools.profiles import Profile
from tools.records import Kernel, Verdict

KEPT: Final = 64
"""Attempts that are kept in memory."""
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


@dataclass(frozen=True)
class Filed:
    """An attempt as its folder has it."""

    attempt: Attempt
    kernel: Kernel
    verdict: Verdict | None
    profile: Profile | None


_ID: Final = re.compile(r"a\d{1,9}", re.ASCII)
"""Of an attempt."""


class Archive:
    """The attempts of the run folder at `path`. What can't be read is None."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: OrderedDict[str, Filed] = OrderedDict()
        self._facts: TaskFacts | None = None

    def find(self, attempt_id: str | None) -> Filed | None:
        """The attempt of that id; read again while it has no profile, since one may come."""
        if attempt_id is None or _ID.fullmatch(attempt_id) is None:
            return None  # a log says any word, and some are paths
        known = self._kept.get(attempt_id)
        folder = self.path / "attempts" / attempt_id
        if known is not None and (known.profile is not None or not (folder / "profile.json").exists()):
            return known
        try:
            attempt = Attempt.model_validate(read_json(folder / "attempt.json"))
            verdict, profile = read_json_if_there(folder / "verdict.json"), read_json_if_there(folder / "profile.json")
            found = Filed(
                attempt=attempt,
                kernel=Kernel.model_validate(attempt.kernel),
                verdict=None if verdict is None else _VERDICT.validate_python(verdict),
                profile=None if profile is None else Profile.model_validate(profile),
            )
        except (RunFolderError, ValidationError):
            return None
        self._kept[attempt_id] = found
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    @property
    def facts(self) -> TaskFacts | None:
        """Of the task; None until it was opened."""
        if self._facts is None:
            try:
                found = read_json_if_there(self.path / "facts.json")
                self._facts = None if found is None else TaskFacts.model_validate(found)
            except (RunFolderError, ValidationError):
                return None
        return self._facts
