"""A run's time at work, as its events tell it, at any moment of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.compare import contender
from app.compare_time import WorkTime
from memory.runs import RunFolder
from tests.synthetic_run import make_run

START = 1_800_000_000  # 2027-01-15T08:00:00Z


def told(second: int, event: str, **fields: Any) -> dict[str, Any]:
    return {"event": event, "time": f"2027-01-15T08:{second // 60:02d}:{second % 60:02d}Z"} | fields


def steered(second: int, action: str, **about: Any) -> dict[str, Any]:
    return told(second, "steered", id=f"s{second}", action=action, iteration=1, about=about)


BEGUN = [told(0, "run_started"), told(4, "task_opened"), told(10, "iteration_started", iteration=1)]
WAITS = told(12, "plan_waits", iteration=1, hypotheses=[])


def times(events: list[dict[str, Any]], *seconds: int) -> list[float | None]:
    return [WorkTime(events).at(START + second) for second in seconds]


def test_a_run_without_events_has_no_clock() -> None:
    assert WorkTime([]).total == 0.0 and times([], 0) == [None]


def test_opening_the_task_and_judging_the_start_are_no_time_at_work() -> None:
    assert times(BEGUN, -5, 0, 9, 10, 13) == [None, 0, 0, 0, 3]


@pytest.mark.parametrize(
    ("held", "on"),
    [
        (WAITS, steered(40, "approve", decided=1)),
        (WAITS, steered(40, "plan", decided=1)),
        (WAITS, steered(40, "reject", decided=1)),
        (WAITS, steered(40, "approval", on=False)),
        (WAITS, steered(40, "accept")),
        (WAITS, steered(40, "stop")),
        (steered(12, "pause"), steered(40, "resume")),
    ],
)
@pytest.mark.parametrize("ends", [{}, {"elapsed": 7.0}])
def test_the_clock_stands_while_the_run_waits_for_a_person(held: Any, on: Any, ends: Any) -> None:
    events = [*BEGUN, held, on, told(45, "iteration_ended", iteration=1, **ends)]
    assert times(events, 11, 12, 30, 40, 43, 45) == [1, 2, 2, 2, 5, 7] and WorkTime(events).total == 7


def test_a_kernel_by_hand_is_judged_on_a_clock_that_stands() -> None:
    events = [*BEGUN, WAITS, told(30, "attempt_judged", attempt="a1"), steered(31, "edit"), steered(40, "stop")]
    assert times([*events, told(50, "run_ended", elapsed=12.0)], 30, 50) == [2, 12]


def test_what_an_event_says_of_the_clock_holds_and_no_event_is_later_than_the_next() -> None:
    events = [
        *BEGUN,
        told(30, "iteration_ended", elapsed=15.0),
        told(40, "model_called"),
        told(50, "run_ended", elapsed=25.5),
    ]
    work = WorkTime(events)
    assert [work.at(START + s) for s in (30, 40, 50, 900)] == [15, 15.5, 25.5, 25.5]
    found = [work.at(START + s) or 0.0 for s in range(60)]
    assert found == sorted(found) and found[-1] == work.total == 25.5


@pytest.mark.parametrize("end", [[], [told(700, "run_ended", elapsed=120.0)]])
def test_a_resumed_run_goes_on_where_its_clock_was_last_told(end: list[dict[str, Any]]) -> None:
    """The ten seconds of an iteration that a kill cut off are on no clock."""
    killed = [*BEGUN, told(40, "iteration_ended", elapsed=30.0), told(50, "attempt_judged", attempt="a2")]
    again = [told(600, "run_resumed"), told(610, "task_opened"), told(640, "attempt_judged", attempt="a3")]
    assert times([*killed, *again, *end], 40, 50, 300, 605, 610, 620, 640) == [30, 30, 30, 30, 30, 40, 60]


def test_an_end_in_order_stops_the_clock_until_the_run_is_resumed() -> None:
    events = [*BEGUN, told(40, "run_ended", elapsed=30.0), told(41, "run_paused"), told(90, "exported")]
    assert times(events, 60, 100) == [30, 30]
    assert times([*events, told(100, "run_resumed"), told(101, "task_opened"), told(105, "model_called")], 106) == [35]


def test_no_moment_of_a_compared_run_is_later_than_its_time_at_work(tmp_path: Path) -> None:
    made = make_run(tmp_path)  # judged at the seconds 0 to 23
    lines = [told(0, "run_started", models={}), told(0, "iteration_started", iteration=1)]
    lines += [told(2, "plan_waits", iteration=1, hypotheses=[]), steered(20, "approve", decided=1)]
    lines += [told(24, "run_ended", elapsed=6.0)]
    (made.path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = made.outcome()
    assert outcome is not None
    made.write_outcome(outcome | {"elapsed": 6.0})
    found = contender(RunFolder(made.path))
    assert [m.elapsed for m in found.curve] == [0.0, 1.0, *[2.0] * 19, 3.0, 4.0, 5.0]
    assert (found.elapsed, found.best, found.best_after_seconds) == (6.0, "a21", 3.0)
