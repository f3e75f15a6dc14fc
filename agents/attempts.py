"""Judges kernels against the best so far and writes down what came out. One at a time, each kernel once."""

from __future__ import annotations

import asyncio
import difflib
import time
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter

from agents.events import Journal, bound
from agents.state import Hypothesis
from memory.ledger import Outcome
from memory.movement import movement
from memory.runs import Attempt, RunFolder
from tools.errors import InfrastructureError, KernelError
from tools.executor import Executor
from tools.records import Accepted, Kernel, Rejected, Verdict
from tools.task import TaskSource
from tools.tunables import parse_tunables

UNJUDGED_IN_A_ROW = 3
"""After so many the machine, not the kernel, is at fault."""

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)


@dataclass(frozen=True)
class Judged:
    """An attempt and its verdict. `device_seconds` is 0 when another call had the same kernel judged before."""

    attempt: Attempt
    verdict: Verdict
    device_seconds: float
    is_new: bool


class Attempts:
    """All attempts of a run. Parallel coders share it: their kernels are judged in turn, each against the best by
    then."""

    def __init__(self, task: TaskSource, executor: Executor, run: RunFolder, journal: Journal) -> None:
        self._task = task
        self._executor = executor
        self._run = run
        self._journal = journal
        self._turnstile = asyncio.Lock()

    def first(self, count: int) -> list[Attempt]:
        """a0 to a<count - 1>."""
        return self._run.attempts()[:count]

    @property
    def count(self) -> int:
        return len(self._run.attempts())

    def count_until(self, iteration: int) -> int:
        """How many there were when that iteration ended; later ones may be there when a step is done again."""
        return sum(attempt.iteration <= iteration for attempt in self._run.attempts())

    def best(self) -> Attempt | None:
        best = self._run.best()
        return None if best is None else self._run.attempt(best)

    @property
    def standing(self) -> str | None:
        """The attempt to go on from: the best, or the first while none was accepted."""
        best = self._run.best()
        return "a0" if best is None and self.count else best

    def find(self, attempt_id: str) -> Attempt:
        """The attempt of that id; KernelError when there is none."""
        for attempt in self._run.attempts():
            if attempt.id == attempt_id:
                return attempt
        raise KernelError(f"there is no attempt {attempt_id}", f"The ledger lists all {self.count}.")

    def kernel(self, attempt_id: str) -> Kernel:
        """What that attempt judged; KernelError when there is none of that id."""
        return Kernel.model_validate(self.find(attempt_id).kernel)

    def verdict(self, attempt_id: str) -> Verdict:
        return _VERDICT.validate_python(self._run.verdict(attempt_id))

    async def judge(
        self,
        kernel: Kernel,
        parent: str | None,
        iteration: int,
        hypothesis: Hypothesis | None,
        call: str | None = None,
        *,
        person: str | None = None,
        sample: int | None = None,
    ) -> Judged:
        """The gauntlet on `kernel`, raced against the best so far. A kernel judged before gets its earlier verdict.

        call: the step of the run that asks; one that was killed after its kernel was judged gets the same again.
        person: what a person said who wrote it by hand.
        sample: which of the kernels drawn for the hypothesis it is, where there are several.
        """
        async with self._turnstile:
            if earlier := self._made_by(call) or self._run.find_kernel(kernel.id):
                again = call is not None and earlier.call == call
                seconds = earlier.device_seconds if again else 0.0
                return Judged(earlier, self.verdict(earlier.id), seconds, is_new=again)
            best = self.best()
            incumbent = None if best is None else self.kernel(best.id)
            started = time.monotonic()
            with bound(attempt=self._run.next_id(), iteration=iteration):
                verdict = await self._executor.evaluate(self._task, kernel, incumbent)
            seconds = time.monotonic() - started
            attempt = Attempt(
                id=self._run.next_id(),
                parent=parent,
                iteration=iteration,
                kernel_id=kernel.id,
                kernel=kernel.model_dump(mode="json"),
                hypothesis=None if hypothesis is None else hypothesis.model_dump(mode="json"),
                change=describe_change(kernel, None if parent is None else self.kernel(parent)),
                outcome=outcome_of(verdict),
                note=_note(verdict, best) + (f", sample {sample}" if sample is not None else ""),
                sample=sample,
                judged_at=time.time(),
                device_seconds=seconds,
                call=call,
                person=person,
                **_figures(verdict),
            )
            self._run.add_attempt(attempt, kernel.files, verdict.model_dump(mode="json"))
            self._tell(attempt, verdict)
            self._refuse_to_go_on_blind()
            return Judged(attempt, verdict, seconds, is_new=True)

    def tell_untold(self) -> None:
        """Of each attempt, unless a process did that was killed later (the journal knows)."""
        for attempt in self._run.attempts():
            self._tell(attempt, self.verdict(attempt.id))

    async def measure_winner(self, iteration: int) -> None:
        """Measures the best kernel of all iterations up to `iteration` afresh against the starting kernel; one that
        fails loses its place to the next best.

        What could not be judged keeps its place, without a final verdict; so does one whose last race other programs
        disturbed, with the verdict that says so: such a race refutes nothing. What was measured after this iteration
        already is not measured again.
        """
        while (best := self.best()) and not self._is_final(best.id, iteration):
            started = time.monotonic()
            start = None if best.id == "a0" else self._incumbent_for_final()
            with bound(attempt=best.id):
                verdict = await self._executor.evaluate(self._task, self.kernel(best.id), start, final=True)
            if verdict.status == "unjudged":
                return
            disturbed = isinstance(verdict, Accepted) and verdict.cores_used_by_others is not None
            confirmed = disturbed or outcome_of(verdict) == "kept"
            seconds = time.monotonic() - started
            self._run.add_final(best.id, verdict.model_dump(mode="json"), confirmed, iteration, seconds)
            if confirmed:
                return

    def final_seconds(self, iteration: int) -> float:
        """What the fresh measurements took that were made after this iteration."""
        finals = [self._run.final(attempt.id) or {} for attempt in self._run.attempts()]
        return sum(float(str(f.get("seconds", 0.0))) for f in finals if f.get("iteration") == iteration)

    def _is_final(self, attempt: str, iteration: int) -> bool:
        final = self._run.final(attempt)
        return final is not None and final.get("iteration") == iteration

    def _made_by(self, call: str | None) -> Attempt | None:
        return None if call is None else next((a for a in self._run.attempts() if a.call == call), None)

    def _incumbent_for_final(self) -> Kernel | None:
        """The starting kernel, when it was accepted."""
        start = self._run.attempts()[0]
        return Kernel.model_validate(start.kernel) if start.outcome == "kept" and start.iteration == 0 else None

    def _tell(self, attempt: Attempt, verdict: Verdict) -> None:
        fields: dict[str, JsonValue] = attempt.model_dump(
            mode="json", include={"parent", "iteration", "change", "outcome", "note", "device_seconds"}
        )
        if attempt.person is not None:
            fields["person"] = attempt.person
        measured = attempt.model_dump(mode="json", include={"seconds", "share_of_limit", "speedup"}, exclude_none=True)
        if attempt.sample is not None:
            fields["sample"] = attempt.sample
        if isinstance(verdict, Rejected):
            fields |= {"stage": verdict.stage, "reason": verdict.reason}
        self._journal.tell("attempt_judged", attempt=attempt.id, kernel=attempt.kernel_id, **fields, **measured)
        if attempt.outcome == "kept":
            gain = self._gain(attempt)
            self._journal.tell("best_changed", attempt=attempt.id, iteration=attempt.iteration, **gain, **measured)

    def _gain(self, attempt: Attempt) -> dict[str, JsonValue]:
        """Against the starting kernel, by the races where they lead to it, and what it is by."""
        known = {each.id: each for each in self._run.attempts()}
        start = known["a0"] if known["a0"].iteration == 0 else None
        if attempt.id == "a0" and start is not None:
            return {"gain": 1.0}
        moved = movement(attempt, start, known)
        return {"gain": None} if moved is None else {"gain": moved.ratio, "gain_by": moved.evidence}

    def _refuse_to_go_on_blind(self) -> None:
        last = self._run.attempts()[-UNJUDGED_IN_A_ROW:]
        if len(last) == UNJUDGED_IN_A_ROW and all(attempt.outcome == "unjudged" for attempt in last):
            raise InfrastructureError(
                f"the judge could not judge {UNJUDGED_IN_A_ROW} kernels in a row: {last[-1].note}",
                "Run `warpsmith doctor`; what was measured so far is kept.",
            )


