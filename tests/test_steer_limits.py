"""Limits as a person writes them: what is none of them is said at once, and in the person's terms."""

from __future__ import annotations

import pytest

from agents.settings import Budgets
from agents.steering_actions import SetBudget
from agents.steering_limits import with_limits
from app.steer_words import action_of
from tools.errors import WarpsmithError


@pytest.mark.parametrize("name", Budgets.model_fields)
def test_none_lifts_a_limit_or_says_which_it_lifts(name: str) -> None:
    words = ["budget", f"{name}=none"]
    if name != "iterations":
        assert action_of(words) == SetBudget(limits={name: None}) and with_limits(Budgets(), {name: None})
        return
    with pytest.raises(WarpsmithError) as failure:
        action_of(words)
    assert failure.value.message == "a run has to have a limit of iterations"
    others = "near_limit, patience, dollars, tokens, wall_time and device_time"
    assert failure.value.advice == f"Give a larger number. `none` lifts {others}."


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("iterations=0", "iterations can't be 0. It takes a whole number from 1."),
        ("patience=-3", "patience can't be -3. It takes a whole number from 1."),
        ("tokens=0", "tokens can't be 0. It takes a whole number from 1."),
        ("dollars=0", "dollars can't be 0. It takes a number above 0."),
        ("dollars=nan", "dollars can't be nan. It takes a number above 0."),
        ("near_limit=120", "near_limit can't be 120 %. It takes a percentage above 0 and below 100."),
        ("near_limit=-5%", "near_limit can't be -5 %. It takes a percentage above 0 and below 100."),
        ("device_time=0s", "budget is not written like that: 0s is no amount. Write: budget NAME=VALUE…"),
        ("dollars=much", "budget is not written like that: much is no amount. Write: budget NAME=VALUE…"),
        ("dollar=5", "budget is not written like that: dollar=5 is no limit; there are iterations, near_limit"),
    ],
)
def test_what_is_no_limit_is_said_as_it_was_written(word: str, said: str) -> None:
    with pytest.raises(WarpsmithError) as failure:
        action_of(["budget", word])
    assert str(failure.value).startswith(said)


def test_a_command_that_was_written_by_a_program_is_answered_alike() -> None:
    for limits in ({"iterations": None}, {"tokens": 1.5}):
        with pytest.raises(WarpsmithError, match=r"has to have a limit|can't be 1\.5"):
            with_limits(Budgets(), limits)
