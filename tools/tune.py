"""Sweep what a kernel declares (`// tune: BLOCK = 64,128`) and the target's flag groups: many timings, no model turns.

Nothing here decides that a kernel is better: the sweep's winner is a candidate like any other and still has to pass
`run` in mode `full`.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from tools.executor import Executor
from tools.records import Kernel, QuickResult, Reason, Record
from tools.space import Assignment, Seen, Space, apply, space_of, suggest
from tools.targets.base import FlagGroup
from tools.task import TaskSource
from tools.tunables import parse_tunables

__all__ = ["Assignment", "Seen", "Space", "Trial", "TuneReport", "apply", "space_of", "suggest", "tune"]

FINALISTS: Final = 3
BATCH: Final = 6
BATCH_APART: Final = 16
"""Variants asked for at a time: more where they neither build nor start on the cores that they run on."""
RACES: Final = 2
"""How often the finalists are timed again."""


class Trial(Record):
    """One measured point of a sweep: timed, or rejected for a reason."""

    assignment: Assignment
    kernel: str
    seconds: float | None = None
    ratio: float | None = None
    """Rival's time / this variant's, where there was a rival."""
    reason: Reason | None = None
    message: str = ""

    @classmethod
    def of(cls, assignment: Assignment, result: QuickResult) -> Trial:
        return cls(assignment=assignment, **result.model_dump(exclude={"status"}))

    @property
    def cost(self) -> float | None:
        """What the search minimises: time relative to the rival it was raced with, since the machine's speed drifts."""
        return self.seconds if self.ratio is None else 1 / self.ratio


class TuneReport(Record):
    """What a sweep found. `kernel`, `assignment` and `seconds` are present when at least one variant was right."""

    trials: tuple[Trial, ...]
    points: int
    """Size of the space."""
    exhausted: bool
    """Every point was measured."""
    kernel: Kernel | None = None
    assignment: Assignment | None = None
    seconds: float | None = None
    ratio: float | None = None
    """Incumbent's time / the best variant's, from the final races."""


async def tune(
    executor: Executor,
    task: TaskSource,
    kernel: Kernel,
    incumbent: Kernel | None = None,
    trials: int = 24,
    *,
    groups: Sequence[FlagGroup] = (),
    batch: int | None = None,
    seed: int = 0,
) -> TuneReport:
    """Sweep the values that `kernel` declares (`// tune: BLOCK = 64,128,256`) and the compiler's flag groups.

    Measures up to `trials` variants in one call, each checked lightly and timed side by side with `incumbent` (the
    kernel as it stands when there is none), then races the best few again. The report's `kernel` is the fastest
    variant with its values set; it is not kept until `run` in mode `full` accepts it. `batch` variants are asked for
    at a time; on a GPU the next ones are, before the last ones are known, so that they are built meanwhile. Raises
    KernelError for a malformed `// tune:` line and what the executor raises.
    """
    space = space_of(kernel, parse_tunables(kernel.files), groups)
    on_cores = kernel.language == "cpp"
    size = batch or (BATCH if on_cores else BATCH_APART)
    done: list[Trial] = []
    asked: deque[tuple[list[Assignment], asyncio.Future[list[QuickResult]]]] = deque()
    rival = incumbent
    try:
        while True:
            pending = [assignment for chosen, _ in asked for assignment in chosen]
            left = trials - len(done) - len(pending)
            ahead = 2 if done and not on_cores else 1
            chosen = _batch(space, done, pending, seed, min(size, left)) if len(asked) < ahead else []
            if chosen:
                variants = [apply(kernel, space, assignment) for assignment in chosen]
                asked.append((chosen, asyncio.ensure_future(executor.quick(task, variants, rival))))
                continue
            if not asked:
                break
            chosen, answer = asked.popleft()
            done += [Trial.of(a, result) for a, result in zip(chosen, await answer, strict=True)]
            if rival is None:
                rival = next((apply(kernel, space, t.assignment) for t in done if t.seconds is not None), None)
    finally:
        for _, answer in asked:
            answer.cancel()
        await asyncio.gather(*(answer for _, answer in asked), return_exceptions=True)
    timed = sorted((trial for trial in done if trial.cost is not None), key=lambda trial: trial.cost or 0.0)[:FINALISTS]
    finalists = [(trial.assignment, apply(kernel, space, trial.assignment)) for trial in timed]
    # The best of many single timings is partly luck, so the last word has a race of the best few among themselves.
    races = [await executor.quick(task, [k for _, k in finalists], rival) for _ in range(RACES if finalists else 0)]
    return _report(space, done, finalists, races)


def _batch(
    space: Space, done: Sequence[Trial], pending: Sequence[Assignment], seed: int, size: int
) -> list[Assignment]:
    """Up to `size` new points; the first batch is the start alone, so that the others have a rival."""
    chosen: list[Assignment] = []
    seen = [(trial.assignment, trial.cost) for trial in done]
    while len(chosen) < size and (following := suggest(space, seen, seed, [*pending, *chosen])) is not None:
        chosen.append(following)
        if not done:
            break
    return chosen


def _report(
    space: Space,
    done: Sequence[Trial],
    finalists: Sequence[tuple[Assignment, Kernel]],
    races: Sequence[Sequence[QuickResult]],
) -> TuneReport:
    """The finalist that was fastest over all its races; one that failed any of them is out."""
    best: tuple[float, dict[str, object]] | None = None
    for (assignment, kernel), results in zip(finalists, zip(*races, strict=True), strict=True):
        seconds = [result.seconds for result in results if result.seconds is not None]
        ratios = [result.ratio for result in results if result.ratio is not None]
        if len(seconds) < len(results):
            continue
        mean, ratio = _geomean(seconds), _geomean(ratios) if len(ratios) == len(results) else None
        cost = mean if ratio is None else 1 / ratio
        if best is None or cost < best[0]:
            best = cost, {"kernel": kernel, "assignment": assignment, "seconds": mean, "ratio": ratio}
    report = TuneReport(trials=tuple(done), points=space.size, exhausted=len(done) >= space.size)
    return report if best is None else report.model_copy(update=best[1])


def _geomean(values: Sequence[float]) -> float:
    return math.prod(values) ** (1 / len(values))
