"""The judge's own arithmetic over the figures that an H200 gave: which clock is believed, what rows of calls show, what
is too fast to be true, which sessions count, who is faster. Every accepted kernel's figures go through it afresh."""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from golden_verdicts import GOLDEN, NATIVE, TORCH, Row, Timed, accepted, rows, timed

from tools.clock import LEAST_IN_A_ROW, Clocks, calls_in_a_row
from tools.cuda_device import CudaDevice
from tools.facts import TaskFacts, WorkloadFacts
from tools.hardware import Hardware, arithmetic_of, limit_seconds
from tools.judge import Judge
from tools.measure import DRIFT, LOOK_CONFIDENCE, Measurement
from tools.neighbours import Patience
from tools.race import Inspection
from tools.records import Accepted, WorkloadTiming
from tools.runner import Failed, Runner
from tools.significance import LEAST_GAIN, Pairs, decide, least_pairs, median_interval
from tools.timings import Session, clock_details, sessions_that_count

IN_PLACE = ("c10_in_place",)
"""Torch kernels of tasks whose output is an input: they are not called in rows (docs/cheating.md)."""
ACCEPTED = accepted()
TIMED = [each for row in ACCEPTED for each in timed(row)]
MICROSECOND = 1e-6
MEDIANS_APART, MEDIANS_APART_LONG = 40e-6, 0.02
"""By which a median of differences and a difference of medians differed at most, of calls that take milliseconds: in
seconds, or of a call that computes on the host as a fraction."""
LONG_ENOUGH, LEAST_BELIEVED = 10e-6, 0.4
"""Of a native kernel whose calls take so long, what part of its time its own clock must tell to pass."""


def test_there_are_figures_of_every_example_and_of_both_languages() -> None:
    assert {row.section for row in ACCEPTED} == {"fixtures", "torch_fixtures", "examples"}
    assert len(TIMED) > 100 and sum(each.in_a_row is not None for each in TIMED) > 100


# --------------------------------------------------------------------------------------------------------- the clocks


@pytest.mark.parametrize("seen", TIMED, ids=str)
def test_the_two_clocks_are_told_as_they_were(seen: Timed) -> None:
    """`clock_details` of the recorded medians, by the formulas of today."""
    again = clock_details(seen.clocks(), seen.in_a_row, recycled=seen.told["content"] != "drawn anew for every call")
    for name in ("inner_seconds", "round_trip_seconds", "gap_seconds", "allowed_gap_seconds"):
        assert again[name] == pytest.approx(seen.told[name], abs=1e-12), name
    assert again["outer_seconds"] == pytest.approx(
        seen.told["outer_seconds"], rel=MEDIANS_APART_LONG, abs=MEDIANS_APART
    )
    assert again.get("in_a_row") == seen.told.get("in_a_row") and again["content"] == seen.told["content"]


@pytest.mark.parametrize("seen", TIMED, ids=str)
def test_clocks_that_agreed_agree_and_no_more_than_the_allowed_gap_can_be_hidden(seen: Timed) -> None:
    assert seen.clocks().disagreement() is None
    room = seen.told["allowed_gap_seconds"] - seen.told["gap_seconds"]
    assert seen.clocks(hidden=room - MICROSECOND).disagreement() is None
    assert "and they may differ by" in (seen.clocks(hidden=room + MICROSECOND).disagreement() or "")
    assert seen.clocks().seconds == [seen.inner], "the judge's clock is too coarse to correct single calls"


