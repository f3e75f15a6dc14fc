"""The dashboard in a real browser: what is seen, what follows a run that goes on, and what never leaves the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.events import Journal
from tests.browser import PHONE, Visit, Window, barriers, overflows, window
from tests.dashboard import Dashboard, dashboard
from tests.hostile_run import HOSTILE, hostile_run
from tests.synthetic_run import make_run

WAYS = {"phone": {"size": PHONE}, "dark": {"dark": True}}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Window]:
    with window() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    runs = tmp_path_factory.mktemp("runs")
    make_run(runs)
    hostile_run(runs)
    with dashboard(runs) as opened:
        yield opened


def assert_sound(visit: Visit, site: Dashboard, where: object) -> None:
    """No complaint, no request elsewhere, nothing wider than the window, nothing in a person's way, nothing obeyed."""
    assert visit.complaints == [], where
    assert visit.foreign(site.origin) == [], where
    assert overflows(visit) == 0, where
    assert barriers(visit) == [], where
    assert visit.page.evaluate("window.pwned") is None, where


def test_each_page_is_sound_on_a_screen_on_a_phone_and_in_the_dark(chromium: Window, site: Dashboard) -> None:
    names = [run.name for run in site.site.catalog.runs()]
    views = {"list": "/", "compare": f"/compare?run={names[0]}&run={names[1]}"}
    views |= {"run": f"/run/{names[-1]}", "attempt": f"/run/{names[-1]}/attempt/a9"}
    pages = [f"/run/{name}{rest}" for name in names for rest in ("", "/attempt/a9", "/attempt/a3")]
    others = [path for path in ("/lessons", *pages) if path not in views.values()]
    for way, asked in WAYS.items():
        with chromium.visit(**asked) as visit:  # type: ignore[arg-type]
            visit.go(site.entrance)
            assert "token" not in visit.page.url
            for path in (*views.values(), *others):
                visit.go(site.origin + path)
                assert_sound(visit, site, (way, path))
                seen = [view for view, at in views.items() if at == path]
                for view in seen:
                    visit.keep(f"{view}-{way}")
                if seen and way == "dark":
                    visit.page.emulate_media(color_scheme="light")
                    visit.keep(f"{seen[0]}-desktop")
                    visit.page.emulate_media(color_scheme="dark")


def test_without_the_token_nothing_is_seen(chromium: Window, site: Dashboard) -> None:
    with chromium.visit() as visit:
        visit.go(site.origin)
        assert "needs its token" in visit.words and "softmax" not in visit.words
        visit.complaints.clear()  # the browser says that the answer was 401
        assert_sound(visit, site, "refused")


def test_one_gets_from_the_list_to_a_source_and_to_a_comparison_by_pressing(chromium: Window, site: Dashboard) -> None:
    with chromium.visit(size=PHONE) as visit:
        visit.go(site.entrance)
        visit.page.get_by_role("link", name="softmax", exact=True).click()
        visit.page.get_by_role("heading", name="softmax").wait_for()
        visit.page.get_by_role("link", name="a21", exact=True).first.click()
        visit.page.get_by_role("heading", name="Source").wait_for()
        assert "/* 21 & <b> */" in visit.words
        visit.page.get_by_role("link", name="Runs").click()
        for box in visit.page.get_by_role("checkbox").all():
            box.check()
        visit.page.get_by_role("button", name="Compare the chosen runs").click()
        visit.page.get_by_role("heading", name="Runs side by side").wait_for()
        assert "2.36x" in visit.words
        assert_sound(visit, site, "compared")


def test_a_page_follows_its_run_and_goes_on_after_a_lost_connection(chromium: Window, tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=4, ended=False)
    with dashboard(tmp_path) as site, chromium.visit() as visit:
        visit.go(site.entrance)
        visit.go(f"{site.origin}/run/{run.id}")
        visit.page.locator("#state", has_text="stopped").wait_for()
        visit.page.locator("#link", has_text="follows").wait_for()
        visit.page.get_by_text("As a tree").click()
        with Journal(run.path / "events.jsonl", lambda _: None) as journal:
            journal.tell("iteration_started", iteration=4, iterations=9)
            visit.page.locator("#state", has_text="live").wait_for()
            visit.page.locator("#lines", has_text="iteration 4 of 9 begins").wait_for()
            made = make_run(tmp_path / "other", attempts=7)
            (made.folder_of("a6")).rename(run.folder_of("a6"))
            journal.tell(
                "best_changed",
                attempt="a6",
                iteration=6,
                seconds=1e-3,
                share_of_limit=0.5,
                speedup=4.0,
                gain=1.5,
            )
            visit.page.locator("#now .tried", has_text="a6").wait_for()
            # What a person has opened stays open.
            assert visit.page.locator("details[data-key=tree]").get_attribute("open") is not None
            assert "a6 is the best" in visit.words
            visit.page.context.set_offline(True)
            journal.tell("iteration_started", iteration=7, iterations=9)
            visit.page.context.set_offline(False)
            visit.page.locator("#lines", has_text="iteration 7 of 9 begins").wait_for()
            told = re.findall(r"iteration \d of 9 begins", visit.page.inner_text("#lines"))
            assert told == ["iteration 4 of 9 begins", "iteration 7 of 9 begins"]
        run.write_outcome({"reason": "patience"})
        visit.page.locator("#state", has_text="ended").wait_for()
        assert visit.foreign(site.origin) == [] and barriers(visit) == []


def test_hostile_lines_of_a_log_that_goes_on_are_text(chromium: Window, tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1, ended=False)
    with dashboard(tmp_path) as site, chromium.visit() as visit:
        visit.go(site.entrance)
        visit.go(f"{site.origin}/run/{run.id}")
        with (run.path / "events.jsonl").open("a") as file:
            file.write(json.dumps({"event": "lessons_failed", "message": HOSTILE}) + "\n")
        visit.page.locator("#lines", has_text="<script>window.pwned=1</script><img").wait_for()
        assert_sound(visit, site, "log")


def test_the_list_keeps_up_and_keeps_what_is_chosen(chromium: Window, tmp_path: Path) -> None:
    make_run(tmp_path, attempts=2)
    make_run(tmp_path, attempts=2)
    with dashboard(tmp_path) as site, chromium.visit() as visit:
        visit.go(site.entrance)
        visit.page.get_by_role("checkbox").first.check()
        chosen = visit.page.locator("input:checked").get_attribute("value")
        make_run(tmp_path, attempts=2)
        visit.page.locator("#tally", has_text="3 runs").wait_for()
        assert visit.page.locator("input:checked").get_attribute("value") == chosen
        assert visit.complaints == []
