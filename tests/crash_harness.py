"""Kills a run at random points, by seed, until it comes to its end all the same, and compares it with one that nobody
killed.

    python -P tests/crash_harness.py --kills 12 --seed 1 --iterations 8 [--apart]

prints one JSON object. Each kill is SIGKILL, in a third of the cases with what a power cut takes (tests/power_cut.py);
it comes before a file operation whose number the seed says, so that it falls between any two writes, or after a random
time. Children are forked, so that a kill costs no start of an interpreter. The executor measures nothing, but writes
down outside the run folder each evaluation that begins and ends; so does the model for each call.

With --apart the judge and its workers are processes of their own (tests/killed_judge.py), and half of all kills are
theirs: between any two steps of a job. After each kill of the orchestrator nothing below it may go on.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import killed_judge
from clean_fork import run_apart
from killed_run import seconds_of
from power_cut import Flushes, broken_json, cut, leftovers, settle
from stub_executor import TASK, StubExecutor

from agents.drive import optimize
from agents.models import registry
from agents.models.base import OnText, Reply, Request, ToolCall, Usage
from agents.models.builtin import Autotune
from agents.models.costs import PAID_EVENTS, ledger
from agents.models.spec import ModelSpec
from agents.settings import Budgets, Models, RunSettings
from memory.runs import RunFolder
from memory.tokens import COUNTER
from tools.records import Kernel, Verdict
from tools.task import TaskSource

OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.symlink", "os.truncate", "shutil.rmtree")
"""Audit events, each raised right before the operation."""
POWER_CUTS = 1 / 3
TIMED = 1 / 5
"""Shares of all kills."""
ORPHAN_SECONDS = 60.0
"""Until what goes on is called an orphan."""


class Notes:
    """What really happened, one line each, in a file that no kill can tear: a line is one write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __reduce__(self) -> tuple[type[Notes], tuple[Path]]:
        return Notes, (self.path,)

    def add(self, kind: str, what: str) -> None:
        os.write(self._file, f"{kind} {what}\n".encode())

    def lines(self) -> list[tuple[str, str]]:
        return [(line.partition(" ")[0], line.partition(" ")[2]) for line in self.path.read_text().splitlines()]


