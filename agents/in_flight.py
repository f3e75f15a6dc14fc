"""Calls of models and tools that go on, so that a run which is to stop ends when the last of them is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class InFlight:
    """Counts them. Belongs to one event loop."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Within it one more goes on."""
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def none(self) -> None:
        """Returns when none goes on."""
        await self._none.wait()
