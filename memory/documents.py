"""A folder of documents (Markdown, text, source code, PDF) kept in an index: read once, and again where it changed.

A file counts as unchanged while its size and modification time are; else its content's hash decides. What can't be
searched (binary, locked, huge) is skipped with a note. Links are followed, into each folder once. Several processes may
keep one index: one works on it, the others search what is there. Not covered: scanned pages, formats of office
programs, archives.
"""

from __future__ import annotations

import codecs
import fcntl
import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from memory.index import Entry, Hit, Index
from memory.passages import Document
from memory.pdf_text import LOCKED

MOST_BYTES: Final = 8 << 20
"""A larger text file is a log or data, not a document."""
MOST_PDF_BYTES: Final = 256 << 20
MOST_FILES: Final = 50_000
PDF_SECONDS: Final = 120.0
BATCH_FILES: Final = 64
BATCH_BYTES: Final = 1 << 20
"""A transaction ends after so many files or bytes; a killed process loses no more."""
PASSED_OVER: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Folders that hold other people's or made files; those whose name begins with a dot are passed over as well."""
FRESH_NANOSECONDS: Final = 2_000_000_000
"""A file changed so recently is looked at again next time: a second change may leave the same time behind (FAT keeps
two seconds)."""
STRANGE: Final = 20
"""A text with more than one undecodable character in so many is binary."""

_NEEDS_PASSWORD = "needs a password"
_FRESH = "~"


@dataclass(frozen=True)
class Refreshed:
    """What `Folder.refresh` left behind. `pending` files are not looked at yet; None while another process works."""

    files: int
    pending: int | None


@dataclass(frozen=True)
class _File:
    name: str
    """Relative to the folder, with slashes."""
    path: Path
    size: int
    stamp: str
    note: str = ""
    """Why it is not looked at."""


class Folder:
    """The documents below `root` (or `root` itself when it is a file), searchable through `index`, which is theirs
    alone.

    shown_as: what the paths of hits begin with. lock: a file that keeps other processes from doing the same work.
    """

    def __init__(self, root: Path, index: Index, shown_as: str, lock: Path | None = None) -> None:
        self.root = root
        self.shown_as = shown_as
        self._index = index
        self._lock = lock

    def search(self, query: str, limit: int) -> list[Hit]:
        """As `Index.search`, of what is indexed so far."""
        slash = "" if self.root.is_file() else "/"
        return [replace(hit, path=self.shown_as + slash + hit.path) for hit in self._index.search(query, limit)]

    def refresh(self, seconds: float) -> Refreshed:
        """Bring the index up to date, for about so many seconds at most (a PDF that is begun is finished). What is left
        is done by the next call. A folder that has gone keeps what was indexed of it."""
        with _alone(self._lock) as alone:
            if not alone:
                return Refreshed(0, None)
            if not self.root.exists():
                return Refreshed(0, 0)
            deadline = time.monotonic() + seconds
            known = self._index.stamps()
            files = {file.name: file for file in _files(self.root)}
            gone = known.keys() - files.keys()
            if gone:
                self._index.remove(gone)
            changed = [file for file in files.values() if _may_differ(file, known.get(file.name, ""))]
            return Refreshed(len(files), self._read(changed, known, deadline))

    def skipped(self) -> str:
        """What was left out and why, in one sentence; empty when nothing was."""
        reasons: dict[str, list[str]] = {}
        for name, note in self._index.notes().items():
            reasons.setdefault(note, []).append(name or self.root.name)
        parts = []
        for note, names in sorted(reasons.items(), key=lambda item: len(item[1])):
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            parts.append(f"{', '.join(names[:3])}{more} ({note})")
        return f"{self.shown_as}: left out {'; '.join(parts)}" if parts else ""

    def _read(self, files: list[_File], known: dict[str, str], deadline: float) -> int:
        """Index `files` batch by batch; returns how many are left at the deadline."""
        batch: list[Entry] = []
        size = 0
        for number, file in enumerate(files):
            entry = _entry(file, known.get(file.name, "").rpartition(" ")[2])
            if entry is not None:
                batch.append(entry)
            else:
                self._index.restamp(file.name, f"{file.stamp} {known[file.name].rpartition(' ')[2]}")
            size += file.size
            late = time.monotonic() > deadline
            if late or len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                self._index.put(batch)
                batch, size = [], 0
            if late:
                return len(files) - number - 1
        self._index.put(batch)
        return 0


