"""What `make soak` calls flat."""

from __future__ import annotations

from random import Random

import pytest

from bench.soak import ALLOWED, BLOCKS, allowed, least_by_block, rise_of

HALF_AN_HOUR = 1800.0


def seen(held: float, leak: float = 0.0, seed: int = 0, busy: float = 0.6) -> list[tuple[float, float]]:
    """Samples of half an hour: what is held for good, and in `busy` of all moments up to 30 more for a while. leak:
    what is held more at the end."""
    random = Random(seed)
    times = [HALF_AN_HOUR + 2.5 * i for i in range(720)]
    more = [random.choice((3, 8, 30)) if random.random() < busy else 0 for _ in times]
    return [(t, held + int(leak * (t - HALF_AN_HOUR) / HALF_AN_HOUR) + m) for t, m in zip(times, more, strict=True)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ALLOWED)
def test_what_comes_and_goes_is_flat_and_what_is_never_given_back_is_not(name: str, seed: int) -> None:
    flat = least_by_block(seen(100, seed=seed), BLOCKS)
    assert rise_of(flat) <= allowed(name, flat)
    rising = least_by_block(seen(100, leak=2 + 2 * allowed(name, flat), seed=seed), BLOCKS)
    assert rise_of(rising) > allowed(name, rising)


def test_a_few_odd_blocks_move_nothing() -> None:
    blocks = [(float(i), 50.0) for i in range(BLOCKS)]
    for i in (3, 9, BLOCKS - 1):
        blocks[i] = (float(i), 500.0)
    assert rise_of(blocks) == 0.0


def test_what_was_hardly_seen_has_no_blocks() -> None:
    assert least_by_block([], BLOCKS) == [] == least_by_block([(1.0, 2.0)], BLOCKS)
