"""What a person names on the command line, turned into records: overrides, kernels, runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from memory.files import RunFolderError
from memory.lesson_store import LessonStore, default_path
from memory.runs import RunFolder, list_runs
from tools.errors import KernelError, TaskError, WarpsmithError
from tools.records import Kernel
from tools.task import TaskSource, read_kernel, read_task
from tools.tunables import parse_tunables

_SPAN_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def task_at(path: Path, settings: Sequence[str]) -> TaskSource:
    """The task at `path` with `NAME=VALUE` overrides. Raises TaskError."""
    return read_task(path, overrides(settings))


def overrides(settings: Sequence[str]) -> dict[str, JsonValue]:
    """`NAME=VALUE` pairs; a value is JSON where it reads as JSON, else text. Raises TaskError."""
    values: dict[str, JsonValue] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip().isidentifier():
            raise TaskError("not_a_task", f"--set {setting} is not NAME=VALUE", "For instance: --set batch_size=16")
        try:
            values[name.strip()] = json.loads(text)
        except ValueError:
            values[name.strip()] = text
    return values


def kernel_at(path: Path, defines: Sequence[str] = (), flags: Sequence[str] = ()) -> Kernel:
    """A kernel from a source file, a folder of sources (with its `build.json`, if it was exported), or an attempt's
    folder of a run (with its build settings).

    `defines` are `NAME=VALUE`, `flags` compiler flags; both come on top of what the attempt had. Raises KernelError.
    """
    record = path / "attempt.json"
    kernel = _attempt_kernel(record) if record.is_file() else _built_as(path, read_kernel(path))
    pairs = [define.partition("=") for define in defines]
    bad = next((name for name, equals, _ in pairs if not equals or not name.isidentifier()), None)
    if bad is not None:
        raise KernelError(f"--define {bad} is not NAME=VALUE", "For instance: --define BLOCK=128")
    added = {name: value for name, _, value in pairs}
    declared = parse_tunables(kernel.files)
    unknown = next((name for name in added if name not in declared), None)
    if unknown is not None:
        listed = "; ".join(f"{name} = {','.join(values)}" for name, values in declared.items()) or "none"
        raise KernelError(f"{path} declares no tunable {unknown}", f"It declares: {listed}.")
    return kernel.model_copy(update={"defines": kernel.defines | added, "flags": (*kernel.flags, *flags)})


def _built_as(path: Path, kernel: Kernel) -> Kernel:
    """With the tunables and flags of the `build.json` beside exported sources. KernelError when that can't be read."""
    record = path / "build.json"
    if not record.is_file():
        return kernel
    try:
        build = json.loads(record.read_text("utf-8"))
        if "attempt" not in build:  # another tool's
            return kernel
        named = {"defines": build["defines"], "flags": build["flags"]}
        return Kernel.model_validate(kernel.model_dump() | named)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise KernelError(f"{record} can't be read", "Export the kernel again, or remove the file.") from error


def documents_at(path: Path) -> Path:
    """A file or folder to search, as an absolute path. Raises WarpsmithError when it isn't there or can't be read."""
    if not path.exists():
        raise WarpsmithError(f"there is no {path} to search", "Name a folder or a file that exists with --docs.")
    if not os.access(path, os.R_OK):
        raise WarpsmithError(f"{path} can't be read", "Check its permissions, or leave out this --docs.")
    return path.resolve()


def lessons_at(name: str | None) -> str | None:
    """The file of lessons, opened once so that a damaged one is told before a run begins; None for `none`.

    Raises LessonsError.
    """
    if name == "none":
        return None
    store = LessonStore(Path(name).expanduser().absolute() if name else default_path())
    store.find("any", 1)
    return str(store.path)


def find_run(name: str, runs_root: Path) -> RunFolder:
    """A run by path, by id, by an unambiguous part of its id, or `latest`. Raises RunFolderError."""
    if (Path(name) / "config.json").is_file():
        return RunFolder(Path(name))
    runs = list_runs(runs_root)
    if not runs:
        raise RunFolderError(
            f"there are no runs under {runs_root}", "Start one with `warpsmith optimize`, or give --runs."
        )
    if name == "latest":
        return runs[-1]
    exact = [run for run in runs if run.id == name]
    found = exact or [run for run in runs if name in run.id]
    if len(found) == 1:
        return found[0]
    if not found:
        raise RunFolderError(f"there is no run {name} under {runs_root}", "`warpsmith runs` lists them.")
    shown = ", ".join(run.id for run in found[:4])
    raise RunFolderError(f"{name} fits {len(found)} runs: {shown}", "Give more of the name.")


def seconds_of(text: str) -> float:
    """`90`, `90s`, `10m`, `2h`, `1d` in seconds. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d|)", text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text} is not a time such as 90s, 10m or 2h")
    return float(match[1]) * _SPAN_UNITS[match[2]]


def _attempt_kernel(record: Path) -> Kernel:
    try:
        return Kernel.model_validate(json.loads(record.read_text(encoding="utf-8"))["kernel"])
    except (ValueError, KeyError, OSError) as error:
        raise KernelError(f"{record} does not hold a kernel", "Name a source file or a folder of sources.") from error
