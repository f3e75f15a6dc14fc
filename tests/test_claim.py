"""What is claimed of a best kernel follows from its last race, in every place that shows a gain, and nowhere else."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from synthetic_run import SOURCE, _accepted, make_run
from test_movement import KNOWN, NOISY, attempt, noisy_run
from test_report import Page

from agents.attempts import Attempts
from agents.event_schema import check
from agents.events import Journal
from agents.last_measurement import LastMeasurement, RaceTold, told_of
from app.batch_summary import TaskRow, _counted_gain
from app.claim import Claim, claim_of, start_of
from app.compare import compare, contender
from app.compare_report import _end
from app.event_lines import attempt_line, gain_words
from app.log_lines import log_line
from app.report import render
from app.report_claim import subjects
from app.result_tables import print_summary
from app.serve.catalog import Catalog
from app.serve.views import run_now
from app.session.headline import headline
from app.session.story import Story
from app.show import show_runs
from app.summary import Summary, summarize
from memory.movement import movement
from memory.runs import RunFolder
from tools.records import Accepted, Comparison, Interval, Kernel

FASTER = Comparison(decision="faster", ratio=1.40, interval=Interval(low=1.21, high=1.62, confidence=0.995))
SLOWER = Comparison(decision="slower", ratio=0.29, interval=Interval(low=0.21, high=0.38, confidence=0.995))
SLOW = RaceTold.of(SLOWER)
OPEN = Comparison(decision="same", ratio=1.40, interval=Interval(low=0.71, high=2.29, confidence=0.995))


def ended(root: Path, race: Comparison, races: dict[str, Comparison] | None = None, start: float = 4.4e-3) -> RunFolder:
    """A run whose last race said that, over all and on each workload. start: its median there."""
    run = make_run(root, attempts=8)
    final = _accepted(Kernel(language="cpp", files={"kernel.cpp": SOURCE}), 3.2e-3, start)
    told = {name: one.model_dump(mode="json") for name, one in (races or {}).items()}
    stages = (*final.stages[:-1], final.stages[-1].model_copy(update={"details": {"races": told} if told else {}}))
    final = final.model_copy(update={"comparison": race, "stages": stages})
    run.write_outcome((run.outcome() or {}) | {"best": run.best(), "final": final.model_dump(mode="json")})
    return RunFolder(run.path)


def shown(run: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The words of every place that says what a run came to."""
    monkeypatch.setenv("COLUMNS", "400")
    text = io.StringIO()
    print_summary(Console(file=text, width=400), summarize(run), "NumPy")
    show_runs(run.path.parent, as_json=False)
    (glance,) = Catalog(run.path.parent).runs()
    end = {"event": "run_ended", "reason": "patience", "best": run.best(), "attempts": 4, "kept": 2}
    end |= told_of((run.outcome() or {})["final"])
    story = Story()
    for each in run.attempts():
        story.take({"event": "attempt_judged", "attempt": each.id, **each.model_dump(mode="json")})
    story.take({"event": "best_changed", "attempt": run.best()})
    story.take(end)
    page = render(run)
    found = {
        "title": page[page.index("<title>") : page.index("</title>")],
        "report": Page(page).words,
        "summary": text.getvalue(),
        "runs": capsys.readouterr().out,
        "list": glance.claim,
        "page": str(run_now(run, "")["summary"].claim.sentence),
        "header": headline(story, 400).plain,
        "log": log_line(end),
    }
    return {name: " ".join(words.split()) for name, words in found.items()}


@pytest.mark.parametrize("race", [OPEN, SLOWER], ids=["open", "slower"])
def test_no_place_claims_a_gain_that_the_last_race_did_not_confirm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, race: Comparison
) -> None:
    run = ended(tmp_path, race)
    summary = summarize(run)
    for name, words in shown(run, capsys, monkeypatch).items():
        assert "not confirmed" in words.lower(), name
        assert f"{race.ratio:.2f}x as fast" not in words, name
        interval = f"[{race.interval.low:.2f}x, {race.interval.high:.2f}x]"
        if name == "header":
            assert interval in words, "with little room"
        elif name not in ("title", "runs", "list"):
            assert f"{interval}, 99.5 % interval" in words, name
    told = json.loads(summary.model_dump_json())
    assert told["gain"] is told["gain_interval"] is None and told["claim"]["standing"] == "not confirmed"
    (start,) = [each for each in subjects(summary, run.facts(), "NumPy") if each.style == "start"]
    assert start.doubt == "not confirmed"
    assert contender(run).counted_gain == 1.0, "a mean of gains would else be of the lucky ones alone"
    row = TaskRow(task="t", path="", run=None, status="ended", reason=None, ending="", baseline="NumPy")
    assert _counted_gain(row.model_copy(update={"gain": summary.gain, "claim": "not confirmed"})) == 1.0


