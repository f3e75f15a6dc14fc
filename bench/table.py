"""Optimises every example and writes the README's table of results from the runs' own figures.

    python -m bench.table [--wall-time 120s] [--only NAME] [--runs DIR] [--from-runs | --as-it-is]

`--from-runs` optimises nothing and takes the newest ended run of each example under DIR; `--as-it-is` does not even
that. Rows of other examples than `--only` names are kept. The columns of the H200 come from a committed record, since
few machines have one: that of `tests/h200/speed_on_gpu.py autotune`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.quantities import duration, percent, times
from app.summary import Summary, WorkloadRow, summarize
from memory.runs import RunFolder, list_runs

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TUNED = ROOT / "tests/golden/h200/speed/autotune.json"
BEGIN, END = "<!-- results -->\n", "<!-- /results -->"
CELLS = 8
"""Cells of a row that come from a run here."""
HEAD = (
    "| example | workload | start | best | gain | NumPy | against NumPy | of the limit "
    "| H200: start | best | gain | of the limit |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
)

Rows = dict[str, list[tuple[str, ...]]]
"""By example: the cells of each workload, without those of the H200."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Optimise the examples and fill the README's table.")
    parser.add_argument("--wall-time", default="120s", help="time for each example")
    parser.add_argument("--only", action="append", help="an example by name; may be repeated")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "table")
    parser.add_argument("--from-runs", action="store_true", help="use the runs that are there")
    parser.add_argument("--as-it-is", action="store_true", help="only bring the H200's columns up to date")
    options = parser.parse_args()
    names = options.only or sorted(path.parent.name for path in ROOT.glob("examples/*/task.toml"))
    if options.as_it_is:
        write_table({}, None)
        return 0
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
    write_table({name: _cells(name, summarize(found[name])) for name in names}, _machine(found[names[0]]))
    return 0


def write_table(new: Rows, machine: str | None) -> None:
    """Put the rows between the README's two marks: the new ones, and for other examples those that are there."""
    text = README.read_text(encoding="utf-8")
    README.write_text(with_table(text, new, machine, record_of_h200()), encoding="utf-8")


def record_of_h200() -> dict[str, Any]:
    """Chip, driver, date and what the table needs: `words` about it, and by example the `rows` of its workloads."""
    tuned: dict[str, Any] = json.loads(TUNED.read_text())
    found = tuned["autotune"]
    words = (
        f"what `builtin:autotune` came to on each example's CUDA kernel in {found['iterations']} iterations or "
        f"{found['wall_seconds']} seconds of search, two runs at a time"
    )
    return tuned | {"words": words, "rows": {name: run["rows"] for name, run in found["examples"].items()}}


def with_table(text: str, new: Rows, machine: str | None, record: dict[str, Any]) -> str:
    """The README's text with its table brought up to date. Without `machine` the sentence about it stays."""
    before, _, rest = text.partition(BEGIN)
    table, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{README} has lost the marks around its table")
    rows = dict(sorted((_rows_of(table) | new).items()))
    about = machine or next((line for line in table.splitlines() if line.startswith("Measured on")), "")
    lines = [
        f"| {' | '.join((*cells, *_on_h200(record, name, cells[1])))} |\n"
        for name, row in rows.items()
        for cells in row
    ]
    return f"{before}{BEGIN}{HEAD}{''.join(lines)}\n{about}\n{_about_h200(record)}\n{mark}{after}"


def _rows_of(table: str) -> Rows:
    """What a table holds, its head left out."""
    rows: Rows = {}
    name = ""
    for line in table.splitlines():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if line.startswith("|") and cells[0] not in ("example", "---"):
            name = cells[0] or name
            rows.setdefault(name, []).append(cells[:CELLS])
    return rows


def _on_h200(record: dict[str, Any], name: str, workload: str) -> tuple[str, ...]:
    """The cells of one workload there."""
    row = next((each for each in record["rows"].get(name, []) if each["workload"] == workload), None)
    if row is None:
        return ("", "", "", "")
    start, best = row["start_seconds"], row["best_seconds"]
    return (duration(start), duration(best), f"**{times(start / best)}**", percent(row["share_of_limit"]))


def _about_h200(record: dict[str, Any]) -> str:
    return f"On an {record['chip']} (driver {record['driver']}, {record['date'][:10]}): {record['words']}."


def _cells(name: str, summary: Summary) -> list[tuple[str, ...]]:
    return [
        (
            name if index == 0 else "",
            row.workload,
            duration(row.start_seconds),
            duration(row.best_seconds),
            _gain(row) if summary.gain is not None else "not confirmed",
            duration(row.baseline_seconds),
            times(row.speedup),
            percent(row.share_of_limit),
        )
        for index, row in enumerate(summary.rows)
    ]


def _gain(row: WorkloadRow) -> str:
    """Of the two times that stand beside it, as the README says."""
    return f"**{times(None if row.start_seconds is None else row.start_seconds / row.best_seconds)}**"


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
