"""The gauntlet on a small task: honest kernels pass and are timed, others fail where and why they should."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import HONEST, SLOW, WORKLOADS, WRONG, cpp, saxpy

from tools import content as content_module
from tools.clock import Clocks, Reading
from tools.errors import KernelError, TaskError
from tools.judge import Judge, load_task, open_task
from tools.measure import LOOK_CONFIDENCE
from tools.process import descendants
from tools.records import STAGES, Accepted, Comparison, Rejected, Unjudged
from tools.task import WorkloadSpec


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_task(saxpy()) as opened:
        yield opened


def test_facts_hold_what_is_known_before_any_kernel_runs(judge: Judge) -> None:
    facts = judge.facts
    assert [(w.workload, w.weight) for w in facts.workloads] == [("even", 2.0), ("odd", 1.0)]
    even = facts.workloads[0]
    assert even.inputs == ("x: float32[20000]", "y: float32[20000]")
    assert even.bytes == 3 * 20_000 * 4
    assert even.flops == 40_000
    assert 0 < even.limit_seconds < even.baseline_seconds
    assert even.baseline_interval.low <= even.baseline_seconds <= even.baseline_interval.high
    assert "struct Args" in facts.header
    assert facts.sandbox


def test_an_honest_kernel_passes_every_stage_in_order(judge: Judge) -> None:
    verdict = judge.evaluate(cpp(HONEST))
    assert isinstance(verdict, Accepted), verdict
    assert [stage.stage for stage in verdict.stages] == [stage for stage in STAGES if stage != "open"]
    assert all(stage.passed for stage in verdict.stages)
    assert verdict.comparison is None
    assert 0 <= verdict.worst_error <= 1
    for timing in verdict.timings:
        assert 0.5 * timing.limit_seconds < timing.seconds < 0.1
        assert timing.interval.low <= timing.seconds <= timing.interval.high
        assert timing.samples >= 5
    correct = verdict.stages[2].details
    assert {"even/given", "odd/given"} <= set(correct["checked"])  # type: ignore[arg-type]
    timed = verdict.stages[5].details
    assert timed["calls_checked"] > 0  # type: ignore[operator]


def test_a_kernel_that_does_not_build_is_told_before_the_task_is_opened() -> None:
    seen: list[str] = []
    with load_task(saxpy(), progress=seen.append) as judge:
        assert judge.build(cpp(HONEST)).built
        assert [result.reason for result in judge.quick([cpp("int x = ;")])] == ["compile_error"]
        rejected = judge.evaluate(cpp("int x = ;"))
        assert isinstance(rejected, Rejected) and rejected.reason == "compile_error"
        assert not {"audit", "hardware", "baseline"} & set(seen)
        for opens in (True, False):
            stages = judge.evaluate(cpp(WRONG)).stages
            assert [stage.stage for stage in stages] == ["screen", "build", *["open"] * opens, "correct"]
            if opens:
                assert set(stages[2].details) == {"audit", "hardware", "baseline"}
                assert 0 < sum(stages[2].details.values()) <= stages[2].seconds  # type: ignore[arg-type]


def test_a_task_that_could_not_be_opened_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with load_task(saxpy()) as judge:
        with monkeypatch.context() as patch:
            patch.setattr("tools.baseline.median_interval", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                judge.open()
        assert judge.open() and not judge.open()
        assert judge.evaluate(cpp(HONEST)).status == "accepted"


def test_one_wrong_element_is_found_and_named(judge: Judge) -> None:
    verdict = judge.evaluate(cpp(WRONG))
    assert isinstance(verdict, Rejected)
    assert (verdict.stage, verdict.reason) == ("correct", "wrong_result")
    assert verdict.mismatch is not None
    assert verdict.mismatch.index == (1234,)
    assert verdict.mismatch.wrong == 1
    assert "1234" in verdict.message
    assert [stage.stage for stage in verdict.stages] == ["screen", "build", "correct"]


def test_a_faster_kernel_wins_and_a_slower_one_does_not(judge: Judge) -> None:
    verdict = judge.evaluate(cpp(HONEST), incumbent=cpp(SLOW))
    assert isinstance(verdict, Accepted), verdict
    assert verdict.comparison is not None
    assert verdict.comparison.decision == "faster"
    assert verdict.comparison.ratio > 2
    assert all(timing.incumbent_seconds is not None for timing in verdict.timings)
    back = judge.evaluate(cpp(SLOW), incumbent=cpp(HONEST))
    assert isinstance(back, Accepted), back
    assert back.comparison is not None
    assert back.comparison.decision == "slower"
    assert "memory-safe" not in [stage.stage for stage in back.stages]  # it would not become the best


def test_a_kernel_does_not_beat_itself(judge: Judge) -> None:
    for turn in range(3):
        verdict = judge.evaluate(cpp(HONEST + f"// {turn}\n"), incumbent=cpp(HONEST))
        assert isinstance(verdict, Accepted), verdict
        assert verdict.comparison is not None
        assert verdict.comparison.decision != "faster"


def test_a_final_evaluation_times_the_baseline_too(judge: Judge) -> None:
    verdict = judge.evaluate(cpp(HONEST), final=True)
    assert isinstance(verdict, Accepted), verdict
    bases = [timing.baseline_seconds for timing in verdict.timings]
    assert all(base > 0 for base in bases)
    assert bases != judge.baseline_seconds


def test_a_last_measurement_races_the_start_in_both_sessions_and_tells_each_workload(judge: Judge) -> None:
    """One workload got faster by far and the other slower by far, which the mean over both does not say."""
    before, after = (SLOW.replace("600", f"(args.x_size > 10000 ? {turns})") for turns in ("600 : 1", "1 : 600"))
    verdict = judge.evaluate(cpp(after), incumbent=cpp(before), final=True)
    assert isinstance(verdict, Accepted), verdict
    afresh = verdict.stages[-1].details
    races = {name: Comparison.model_validate(race) for name, race in afresh["races"].items()}  # type: ignore[union-attr]
    assert {name: race.decision for name, race in races.items()} == {"even": "faster", "odd": "slower"}
    assert all(race.interval.confidence == LOOK_CONFIDENCE for race in races.values())
    back = judge.evaluate(cpp(SLOW), incumbent=cpp(HONEST), final=True)
    assert isinstance(back, Accepted) and back.comparison is not None, back
    assert back.comparison.decision == "slower"
    first, second = (Comparison.model_validate(stage.details["decision"]) for stage in back.stages[-2:])
    assert first != second  # it lost the first session, and the second raced all the same
    assert all(timing.incumbent_seconds is not None for timing in back.timings)


def test_a_time_below_the_limit_is_refused_not_recorded() -> None:
    impossible = tuple(spec.model_copy(update={"bytes": 1e12}) for spec in WORKLOADS)
    with open_task(saxpy(workloads=impossible)) as opened:
        verdict = opened.evaluate(cpp(HONEST))
    assert isinstance(verdict, Rejected)
    assert (verdict.stage, verdict.reason) == ("time", "below_limit")


def test_an_incumbent_that_fails_says_nothing_about_the_candidate(judge: Judge) -> None:
    broken = cpp('#include "task.h"\nextern "C" void solve(const task::Args&, void*) { __builtin_trap(); }\n')
    verdict = judge.evaluate(cpp(HONEST), incumbent=broken)
    assert isinstance(verdict, Unjudged)
    assert "incumbent" in verdict.message


def test_settings_that_are_not_allowed_are_an_error_not_a_verdict(judge: Judge) -> None:
    with pytest.raises(KernelError):
        judge.evaluate(cpp(HONEST).model_copy(update={"flags": ("-fplugin=x",)}))


def test_quick_keeps_the_order_and_rejects_the_wrong_one(judge: Judge) -> None:
    kernels = [cpp(HONEST), cpp(WRONG), cpp("int x = ;"), cpp(SLOW), cpp("int main() { fork(); }")]
    results = judge.quick(kernels, incumbent=cpp(SLOW))
    assert [result.kernel for result in results] == [kernel.id for kernel in kernels]
    assert [result.reason for result in results] == [None, "wrong_result", "compile_error", None, "forbidden_source"]
    assert results[0].seconds is not None
    assert results[3].seconds is not None
    assert results[0].seconds < results[3].seconds
    assert results[0].ratio is not None
    assert results[0].ratio > 2
    assert judge.quick([], None) == []


def test_nothing_is_left_running_after_a_crash(judge: Judge) -> None:
    before = set(descendants(os.getpid()))
    crash = (
        '#include "task.h"\nextern "C" void solve(const task::Args& args, void*) {\n    args.out[1L << 40] = 1;\n}\n'
    )
    verdict = judge.evaluate(cpp(crash))
    assert isinstance(verdict, Rejected)
    assert verdict.stage == "correct"
    assert set(descendants(os.getpid())) == before
    assert any(item.line == 3 for item in verdict.diagnostics)  # explained by the sanitizer build


def test_a_degenerate_task_is_not_opened() -> None:
    zeros = "def inputs(rng):\n    return {'x': rng.random(100)}\n\ndef reference(x):\n    return 0 * x\n"
    with pytest.raises(TaskError) as caught:
        open_task(saxpy(files={"saxpy.py": zeros}, workloads=(WorkloadSpec(),)))
    assert caught.value.fault == "degenerate"


# ------------------------------------------------------------------------------------------------------------- content


def test_every_timed_call_gets_other_content(judge: Judge) -> None:
    seen = {judge.content.timed(0).inputs["x"].tobytes() for _ in range(5)}  # type: ignore[union-attr]
    assert len(seen) == 5


def test_recycled_content_changes_in_secret_and_is_still_judged_right(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_module, "SLOW_DRAW", -1.0)
    judge.content.fresh(0)
    assert judge.content.recycles(0)
    seen = set()
    for _ in range(3 * content_module.POOL):
        content = judge.content.timed(0)
        x, y = (np.asarray(content.inputs[name]) for name in "xy")
        assert np.array_equal(judge.buffers[0].inputs["x"], x)
        assert content.check({"out": 2 * x + y}).ok
        seen.add(x.tobytes())
    assert len(seen) == 3 * content_module.POOL
    judge.content.forget()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_secret_changes_stay_within_what_the_array_holds(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = {
        "i": rng.integers(0, 50, size),
        "f": rng.random(size),
        "b": rng.random(size) < 0.5,
        "offsets": np.arange(size),
        "empty": np.zeros(0),
    }
    after = {name: np.asarray(value) for name, value in content_module._changed_in_secret(inputs).items()}
    assert set(after["i"]) <= set(inputs["i"])
    assert set(after["b"]) <= set(inputs["b"])
    assert 0 <= after["f"].min() <= after["f"].max() <= inputs["f"].max()
    assert np.array_equal(after["offsets"], inputs["offsets"])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_secret_changes_keep_structure_and_spare_no_number(dtype: str) -> None:
    rng = np.random.default_rng(3)
    square = rng.standard_normal((64, 64)).astype(dtype)
    inputs = {"symmetric": square + square.T, "lower": np.tril(square), "order": rng.permutation(5000)}
    for _ in range(3):
        after = {name: np.asarray(value) for name, value in content_module._changed_in_secret(inputs).items()}
        assert np.array_equal(after["symmetric"], after["symmetric"].T)
        assert not np.triu(after["lower"], 1).any()
        assert np.array_equal(np.sort(after["order"]), np.arange(5000))
        assert (after["symmetric"] != inputs["symmetric"]).mean() > 0.95


RECYCLED = {
    "permutation": (
        "{'p': rng.permutation(5000), 'x': rng.standard_normal(5000)}",
        "(p, x): out = np.full(5000, -1.0); out[p] = x; return out",
        "for (int64_t i = 0; i < args.x_size; ++i) args.out[args.p[i]] = args.x[i];",
    ),
    "symmetric": (
        "(lambda a: {'a': a + a.T, 'x': rng.standard_normal(90)})(rng.standard_normal((90, 90)))",
        "(a, x): return a @ x",
        "for (int64_t i = 0; i < 90; ++i) { double s = 0; for (int64_t j = 0; j < 90; ++j)"
        " s += args.a[i > j ? i * 90 + j : j * 90 + i] * args.x[j]; args.out[i] = s; }",
    ),
    "cholesky": (
        "(lambda a: {'a': a @ a.T + np.eye(40)})(rng.standard_normal((40, 40)))",
        "(a): return np.linalg.cholesky(a)",
        "for (int64_t i = 0; i < 40; ++i) for (int64_t j = 0; j < 40; ++j) { double s = args.a[i * 40 + j];"
        " for (int64_t k = 0; k < j; ++k) s -= args.out[i * 40 + k] * args.out[j * 40 + k];"
        " args.out[i * 40 + j] = j > i ? 0 : i == j ? __builtin_sqrt(s) : s / args.out[j * 40 + j]; }",
    ),
}


@pytest.mark.parametrize("name", RECYCLED)
def test_an_honest_kernel_of_a_task_with_slow_draws_is_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its inputs are known to be: recycled draws are that, too, or there are none."""
    monkeypatch.setattr(content_module, "SLOW_DRAW", -1.0)
    drawing, reference, body = RECYCLED[name]
    head, _, rest = reference.partition(": ")
    text = f"import numpy as np\n\ndef inputs(rng):\n    return {drawing}\n\ndef reference{head}:\n    {rest}\n"
    kernel = cpp(f'#include "task.h"\nextern "C" void solve(const task::Args& args, void*) {{ {body} }}\n')
    with open_task(saxpy(files={"saxpy.py": text}, workloads=(WorkloadSpec(),))) as opened:
        verdict = opened.evaluate(kernel)
        assert isinstance(verdict, Accepted), verdict
        assert opened.content.recycles(0) == (name != "cholesky")


# -------------------------------------------------------------------------------------------------------------- clocks


def clocks(inner: float, outer: float, count: int = 20) -> Clocks:
    return Clocks(tuple(Reading(inner, outer) for _ in range(count)), tuple([20e-6] * count))


def test_an_honest_worker_gets_its_own_reading() -> None:
    honest = clocks(2e-3, 2e-3 + 25e-6)
    assert honest.seconds == [2e-3] * 20
    assert honest.disagreement() is None


def test_a_lying_clock_is_overruled_and_found() -> None:
    lying = clocks(1e-4, 2e-3)
    assert min(lying.seconds) > 1.8e-3
    assert "judge's clock" in (lying.disagreement() or "")


def test_a_clock_that_reads_more_than_the_span_around_it_is_found() -> None:
    assert clocks(3e-3, 2e-3).disagreement() is not None


def test_a_few_disturbed_calls_are_no_lie() -> None:
    steady = [Reading(2e-3, 2.02e-3)] * 12
    disturbed = [Reading(2e-3, 9e-3)] * 8
    assert Clocks((*steady, *disturbed), (20e-6,) * 20).disagreement() is None
