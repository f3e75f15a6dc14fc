"""What may be varied in a kernel, and which point to try next.

`suggest` is pure: the same space, history and seed give the same next point. It measures nothing.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Final, TypeAlias

from pydantic import Field, field_validator

from tools.records import Kernel, Record
from tools.targets.base import FlagGroup

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

ENUMERABLE: Final = 4096
"""Spaces up to this size are listed to find an unseen point; larger ones are sampled."""
ASKS: Final = 4
"""How often the sampler may name a known point before the nearest unseen one is taken instead."""
MOST_LISTED: Final = 65_536
"""Points of a large space that are looked through for one that is allowed, once a sample held none."""
HISTORY: Final = 96
"""A longer history is thinned to so many points before it is learnt from."""

Point: TypeAlias = tuple[int, ...]
"""One index into the values of each axis, in the order of `Space.axes`."""


class Assignment(Record):
    """One point of a space: a value for every tunable and an alternative of every flag group."""

    defines: dict[str, str] = Field(default_factory=dict)
    flags: tuple[str, ...] = ()
    """The chosen alternatives of all groups, joined in the order of the groups."""

    @property
    def key(self) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        """Hashable, and equal for equal points whatever the order of `defines`."""
        return tuple(sorted(self.defines.items())), self.flags


class Space(Record):
    """What may be varied. One-valued axes are allowed and cost nothing."""

    tunables: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Name to values; numbers are kept in rising order, so that the search can follow a trend."""
    flags: tuple[FlagGroup, ...] = ()
    """Groups of alternatives, each a tuple of flags; as `Target.tunable_flags`."""
    start: Assignment
    """The configuration to measure first; it may lie outside the listed values."""

    @field_validator("tunables")
    @classmethod
    def _numbers_rise(cls, tunables: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {name: tuple(sorted(v, key=int)) if _numeric(v) else v for name, v in tunables.items()}

    @property
    def axes(self) -> dict[str, int]:
        """Axis name to its number of values: tunables first, then flag groups (`flags:0`, `flags:1`, …)."""
        tunables = {name: len(values) for name, values in self.tunables.items()}
        return tunables | {f"flags:{i}": len(group) for i, group in enumerate(self.flags)}

    @property
    def size(self) -> int:
        """How many different points the axes span (without a start that lies outside)."""
        return math.prod(self.axes.values())

    def assignment(self, point: Point) -> Assignment:
        values = dict(zip(self.axes, point, strict=True))
        defines = {name: options[values[name]] for name, options in self.tunables.items()}
        flags = tuple(flag for i, group in enumerate(self.flags) for flag in group[values[f"flags:{i}"]])
        return Assignment(defines=defines, flags=flags)

    def point(self, assignment: Assignment) -> Point | None:
        """The indices of `assignment`, or None when one of its values is not listed."""
        indices: list[int] = []
        for name, options in self.tunables.items():
            if assignment.defines.get(name) not in options:
                return None
            indices.append(options.index(assignment.defines[name]))
        for group in self.flags:
            fitting = [i for i, alternative in enumerate(group) if set(alternative) <= set(assignment.flags)]
            if not fitting:
                return None
            indices.append(max(fitting, key=lambda i: len(group[i])))
        return tuple(indices)


Seen: TypeAlias = Sequence[tuple[Assignment, float | None]]
"""Points already tried with their seconds (or any cost that is smaller when better); None = it failed."""


def space_of(kernel: Kernel, tunables: Mapping[str, tuple[str, ...]], groups: Sequence[FlagGroup]) -> Space:
    """The space around `kernel`: its declared `tunables` (the default first) and the target's flag `groups`.

    The start is the kernel as it stands: its defines, else the defaults; its own flags where they are in a group.
    """
    defines = {name: kernel.defines.get(name, values[0]) for name, values in tunables.items()}
    in_groups = {flag for group in groups for alternative in group for flag in alternative}
    start = Assignment(defines=defines, flags=tuple(flag for flag in kernel.flags if flag in in_groups))
    return Space(tunables=dict(tunables), flags=tuple(groups), start=start)


def apply(kernel: Kernel, space: Space, assignment: Assignment) -> Kernel:
    """`kernel` built with `assignment`; flags of the kernel that belong to no group of `space` stay."""
    in_groups = {flag for group in space.flags for alternative in group for flag in alternative}
    kept = tuple(flag for flag in kernel.flags if flag not in in_groups)
    defines = {**kernel.defines, **assignment.defines}
    return kernel.model_copy(update={"defines": defines, "flags": kept + assignment.flags})


def suggest(
    space: Space,
    seen: Seen,
    seed: int,
    pending: Sequence[Assignment] = (),
    allowed: Callable[[Assignment], bool] | None = None,
) -> Assignment | None:
    """The next point worth measuring, or None when every point that is `allowed` is in `seen` or `pending`; of a space
    larger than `ENUMERABLE` also when no allowed one was found among many.

    The start comes first, then Optuna's tree-structured Parzen estimator over what was measured. Deterministic in its
    arguments; never names a point twice. A failed point counts as twice as slow as the slowest measured one, a pending
    one as no better than what is known. Its cost does not grow with the history once that has `HISTORY` points.
    """
    known = [*(assignment for assignment, _ in seen), *pending]
    taken = {point for assignment in known if (point := space.point(assignment)) is not None}
    is_new = space.start.key not in {assignment.key for assignment in known} and space.point(space.start) not in taken
    if is_new and (allowed is None or allowed(space.start)):
        return space.start
    if allowed is not None and space.size <= ENUMERABLE:
        taken |= {point for point in _all_points(space) if not allowed(space.assignment(point))}
    if len(taken) >= space.size:
        return None
    study = _study(space, seen, seed, pending)
    distributions = _distributions(space)
    asked: Point = ()
    for _ in range(ASKS):
        trial = study.ask(distributions)
        asked = tuple(int(trial.params[name]) for name in space.axes)
        if asked not in taken and (allowed is None or allowed(space.assignment(asked))):
            return space.assignment(asked)
    nearest = _nearest_unseen(space, asked, taken, seed, allowed or (lambda _: True))
    return None if nearest is None else space.assignment(nearest)


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    """Numeric tunables keep their order as an integer index; words and flag groups have none."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    return {
        name: IntDistribution(0, size - 1)
        if name in space.tunables and _numeric(space.tunables[name])
        else CategoricalDistribution(tuple(range(size)))
        for name, size in space.axes.items()
    }


def _numeric(values: Sequence[str]) -> bool:
    return all(value.removeprefix("-").isdecimal() for value in values)


def _study(space: Space, seen: Seen, seed: int, pending: Sequence[Assignment]) -> Study:
    """An in-memory study that has lived through the best and the latest of `seen`."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=min(10, 2 + 2 * len(space.axes)),
            multivariate=True,
            constant_liar=True,
            seed=(seed * 1_000_003 + len(seen) + 1009 * len(pending)) % 2**32,
        )
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(sampler=sampler)
    finally:
        optuna.logging.set_verbosity(level)
    distributions = _distributions(space)
    worst = max((seconds for _, seconds in seen if seconds is not None), default=1.0)
    told = [(assignment, math.log(seconds or 2 * worst)) for assignment, seconds in _remembered(seen)]
    for assignment, value in [*told, *((assignment, None) for assignment in pending)]:
        point = space.point(assignment)
        if point is not None:
            state = optuna.trial.TrialState.RUNNING if value is None else optuna.trial.TrialState.COMPLETE
            params = dict(zip(space.axes, point, strict=True))
            study.add_trial(
                optuna.trial.create_trial(state=state, value=value, params=params, distributions=distributions)
            )
    return study


