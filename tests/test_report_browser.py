"""The report in a real browser: what is seen on a screen, a phone, on paper and in the dark, and what it never does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app.batch_report import write_summary
from app.batch_summary import summarize_batch
from app.compare import compare
from app.compare_report import parts_of
from app.pages import rendered
from app.report import writable, write_report
from tests.browser import FAILED, PHONE, WIDER, Window, barriers, overflows, window
from tests.hostile_run import hostile_batch, hostile_run
from tests.screenshots import place
from tests.synthetic_run import make_run

A4 = {"width": 794, "height": 1123}
WAYS = {
    "desktop": {},
    "phone": {"size": PHONE},
    "dark": {"dark": True},
    "print": {"paper": True, "size": A4},
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Window]:
    with window() as opened:
        yield opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An ordinary report, a hostile one, both runs side by side, and a batch's."""
    root = tmp_path_factory.mktemp("runs")
    plain, hostile = make_run(root), hostile_run(root)
    side_by_side = root / "compare.html"
    page = rendered("compare.html.j2", {"compared": parts_of(compare([plain, hostile]))})
    side_by_side.write_text(writable(page), encoding="utf-8")
    batch = hostile_batch(root)
    return {
        "plain": write_report(plain),
        "hostile": write_report(hostile),
        "compare": side_by_side,
        "batch": write_summary(batch, summarize_batch(batch)),
    }


@pytest.mark.parametrize("name", ["plain", "hostile", "compare", "batch"])
def test_a_page_can_be_read_everywhere_and_asks_for_nothing(
    chromium: Window, reports: dict[str, Path], name: str
) -> None:
    url = reports[name].as_uri()
    for way, asked in WAYS.items():
        with chromium.visit(**asked) as visit:  # type: ignore[arg-type]
            visit.go(url)
            if name != "hostile" or way == "desktop":
                visit.keep(way)
            assert visit.complaints == [] and visit.asked == [url], way
            assert overflows(visit) == 0, way
            assert barriers(visit) == [], way
            assert visit.page.evaluate("window.pwned") is None


def test_what_is_claimed_is_seen_and_pictures_have_their_tooltips(chromium: Window, reports: dict[str, Path]) -> None:
    with chromium.visit() as visit:
        visit.go(reports["plain"].as_uri())
        for words in ("2.36x as fast as the start", "4.49x", "46 %", "hardware limit", "wrong result", "Do it again"):
            assert words in visit.words
        tips = visit.page.eval_on_selector_all("#progress circle title", "all => all.map(each => each.textContent)")
        assert any(tip.startswith("a21: ") and "kept" in tip for tip in tips)
        assert visit.page.locator("#claim svg.broad").bounding_box()["width"] > 600
        visit.page.locator("#best details summary").last.click()
        assert visit.page.locator("#best pre.source").is_visible()
        assert visit.page.locator("nav a").count() == visit.page.locator("nav a >> visible=true").count()


def test_paper_shows_what_is_folded_away_on_a_screen(chromium: Window, reports: dict[str, Path]) -> None:
    with chromium.visit() as visit:
        visit.go(reports["plain"].as_uri())
        stages = visit.page.locator("#judged table.stages")
        assert not stages.is_visible()
        visit.page.emulate_media(media="print")
        assert stages.is_visible() and not visit.page.locator("nav").is_visible()


def test_the_dark_page_is_dark_and_paper_never_is(chromium: Window, reports: dict[str, Path]) -> None:
    with chromium.visit(dark=True) as visit:
        visit.go(reports["plain"].as_uri())
        ground = "getComputedStyle(document.body).backgroundColor"
        assert visit.page.evaluate(ground) == "rgb(18, 22, 27)"
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert visit.page.evaluate(ground) == "rgb(255, 255, 255)"


def test_what_a_page_showed_when_a_test_failed_is_kept_until_the_test_runs_again(chromium: Window) -> None:
    kept = place(FAILED, "png")
    with pytest.raises(ZeroDivisionError), chromium.visit() as visit:
        visit.page.set_content("<p>x")
        raise ZeroDivisionError
    assert kept.read_bytes().startswith(b"\x89PNG")
    with chromium.visit():
        assert not kept.exists()


def _picture(words: str) -> str:
    return f"<main><h1>x</h1><svg role=img aria-label=x width=100 height=50 viewBox='0 0 100 50'>{words}</svg></main>"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<main><h1>x</h1><h3>y</h3></main>", "heading jumps"),
        ("<main><h1>x</h1><p style='color:#999'>y</p></main>", "contrast"),
        ("<main><h1>x</h1><svg width=9 height=9></svg></main>", "nameless picture"),
        ("<main><h1>x</h1><input></main>", "no label"),
        ("<main><h1>x</h1><a href='#y'>y</a></main>", "leads nowhere"),
        ("<main><h1>x</h1><pre style='overflow:auto;width:40px'>a long line that scrolls</pre></main>", "no focus"),
        ("<h1>x</h1>", "not one main"),
        (_picture("<text x=80 y=20>much too long</text>"), "cut off"),
        (_picture("<text x=5 y=20 font-size=4>small</text>"), "too small"),
        (_picture("<text x=5 y=20>one</text><text x=9 y=22>two</text>"), "under two"),
    ],
)
def test_the_check_finds_what_it_is_for(chromium: Window, body: str, said: str) -> None:
    with chromium.visit() as visit:
        visit.page.set_content(f"<!doctype html><html lang=en><title>t</title><body>{body}</body></html>")
        (only,) = barriers(visit)
        assert said in only


@contextmanager
def a_page_whose_styles_come_late(styles: threading.Event) -> Iterator[str]:
    """Its address. Without its style sheet the page is wider than any window; the sheet is held back until `styles`."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_sheet = self.path == "/late.css"
            if is_sheet:
                styles.wait(60)
            head = "<title>t</title><link rel=icon href=data:,><link rel=stylesheet href=late.css>"
            page = f"<!doctype html><html lang=en>{head}<main><h1>here</h1><p style='width: 5000px'>x</main></html>"
            body = ("p { width: auto !important }" if is_sheet else page).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/css" if is_sheet else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            styles.set()
            server.shutdown()


def test_a_page_is_looked_at_once_it_is_laid_out(chromium: Window) -> None:
    styles = threading.Event()
    with a_page_whose_styles_come_late(styles) as address, chromium.visit() as visit:
        visit.page.goto(address, wait_until="commit")
        visit.page.get_by_role("heading", name="here").wait_for()
        assert visit.page.evaluate(WIDER) > 0, "what is there is found before the page is whole"
        threading.Timer(0.2, styles.set).start()
        assert overflows(visit) == 0 and barriers(visit) == [] and visit.complaints == []