@pytest.mark.parametrize("seen", TIMED, ids=str)
def test_rows_were_as_long_as_such_calls_ask_for(seen: Timed) -> None:
    wanted = calls_in_a_row(seen.inner)
    if seen.in_a_row is None:
        assert wanted < LEAST_IN_A_ROW or (seen.row.section == TORCH and seen.row.name in IN_PLACE)
        return
    shorter = itertools.accumulate(range(8), lambda calls, _: max(calls // 4, LEAST_IN_A_ROW), initial=wanted)
    assert seen.in_a_row.calls in set(shorter), "shorter only where so many launches could not be queued"


def believed_from(seen: Timed) -> float:
    """The least that the worker's clock could have told, of what it did, with the same rows of calls."""
    assert seen.in_a_row is not None
    low, high = 0.0, seen.inner
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if seen.in_a_row.disagreement(middle, seen.row.allowance) else (low, middle)
    return high / seen.inner


@pytest.mark.parametrize("seen", [each for each in TIMED if each.in_a_row is not None], ids=str)
def test_rows_that_agreed_agree_and_a_clock_that_told_much_less_would_not_be_believed(seen: Timed) -> None:
    found = seen.in_a_row
    assert found is not None and found.disagreement(seen.inner, seen.row.allowance) is None
    if seen.row.section != "torch_fixtures" and seen.inner >= LONG_ENOUGH:  # shorter ones hide in launches: the floor
        assert LEAST_BELIEVED < believed_from(seen) < 1
    slower = dataclasses.replace(found, held=found.held + seen.inner + 10 * MICROSECOND)
    assert slower.disagreement(seen.inner, seen.row.allowance) is not None, "the work of another call, hidden"


def judge_s_readings() -> Any:
    """Single calls of one kernel by both clocks, with the round trips around them."""
    return json.loads((GOLDEN.parent / "live/clocks.json").read_text())["clocks"]["judge"]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_raw_readings_agree_and_stretched_ones_do_not(factor: float) -> None:
    """All readings of one session, not their medians: work that the worker's clock left out, or made up."""
    found = judge_s_readings()
    readings = SimpleNamespace(inner=[r[0] for r in found["readings"]], outer=[r[1] for r in found["readings"]])
    assert len(readings.inner) >= 40

    def clocks(outer: Sequence[float], inner: Sequence[float]) -> Clocks:
        made = Timed(rows()[0], "time", "", {"inner_seconds": 1.0, "gap_seconds": 0.0, "round_trip_seconds": 1.0})
        reading = made.clocks().readings[0]
        pairs = zip(inner, outer, strict=True)
        return Clocks(
            tuple(dataclasses.replace(reading, inner=i, outer=o) for i, o in pairs),
            tuple(found["round_trips"]),
            CudaDevice.allowance,
        )

    assert clocks(readings.outer, readings.inner).disagreement() is None
    scale = 1e-3 * factor
    assert clocks([each + scale for each in readings.outer], readings.inner).disagreement() is not None
    impossible = clocks(readings.outer, [each + 10 * scale for each in readings.outer])
    assert impossible.disagreement() == "the worker's clock reads more than the judge's clock around it"


# --------------------------------------------------------------------------------------------------- limits and floors


def hardware(facts: TaskFacts) -> Hardware:
    return Hardware.model_validate({name: facts.hardware[name] for name in Hardware.model_fields})


def example_workloads() -> list[tuple[str, TaskFacts, WorkloadFacts, WorkloadTiming]]:
    record = json.loads((GOLDEN / "examples.json").read_text())["examples"]
    found = []
    for row in (each for each in ACCEPTED if each.section == "examples"):
        facts = TaskFacts.model_validate(record[row.name]["facts"])
        assert isinstance(row.verdict, Accepted)
        pairs = zip(facts.workloads, row.verdict.timings, strict=True)
        found += [(row.name, facts, workload, timing) for workload, timing in pairs]
    return found


EXAMPLES = example_workloads()


def dtypes(workload: WorkloadFacts) -> list[str]:
    return [text.split(": ")[1].partition("[")[0] for text in (*workload.inputs, *workload.outputs)]


def written(workload: WorkloadFacts) -> float:
    total = 0.0
    for text in workload.outputs:
        dtype, _, shape = text.split(": ")[1].partition("[")
        sizes = [int(size) for size in shape.rstrip("]").split(", ") if size]
        total += float(np.prod(sizes)) * np.dtype(dtype).itemsize
    return total


def judge_of(facts: TaskFacts, workload: WorkloadFacts) -> Judge:
    """As much of a judge as its figures need, with the recorded ones."""
    device = SimpleNamespace(lasting_bytes=float(hardware(facts).cache_bytes))
    tensors = [SimpleNamespace(dtype=dtype, nbytes=0.0) for dtype in dtypes(workload)[: len(workload.inputs)]]
    outputs = [SimpleNamespace(dtype=dtypes(workload)[-1], nbytes=written(workload))]
    self: Any = SimpleNamespace(
        _baselines=[workload],
        hardware=hardware(facts),
        signatures=[SimpleNamespace(input_tensors=tensors, outputs=outputs)],
        source=SimpleNamespace(policy="strict"),
        device=device,
        names=[workload.workload],
        weights=[workload.weight],
        patience=Patience(0.0),
        again=[],
    )
    for name in ("arithmetic", "limit_seconds", "floor_seconds"):
        setattr(self, name, getattr(Judge, name).__get__(self))
    self.baselines = lambda _: {"numpy": workload.baseline_seconds}
    self.measure_hardware_again = lambda: self.again.append(1)
    return cast(Judge, self)


@pytest.mark.parametrize(("name", "facts", "workload", "timing"), EXAMPLES, ids=lambda each: str(each)[:24])
def test_the_limit_is_what_the_measured_peaks_of_that_machine_allow(
    name: str, facts: TaskFacts, workload: WorkloadFacts, timing: WorkloadTiming
) -> None:
    assert arithmetic_of(dtypes(workload), "strict") == workload.arithmetic
    limit = limit_seconds(workload.bytes, workload.flops, workload.arithmetic, hardware(facts))
    assert limit == pytest.approx(workload.limit_seconds, rel=1e-12)
    judge = judge_of(facts, workload)
    assert judge.limit_seconds(0) == limit
    assert timing.limit_seconds == pytest.approx(limit, rel=0.03), "a peak may have been raised meanwhile"
    assert judge.floor_seconds(0) < limit < timing.seconds, name


def measurement(judge: Judge, *sessions: Sequence[float]) -> Measurement:
    """One whose sessions have been raced, with these readings of the only workload."""
    made = Measurement(judge, cast(Any, None), cast(Runner, None), None, baseline=False)
    for seconds in sessions:
        runner = cast(Runner, Told(seconds))
        made._sessions.append(Session(runner, None, None, Inspection(runner)))
    return made


class Told:
    """A contestant whose times are known."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds, self.rows = list(seconds), dict[int, object]()
        self.worker = SimpleNamespace(threads=lambda: 1)

    def seconds(self, workload: int) -> list[float]:
        assert workload == 0
        return list(self._seconds)

    def clocks(self, workload: int) -> Clocks:
        assert workload == 0
        readings = Timed(rows()[0], "time", "", {"inner_seconds": 1.0, "gap_seconds": 0.0, "round_trip_seconds": 1.0})
        return readings.clocks()


@pytest.mark.parametrize(("name", "facts", "workload", "timing"), EXAMPLES, ids=lambda each: str(each)[:24])
def test_a_time_under_the_floor_is_refused_after_the_machine_was_measured_again(
    name: str, facts: TaskFacts, workload: WorkloadFacts, timing: WorkloadTiming
) -> None:
    judge = judge_of(facts, workload)
    judge.content = SimpleNamespace(recycles=lambda _: False)  # type: ignore[assignment]
    floor = judge.floor_seconds(0)
    measurement(judge, [timing.seconds] * 5).refuse_impossible_times()
    measurement(judge, [floor * 1.001] * 5).refuse_impossible_times()
    assert judge.again == []  # type: ignore[attr-defined]
    if floor == 0:
        return
    with pytest.raises(Failed, match=r"than the .* us that this machine needs") as refused:
        measurement(judge, [floor * 0.999] * 5).refuse_impossible_times()
    assert refused.value.reason == "below_limit" and judge.again == [1], name  # type: ignore[attr-defined]
    assert refused.value.details["seconds"] == floor * 0.999 and refused.value.details["floor_seconds"] == floor
    faster = judge.hardware.model_copy(update={"read_bandwidth": 1e14, "peak_flops": {}})
    judge.measure_hardware_again = lambda: setattr(judge, "hardware", faster)  # type: ignore[method-assign]
    measurement(judge, [floor * 0.999] * 5).refuse_impossible_times()


# ------------------------------------------------------------------------------------------------------ which sessions


@pytest.mark.parametrize("row", ACCEPTED, ids=str)
def test_the_times_of_a_verdict_are_those_of_the_sessions_that_count(row: Row) -> None:
    """Of each session the median and the number of its readings are known: in between lies the verdict's median."""
    assert isinstance(row.verdict, Accepted)
    by_workload: dict[str, list[Timed]] = {}
    for each in timed(row):
        by_workload.setdefault(each.workload, []).append(each)
    assert list(by_workload) == [timing.workload for timing in row.verdict.timings]
    for timing in row.verdict.timings:
        sessions = [
            Session(cast(Any, Told([each.inner] * each.told["samples"])), None, None, cast(Any, None))
            for each in by_workload[timing.workload]
        ]
        counting = [session.candidate.seconds(0) for session in sessions_that_count(sessions, 0, DRIFT)]
        assert timing.samples == sum(map(len, counting))
        medians = [seconds[0] for seconds in counting]
        assert min(medians) <= timing.seconds <= max(medians)
        assert timing.interval.low <= timing.seconds <= timing.interval.high
        assert timing.baseline_seconds == min(timing.baselines.values())


# ---------------------------------------------------------------------------------------------------- who is the faster


def repeated() -> dict[str, list[float]]:
    """Evaluations of one kernel by workload: their medians scatter as an H200's do."""
    path = GOLDEN.parent / "speed/spread.json"
    found: dict[str, list[float]] = json.loads(path.read_text())["spread"]["seconds"]
    return found


def readings() -> list[float]:
    return [inner for inner, _ in judge_s_readings()["readings"]]


NOISES = {**repeated(), "readings": readings()}


def against_itself(noise: Sequence[float], gain: float) -> Pairs:
    """The later half against the earlier one, which takes `gain` times as long as it did."""
    half = len(noise) // 2
    return Pairs(1.0, [gain * seconds for seconds in noise[:half]], noise[half : 2 * half])


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_kernel_is_no_faster_than_itself_with_the_noise_of_that_machine(noise: list[float]) -> None:
    for order in (noise, noise[::-1], [*noise[::2], *noise[1::2]]):
        assert decide([against_itself(order, 1.0)], confidence=LOOK_CONFIDENCE).decision != "faster"


@pytest.mark.parametrize("gain", [1.5, 2.0])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_gain_beyond_that_noise_is_seen_both_ways(noise: list[float], gain: float) -> None:
    enough = len(noise) // 2 >= least_pairs(LOOK_CONFIDENCE)
    won, lost = (decide([against_itself(noise, g)], confidence=LOOK_CONFIDENCE) for g in (gain, 1 / gain))
    assert won.decision == ("faster" if enough else "same")
    assert lost.decision == "slower" and won.ratio * lost.ratio == pytest.approx(1.0, rel=0.1)
    assert won.interval.low <= won.ratio <= won.interval.high
    assert gain / (1 + 0.2) < won.ratio < gain * (1 + 0.2)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_gain_within_the_noise_is_none_however_large_it_looks(noise: list[float]) -> None:
    """That machine's noise, widened until half of the readings lie a quarter apart: two per cent are nothing then."""
    middle, (low, high) = statistics.median(noise), np.quantile(noise, [0.25, 0.75])
    wider = [middle * max(1 + 0.25 * (each - middle) / max(high - low, 1e-12), 0.5) for each in noise]
    apart = decide([against_itself(wider, 1.0)], confidence=LOOK_CONFIDENCE).ratio
    found = decide([against_itself(wider, 1.02 / apart)], confidence=LOOK_CONFIDENCE)
    assert found.ratio == pytest.approx(1.02) and found.decision == "same"


def test_a_gain_that_is_not_worth_it_is_none() -> None:
    """However sure: the readings themselves, paired with a little less than themselves."""
    seconds = readings()
    for gain, decision in ((1 + LEAST_GAIN / 2, "same"), (1 + 2 * LEAST_GAIN, "faster")):
        pairs = Pairs(1.0, [gain * each for each in seconds], seconds)
        assert decide([pairs], confidence=LOOK_CONFIDENCE).decision == decision


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_interval_of_a_median_holds_it_and_narrows_with_more_readings(noise: list[float]) -> None:
    few, many = median_interval(noise), median_interval([*noise] * 16)
    assert few.low <= statistics.median(noise) <= few.high
    assert min(noise) <= few.low and few.high <= max(noise)
    assert many.high - many.low <= few.high - few.low


def test_every_native_kernel_was_held_to_rows_or_took_long() -> None:
    for each in TIMED:
        assert each.row.section != NATIVE or each.in_a_row is not None or each.inner > 1e-3, str(each)


def test_the_device_s_clock_was_read_around_every_call_and_throttling_told() -> None:
    """Of what was recorded since clocks are."""
    read = [each for each in TIMED if "sm_megahertz" in each.told]
    assert len(read) > 100
    for each in read:
        speed = each.told["sm_megahertz"]
        assert 300 < speed["lowest"] <= speed["median"] <= speed["highest"] < 3000, str(each)
        assert 0 <= each.told["calls_throttled"] <= each.told["calls_repeated"] <= each.told["samples"], str(each)
    for row in {each.row.name: each.row for each in read}.values():
        assert isinstance(row.verdict, Accepted)
        slowed = any(each.told["calls_throttled"] for each in timed(row))
        assert (row.verdict.throttled is not None) == slowed, row


def test_what_the_host_did_while_the_device_was_held_is_a_part_of_the_time() -> None:
    """No event sees it: some milliseconds, where the honest kernel takes microseconds."""
    told = {row.name: row.verdict for row in ACCEPTED if row.section == NATIVE}
    trick, honest = told["cuda_works_while_held"], told["cuda_honest"]
    assert isinstance(trick, Accepted) and isinstance(honest, Accepted)
    for mine, theirs in zip(trick.timings, honest.timings, strict=True):
        assert mine.seconds > 1e-3 > 20 * theirs.seconds
