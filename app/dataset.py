"""`warpsmith export-dataset`: which runs are meant, what must not get out, and what a person is told."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from agents.dataset_card import card
from agents.dataset_schema import KINDS, Kind
from agents.datasets import Counted, Wanted, export
from agents.privacy import of_this_machine
from agents.secrets import Scrubber
from app.configuration import Asked, configure
from app.exits import DONE, REJECTED
from app.inputs import find_run
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.errors import WarpsmithError

DEPTH = 4
"""How many folders below a named one runs are looked for."""


def write_dataset(
    sources: Sequence[str], runs_root: Path, output: Path, wanted: Wanted, *, force: bool, as_json: bool
) -> int:
    """Write the data set and say what is in it. Raises RunFolderError, WarpsmithError."""
    folders = list(dict.fromkeys(path.resolve() for source in sources for path in _folders(source, runs_root)))
    scrubber = Scrubber.of(configure(Asked(), os.environ, Path.cwd()).connections)
    near = {folder.parent for folder in folders} | {runs_root}
    privacy = of_this_machine(scrubber.text, [*folders, *near])
    counted = export((RunFolder(folder) for folder in folders), output, wanted, privacy, card, force=force)
    if as_json:
        print(json.dumps(_as_json(counted, output)))
    else:
        _say(counted, output)
    return DONE if +counted.lines else REJECTED


def kinds_named(names: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds of those names, each once. Raises WarpsmithError."""
    chosen = named("--kind", names, KINDS)
    return tuple(kind for kind in KINDS if kind in chosen)


def named(option: str, names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """`names`, each once, if all are among `known`. Raises WarpsmithError."""
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise WarpsmithError(f"{option} {unknown} is not known", f"There are: {', '.join(known)}.")
    return tuple(dict.fromkeys(names))


def _folders(source: str, runs_root: Path) -> list[Path]:
    """The run folders that `source` names: one, or all in a folder and below."""
    path = Path(source)
    if path.is_dir() and not (path / "config.json").is_file():
        found = list(_below(path, DEPTH))
        if not found:
            raise RunFolderError(f"there are no runs in {path}", "Name a run folder, or a folder that holds some.")
        return found
    return [find_run(source, runs_root).path]


def _below(folder: Path, depth: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if (path / "config.json").is_file():
            yield path
        elif depth and path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield from _below(path, depth - 1)


def _as_json(counted: Counted, output: Path) -> dict[str, object]:
    return {
        "output": str(output),
        "runs": len(counted.runs),
        "lines": dict(counted.lines),
        "left_out": dict(counted.left_out),
        "unreadable": dict(counted.damaged),
    }


def _say(counted: Counted, output: Path) -> None:
    for kind, lines in counted.lines.items():
        print(f"{kind:<11} {lines} lines")
    for reason, count in counted.left_out.most_common():
        print(f"left out    {count}: {reason}")
    for run, count in counted.damaged.items():
        print(f"unreadable  {count} in {run}")
    print(f"written     {output}")