class Watched(StubExecutor):
    """Tells of each evaluation. Some kernels are rejected."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(lambda kernel: None if kernel.defines.get("UNROLL") == "8" else seconds_of(kernel))
        self._notes = notes

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        what = f"final {kernel.id}" if final else kernel.id
        self._notes.add("begin", what)
        await asyncio.sleep(0)
        verdict = await super().evaluate(task, kernel, incumbent, final=final)
        self._notes.add("end", what)
        return verdict


class Priced(Autotune):
    """The tuner as a model that costs something, and whose coder builds a kernel before it has it judged. What a call
    costs follows from its prompt."""

    name = "builtin:priced"

    def __init__(self, seed: int, notes: Notes) -> None:
        super().__init__(seed)
        self._notes = notes

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        said = "\n".join(message.text for message in request.messages)
        digest = hashlib.sha256(said.encode()).hexdigest()
        self._notes.add("call", digest)
        reply = await super().reply(self._without_build(request), on_text)
        built = any(message.label == "compile" for message in request.messages)
        run = next((call for call in reply.tool_calls if call.name == "run"), None)
        if run is not None and not built:
            candidate = json.loads(run.arguments)["candidates"][0]
            call = ToolCall(id="call-build", name="compile", arguments=json.dumps({"candidate": candidate}))
            reply = reply.model_copy(update={"tool_calls": (call,)})
        tokens = COUNTER.count(said) + int(digest[:2], 16)
        usage = Usage(input_tokens=tokens, output_tokens=tokens // 7, dollars=tokens / 1_000_000)
        return reply.model_copy(update={"usage": usage})

    @staticmethod
    def _without_build(request: Request) -> Request:
        kept = tuple(message for message in request.messages if message.label != "compile")
        return request.model_copy(update={"messages": kept})


@dataclass
class Story:
    """One run, in as many processes as it takes."""

    root: Path
    model: str
    iterations: int
    parallel: int = 1
    wall_time: float | None = None
    apart: bool = False
    """The judge is a process of its own."""
    run: RunFolder = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True)
        self.run = RunFolder.create(self.root, "stub", {})
        self.notes = Notes(self.root / "notes")
        self.scratch = self.root / "scratch"
        self.scratch.mkdir()
        killed_judge.foresee(self.root, [])

    def play(self, fatal: int | None = None, flushes: Path | None = None, count: Path | None = None) -> None:
        """In a child: go on with the run to its end, or die before the file operation of that number. count: where to
        leave how many there were."""
        tempfile.tempdir = str(self.scratch)
        if flushes is not None:
            Flushes(flushes).install()
        registry.LOCAL["builtin"] = self._model
        models = Models.choose("builtin:priced" if self.model == "priced" else None)
        budgets = Budgets(iterations=self.iterations, near_limit=None, patience=None, wall_time=self.wall_time)
        settings = RunSettings(budgets=budgets, models=models, parallel=self.parallel, judge_waits=(0.0, 0.0, 0.0))
        operations = _count_operations(self.run.path, fatal)
        asyncio.run(self._work(settings))
        if count is not None:
            count.write_text(str(operations()))

    async def _work(self, settings: RunSettings) -> None:
        executor = killed_judge.executor(self.root) if self.apart else Watched(self.notes)
        try:
            await optimize(TASK, settings, RunFolder(self.run.path), executor, lambda _: None)
        finally:
            await executor.close()

    def _model(self, spec: ModelSpec, seed: int) -> Autotune:
        return Priced(seed, self.notes) if spec.model == "priced" else Autotune(seed)

    def child(self, play: Callable[[], None], seconds: float | None = None) -> int:
        """`play` in another process, killed after so many seconds; its exit code, or minus the signal that ended it."""
        return run_apart(partial(_heard, play, self.root / "failure"), seconds)

    def recorded(self) -> set[str]:
        """Kernels with an attempt."""
        return {attempt.kernel_id for attempt in RunFolder(self.run.path).attempts()}

    def answered(self) -> int:
        """Model calls that were paid for and are known."""
        return sum(event["event"] == "model_called" for event in RunFolder(self.run.path).events())


def _count_operations(root: Path, fatal: int | None) -> Callable[[], int]:
    """Count file operations below `root` from now on, and die before the one of that number."""
    done, prefix = 0, str(root)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        if event in OPERATIONS and str(arguments[0]).startswith(prefix):
            done += 1
            if done == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return lambda: done


def _heard(play: Callable[[], None], failure: Path) -> None:
    try:
        play()
    except BaseException as error:
        failure.write_text(f"{type(error).__name__}: {error}")
        raise


@dataclass
class Report:
    """What came of the kills."""

    kills: int = 0
    """Of the orchestrator; of the others:"""
    judge_kills: int = 0
    worker_kills: int = 0
    power_cuts: int = 0
    lost_evaluations: int = 0
    """That had begun, perhaps ended, and were not yet written down."""
    lost_calls: int = 0
    attempts: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def crash(
    root: Path, model: str, kills: int, seed: int, *, iterations: int, parallel: int = 1, apart: bool = False
) -> Report:
    """Kill one run so many times, let it end, and say what is not as it should be."""
    began, random, report = time.monotonic(), Random(seed), Report()
    whole, story = (
        Story(root / "whole", model, iterations, parallel, apart=apart),
        Story(root / "killed", model, iterations, parallel, apart=apart),
    )
    count = root / "operations"
    status = whole.child(partial(whole.play, count=count))
    if status:
        report.problems.append(f"the run that nobody kills ends with {status}: {_failure(whole)}")
        return report
    flushes = root / "flushes"
    settle(story.run.path, flushes)
    operations, took = int(count.read_text()), time.monotonic() - began
    steps = (whole.root / "steps").stat().st_size
    while report.kills + report.judge_kills + report.worker_kills < kills:
        recorded = story.recorded()
        begun = len(story.notes.lines())
        fates = _fates(random, kills, steps) if apart else []
        killed_judge.foresee(story.root, [(victim, step) for victim, step in fates])
        status = _killed(story, random, flushes, max(2, 3 * operations // (2 * kills) * (1 + len(fates))), took / kills)
        _count_fates(story, fates, report)
        again = recorded & {what for kind, what in story.notes.lines()[begun:] if kind == "begin"}
        if again:
            report.problems.append(f"kill {report.kills}: measured again: {again}")
        if status == 0:
            break
        if status != -signal.SIGKILL:
            report.problems.append(f"kill {report.kills}: ended with {status}: {_failure(story)}")
            break
        report.kills += 1
        if random.random() < POWER_CUTS:
            cut(story.run.path, flushes, random)
            settle(story.run.path, flushes)
            report.power_cuts += 1
            if lost := recorded - story.recorded():
                report.problems.append(f"kill {report.kills}: the power cut took attempts: {lost}")
    killed_judge.foresee(story.root, [])
    status = story.child(story.play)
    if status:
        report.problems.append(f"the last process ended with {status}: {_failure(story)}")
        return report
    _compare(story, whole, report)
    report.seconds = time.monotonic() - began
    return report


def _killed(story: Story, random: Random, flushes: Path, step: int, seconds: float) -> int:
    """The wait status of a process that is killed within so many file operations, or at a random time."""
    if random.random() < TIMED:
        return story.child(partial(story.play, flushes=flushes), seconds=random.uniform(0, seconds))
    fatal = random.randint(1, step)
    return story.child(partial(story.play, fatal=fatal, flushes=flushes))


def _fates(random: Random, kills: int, steps: int) -> list[tuple[str, int]]:
    """What befalls judge and workers before the next kill of the orchestrator: one on average."""
    number = random.choice((0, 1, 1, 2))
    at = sorted(random.randint(1, max(2, steps // kills)) for _ in range(number))
    return [(random.choice(("judge", "worker")), step + 10 * i) for i, step in enumerate(at)]


def _count_fates(story: Story, fates: list[tuple[str, int]], report: Report) -> None:
    """Those that came true, and whatever goes on although its orchestrator is gone."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    while (left := killed_judge.alive(story.root)) and time.monotonic() < deadline:
        time.sleep(0.01)
    report.problems += [f"kill {report.kills}: an orphan goes on: {pid}" for pid in left]
    waiting = len((story.root / "fates").read_text().splitlines())
    for victim, _ in fates[: len(fates) - waiting]:
        report.judge_kills += victim == "judge"
        report.worker_kills += victim == "worker"


