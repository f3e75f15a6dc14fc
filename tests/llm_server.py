"""A real HTTP server in a thread that speaks the three wires: Responses, Chat Completions and Messages.

    with LlmServer([Answer("hello"), Answer(calls=(Call("run", {"mode": "full"}),))]) as server:
        connections = server.connections()          # `openai:`, `openai-chat:` and `anthropic:` lead to it
        server.faults.append(status(429, {"retry-after": "1"}))

A `script` is a list of answers, played in order whatever the wire, or a function over the request. Each request first
takes the next of `faults`, if there is one (None: this request goes well). All requests and all tokens that were
reported are kept, for comparison with what a run counted. After its last answer a list says 400 "the script is at its
end", which no retry repeats.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

from pydantic import SecretStr

from agents.models.connections import BUILT_IN, Connection, Connections
from tests.llm_frames import WIRES, Answer, Call, Event, Tokens, Wire, error_body, error_event, frames

__all__ = ["WIRES", "Answer", "Call", "Fault", "LlmServer", "Recorded", "Tokens", "Wire", "breaks", "status"]

PROVIDER_OF: dict[Wire, str] = {"responses": "openai", "chat": "openai-chat", "messages": "anthropic"}
PATHS: dict[str, Wire] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
KEY = "sk-test-0123456789abcdef"
LONG = Answer("a reply that is long enough to be broken off in its middle, in several pieces")


@dataclass(frozen=True)
class Fault:
    """What goes wrong. All but `status` and `html` begin as a good stream of `answer`.

    status: an error status with the wire's error body, or `body` as it is. html: a page with status 200. truncated: the
    stream ends in good order but before its finish marker. error_event: the provider says in the stream that it broke.
    malformed: an event that is no JSON. wrong_shape: events that are JSON but not what they should be. stall: nothing
    comes any more. disconnect: the connection is reset; late_disconnect: after the finish marker. drip: all is well,
    but byte by byte and with pauses of `gap` seconds.
    """

    kind: Literal[
        "status",
        "html",
        "truncated",
        "error_event",
        "malformed",
        "wrong_shape",
        "stall",
        "disconnect",
        "late_disconnect",
        "drip",
    ]
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    type: str = "api_error"
    code: str | None = None
    message: str = "it broke"
    answer: Answer = LONG
    gap: float = 0.0


def status(http: int, headers: Mapping[str, str] | None = None, **fields: Any) -> Fault:
    """An error status."""
    return Fault("status", status=http, headers=headers or {}, **fields)


def breaks(kind: Any, **fields: Any) -> Fault:
    """Any other fault."""
    return Fault(kind, **fields)


@dataclass
class Recorded:
    """A request as it came. `left` is set once the client went away before the stream was at its end."""

    wire: Wire
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    left: threading.Event = field(default_factory=threading.Event)


Reaction = Answer | Fault
Script = Sequence[Reaction] | Callable[[Recorded], Reaction]


class LlmServer:
    """See the module. `requests`: all that came, in order. `reported`: the tokens that each stream told of, also a
    broken one: Messages tells its input first, the other two tell all at their end."""

    def __init__(self, script: Script = (), *, window: int = 64_000) -> None:
        self.faults: deque[Fault | None] = deque()
        self.requests: list[Recorded] = []
        self.reported: list[Tokens] = []
        self.window = window
        self._script: deque[Reaction] | Callable[[Recorded], Reaction]
        self._script = script if callable(script) else deque(script)
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._open = 0
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> LlmServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Without a path, as the Anthropic SDK wants it; the OpenAI SDK wants `/v1` behind it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def connection(self, wire: Wire, **changes: Any) -> Connection:
        """How this server is reached on `wire`; `changes` are fields of Connection."""
        base_url = self.url if wire == "messages" else f"{self.url}/v1"
        usual = {"base_url": base_url, "key": SecretStr(KEY), "timeout": 5.0}
        return BUILT_IN[PROVIDER_OF[wire]].model_copy(update={**usual, **changes})

    def connections(self, **changes: Any) -> Connections:
        """`openai:`, `openai-chat:` and `anthropic:`, all of them this server."""
        return Connections(providers={PROVIDER_OF[wire]: self.connection(wire, **changes) for wire in WIRES})

    @property
    def total(self) -> Tokens:
        """The sum of all that was reported."""
        names = ("input", "output", "cached", "cache_write", "reasoning")
        return Tokens(**{name: sum(getattr(tokens, name) for tokens in self.reported) for name in names})

    def connection_changed(self, by: int) -> None:
        with self._changed:
            self._open += by
            self._changed.notify_all()

    def all_closed(self, timeout: float = 5.0) -> bool:
        """Whether every connection to the server was closed, waiting for it so many seconds at most."""
        with self._changed:
            return self._changed.wait_for(lambda: self._open == 0, timeout)

    def react(self, request: Recorded) -> tuple[int, Reaction]:
        """What to send for `request`, and its number."""
        with self._lock:
            self.requests.append(request)
            serial = len(self.requests)
            fault = self.faults.popleft() if self.faults else None
            if fault is not None:
                return serial, fault
            if callable(self._script):
                return serial, self._script(request)
            if self._script:
                return serial, self._script.popleft()
        return serial, status(400, type="invalid_request_error", message="the script is at its end")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is nothing to tell of."""


