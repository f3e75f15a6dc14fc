"""What the scripts of this folder share: they run the sections that are named, else all, one after the other, and leave
a record of each in a folder as soon as it is done, with the chip, its driver and the date.

Imports nothing but the standard library, since not every machine with a GPU has more.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Report = dict[str, Any]
Section = Callable[[], Report]


class NoGpu(Exception):
    """Why nothing can be recorded here."""


class Sections(dict[str, Section]):
    """What a script can do, by name, in the order in which it stands there."""

    def section(self, function: Section) -> Section:
        """Add a function, as a decorator."""
        self[function.__name__] = function
        return function


def parser_of(text: str | None, sections: Collection[str]) -> argparse.ArgumentParser:
    """For the names of sections; `text` is the script's docstring."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0] if text else None)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(sections))
    return parser


def asked_of(
    parser: argparse.ArgumentParser, sections: Collection[str], arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """What the command line says, `sections` being all where it names none. Exits with status 2 when it names one that
    there isn't, and where they can't run, unless it only asks for a dry run."""
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.sections if name not in sections]:
        parser.error(f"there is no section {unknown[0]}")
    asked.sections = asked.sections or list(sections)
    if not getattr(asked, "dry_run", False):
        require_gpu("pycuda")
    return asked


def each_run(sections: Mapping[str, Section], failed: Callable[[str], Report]) -> Iterator[tuple[str, Report, float]]:
    """Name, report and seconds of each, as it comes to its end; `failed` makes a report of the end of a traceback."""
    for name, section in sections.items():
        begin = time.perf_counter()
        try:
            found = section()
        except Exception:  # noqa: BLE001 - the other sections are still worth their device time
            traceback.print_exc()
            found = failed(traceback.format_exc()[-2000:])
        yield name, found, time.perf_counter() - begin


class Seen:
    """What a section sees, row by row: written down after each, and what of it should not be so."""

    def __init__(self, keep: Callable[[Seen], None]) -> None:
        self._keep = keep
        self.rows: Report = {}
        self.faults: list[str] = []

    @contextmanager
    def row(self, name: str) -> Iterator[Report]:
        """A row to be filled in. What goes wrong in it is written down, and the next one has its turn."""
        row: Report = {}
        self.rows[name] = row
        try:
            yield row
        except Exception as error:  # noqa: BLE001 - the other rows are still worth their device time
            traceback.print_exc()
            row["failed"] = f"{type(error).__name__}: {error}"
            self.faults.append(f"{name}: {row['failed']}")
        self._keep(self)

    def require(self, name: str, right: bool) -> None:
        """Note what is not as it should be."""
        if not right:
            self.faults.append(name)


def gpu() -> Report:
    """Chip and driver. Raises NoGpu."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(query, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoGpu(f"nvidia-smi does not start ({error.strerror})") from None
    said = (asked.stdout.strip() or asked.stderr.strip() or "nothing").splitlines()[0]
    chip, comma, driver = said.partition(", ")
    if asked.returncode or not comma:
        raise NoGpu(f"nvidia-smi says: {said}")
    return {"chip": chip, "driver": driver}


def require_gpu(*modules: str) -> None:
    """Exit with status 2 and a sentence where there is no GPU, or where one of these modules is not installed."""
    try:
        gpu()
    except NoGpu as why:
        print(f"There is no GPU here: {why}. Run this on a machine that has one; see docs/gpu.md.", file=sys.stderr)
        sys.exit(2)
    if lacking := [name for name in modules if importlib.util.find_spec(name) is None]:
        print(f"Python lacks {' and '.join(lacking)} here; see docs/gpu.md.", file=sys.stderr)
        sys.exit(2)


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine(nvcc: str | None) -> Report:
    """What runs it, and when, to the second. A machine without a GPU has no chip."""
    try:
        found = gpu()
    except NoGpu:
        found = {"chip": None, "driver": None}
    return {**found, "nvcc": nvcc, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}


def out_folder() -> Path:
    """$OUT, else ./out; made when it isn't there."""
    out = Path(os.environ.get("OUT", "out")).resolve()
    out.mkdir(parents=True, exist_ok=True)
    return out


def write(path: Path, record: Report) -> None:
    path.write_text(json.dumps(record, indent=1) + "\n")
