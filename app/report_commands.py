"""The command lines that make a run, or a part of it, again."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from memory.runs import RunFolder


def command(run: RunFolder) -> str:
    """The command line that started the run."""
    words = run.config().get("command")
    return shlex.join(str(word) for word in words) if isinstance(words, list) else ""


def check_command(run: RunFolder, attempt: str) -> str:
    """The command line that judges one attempt again."""
    return _with_kernel("check", run, attempt)


def profile_command(run: RunFolder, attempt: str) -> str:
    """The command line that profiles one attempt."""
    return _with_kernel("profile", run, attempt)


@dataclass(frozen=True)
class Exported:
    """An export that the run's log tells of."""

    attempt: str
    form: str
    folder: str
    said: str


def exports(run: RunFolder) -> list[Exported]:
    """In the order in which they were made."""
    told = [line for line in run.events() if line["event"] == "exported"]
    return [Exported(*(str(line.get(name)) for name in ("attempt", "form", "folder", "said"))) for line in told]


def _with_kernel(verb: str, run: RunFolder, attempt: str) -> str:
    config = run.config()
    task = config.get("task")
    overrides = task.get("overrides") if isinstance(task, dict) else None
    values = overrides if isinstance(overrides, dict) else {}
    settings = [word for name, value in values.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    executor = config.get("executor", "local")
    where = [] if executor == "local" else ["--executor", str(executor)]
    return shlex.join(
        ["warpsmith", verb, str(config.get("task_path", "TASK")), str(run.folder_of(attempt)), *settings, *where]
    )
