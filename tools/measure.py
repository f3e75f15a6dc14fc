"""How long a kernel takes and whether it beats the incumbent: two sessions, the second in fresh processes.

A process can be lucky or unlucky as a whole (where its memory lies), and a kernel can behave well only in its first
process. So a kernel is called faster only where the first session says so alone and both say so together, and where
the fresh one alone points the same way. The last measurement of a winner races both sessions in any case, and both
together decide.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pydantic import JsonValue

from tools.contestants import BaselineRunner, Contestant
from tools.errors import InfrastructureError
from tools.neighbours import BUSY, Neighbours, Patience, patience_seconds
from tools.race import Inspection, Race, Terms, pairs
from tools.records import Comparison, Kernel, WorkloadTiming
from tools.runner import Failed, Runner
from tools.significance import LEAST_GAIN, decide, least_pairs, median_interval, settled
from tools.targets.base import Build
from tools.timings import Session, Timings, clock_details, sessions_that_count, throttled_share

if TYPE_CHECKING:
    from tools.judge import Judge

SECONDS = 0.4
"""Budget of timed calls for each contestant in the first session, over all workloads."""
AFRESH = 0.6
"""The second session's budget as a fraction of the first's."""
MOST_ROUNDS = 40
MOST_ROUNDS_APART = 240
"""The same on a device of its own, where a round takes a millisecond and short kernels vary by some per cent."""
CLOSE_ENOUGH = 0.002
"""A kernel without a rival is timed until its median is known so closely, where rounds are that cheap."""
SECOND_LOOK = 2.0
"""A race that may yet be won goes on for this many times its budget."""
LOOK_CONFIDENCE = 0.995
"""Two looks at the same race share the one per cent of wrong decisions."""
DRIFT = 1.1
"""A fresh process slower than the first by more than this makes the first one's times worthless."""
LEAST_ALONE = 8
"""Calls that a fresh process must make before its times count alone."""
QUIET_WAIT = 5.0
"""Seconds to wait for other programs to be quiet before a disturbed race is run once more."""
FINAL_PATIENCE = 2.0
"""The last measurement of a winner is worth so many times the judge's own patience."""
TOO_BUSY = "other programs keep the machine too busy to time this kernel"
HOPELESS_ROUNDS = 3
HOPELESS = 1.25


