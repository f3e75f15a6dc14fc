"""The adversary's kernels and tasks as the tests use them: manifest entries, kernels, and one judge a task."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from tools.judge import Judge, open_task
from tools.measure import TOO_BUSY
from tools.records import Accepted, Kernel, Rejected, Unjudged
from tools.targets.base import Variant
from tools.task import TaskSource, read_kernel, read_task

TESTS = Path(__file__).parent
KERNELS = TESTS / "kernels"
TASKS = TESTS / "tasks_adversary"
MANIFEST = tomllib.loads((KERNELS / "manifest.toml").read_text(encoding="utf-8"))


BUSY_TRIES = 3


@dataclass(frozen=True)
class Case:
    """One kernel of the manifest and what it must be told."""

    folder: str
    file: str
    task: str
    expect: frozenset[str] = frozenset()
    """Acceptable "stage:reason" pairs; empty for a kernel that must be accepted."""
    says: str = ""
    line: int | None = None

    @property
    def path(self) -> Path:
        return KERNELS / self.folder / self.file

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def has_structural_defence(self) -> bool:
        """Whether a trip-wire sees it first and another defence stands behind it."""
        return "screen:forbidden_source" in self.expect and len(self.expect) > 1

    def kernel(self, secret: Path | None = None) -> Kernel:
        """Its kernel, with `@SECRET@` replaced by the path of a file that it must not be able to read."""
        kernel = read_kernel(self.path)
        files = {name: text.replace("@SECRET@", str(secret or "/nonexistent")) for name, text in kernel.files.items()}
        return kernel.model_copy(update={"files": files})


def cheating() -> list[Case]:
    return [
        Case("cheating", entry["file"], entry["task"], frozenset(entry["expect"])) for entry in MANIFEST["cheating"]
    ]


def harmless() -> list[tuple[Case, Case]]:
    """Tricks without effect, each with the honest kernel whose time it must have."""
    return [
        (Case("cheating", entry["file"], entry["task"]), Case("benign", entry["twin"], entry["task"]))
        for entry in MANIFEST["harmless"]
    ]


def benign() -> list[Case]:
    twins = {entry["twin"]: entry["task"] for entry in (*MANIFEST["cheating"], *MANIFEST["harmless"])}
    return [Case("benign", file, task) for file, task in sorted(twins.items())]


def broken() -> list[Case]:
    return [
        Case("broken", entry["file"], "softmax", frozenset(entry["expect"]), entry["says"], entry.get("line"))
        for entry in MANIFEST["broken"]
    ]


def task(name: str) -> TaskSource:
    return read_task(TASKS / name)


class Judges:
    """One open judge a task, shared by all tests of a module. Context manager: closed judges leave nothing running."""

    def __init__(self, cases: Iterable[Case], secret: Path) -> None:
        """`cases` are built side by side as soon as their task is opened: one by one takes twice as long."""
        self._cases = list(cases)
        self._secret = secret
        self._open: dict[str, Judge] = {}

    def of(self, case: Case) -> Judge:
        if case.task not in self._open:
            judge = self._open[case.task] = open_task(task(case.task))
            cases = [each for each in self._cases if each.task == case.task]
            builds: list[tuple[Kernel, Variant]] = [(each.kernel(self._secret), "release") for each in cases]
            builds += [(each.kernel(self._secret), "asan") for each in cases if not each.expect]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda build: judge.build_variant(*build), builds))
        return self._open[case.task]

    def evaluate(self, case: Case, incumbent: Case | None = None) -> Accepted | Rejected | Unjudged:
        """The verdict; on a machine that is too busy for one it is asked for again, and may stay `Unjudged`."""
        against = incumbent.kernel(self._secret) if incumbent else None
        for _ in range(BUSY_TRIES):
            verdict = self.of(case).evaluate(case.kernel(self._secret), incumbent=against)
            if not too_busy(verdict):
                break
        return verdict

    def __enter__(self) -> Judges:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for judge in self._open.values():
            judge.close()
        left = [child.name() for child in psutil.Process().children(recursive=True)]
        assert not [name for name in left if name.startswith(("worker", "bwrap", "jail"))]


def too_busy(verdict: Accepted | Rejected | Unjudged) -> bool:
    """Whether other programs kept the judge from any verdict."""
    return isinstance(verdict, Unjudged) and TOO_BUSY in verdict.message


def outcome(verdict: Accepted | Rejected | Unjudged) -> str:
    """ "stage:reason" of a rejection, else the status."""
    return f"{verdict.stage}:{verdict.reason}" if isinstance(verdict, Rejected) else verdict.status


def explain(verdict: Accepted | Rejected | Unjudged) -> str:
    """Everything a person needs to see why a verdict is not the expected one."""
    message = "" if isinstance(verdict, Accepted) else verdict.message
    stages = "\n".join(f"  {s.stage}: passed={s.passed} {s.details} {s.stderr[-400:]}" for s in verdict.stages)
    return f"{outcome(verdict)} {message}\n{stages}"
