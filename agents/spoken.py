"""What models say, as it comes, in a small file that whoever looks at the run from another process can read.

It is there to be watched and for nothing else: no prompt and no resumption reads it; whole replies are in transcripts.
So it is neither flushed nor complete: pieces are put together to a few writes a second, a file that has grown large is
begun anew, and what a disk does not take is lost without a word. Only its owner can read it.

A line is a JSON object: `turn` and `role` say who spoke (`turn` is absent outside of one), `text` what came, and `over`
is true where the reply is whole, or lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, TypeAlias

from pydantic import JsonValue

from agents.context import OnRoleText
from agents.events import Event, OnEvent, where
from agents.models.costs import PAID_EVENTS
from agents.secrets import Scrubber
from agents.settings import Role

SPOKEN: Final = "spoken.jsonl"
EVERY: Final = 0.2
"""Seconds between two writes."""
MOST_BYTES: Final = 1 << 20
"""Of the file; then it is begun anew."""
LONGEST_WORD: Final = 400
"""Characters. A word is written once it is whole, since a key that came in pieces would not be known; what is longer
is none."""

_Turn: TypeAlias = tuple[str, str]
"""A role and a turn's name, empty outside of one."""


class Piece(NamedTuple):
    """What one speaker said since its last piece. `is_last`: its reply is whole, or lost."""

    speaker: str
    text: str
    is_last: bool


def piece_in(line: str) -> Piece | None:
    """What a line of the file tells; None for a torn one."""
    with suppress(ValueError, RecursionError):
        told = json.loads(line)
        if isinstance(told, dict) and isinstance(told.get("role"), str):
            text = told.get("text", "")
            turn = told.get("turn", "")
            return Piece(speaker_of(told["role"], str(turn)), str(text), told.get("over") is True)
    return None


def speaker_of(role: str, turn: str) -> str:
    """Who speaks in that turn, for a person: `coder 1 of iteration 3`; coders that work at the same time are apart."""
    iteration, _, which = turn.partition("-")
    if not iteration.isdecimal():
        return role
    slot = which.removeprefix(role).strip("-")
    numbered = f"{role} {slot}" if slot.isdecimal() and role == "coder" else role
    return f"{numbered} of iteration {int(iteration)}"


@dataclass
class _Unwritten:
    text: str = ""
    over: bool = False


class Spoken:
    """Writes what is said into `folder`. Belongs to one event loop; raises nothing."""

    def __init__(self, folder: Path, scrubber: Scrubber) -> None:
        self.path = folder / SPOKEN
        self._scrubber = scrubber
        self._waiting: dict[_Turn, _Unwritten] = {}
        self._speaking: set[_Turn] = set()
        """Amid a reply of which something came."""
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = -1
        self._torn = False
        """Whether the file may end amid a line."""

    def __enter__(self) -> Spoken:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for speaker in [*self._speaking]:
            self._end(speaker)
        self._write()
        self._close()

    def heard(self, on_text: OnRoleText) -> OnRoleText:
        """Hears each piece, and hands it on. The turn is what is bound around the call."""

        def hear(role: Role, piece: str) -> None:
            speaker = (role, str(where().get("turn") or ""))
            if self._waiting.get(speaker, _Unwritten()).over:  # its last reply ended just now
                self._write()
            self._waiting.setdefault(speaker, _Unwritten()).text += piece
            self._speaking.add(speaker)
            self._write_soon()
            on_text(role, piece)

        return hear

    def ended(self, on_event: OnEvent) -> OnEvent:
        """Learns from events which replies are whole, or lost, and hands them on."""

        def take(event: Event) -> None:
            speaker = (str(event.fields.get("role")), str(event.bound.get("turn") or ""))
            if event.event in PAID_EVENTS and speaker in self._speaking:
                self._end(speaker)
                self._write_soon()
            on_event(event)

        return take

    def _end(self, speaker: _Turn) -> None:
        self._speaking.discard(speaker)
        self._waiting.setdefault(speaker, _Unwritten()).over = True

    def _write_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._write)

    def _write(self) -> None:
        """Add what waits; of a reply that goes on, without its last word."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines: list[str] = []
        left: dict[_Turn, _Unwritten] = {}
        for (role, turn), waiting in self._waiting.items():
            text, rest = (waiting.text, "") if waiting.over else _whole_words(waiting.text)
            if rest:
                left[role, turn] = _Unwritten(rest)
            if text or waiting.over:
                told: dict[str, JsonValue] = {"role": role, "turn": turn} if turn else {"role": role}
                told |= {"text": self._scrubber.text(text)} if text else {}
                told |= {"over": True} if waiting.over else {}
                lines.append(json.dumps(told, ensure_ascii=False))
        self._waiting = left
        if lines:
            self._add("".join(f"{line}\n" for line in lines).encode(errors="replace"))

    def _add(self, data: bytes) -> None:
        """Try once; what the disk does not take is lost."""
        try:
            self._open()
            begun = b"\n" + data if self._torn else data
            self._torn = os.write(self._descriptor, begun) != len(begun)
        except OSError:
            self._torn = True

    def _open(self) -> None:
        """The file, or another one in its place once it is large: who follows it reads the old one to its end."""
        anew = self._descriptor >= 0 and os.fstat(self._descriptor).st_size >= MOST_BYTES
        if self._descriptor >= 0 and not anew:
            return
        if anew:
            self._close()
            self.path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):  # somebody's pipe may take nothing for ever
            self._close()
            raise OSError(f"{self.path} is no plain file")
        os.fchmod(self._descriptor, 0o600)
        self._torn = os.fstat(self._descriptor).st_size > 0  # an earlier process may have been killed amid a line

    def _close(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def _whole_words(text: str) -> tuple[str, str]:
    """A text up to its last blank, and what follows that; all of it where that is longer than any word."""
    cut = max(text.rfind(blank) for blank in " \n\t") + 1
    return (text, "") if len(text) - cut > LONGEST_WORD else (text[:cut], text[cut:])