@pytest.mark.parametrize("by_race", [True, False], ids=["by its race", "by its median"])
def test_a_workload_that_got_slower_is_named_wherever_a_gain_is_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, by_race: bool
) -> None:
    run = ended(tmp_path, FASTER, {"square": FASTER, "odd": SLOWER} if by_race else None)
    if not by_race:
        outcome = run.outcome() or {}
        final = Accepted.model_validate(outcome["final"])
        slow = final.timings[1].model_copy(update={"incumbent_seconds": final.timings[1].seconds * 0.29})
        final = final.model_copy(update={"timings": (final.timings[0], slow)})
        run.write_outcome(outcome | {"final": final.model_dump(mode="json")})
    for name, words in shown(run, capsys, monkeypatch).items():
        assert "1.40x" in words and "odd" in words, name
        assert "slower on" in words or "takes longer on workload odd" in words, name
    rows = {row.workload: row.gain for row in summarize(run).rows}
    assert rows["odd"] == pytest.approx(0.29)


def test_times_that_are_called_measured_were_measured(tmp_path: Path) -> None:
    """Never the best's time by a gain; and where medians say another thing than the race, that is said."""
    run = ended(tmp_path, FASTER, start=3.0e-3)
    summary = summarize(run)
    assert summary.start_measured == "in the last race"
    assert [row.start_seconds for row in summary.rows] == pytest.approx([3.0e-3, 1.8e-3])
    assert summary.start_seconds == pytest.approx((3.0e-3 * 1.8e-3) ** 0.5)
    assert summary.claim is not None and "make it 0.94x, not 1.40x" in summary.claim.caution
    assert "make it 0.94x" in Page(render(run)).words
    judged = summarize(make_run(tmp_path / "open", attempts=8, ended=False))
    assert judged.start_measured == "as judged at the start" and judged.claim is not None
    assert judged.start_seconds == pytest.approx((4.4e-3 * 4.4e-3 * 0.6) ** 0.5)
    assert judged.claim.standing == "so far" and "not measured afresh" in judged.claim.sentence


@settings(max_examples=60)
@given(st.sampled_from(["faster", "same", "slower"]), st.floats(0.01, 100), st.floats(1.0, 3.0), st.floats(0.01, 100))
def test_a_gain_is_claimed_exactly_where_the_last_race_says_faster(
    decision: str, ratio: float, wide: float, medians: float
) -> None:
    race = RaceTold.model_validate(
        {"decision": decision, "ratio": ratio, "low": ratio / wide, "high": ratio * wide, "confidence": 0.995}
    )
    last = LastMeasurement(seconds=1.0, share_of_limit=0.1, speedup=2.0, race=race, medians=medians)
    claim = claim_of(KNOWN["a4"], KNOWN["a0"], KNOWN, last)
    assert (claim.gain is not None) == (decision == "faster")
    many = claim.model_copy(update={"workloads": {f"w{place}": SLOW for place in range(5)}})
    if decision == "faster":
        assert "slower on 5 workloads" in many.brief and "w4" in many.sentence
    for words in (claim.sentence, claim.brief, claim.in_header(True)):
        assert ("not confirmed" in words) == (decision != "faster")
    assert "99.5 % interval" in claim.sentence
    if (medians - 1) * (ratio - 1) < 0 and abs(medians - 1) > 0.02:
        assert claim.caution
    kept = Claim.model_validate_json(claim.model_dump_json())
    assert kept == claim


def test_one_gain_has_one_value_in_header_log_list_and_page(tmp_path: Path) -> None:
    """By the races, as in a2 of a noisy run: medians would say 1.88x, and races that lead to the start 4.81x."""
    run = noisy_run(tmp_path)
    lines: list[dict[str, object]] = []
    with Journal(run.path / "events.jsonl", lambda _: None) as journal:
        Attempts(None, None, run, journal).tell_untold()  # type: ignore[arg-type]
    for text in (run.path / "events.jsonl").read_text().splitlines():
        check(text)
        lines.append(json.loads(text))
    story = Story()
    for line in lines:
        story.take(line)
    told = [log_line(line) for line in lines if line["event"] == "best_changed"]  # type: ignore[arg-type]
    assert [text.rpartition(", ")[0].rpartition(" against the baseline")[2] for text in told[1:]] == [
        ", 1.90x against the start", ", 4.81x against the start",
    ]  # fmt: skip
    assert told[-1].endswith("4.81x against the start, by races against others")
    summary: Summary = summarize(run)
    assert summary.claim is not None and summary.claim.brief == "4.81x" and summary.gain == pytest.approx(1.9 * 2.53)
    assert "4.81x the start so far" in headline(story, 400).plain
    (glance,) = Catalog(run.path.parent).runs()
    assert glance.claim == "4.81x in the search"
    assert run_now(run, "")["vs_start"](KNOWN["a4"]) == "4.81x"
    assert run_now(run, "")["vs_start"](KNOWN["a3"]) == "1.96x"
    assert gain_words({"gain": 1.88}) == "~1.88x against the start", "older runs told of medians"


