"""The dashboard over real HTTP: who is let in, what pages hold, what can't be reached, and streams that go on."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from agents.events import Journal
from app.serve.catalog import Catalog, state_of
from app.serve.feed import LONGEST, PIECE, Feed, latest, words
from app.serve.guard import Guard, host_name
from app.serve.problems import NotThere
from app.serve.server import TOKEN_VARIABLE, listen, serve
from app.serve.views import LOG_LINES
from app.serve.waiting import waits_for
from app.summary import summarize
from memory.lesson_store import LessonStore
from memory.lessons import Draft, Evidence
from memory.runs import RunFolder
from tests.dashboard import TOKEN, Dashboard, dashboard
from tests.hostile_run import HOSTILE, breaks, hostile_batch, hostile_run
from tests.synthetic_run import make_run
from tools.errors import WarpsmithError

SECRET = "what lies beside the runs"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: an ordinary one, a hostile one, a batch, lessons; and something beside it that is nobody's."""
    place = tmp_path_factory.mktemp("place")
    (place / "secret.txt").write_text(SECRET)
    runs = place / "runs"
    make_run(runs)
    hostile_run(runs)
    hostile_batch(runs)
    store = LessonStore(runs / "lessons.sqlite")
    text = HOSTILE.replace("\0", "").replace("\ud800", "")
    evidence = Evidence(run=text[:100], attempt="a7", kind="rejected", reason="wrong_result", at=1.0)
    store.learn(
        Draft(
            claim=text[:300],
            operation=text[:150],
            says="fails",
            target="cpu",
            chip=text[:150],
            bytes=1.0,
            evidence=(evidence,),
            created=1.8e9,
        )
    )
    return runs


@pytest.fixture(scope="module")
def site(root: Path) -> Iterator[Dashboard]:
    with dashboard(root) as opened:
        yield opened


def pages_of(site: Dashboard) -> list[str]:
    """Every address that can be reached from the first page by links and comparisons."""
    found, new = ["/"], ["/"]
    while new:
        page = site.get(new.pop()).text
        for href in re.findall(r'href="([^"]+)"', page):
            path = unescape(href).partition("#")[0]
            if path and path not in found and not path.startswith("/static"):
                found.append(path)
                new.append(path)
    chosen = [run.name for run in site.site.catalog.runs()]
    return [*found, f"/compare?run={chosen[0]}&run={chosen[1]}", f"{site.site.catalog.runs()[0].href}/now", "/now"]


def test_every_page_can_be_reached_and_nothing_gets_out_of_its_place(site: Dashboard) -> None:
    paths = pages_of(site)
    kinds = ("/attempt/a5", "/report", "/compare", "/lessons", "/batch/", "/now")
    assert all(any(kind in path for path in paths) for kind in kinds) and len(paths) > 40
    for path in paths:
        answer = site.get(path)
        assert answer.status == 200, path
        assert breaks(answer.text) == [], path
        assert SECRET not in answer.text


def test_pages_say_what_the_run_folder_does(site: Dashboard) -> None:
    run = next(run for run in site.site.catalog.runs() if run.task == "softmax")
    home, page = site.get("/").text, site.get(run.href).text
    assert "2.36x" in home and run.name in home and "1 of 2 tasks over" in home
    for text in (
        "2.36x",
        "4.49x",
        "a21",
        "Progress",
        "Where the time goes",
    ):
        assert text in page
    attempt = site.get(f"{run.href}/attempt/a3").text
    assert "wrong result" in attempt and "out[3, 7] is 0.5, not 0.25" in attempt and "Wider blocks" in attempt
    best = site.get(f"{run.href}/attempt/a21").text
    assert "14.2 GB/s" in best and "95 % interval" in best and "Changes since a18: +1" in best
    assert "The claim" in site.get(f"{run.href}/report").text


def test_a_batch_leads_to_its_runs_and_they_can_be_compared_with_others(site: Dashboard) -> None:
    (batch,) = site.site.catalog.batches()
    page = site.get(batch.href).text
    (href,) = {unescape(found) for found in re.findall(rf'href="({batch.href}/run/[^"/]+)"', page)}
    assert site.get(href).status == 200 and site.get(f"{href}/attempt/a0").status == 200
    own = site.site.catalog.runs()[0].name
    compared = site.get(f"/compare?run={own}&run={batch.name}/{href.rpartition('/')[2]}").text
    assert "Runs side by side" in compared and f'href="{href}"' in compared


