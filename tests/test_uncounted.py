"""What the GPU's scripts look for in a profile without counters: each part is missed where it is not there. Here too
the counters are put out of reach as they are there; no GPU is needed."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
from test_cuda_profile import CODE, SASS, findings, host, standing, subject
from toolkit import needs_nvcc

from tools.counters import Uncounted
from tools.device_code import Occupancy
from tools.profilers import ncu
from tools.profilers.cuda import Standing, assemble
from tools.profilers.ncu_live import count

sys.path.insert(0, str(Path(__file__).parent / "h200"))

import uncounted

FULL = Occupancy(threads=256, share=0.75, blocks=6, limited_by=("registers",))


def known(*, device: bool = True, code: str | None = SASS) -> Standing:
    kernels = tuple(each.model_copy(update={"occupancy": (FULL,)}) for each in CODE.functions)
    found = CODE.model_copy(update={"functions": kernels}) if device else None
    return dataclasses.replace(standing(code=code), device=found)


def test_a_whole_profile_without_counters_lacks_nothing() -> None:
    assert uncounted.lacks(assemble(known(), ncu.uncounted("no_profiler")), "no_profiler") == []
    assert uncounted.lacks(assemble(known(), ncu.uncounted("timeout")), "no_profiler") == ["the reason no_profiler"]


@pytest.mark.parametrize(
    ("part", "lacking"),
    [({"device": False}, ["registers", "spills", "occupancy"]), ({"code": None}, ["machine code"])],
)
def test_what_a_profile_leaves_out_is_missed(part: dict[str, None], lacking: list[str]) -> None:
    profile = assemble(known(**part), ncu.uncounted("no_permission"))  # type: ignore[arg-type]
    assert uncounted.lacks(profile, "no_permission") == lacking


def test_a_profile_with_counters_is_not_taken_for_one_without() -> None:
    lacking = uncounted.lacks(assemble(known(), findings()), "no_profiler")
    assert {"that there are no counters", "the reason no_profiler", "what is missing"} <= set(lacking)


@needs_nvcc
@pytest.mark.parametrize("reason", uncounted.REASONS)
def test_counters_are_put_out_of_reach(reason: str, tmp_path: Path) -> None:
    with uncounted.REASONS[reason]():
        found = count(host(), subject(tmp_path.resolve()), (), 30)
    assert isinstance(found, Uncounted) and found.reason == reason, found