def _remembered(seen: Seen) -> Seen:
    """All of a short history; of a long one the best half of `HISTORY` and the latest."""
    if len(seen) <= HISTORY:
        return seen
    order = sorted(range(len(seen)), key=lambda i: math.inf if (s := seen[i][1]) is None else s)
    kept = {*order[: HISTORY // 2], *range(len(seen) - HISTORY // 2, len(seen))}
    return [seen[i] for i in sorted(kept)]


def _nearest_unseen(
    space: Space, asked: Point, taken: set[Point], seed: int, allowed: Callable[[Assignment], bool]
) -> Point | None:
    """The unseen point that differs from `asked` in the fewest axes and steps; None when none was found."""
    near = _all_points(space) if space.size <= ENUMERABLE else _random_points(space, asked, seed)
    unseen = [point for point in near if point not in taken and allowed(space.assignment(point))]
    if not unseen:
        listed = islice(_all_points(space), len(taken) + MOST_LISTED)
        return next((point for point in listed if point not in taken and allowed(space.assignment(point))), None)
    return min(unseen, key=lambda point: (_distance(point, asked), point))


def _distance(a: Point, b: Point) -> tuple[int, int]:
    return sum(x != y for x, y in zip(a, b, strict=True)), sum(abs(x - y) for x, y in zip(a, b, strict=True))


def _all_points(space: Space) -> Iterator[Point]:
    return product(*(range(size) for size in space.axes.values()))


def _random_points(space: Space, around: Point, seed: int) -> Iterator[Point]:
    """`around`'s one-axis neighbours, then a sample of the whole space."""
    sizes = list(space.axes.values())
    for axis, size in enumerate(sizes):
        for value in range(size):
            yield (*around[:axis], value, *around[axis + 1 :])
    draw = random.Random(seed)
    for _ in range(ENUMERABLE):
        yield tuple(draw.randrange(size) for size in sizes)
