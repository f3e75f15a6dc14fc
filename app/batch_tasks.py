"""What a person names for a batch, turned into tasks: paths, folders of tasks, lists. The rest is passed over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agents.batch import PassedOver, QueuedTask
from tools.errors import KernelError, TaskError, WarpsmithError
from tools.task import read_task

MANIFEST = "task.toml"


def read_tasks(paths: Sequence[Path]) -> tuple[tuple[QueuedTask, ...], tuple[PassedOver, ...]]:
    """All tasks that `paths` lead to, in their order, and what was passed over with the reason."""
    tasks: list[QueuedTask] = []
    passed: list[PassedOver] = []
    seen: set[Path] = set()
    for path in _spread(paths, passed):
        if path.resolve() in seen:
            passed.append(PassedOver(path=str(path), reason="it was named before"))
            continue
        seen.add(path.resolve())
        try:
            task = read_task(path)
        except (TaskError, KernelError) as error:
            passed.append(PassedOver(path=str(path), reason=error.message, advice=error.advice))
            continue
        tasks.append(QueuedTask(key=_key(task.name, tasks), path=str(path), task=task))
    return tuple(tasks), tuple(passed)


def batch_name(paths: Sequence[Path]) -> str:
    """That of what was named, or `tasks` for several things."""
    return paths[0].resolve().stem if len(paths) == 1 else "tasks"


def _spread(paths: Iterable[Path], passed: list[PassedOver]) -> Iterator[Path]:
    """Each path as the tasks that it stands for; a list may name folders, but no other list."""
    for path in paths:
        if path.is_file() and path.suffix != ".py":
            for named in _listed(path):
                yield from _in_folder(named, passed)
        else:
            yield from _in_folder(path, passed)


def _in_folder(path: Path, passed: list[PassedOver]) -> Iterator[Path]:
    if not path.is_dir() or (path / MANIFEST).is_file():
        yield path
        return
    found = [
        inside
        for inside in sorted(path.iterdir())
        if not inside.name.startswith((".", "_"))
        and ((inside / MANIFEST).is_file() or (inside.is_file() and inside.suffix == ".py"))
    ]
    if not found:
        reason = f"it has no {MANIFEST}, and no task is in it"
        passed.append(PassedOver(path=str(path), reason=reason, advice="Name a task, or a folder of tasks."))
    yield from found


def _listed(path: Path) -> list[Path]:
    """The paths of a list, relative to its folder. Raises WarpsmithError when it can't be read."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise WarpsmithError(
            f"{path} can't be read as a list of tasks", "A list is a text file with one path a line."
        ) from error
    return [path.parent / line for line in lines if line and not line.startswith("#")]


def _key(name: str, tasks: Sequence[QueuedTask]) -> str:
    """The task's name as a file name, made unique in the batch."""
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "task"
    taken = {task.key for task in tasks}
    return next(
        key for number in range(1, len(taken) + 2) if (key := word if number == 1 else f"{word}-{number}") not in taken
    )
