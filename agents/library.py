"""What `search` looks through: notes, headers, the user's documents, this run, the other runs, lessons."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from agents.shelves import KeptFolder, OtherRuns, Shelf, Texts, ThisRun
from memory.lesson_file import LessonsError
from memory.runs import RunFolder
from prompts.render import knowledge
from tools.errors import InfrastructureError
from tools.headers import header_folders
from tools.records import Language
from tools.search import Found, Hit, Place, search

PATIENCE: Final = 15.0
"""Seconds that one search may spend on reading what is new; the rest is read by the next ones."""


@dataclass(frozen=True)
class Answer:
    """What a search found, and what to know about what it could not look through; each such note is told once."""

    hits: list[Hit]
    notes: list[str]


class Library:
    """Shelves are opened when they are first searched, and brought up to date at each search. May be used from several
    threads.

    documents: files and folders of the user's. lessons: a shelf of what earlier runs learnt.
    """

    def __init__(
        self,
        run: RunFolder,
        header: str,
        language: Language,
        documents: Sequence[Path] = (),
        lessons: Shelf | None = None,
    ) -> None:
        self._places: dict[Place, Callable[[], list[Shelf]]] = {
            "notes": lambda: [Texts(knowledge)],
            "headers": lambda: [Texts(lambda: {"task.h": header}), *_headers(language)],
            "documents": lambda: [KeptFolder("documents", path.resolve(), _shown(path)) for path in documents],
            "this_run": lambda: [ThisRun(run)],
            "other_runs": lambda: [OtherRuns(run)],
            "lessons": lambda: [] if lessons is None else [lessons],
        }
        self._empty: dict[Place, str] = {
            "documents": "this run was given no documents; the user can with --docs",
            "lessons": "this run keeps no lessons",
        }
        self._shelves: dict[Place, list[Shelf]] = {}
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def search(self, query: str, limit: int, where: Place = "all") -> Answer:
        """The passages of `where` that fit best, each cited by path and lines."""
        places = [place for place in get_args(Place) if place != "all"] if where == "all" else [where]
        with self._lock:
            shelves = [shelf for place in places for shelf in self._opened(place)]
            notes = self._refresh(shelves)
            if not shelves:
                notes.append(self._empty.get(where, f"there are no {where} here"))
            return Answer(search([_Trusting(shelf, notes) for shelf in shelves], query, limit), self._untold(notes))

    def close(self) -> None:
        """Let go of the indexes."""
        with self._lock:
            for shelf in (shelf for shelves in self._shelves.values() for shelf in shelves):
                shelf.close()
            self._shelves.clear()

    def _opened(self, place: Place) -> list[Shelf]:
        if place not in self._shelves:
            self._shelves[place] = self._places[place]()
        return self._shelves[place]

    def _refresh(self, shelves: Sequence[Shelf]) -> list[str]:
        deadline = time.monotonic() + PATIENCE
        return [note for shelf in shelves if (note := shelf.refresh(max(0.0, deadline - time.monotonic())))]

    def _untold(self, notes: Sequence[str]) -> list[str]:
        new = [note for note in notes if note not in self._told]
        self._told.update(new)
        return new


class _Trusting:
    """A shelf whose broken index costs its hits only."""

    def __init__(self, shelf: Shelf, notes: list[str]) -> None:
        self._shelf, self._notes = shelf, notes

    def search(self, query: str, limit: int) -> Sequence[Found]:
        try:
            return self._shelf.search(query, limit)
        except sqlite3.Error as error:
            self._notes.append(f"an index can't be read ({error})")
            return []
        except LessonsError as error:
            self._notes.append(str(error))
            return []


def _headers(language: Language) -> list[Shelf]:
    """None where the compiler lives on another machine."""
    try:
        return [KeptFolder("headers", folder, str(folder)) for folder in header_folders(language)]
    except InfrastructureError:
        return []


def _shown(path: Path) -> str:
    """As a person in the working directory would write it."""
    whole = path.resolve()
    return str(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole)
