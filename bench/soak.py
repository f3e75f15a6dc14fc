"""`make soak`: two processes that optimise without a pause, and whether what they hold of the machine stays flat.

    python -m bench.soak [--for 60m] [--json build/soak.json]

One runs `builtin:autotune`, the other a scripted model that also writes kernels that don't compile, are wrong, crash or
hang (`bench/soak_run.py`); both judge for real. Every few seconds memory, descriptors, threads, children and temporary
files of the orchestrator and of its judge are noted. The first half is for warming up. The second is cut into blocks;
of each block the least counts, which is what is held between two evaluations; through those goes the line of Theil and
Sen (the median of all slopes), which a few odd blocks do not move. It fails when a line rises by more than `ALLOWED`
over the half, when a process is left at the end, or a temporary file or shared memory is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil

from app.inputs import seconds_of

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("builtin", "scripted")
BLOCKS: Final = 16
"""Of the second half, or fewer when they would be shorter than this:"""
BLOCK_SECONDS: Final = 15.0
MEMORY_SECONDS: Final = 600.0
"""A shorter soak says nothing about memory: caches and arenas are still filling."""
SAMPLES: Final = 1440
"""At most one a second."""
SETTLED: Final = 20
"""Iterations; after fewer the second half is still a beginning, as in a short soak on a busy machine."""
GRACE_SECONDS: Final = 600.0
"""For the last measurement once the time is up."""
MB: Final = 1e6
ALLOWED: Final[dict[str, tuple[float, float]]] = {
    "resident MB": (6.0, 0.06),
    "proportional MB": (6.0, 0.06),
    "descriptors": (0.9, 0.0),
    "threads": (0.9, 0.0),
    "children": (0.9, 0.0),
    "temporary files": (0.9, 0.0),
}
"""What a figure may rise by over the second half: so much, or this part of its median, whichever is more."""

Series = dict[str, list[tuple[float, float]]]
"""Figure to times (seconds) and values."""


def main() -> int:
    """Print the figures and write them down; 1 when something is not flat or was left behind."""
    parser = argparse.ArgumentParser(description="Watch two long runs for leaks.")
    parser.add_argument("--for", dest="span", default="60m", help="how long, as 90s, 2m or 1h (60m)")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "soak.json", help="where the figures go")
    parser.add_argument("--keep", action="store_true", help="keep the run folders and say where they are")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="warpsmith-soak-"))
    report = soak(seconds_of(asked.span), root)
    for kind, found in report.items():
        print_report(kind, found)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if asked.keep:
        print(f"kept {root}")
    else:
        shutil.rmtree(root)
    return 1 if any(found["problems"] for found in report.values()) else 0


def soak(seconds: float, root: Path) -> dict[str, dict[str, object]]:
    """Both kinds side by side for so long: what was done, the figures, and what is not as it should be."""
    shared = _shared_memory()
    children = {kind: _begin(kind, seconds, root / kind) for kind in KINDS}
    series: dict[str, Series] = {kind: defaultdict(list) for kind in KINDS}
    seen: dict[str, set[psutil.Process]] = {kind: set() for kind in KINDS}
    began = time.monotonic()
    try:
        while any(child.poll() is None for child in children.values()):
            at = time.monotonic() - began
            if at > seconds + GRACE_SECONDS:
                break
            for kind, child in children.items():
                if child.poll() is None and at < seconds:
                    _sample(child.pid, root / kind, at, series[kind], seen[kind])
            time.sleep(max(1.0, seconds / SAMPLES))
    finally:
        for child in children.values():
            child.kill()
            child.wait()
    reports = {}
    for kind, child in children.items():
        left = [f"still there: {path}" for path in (root / kind / "tmp").rglob("*")]
        left += [f"still there: {path}" for path in (root / kind / "runs").glob("*/**/.*")]
        left += [f"still running: {process}" for process in seen[kind] if process.is_running()]
        reports[kind] = _report(child.returncode, seconds, root / kind, series[kind], left)
    orphans = [f"still there: {path}" for path in _shared_memory() - shared]
    reports[KINDS[0]]["problems"] += orphans
    return reports  # type: ignore[return-value]


def _begin(kind: str, seconds: float, folder: Path) -> subprocess.Popen[bytes]:
    for part in ("tmp", "cache", "runs"):
        (folder / part).mkdir(parents=True)
    own = {"TMPDIR": str(folder / "tmp"), "WARPSMITH_CACHE": str(folder / "cache"), "WARPSMITH_DATA": str(folder)}
    command = [sys.executable, "-m", "bench.soak_run", kind, f"{seconds:g}", str(folder)]
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(command, cwd=ROOT, env={"WARPSMITH_PATIENCE": "1"} | os.environ | own, stderr=said)


def _sample(pid: int, folder: Path, at: float, series: Series, seen: set[psutil.Process]) -> None:
    """Note what the orchestrator and its judge hold now; nothing while the judge is not there."""
    try:
        orchestrator = psutil.Process(pid)
        below = orchestrator.children(recursive=True)
        judge = next((each for each in below if _is_judge(each)), None)
        if judge is None:
            return
        seen.update((orchestrator, *below))
        found = {
            f"{who}: {name}": value
            for who, process in (("orchestrator", orchestrator), ("judge", judge))
            for name, value in _held(process)
        }
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return
    found["children"] = len(below)
    found["temporary files"] = sum(1 for _ in (folder / "tmp").rglob("*"))
    for name, value in found.items():
        series[name].append((at, value))


def _is_judge(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "tools.service" in words and "tools.keeper" not in words


def _held(process: psutil.Process) -> Iterator[tuple[str, float]]:
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    sizes = {line.split(":")[0]: line.split()[1] for line in rollup.splitlines()[1:]}
    yield "resident MB", int(sizes["Rss"]) * 1024 / MB
    yield "proportional MB", int(sizes["Pss"]) * 1024 / MB
    yield "descriptors", process.num_fds()
    yield "threads", process.num_threads()


def _report(code: int, seconds: float, folder: Path, series: Series, left: Sequence[str]) -> dict[str, object]:
    problems, told, rows = list(left), {}, []
    if code != 0:
        problems.append(f"it ended with {code}: {(folder / 'said').read_text(errors='replace')[-500:]}")
    else:
        told = json.loads((folder / "told.json").read_text())
    for name, values in series.items():
        count = max(2, min(BLOCKS, int(seconds / 2 / BLOCK_SECONDS)))
        blocks = least_by_block([pair for pair in values if pair[0] >= seconds / 2], count)
        if len(blocks) < (count + 1) // 2:
            problems.append(f"{name} was not seen often enough")
            continue
        rise, may = rise_of(blocks), allowed(name, blocks)
        counts = told.get("iterations", 0) >= SETTLED and (seconds >= MEMORY_SECONDS or not name.endswith("MB"))
        verdict = "too short to say" if not counts else "flat" if rise <= may else "rises"
        least = [round(value, 1) for _, value in blocks]
        rows.append({"name": name, "least": least, "rise": round(rise, 2), "allowed": round(may, 2), "is": verdict})
        if verdict == "rises":
            problems.append(f"{name} rises by {rise:.1f} over the second half")
    return {"seconds": seconds, **told, "figures": rows, "problems": problems}


def least_by_block(values: Sequence[tuple[float, float]], blocks: int) -> list[tuple[float, float]]:
    """Of each of so many equal spans of time that has values: its middle, and the least value."""
    if len(values) < 2:
        return []
    first, last = values[0][0], values[-1][0]
    width = (last - first) / blocks or 1.0
    found: dict[int, float] = {}
    for at, value in values:
        block = min(blocks - 1, int((at - first) / width))
        found[block] = min(value, found.get(block, value))
    return [(first + (block + 0.5) * width, least) for block, least in sorted(found.items())]


def rise_of(blocks: Sequence[tuple[float, float]]) -> float:
    """How much the line of Theil and Sen rises from the first block to the last."""
    slopes = [(b - a) / (t - s) for (s, a), (t, b) in itertools.combinations(blocks, 2)]
    return statistics.median(slopes) * (blocks[-1][0] - blocks[0][0])


def allowed(name: str, blocks: Sequence[tuple[float, float]]) -> float:
    """By how much a figure of that name may rise."""
    least, part = ALLOWED[name.rpartition(": ")[2]]
    return max(least, part * statistics.median(value for _, value in blocks))


def print_report(kind: str, found: dict[str, object]) -> None:
    print(f"\n{kind}: " + ", ".join(f"{found.get(name)} {name}" for name in ("runs", "iterations", "attempts")))
    for row in found["figures"]:  # type: ignore[attr-defined]
        first, last = row["least"][0], row["least"][-1]
        print(f"  {row['name']:<32}{first:>8.1f} ... {last:>8.1f}   rise {row['rise']:>6.2f}   {row['is']}")
    print(*[f"  {problem}" for problem in found["problems"]] or ["  nothing is left"], sep="\n")  # type: ignore[attr-defined]


def _shared_memory() -> set[Path]:
    """Ours in /dev/shm."""
    return {path for path in Path("/dev/shm").glob("*warpsmith*") if path.stat().st_uid == os.getuid()}


if __name__ == "__main__":
    sys.exit(main())
