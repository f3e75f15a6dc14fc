"""A model's server on the test's own event loop that stops in the middle of what it sends, at a moment the test knows.

async with Halting("responses", said=0) as old:
    await old.asked.wait()      # a request came whole
    old.go.set()                # ... and the rest of the answer may go out
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import TracebackType
from typing import Any

from tests.llm_frames import Answer, Wire, frames

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


HELLO = Answer("hello")


class Halting:
    """Sends the first `said` events of `answer` (None: not even a status line) and the rest once `go` is set. After
    `halts` requests it hangs up on each further one.

    `asked`: that many requests came as are waited for. `left`: how many were given up by their client.
    """

    def __init__(
        self, wire: Wire, said: int | None = None, answer: Answer = HELLO, wanted: int = 1, halts: int = 99
    ) -> None:
        self.events = frames(wire, answer, 1)
        self.said = said
        self.requests: list[dict[str, Any]] = []
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.left = 0
        self._wanted, self._halts = wanted, halts
        self._open: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Halting:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def all_left(self) -> None:
        """Returns once every connection is at its end."""
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length:")[2].split()[0])
            self.requests.append(json.loads(await reader.readexactly(length)))
            if len(self.requests) > self._halts:
                writer.close()
                return
            if self.said is not None:
                await self._send(writer, HEAD, self.events[: self.said])
            if len(self.requests) >= self._wanted:
                self.asked.set()
            gone, go = asyncio.create_task(reader.read(1)), asyncio.create_task(self.go.wait())
            await asyncio.wait({gone, go}, return_when=asyncio.FIRST_COMPLETED)
            self.left += not go.done()
            if go.done():
                await self._send(writer, b"", self.events[self.said or 0 :])
            gone.cancel()
            go.cancel()
        writer.close()

    async def _send(self, writer: asyncio.StreamWriter, head: bytes, events: list[tuple[str, dict[str, Any]]]) -> None:
        named = (f"event: {name}\n" if name else "" for name, _ in events)
        writer.write(
            head
            + b"".join(
                f"{name}data: {json.dumps(payload)}\n\n".encode()
                for name, (_, payload) in zip(named, events, strict=True)
            )
        )
        await writer.drain()
