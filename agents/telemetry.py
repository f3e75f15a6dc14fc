"""A run's traces, sent by OTLP over HTTP (optional: needs the packages of the extra `otel`).

Sending is a thread's work and never the run's: what can't be sent is dropped, the first time with a sentence.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from agents.events import Event
from agents.secrets import Scrubber
from agents.spans import Spans
from tools.errors import WarpsmithError

LAST_SECONDS: Final = 5.0
"""The most that the end of a run waits for what was not sent yet."""
UNWELL_SECONDS: Final = 0.5
"""The same once something could not be sent."""
_LIBRARY: Final = "opentelemetry"
"""Its loggers."""

OnTrouble = Callable[[str], None]


class Telemetry:
    """Sends the spans of one run to `endpoint`, a whole URL. Raises WarpsmithError when the exporter's settings in the
    environment can't be used. on_trouble: told once, from any thread, what keeps spans from being sent."""

    def __init__(self, run: str, endpoint: str, on_trouble: OnTrouble) -> None:
        self._complaints = _Complaints(endpoint, on_trouble)
        try:
            self._exporter = _Exporter(endpoint, self._complaints)
            self._provider = TracerProvider(resource=_resource(), id_generator=_OneTrace(run), shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        except (ValueError, OSError) as error:
            raise WarpsmithError(f"traces can't be set up: {error}", "Look at the OTEL_… variables.") from error
        self._spans = Spans(self._provider.get_tracer("warpsmith", version("warpsmith")))
        self._complaints.listen()

    def hear(self, event: Event) -> None:
        """Take in one event; returns at once."""
        self._spans.hear(event)

    def close(self) -> None:
        """Send what is left, within `LAST_SECONDS`."""
        self._spans.close()
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(UNWELL_SECONDS if self._complaints.told else LAST_SECONDS)
        if last.is_alive():
            self._complaints.tell(f"not within {LAST_SECONDS:g} seconds")
            self._exporter.shutdown()  # type: ignore[no-untyped-call]
        self._complaints.leave()


class _Exporter(OTLPSpanExporter):
    """Says in which thread it is at work, so that what is logged there is known to be of this run."""

    def __init__(self, endpoint: str, complaints: _Complaints) -> None:
        super().__init__(endpoint=endpoint)
        self._complaints = complaints

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._complaints.thread = threading.get_ident()
        return super().export(spans)


class _OneTrace(RandomIdGenerator):
    """All spans of a run are one trace, in whatever process: its id follows from the run's name."""

    def __init__(self, run: str) -> None:
        self._trace = int.from_bytes(hashlib.sha256(f"warpsmith {run}".encode()).digest()[:16], "big")

    def generate_trace_id(self) -> int:
        return self._trace


class _Complaints(logging.Handler):
    """Hears what the library has to complain of in one thread, and passes on the first error."""

    def __init__(self, endpoint: str, on_trouble: OnTrouble) -> None:
        super().__init__(logging.ERROR)
        self.told = False
        self.thread: int | None = None
        self._endpoint = endpoint
        self._on_trouble = on_trouble

    def listen(self) -> None:
        """From now on the library's complaints come here and go nowhere else."""
        library = logging.getLogger(_LIBRARY)
        library.addHandler(self)
        library.propagate = False

    def leave(self) -> None:
        library = logging.getLogger(_LIBRARY)
        library.removeHandler(self)
        library.propagate = not any(isinstance(handler, _Complaints) for handler in library.handlers)

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread:
            self.tell(record.getMessage())

    def tell(self, why: str) -> None:
        if self.told:
            return
        self.told = True
        text = f"traces can't be sent to {self._endpoint}, and the run goes on without: {why}"
        self._on_trouble(Scrubber().text(text)[:500])


def endpoint_of(asked: str | None, environ: Mapping[str, str]) -> str | None:
    """Where traces go, as a whole URL; None when nobody asked for them.

    asked: what the command line says, an address to which `/v1/traces` is added where it lacks; empty for the
    environment's, or that of a collector on this machine. Raises WarpsmithError when it is no address.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    whole = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if asked:
        return _checked(_traces_under(asked))
    if whole or base:
        return _checked(whole or _traces_under(base))
    return None if asked is None else "http://localhost:4318/v1/traces"


def _traces_under(address: str) -> str:
    return address if address.rstrip("/").endswith("/v1/traces") else f"{address.rstrip('/')}/v1/traces"


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fits = False
    if not fits:
        shown = Scrubber().text(url)
        raise WarpsmithError(
            f"{shown} is no address of a collector",
            "Give one that begins with http:// or https://, as --otel http://HOST:4318.",
        )
    return url


def _resource() -> Resource:
    named = bool(os.environ.get("OTEL_SERVICE_NAME"))
    return Resource.create({"service.version": version("warpsmith")} | ({} if named else {"service.name": "warpsmith"}))
