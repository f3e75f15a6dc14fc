"""The environment over standard input and output: a JSON line a message, a JSON line an answer, in any order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import CancelledError
from typing import IO

from pydantic import JsonValue

from agents.environment import Environment
from agents.environment_protocol import MOST_BYTES, VERSION, Found, Unfit, read_fields
from tools.jobs import FLUSH_SECONDS, Outlet

IN_FLIGHT = 256
"""Messages that wait for their answers, at most; further ones are not read yet."""


async def serve_lines(environment: Environment, source: IO[bytes], sink: IO[bytes], stopped: asyncio.Event) -> None:
    """Answer every line of `source` until it ends, `stopped` is set, or nobody reads `sink` any more.

    What was begun before the end of `source` is answered; what was begun before a stop is not.
    """
    loop = asyncio.get_running_loop()
    outlet = Outlet(sink, lambda _: loop.call_soon_threadsafe(stopped.set))
    work = asyncio.ensure_future(_answer_all(environment, source, outlet))
    stop = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not work.done():
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return
    await work
    await asyncio.to_thread(outlet.finish, FLUSH_SECONDS)


async def _answer_all(environment: Environment, source: IO[bytes], outlet: Outlet) -> None:
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
    _read_on(source, lines)
    places = asyncio.Semaphore(IN_FLIGHT)
    async with asyncio.TaskGroup() as group:
        while (line := await lines.get()) is not None:
            if line.strip():
                await places.acquire()
                group.create_task(_answer(environment, line, outlet, places))


async def _answer(environment: Environment, line: bytes, outlet: Outlet, places: asyncio.Semaphore) -> None:
    answer: Found = {"v": VERSION, "id": None}
    try:
        fields = _fields(line)
        answer["id"] = fields.pop("id", None)
        if fields.pop("v", VERSION) != VERSION:
            raise Unfit("protocol", "the message is of another version", f"This is version {VERSION}.")
        answer["result"] = await environment.answer(str(fields.pop("op", "")), fields)
    except Unfit as unfit:
        answer["error"] = unfit.as_json
    finally:
        places.release()
    outlet.say(answer)


def _fields(line: bytes) -> dict[str, JsonValue]:
    if len(line) > MOST_BYTES:
        raise Unfit("protocol", f"the message is longer than {MOST_BYTES} bytes", "Send less.")
    return read_fields(line)


def _read_on(source: IO[bytes], lines: asyncio.Queue[bytes | None]) -> None:
    """Put lines into the queue, then None. From a thread that nobody waits for, since a read can't be cut short."""
    loop = asyncio.get_running_loop()

    def put(line: bytes | None) -> None:
        asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    def read() -> None:
        while line := source.readline(MOST_BYTES + 2):
            if not line.endswith(b"\n"):
                while (rest := source.readline(MOST_BYTES)) and not rest.endswith(b"\n"):
                    pass
            put(line)
        put(None)

    def read_until_the_end() -> None:
        with contextlib.suppress(RuntimeError, CancelledError, ValueError):  # the loop is gone, or the stream is closed
            read()

    threading.Thread(target=read_until_the_end, daemon=True).start()
