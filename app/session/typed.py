"""What is typed, one key after the other.

Textual hands each key to what has the focus when it comes, and it acts some steps later. Of keys that come at once,
over a slow line or from a fast hand, those after the one that opens a dialog would act on the run. Here the next one
waits until the one before has done all that it does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from textual.events import Key, Paste
from textual.message import Message
from textual.widget import Widget

Typed: TypeAlias = Key | Paste
_ROUNDS = 2
"""A widget may tell its dialog of a key by a message of its own, which is behind the first `Passed`."""
_LONGEST = 1_000
"""Rounds of the loop that one waits for what was begun: it opens a dialog in its first."""


class Passed(Message):
    """Goes behind a key the same way, from what has the focus up to the application."""

    def __init__(self, target: Widget, rounds: int) -> None:
        super().__init__()
        self.target, self.rounds = target, rounds


class InTurn:
    """Hands on what was typed, in its turn. hand_on: gives it to the application. target: what has the focus, None
    where it need not be waited for. counts: whether it is heeded, asked in its turn. is_about_to_ask: whether what was
    begun may still open what the next one is meant for."""

    def __init__(
        self,
        hand_on: Callable[[Typed], Awaitable[None]],
        target: Callable[[], Widget | None],
        counts: Callable[[Typed], bool],
        is_about_to_ask: Callable[[], bool],
    ) -> None:
        self._hand_on, self._target = hand_on, target
        self._counts, self._is_about_to_ask = counts, is_about_to_ask
        self._waiting: deque[Typed] = deque()
        self._is_amid = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for its turn, and what was handed on did all that it does."""
        return not (self._waiting or self._is_amid)

    async def take(self, typed: Typed) -> None:
        self._waiting.append(typed)
        if not self._is_amid:
            await self._next()

    async def passed(self, message: Passed) -> None:
        """The one before did what it does, but for what it began beside: that begins now."""
        for _ in range(_LONGEST):
            await asyncio.sleep(0)
            if not self._is_about_to_ask():
                break
        if message.rounds < _ROUNDS and message.target.post_message(Passed(message.target, message.rounds + 1)):
            return
        self._is_amid = False
        await self._next()

    async def _next(self) -> None:
        while self._waiting and not self._is_amid:
            typed, target = self._waiting.popleft(), self._target()
            if not self._counts(typed):
                continue
            self._is_amid = target is not None
            await self._hand_on(typed)
            if target is not None and not target.post_message(Passed(target, 1)):
                self._is_amid = False