def test_lessons_are_searched(site: Dashboard) -> None:
    assert "window.pwned" in site.get("/lessons?q=script").text
    assert "No lesson holds a word of it" in site.get("/lessons?q=" + "x" * 3000).text


# ------------------------------------------------------------------------------------------------------ who is let in


@pytest.mark.parametrize("path", ["/", "/now", "/lessons", "/run/x", "/run/x/events", "/nothing", "/compare"])
@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": f"warpsmith={TOKEN}"}],
)
def test_nobody_is_let_in_without_the_token(site: Dashboard, path: str, headers: dict[str, str]) -> None:
    answer = site.get(path, headers=headers)
    assert answer.status == 401 and "softmax" not in answer.text


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], f"{TOKEN}x", "%C3%BC", "%ff%00", TOKEN.upper()])
def test_a_wrong_token_is_none(site: Dashboard, token: str) -> None:
    assert site.get(f"/?token={token}", headers={}).status == 401


def test_the_token_is_traded_for_a_cookie_that_only_our_pages_send(site: Dashboard) -> None:
    answer = site.get(f"/lessons?q=a%26b&token={TOKEN}", headers={})
    assert answer.status == 303 and answer.headers["location"] == "/lessons?q=a%26b"
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie and cookie.startswith(f"warpsmith_{site.port}=")
    assert all(flag in cookie.lower() for flag in ("httponly", "samesite=strict", "path=/"))
    assert site.get("/lessons", headers={"Cookie": cookie.partition(";")[0]}).status == 200
    # What is sent back never leads away, whatever the path looks like.
    assert site.get(f"//evil.example/?token={TOKEN}", headers={}).headers["location"] == "/evil.example/"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_shows_and_never_steers(site: Dashboard, method: str) -> None:
    answer = site.get("/", method)
    assert answer.status == 405 and answer.headers["allow"] == "GET, HEAD"
    assert site.get("/", "HEAD").status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "", "["]
)
def test_a_name_that_is_not_ours_is_refused(site: Dashboard, host: str) -> None:
    assert site.get("/", headers=site.headers | {"Host": host}).status in (400, 421)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:99", "192.0.2.7:80", "a-name-of-ours"]
)
def test_addresses_and_our_names_are_ours(site: Dashboard, host: str) -> None:
    assert site.get("/", headers=site.headers | {"Host": host}).status == 200


def test_two_hosts_are_none() -> None:
    guard = Guard(lambda *_: None, TOKEN)  # type: ignore[arg-type,return-value]
    assert not guard.is_ours(Headers(raw=[(b"host", b"localhost"), (b"host", b"localhost")]))
    assert not guard.is_ours(Headers(raw=[]))


