"""Keep what judge_on_gpu.py wrote of fixtures: row by row into tests/golden/h200/judge/, newer rows for older ones.

    python -P tests/h200/keep_fixtures.py FOLDER...

Rows of one record come from one chip and driver; the date of each is kept with it. What was judged leaves the list of
rows that no GPU has judged yet, tests/kernels/not_recorded.json. Rows that could not be judged are told and left out.
Exit status 1 when the folders hold no record.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GOLDEN, NOT_RECORDED = ROOT / "golden/h200/judge", ROOT / "kernels/not_recorded.json"
RECORDS = {"fixtures": ("fixtures", "beside"), "torch_fixtures": ("torch_fixtures",)}
"""The sections whose rows make a record."""
AFTERMATH = "aftermath"
"""The faults whose rows don't say yet what came after them."""
WHOLE = ("invalid",)
"""Sections that are a record of their own."""


def found_in(folders: list[Path], section: str) -> Iterator[dict[str, Any]]:
    """The records of a section below the folders."""
    for path in sorted(path for folder in folders for path in folder.rglob(f"judge_{section}.json")):
        record: dict[str, Any] = json.loads(path.read_text())
        yield record


def is_judged(found: Any) -> bool:
    """Whether a row holds a verdict on the kernel."""
    return isinstance(found, dict) and found.get("verdict", {}).get("status", "unjudged") != "unjudged"


def keep(name: str, folders: list[Path], golden: Path = GOLDEN) -> list[str]:
    """Merge the rows for a record; which came from the folders. Raises SystemExit when they are of another machine than
    rows that would stay, or of several."""
    place = golden / f"{name}.json"
    kept: dict[str, Any] = json.loads(place.read_text()) if place.is_file() else {}
    old = kept.get(name, {})
    new: dict[str, Any] = {}
    machines = []
    for section in RECORDS[name]:
        for record in found_in(folders, section):
            rows = record[section]
            machines.append({"chip": record["chip"], "driver": record["driver"], "date": record["date"]})
            unjudged = {row: found for row, found in rows.items() if not is_judged(found)}
            for row, found in unjudged.items():
                print(f"{row} is left out: {json.dumps(found)[:300]}", file=sys.stderr)
            new |= {row: found | {"date": record["date"]} for row, found in rows.items() if row not in unjudged}
    if not new:
        return []
    stays = [kept] if old.keys() - new.keys() else []
    if len({(machine["chip"], machine["driver"]) for machine in (*machines, *stays)}) > 1:
        raise SystemExit(f"the rows for {name} are of several machines, or of another one than those that stay")
    place.write_text(json.dumps({**machines[-1], name: old | new}, indent=1) + "\n")
    return sorted(new)


def keep_whole(section: str, folders: list[Path], golden: Path = GOLDEN) -> bool:
    """Keep the last record of a section as it is; whether there was one that did not fail."""
    records = [record for record in found_in(folders, section) if "failed" not in record[section]]
    if records:
        (golden / f"{section}.json").write_text(json.dumps(records[-1], indent=1) + "\n")
    return bool(records)


def strike(name: str, rows: list[str], place: Path = NOT_RECORDED) -> None:
    """Take rows off the list of those without a record."""
    listed: dict[str, list[str]] = json.loads(place.read_text())
    listed[name] = [row for row in listed[name] if row not in rows]
    place.write_text(json.dumps(listed, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    folders: list[Path] = parser.parse_args().folders
    sections = (*(section for parts in RECORDS.values() for section in parts), *WHOLE)
    if not any(record for section in sections for record in found_in(folders, section)):
        looked = " or ".join(str(folder) for folder in folders)
        names = ", ".join(f"judge_{section}.json" for section in sections)
        sys.exit(f"There is no record of judge_on_gpu.py under {looked}; looked for {names}")
    for name in RECORDS:
        rows = keep(name, folders)
        for listed in (name, *([AFTERMATH] if name == "fixtures" else [])):
            strike(listed, rows)
        print(name, len(rows))
    for section in WHOLE:
        kept = keep_whole(section, folders)
        strike(section, [section] if kept else [])
        print(section, kept)


if __name__ == "__main__":
    main()
