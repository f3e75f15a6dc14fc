"""The environment over HTTP: `POST /v1/reset`, `/v1/step`, `/v1/close` and `GET /v1/info`, each with a bearer token.

For one machine or a trusted network: there is no TLS. A request without the token learns nothing, and a body is read
only after the token was seen and up to a bound.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agents.environment import Environment
from agents.environment_protocol import MOST_BYTES, VERSION, Fault, Found, Unfit, read_fields
from tools.errors import WarpsmithError

CONNECTIONS = 256
"""At once; a further one is closed unheard."""
QUIET_SECONDS = 60.0
"""A connection on which nothing comes for so long is closed."""
STATUS: dict[Fault, int] = {
    "protocol": 400,
    "action": 422,
    "episode": 409,
    "busy": 409,
    "full": 429,
    "infrastructure": 503,
}
OPERATIONS = {("GET", "info"), ("POST", "reset"), ("POST", "step"), ("POST", "close")}


@asynccontextmanager
async def serve_http(environment: Environment, host: str, port: int, token: str) -> AsyncIterator[str]:
    """Serve while the context is open; its value is the address. Port 0 takes a free one. Raises WarpsmithError."""
    loop = asyncio.get_running_loop()
    try:
        server = _Server((host, port), environment, token, loop)
    except OSError as error:
        why = error.strerror or str(error)
        raise WarpsmithError(f"can't serve on {host}:{port}: {why}", "Choose another --host or --http.") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.server_address[1]}/v{VERSION}"
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, address: tuple[str, int], environment: Environment, token: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.environment, self.loop = environment, loop
        self.token = token.encode()
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "warpsmith", ""
    timeout = QUIET_SECONDS

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: a path or a header may hold a key."""

    def _serve(self, method: str) -> None:
        if not self._is_allowed():
            self._refuse(401, Unfit("protocol", "the token is missing or wrong", "Send Authorization: Bearer TOKEN."))
            return
        operation = self.path.removeprefix(f"/v{VERSION}/")
        if (method, operation) not in OPERATIONS:
            self._refuse(404, Unfit("protocol", "there is no such path", "There are /v1/info, reset, step and close."))
            return
        length = self._length(method)
        if length is None:
            return
        try:
            fields = read_fields(self.rfile.read(length) or b"{}")
            answer = self.server.environment.answer(operation, fields)
            found = asyncio.run_coroutine_threadsafe(answer, self.server.loop).result()
        except Unfit as unfit:
            self._send(STATUS[unfit.fault], {"v": VERSION, "error": unfit.as_json})
        else:
            self._send(200, {"v": VERSION, "result": found})

    def _is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        return hmac.compare_digest(given, b"Bearer " + self.server.token)

    def _length(self, method: str) -> int | None:
        """Of the body; None when it was refused."""
        said = self.headers.get("Content-Length", "0" if method == "GET" else "")
        if not (said.isascii() and said.isdigit() and len(said) < 12) or "Transfer-Encoding" in self.headers:
            self._refuse(411, Unfit("protocol", "the body has no length", "Send Content-Length."))
        elif int(said) > MOST_BYTES:
            self._refuse(413, Unfit("protocol", f"the body is longer than {MOST_BYTES} bytes", "Send less."))
        else:
            return int(said)
        return None

    def _refuse(self, status: int, unfit: Unfit) -> None:
        """An answer to a request whose body stays unread, so that the connection can't go on."""
        self.close_connection = True
        self._send(status, {"v": VERSION, "error": unfit.as_json})

    def _send(self, status: int, answer: Found) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        if status == 503:
            self.send_header("Retry-After", "5")
        self.end_headers()
        self.wfile.write(body)
