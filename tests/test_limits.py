from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from agents.limits import (
    IDLE,
    STOP_WORDS,
    Clock,
    Gauge,
    StopReason,
    gauges,
    nearly_used,
    out_of_budget,
    reason_to_stop,
    time_left,
)
from agents.settings import DEFAULT_MODEL, Budgets, Models, RunSettings
from agents.state import NOTHING_SPENT, Spent, State, added
from agents.told import Told

UNBOUNDED = Budgets(iterations=10, near_limit=None, patience=None)
PAID = Spent(
    input_tokens=60,
    output_tokens=40,
    cached_tokens=10,
    reasoning_tokens=5,
    unpriced_tokens=0,
    dollars=2.0,
    device_seconds=5.0,
)


def state(**changes: Any) -> State:
    return State(iteration=3, stale=2) | changes  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"near_limit": 0.2}, "near_limit"),
        ({"near_limit": 0.1}, None),
        ({"dollars": 2.0}, "money"),
        ({"dollars": 2.1}, None),
        ({"tokens": 100}, "tokens"),
        ({"tokens": 101}, None),
        ({"wall_time": 7.0}, "wall_time"),
        ({"wall_time": 8.1}, "wall_time"),  # 3 iterations took 7 s: a fourth has no room in 1.1 s
        ({"wall_time": 8.2}, None),
        ({"device_time": 5.0}, "device_time"),
        ({"device_time": 5.1}, None),
        ({"iterations": 3}, "iterations"),
        ({"iterations": 4}, None),
        ({"patience": 2}, "patience"),
        ({"patience": 3}, None),
    ],
)
def test_each_budget_ends_the_run_when_it_is_reached_and_not_before(
    budget: dict[str, Any], reason: StopReason | None
) -> None:
    budgets = UNBOUNDED.model_copy(update=budget)
    assert reason_to_stop(state(), PAID, 0.85, 7.0, budgets) == reason


@pytest.mark.parametrize(
    ("budget", "gauge"),
    [
        ({"dollars": 2.5}, Gauge("money", 2.0, 2.5)),
        ({"dollars": 2.51}, None),
        ({"tokens": 125}, Gauge("tokens", 100, 125)),
        ({"tokens": 126}, None),
        ({"wall_time": 8.75}, Gauge("wall_time", 7.0, 8.75)),
        ({"wall_time": 8.76}, None),
        ({"device_time": 6.25}, Gauge("device_time", 5.0, 6.25)),
        ({"device_time": 6.26}, None),
        ({"iterations": 3}, None),  # the run ends
        ({"iterations": 4}, None),
        ({"patience": 2}, None),
        ({"patience": 3}, None),
    ],
)
def test_a_budget_is_nearly_used_up_from_four_fifths_of_it_on(budget: dict[str, Any], gauge: Gauge | None) -> None:
    found = gauges(state(), PAID, 7.0, UNBOUNDED.model_copy(update=budget))
    assert nearly_used(found) == ([] if gauge is None else [gauge])


@pytest.mark.parametrize(("done", "low"), [(7, False), (8, True), (9, True), (10, False)])
def test_iterations_and_patience_are_nearly_used_up_at_the_same_share(done: int, low: bool) -> None:
    budgets = UNBOUNDED.model_copy(update={"patience": 10})
    for counted, budget in (
        ({"iteration": done, "stale": 0}, "iterations"),
        ({"iteration": 0, "stale": done}, "patience"),
    ):
        found = nearly_used(gauges(state(**counted), NOTHING_SPENT, 0.0, budgets))
        assert [gauge.budget for gauge in found] == ([budget] if low else [])


def test_a_budget_that_was_told_of_is_told_of_again_only_when_its_limit_was_raised() -> None:
    told = Told()
    assert not told.told_low("tokens", 100)
    told.note_low(budget="tokens", used=85.0, limit=100, iteration=3)
    assert told.told_low("tokens", 100) and told.told_low("tokens", 106) and not told.told_low("tokens", 107)
    assert told.told_low("tokens", 100, before=4) and not told.told_low("tokens", 100, before=3)
    assert not told.told_low("money", 100)
    again = Told([{"event": "budget_low", "budget": "tokens", "used": 85.0, "limit": 100.0, "iteration": 3}])
    assert again.told_low("tokens", 100)


@pytest.mark.parametrize(("idle", "reason"), [(IDLE - 1, None), (IDLE, "idle")])
def test_iterations_that_tried_nothing_end_the_run_after_so_many_in_a_row(idle: int, reason: StopReason | None) -> None:
    assert reason_to_stop(state(idle=idle), NOTHING_SPENT, None, 0.0, UNBOUNDED) == reason


def test_without_an_accepted_kernel_nothing_is_near_the_limit() -> None:
    assert reason_to_stop(state(), PAID, None, 0.0, UNBOUNDED.model_copy(update={"near_limit": 0.99})) is None


def test_every_reason_has_words() -> None:
    assert set(STOP_WORDS) == set(get_args(StopReason))


def test_what_is_spent_adds_up() -> None:
    assert added(PAID, NOTHING_SPENT) == PAID
    assert added(PAID, PAID)["device_seconds"] == 10.0
    assert out_of_budget(added(PAID, PAID), 0.0, UNBOUNDED.model_copy(update={"tokens": 150})) == "tokens"


def test_time_left_is_the_earlier_bound() -> None:
    assert time_left(0, 0.0, UNBOUNDED) is None
    assert time_left(5, 50.0, UNBOUNDED) == 50.0
    assert time_left(5, 50.0, UNBOUNDED.model_copy(update={"wall_time": 60.0})) == 10.0
    assert time_left(5, 70.0, UNBOUNDED.model_copy(update={"wall_time": 60.0})) == 0.0


def test_the_clock_counts_on_from_earlier_work_and_leaves_out_what_was_outside() -> None:
    clock = Clock(before=100.0)
    assert clock.elapsed == 100.0, "it stands until the search begins"
    clock.start()
    assert 100.0 <= clock.elapsed < 101.0
    clock.begin_lap()
    clock.outside(1000.0)
    assert clock.lap_inside == 0.0


def test_one_model_serves_every_role_that_has_none_of_its_own() -> None:
    assert Models.choose() == Models(planner=DEFAULT_MODEL, coder=DEFAULT_MODEL, analyst=DEFAULT_MODEL)
    assert Models.choose("x:y", coder="a:b") == Models(planner="x:y", coder="a:b", analyst="x:y")


def test_settings_refuse_what_makes_no_sense() -> None:
    for wrong in ({"parallel": 0}, {"budgets": {"iterations": 0}}, {"budgets": {"near_limit": 1.5}}, {"surprise": 1}):
        with pytest.raises(ValidationError):
            RunSettings.model_validate(wrong)
