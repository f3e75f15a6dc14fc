"""Drives one task through the graph to an end, and says how it ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from pydantic import BaseModel, ConfigDict, JsonValue

from agents.attempts import Attempts
from agents.casting import Casting, refuse_without_start
from agents.checkpoints import checkpointer, where_to_go_on
from agents.context import Context, OnRoleText
from agents.events import Journal, OnEvent
from agents.graph import build_graph
from agents.lessons import Lessons
from agents.library import Library
from agents.limits import Clock, StopReason
from agents.models.base import ModelUnavailable
from agents.models.catalogue import Catalogue
from agents.models.connections import Connections
from agents.models.failover import Lineup
from agents.models.money import Answered, Purse, spent_so_far
from agents.models.retry import Stopping
from agents.secrets import Scrubber
from agents.settings import Role, RunSettings
from agents.shelves import LessonShelf
from agents.state import State
from memory.files import RunFolderError
from memory.lesson_store import LessonStore
from memory.runs import RunFolder
from tools.errors import InfrastructureError, WarpsmithError
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
    cached_tokens: int = 0
    """Of the input tokens, those read from the provider's cache."""
    reasoning_tokens: int = 0
    """Of the output tokens."""
    unpriced_tokens: int = 0
    """Of all tokens, those whose price nobody knows: `dollars` lacks them."""
    dollars: float
    final: dict[str, JsonValue] | None = None
    """The best kernel measured afresh against the starting kernel: a `tools.records.Verdict` as JSON.
    None when the run was stopped before it could be taken."""


class Control:
    """A person's hand on a running `optimize`. `stop` may be called from a signal handler of the event loop."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.steps = RunControl()
        self.stopping = Stopping()
        self._cut: Callable[[], object] | None = None
        self._recast: Callable[[Role, Sequence[str]], None] | None = None

    def stop(self, reason: StopReason = "user", grace: float = 2.0) -> None:
        """Ends the run at the next step, or `grace` seconds later in the middle of one; a second call cuts at once."""
        again, self.reason = self.reason is not None, self.reason or reason
        self.steps.request_drain(reason)
        self.stopping.set()
        if self._cut is not None:
            asyncio.get_running_loop().call_later(0 if again else grace, self._cut)

    def use(self, role: Role, spec: str, *fallback: str) -> None:
        """From its next call on another model plays `role`; it gets the whole history. The settings stay as they are:
        a resumed run begins with what it is given.

        Raises UnknownModel, ModelError (its key is missing), and WarpsmithError while no run goes on.
        """
        if self._recast is None:
            raise WarpsmithError("no run is going on", "Name the model when you start or resume one.")
        self._recast(role, (spec, *fallback))

    def holds(self, work: asyncio.Task[object], recast: Callable[[Role, Sequence[str]], None]) -> None:
        """From now on `stop` and `use` are about `work`."""
        self._cut, self._recast = work.cancel, recast
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
    connections: Connections | None = None,
    catalogue: Catalogue | None = None,
    on_text: OnRoleText | None = None,
) -> Outcome:
    """Runs `task` until one of the stop reasons holds and returns how it ended.

    executor: the caller closes it. connections: where providers are reached, and with which keys; nothing that is
    written or told holds one. catalogue: windows and prices. on_text: hears replies as they come, by role.

    Writes everything into `run`: events.jsonl, attempts, best, state.sqlite, facts.json, outcome.json. A run folder
    that was begun before is gone on with. Neither prints nor installs signal
    handlers: the caller passes a `Control` and calls its `stop` on Ctrl-C; the run then ends with the reason `user`.
    Cancelling the coroutine works too: outcome.json is written before CancelledError goes on.

    Raises UnknownModel, ModelError (a key is missing), TaskError (the task can't be opened), KernelError (there is no
    starting kernel to tune, or its settings are not allowed), InfrastructureError (the judge is gone, or the run folder
    can't be written); the folder stays whole and resumable.
    """
    refuse_without_start(task, settings)
    scrubber, budgets, told = Scrubber.of(connections), settings.budgets, run.events()
    purse = Purse(budgets.dollars, budgets.tokens, spent_so_far(told))
    casting = Casting(settings, connections, catalogue or Catalogue.with_prices(), purse, scrubber)
    run.keep_out(scrubber.known)
    control = control or Control()
    try:
        models = casting.roles()
        with Journal(run.path / "events.jsonl", on_event, scrubber) as journal:
            drive = _Drive(
                task,
                settings,
                run,
                executor,
                journal,
                control,
                casting,
                models,
                Answered(told),
                on_text or _heard_by_nobody,
            )
            return await drive.go()
    except RunFolderError as error:
        raise InfrastructureError(error.message, error.advice) from error
    finally:
        await casting.aclose()


@dataclass
class _Drive:
    """One call of `optimize`."""

    task: TaskSource
    settings: RunSettings
    run: RunFolder
    executor: Executor
    journal: Journal
    control: Control
    casting: Casting
    models: dict[Role, Lineup]
    answered: Answered
    on_text: OnRoleText
    clock: Clock = field(default_factory=Clock)
    state: State = field(default_factory=lambda: State(iteration=0))

    async def go(self) -> Outcome:
        """Work until it ends or is cut, and write down how in either case."""
        self._announce()
        work: asyncio.Task[StopReason] = asyncio.create_task(self._work())
        self.control.holds(cast("asyncio.Task[object]", work), self._recast)
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
                if self.control.reason is not None:
                    return self.control.reason
                self.journal.tell("stopping", reason="models_unavailable", message=str(error))
                return "models_unavailable"
            finally:
                alarm.cancel()
                context.library.close()
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
        attempts = Attempts(self.task, self.executor, self.run, self.journal)
        store = None if self.settings.lessons is None else LessonStore(Path(self.settings.lessons))
        shelf = None if store is None else LessonShelf(store)
        documents = [Path(path) for path in self.settings.documents]
        return Context(
            task=self.task,
            settings=self.settings,
            facts=facts,
            flag_groups=_TARGET[self.settings.language].tunable_flags,
            models=self.models,
            purse=self.casting.purse,
            answered=self.answered,
            stopping=self.control.stopping,
            scrubber=self.casting.scrubber,
            on_text=self.on_text,
            executor=self.executor,
            run=self.run,
            attempts=attempts,
            journal=self.journal,
            clock=self.clock,
            library=Library(self.run, facts.header, self.settings.language, documents, shelf),
            lessons=Lessons(store, self.run, attempts, self.journal, task=self.task, facts=facts),
        )

    def _recast(self, role: Role, specs: Sequence[str]) -> None:
        self.models[role] = self.casting.lineup(specs)

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
            target=_TARGET[self.settings.language].name,
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
            **self.casting.purse.spent_with(self.state.get("device_seconds", 0.0)),
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


def _heard_by_nobody(_role: Role, _piece: str) -> None:
    return None