@given(st.text(max_size=30))
def test_any_host_header_is_read_without_a_fault(text: str) -> None:
    assert host_name(text) is None or isinstance(host_name(text), str)


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/page.css", "/lessons", "/static/site.js"])
def test_each_answer_forbids_what_pages_do_not_need(site: Dashboard, path: str) -> None:
    told = site.get(path).headers
    policy = told["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert told["x-content-type-options"] == "nosniff" and told["referrer-policy"] == "no-referrer"
    assert told["cache-control"] in ("no-store", "no-cache") and "server" not in told


def test_the_reports_policy_allows_its_own_style_alone(site: Dashboard) -> None:
    policy = site.get(f"{site.site.catalog.runs()[0].href}/report").headers["content-security-policy"]
    assert re.search(r"style-src 'sha256-[^']+';", policy) and "script-src" not in policy and "'self'" not in policy


# --------------------------------------------------------------------------------------------- what can't be reached


@pytest.mark.parametrize(
    "path",
    [
        "/run/..",
        "/run/%2e%2e",
        "/run/..%2f..%2fsecret.txt",
        "/run/%2e%2e%2fsecret.txt",
        "/run/.",
        "/run/%00",
        "/run/x%00y",
        "/run/lessons.sqlite",
        "/batch/../run/x",
        "/batch/%2e%2e",
        "/static/../pages.py",
        "/static/..%2fpages.py",
        "/static/%2e%2e/pages.py",
        "/static/",
        "/static/page.css/x",
        "/compare?run=..%2f..&run=..",
        "/compare?run=" + "a" * 4000 + "&run=b",
        "/run/" + "a" * 4000,
        "/run/" + "%F0%9F%92%A9" * 200,
    ],
)
def test_nothing_outside_the_runs_can_be_reached(site: Dashboard, path: str) -> None:
    answer = site.get(path)
    assert answer.status == 404 and SECRET not in answer.text and "import" not in answer.text


@pytest.mark.parametrize("name", ["../outside", "", ".", "..", "./in", ".hidden", "in/.", "in\0", "/etc", "~"])
def test_only_a_plain_name_of_a_folder_under_the_root_is_a_run(tmp_path: Path, name: str) -> None:
    for place in ("runs/in", "runs/.hidden", "outside"):
        (tmp_path / place).mkdir(parents=True)
        make_run(tmp_path / "made", attempts=0, ended=False).path.rename(tmp_path / place)
    catalog = Catalog(tmp_path / "runs")
    assert catalog.run("in").id == "in" and [run.name for run in catalog.runs()] == ["in"]
    with pytest.raises(NotThere):
        catalog.run(name)
    with pytest.raises(NotThere):
        catalog.batch(name)


@pytest.mark.parametrize("attempt", ["a99", "..", "%2e%2e%2fconfig.json", "best", "a0%00", "<script>", "a" * 3000])
def test_an_attempt_is_one_of_the_run(site: Dashboard, attempt: str) -> None:
    href = site.site.catalog.runs()[0].href
    answer = site.get(f"{href}/attempt/{attempt.replace('<', '%3C').replace('>', '%3E')}")
    assert answer.status == 404 and breaks(answer.text) == []


def test_a_run_may_be_called_anything(tmp_path: Path) -> None:
    """Folders that a person or an unpacked archive named: shown as text, and linked so that the link leads there."""
    names = ['a"b', "<script>alert(1)<", "x?y#z&w", "per%2fcent", "ü 日本", "a\nb", "'q' onload=x", "javascript:x"]
    for name in names:
        make_run(tmp_path / "made", attempts=1).path.rename(_folder(tmp_path) / name)
    odd = os.fsdecode(b"\xff\xfe")
    make_run(tmp_path / "made", attempts=1).path.rename(_folder(tmp_path) / odd)
    (tmp_path / "runs" / "..." / "x").mkdir(parents=True)
    with dashboard(tmp_path / "runs") as site:
        home = site.get("/").text
        assert breaks(home) == []
        runs = site.site.catalog.runs()
        assert len(runs) == len(names) + 1 and [run.name for run in runs if not run.href] == ["\ufffd\ufffd"]
        for run in runs:
            if run.href:
                page = site.get(run.href)
                assert page.status == 200 and breaks(page.text) == [], run.name
                assert site.get(f"{run.href}/attempt/a0").status == 200


def _folder(root: Path) -> Path:
    (root / "runs").mkdir(exist_ok=True)
    return root / "runs"


def test_damaged_folders_are_listed_and_say_what_is_wrong(tmp_path: Path) -> None:
    damages = {
        "config.json": b"{",
        "attempts/a1/attempt.json": b"[]",
        "attempts/a1/verdict.json": b'{"status": "accepted"}',
        "facts.json": b'{"task": 3}',
        "outcome.json": b'{"reason": ["x"], "final": {"status": "accepted"}}',
        "events.jsonl": b"\xff\x00{{{\n[1,2]\n{}\n" + b'{"event": 7}\n{"event": "run_ended", "elapsed": "x"}\n',
    }
    runs = {}
    for name, damage in damages.items():
        runs[name] = make_run(tmp_path / "runs", attempts=3)
        (runs[name].path / name).write_bytes(damage)
    (tmp_path / "runs" / "empty").mkdir()
    torn = hostile_batch(tmp_path / "runs")
    (torn.path / "queue.jsonl").write_text('{"event": "nothing"}\n')
    with dashboard(tmp_path / "runs") as site:
        home = site.get("/")
        assert home.status == 200 and home.text.count("damaged") >= 2
        for name, run in runs.items():
            page = site.get(f"/run/{run.id}")
            assert page.status in (200, 422), name
            assert "unexpected" not in page.text and "Traceback" not in page.text, name
            assert breaks(page.text) == []
        assert "not valid JSON" in site.get(f"/run/{runs['config.json'].id}").text
        assert site.get(f"/batch/{torn.path.name}").status == 422
        with site.stream(f"/run/{runs['events.jsonl'].id}/events") as events:
            assert "run ended" in next(events)["data"]["text"]


def test_no_runs_at_all_is_a_page_too(tmp_path: Path) -> None:
    with dashboard(tmp_path / "nowhere") as site:
        assert "There are no runs under" in site.get("/").text and site.get("/lessons").status == 200


# ------------------------------------------------------------------------------------------------------------ streams


def event(number: int) -> str:
    return json.dumps({"event": "iteration_started", "iteration": number, "iterations": 1_000_000}) + "\n"


def test_a_stream_tells_what_is_added_and_goes_on_where_it_was_cut_off(site: Dashboard, tmp_path: Path) -> None:
    run = make_run(site.site.catalog.root, attempts=1, ended=False)
    path = run.path / "events.jsonl"
    try:
        path.write_text(event(1))
        with site.stream(f"/run/{run.id}/events?from=0") as events:
            first, state = next(events), next(events)
            assert "iteration 1 of" in first["data"]["text"] and state["data"] == {"state": "stopped"}
            with path.open("a") as file:
                file.write(event(2)[:9])
                file.flush()
                file.write(event(2)[9:] + event(3))
            second, third = next(events), next(events)
            assert "iteration 2 of" in second["data"]["text"] and "iteration 3 of" in third["data"]["text"]
        with site.stream(f"/run/{run.id}/events?from=0", **{"Last-Event-ID": second["id"]}) as events:
            assert next(events) == third
        # A place that the file never had, and a file that was begun anew: from its beginning, and the page is told.
        with site.stream(f"/run/{run.id}/events", **{"Last-Event-ID": "999999999"}) as events:
            assert [next(events)["event"], next(events)["id"]] == ["anew", first["id"]]
        with site.stream(f"/run/{run.id}/events?from={third['id']}") as events:
            assert next(events)["event"] == "state"
            path.write_text(event(7))
            assert next(events)["event"] == "anew" and "iteration 7 of" in next(events)["data"]["text"]
    finally:
        shutil.rmtree(run.path)


def test_a_run_is_live_while_a_process_holds_its_journal(site: Dashboard) -> None:
    run = make_run(site.site.catalog.root, attempts=1, ended=False)
    try:
        with site.stream(f"/run/{run.id}/events") as events:
            assert next(events)["data"] == {"state": "stopped"}
            with Journal(run.path / "events.jsonl", lambda _: None) as journal:
                journal.tell("iteration_started", iteration=1, iterations=9)
                told = [next(events), next(events)]
                assert {"state": "live"} in [each["data"] for each in told]
                assert state_of(run.path) == "live" and "1 live" in site.get("/").text
            assert next(events)["data"] == {"state": "stopped"}
        assert state_of(run.path) == "stopped"
        shutil.rmtree(run.path)
        assert site.get(f"/run/{run.id}").status == 404
    finally:
        shutil.rmtree(run.path, ignore_errors=True)


def test_streams_are_counted_while_they_are_open_and_only_so_many(
    site: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    href = site.site.catalog.runs()[0].href
    with site.stream(f"{href}/events") as events:
        next(events)
        assert site.site.streams >= 1
        monkeypatch.setattr("app.serve.site.MOST_STREAMS", 0)
        assert site.get(f"{href}/events").status == 503
    deadline = time.monotonic() + 60
    while site.site.streams and time.monotonic() < deadline:
        time.sleep(0.05)
    assert site.site.streams == 0


def test_a_huge_log_is_not_read_to_show_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(event(number) for number in range(60_000)))
    told, place = latest(path, LOG_LINES)
    assert len(told) == LOG_LINES and place == path.stat().st_size and "iteration 59999 of" in told[-1].text
    with path.open("a") as file:
        file.write("x" * (PIECE + 5))
    assert latest(path, LOG_LINES)[1] < path.stat().st_size
    assert latest(tmp_path / "nothing", 5) == ([], 0)


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(event(1) + "y" * (LONGEST + PIECE) + "\n" + event(2))
    feed, told = Feed(path), []
    for _ in range(4):
        told += feed.lines()
    assert [each.kind for each in told] == ["iteration_started"] * 2 and feed.place == path.stat().st_size


def test_a_place_within_a_line_or_of_another_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(event(1) + event(2))
    for place in (5, len(event(1)) + 1, 10_000):
        feed = Feed(path, place)
        assert len(feed.lines()) == 2 and feed.begun_anew
    feed = Feed(path, len(event(1)))
    assert len(feed.lines()) == 1 and not feed.begun_anew
    path.rename(tmp_path / "moved")
    path.write_text(event(1) + event(2) + event(3))
    assert len(feed.lines()) == 3 and feed.begun_anew


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 5)),
        st.tuples(st.just("torn"), st.integers(1, 20)),
        st.tuples(st.just("reconnect"), st.just(0)),
        st.tuples(st.just("junk"), st.integers(0, 255)),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(EDITS)
