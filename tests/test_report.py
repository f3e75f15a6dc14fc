"""The report: complete, self-contained, and safe against what models, kernels and tasks write."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from pydantic import JsonValue
from rich.console import Console

from app import quantities
from app.judging import by_reason
from app.report import render, write_report
from app.report_commands import check_command, command
from app.report_path import setting_changes, source_diff
from app.result_tables import print_summary
from app.summary import summarize
from memory.files import RunFolderError
from memory.runs import RunFolder
from tests.synthetic_run import make_run

HOSTILE = "</style><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>{{ 7*7 }}]]>"


class Page(HTMLParser):
    """Collects elements, attributes and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words += data


def test_report_holds_result_attempts_judging_hardware_and_command(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    page = Page(write_report(run).read_text(encoding="utf-8"))
    for attempt in run.attempts():
        assert attempt.id in page.words
    for expected in (
        "2.36x",
        "46 %",
        "bubblewrap + Landlock 7",
        "A processor & more",
        "20.0 GB/s",
        "wrong result",
        "memory-safe",
    ):
        assert expected in page.words
    assert "warpsmith optimize 'examples/soft max' --iterations 24" in page.words
    assert page.tags.count("svg") == 6


def test_report_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    page = Page(render(make_run(tmp_path)))
    assert not {"script", "link", "iframe", "object", "embed", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "xlink:href", "style")]
    assert all(value is not None and value.startswith("#") for name, value in page.attributes if name == "href")
    style = re.search(r"<style>(.*?)</style>", render(make_run(tmp_path)), re.DOTALL)
    assert style and "url(" not in style[1] and "@import" not in style[1]


def test_hostile_text_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    text = render(make_run(tmp_path, note=HOSTILE))
    page = Page(text)
    assert "script" not in page.tags and "img" not in page.tags
    assert HOSTILE in page.words
    assert "49" not in re.findall(r"onerror=alert\(2\)&gt;(\S{0,8})", text)


def test_a_run_still_open_and_a_run_with_nothing_accepted_have_reports(tmp_path: Path) -> None:
    assert "has not ended" in render(make_run(tmp_path, ended=False))
    nothing = render(make_run(tmp_path, accept=False, attempts=3))
    assert "No attempt has been accepted" in nothing
    assert "warpsmith check" not in nothing
    assert render(make_run(tmp_path, attempts=0, ended=False))


def test_a_lone_surrogate_in_a_note_does_not_stop_the_report(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=2)
    path = run.folder_of("a1") / "attempt.json"
    path.write_text(path.read_text().replace('"note": ""', '"note": "odd \\ud800 text"'))
    assert "odd ? text" in write_report(type(run)(run.path)).read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    page = render(run)
    (run.path / "report.html").mkdir()
    with pytest.raises(RunFolderError) as caught:
        write_report(run)
    assert page and caught.value.advice


def test_summary_takes_the_fresh_measurement_and_falls_back_on_the_attempts(tmp_path: Path) -> None:
    ended, still_open = summarize(make_run(tmp_path)), summarize(make_run(tmp_path, ended=False))
    assert ended.measured == "afresh" and still_open.measured == "in the run"
    assert ended.gain == pytest.approx(0.96**-21, rel=1e-6)
    assert ended.gain is not None and ended.gain_interval is not None and ended.gain_interval.low < ended.gain
    assert still_open.gain == pytest.approx(ended.gain, rel=1e-6)
    assert still_open.gain_interval is None
    assert ended.start_seconds == pytest.approx(4.4e-3 * 0.6**0.5)
    assert ended.rejections == {"wrong_result": 3} and ended.accepted == 21


def test_differences_between_start_and_winner_are_spelt_out(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=8)
    start, later = run.attempt("a0"), run.attempt("a7")
    assert setting_changes(start, later) == ["BLOCK: 16 → 32", "flags: default → -O3"]
    diff = source_diff(start, later)
    assert [line.text[0] for line in diff if line.kind in ("added", "removed")] == ["-", "+"]
    assert source_diff(start, start) == []
    assert command(run).startswith("warpsmith optimize")
    assert check_command(run, "a7") == f"warpsmith check examples/softmax {run.folder_of('a7')}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0, "0 s"), (1.2345e-3, "1.234 ms"), (12.5, "12.50 s"), (9.87e-7, "987.0 ns"), (3e-11, "0.030 ns")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert quantities.duration(seconds) == text


def test_figures_that_share_a_reason_for_missing_are_joined() -> None:
    assert by_reason(("ipc (no counters)", "cycles (no counters)", "gpu")) == ["ipc, cycles (no counters)", "gpu"]


def test_other_quantities() -> None:
    assert [quantities.figure(v) for v in (0.0, 0.0625718, 512, 2910000)] == ["0", "0.06257", "512", "2.910 M"]
    assert [quantities.span(s) for s in (None, 0.4, 65, 7505)] == ["-", "0 s", "1 min 05 s", "2 h 05 min"]
    assert [quantities.percent(s) for s in (None, 0.034, 0.416)] == ["-", "3.4 %", "42 %"]
    assert quantities.amount(2.41e10, "B/s") == "24.1 GB/s"
    assert quantities.short(5e-4, "s") == "500 µs" and quantities.short(2e9, "") == "2 G"
    assert quantities.tally({"wrong_result": 2, "timeout": 5, "kept": 0}) == "5 timeout, 2 wrong result"