class Measurement:
    """Times one kernel. A context manager that owns the processes it starts; the first runner is lent to it."""

    def __init__(self, judge: Judge, build: Build, runner: Runner, incumbent: Kernel | None, *, baseline: bool) -> None:
        self._judge = judge
        self._build = build
        self._first = runner
        self._incumbent = incumbent
        self._with_baseline = baseline
        self._patience = Patience(FINAL_PATIENCE * patience_seconds()) if baseline else judge.patience
        self._processes = ExitStack()
        self._sessions: list[Session] = []
        self._decisions: list[Comparison] = []

    def __enter__(self) -> Measurement:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions:
            for racer in (session.candidate, session.rival):
                if racer is not None:
                    racer.worker.kill()  # all of them at once, since each takes its time to go
        self._processes.close()

    @property
    def would_win(self) -> bool:
        """Whether the kernel would become the best: always without an incumbent."""
        return self._incumbent is None or self._decisions[0].decision == "faster"

    @property
    def worst_error(self) -> float:
        return max(session.candidate.worst_error for session in self._sessions)

    def race(self) -> None:
        """The first session, with a second look where the first leaves the decision open."""
        session = self._session(self._first)
        self._run(session, SECONDS, least=least_pairs(LOOK_CONFIDENCE) if self._incumbent else 5)
        if self._incumbent is not None:
            first = self._decide([session])
            if first.ratio > 1 and not settled(first):  # below 1 it would not be kept, however it ends
                self._run(session, SECONDS * SECOND_LOOK, least=1)
            self._decisions.append(self._decide([session]))
        self._require_agreeing_clocks(session)
        self._require_same_in_a_row(session)

    def race_afresh(self) -> None:
        """The second session. Without a decision to confirm it only re-times the kernel, but for a last measurement: it
        is about how the two stand to each other, whichever way that is."""
        runner = self._processes.enter_context(self._judge.runner(self._build))
        confirm = self.would_win or self._with_baseline
        session = self._session(runner, alone=not confirm)
        self._run(session, SECONDS * (AFRESH if confirm else AFRESH / 2), least=5 if confirm else 3)
        if self._drifted():
            self._run(session, SECONDS * AFRESH, least=LEAST_ALONE)
        if confirm and self._incumbent is not None:
            self._decisions.append(self._decide([session]))
        self._require_agreeing_clocks(session)
        self._require_same_in_a_row(session)

    def refuse_impossible_times(self) -> None:
        """Raises Failed("below_limit") for a time that the machine can't reach, after measuring the machine again."""
        for workload, name in enumerate(self._judge.names):
            seconds = statistics.median(self._seconds(workload))
            if seconds >= self._judge.floor_seconds(workload):
                continue
            self._judge.measure_hardware_again()
            floor = self._judge.floor_seconds(workload)
            if seconds < floor:
                message = (
                    f"{seconds * 1e6:.1f} us on workload {name} is less than the {floor * 1e6:.1f} us that this "
                    "machine needs to move the data or do the arithmetic that the task states"
                )
                seen: dict[str, JsonValue] = {"seconds": seconds, "floor_seconds": floor}
                raise Failed("below_limit", message, details={**self.details(), **seen})

    def timings(self) -> Timings:
        """The verdict's times: both sessions together, or the fresh one alone where it was slower."""
        judge = self._judge
        rows = []
        for workload, name in enumerate(judge.names):
            counting = sessions_that_count(self._sessions, workload, DRIFT)
            mine = self._seconds(workload)
            theirs = [s for session in counting if session.rival for s in session.rival.seconds(workload)]
            base = [s for session in self._sessions if session.baseline for s in session.baseline.seconds(workload)]
            known = judge.baselines(workload)
            baselines = {next(iter(known)): statistics.median(base)} if base else known
            rows.append(
                WorkloadTiming(
                    workload=name,
                    weight=judge.weights[workload],
                    seconds=statistics.median(mine),
                    interval=median_interval(mine),
                    samples=len(mine),
                    baseline_seconds=min(baselines.values()),
                    baselines=baselines,
                    limit_seconds=judge.limit_seconds(workload),
                    incumbent_seconds=statistics.median(theirs) if theirs else None,
                )
            )
        disturbed = self._sessions[-1].disturbed
        others = max(disturbed.values()) if disturbed else None
        return Timings(tuple(rows), self._comparison(), others, throttled_share(self._sessions, len(judge.names)))

    def details(self) -> dict[str, JsonValue]:
        """The last session's evidence: clocks, counts, how content was made."""
        session = self._sessions[-1]
        clocks: dict[str, JsonValue] = {}
        for workload, name in enumerate(self._judge.names):
            recycled = self._judge.content.recycles(workload)
            clocks[name] = clock_details(
                session.candidate.clocks(workload), session.candidate.rows.get(workload), recycled
            )
        found: dict[str, JsonValue] = {
            "clocks": clocks,
            "calls": session.inspection.calls,
            "calls_checked": session.inspection.checked,
            "threads": session.candidate.worker.threads(),
        }
        if self._decisions:
            found["decision"] = self._decisions[-1].model_dump(mode="json")
            found["races"] = {name: race.model_dump(mode="json") for name, race in self._races().items()}
        return found

    def _races(self) -> dict[str, Comparison]:
        """Each workload's own race, of all sessions: a gain over all of them may hide that one got slower."""
        workloads = range(len(self._judge.names))
        by_workload = [pairs(self._judge.weights, self._paired(self._sessions), [w]) for w in workloads]
        return {
            name: decide(found, confidence=LOOK_CONFIDENCE)
            for name, found in zip(self._judge.names, by_workload, strict=True)
            if found
        }

    # ---------------------------------------------------------------------------------------------------- sessions

    def _session(self, runner: Runner, *, alone: bool = False) -> Session:
        rival = None
        if self._incumbent is not None and not alone:
            rival = self._processes.enter_context(self._judge.rival(self._incumbent))
        here = self._with_baseline and not self._judge.reference.on_gpu
        baseline = BaselineRunner(self._judge.reference) if here else None
        runner.drop_readings()
        self._sessions.append(Session(runner, rival, baseline, Inspection(runner)))
        return self._sessions[-1]

    def _run(self, session: Session, seconds: float, *, least: int) -> None:
        workloads = self._judge.shuffled_workloads()
        race = Race(self._judge.content, session.contestants, session.inspection)
        if not session.candidate.clocks(workloads[0]).readings:
            race.warm_up(workloads)
        share = seconds * len(session.contestants) / len(workloads)
        for workload in workloads:
            self._race_workload(race, session, workload, self._terms(share, least, session))

    def _terms(self, seconds: float, least: int, session: Session) -> Terms:
        if self._judge.device.shares_cores:
            return Terms(seconds, least, MOST_ROUNDS)
        return Terms(seconds, least, MOST_ROUNDS_APART, 0.0 if session.rival is not None else CLOSE_ENOUGH)

    def _race_workload(self, race: Race, session: Session, workload: int, terms: Terms) -> None:
        """Race, and once more when other programs took the kernel's cores; a race that stays disturbed is noted."""
        for again in (True, False):
            neighbours = Neighbours(session.own_seconds)
            race.run(workload, terms, lambda _: self._lost([session]))
            others = neighbours.cores() if self._judge.device.shares_cores else 0.0
            session.disturbed.pop(workload, None)
            if others < BUSY:
                self._patience.restore()
                return
            session.disturbed[workload] = others
            if not again or not self._patience.wait(session.own_seconds, QUIET_WAIT):
                return
            for contestant in session.contestants:
                contestant.drop_readings(workload)

    def _require_agreeing_clocks(self, session: Session) -> None:
        """A disagreement must show twice, and on cores of the kernel's own: other programs can cause one, and a kernel
        can't make them. Raises InfrastructureError while they are busy, unless the kernel worked for longer than it
        says, which they have no part in."""
        for workload in range(len(self._judge.names)):
            if session.candidate.clocks(workload).disagreement() is None:
                continue
            self._patience.wait(session.own_seconds, QUIET_WAIT)
            session.candidate.drop_readings(workload)
            neighbours = Neighbours(session.own_seconds)
            alone = Race(self._judge.content, [session.candidate], session.inspection)
            alone.run(workload, Terms(SECONDS, 9, MOST_ROUNDS))
            clocks = session.candidate.clocks(workload)
            why = clocks.disagreement()
            if why is not None:
                others = neighbours.cores() if self._judge.device.shares_cores else 0.0
                if others >= BUSY and not clocks.worked_longer:
                    raise InfrastructureError(
                        f"{TOO_BUSY} ({others:.1f} cores used by others)", "Let other programs end and judge it again."
                    )
                raise self._disagreeing(why, self._judge.names[workload])

    def _require_same_in_a_row(self, session: Session) -> None:
        """Where the judge's clock is too coarse to say much of single calls."""
        if not self._judge.device.allowance.coarse:
            return
        for workload, name in enumerate(self._judge.names):
            why = session.candidate.disagreement_in_a_row(self._judge.content.timed(workload))
            if why is not None:
                raise self._disagreeing(why, name)

    def _disagreeing(self, why: str, workload: str) -> Failed:
        return Failed("clocks_disagree", f"{why} (workload {workload})", details=self.details())

    # ---------------------------------------------------------------------------------------------------- decisions

    def _paired(self, sessions: list[Session]) -> list[tuple[Contestant, Contestant]]:
        return [(session.rival, session.candidate) for session in sessions if session.rival is not None]

    def _decide(self, sessions: list[Session]) -> Comparison:
        found = pairs(self._judge.weights, self._paired(sessions), range(len(self._judge.names)))
        if not found:
            raise InfrastructureError("nothing was timed")
        return decide(found, confidence=LOOK_CONFIDENCE)

    def _lost(self, sessions: list[Session]) -> bool:
        """Whether every pair so far says that the candidate is much slower."""
        if self._incumbent is None:
            return False
        found = pairs(self._judge.weights, self._paired(sessions), range(len(self._judge.names)))
        return bool(found) and all(
            len(item.candidate) >= HOPELESS_ROUNDS
            and all(mine > HOPELESS * theirs for theirs, mine in zip(item.incumbent, item.candidate, strict=True))
            for item in found
        )

    def _comparison(self) -> Comparison | None:
        """Both sessions together; "faster" only where the fresh one alone points the same way."""
        if not self._decisions:
            return None
        if len(self._decisions) == 1:
            return self._decisions[0]
        both = self._decide(self._sessions)
        if both.decision == "faster" and self._decisions[1].ratio < 1 + LEAST_GAIN / 2:
            return both.model_copy(update={"decision": "same"})
        return both

    def _seconds(self, workload: int) -> list[float]:
        counting = sessions_that_count(self._sessions, workload, DRIFT)
        return [seconds for session in counting for seconds in session.candidate.seconds(workload)]

    def _drifted(self) -> bool:
        return any(len(sessions_that_count(self._sessions, w, DRIFT)) == 1 for w in range(len(self._judge.names)))
