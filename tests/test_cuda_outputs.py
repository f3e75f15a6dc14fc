"""Where outputs lie on a GPU: the same for every evaluation, and never for two workers at once that take turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import cast

import pytest

from tools.cuda_outputs import OutputPool, Outputs


@dataclass(eq=False)
class Block:
    """In the place of what needs a device."""

    name: int
    told: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.told.append("cleared")

    def close(self) -> None:
        self.told.append("closed")


def pool() -> OutputPool:
    names = count()
    return OutputPool(lambda: cast("Outputs", (Block(next(names)),)))


def name(outputs: Outputs) -> int:
    return cast("Block", outputs[0]).name


def test_workers_that_are_alive_have_outputs_of_their_own() -> None:
    shared = pool()
    assert [name(shared.lend()) for _ in range(3)] == [0, 1, 2]


def test_what_is_given_back_is_lent_again_first() -> None:
    shared = pool()
    first, second = shared.lend(), shared.lend()
    shared.take_back(first)
    assert shared.lend() is first
    shared.take_back(second)
    assert shared.lend() is second


@pytest.mark.parametrize("racers", [1, 2])
def test_evaluations_get_the_same_outputs_and_racers_change_them(racers: int) -> None:
    shared = pool()
    seen = []
    for _ in range(3):
        lent = [shared.lend(number) for number in shared.changing()[: 2 * racers]]
        seen.append([name(each) for each in lent])
        for each in lent:
            shared.take_back(each)
    assert seen == [[0, 1, 1, 0][: 2 * racers]] * 3


def test_racers_get_none_that_another_worker_has() -> None:
    shared = pool()
    held = shared.lend()
    assert name(held) not in shared.changing()
    lent = [shared.lend(number) for number in shared.changing()]
    assert shared.lend() not in (held, *lent)


def test_one_of_two_holders_does_not_free_what_the_other_has() -> None:
    shared = pool()
    numbers = shared.changing()
    lent = [shared.lend(number) for number in numbers]
    shared.take_back(lent[0])
    assert name(shared.lend()) not in numbers


def test_nothing_of_what_they_held_is_left() -> None:
    shared = pool()
    for _ in range(2):
        outputs = shared.lend()
        shared.take_back(outputs)
    assert cast("Block", outputs[0]).told == ["cleared", "cleared"]
    shared.close()
    assert cast("Block", outputs[0]).told[-1] == "closed"
