"""What may be varied, which point comes next, and the sweep: over a made-up landscape, then on the real machine."""

# ruff: noqa: ARG002 (a protocol names arguments that a stub does not need)

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stub_executor import StubExecutor

from tools.errors import InfrastructureError, KernelError
from tools.executor import LocalExecutor
from tools.records import Kernel, QuickResult
from tools.task import TaskSource
from tools.tune import Assignment, Seen, Space, apply, space_of, suggest, tune

SOURCE = "// tune: BLOCK = 16,32,64,128,256\n// tune: UNROLL = 1,2,4,8\n#ifndef BLOCK\n#define BLOCK 64\n#endif\n"
GROUPS = (((), ("-O3",), ("-O3", "-funroll-loops")), ((), ("-ffast-math",)))
KERNEL = Kernel(language="cpp", files={"kernel.cpp": SOURCE})
TASK = TaskSource(name="t", kind="numpy", entry="t.py", files={"t.py": ""})
SPACE = Space(
    tunables={"BLOCK": ("64", "16", "32", "128", "256"), "UNROLL": ("1", "2", "4", "8")},
    flags=GROUPS,
    start=Assignment(defines={"BLOCK": "64", "UNROLL": "1"}),
)


def cost(assignment: Assignment) -> float:
    """A landscape with one best point: BLOCK=128, UNROLL=4, -O3 -funroll-loops, -ffast-math."""
    block, unroll = (math.log2(int(assignment.defines[name])) for name in ("BLOCK", "UNROLL"))
    flags = 1.0 - 0.1 * ("-O3" in assignment.flags) - 0.05 * len(assignment.flags)
    return 1e-3 * (1 + abs(block - 7)) * (1 + 0.3 * abs(unroll - 2)) * flags


def walk(space: Space, steps: int, seed: int) -> list[tuple[Assignment, float | None]]:
    seen: list[tuple[Assignment, float | None]] = []
    while len(seen) < steps and (following := suggest(space, seen, seed)) is not None:
        seen.append((following, cost(following)))
    return seen


def test_the_start_comes_first_even_outside_the_listed_values() -> None:
    assert suggest(SPACE, [], 1) == SPACE.start
    odd = SPACE.model_copy(update={"start": Assignment(defines={"BLOCK": "77", "UNROLL": "1"})})
    assert suggest(odd, [], 1) == odd.start
    assert suggest(odd, [(odd.start, 1.0)], 1) != odd.start


def test_a_walk_is_deterministic_and_the_seed_matters() -> None:
    first = walk(SPACE, 15, 3)
    assert walk(SPACE, 15, 3) == first
    assert walk(SPACE, 15, 4) != first


def test_every_point_comes_once_and_then_none() -> None:
    small = SPACE.model_copy(update={"flags": GROUPS[1:]})
    seen = walk(small, 10_000, 0)
    assert len(seen) == small.size == 40
    assert len({assignment.key for assignment, _ in seen}) == 40
    assert suggest(small, seen, 0) is None


