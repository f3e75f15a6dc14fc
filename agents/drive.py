"""Drives one task through the graph to an end, and says how it ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from pydantic import BaseModel, ConfigDict, JsonValue

from agents.attempts import Attempts
from agents.checkpoints import checkpointer, where_to_go_on
from agents.context import Context
from agents.events import Journal, OnEvent
from agents.graph import build_graph
from agents.library import Library
from agents.limits import Clock, StopReason
from agents.models.base import ChatModel, ModelUnavailable
from agents.models.registry import resolve
from agents.settings import Role, RunSettings
from agents.state import NOTHING_SPENT, State, added
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.errors import InfrastructureError, KernelError, WarpsmithError
from tools.executor import Executor
from tools.targets.base import Target
from tools.targets.cpu import CpuTarget
from tools.targets.cuda import CudaTarget
from tools.task import TaskSource

STEPS_AN_ITERATION = 3
"""Super-steps of the graph: plan, code, analyse."""
_TARGET: dict[str, Target] = {"cpp": CpuTarget(), "cuda": CudaTarget()}
"""Where kernels of a language run."""
FOR_EVER = 10 * 365 * 86_400.0
"""Seconds."""


class Outcome(BaseModel):
    """How a run ended; also `outcome.json`. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: StopReason
    iterations: int
    """Finished ones."""
    best: str | None
    """Attempt id; None when no attempt was accepted."""
    counts: dict[str, int]
    """Attempts by outcome: kept, same, slower, rejected, unjudged (a0 counts as kept when accepted)."""
    rejections: dict[str, int]
    """Rejected attempts by the judge's reason."""
    elapsed: float
    device_seconds: float
    input_tokens: int
    output_tokens: int
    dollars: float
    final: dict[str, JsonValue] | None = None
    """The best kernel measured afresh against the starting kernel: a `tools.records.Verdict` as JSON.
    None when the run was stopped before it could be taken."""


