"""What models say on the dashboard: bounded, as it comes, told to who asks for it, and never obeyed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from html import unescape
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from agents.events import Journal
from agents.spoken import SPOKEN
from app.replies import NOBODY, NOBODY_YET, REPLIES
from app.serve.feed import LONGEST, PIECE, near_end
from app.serve.speech import MOST_TEXT, RECENT, SHOWN, Hearing
from tests.browser import PHONE, WIDE, Window, barriers, overflows, window
from tests.dashboard import dashboard
from tests.hostile_run import HOSTILE
from tests.synthetic_run import make_run


def line(text: str, turn: int = 1, *, role: str = "coder", slot: int = 1, over: bool = False) -> str:
    told = {"role": role, "turn": f"{turn:04d}-{role}-{slot}", "text": text} | ({"over": True} if over else {})
    return json.dumps(told) + "\n"


def add(folder: Path, *lines: str) -> None:
    with (folder / SPOKEN).open("a") as file:
        file.write("".join(lines))


def test_a_reader_hears_the_newest_replies_and_then_each_piece_once(tmp_path: Path) -> None:
    hearing = Hearing(tmp_path)
    assert hearing.news() == [], "nobody spoke yet"
    add(tmp_path, *(line(f"reply {n}", n, over=True) for n in range(REPLIES + 3)), line("I th", 99))
    first = hearing.news()
    assert [(each.text, each.is_over) for each in first] == [
        *((f"reply {n}", True) for n in range(REPLIES + 4 - SHOWN, REPLIES + 3)),
        ("I th", False),
    ]
    assert hearing.news() == []
    add(tmp_path, line("ink", 99), line("meanwhile", 99, slot=2), line("", 99, over=True))
    assert [(each.reply - first[-1].reply, each.speaker, each.text, each.is_over) for each in hearing.news()] == [
        (0, "coder 1 of iteration 99", "ink", True),
        (1, "coder 2 of iteration 99", "meanwhile", False),
    ]
    (late,) = [each for each in Hearing(tmp_path).news() if each.text == "I think"]
    assert late.is_over and not late.is_cut, "who comes later hears it whole"


def test_a_file_that_is_begun_anew_or_cut_goes_on(tmp_path: Path) -> None:
    hearing = Hearing(tmp_path)
    add(tmp_path, line("one", 1, over=True))
    assert [each.text for each in hearing.news()] == ["one"]
    (tmp_path / SPOKEN).rename(tmp_path / "old")
    add(tmp_path, line("two", 2, over=True))
    assert [each.text for each in hearing.news()] == ["two"]
    (tmp_path / SPOKEN).write_text(line("3", 3))
    assert [each.text for each in hearing.news()] == ["3"]


def test_much_that_is_said_is_told_by_its_end(tmp_path: Path) -> None:
    hearing = Hearing(tmp_path)
    add(tmp_path, line("a" * 50_000 + "b" * MOST_TEXT))
    (told,) = hearing.news()
    assert told.text == "b" * MOST_TEXT and told.is_cut
    add(tmp_path, line("c"))
    (told,) = hearing.news()
    assert told.text == "c" and not told.is_cut


def test_little_of_a_huge_file_is_read_and_a_line_without_end_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / SPOKEN
    with path.open("wb") as file:
        file.truncate(1 << 32)  # nothing of it takes room on a disk
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + line("the end").encode())
    assert [each.text for each in Hearing(tmp_path).news()] == ["the end"]
    lines = [line("x" * 100, n) for n in range(9_000)]
    path.write_text("".join(lines))
    assert near_end(path, RECENT) == sum(map(len, lines[: -(RECENT // len(lines[-1]))]))
    size = path.stat().st_size
    with path.open("a") as file:
        file.write("x" * (PIECE + 5))
    assert size - PIECE < near_end(path) < size, "lines before one that has no end yet are known"
    with path.open("a") as file:
        file.write("x" * LONGEST)
    assert near_end(path) == 0


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "garbage"])
def test_what_can_not_be_read_says_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / SPOKEN
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    else:
        path.write_bytes(b'\xff\n[]\n{"role": 1}\n{"role": "r", "text": 7, "turn": []}\n' + b"[" * 100_000 + b"\n")
    assert "".join(each.text for each in Hearing(tmp_path).news()) in ("", "7")


def said(events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = next(each["data"] for each in events if each["event"] == "said")
    return told


def test_a_stream_tells_words_to_who_asks_for_them(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1, ended=False)
    (run.path / "events.jsonl").touch()
    add(run.path, line("said before anybody looked"))
    with dashboard(tmp_path) as site:
        page = site.get(f"/run/{run.id}").text
        assert NOBODY_YET in unescape(page) and "anybody looked" not in page
        with site.stream(f"/run/{run.id}/events?words=1") as events:
            assert next(events)["event"] == "hush" and said(events)["text"].endswith("anybody looked")
            add(run.path, line(HOSTILE, over=True))
            told = said(events)
            assert told["text"].startswith("</style>") and "\x1b" not in told["text"] and told["is_over"]
        with site.stream(f"/run/{run.id}/events") as events:
            with (run.path / "events.jsonl").open("a") as file:
                file.write('{"event": "run_ended"}\n')
            heard = [each["event"] for each in takewhile(lambda each: each["event"] != "line", events)]
            assert {*heard} <= {"state"}, "who does not ask is told events alone"
        run.write_outcome({"reason": "patience"})
        assert NOBODY in unescape(site.get(f"/run/{run.id}").text)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Window]:
    with window() as opened:
        yield opened


def test_words_are_seen_as_they_come_and_are_text(chromium: Window, tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=2, ended=False)
    with dashboard(tmp_path) as site, Journal(run.path / "events.jsonl", lambda _: None):
        for way, asked in {"wide": {"size": WIDE}, "dark": {"size": WIDE, "dark": True}}.items():
            (run.path / SPOKEN).write_text("")
            with chromium.visit(**asked) as visit:  # type: ignore[arg-type]
                visit.go(site.entrance)
                visit.go(f"{site.origin}/run/{run.id}")
                page = visit.page
                page.get_by_text("Nobody spoke yet").wait_for()
                add(run.path, line("The plan: ", 3, role="planner"), line("wider rows.\nThen more.", 3, role="planner"))
                page.locator("#said .going", has_text="The plan: wider rows.").wait_for()
                assert not page.get_by_text("Nobody spoke yet").is_visible()
                add(run.path, line("", 3, role="planner", over=True), line("one\n" * 40 + "end of one", 4))
                add(run.path, line(f"two {HOSTILE}", 4, slot=2))
                page.locator("#said .over", has_text="Then more.").wait_for()
                page.locator("#said .going", has_text="<script>window.pwned=1</script>").wait_for()
                assert page.locator("#said .going").count() == 2
                page.locator("#state.live").wait_for()
                end = page.locator("#said .going p").first
                assert end.bounding_box()["height"] < 200, "of several that speak at once the end of each is seen"
                page.locator("#hearing").scroll_into_view_if_needed()
                visit.keep(way)
                assert visit.complaints == [] and visit.foreign(site.origin) == []
                page.context.set_offline(True)
                add(run.path, line("\nsaid meanwhile", 4, over=True))
                page.context.set_offline(False)
                page.locator("#said .over", has_text="said meanwhile").wait_for()
                assert page.locator("#said > div").count() == 3, "nothing is there twice after a lost connection"
                assert overflows(visit) == 0 and barriers(visit) == [] and page.evaluate("window.pwned") is None


def test_a_phone_is_sent_words_while_they_are_open_to_be_read(chromium: Window, tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=2, ended=False)
    add(run.path, *(line(f"{n} " + "long " * 1_000, n, over=True) for n in range(9)))
    with dashboard(tmp_path) as site, chromium.visit(size=PHONE) as visit:
        visit.go(site.entrance)
        visit.go(f"{site.origin}/run/{run.id}")
        visit.page.locator("#link", has_text="follows").wait_for()
        assert not [url for url in visit.asked if "words=1" in url]
        visit.page.get_by_text("What models say, as it comes").click()
        visit.page.locator("#said .over").nth(SHOWN - 1).wait_for()
        lengths = visit.page.eval_on_selector_all("#said p", "all => all.map(each => each.textContent.length)")
        assert lengths == [MOST_TEXT + 1] * SHOWN
        visit.keep("phone")
        assert overflows(visit) == 0 and barriers(visit) == [] and visit.complaints == []
        streams = len([url for url in visit.asked if "/events?" in url])
        visit.page.get_by_text("What models say, as it comes").click()
        visit.page.wait_for_function("() => !document.getElementById('hearing').open")
        add(run.path, line("nobody reads this", 10, over=True))
        (run.path / "events.jsonl").write_text('{"event": "iteration_started", "iteration": 7, "iterations": 9}\n')
        visit.page.locator("#lines", has_text="iteration 7 of 9").wait_for()
        assert "words=1" not in [url for url in visit.asked if "/events?" in url][streams]
        assert "nobody reads this" not in visit.page.content()