def outcome_of(verdict: Verdict) -> Outcome:
    """Kept only when the race said "faster", or when there was nobody to race against."""
    if not isinstance(verdict, Accepted):
        return verdict.status
    if verdict.comparison is None or verdict.comparison.decision == "faster":
        return "kept"
    return verdict.comparison.decision


def settings_in_words(kernel: Kernel) -> str:
    """Values of all declared tunables and the flags: `BLOCK=128 UNROLL=4 -O3`."""
    declared = {name: values[0] for name, values in parse_tunables(kernel.files).items()}
    return " ".join([*(f"{name}={value}" for name, value in (declared | kernel.defines).items()), *kernel.flags])


def describe_change(kernel: Kernel, parent: Kernel | None) -> str:
    """What the ledger says: edited files with lines added and taken away, then the settings in force."""
    edits = [] if parent is None else _edits(kernel.files, parent.files)
    words = f"edited {', '.join(edits)} " if edits else ""
    try:
        return f"{words}{settings_in_words(kernel)}".strip() or "default settings"
    except KernelError:
        return f"{words}{' '.join(kernel.flags)}".strip() or "default settings"


def _edits(new: dict[str, str], old: dict[str, str]) -> list[str]:
    edits = []
    for name in sorted(new.keys() | old.keys()):
        before, after = old.get(name, "").splitlines(), new.get(name, "").splitlines()
        if before != after:
            changes = [line[:1] for line in difflib.unified_diff(before, after, n=0, lineterm="")][2:]
            edits.append(f"{name} (+{changes.count('+')} -{changes.count('-')})")
    return edits


def _figures(verdict: Verdict) -> dict[str, float]:
    if not isinstance(verdict, Accepted):
        return {}
    return {"seconds": verdict.seconds, "share_of_limit": verdict.share_of_limit, "speedup": verdict.speedup}


def _note(verdict: Verdict, best: Attempt | None) -> str:
    """Why, in a few words."""
    if isinstance(verdict, Rejected):
        return f"{verdict.stage}: {verdict.reason}: {verdict.message}"
    if not isinstance(verdict, Accepted):
        return f"not judged: {verdict.message}"
    if verdict.comparison is None or best is None:
        return f"{verdict.speedup:.3g}x the baseline"
    race = verdict.comparison
    return f"{race.ratio:.3f}x {best.id} [{race.interval.low:.3f}, {race.interval.high:.3f}]"
