"""Predictions read and held to what was measured, and changes recognised that were tried before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic_run import make_run

from agents import reflection
from agents.ideas import kind_of, same_change, tried_before
from agents.predictions import Prediction, read_prediction
from agents.reflection import score
from app.report import render
from memory.ledger import Outcome
from memory.runs import Attempt, RunFolder

SOURCE = "// tune: BLOCK = 16,32,64\n#ifndef BLOCK\n#define BLOCK 16\n#endif\nvoid solve() {}\n"


def attempt(
    number: int,
    outcome: Outcome = "kept",
    seconds: float | None = 1.0,
    *,
    parent: str | None = "a0",
    kernel: dict[str, Any] | None = None,
    **hypothesis: Any,
) -> Attempt:
    said = {"idea": "i", "change": "c", "metric": "seconds", "expected": "-20 %", "parent": parent, "kind": "other"}
    return Attempt(
        id=f"a{number}",
        parent=parent,
        iteration=number,
        kernel_id=f"k{number}",
        kernel={"language": "cpp", "files": {"kernel.cpp": SOURCE}, "defines": {}, "flags": []} | (kernel or {}),
        hypothesis=said | hypothesis if number else None,
        change="-O3",
        outcome=outcome,
        seconds=seconds,
        share_of_limit=None if seconds is None else 0.5 / seconds,
        speedup=None if seconds is None else 2 / seconds,
        judged_at=0.0,
        device_seconds=0.1,
    )


def profile(**metrics: float) -> dict[str, Any]:
    return {
        "metrics": [{"name": name, "value": value, "unit": "%", "source": "ncu"} for name, value in metrics.items()]
    }


@pytest.mark.parametrize(
    ("expected", "metric", "direction", "relative"),
    [
        ("-20 %", "seconds", -1, -0.2),
        ("−20%", "seconds", -1, -0.2),  # noqa: RUF001
        ("- 20 %", "seconds", -1, -0.2),
        ("+5 to +15 %", "dram throughput", 1, 0.1),
        ("-5..-10%", "seconds", -1, -0.075),
        ("up to 20 % less", "seconds", -1, -0.2),
        ("25% faster", "seconds", -1, -0.2),
        ("25% faster", "throughput", 1, 0.25),
        ("2x faster", "seconds", -1, -0.5),
        ("1.5x", "occupancy", 1, 0.5),
        ("from 30 % to 60 %", "occupancy", 1, 1.0),
        ("40 -> 10", "bank conflicts", -1, -0.75),
        ("halved", "registers", -1, -0.5),
        ("unchanged", "registers", 0, None),
        ("less than the best", "seconds", -1, None),
        ("drops below 0.8 ms", "seconds", -1, None),
        ("somewhat different", "seconds", None, None),
        ("", "seconds", None, None),
    ],
)
def test_predictions_are_read(expected: str, metric: str, direction: int | None, relative: float | None) -> None:
    found = read_prediction(expected, metric)
    assert found.direction == direction
    assert found.relative == (None if relative is None else pytest.approx(relative))


def test_a_target_becomes_a_movement_once_the_start_is_known() -> None:
    target = read_prediction(">= 90 %", "dram throughput")
    assert (target.direction, target.relative) == (None, None)
    assert target.toward(60.0) == Prediction(1, pytest.approx(0.5))
    assert target.toward(0.6) == Prediction(1, pytest.approx(0.5))


def test_a_time_is_held_to_its_prediction() -> None:
    right = score(attempt(1, seconds=0.83), attempt(0), None, None)
    assert right.direction_right is True and right.magnitude_error == pytest.approx(0.03) and right.words == "-17%"
    wrong = score(attempt(1, "slower", 1.2), attempt(0), None, None)
    assert wrong.direction_right is False and wrong.magnitude_error == pytest.approx(0.4)
    unmoved = score(attempt(1, "same", 1.004), attempt(0), None, None)
    assert unmoved.direction_right is False and unmoved.words == "+0.4%"


def test_a_profile_metric_is_held_to_its_prediction_when_both_were_profiled() -> None:
    tried = attempt(1, seconds=0.9, metric="DRAM throughput", expected="+50 %")
    found = score(tried, attempt(0), profile(dram_throughput=60.0), profile(dram_throughput=40.0))
    assert found.direction_right is True and found.magnitude_error == pytest.approx(0) and found.words == "+50%"
    alone = score(tried, attempt(0), profile(dram_throughput=60.0), None)
    assert (alone.direction_right, alone.words) == (None, "")
    ambiguous = attempt(1, metric="throughput", expected="+50 %")
    both = profile(dram_throughput=60.0, l2_throughput=20.0)
    assert score(ambiguous, attempt(0), both, both).after is None


@pytest.mark.parametrize(("outcome", "parent"), [("rejected", attempt(0)), ("kept", attempt(0, "rejected", None))])
def test_what_was_not_measured_is_not_scored(outcome: Outcome, parent: Attempt) -> None:
    tried = attempt(1, outcome, None if outcome == "rejected" else 1.0)
    found = score(tried, parent, None, None)
    assert (found.direction_right, found.magnitude_error, found.words) == (None, None, "")


def test_hit_rates_count_each_hypothesis_once_by_its_best_attempt(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "t", {})
    tries = [
        attempt(0, seconds=1.0),
        attempt(1, "rejected", None, change="tile it", kind="tiling"),
        attempt(2, "kept", 0.8, change="tile it", kind="tiling"),
        attempt(3, "slower", 1.5, change="use float4 loads"),
        attempt(4, "same", 1.0, change="BLOCK=32"),
    ]
    tries[2] = tries[2].model_copy(update={"iteration": 1})
    for each in tries:
        run.add_attempt(each, {"kernel.cpp": SOURCE}, {"status": "accepted"})
    reflection.score_iteration(run, tries)
    rates = {rate.kind: rate for rate in reflection.hit_rates(RunFolder(run.path))}
    assert set(rates) == {"tiling", "vectorization", "flags"}
    assert (rates["tiling"].tried, rates["tiling"].gained, rates["tiling"].right) == (1, 1, 1)
    assert rates["tiling"].typical_error == pytest.approx(0)
    assert (rates["vectorization"].scored, rates["vectorization"].right) == (1, 0)


def test_a_score_once_written_stands(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "t", {})
    for each in (attempt(0), attempt(1, seconds=0.5, metric="occupancy", expected="2x")):
        run.add_attempt(each, {"kernel.cpp": SOURCE}, {"status": "accepted"})
    reflection.score_iteration(run, run.attempts())
    before = run.scores()
    for name in ("a0", "a1"):
        run.add_profile(name, profile(occupancy=30.0))
    reflection.score_iteration(run, run.attempts())
    assert run.scores() == before == RunFolder(run.path).scores() and set(before) == {"a1"}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("Stage the A tile in shared memory", "tiling"),
        ("Load with float4", "vectorization"),
        ("Pad rows by one word against bank conflicts", "memory_layout"),
        ("BLOCK=128 -O3", "flags"),
        ("Two-stage cp.async pipeline", "prefetching"),
        ("Unroll the inner loop by 4", "unrolling"),
        ("Do it better", "other"),
    ],
)
def test_a_kind_that_nobody_named_is_read_from_the_change(change: str, kind: str) -> None:
    assert kind_of({"change": change}) == kind
    assert kind_of({"change": change, "kind": "algorithm"}) == "algorithm"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("Stage the A tile in shared memory.", "stage A tiles in shared memory", True),
        ("Unroll by 4", "Unroll by 8", False),
        ("BLOCK=64 -O3", "-O3 BLOCK=64", True),
        ("BLOCK=64", "BLOCK=128", False),
        ("BLOCK=64", "set the block to 64", False),
        ("Use float4 loads", "Use shared memory", False),
        ("The the", "of a", False),
        ("填充 B 的行", "填充 b 的行", True),
        ("填充 B 的行", "展开 B 的循环", False),
        ("Заполнить строки B", "Развернуть цикл по B", False),
    ],
)
def test_the_same_change_in_other_words_is_the_same(a: str, b: str, same: bool) -> None:
    assert same_change(a, b) is same_change(b, a) is same


def test_a_change_is_only_a_repeat_on_the_same_parent() -> None:
    tries = [attempt(0), attempt(1, "slower", change="Use float4 loads"), attempt(2, "unjudged", change="Pad the rows")]
    assert tried_before("use float4 loads", "a0", tries) == tries[1]
    assert tried_before("use float4 loads", "a1", tries) is None
    assert tried_before("pad rows", "a0", tries) is None
    again = [*tries, attempt(3, "kept", change="use float4 loads"), attempt(4, "slower", change="float4 loads")]
    assert tried_before("Use float4 loads!", "a0", again) == again[3]


def test_a_change_that_was_built_on_another_attempt_was_tried_on_both() -> None:
    tries = [attempt(0), attempt(1), attempt(2, "rejected", change="Use float4 loads")]
    tries[2] = tries[2].model_copy(update={"parent": "a1"})
    for parent in ("a0", "a1"):
        assert tried_before("use float4 loads", parent, tries) == tries[2]


def test_settings_are_compared_as_the_kernel_that_they_make() -> None:
    tries = [
        attempt(0, kernel={"defines": {"BLOCK": "32"}, "flags": ["-O2"]}),
        attempt(1, "slower", kernel={"flags": ["-O3"]}, change="whatever"),
        attempt(2, "rejected", kernel={"files": {"kernel.cpp": SOURCE + "//"}, "flags": ["-O1"]}),
    ]
    assert tried_before("BLOCK=16 -O3", "a0", tries) == tries[1], "16 is what the source declares first"
    assert tried_before("BLOCK=64 -O3", "a0", tries) is None
    assert tried_before("BLOCK=16 -O1", "a0", tries) is None, "that was another source"
    assert tried_before("BLOCK=16", "a0", tries) is None, "with the parent's -O2, or with no flag: neither was tried"
    both = [*tries, attempt(3, kernel={"flags": ["-O2"]}), attempt(4)]
    assert tried_before("BLOCK=16", "a0", both) is not None


def test_the_report_shows_how_each_kind_fared(tmp_path: Path) -> None:
    page = render(make_run(tmp_path))
    assert "Which ideas came true" in page and "moved as predicted" in page
