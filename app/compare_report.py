"""`warpsmith report --compare`: runs side by side as one HTML file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from app.compare import MOST, Comparison, Contender, Group, compare
from app.exits import DONE
from app.inputs import find_run
from app.pages import rendered
from app.plot_curves import Curve, curves
from app.plot_frame import pictures
from app.quantities import span
from app.report import writable
from memory.files import write_atomically
from tools.errors import WarpsmithError

PAGE_NAME = "compare.html"


def compare_runs(names: Sequence[str], runs_root: Path, out: Path | None, as_json: bool) -> int:
    """Write the page and print where it is; with `as_json` the figures themselves. Raises RunFolderError, and
    WarpsmithError for too few or too many runs."""
    runs = [find_run(name, runs_root) for name in names]
    runs = list({run.path.resolve(): run for run in runs}.values())
    if not 2 <= len(runs) <= MOST:
        raise WarpsmithError(
            f"{len(runs)} different runs can't be compared", f"Name 2 to {MOST} of them: report --compare RUN RUN"
        )
    found = compare(runs)
    path = out or runs_root / PAGE_NAME
    write_atomically(path, writable(rendered("compare.html.j2", {"compared": parts_of(found)})))
    if as_json:
        print(json.dumps({"report": str(path), **found.model_dump(mode="json")}))
    else:
        print(path)
    return DONE


def parts_of(found: Comparison) -> dict[str, object]:
    """What the template shows."""
    return {
        "groups": [{"group": group, **_pictures(group)} for group in found.groups],
        "models": found.models,
        "several_models": len(found.models) > 1,
        "runs": [run for group in found.groups for run in group.runs],
    }


def _pictures(group: Group) -> dict[str, str]:
    by_attempt, by_time = [], []
    for run in group.runs:
        points = tuple((float(m.attempt), m.speedup) for m in run.curve) + _end(run, float(run.attempts))
        by_attempt.append(Curve(run.letter, f"{run.model}, {run.run}", points, float(run.attempts)))
        timed = tuple((m.elapsed, m.speedup) for m in run.curve) + _end(run, run.elapsed)
        by_time.append(Curve(run.letter, f"{run.model}, {run.run}", timed, run.elapsed))
    return {
        "by_attempt": pictures(lambda frame: curves(frame, by_attempt, "attempts", lambda value: f"{value:g}")),
        "by_time": pictures(lambda frame: curves(frame, by_time, "time at work", span)),
    }


def _end(run: Contender, at: float) -> tuple[tuple[float, float], ...]:
    """Where its line ends: at the table's figure, which the last, fresh measurement may have made another."""
    return () if run.speedup is None or not run.curve else ((at, run.speedup),)
