"""Many variants side by side: one right answer each and a short timing. Never a verdict.

On a GPU, where a process takes half a second to come up and contexts come up one after the other, the native variants
of a call live in one worker. They are one author's, and what is kept has to pass the gauntlet in workers of its own.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from tools.content import Content
from tools.records import Kernel, QuickResult, weighted_geomean
from tools.runner import Failed, Rival, Runner, Tenant
from tools.screen import screen
from tools.targets.base import Build
from tools.worker import WorkerFailed

if TYPE_CHECKING:
    from tools.device import SharedWorker
    from tools.judge import Judge

GROUP, GROUP_APART = 6, 16
"""Variants that race at the same time: each holds a process and its own outputs. More of them where kernels do not run
on the cores that the processes start on."""
SECONDS = 0.12
"""Timed calls of one variant, over all workloads."""
LEAST_ROUNDS, MOST_ROUNDS = 3, 12
HOPELESS = 1.3
"""A variant slower than the best by this factor gets no more rounds on the workload."""
_random = secrets.SystemRandom()


def quick_results(judge: Judge, kernels: Sequence[Kernel], incumbent: Kernel | None) -> list[QuickResult]:
    """Results in the order given. Raises KernelError and InfrastructureError."""
    judge.progress("build")
    results: dict[int, QuickResult] = {}
    for index, kernel in enumerate(kernels):
        tripped = screen(kernel)
        if tripped:
            message = f"{tripped[0].file}:{tripped[0].line}: {tripped[0].message}"
            results[index] = _rejected(kernel, Failed("forbidden_source", message))
    wanted = {index: kernel for index, kernel in enumerate(kernels) if index not in results}
    for group in _groups(judge, wanted, incumbent):
        for index, build in group.items():
            if build.library is None:
                results[index] = _rejected(kernels[index], Failed(build.reason or "compile_error", build.message))
        builds = {index: build for index, build in group.items() if build.library is not None}
        if builds:
            judge.open()
            results.update(_Heat(judge, kernels, builds, incumbent).results())
    return [results[index] for index in range(len(kernels))]


def _groups(judge: Judge, wanted: Mapping[int, Kernel], incumbent: Kernel | None) -> Iterator[dict[int, Build]]:
    """Builds, in the groups that race together. On a device of its own one group races while the next ones are built;
    elsewhere compilers would take the cores that kernels are timed on."""
    apart = not judge.device.shares_cores
    size = GROUP_APART if apart else GROUP
    with judge.lock(shared=True):
        judge.draw_ahead([(workload, "given") for workload in range(len(judge.names))])
        made = {index: judge.compilers.take(kernel) for index, kernel in wanted.items()}
        if not apart:
            wait(made.values())
    while made:
        group = {index: made.pop(index) for index in list(made)[:size]}
        with judge.lock(shared=True):
            natives = [wanted[index] for index in group if wanted[index].language != "torch"]
            judge.prepare([*natives[:1], *([incumbent] if incumbent is not None else [])])
            builds = {index: build.result() for index, build in group.items()}
        yield builds


class _Heat:
    """One group of variants that race together, with the incumbent where there is one."""

    def __init__(
        self, judge: Judge, kernels: Sequence[Kernel], builds: dict[int, Build], incumbent: Kernel | None
    ) -> None:
        self._judge = judge
        self._kernels = kernels
        self._builds = builds
        self._incumbent = incumbent
        self._runners: dict[int, Runner] = {}
        self._shared: SharedWorker | None = None
        """Where the native ones of them live together, on a device whose workers take their time to start."""
        self._failed: dict[int, QuickResult] = {}

    def results(self) -> dict[int, QuickResult]:
        with ExitStack() as processes:
            rival = None
            with self._judge.lock(shared=True):
                self._judge.progress("correct")
                if self._incumbent is not None:
                    rival = processes.enter_context(self._judge.rival(self._incumbent))
                processes.callback(self._leave)
                self._house(list(self._builds), {})
                for index, build in self._builds.items():
                    if index not in self._runners and index not in self._failed:
                        self._attempt(index, lambda build=build, index=index: self._start(processes, index, build))
                self._check_all()
            with self._judge.lock():
                self._judge.progress("time")
                for workload in self._judge.shuffled_workloads():
                    self._race(workload, rival)
            for index in self._alive():
                self._failed.setdefault(index, self._timed(index, rival))
            for runner in (*self._runners.values(), *([rival] if rival is not None else [])):
                runner.worker.kill()  # all of them at once, since each takes its time to go
        return self._failed

    def _house(self, indices: Sequence[int], tenants: Mapping[int, Tenant]) -> None:
        """Bring the native ones up in one worker, where the device has such; those that lived in another move."""
        waiting = [index for index in indices if self._kernels[index].language != "torch"]
        while waiting:
            self._leave()
            self._shared = self._judge.shared_worker()
            if self._shared is None:
                return
            failed = next((index for index in waiting if not self._load(index, tenants)), None)
            if failed is None:
                return
            waiting.remove(failed)  # it took the worker with it

    def _load(self, index: int, tenants: Mapping[int, Tenant]) -> bool:
        library, shared = self._builds[index].library, self._shared
        assert library is not None and shared is not None

        def load() -> None:
            shared.load(library, index)
            if index in tenants:
                tenants[index].move(shared, index)
            else:
                self._runners[index] = self._judge.tenant(shared, index)

        self._attempt(index, load)
        return index not in self._failed

    def _leave(self) -> None:
        if self._shared is not None:
            self._shared.worker.close()
            self._shared = None

    def _start(self, processes: ExitStack, index: int, build: Build) -> None:
        self._runners[index] = processes.enter_context(self._judge.runner(build))

    def _alive(self) -> list[int]:
        return [index for index in self._runners if index not in self._failed]

    def _attempt(self, index: int, action: object) -> None:
        assert callable(action)
        try:
            action()
        except WorkerFailed as failure:
            failed = Failed(failure.reason, f"it {failure.message}")
            self._failed[index] = _rejected(self._kernels[index], failed)
        except Failed as failed:
            self._failed[index] = _rejected(self._kernels[index], failed)
        if self._shared is not None and self._shared.worker.closed and isinstance(self._runners.get(index), Tenant):
            tenants = {each: runner for each in self._alive() if isinstance(runner := self._runners[each], Tenant)}
            self._house(list(tenants), tenants)

    def _check_all(self) -> None:
        for workload in self._judge.shuffled_workloads():
            content = self._judge.content.fresh(workload)
            for index in self._alive():
                self._attempt(index, lambda index=index, content=content: self._checked_call(index, content))

    def _checked_call(self, index: int, content: Content) -> None:
        self._runners[index].call_unclocked(content)
        self._runners[index].verify_last()

    def _timed_call(self, index: int, content: Content, *, check: bool) -> None:
        self._runners[index].call(content)
        if check:
            self._runners[index].verify_last()

    def _race(self, workload: int, rival: Rival | None) -> None:
        racing = self._alive()
        budget = SECONDS * (len(racing) + 1) / len(self._judge.names)
        checked = _random.randrange(LEAST_ROUNDS)
        begin = time.perf_counter()
        for number in range(MOST_ROUNDS + 1):
            content = self._judge.content.timed(workload)
            entrants: list[int | None] = [*racing, *([None] if rival else [])]
            for index in _random.sample(entrants, len(entrants)):
                if index is None:
                    assert rival is not None
                    rival.call(content)
                else:
                    self._attempt(index, partial(self._timed_call, index, content, check=number == checked))
            if number == 0:
                self._drop_warm_up(workload, rival)
            racing = self._contenders(workload, [index for index in racing if index not in self._failed])
            if not racing or (number >= LEAST_ROUNDS and time.perf_counter() - begin > budget):
                break

    def _drop_warm_up(self, workload: int, rival: Rival | None) -> None:
        for runner in (*self._runners.values(), *([rival] if rival else [])):
            runner.drop_readings(workload)

    def _contenders(self, workload: int, racing: list[int]) -> list[int]:
        times = {index: self._runners[index].seconds(workload) for index in racing}
        if not times or min(map(len, times.values())) < LEAST_ROUNDS:
            return racing
        best = min(statistics.median(values) for values in times.values())
        return [index for index in racing if min(times[index]) <= HOPELESS * best]

    def _timed(self, index: int, rival: Rival | None) -> QuickResult:
        seconds, ratios = [], []
        for workload, weight in enumerate(self._judge.weights):
            mine = self._runners[index].seconds(workload)
            seconds.append((weight, statistics.median(mine)))
            if rival is not None:
                pairs = zip(rival.seconds(workload), mine, strict=False)
                ratios.append((weight, statistics.median(theirs / own for theirs, own in pairs)))
        return QuickResult(
            kernel=self._kernels[index].id,
            status="timed",
            seconds=weighted_geomean(seconds),
            ratio=weighted_geomean(ratios) if ratios else None,
        )


def _rejected(kernel: Kernel, failed: Failed) -> QuickResult:
    return QuickResult(kernel=kernel.id, status="rejected", reason=failed.reason, message=failed.message)
