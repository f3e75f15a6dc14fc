"""A dashboard that really listens, for tests: its server in a thread, and a plain HTTP client."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.serve.catalog import Catalog
from app.serve.server import listen, server_of
from app.serve.site import Site, build
from memory.lesson_store import LessonStore

TOKEN = "a-token-that-only-tests-know"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    """By lower-case name."""
    text: str


@dataclass
class Dashboard:
    """Where it listens. `origin` is the address that a browser opens."""

    port: int
    site: Site
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": f"Bearer {TOKEN}"})

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def entrance(self) -> str:
        return f"{self.origin}/?token={TOKEN}"

    def get(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
        """The answer to one request, with the token unless other headers are given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers=self.headers if headers is None else headers)
            found = connection.getresponse()
            told = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, told, found.read().decode())
        finally:
            connection.close()

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The server-sent events of `path`, as `event`, `data` and perhaps `id`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers=self.headers | headers)
            answer = connection.getresponse()
            assert answer.status == 200 and answer.getheader("content-type", "").startswith("text/event-stream")
            yield _events(answer)
        finally:
            connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    fields: dict[str, Any] = {}
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text:
            name, _, value = text.partition(": ")
            fields[name] = json.loads(value) if name == "data" else value
        elif "event" in fields:
            yield fields
            fields = {}
        else:
            fields = {}


@contextmanager
def dashboard(runs: Path) -> Iterator[Dashboard]:
    """Serves the runs under `runs` until the block ends."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    site = Site(Catalog(runs), LessonStore(runs / "lessons.sqlite"))
    server = server_of(build(site, TOKEN, ("a-name-of-ours",), port))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield Dashboard(port, site)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
