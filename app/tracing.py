"""`--otel`: a run's traces, sent to a collector beside what a person sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agents.events import Event, OnEvent
from tools.errors import WarpsmithError

if TYPE_CHECKING:
    from agents.telemetry import Telemetry

_ENVIRONMENT = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


@contextmanager
def traced(
    asked: str | None, environ: Mapping[str, str], run: str, show: OnEvent, warn: Callable[[str], None]
) -> Iterator[OnEvent]:
    """Hears a run's events for `show`, and for a collector where one is asked for, by the option (empty: the usual
    address) or by OTEL_EXPORTER_OTLP_ENDPOINT. warn: told once, from any thread, when spans can't be sent.

    Raises WarpsmithError when the option can't be met; what only the environment asks for is a warning then.
    """
    try:
        telemetry = _opened(asked, environ, run, warn)
    except WarpsmithError as error:
        if asked is not None:
            raise
        telemetry = None
        warn(str(error))
    if telemetry is None:
        yield show
        return

    def both(event: Event) -> None:
        show(event)
        telemetry.hear(event)

    try:
        yield both
    finally:
        telemetry.close()


def require_traces(asked: str | None, environ: Mapping[str, str]) -> None:
    """Raises WarpsmithError when what `--otel` asks for can't be met."""
    if asked is not None:
        _endpoint(asked, environ)


def _opened(asked: str | None, environ: Mapping[str, str], run: str, warn: Callable[[str], None]) -> Telemetry | None:
    """None where nobody asked. Raises WarpsmithError."""
    if asked is None and not any(environ.get(name, "").strip() for name in _ENVIRONMENT):
        return None
    endpoint = _endpoint(asked, environ)
    if endpoint is None:
        return None
    from agents.telemetry import Telemetry

    return Telemetry(run, endpoint, warn)


def _endpoint(asked: str | None, environ: Mapping[str, str]) -> str | None:
    try:
        from agents.telemetry import endpoint_of
    except ImportError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise WarpsmithError("traces need packages that are not installed", f"Run: pip install {PACKAGES}") from error
    return endpoint_of(asked, environ)