def test_the_search_beats_a_random_walk_of_the_same_length() -> None:
    found = sorted(min(seconds for _, seconds in walk(SPACE, 24, seed) if seconds is not None) for seed in range(5))
    points = product(*(range(size) for size in SPACE.axes.values()))
    everything = sorted(cost(SPACE.assignment(point)) for point in points)
    assert len(everything) == SPACE.size == 120
    assert found[2] <= everything[len(everything) // 25], "the median walk is among the best 4 % after 20 %"
    assert found[0] <= everything[1]


def test_failed_points_are_neither_repeated_nor_fatal() -> None:
    seen: list[tuple[Assignment, float | None]] = []
    for _ in range(20):
        following = suggest(SPACE, seen, 5)
        assert following is not None
        seen.append((following, None))
    assert len({assignment.key for assignment, _ in seen}) == 20


def test_pending_points_are_not_named_again() -> None:
    seen = walk(SPACE, 8, 0)
    pending: list[Assignment] = []
    for _ in range(6):
        following = suggest(SPACE, seen, 0, pending)
        assert following is not None
        pending.append(following)
    assert len({a.key for a in pending} | {a.key for a, _ in seen}) == 14


def test_a_space_too_large_to_list_is_searched() -> None:
    wide = Space(
        tunables={f"T{n}": tuple(map(str, range(9))) for n in range(7)},
        start=Assignment(defines={f"T{n}": "0" for n in range(7)}),
    )
    seen: Seen = []
    for _ in range(12):
        following = suggest(wide, seen, 2)
        assert following is not None
        seen = [*seen, (following, 1.0 + sum(map(int, following.defines.values())))]
    assert len({assignment.key for assignment, _ in seen}) == 12


def test_numbers_are_ordered_and_words_are_not() -> None:
    space = Space(tunables={"N": ("64", "8", "512"), "S": ("static", "dynamic")}, start=Assignment())
    assert space.tunables == {"N": ("8", "64", "512"), "S": ("static", "dynamic")}


def test_the_space_around_a_kernel_starts_at_the_kernel() -> None:
    kernel = KERNEL.model_copy(update={"defines": {"UNROLL": "4"}, "flags": ("-fno-exceptions", "-O3")})
    space = space_of(kernel, {"BLOCK": ("64", "16"), "UNROLL": ("1", "4")}, GROUPS)
    assert space.start == Assignment(defines={"BLOCK": "64", "UNROLL": "4"}, flags=("-O3",))
    changed = apply(kernel, space, Assignment(defines={"BLOCK": "16", "UNROLL": "1"}, flags=("-ffast-math",)))
    assert changed.defines == {"BLOCK": "16", "UNROLL": "1"}
    assert changed.flags == ("-fno-exceptions", "-ffast-math")


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_every_point_survives_the_way_to_settings_and_back(data: st.DataObject) -> None:
    point = tuple(data.draw(st.integers(0, size - 1)) for size in SPACE.axes.values())
    assert SPACE.point(SPACE.assignment(point)) == point


class Bench(StubExecutor):
    """Times by `cost`, on a machine that gets slower and slower: here the search is under test, not the machine."""

    def __init__(self, broken: frozenset[str] = frozenset()) -> None:
        super().__init__(lambda kernel: cost(Assignment(defines=kernel.defines, flags=kernel.flags)))
        self.broken = broken
        self.calls: list[tuple[int, bool]] = []

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        self.calls.append((len(kernels), incumbent is not None))
        return [self._result(kernel, incumbent) for kernel in kernels]

    def _result(self, kernel: Kernel, incumbent: Kernel | None) -> QuickResult:
        if kernel.defines["BLOCK"] in self.broken:
            return QuickResult(kernel=kernel.id, status="rejected", reason="wrong_result", message="wrong")
        seconds = self.seconds_of(kernel)
        rival = None if incumbent is None else self.seconds_of(incumbent)
        assert seconds is not None
        drift = 1.0 + 0.5 * len(self.calls)
        ratio = None if rival is None else rival / seconds
        return QuickResult(kernel=kernel.id, status="timed", seconds=drift * seconds, ratio=ratio)


async def test_a_sweep_finds_a_good_variant_however_the_machine_drifts() -> None:
    bench = Bench()
    report = await tune(bench, TASK, KERNEL, trials=30, groups=GROUPS, seed=1)
    assert report.kernel is not None
    assert report.kernel.files == KERNEL.files
    assert report.ratio is not None
    assert report.ratio > 2.0
    best_seen = min(cost(trial.assignment) for trial in report.trials)
    assert bench.seconds_of(report.kernel) == pytest.approx(best_seen)
    assert len(report.trials) == 30
    assert len(bench.calls) < 12, "many measurements a call"
    assert bench.calls[0] == (1, False)
    assert all(rival for _, rival in bench.calls[1:]), "all later variants race the start"


class Overlapping(Bench):
    """Answers a call only when the next one was asked for, or none comes."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = self.most = 0

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        for _ in range(20):
            await asyncio.sleep(0)
        if len(self.calls) == 2:
            raise InfrastructureError("the device is gone")
        results = await super().quick(task, kernels, incumbent)
        self.at_once -= 1
        return results


async def test_on_a_gpu_the_next_variants_are_asked_for_before_the_last_are_known() -> None:
    on_gpu = Kernel(language="cuda", files={"kernel.cu": SOURCE})
    bench = Bench()
    report = await tune(bench, TASK, on_gpu, trials=60, groups=GROUPS)
    assert [count for count, _ in bench.calls[:5]] == [1, 16, 16, 16, 11]
    keys = [trial.assignment.key for trial in report.trials]
    assert len(set(keys)) == len(keys) == 60, "what is under way is not asked for again"
    overlapping = Overlapping()
    with pytest.raises(InfrastructureError, match="gone"):
        await tune(overlapping, TASK, on_gpu, trials=60, groups=GROUPS)
    assert overlapping.most == 2
    assert len(asyncio.all_tasks()) == 1, "nothing is left under way"


async def test_wrong_variants_are_reported_with_their_reason_and_never_win() -> None:
    report = await tune(Bench(broken=frozenset({"128"})), TASK, KERNEL, trials=20, groups=GROUPS)
    assert report.kernel is not None
    assert report.kernel.defines["BLOCK"] != "128"
    wrong = [trial for trial in report.trials if trial.assignment.defines["BLOCK"] == "128"]
    assert wrong
    assert all(trial.reason == "wrong_result" and trial.seconds is None for trial in wrong)


async def test_a_sweep_of_wrong_variants_has_no_winner() -> None:
    report = await tune(Bench(broken=frozenset(SPACE.tunables["BLOCK"])), TASK, KERNEL, KERNEL, trials=8)
    assert (report.kernel, report.seconds, report.ratio) == (None, None, None)
    assert len(report.trials) == 8


async def test_a_small_space_is_exhausted_and_says_so() -> None:
    report = await tune(Bench(), TASK, KERNEL, trials=100)
    assert report.exhausted
    assert len(report.trials) == report.points == 20


async def test_a_kernel_that_declares_nothing_is_timed_once() -> None:
    plain = Kernel(language="cpp", files={"kernel.cpp": "int x;"}, defines={"BLOCK": "64", "UNROLL": "1"})
    report = await tune(Bench(), TASK, plain, trials=10)
    assert len(report.trials) == 1
    assert report.exhausted


async def test_a_malformed_declaration_is_an_error_with_its_line() -> None:
    broken = Kernel(language="cpp", files={"kernel.cpp": "int x;\n// tune: BLOCK 1,2\n"})
    with pytest.raises(KernelError, match=r"kernel\.cpp:2"):
        await tune(Bench(), TASK, broken)


REFERENCE = """
import numpy as np

def inputs(rng):
    return {"x": rng.standard_normal(1 << 18).astype(np.float32)}

def reference(x):
    return x * x + np.float32(1)
"""
SQUARES = """
#include "task.h"
// tune: REPEAT = 1,8,32
#ifndef REPEAT
#define REPEAT 8
#endif
extern "C" void solve(const task::Args& args, void*) {
    for (int round = 0; round < REPEAT; ++round) {
        for (int64_t i = 0; i < args.x_size; ++i) args.out[i] = args.x[i] * args.x[i] + 1.0f;
        asm volatile("" ::: "memory");
    }
}
"""


async def test_on_the_real_machine_the_sweep_finds_the_variant_that_does_less() -> None:
    task = TaskSource(name="squares", kind="numpy", entry="squares.py", files={"squares.py": REFERENCE})
    kernel = Kernel(language="cpp", files={"kernel.cpp": SQUARES})
    async with LocalExecutor() as executor:
        report = await tune(executor, task, kernel, trials=3)
    assert [trial.message for trial in report.trials if trial.reason] == []
    assert report.exhausted
    assert report.kernel is not None
    assert report.kernel.defines == {"REPEAT": "1"}
    assert report.ratio is not None
    assert report.ratio > 1.5