def _files(root: Path) -> Iterator[_File]:
    """The regular files below `root` in a fixed order; no folder is entered twice, whatever links lead to it. Folders
    that can't be read come last, with the reason."""
    if root.is_file():
        yield from filter(None, [_file(root, "")])
        return
    seen: set[tuple[int, int]] = set()
    count = 0
    unread: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=unread.append, followlinks=True):
        place = _place(Path(folder))
        if place is None or place in seen:
            folders.clear()
            continue
        seen.add(place)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in PASSED_OVER)
        for name in sorted(names):
            path = Path(folder, name)
            file = None if name.startswith(".") else _file(path, path.relative_to(root).as_posix())
            if file is not None:
                count += 1
                if count > MOST_FILES:
                    yield replace(file, stamp="beyond", note=f"this and all behind it: more than {MOST_FILES} files")
                    return
                yield file
    for error in unread:
        name = f"{Path(error.filename).relative_to(root).as_posix()}/"
        yield _File(name, Path(error.filename), 0, "unread", error.strerror or "unreadable")


def _may_differ(file: _File, known: str) -> bool:
    stamp = known.rpartition(" ")[0]
    return stamp != file.stamp or stamp.endswith(_FRESH)


def _place(folder: Path) -> tuple[int, int] | None:
    """Device and number of a folder, equal by whatever link it is reached; None when it has gone."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _file(path: Path, name: str) -> _File | None:
    """None for what is no regular file, can't be looked at, or has a name that is no text."""
    try:
        name.encode()
        found = path.stat()
    except (OSError, UnicodeEncodeError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    fresh = _FRESH if time.time_ns() - found.st_mtime_ns < FRESH_NANOSECONDS else ""
    return _File(name, path, found.st_size, f"{found.st_size}:{found.st_mtime_ns}{fresh}")


def _entry(file: _File, digest: str) -> Entry | None:
    """What the file holds now, or why nothing of it can be searched; None when its content still has `digest`."""
    pdf = file.path.suffix.lower() == ".pdf"
    most = MOST_PDF_BYTES if pdf else MOST_BYTES
    if file.note or file.size > most:
        return _skipped(file, file.note or f"larger than {most >> 20} MiB")
    try:
        data = file.path.read_bytes()
    except OSError as error:
        return _skipped(file, error.strerror or "unreadable")
    found = hashlib.sha256(data).hexdigest()
    if found == digest:
        return None
    stamp = f"{file.stamp} {found}"
    if pdf:
        pages, note = pdf_pages(file.path)
        documents = [Document(f"{file.name}#page={page}", text, numbered=False) for page, text in pages.items()]
        return Entry(file.name, stamp, documents, note)
    text = _decoded(data)
    if text is None:
        return Entry(file.name, stamp, note="binary")
    return Entry(file.name, stamp, [Document(file.name, text)])


def _skipped(file: _File, note: str) -> Entry:
    return Entry(file.name, f"{file.stamp} -", note=note)


def _decoded(data: bytes) -> str | None:
    """The text of a file: UTF-8, UTF-16 with its mark, or what is nearly UTF-8; None when it is binary."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", errors="replace")
    return None if text.count("\ufffd") * STRANGE > len(text) else text


def pdf_pages(path: Path, seconds: float = PDF_SECONDS) -> tuple[dict[int, str], str]:
    """The text of each page that has some, by its number from 1, and a note when pages may be missing."""
    root = str(Path(__file__).resolve().parent.parent)
    argv = [sys.executable, "-P", "-m", "memory.pdf_text", str(path.resolve())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
    note = ""
    try:
        done = subprocess.run(
            argv, check=False, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds
        )
        output = done.stdout
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["its reader was killed"]
            note = _NEEDS_PASSWORD if done.returncode == LOCKED else f"no readable PDF: {why[0][:120]}"
    except subprocess.TimeoutExpired as error:
        output, note = error.stdout or b"", f"reading it took more than {seconds:g} s"
    lines = (json.loads(line) for line in output.split(b"\n") if line.endswith(b"}"))
    pages = {int(line["page"]): str(line["text"]) for line in lines if str(line["text"]).strip()}
    return pages, note or ("" if pages else "no text in it")


@contextmanager
def _alone(lock: Path | None) -> Iterator[bool]:
    """Whether no other process is inside; without a file, nobody else can be."""
    if lock is None:
        yield True
        return
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
