"""Keep what judge_on_gpu.py wrote of fixtures: row by row into tests/golden/h200/judge/, newer rows for older ones.

    python -P tests/h200/keep_fixtures.py FOLDER...

Rows of one record come from one chip and driver; the date of each is kept with it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden/h200/judge"
SECTIONS = ("fixtures", "torch_fixtures")


def keep(section: str, folders: list[Path]) -> int:
    """Merge all records of a section below the folders; how many rows came from them."""
    record = GOLDEN / f"{section}.json"
    kept = json.loads(record.read_text()) if record.is_file() else {}
    count = 0
    for path in sorted(path for folder in folders for path in folder.rglob(f"judge_{section}.json")):
        found = json.loads(path.read_text())
        machine = {"chip": found["chip"], "driver": found["driver"]}
        if kept and machine != {name: kept[name] for name in machine}:
            raise SystemExit(f"{path} is of another machine than {record}")
        rows = {name: row | {"date": found["date"]} for name, row in found[section].items() if isinstance(row, dict)}
        kept = {**machine, "date": found["date"], section: kept.get(section, {}) | rows}
        count += len(rows)
    if kept:
        record.write_text(json.dumps(kept, indent=1) + "\n")
    return count


if __name__ == "__main__":
    for name in SECTIONS:
        print(name, keep(name, [Path(argument) for argument in sys.argv[1:]]), "rows")
