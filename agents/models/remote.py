"""A model behind a provider's official SDK: one request a reply, streamed, with a finish marker demanded.

What differs between providers is a `Wire`. Retries are another layer's: the SDK's own are off, so that attempts,
waiting and money are counted once. Not covered: tools that are spoken of in other ways (`dialect`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from pydantic import BaseModel

from agents.models import errors, parting
from agents.models.base import Dialect, Message, ModelError, OnText, Opaque, Reply, Request, ToolCall, Usage
from agents.models.connections import Connection
from agents.models.error_table import StaleReasoning
from agents.models.shapes import Fields, clean, fields, sound, sound_json
from agents.models.spec import ModelSpec

DEFAULT_WINDOW = 128_000
"""Of a model of which nothing is known."""
BYTES_PER_TOKEN = 3
"""For servers that report no usage: CUDA source has 3.3 bytes a token in o200k_base, prose more."""
MAX_PAUSES = 8
"""How often a provider may pause one reply and be asked to go on."""


class Assembly(Protocol):
    """A reply that is being put together from a stream's events."""

    finished: bool
    """Whether the finish marker was seen."""

    @property
    def begun(self) -> bool:
        """Whether something of the answer came: text, a thought, or a part of a call."""
        ...

    def take(self, event: Fields) -> str:
        """Add one event; the text that it brought. Raises ModelError for an error event."""
        ...

    def usage(self) -> Usage | None:
        """What the provider reported so far; None when nothing."""
        ...

    def reply(self) -> Reply:
        """The whole. Raises ModelError for an end that is none of a reply's."""
        ...

    def rest(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The request that makes a paused reply go on; None for one that is done."""
        ...


class Wire(Protocol):
    """One model by its provider's protocol."""

    def open(self) -> Any:
        """A client of the SDK, its retries off."""
        ...

    def body(self, request: Request) -> dict[str, Any]:
        """The arguments of the SDK's call."""
        ...

    async def stream(self, client: Any, body: dict[str, Any]) -> Any:
        """The SDK's stream of events."""
        ...

    def assembly(self) -> Assembly: ...

    def errors(self) -> tuple[type[Exception], ...]:
        """What the SDK and its HTTP client raise."""
        ...

    async def window(self, client: Any) -> int | None:
        """Tokens of the model's window as the provider says; None where it does not."""
        ...


class Remote:
    """A `ChatModel` over the network. The client is made with the first request."""

    dialects: tuple[Dialect, ...] = ("native",)

    def __init__(
        self, spec: ModelSpec, connection: Connection, wire: Wire, window: int | None = None, output: int | None = None
    ) -> None:
        """wire: of the same model. window, output: tokens, where the connection does not say."""
        self.name = str(spec)
        self.window = connection.window or window or DEFAULT_WINDOW
        self.output = connection.output or output
        self._connection = connection
        self._wire = wire
        self._client: Any = None
        self._key = connection.secret

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The next message. Raises ModelError."""
        if self.output is not None and self.output < request.reply_tokens:
            request = request.model_copy(update={"reply_tokens": self.output})
        try:
            return await self._ask(request, on_text)
        except StaleReasoning:
            plain = tuple(message.model_copy(update={"opaque": None}) for message in request.messages)
            return await self._ask(request.model_copy(update={"messages": plain}), on_text)

    async def probe(self) -> int | None:
        """The window that the provider names for this model, tokens; None where it names none. Raises ModelError."""
        self._client = self._client or self._wire.open()
        async with self._guarded(None):
            return await self._wire.window(self._client)

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _ask(self, request: Request, on_text: OnText | None) -> Reply:
        body: dict[str, Any] | None = self._wire.body(request)
        assembly = self._wire.assembly()
        heard = _Heard(on_text)
        client = self._client = self._client or self._wire.open()  # loads the SDK, which is not the provider's time
        for _ in range(MAX_PAUSES):
            async with self._guarded(assembly):
                await self._listen(client, body or {}, assembly, heard)
            body = assembly.rest(body or {})
            if body is None:
                break
        else:
            raise ModelError("transient", f"{self.name}: the reply was paused again and again", usage=assembly.usage())
        heard.end()
        reply = _storable(assembly.reply())
        return reply.model_copy(update={"usage": assembly.usage() or _estimated(request, reply)})

    async def _listen(self, client: Any, body: dict[str, Any], assembly: Assembly, heard: _Heard) -> None:
        """One stream from its begin to its finish marker."""
        assembly.finished = False
        stream = await self._wire.stream(client, body)
        try:
            await self._check(stream.response)
            while (event := await self._next(stream)) is not None:
                heard.add(assembly.take(event))
                if assembly.begun:
                    parting.answer_begins()
        except (ModelError, *self._wire.errors()):  # type: ignore[misc]
            # Servers break off after the marker too; the reply is whole by then.
            if not assembly.finished:
                raise
        finally:
            await stream.close()
        if not assembly.finished:
            raise ModelError(
                "transient", f"{self.name}: the stream ended before its finish marker", usage=assembly.usage()
            )

    async def _next(self, stream: Any) -> Fields | None:
        """The next event as plain fields, empty for what is no object; None at the end."""
        try:
            event = await anext(stream)
            if isinstance(event, BaseModel):
                return event.model_dump(warnings=False, exclude_unset=True)
        except StopAsyncIteration:
            return None
        except (ValueError, TypeError, AttributeError) as error:
            # The SDKs validate nothing, and stumble over JSON of another shape with whatever Python raises then.
            raise errors.lost(error, self.name) from None
        return fields(event)

    async def _check(self, response: Any) -> None:
        """A page or an error object with status 200 is no stream."""
        kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
        if kind not in ("text/html", "application/json"):
            return
        content = await response.aread()
        found = _object(content)
        if found.get("error"):
            raise errors.from_body(found, self.name, self._key)
        raise ModelError(
            "transient",
            f"{self.name}: the server answered with {kind} where a stream should be",
            "Check the base URL (most servers want it to end in /v1) and whether the server can stream.",
        )

    @asynccontextmanager
    async def _guarded(self, assembly: Assembly | None) -> AsyncIterator[None]:
        """All that goes wrong inside becomes a ModelError that says what was paid for."""
        seconds = self._connection.total_timeout
        try:
            async with asyncio.timeout(seconds):
                yield
        except ModelError as error:
            error.usage = error.usage or (assembly.usage() if assembly else None)
            raise
        except TimeoutError:
            raise self._lost(
                ModelError("transient", f"{self.name}: the reply was not whole after {seconds:g} s"), assembly
            ) from None
        except asyncio.CancelledError:
            if (why := parting.let_go_for()) is None:
                raise
            raise self._lost(parting.Parted(why), assembly) from None
        except self._wire.errors() as error:
            raise self._lost(errors.classify(error, self.name, self._key), assembly) from None

    def _lost(self, error: ModelError, assembly: Assembly | None) -> ModelError:
        error.usage = assembly.usage() if assembly else None
        return error


class _Heard:
    """Hands text on as it comes. Half of a surrogate pair waits for its other half."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._kept = ""

    def add(self, piece: str) -> None:
        piece = self._kept + piece
        self._kept = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        self._say(piece[: len(piece) - len(self._kept)])

    def end(self) -> None:
        self._say(self._kept)
        self._kept = ""

    def _say(self, piece: str) -> None:
        if piece and self._on_text is not None:
            self._on_text(clean(piece))


def _storable(reply: Reply) -> Reply:
    """`reply` without halves of surrogate pairs, wherever a server put them."""
    calls = [
        ToolCall(id=clean(call.id), name=clean(call.name), arguments=sound_json(call.arguments))
        for call in reply.tool_calls
    ]
    opaque = reply.opaque
    if opaque is not None:
        opaque = Opaque(owner=opaque.owner, items=tuple(sound(item) for item in opaque.items))
    return reply.model_copy(update={"tool_calls": tuple(calls), "opaque": opaque})


def _object(content: bytes) -> Fields:
    try:
        return fields(json.loads(content))
    except ValueError:
        return {}


def _estimated(request: Request, reply: Reply) -> Usage:
    """What a server used that did not say, guessed from lengths."""
    sent = [text for message in request.messages for text in _texts(message)]
    sent += [tool.model_dump_json() for tool in request.tools]
    got = _texts(reply.message)
    return Usage(input_tokens=sum(map(_tokens, sent)), output_tokens=sum(map(_tokens, got)), estimated=True)


def _texts(message: Message) -> list[str]:
    return [message.text, *(call.arguments for call in message.tool_calls)]


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="surrogatepass")) // BYTES_PER_TOKEN)