def test_each_event_is_told_once_and_in_order_however_the_file_grows(edits: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        path.write_bytes(b"")
        feed, number, told = Feed(path), 0, []
        rest = b""
        for what, size in edits:
            if what == "add":
                number += size
                path.write_bytes(path.read_bytes() + rest + b"".join(_numbered(number - size + n) for n in range(size)))
                rest = b""
            elif what == "torn" and not rest:
                line = _numbered(number)
                number += 1
                path.write_bytes(path.read_bytes() + line[:size])
                rest = line[size:]
            elif what == "junk" and not rest:
                path.write_bytes(path.read_bytes() + bytes([size, 0, 0xFF]) + b"\n")
            elif what == "reconnect":
                feed = Feed(path, feed.place)
            told += feed.lines()
        path.write_bytes(path.read_bytes() + rest)
        told += feed.lines()
        assert [each.kind for each in told] == [f"n{place}" for place in range(number)]


def _numbered(number: int) -> bytes:
    return json.dumps({"event": f"n{number}"}).encode() + b"\n"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
KINDS = ("run_started", "run_resumed", "task_opened", "attempt_judged", "model_called", "model_retried", "run_ended")
FIELDS = ("seconds", "models", "workloads", "reason", "wait", "input_tokens", "time", "turn", "elapsed", "v", "dollars")


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_event_can_be_said(kind: str, fields: dict[str, object]) -> None:
    said = words({"event": kind} | fields)  # type: ignore[arg-type]
    assert said and "\n" not in said and len(said) <= 1_000


# ------------------------------------------------------------------------------------------------------- the catalog


def test_a_glance_is_kept_until_the_run_changes(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=4, ended=False)
    catalog = Catalog(tmp_path)
    (first,) = catalog.runs()
    assert catalog.runs()[0] is first and (first.best, first.attempts, first.state) == ("a0", 4, "stopped")
    run.write_outcome({"reason": "patience"})
    (second,) = catalog.runs()
    assert second.state == "ended" and second.words and second.claim == "1.00x"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], ""),
        (["run_paused"], "waits at a limit for a person"),
        (["run_paused", "run_resumed"], ""),
        (["steered pause", "model_called", "attempt_judged"], "paused by a person"),
        (["steered pause", "steered resume"], ""),
        (["plan_waits", "steered hint"], "its plan waits for a person's word"),
        (["plan_waits", "steered approve"], ""),
        (["steered pause", "plan_waits", "steered reject", "iteration_started"], ""),
    ],
)
def test_a_run_says_what_it_waits_for(events: list[str], said: str) -> None:
    lines = [{"event": name.split()[0], "action": name.split()[-1]} for name in events]
    assert waits_for(lines) == said  # type: ignore[arg-type]