def test_a_starting_kernel_that_nothing_beat_has_no_gain_however_its_fresh_time_differs(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    verdict, outcome = run.verdict("a0"), run.outcome()
    assert outcome is not None
    for timing in verdict["timings"]:  # type: ignore[union-attr]
        timing["seconds"] *= 0.9  # type: ignore[index, operator, call-overload]
    run.write_outcome(outcome | {"final": verdict, "best": "a0"})
    summary = summarize(run)
    assert (summary.best, summary.measured) == ("a0", "afresh")
    assert summary.gain == pytest.approx(1) and all(row.gain == 1 for row in summary.rows)


@pytest.mark.parametrize(
    ("attempts", "in_report", "in_terminal"),
    [
        (1, "Nothing was tried beside the starting kernel", "nothing else was tried"),
        (3, "Nothing beat the starting kernel", "nothing was faster beyond noise"),
    ],
)
def test_a_run_without_a_winner_says_whether_anything_was_tried(
    tmp_path: Path, attempts: int, in_report: str, in_terminal: str
) -> None:
    run = make_run(tmp_path, attempts=attempts)
    console = Console(width=200, record=True, file=StringIO())
    print_summary(console, summarize(run), "NumPy")
    assert in_report in render(run) and in_terminal in console.export_text()


def spend(run: RunFolder, *events: dict[str, JsonValue]) -> RunFolder:
    """The run with those event lines."""
    text = "".join(json.dumps(event) + "\n" for event in events)
    (run.path / "events.jsonl").write_text(text)
    return type(run)(run.path)


def call(model: str, iteration: int = 1, role: str = "coder", **fields: JsonValue) -> dict[str, JsonValue]:
    cost: dict[str, JsonValue] = {"input_tokens": 1000, "output_tokens": 100, "cached_tokens": 0, "dollars": 0.5}
    return {"event": "model_called", "role": role, "model": model, "iteration": iteration} | cost | fields


def change(**fields: JsonValue) -> dict[str, JsonValue]:
    return {
        "event": "model_changed",
        "role": "coder",
        "iteration": 2,
        "before": "openai:x",
        "after": "local:q",
    } | fields


def test_models_and_money_add_up_by_role_model_and_iteration(tmp_path: Path) -> None:
    run = spend(
        make_run(tmp_path, attempts=2),
        call("openai:x", role="planner", cached_tokens=250),
        call("openai:x"),
        call("openai:x", 2, event="model_retried", fault="transient", dollars=None, input_tokens=0, output_tokens=0),
        call("openai:x", 2, event="model_failed", fault="refusal", dollars=0.25, input_tokens=500, output_tokens=0),
        change(why="refusal", message="I will not"),
        call("local:q", 2, dollars=None, reasoning_tokens=40),
        {"event": "model_corrected", "role": "coder", "model": "local:q", "iteration": 2, "case": "prose"},
    )
    spending = summarize(run).spending
    assert [(row.role, row.model, row.calls, row.failed) for row in spending.rows] == [
        ("planner", "openai:x", 1, 0),
        ("coder", "openai:x", 1, 2),
        ("coder", "local:q", 1, 0),
    ]
    planner, coder, other = spending.rows
    assert planner.cached_share == 0.25 and (coder.dollars, coder.retries) == (0.75, 1)
    assert (other.dollars, other.unpriced_tokens, other.corrections, other.reasoning_tokens) == (None, 1100, 1, 40)
    total = spending.total
    assert (total.calls, total.failed, total.input_tokens, total.dollars) == (3, 2, 3500, 1.25)
    assert [(r.iteration, r.dollars, r.unpriced_tokens) for r in spending.rounds] == [(1, 1.0, 0), (2, 0.25, 1100)]
    page = Page(render(run))
    for expected in (
        "Models and money",
        "$1.25 + 1.10k tokens unpriced",
        "unknown",
        "declined to answer",
        "I will not",
    ):
        assert expected in page.words
    assert "it wrote where a call was wanted" in page.words and "US dollars by iteration" in render(run)


def test_a_run_that_asked_nobody_has_no_money_section(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    assert "Models and money" not in render(run) and summarize(run).spending.rows == ()


def test_what_a_model_said_when_it_gave_up_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    hostile = call("</td><script>alert(3)</script>")
    run = spend(make_run(tmp_path, attempts=1), hostile, change(why="auth", message=HOSTILE + "\x1b[2J"))
    page = Page(render(run))
    assert "script" not in page.tags and "img" not in page.tags and HOSTILE in page.words
    assert "\x1b" not in render(run)


def test_sums_of_money_and_tokens() -> None:
    assert [quantities.money(v) for v in (None, 0, 0.00312, 0.1, 12.345, 1234.5)] == [
        "unknown",
        "$0.00",
        "$0.0031",
        "$0.10",
        "$12.35",
        "$1,234.50",
    ]
    assert [quantities.tokens(n) for n in (0, 999, 1000, 32_768, 1_050_000)] == ["0", "999", "1.00k", "32.8k", "1.05M"]
    assert quantities.cost(1.0, 0) == "$1.00" and quantities.cost(None, 5) == "unknown"
