"""Calls to models that are let go: for a person's wish that others play a role, or since the run's time is over.

Where a person chose others, a call is let go while nothing of its answer came: no text, no thought that can be seen and
no part of a call to a tool. An answer that comes may end. What the provider told of its cost by then is paid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

from agents.models.base import ModelError, Usage

Found = TypeVar("Found")
Reason: TypeAlias = Literal["user", "time"]
"""A person chose others; the time budget was spent."""
CHOSEN: Final = "another model was chosen"
TOLD: Final[Mapping[Reason, str]] = {"user": CHOSEN, "time": "the time budget was spent before its answer was whole"}
"""What is told of a call that was let go."""


class Parted(ModelError):
    """A call was let go. `usage`: what it cost by then, where the provider said so."""

    def __init__(self, why: Reason = "user", usage: Usage | None = None) -> None:
        super().__init__("transient", TOLD[why], usage=usage)
        self.why = why


@dataclass
class _Call:
    begun: bool = False
    """Whether something of the answer came."""
    let_go: Reason | None = None


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)
"""The call that goes on here: whoever hears the answer is layers below whoever may let it go."""


def answer_begins() -> None:
    """Something of the answer came."""
    if (call := _CALL.get()) is not None:
        call.begun = True


def let_go_for() -> Reason | None:
    """Why the call is cancelled, where that is because it was let go."""
    call = _CALL.get()
    return None if call is None else call.let_go


class Parting:
    """The wish, as something that calls can be held under. Belongs to one event loop once one is."""

    def __init__(self) -> None:
        self.is_set = False
        self._held: list[tuple[_Call, asyncio.Task[object]]] = []

    def set(self) -> None:
        """Let go of all calls of which nothing was heard yet, and of those that are still to be made."""
        self.is_set = True
        self.let_go("user")

    def let_go(self, why: Reason, *, begun: bool = False) -> None:
        """Let go of all calls of which nothing was heard yet; begun: and of the others."""
        here = asyncio.current_task() if self._held else None
        for call, task in self._held:
            if (begun or not call.begun) and not task.done() and task is not here:  # who is at work waits for nobody
                call.let_go = call.let_go or why
                task.cancel()

    @property
    def answering(self) -> int:
        """Calls of which something was heard and that are not at their end."""
        return sum(call.begun and not task.done() for call, task in self._held)

    async def over(self, work: Callable[[], Awaitable[Found]]) -> Found:
        """What `work` comes to. Raises Parted when it was let go, or is not to be begun any more."""
        if self.is_set:
            raise Parted
        call = _Call()

        async def under() -> Found:
            _CALL.set(call)
            return await work()

        task = asyncio.create_task(under())
        held = (call, task)
        self._held.append(held)
        try:
            return await task
        except (asyncio.CancelledError, Parted) as error:
            here = asyncio.current_task()
            if here is not None and here.cancelling():
                raise asyncio.CancelledError from None
            if isinstance(error, Parted) or call.let_go is None:
                raise
            raise Parted(call.let_go) from None
        finally:
            self._held.remove(held)