def _failure(story: Story) -> str:
    path = story.root / "failure"
    return path.read_text() if path.exists() else ""


def _compare(story: Story, whole: Story, report: Report) -> None:
    run, notes = RunFolder(story.run.path), story.notes.lines()
    report.attempts = len(run.attempts())
    if story.parallel == 1:
        report.problems += differences(run, RunFolder(whole.run.path))
    ends = Counter(what for kind, what in notes if kind == "end")
    begins = sum(kind == "begin" for kind, _ in notes)
    finals = sum(run.final(attempt.id) is not None for attempt in run.attempts())
    report.lost_evaluations = begins - len(run.attempts()) - finals
    all_kills = report.kills + report.judge_kills + report.worker_kills
    if not 0 <= report.lost_evaluations <= all_kills:
        report.problems.append(f"{report.lost_evaluations} evaluations were lost in {all_kills} kills")
    unmeasured = {attempt.kernel_id for attempt in run.attempts()} - ends.keys()
    if unmeasured:
        report.problems.append(f"never measured: {unmeasured}")
    if story.model == "priced":
        report.lost_calls = sum(kind == "call" for kind, _ in notes) - story.answered()
        if not 0 <= report.lost_calls <= report.kills * story.parallel:
            report.problems.append(f"{report.lost_calls} calls were lost in {report.kills} kills")
    report.problems += [f"left behind: {path}" for path in [*leftovers(run.path), *story.scratch.iterdir()]]
    report.problems += [f"half-written: {path}" for path in broken_json(run.path.rglob("*.json"))]
    report.problems += once(run)
    if story.apart and not killed_judge.is_free(story.root):
        report.problems.append("the device is still held")


