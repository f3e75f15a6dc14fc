"""The report's pictures in both frames: what is drawn stands where its figure puts it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app import plot_claim, plot_curves, plots
from app.plot_frame import BROAD, SLIM, Frame, pictures
from app.report_claim import subjects
from app.summary import summarize
from tests.synthetic_run import make_run

in_both = pytest.mark.parametrize("frame", [BROAD, SLIM], ids=["broad", "slim"])


@in_both
@pytest.mark.parametrize("seconds", [[1e-3], [1e-3, 1e-3], [1e-7, 10.0], [5e-4, 4e-4, 4.5e-4]])
def test_progress_is_well_formed_for_any_range(seconds: list[float], frame: Frame) -> None:
    points = [plots.Point(f"a{i}", "kept", s, "<&>") for i, s in enumerate(seconds)]
    points.append(plots.Point("bad", "rejected", None, "no time"))
    levels = [plots.Level("limit", min(seconds) / 2, "limit"), plots.Level("base", min(seconds) / 2, "baseline")]
    root = ElementTree.fromstring(plots.progress(frame, points, levels))
    circles = [element for element in root.iter() if element.tag == "circle"]
    assert len(circles) == len(seconds)
    assert all(0 <= float(c.get("cy", "-1")) <= frame.floor for c in circles)
    heights = [float(c.get("cy", "0")) for c in circles]
    assert sorted(heights, reverse=True) == [h for _, h in sorted(zip(seconds, heights, strict=True))]


def test_progress_without_a_single_time_is_left_out() -> None:
    assert plots.progress(BROAD, [plots.Point("a0", "rejected", None, "")], []) == ""


@in_both
def test_roofline_puts_a_kernel_at_the_roof_on_the_roof(frame: Frame) -> None:
    spots = [plots.Spot("best", 0.5, 1e10, "best"), plots.Spot("start", 0.5, 1e9, "start")]
    root = ElementTree.fromstring(plots.roofline(frame, spots, bandwidth=2e10, peak=1e11))
    best, start = (float(e.get("cy", "0")) for e in root.iter() if e.tag == "circle")
    path = next(e.get("d", "") for e in root.iter() if e.get("class") == "roof")
    x0, y0, x1, y1 = (float(v) for v in re.findall(r"[\d.]+", path)[:4])
    x = next(float(e.get("cx", "0")) for e in root.iter() if e.tag == "circle")
    assert best == pytest.approx(y0 + (x - x0) / (x1 - x0) * (y1 - y0), abs=0.3)
    assert start > best
    assert plots.roofline(frame, [], 1e9, None) == "" and plots.roofline(frame, spots, 2e10, None)


@in_both
def test_money_by_iteration_is_drawn_from_zero(frame: Frame) -> None:
    root = ElementTree.fromstring(plots.bars(frame, [("1", 0.5, "<&>"), ("2", 1.0, "b")], "US dollars", "iteration"))
    low, high = (float(e.get("height", "0")) for e in root.iter() if e.tag == "rect")
    assert high == pytest.approx(2 * low, abs=0.2)
    assert plots.bars(frame, [], "y", "x") == plots.bars(frame, [("1", 0.0, "")], "y", "x") == ""


@in_both
def test_the_claims_bars_are_as_long_as_their_times(tmp_path: Path, frame: Frame) -> None:
    run = make_run(tmp_path)
    held = subjects(summarize(run), run.facts(), "NumPy")
    root = ElementTree.fromstring(plot_claim.claim(frame, held))
    widths = [float(e.get("width", "0")) for e in root.iter() if e.tag == "rect"]
    assert [w / widths[0] for w in widths] == pytest.approx([s.seconds / held[0].seconds for s in held], abs=0.01)


@in_both
def test_curves_end_where_their_runs_end_and_begin_anew_in_colour(frame: Frame) -> None:
    lines = [plot_curves.Curve(letter, "<&>", ((1.0, 1.0), (5.0, 2.0 + n)), 9.0) for n, letter in enumerate("ABCDEFG")]
    root = ElementTree.fromstring(plot_curves.curves(frame, lines, "attempts", str))
    ends = [e.get("cx") for e in root.iter() if "end" in (e.get("class") or "").split()]
    assert len(ends) == 7 and len(set(ends)) == 1
    nothing = [plot_curves.Curve("A", "", (), 1)]
    assert plot_curves.curves(frame, [], "x", str) == "" == plot_curves.curves(frame, nothing, "x", str)


def test_a_picture_is_drawn_for_a_screen_and_for_a_phone_or_not_at_all() -> None:
    """The phone's has no tooltips: nothing there shows them."""
    points = [plots.Point(f"a{i}", "other", 1e-3, "a tip") for i in range(200)]
    both = pictures(lambda frame: plots.progress(frame, points, []))
    broad, slim = re.findall(r"<svg .*?</svg>", both, re.DOTALL)
    assert broad.count("a tip") == 200 and "a tip" not in slim
    assert pictures(lambda _: "") == ""


@in_both
@pytest.mark.parametrize("names", [["1"], ["1000"] * 200, [""]])
def test_names_along_an_axis_have_room(frame: Frame, names: list[str]) -> None:
    root = ElementTree.fromstring(plots.bars(frame, [(name, 1.0, "") for name in names], "y", "x"))
    at = [float(e.get("x", "")) for e in root.iter() if e.tag == "text" and e.get("text-anchor") == "middle"][:-1]
    assert len(at) == 1 or min(b - a for a, b in itertools.pairwise(at)) > 7 * len(names[0])


@pytest.mark.parametrize("seconds", [(1e-3, 1e-3), (1e-3, 9.9e-4), (1e-3, 1e-6), (1e-6, 1e-3)])
def test_words_beside_the_times_keep_apart(seconds: tuple[float, float]) -> None:
    """Also from those of the lane of what was rejected, however near to it a level is."""
    points = [plots.Point("a0", "kept", 1e-3, ""), plots.Point("a1", "rejected", None, "")]
    levels = [plots.Level("NumPy", seconds[0], "baseline"), plots.Level("limit", seconds[1], "limit")]
    root = ElementTree.fromstring(plots.progress(BROAD, points, levels))
    beside = [e for e in root.iter() if e.tag == "text" and float(e.get("x", "0")) > BROAD.end]
    at = sorted(float(e.get("y", "")) for e in beside)
    assert len(at) == 5 and min(b - a for a, b in itertools.pairwise(at)) >= 13 and at[0] > BROAD.top