class Control:
    """A person's hand on a running `optimize`. `stop` may be called from a signal handler of the event loop."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.steps = RunControl()
        self._cut: Callable[[], object] | None = None

    def stop(self, reason: StopReason = "user", grace: float = 2.0) -> None:
        """Ends the run at the next step, or `grace` seconds later in the middle of one; a second call cuts at once."""
        again, self.reason = self.reason is not None, self.reason or reason
        self.steps.request_drain(reason)
        if self._cut is not None:
            asyncio.get_running_loop().call_later(0 if again else grace, self._cut)

    def holds(self, work: asyncio.Task[object]) -> None:
        """From now on `stop` is about `work`."""
        self._cut = work.cancel
        if self.reason is not None:
            work.cancel()


async def optimize(
    task: TaskSource,
    settings: RunSettings,
    run: RunFolder,
    executor: Executor,
    on_event: OnEvent,
    *,
    control: Control | None = None,
) -> Outcome:
    """Runs `task` until one of the stop reasons holds and returns how it ended.

    executor: the caller closes it. Writes everything into `run`: events.jsonl, attempts, best, state.sqlite,
    facts.json, outcome.json. A run folder that was begun before is gone on with. Neither prints nor installs signal
    handlers: the caller passes a `Control` and calls its `stop` on Ctrl-C; the run then ends with the reason `user`.
    Cancelling the coroutine works too: outcome.json is written before CancelledError goes on.

    Raises UnknownModel, TaskError (the task can't be opened), KernelError (there is no starting kernel to tune, or
    its settings are not allowed), InfrastructureError (the judge is gone, or the run folder can't be written); the
    folder stays whole and resumable.
    """
    models = _models(task, settings)
    control = control or Control()
    try:
        with Journal(run.path / "events.jsonl", on_event) as journal:
            return await _Drive(task, settings, run, executor, journal, control, models).go()
    except RunFolderError as error:
        raise InfrastructureError(error.message, error.advice) from error


@dataclass
class _Drive:
    """One call of `optimize`."""

    task: TaskSource
    settings: RunSettings
    run: RunFolder
    executor: Executor
    journal: Journal
    control: Control
    models: dict[Role, ChatModel]
    clock: Clock = field(default_factory=Clock)
    state: State = field(default_factory=lambda: State(iteration=0, spent=NOTHING_SPENT))

    async def go(self) -> Outcome:
        """Work until it ends or is cut, and write down how in either case."""
        self._announce()
        work: asyncio.Task[StopReason] = asyncio.create_task(self._work())
        self.control.holds(cast("asyncio.Task[object]", work))
        try:
            reason = await asyncio.shield(work)
        except asyncio.CancelledError:
            cut_by_control = work.cancelled()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            outcome = self._conclude(self.control.reason or "user")
            if not cut_by_control:
                raise
            return outcome
        except WarpsmithError as error:
            self.journal.tell("run_failed", error=type(error).__name__, message=error.message, advice=error.advice)
            raise
        except RunFolderError:
            raise
        except BaseException as error:
            self.journal.tell("run_failed", error=type(error).__name__, message=str(error), advice="")
            raise
        return self._conclude(reason)

    async def _work(self) -> StopReason:
        """Open the task and run the graph to its end."""
        async with checkpointer(self.run) as saver:
            graph = build_graph(saver)
            config: RunnableConfig = {
                "configurable": {"thread_id": self.run.id},
                "recursion_limit": self.settings.budgets.iterations * STEPS_AN_ITERATION + 10,
            }
            snapshot = await graph.aget_state(config)
            if snapshot.values:
                self.state = cast(State, snapshot.values)
            self.clock = Clock(self.state.get("elapsed", 0.0))
            context = await self._open()
            alarm = self._end_by_wall_time()
            try:
                async for state in graph.astream(
                    where_to_go_on(snapshot),
                    config,
                    context=context,
                    stream_mode="values",
                    durability="sync",
                    control=self.control.steps,
                ):
                    self.state = cast(State, state)
            except GraphDrained:
                return self.control.reason or "user"
            except ModelUnavailable as error:
                self.journal.tell("stopping", reason="models_unavailable", message=str(error))
                return "models_unavailable"
            finally:
                alarm.cancel()
            return cast(StopReason, self.state["stop"])

    async def _open(self) -> Context:
        started = self.clock.elapsed
        facts = await self.executor.open(self.task, _TARGET[self.settings.language].name)
        self.run.write_facts(facts.model_dump(mode="json"))
        kept = {"workload", "weight", "baseline_seconds", "limit_seconds"}
        self.journal.tell(
            "task_opened",
            seconds=self.clock.elapsed - started,
            sandbox=facts.sandbox,
            notes=list(facts.notes),
            workloads=[workload.model_dump(mode="json", include=kept) for workload in facts.workloads],
        )
        return Context(
            task=self.task,
            settings=self.settings,
            facts=facts,
            flag_groups=_TARGET[self.settings.language].tunable_flags,
            models=self.models,
            executor=self.executor,
            run=self.run,
            attempts=Attempts(self.task, self.executor, self.run, self.journal),
            journal=self.journal,
            clock=self.clock,
            library=Library(self.run, facts),
        )

    def _end_by_wall_time(self) -> asyncio.TimerHandle:
        """A model or a kernel that hangs can't outlive the time budget by more than a minute and a tenth of it.

        Without such a budget the alarm is as good as never.
        """
        bound = self.settings.budgets.wall_time or FOR_EVER
        left = max(0.0, bound - self.clock.elapsed)
        return asyncio.get_running_loop().call_later(left + 0.1 * bound + 60, self.control.stop, "wall_time")

    def _announce(self) -> None:
        self.journal.tell(
            "run_started",
            run=self.run.id,
            task=self.task.name,
            target="cpu",
            models=self.settings.models.model_dump(mode="json"),
            budgets=self.settings.budgets.model_dump(mode="json"),
            parallel=self.settings.parallel,
        )

    def _conclude(self, reason: StopReason) -> Outcome:
        """Write outcome.json from what is known: the state after the last finished step, and the run folder."""
        attempts, best = self.run.attempts(), self.run.best()
        final = None if best is None else self.run.final(best)
        rejected = [a for a in attempts if a.outcome == "rejected"]
        outcome = Outcome(
            reason=reason,
            iterations=self.state["iteration"],
            best=best,
            counts=dict(Counter(attempt.outcome for attempt in attempts)),
            rejections=dict(Counter(str(self.run.verdict(attempt.id)["reason"]) for attempt in rejected)),
            elapsed=self.clock.elapsed,
            final=None if final is None else cast(dict[str, JsonValue], final["verdict"]),
            **added(NOTHING_SPENT, self.state["spent"]),
        )
        self.run.write_outcome(outcome.model_dump(mode="json"))
        winner = None if best is None else self.run.attempt(best)
        self.journal.tell(
            "run_ended",
            reason=reason,
            iterations=outcome.iterations,
            attempts=len(attempts),
            kept=outcome.counts.get("kept", 0),
            best=best,
            seconds=None if winner is None else winner.seconds,
            share_of_limit=None if winner is None else winner.share_of_limit,
            speedup=None if winner is None else winner.speedup,
            elapsed=outcome.elapsed,
        )
        return outcome


def _models(task: TaskSource, settings: RunSettings) -> dict[Role, ChatModel]:
    """A model for each role. `builtin:autotune` can't plan without a starting kernel."""
    named: dict[Role, str] = {
        "planner": settings.models.planner,
        "coder": settings.models.coder,
        "analyst": settings.models.analyst,
    }
    if settings.language not in task.start and any(spec.startswith("builtin:") for spec in named.values()):
        raise KernelError(
            f"the task {task.name} has no starting kernel in {settings.language}, and builtin:autotune only tunes one",
            "Pass one with --start, or name a model that writes code with --model.",
        )
    return {role: resolve(spec, settings.seed) for role, spec in named.items()}
