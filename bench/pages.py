"""Pages of a long run, measured: the size of its report, and how soon the dashboard is seen in a real browser.

    python -m bench.pages [--iterations 125]

The run is simulated: a model that needs no server writes sources of 4 to 30 KB through the real graph, run folder and
events, about 200 attempts in 125 iterations. Exits with 1 when a figure is over its budget (issue 7: report under 3 MB,
first paint under 1 s on loopback). Without Chromium the time until the whole page has come stands for the paint.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent / "tests"
SIGHTS = 5
"""Loads of a page, each in a browser context of its own: nothing is cached. The fastest counts: a busy machine only
adds."""
RUNS = 100
"""On the list."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=125)
    asked = parser.parse_args()
    bad = False
    for name, value, budget, unit in figures(asked.iterations):
        bad |= value > budget
        print(f"{name:<58} {value:>10.3f} {unit:<6} (budget {budget:g})  {'ok' if value <= budget else 'OVER BUDGET'}")
    return int(bad)


def figures(iterations: int) -> Iterator[tuple[str, float, float, str]]:
    """Name, value, budget and unit of each figure."""
    sys.path.insert(0, str(TESTS))
    from simulated_run import play

    from app.report import write_report
    from memory.runs import list_runs

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        play(root, iterations=iterations)
        (run,) = list_runs(root)
        attempts = len(run.attempts())
        began = time.perf_counter()
        size = write_report(run).stat().st_size
        yield f"report of {attempts} attempts, made in", time.perf_counter() - began, 5.0, "s"
        yield f"report of {attempts} attempts", size / 1e6, 3.0, "MB"
        for number in range(1, RUNS):
            shutil.copytree(run.path, root / f"{run.id}-{number:03}", symlinks=True, ignore=_large)
        yield from _paints(root, run.id, attempts)


def _large(_folder: str, names: list[str]) -> set[str]:
    """What a list of runs does not read: a hundred copies need not hold it."""
    return {name for name in names if name in ("blobs", "transcript", "evicted", "state.sqlite", "kernel")}


def _paints(root: Path, run: str, attempts: int) -> Iterator[tuple[str, float, float, str]]:
    from tests.dashboard import dashboard

    pages = (
        (f"first paint of the list of {RUNS} runs", "/"),
        (f"first paint of a run of {attempts} attempts", f"/run/{run}"),
        ("first paint of an attempt", f"/run/{run}/attempt/a1"),
    )
    with dashboard(root) as site:
        for name, path in pages:
            try:
                yield name, _painted(site.entrance, site.origin + path), 1.0, "s"
            except pytest.skip.Exception:
                yield name.replace("first paint", "whole page"), _loaded(site, path), 1.0, "s"


_FIRST_PAINT = """() => new Promise((done) => new PerformanceObserver((seen) => {
  for (const each of seen.getEntries()) if (each.name === 'first-contentful-paint') done(each.startTime);
}).observe({ type: 'paint', buffered: true }))"""


def _painted(entrance: str, url: str) -> float:
    from tests.browser import window

    found = []
    with window() as browser:
        for _ in range(SIGHTS):
            with browser.visit() as visit:
                visit.go(entrance)
                visit.go(url)
                found.append(visit.page.evaluate(_FIRST_PAINT) / 1e3)
    return min(found)


def _loaded(site: object, path: str) -> float:
    from tests.dashboard import Dashboard

    assert isinstance(site, Dashboard)
    found = []
    for _ in range(SIGHTS):
        began = time.perf_counter()
        site.get(path)
        found.append(time.perf_counter() - began)
    return min(found)


if __name__ == "__main__":
    sys.exit(main())