def _handler(server: LlmServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        owner = server

    return Handler


class _Handler(BaseHTTPRequestHandler):
    owner: LlmServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        self.owner.connection_changed(+1)
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.owner.connection_changed(-1)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""

    def do_GET(self) -> None:
        model = self.path.removeprefix("/v1/models").lstrip("/")
        info = {"id": model or "m", "type": "model", "object": "model", "display_name": "M", "max_tokens": 8_000}
        info |= {"max_input_tokens": self.owner.window, "created_at": "2026-01-01T00:00:00Z", "owned_by": "test"}
        self._whole(200, json.dumps(info if model else {"object": "list", "data": [info]}))

    def do_POST(self) -> None:
        written = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            self._whole(200, json.dumps({"input_tokens": len(written) // 4}))
            return
        wire = PATHS.get(path)
        if wire is None:
            self._whole(404, json.dumps({"error": {"message": f"no such path {path}", "type": "not_found_error"}}))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Recorded(wire, self.path, headers, json.loads(written))
        serial, reaction = self.owner.react(request)
        try:
            self._send(request, serial, reaction)
        except OSError:
            request.left.set()
            self.close_connection = True

    def _send(self, request: Recorded, serial: int, reaction: Reaction) -> None:
        if isinstance(reaction, Answer):
            self._open_stream()
            self._events(request, frames(request.wire, reaction, serial))
            if reaction.tokens is not None:
                self.owner.reported.append(reaction.tokens)
            self._end(request.wire)
        elif reaction.kind == "status":
            body = error_body(request.wire, reaction.type, reaction.message, reaction.code)
            self._whole(
                reaction.status, reaction.body if reaction.body is not None else json.dumps(body), reaction.headers
            )
        elif reaction.kind == "html":
            page = reaction.body or "<!doctype html><html><body><h1>Down for maintenance</h1></body></html>"
            self._whole(200, page, {"content-type": "text/html", **reaction.headers})
        else:
            self._broken(request, serial, reaction)

    def _broken(self, request: Recorded, serial: int, fault: Fault) -> None:
        events = frames(request.wire, fault.answer, serial)
        half = events if fault.kind == "late_disconnect" else events[: len(events) // 2]
        self._open_stream()
        if fault.kind == "drip":
            self._drip(events, fault.gap)
            if fault.answer.tokens is not None:
                self.owner.reported.append(fault.answer.tokens)
            self._end(request.wire)
            return
        self._events(request, half)
        tokens = fault.answer.tokens
        if tokens is not None and fault.kind == "late_disconnect":
            self.owner.reported.append(tokens)
        elif tokens is not None and request.wire == "messages":
            self.owner.reported.append(replace(tokens, output=1, reasoning=0))
        if fault.kind == "error_event":
            self._events(request, [error_event(request.wire, fault.type, fault.message, fault.code)])
        elif fault.kind == "malformed":
            self._chunk(_sse(half[-1][0], '{"choices": [{"delta": oops'))
        elif fault.kind == "wrong_shape":
            for data in ("42", "[]", '"text"', '{"type": 7, "choices": "none", "delta": []}', '{"choices": [null]}'):
                self._chunk(_sse(half[-1][0], data))
            self._end(request.wire)
            return
        elif fault.kind == "stall":
            self._wait_for_client(request)
        elif fault.kind in ("disconnect", "late_disconnect"):
            self._reset()
            return
        self._finish()

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("request-id", "req_1")
        self.end_headers()

    def _events(self, request: Recorded, events: list[Event]) -> None:
        for name, payload in events:
            self._chunk(_sse(name, json.dumps(payload)))
        if self._gone():
            request.left.set()

    def _drip(self, events: list[Event], gap: float) -> None:
        """Byte by byte, so that no reader can lean on where a piece ends; with `gap` seconds between five parts."""
        whole = b"".join(_sse(name, json.dumps(payload, ensure_ascii=False)) for name, payload in events)
        fifth = len(whole) // 5 + 1
        for start in range(0, len(whole), fifth):
            for byte in whole[start : start + fifth]:
                self._chunk(bytes([byte]))
            self.owner.closing.wait(gap)

    def _end(self, wire: Wire) -> None:
        if wire == "chat":
            self._chunk(b"data: [DONE]\n\n")
        self._finish()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _finish(self) -> None:
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _gone(self) -> bool:
        """Whether the client closed its side."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _wait_for_client(self, request: Recorded) -> None:
        """Until the client goes away or the test ends."""
        while not self.owner.closing.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.05)
            if readable and self._gone():
                request.left.set()
                return

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _whole(self, code: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        data = body.encode()
        self.send_response(code)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _sse(name: str, data: str) -> bytes:
    return ((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode()
