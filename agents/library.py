"""What `search` looks through: the optimisation notes, all that this run tried, `task.h` and the compiler's headers."""

from __future__ import annotations

import json

from memory.index import Document, Index
from memory.runs import Attempt, RunFolder
from prompts.render import knowledge
from tools.headers import Texts, toolchain_headers
from tools.records import TaskFacts
from tools.search import Hit, search

RECENT = 32
"""Attempts that are looked at anew, since a profile or a diagnosis may have joined them."""


class Library:
    """Built at the first search, and brought up to date at each. May be used from another thread."""

    def __init__(self, run: RunFolder, facts: TaskFacts) -> None:
        self._run = run
        self._facts = facts
        self._index: Index | None = None
        self._headers: Texts | None = None
        self._known = 0

    def search(self, query: str, limit: int) -> list[Hit]:
        """The passages that fit best, each cited by path and lines. InfrastructureError when there is no compiler."""
        if self._index is None or self._headers is None:
            self._index, self._headers = Index(), toolchain_headers()
            self._index.add(Document(path, text) for path, text in knowledge().items())
        attempts = self._run.attempts()
        for attempt in attempts[max(0, self._known - RECENT) :]:
            self._index.add(self._documents(attempt))
        self._known = len(attempts)
        return search([self._index, Texts({"task.h": self._facts.header}), self._headers], query, limit)

    def _documents(self, attempt: Attempt) -> list[Document]:
        """An attempt's files as they lie in the run folder, and what was said and measured of it."""
        folder = f"attempts/{attempt.id}"
        title = f"{attempt.id} {attempt.outcome}: {attempt.change}"
        files = attempt.kernel.get("files")
        texts = {f"kernel/{name}": str(text) for name, text in files.items()} if isinstance(files, dict) else {}
        texts["attempt.json"] = (
            f"{title}\n{attempt.note}\n{json.dumps(attempt.hypothesis, indent=1, ensure_ascii=False)}"
        )
        for name, part in (("profile", self._run.profile(attempt.id)), ("diagnosis", self._run.diagnosis(attempt.id))):
            if part is not None:
                texts[f"{name}.json"] = json.dumps(part, indent=1, ensure_ascii=False)
        return [Document(f"{folder}/{name}", text, title) for name, text in texts.items()]
