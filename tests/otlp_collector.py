"""A collector of traces: a real HTTP server that decodes OTLP, and can be unwell in several ways."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

Mood = Literal["well", "broken", "busy", "refusing", "hanging", "hanging_up"]
STATUS: dict[Mood, int] = {"well": 200, "broken": 500, "busy": 503, "refusing": 401}


@dataclass(frozen=True)
class Got:
    """One span as it came. Times are nanoseconds since 1970."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    begin: int
    end: int
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector:
    """Use as a context manager; `url` is its address."""

    def __init__(self, mood: Mood = "well") -> None:
        self.mood: Mood = mood
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        """Path, headers and body of each."""
        self._release = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def spans(self) -> list[Got]:
        """All that came, in the order in which they ended."""
        found = []
        for path, headers, body in self.requests:
            assert path == "/v1/traces" and headers["content-type"] == "application/x-protobuf", path
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                about = {each.key: _value(each.value) for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    assert scope.scope.name == "warpsmith"
                    found += [_got(span, about) for span in scope.spans]
        return sorted(found, key=lambda span: span.end)

    @property
    def sent(self) -> bytes:
        """All bodies."""
        return b"".join(body for _, _, body in self.requests)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if collector.mood == "hanging":
                    collector._release.wait(60)
                if collector.mood in ("hanging", "hanging_up"):
                    self.close_connection = True
                    return
                self.send_response(STATUS[collector.mood])
                if collector.mood == "busy":
                    self.send_header("Retry-After", "3600")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        return Handler


def _got(span: Any, resource: dict[str, Any]) -> Got:
    return Got(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        begin=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes={each.key: _value(each.value) for each in span.attributes},
        resource=resource,
    )


def _value(value: AnyValue) -> Any:
    which = value.WhichOneof("value")
    assert which is not None
    if which == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, which)
