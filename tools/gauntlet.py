"""The stages that a kernel passes before it is believed.

They are reported in the order of `records.STAGES`, and run in that order but for one thing: the race comes before
`memory-safe`, since only a kernel that would become the best pays for the sanitizers. Where there is no incumbent it
pays in any case, and a device that can do so looks beside the checks of `correct` and `deterministic`.
"""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pydantic import JsonValue

from tools.device import Look
from tools.measure import Measurement
from tools.records import Accepted, Kernel, Verdict
from tools.runner import Failed, Runner
from tools.stages import Evidence, Rejection, Stages
from tools.targets.base import Build
from tools.timings import Timings
from tools.worker import WorkerFailed

if TYPE_CHECKING:
    from tools.judge import Judge

CORRECT_SECONDS = 0.5
"""Budget of the checks that are not mandatory."""
DETERMINISTIC_SECONDS = 0.25
MOST_REPEATS = 24
QUIET_WINDOW = 0.01
QUIET_PATIENCE = 0.5
"""Seconds until it must be quiet: OpenMP's threads spin for some time after a parallel region."""
CALLS_AFTER = 2
SESSIONS = 2
"""Workers that a kernel is timed in, and its rival."""
CRASHES = ("crashed", "memory_error", "input_modified")

_random = secrets.SystemRandom()


