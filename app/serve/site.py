"""The dashboard's addresses. Each is read only; pages are made in threads, so that none keeps a stream waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from app.pages import STATIC, rendered, style_source, style_text
from app.report import page_fields, writable
from app.serve import views
from app.serve.catalog import Catalog, run_href, state_of
from app.serve.feed import Feed
from app.serve.guard import Guard
from app.serve.problems import NotThere, problem, problem_of
from app.serve.speech import Hearing
from memory.files import RunFolderError
from memory.lesson_file import LessonsError
from memory.lesson_store import LessonStore
from memory.runs import RunFolder

LOOK_EVERY: Final = 0.25
"""Seconds between two looks at a file that did not grow."""
BEAT_EVERY: Final = 15.0
"""Seconds after which a silent stream says that it is there."""
MOST_STREAMS: Final = 64
_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass
class Site:
    """What all pages need. `streams` counts those that are open."""

    catalog: Catalog
    lessons: LessonStore
    streams: int = 0
    _static: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The files are read once: no request ever names one of the file system."""
        self._static = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in _KINDS}

    # ------------------------------------------------------------------------------------------------------- pages

    def home(self, request: Request) -> Response:
        return page("home.html.j2", views.home(self.catalog, _number(request, "page")), "runs")

    def home_now(self, request: Request) -> Response:
        return page("home_now.html.j2", views.home(self.catalog, _number(request, "page")), "runs")

    def run(self, request: Request) -> Response:
        run, href = self._run(request)
        return page("run.html.j2", views.run_page(run, href), "runs")

    def run_now(self, request: Request) -> Response:
        run, href = self._run(request)
        return page("run_now.html.j2", views.run_now(run, href), "runs")

    def attempt(self, request: Request) -> Response:
        run, href = self._run(request)
        return page("attempt.html.j2", views.attempt_page(run, href, request.path_params["attempt"]), "runs")

    def report(self, request: Request) -> Response:
        """The run's report as its file would be, made now."""
        run, _ = self._run(request)
        answer = HTMLResponse(writable(rendered("report.html.j2", page_fields(run))))
        source = style_source(style_text(("page.css",)))
        answer.headers["Content-Security-Policy"] = (
            f"default-src 'none'; style-src {source}; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        return answer

    def batch(self, request: Request) -> Response:
        return page("batch_page.html.j2", views.batch_page(self.catalog, request.path_params["batch"]), "runs")

    def compare(self, request: Request) -> Response:
        return page(
            "compare_page.html.j2", views.comparison(self.catalog, request.query_params.getlist("run")), "compare"
        )

    def lessons_page(self, request: Request) -> Response:
        asked = request.query_params.get("q", "")[:200]
        return page("lessons.html.j2", views.lessons_page(self.lessons, asked, _number(request, "page")), "lessons")

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._static:
            raise NotThere("such file")
        kind = _KINDS[name[name.rindex(".") :]]
        return Response(self._static[name], media_type=kind, headers={"Cache-Control": "no-cache"})

    # ----------------------------------------------------------------------------------------------------- streams

    async def events(self, request: Request) -> Response:
        """What is added to the run's events from now on, or from where a reader was cut off."""
        run, _ = self._run(request)
        if self.streams >= MOST_STREAMS:
            return problem(503, "Too many pages look at runs at once", "Close some of them.")
        place = request.headers.get("last-event-id", request.query_params.get("from", ""))
        feed = Feed(run.path / "events.jsonl", int(place) if place.isdecimal() and len(place) < 16 else 0)
        hearing = Hearing(run.path) if request.query_params.get("words") == "1" else None
        return StreamingResponse(
            self._stream(feed, run, hearing), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def _stream(self, feed: Feed, run: RunFolder, hearing: Hearing | None) -> AsyncIterator[bytes]:
        self.streams += 1
        try:
            yield b"retry: 2000\n\n"
            if hearing is not None:
                yield message("hush", {})
            last, silent = "", 0.0
            while True:
                try:
                    lines = feed.lines()
                    state = state_of(run.path) if run.path.is_dir() else "gone"
                except OSError as error:
                    yield message("state", {"state": "unreadable", "words": error.strerror or "can't be read"})
                    return
                if feed.begun_anew:
                    yield message("anew", {})
                for told in lines:
                    yield message("line", {"kind": told.kind, "text": told.text}, told.place)
                if state != last:
                    yield message("state", {"state": state})
                    last = state
                said = hearing.news() if hearing is not None else []
                for each in said:
                    yield message("said", asdict(each))
                silent = 0.0 if lines or said else silent + LOOK_EVERY
                if silent >= BEAT_EVERY:
                    yield b": still here\n\n"
                    silent = 0.0
                await asyncio.sleep(0 if lines else LOOK_EVERY)
        finally:
            self.streams -= 1

    def _run(self, request: Request) -> tuple[RunFolder, str]:
        name, batch = request.path_params["run"], request.path_params.get("batch")
        return self.catalog.run(name, batch), run_href(name, batch)


def page(template: str, fields: views.Fields, here: str) -> HTMLResponse:
    """A page of the site; `here` is which of its parts it belongs to."""
    return HTMLResponse(writable(rendered(template, fields | {"here": here})))


def message(kind: str, fields: dict[str, Any], place: int | None = None) -> bytes:
    """A server-sent event (HTML standard, section 9.2). JSON keeps the data on one line."""
    head = f"id: {place}\n" if place is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(fields)}\n\n".encode()


def build(site: Site, token: str, names: Sequence[str] = (), port: int = 0) -> ASGIApp:
    """The whole application."""
    handlers: dict[Any, Callable[[Request, Exception], Response]] = {404: _not_there, 405: _not_there}
    for kind in (NotThere, RunFolderError, LessonsError, ValidationError, Exception):
        handlers[kind] = _failed
    app = Starlette(routes=_routes(site), exception_handlers=handlers)
    return Guard(app, token, names, port)


def _routes(site: Site) -> list[Route]:
    of_run: tuple[tuple[str, Callable[..., object]], ...] = (
        ("", site.run),
        ("/now", site.run_now),
        ("/events", site.events),
        ("/report", site.report),
        ("/attempt/{attempt}", site.attempt),
    )
    return [
        Route("/", site.home),
        Route("/now", site.home_now),
        Route("/compare", site.compare),
        Route("/lessons", site.lessons_page),
        Route("/static/{name}", site.static),
        Route("/batch/{batch}", site.batch),
        *(
            Route(f"{prefix}/run/{{run}}{path}", endpoint)
            for prefix in ("", "/batch/{batch}")
            for path, endpoint in of_run
        ),
    ]


def _not_there(request: Request, error: Exception) -> Response:
    del request, error
    return problem_of(NotThere("such page"))


def _failed(request: Request, error: Exception) -> Response:
    """The one place where an error becomes a page: what is not there, what can't be read, and faults of ours."""
    del request
    return problem_of(error)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "1")
    return int(text) if text.isdecimal() and len(text) < 9 else 1