def test_a_kernel_by_a_persons_hand_is_said_to_be_one(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=4)
    path = run.folder_of("a2") / "attempt.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"person": "Try without the loop"}))
    with dashboard(tmp_path) as site:
        for page in (f"/run/{run.id}", f"/run/{run.id}/attempt/a2", f"/run/{run.id}/report"):
            assert "by hand: Try without the loop" in site.get(page).text


def test_a_glance_says_what_the_summary_says(tmp_path: Path) -> None:
    make_run(tmp_path)
    (glance,) = Catalog(tmp_path).runs()
    summary = summarize(RunFolder(tmp_path / glance.name))
    assert summary.claim is not None and glance.claim == summary.claim.cell
    for name in ("best", "speedup", "share_of_limit", "attempts"):
        assert getattr(glance, name) == pytest.approx(getattr(summary, name)), name
    assert glance.seconds == pytest.approx(summary.best_seconds)


# -------------------------------------------------------------------------------------------------------- the command


def test_a_port_that_is_taken_and_a_weak_token_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(WarpsmithError, match=f"can't serve on 127.0.0.1:{port}") as caught:
            serve(tmp_path, "127.0.0.1", port)
        assert "--port" in caught.value.advice
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    with pytest.raises(WarpsmithError, match=TOKEN_VARIABLE):
        serve(tmp_path, "127.0.0.1", 0)


def test_a_raw_request_that_is_none_is_refused(site: Dashboard) -> None:
    for raw in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", site.port), timeout=10) as plug:
            plug.sendall(raw)
            assert plug.recv(100).split()[1:2] in ([b"400"], [b"401"], [b"404"], [b"421"])