class Gauntlet:
    """One evaluation of one kernel."""

    def __init__(self, judge: Judge, kernel: Kernel, incumbent: Kernel | None, *, final: bool) -> None:
        self._judge = judge
        self._kernel = kernel
        self._incumbent = incumbent
        self._final = final
        self._stages = Stages(judge, kernel, self._explained)
        self._worst_error = 0.0
        self._checks = self._chosen_checks()
        self._look: Look | None = None
        """The sanitizers, when they run beside the checks."""

    def verdict(self) -> Verdict:
        """Run the stages. Raises InfrastructureError and KernelError; a kernel's own faults are a `Rejected`."""
        try:
            with ExitStack() as workers:
                return self._accepted(workers)
        except Rejection as rejection:
            return rejection.verdict

    def _accepted(self, workers: ExitStack) -> Accepted:
        with self._judge.lock(shared=True):
            racers = [self._kernel, *([self._incumbent] if self._incumbent is not None else [])]
            self._look_early(workers)
            self._judge.prepare(racers if self._look is not None else SESSIONS * racers)
            must, may = self._checks
            self._judge.draw_ahead([*must, *may, *((workload, "given") for workload in range(len(self._judge.names)))])
            build = self._stages.before_device()
        begin = time.perf_counter()
        opened = self._judge.open()
        if opened:
            self._stages.add_passed("open", Evidence(dict(opened), seconds=time.perf_counter() - begin))
        with self._judge.lock(shared=True):
            self._look_early(workers)
            with self._stages.run("correct") as evidence:
                begin = time.perf_counter()
                runner = self._first_runner(workers, build)
                evidence.details["worker_seconds"] = time.perf_counter() - begin
                self._correct(runner, build, evidence)
            with self._stages.run("deterministic") as evidence:
                self._deterministic(runner, build, evidence)
            if self._look is not None:
                with self._stages.run("memory-safe") as evidence:
                    self._look.report(evidence)
        measurement = workers.enter_context(
            Measurement(self._judge, build, runner, self._incumbent, baseline=self._final)
        )
        timing = Evidence()
        with self._judge.lock(), self._stages.run("time", timing, goes_on=True):
            measurement.race()
        if measurement.would_win and self._look is None:
            with self._judge.lock(shared=True), self._stages.run("memory-safe") as evidence:
                self._judge.device.memory_safe(self._judge, self._kernel, build, evidence)
        with self._stages.run("time", timing), self._judge.lock():
            measurement.refuse_impossible_times()
            timing.details.update(measurement.details())
        with self._stages.run("audit") as evidence, self._judge.lock():
            self._calls_after_timing(runner, evidence)
            measurement.race_afresh()
            measurement.refuse_impossible_times()
            evidence.details.update(measurement.details())
        return self._accept(measurement.timings(), max(self._worst_error, measurement.worst_error))

    def _first_runner(self, workers: ExitStack, build: Build) -> Runner:
        """Its worker is up before anything else runs the kernel, which may take all of the device's memory. That of the
        second session comes up behind the sanitizers, which are waited for before."""
        try:
            runner = workers.enter_context(self._judge.runner(build))
        finally:
            if self._look is not None:
                self._look.load(build)
        if self._look is not None:
            self._judge.prepare(SESSIONS * [self._kernel], begun=1)
        return runner

    def _look_early(self, stack: ExitStack) -> None:
        """Begin, unless that is done or can't be yet. A kernel with nobody to lose to will be looked at in any case."""
        if self._incumbent is None and self._look is None:
            self._look = self._judge.look_early(self._kernel)
            if self._look is not None:
                stack.enter_context(self._look)

    def _accept(self, timings: Timings, worst_error: float) -> Accepted:
        return Accepted(
            kernel=self._kernel.id,
            stages=self._stages.reports,
            timings=timings.workloads,
            worst_error=worst_error,
            comparison=timings.comparison,
            cores_used_by_others=timings.cores_used_by_others,
            throttled=timings.throttled,
        )

    # ------------------------------------------------------------------------------------------------------ stages

    def _correct(self, runner: Runner, build: Build, evidence: Evidence) -> None:
        """Every workload on given inputs twice and on one other distribution; all others as time allows."""
        judge, (must, may) = self._judge, self._checks
        begin = time.perf_counter()
        done: list[JsonValue] = []
        for number, (workload, distribution) in enumerate(must + may):
            if number >= len(must) and time.perf_counter() - begin > CORRECT_SECONDS:
                break
            runner.call_unclocked(judge.content.fresh(workload, distribution))
            runner.verify_last()
            done.append(f"{judge.names[workload]}/{distribution}")
        evidence.details["checked"] = done
        evidence.details["left_out"] = len(must) + len(may) - len(done)
        self._require_known_libraries(runner)
        self._require_quiet(runner)
        if self._kernel.language == "torch":
            judge.device.torch.attribute(judge, self._kernel, build, evidence)
        self._worst_error = max(self._worst_error, runner.worst_error)
        evidence.output = runner.worker.output_text()
        evidence.details["worst_error"] = runner.worst_error

    def _chosen_checks(self) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """Workloads and distributions: those that are checked, and those that are as time allows."""
        workloads = range(len(self._judge.weights))
        must = [(workload, "given") for workload in workloads]
        others = [(workload, name) for workload in workloads for name in self._judge.reference.distributions[1:]]
        _random.shuffle(others)
        if others:
            must += [next(pair for pair in others if pair[0] == workload) for workload in workloads]
        return must, [pair for pair in others if pair not in must] + [(workload, "given") for workload in workloads]

    def _require_known_libraries(self, runner: Runner) -> None:
        strange = [name for name in runner.worker.mapped_libraries() if not self._judge.may_map(name)]
        if strange:
            raise Failed("forbidden_library", f"it loads {strange[0]}, which the task does not allow")
        self._judge.device.inspect(runner.worker)

    def _require_quiet(self, runner: Runner) -> None:
        """Threads may wait between calls, not work: they would start on the next content or slow a rival down."""
        runner.worker.resume()
        deadline = time.monotonic() + QUIET_PATIENCE
        while True:
            before, begin = runner.worker.cpu_seconds(), time.perf_counter()
            time.sleep(QUIET_WINDOW)
            used = (runner.worker.cpu_seconds() - before) / (time.perf_counter() - begin)
            if used == 0 and not runner.worker.running():
                break
            if time.monotonic() > deadline:
                runner.worker.pause()
                raise Failed("late_work", f"its threads work on after the call has returned ({used:.1%} of a core)")
        runner.worker.check()
        runner.worker.pause()

    def _deterministic(self, runner: Runner, build: Build, evidence: Evidence) -> None:
        """The same content again and again, over different poison, and where there are threads with one of them.

        Results may differ in their last bits (threads add in any order), so a run that differs is checked, not refused.
        """
        judge = self._judge
        repeats = differing = 0
        begin = time.perf_counter()
        with ExitStack() as workers:
            single = runner
            if judge.device.sibling_differs():
                single = workers.enter_context(judge.runner(build, omp_threads=1))
            for number, workload in enumerate(judge.shuffled_workloads(), start=1):
                content = judge.content.fresh(workload)
                first = None
                share = DETERMINISTIC_SECONDS * number / len(judge.weights)
                for repeat in range(MOST_REPEATS):
                    which = single if repeat == 1 else runner
                    which.call_unclocked(content)
                    outputs = which.snapshot(workload)
                    if first is None:
                        first = outputs
                        which.verify_last()
                    elif outputs != first:
                        differing += 1
                        self._verify_repeat(which)
                    repeats += 1
                    if repeat >= 2 and time.perf_counter() - begin > share:
                        break
        evidence.details.update({"runs": repeats, "runs_that_differ": differing})

    @staticmethod
    def _verify_repeat(runner: Runner) -> None:
        try:
            runner.verify_last()
        except Failed as failed:
            if failed.reason != "wrong_result":
                raise
            message = f"another run on the same inputs differs: {failed.message}"
            raise Failed("nondeterministic", message, mismatch=failed.mismatch) from None

    def _calls_after_timing(self, runner: Runner, evidence: Evidence) -> None:
        for workload in range(len(self._judge.weights)):
            for _ in range(CALLS_AFTER):
                runner.call_unclocked(self._judge.content.timed(workload))
                runner.verify_last()
        self._require_known_libraries(runner)
        self._require_quiet(runner)
        evidence.details["calls_after_timing"] = CALLS_AFTER

    def _explained(self, failed: Failed) -> Failed:
        """A crash with the source line that the sanitizers find for it, where they find one."""
        if failed.reason not in CRASHES or failed.diagnostics:
            return failed
        try:
            with self._judge.lock(shared=True):
                build = self._judge.build_variant(self._kernel, "release")
                if self._look is not None:
                    self._look.report(Evidence())
                else:
                    self._judge.device.memory_safe(self._judge, self._kernel, build, Evidence())
        except WorkerFailed as failure:
            failed.diagnostics = failure.diagnostics
        except Failed as other:
            failed.details["sanitizer"] = other.message
        return failed