_ONCE = {
    "attempt_judged": "attempt",
    "best_changed": "attempt",
    "model_called": "call",
    "tool_called": "call",
    "iteration_started": "iteration",
    "iteration_ended": "iteration",
}
"""Kinds of which each of these values stands in one line."""


def once(run: RunFolder) -> list[str]:
    """Events that stand more often than what they tell of happened."""
    events = run.events()
    told = Counter(
        (e["event"], e.get(_ONCE[e["event"]]))
        for e in events
        if e["event"] in _ONCE and e.get("dollars") != 0.0  # a free reply that a power cut took is asked for again
    )
    problems = [f"told {times} times: {what}" for what, times in told.items() if times != 1]
    judged = [e["attempt"] for e in events if e["event"] == "attempt_judged"]
    if sorted(judged, key=str) != sorted((a.id for a in run.attempts()), key=str):
        problems.append(f"told of {judged}, but there are {[a.id for a in run.attempts()]}")
    return problems


def same_run(one: RunFolder, other: RunFolder) -> None:
    """AssertionError where two runs came to different ends."""
    problems = [*differences(RunFolder(one.path), RunFolder(other.path)), *once(RunFolder(one.path))]
    assert not problems, "\n".join(problems)


def differences(one: RunFolder, other: RunFolder) -> list[str]:
    """Where two runs differ in anything but times, and in calls that cost nothing: a power cut may take those."""
    found = []
    for name, of_one, of_other in zip(_PARTS, _parts(one), _parts(other), strict=True):
        if of_one != of_other:
            found.append(f"{name} differ: {_clipped(of_one, of_other)} and {_clipped(of_other, of_one)}")
    return found


def _clipped(one: object, other: object) -> str:
    """What is in one and not in the other, as far as that can be said shortly."""
    if isinstance(one, list) and isinstance(other, list):
        return str([item for item in one if item not in other])[:400]
    return str(one)[:400]


_PARTS = ("attempts", "outcomes", "ledgers", "scores", "costs", "best")


def _parts(run: RunFolder) -> Iterator[object]:
    yield [a.model_dump(exclude={"judged_at", "device_seconds"}) for a in run.attempts()]
    outcome = run.outcome() or {}
    yield {name: value for name, value in outcome.items() if name not in ("elapsed", "device_seconds", "dollars")}
    yield [row.model_dump(exclude={"dollars"}) for row in ledger(run) if row.dollars]
    yield run.scores()
    yield sorted((e["call"], e["dollars"]) for e in run.events() if e["event"] in PAID_EVENTS and e["dollars"])
    yield (run.path / "best").resolve().name


def main() -> int:
    """All that the arguments ask for; 1 when something is not as it should be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--models", default="builtin,priced")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--apart", action="store_true", help="judge and workers are processes, and are killed too")
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    run_apart(int)  # so that what runs load is loaded before one is timed
    models, reports = asked.models.split(","), {}
    root = Path(tempfile.mkdtemp(prefix="warpsmith-crash-"))
    for number, model in enumerate(models):
        seed = asked.seed * len(models) + number
        reports[model] = crash(
            root / model,
            model,
            asked.kills // len(models),
            seed,
            iterations=asked.iterations,
            parallel=asked.parallel,
            apart=asked.apart,
        )
    if not asked.keep:
        shutil.rmtree(root)
    print(json.dumps({model: vars(report) for model, report in reports.items()}))
    return 1 if any(report.problems for report in reports.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