def test_the_header_of_a_run_that_ended_has_what_was_measured_last(tmp_path: Path) -> None:
    story = Story()
    for each in NOISY:
        story.take({"event": "attempt_judged", "attempt": each.id, **each.model_dump(mode="json")})
    story.take({"event": "best_changed", "attempt": "a4", "gain": 4.81})
    race = {"decision": "faster", "ratio": 2.77, "low": 2.32, "high": 5.17, "confidence": 0.995}
    last = {"seconds": 878e-6, "share_of_limit": 0.15, "speedup": 1.2, "race": race}
    story.take({"event": "run_ended", "reason": "user", "best": "a4", "last": last})
    told = headline(story, 400).plain
    assert "best a4 878.0 µs  2.77x the start, raced last  15 % of limit" in told and "4.81x" not in told
    for odd in ("x", 3, ["a"], {"seconds": "soon"}, {"race": 1}):
        other = Story(attempts=dict(story.attempts), best="a4")
        other.take({"event": "run_ended", "reason": "user", "best": "a4", "last": odd})
        assert "4.81x the start in the search" in headline(other, 400).plain, odd


def test_an_undecided_race_is_not_told_apart_and_shows_its_ratio() -> None:
    line = attempt_line({"attempt": "a4", "outcome": "same", "seconds": 12.25e-3, "note": "0.382x a2 [0.065, 1.712]"})
    assert "not told apart" in line and "0.38x a2 [0.07, 1.71]" in line and "same" not in line
    slower = attempt_line({"attempt": "a9", "outcome": "slower", "seconds": 1e-3, "note": "0.883x a3 [0.719, 0.973]"})
    assert "slower" in slower and "0.88x a3 [0.72, 0.97]" in slower


def test_a_movement_that_may_be_anything_is_called_noisy() -> None:
    known = {"a2": attempt(2, "kept", 794e-6, "2.5x a0 [2.100, 2.900]")}
    noisy = movement(attempt(4, "same", 12.25e-3, "0.382x a2 [0.065, 1.712]"), known["a2"], known)
    near = movement(attempt(4, "same", 0.8e-3, "0.98x a2 [0.900, 1.050]"), known["a2"], known)
    assert noisy is not None and noisy.words == "noisy"
    assert near is not None and near.words == "±11 %"


def test_lines_of_a_comparison_end_at_its_table_and_unknown_prices_stay_unknown(tmp_path: Path) -> None:
    run = ended(tmp_path, FASTER)
    call = {"event": "model_called", "role": "planner", "model": "mb:x", "iteration": 1, "input_tokens": 9_000}
    failed = {"event": "model_failed", "role": "coder", "model": "mb:x", "iteration": 1}
    with (run.path / "events.jsonl").open("a") as file:
        for line in (call, failed):
            file.write(json.dumps(line) + "\n")
    (group,) = compare([RunFolder(run.path)]).groups
    (found,) = group.runs
    assert (found.best_after_dollars, found.best_after_unpriced_tokens) == (None, 9_000)
    assert found.dollars is None
    assert _end(found, 4.0) == ((4.0, found.speedup),) and found.curve[-1].speedup != found.speedup


def test_only_a_first_kernel_that_was_given_is_a_start() -> None:
    assert start_of({"a0": NOISY[0]}) is NOISY[0]
    assert start_of({"a0": NOISY[0].model_copy(update={"iteration": 1})}) is None
    assert claim_of(NOISY[4], None, KNOWN, None).standing == "no start"


@pytest.mark.parametrize(
    ("low", "high", "decision", "words"),
    [
        (0.95, 1.20, "same", "could not tell the best from the start"),
        (1.07, 2.30, "same", "not sure of it"),
        (0.80, 0.95, "slower", "slower than the start"),
    ],
)
def test_what_is_not_confirmed_is_said_in_words_that_fit_its_interval(
    low: float, high: float, decision: Literal["same", "slower"], words: str
) -> None:
    ratio = (low * high) ** 0.5
    claim = Claim(standing="not confirmed", ratio=ratio, low=low, high=high, confidence=0.995, decision=decision)
    assert words in claim.sentence and claim.gain is None
