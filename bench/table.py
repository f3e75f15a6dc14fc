"""Optimises every example and writes the README's table of results from the runs' own figures.

    python -m bench.table [--wall-time 120s] [--only NAME] [--runs DIR] [--from-runs]

`--from-runs` optimises nothing and takes the newest ended run of each example under DIR.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from app.quantities import duration, percent, times
from app.summary import Summary, summarize
from memory.runs import RunFolder, list_runs

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- results -->\n", "<!-- /results -->"
HEAD = (
    "| example | workload | start | best | gain | NumPy | against NumPy | of the limit |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Optimise the examples and fill the README's table.")
    parser.add_argument("--wall-time", default="120s", help="time for each example")
    parser.add_argument("--only", action="append", help="an example by name; may be repeated")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "table")
    parser.add_argument("--from-runs", action="store_true", help="use the runs that are there")
    options = parser.parse_args()
    names = options.only or sorted(path.parent.name for path in ROOT.glob("examples/*/task.toml"))
    if not options.from_runs:
        for name in names:
            print(f"{name}: {options.wall_time}", flush=True)
            _optimize(name, options.wall_time, options.runs)
    found = _newest(options.runs)
    missing = [name for name in names if name not in found]
    if missing:
        print(
            f"no ended run with an accepted kernel for {', '.join(missing)}; the table is left as it is",
            file=sys.stderr,
        )
        return 1
    write_table({name: found[name] for name in names}, next(iter(found.values())))
    return 0


def write_table(found: dict[str, RunFolder], machine: RunFolder) -> None:
    """Put the rows between the README's two marks."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{README} has lost the marks around its table")
    rows = "".join(line for name, run in found.items() for line in _rows(name, summarize(run)))
    README.write_text(before + BEGIN + HEAD + rows + "\n" + _machine(machine) + "\n" + mark + after, encoding="utf-8")
    print(HEAD + rows, end="")


def _rows(name: str, summary: Summary) -> list[str]:
    lines = []
    for index, row in enumerate(summary.rows):
        cells = (
            name if index == 0 else "",
            row.workload,
            duration(row.start_seconds),
            duration(row.best_seconds),
            f"**{times(row.gain)}**",
            duration(row.baseline_seconds),
            times(row.speedup),
            percent(row.share_of_limit),
        )
        lines.append(f"| {' | '.join(cells)} |\n")
    return lines


def _machine(run: RunFolder) -> str:
    hardware = (run.facts() or {}).get("hardware")
    facts = hardware if isinstance(hardware, dict) else {}
    model, compiler = facts.get("model", "an unknown processor"), facts.get("compiler", "g++")
    return f"Measured on {facts.get('cores', '?')} cores of {model}, {compiler}."


def _optimize(name: str, wall_time: str, runs: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "app.start",
        "optimize",
        f"examples/{name}",
        "--wall-time",
        wall_time,
        "--runs",
        str(runs),
    ]
    subprocess.run(argv, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


def _newest(runs: Path) -> dict[str, RunFolder]:
    """By task name; later runs replace earlier ones."""
    summaries = ((run, summarize(run)) for run in list_runs(runs))
    return {summary.task: run for run, summary in summaries if summary.state == "ended" and summary.rows}


if __name__ == "__main__":
    sys.exit(main())
