"""A real headless Chromium for tests of pages: what it shows, what it complains about, and what it asks for.

The accessibility check is our own and small: landmarks, order of headings, names of what can be pressed or seen, and
the contrast of text by the colours that were computed. Not covered: what only a person can judge.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.screenshots import place

FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--no-proxy-server",
    "--force-color-profile=srgb",
)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TALLEST = 4_000
"""Pixels of a picture."""
FAILED = "at-the-moment-of-failure"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""Pixels by which a page is wider than its window, in JavaScript."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Visit:
    """A page that is open, and all that happened since."""

    page: Any
    """A `playwright.sync_api.Page`."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, of scripts and of the content security policy."""
    asked: list[str] = field(default_factory=list)
    """Addresses of all requests."""

    def go(self, url: str) -> None:
        self.page.goto(url, wait_until="load", timeout=30_000)

    def settle(self) -> None:
        """Until the page is whole, with its styles and its fonts: a press that leads elsewhere returns before, and what
        is on the page by then can be found while it is not laid out."""
        self.page.wait_for_load_state("load", timeout=30_000)
        self.page.evaluate("document.fonts.ready.then(() => null)")

    def foreign(self, origin: str) -> list[str]:
        """Requests that left `origin`."""
        ours = urlsplit(origin)
        return [
            url
            for url in self.asked
            if urlsplit(url).scheme not in ("data", "blob")
            and (urlsplit(url).scheme, urlsplit(url).netloc) != (ours.scheme, ours.netloc)
        ]

    def keep(self, view: str) -> None:
        """A picture of the whole page, for a person to look at (`tests.screenshots`)."""
        self.settle()
        self.keep_as_it_is(view)

    def keep_as_it_is(self, view: str) -> None:
        """The same, also of a page that never comes to be whole."""
        tall = int(self.page.evaluate("document.documentElement.scrollHeight"))
        wide = int(self.page.viewport_size["width"])
        clip = {"x": 0, "y": 0, "width": wide, "height": min(tall, TALLEST)}
        self.page.screenshot(path=place(view, "png"), full_page=True, clip=clip, animations="disabled")

    @property
    def words(self) -> str:
        """What a person can read now."""
        self.settle()
        return str(self.page.inner_text("body"))


class Window:
    """A browser that serves one test module."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @contextmanager
    def visit(self, *, size: dict[str, int] | None = None, dark: bool = False, paper: bool = False) -> Iterator[Visit]:
        """A page in a context of its own, so without cookies. What it shows when a test fails is kept."""
        place(FAILED, "png").unlink(missing_ok=True)
        context = self._browser.new_context(viewport=size or WIDE, color_scheme="dark" if dark else "light")
        page = context.new_page()
        if paper:
            page.emulate_media(media="print")
        visit = Visit(page)
        page.on("console", lambda told: _note(visit, told))
        page.on("pageerror", lambda error: visit.complaints.append(f"script: {error}"))
        page.on("request", lambda request: visit.asked.append(request.url))
        try:
            yield visit
        except BaseException:
            with suppress(Exception):  # a page that is gone has no picture; the test says why it failed
                visit.keep_as_it_is(FAILED)
            raise
        finally:
            context.close()


def _note(visit: Visit, told: Any) -> None:
    if told.type in ("error", "warning"):
        visit.complaints.append(f"{told.type}: {told.text}")


@contextmanager
def window() -> Iterator[Window]:
    """Starts Chromium; skips the test where there is none that starts, and says so."""
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium), so no page can be looked at")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `test`)")
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), headless=True)
        except sync_api.Error as error:
            pytest.skip(f"the Chromium of this machine does not start: {error.message.splitlines()[0]}")
        try:
            yield Window(browser)
        finally:
            browser.close()


def barriers(visit: Visit) -> list[str]:
    """What would keep a person from reading or working the page; empty when nothing was found."""
    visit.settle()
    return list(visit.page.evaluate(_CHECK))


def overflows(visit: Visit) -> int:
    """By how many pixels the page is wider than its window."""
    visit.settle()
    return int(visit.page.evaluate(WIDER))


_CHECK = (Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8")
