"""A run on its course: the task is opened, the graph goes from its last finished step to its end, and how it ended is
written down."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot
from pydantic import JsonValue

from agents.alarm import Alarm
from agents.attempts import Attempts
from agents.casting import Casting
from agents.checkpoints import checkpointer, has_ended, lost_its_texts, where_to_go_on
from agents.context import Context, OnRoleText
from agents.control import Control
from agents.events import Journal
from agents.faults import in_words, reason_of
from agents.graph import build_graph
from agents.last_measurement import told_of
from agents.lessons import Lessons
from agents.library import Library
from agents.limits import Clock, StopReason
from agents.models.base import ModelUnavailable
from agents.models.costs import Answered
from agents.models.failover import Lineup
from agents.outcome import Outcome, RunBroken
from agents.patient import Patient
from agents.settings import Role, RunSettings
from agents.shelves import LessonShelf
from agents.state import Begin, State
from agents.steering import Phase, Steering
from agents.told import Told
from agents.wishes import Wishes
from memory.files import RunFolderError
from memory.lesson_store import LessonStore
from memory.runs import RunFolder
from tools.errors import InfrastructureError, WarpsmithError
from tools.executor import Executor
from tools.protocol import Operation
from tools.targets.base import Target
from tools.targets.choice import flags_for, target_for
from tools.task import TaskSource

NO_LIMIT = 1_000_000
"""Super-steps of the graph: the settings' limit of iterations ends it, and a person may raise that."""
INTERRUPTED = "__interrupt__"
"""What the graph adds to the state that it streams when it waits for a person."""


@dataclass
class Course:
    """One call of `agents.drive.optimize`, which opens the journal and the models around it."""

    task: TaskSource
    settings: RunSettings
    run: RunFolder
    executor: Executor
    journal: Journal
    control: Control
    casting: Casting
    models: dict[Role, Lineup]
    answered: Answered
    told: Told
    on_text: OnRoleText
    state_at: str | None
    """Where checkpoints are kept."""
    changes: dict[str, JsonValue]
    wishes: Wishes
    clock: Clock = field(default_factory=Clock)
    alarm: Alarm = field(init=False)
    state: State = field(default_factory=lambda: State(iteration=0))
    steering: Steering = field(init=False)

    def __post_init__(self) -> None:
        self.steering = Steering(self.wishes, self.control, self._rearm)

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
        except (WarpsmithError, RunFolderError, MemoryError) as error:
            raise self._broken(error) from error
        except BaseException as error:
            self.journal.tell("run_failed", error=type(error).__name__, message=str(error), advice="")
            raise
        return self._conclude(reason)

    async def _work(self) -> StopReason:
        """Open the task and run the graph to its end."""
        async with checkpointer(self.run, self.state_at) as saver:
            graph = build_graph(saver)
            config: RunnableConfig = {
                "configurable": {"thread_id": self.run.config()["thread"]},
                "recursion_limit": NO_LIMIT,
            }
            if await lost_its_texts(saver, config, self.run.blobs):
                await graph.aupdate_state(config, None, as_node="__copy__")
            snapshot = await graph.aget_state(config)
            if snapshot.values:
                self.state = cast(State, snapshot.values)
            self.clock = Clock(max(self.state.get("elapsed", 0.0), self.told.elapsed), self.control.stopping.now)
            if has_ended(snapshot) and not self.told.is_concluded and not self.changes:
                return cast(StopReason, self.state["stop"])
            context = self._context()
            self.alarm = Alarm(self.clock, self.control, self.models, lambda: self.steering.is_ending)
            try:
                async with self.steering.attending(context):
                    await self._open(context)
                    with closing(context.library):
                        self._begin(_phase(snapshot))
                        await self._go_through(graph, config, where_to_go_on(snapshot), context)
                        await self.steering.answered()
            except GraphDrained:
                return self.control.reason or "user"
            except ModelUnavailable as error:
                if self.control.reason is not None:
                    return self.control.reason
                self.journal.tell("stopping", reason="models_unavailable", message=str(error))
                return "models_unavailable"
            finally:
                self.control.at_work = False
                self.alarm.stop()
            return cast(StopReason, self.state.get("stop") or self.control.reason or "user")

    def _begin(self, phase: Phase) -> None:
        """The task is open, and the run goes on in that phase."""
        self.steering.enters(phase)
        if phase != "start":
            self.clock.start()
        self.alarm.set(self.settings.budgets.wall_time)
        self.control.at_work = True

    async def _go_through(
        self,
        graph: CompiledStateGraph[State, Context, Begin, State],
        config: RunnableConfig,
        given: Begin | Command[str] | None,
        context: Context,
    ) -> None:
        """Run the graph to its end, with a person's word wherever a plan waits for one."""
        while True:
            async for state in graph.astream(
                given,
                config,
                context=context,
                stream_mode="values",
                durability="sync",
                control=self.control.steps,
            ):
                self.state = cast(State, {name: value for name, value in state.items() if name != INTERRUPTED})
            if (await graph.aget_state(config)).next != ("approve",):
                return
            word = await self.steering.word(self.state["iteration"] + 1, self.state["plans"])
            if word is None and self.control.reason is not None:
                return
            given = Command(resume="" if word is None else word.action)

    def _broken(self, error: Exception) -> Exception:
        """Write down what can be written of a run that an error ends, and what is to be raised instead."""
        reason, (message, advice) = reason_of(error), in_words(error)
        about: dict[str, JsonValue] = {} if reason is None else {"reason": reason}
        with suppress(RunFolderError):
            self.journal.tell("run_failed", error=type(error).__name__, message=message, advice=advice, **about)
        if reason is None or not self.run.has_attempts():
            return InfrastructureError(message, advice) if isinstance(error, MemoryError) else error
        with suppress(RunFolderError):
            self._write_outcome(reason)
        return RunBroken(reason, message, advice)

    @functools.cached_property
    def _target(self) -> Target:
        """Where the run's kernels are judged."""
        return target_for(self.settings.language, self.settings.target)

    async def _open(self, context: Context) -> None:
        """Have the judge open the task, and complete the context with what it says."""
        started = time.monotonic()
        facts = await self.executor.open(self.task, self._target.name)
        self.run.write_facts(facts.model_dump(mode="json"))
        kept = {"workload", "weight", "baseline_seconds", "limit_seconds"}
        self.journal.tell(
            "task_opened",
            seconds=time.monotonic() - started,
            sandbox=facts.sandbox,
            notes=list(facts.notes),
            workloads=[workload.model_dump(mode="json", include=kept) for workload in facts.workloads],
        )
        context.attempts.tell_untold()
        store = None if self.settings.lessons is None else LessonStore(Path(self.settings.lessons))
        shelf = None if store is None else LessonShelf(store)
        documents = [Path(path) for path in self.settings.documents]
        context.facts = facts
        context.library = Library(self.run, facts.header, self.settings.language, documents, shelf)
        context.lessons = Lessons(store, self.run, context.attempts, self.journal, task=self.task, facts=facts)

    def _context(self) -> Context:
        """The run's world, as far as it is known before the task is open."""
        executor = Patient(self.executor, self.settings.judge_waits, self.control.stopping, self._tell_of_judge)
        return Context(
            task=self.task,
            settings=self.settings,
            flag_groups=flags_for(self.settings.language, self._target),
            models=self.models,
            purse=self.casting.purse,
            answered=self.answered,
            told=self.told,
            stopping=self.control.stopping,
            scrubber=self.casting.scrubber,
            on_text=self.on_text,
            executor=executor,
            run=self.run,
            attempts=Attempts(self.task, executor, self.run, self.journal),
            journal=self.journal,
            clock=self.clock,
            steering=self.steering,
        )

    def _recast(self, role: Role, specs: Sequence[str], address: str | None) -> None:
        before, self.models[role] = self.models[role], self.casting.chosen(specs, address)
        config = self.run.config()
        known = cast("dict[str, JsonValue]", config.get("endpoints") or {})
        if (endpoints := known | self.casting.told_of(specs)) != known:  # a resumed run finds the servers there
            self.run.write_config({**config, "endpoints": endpoints})
        before.parting.set()

    def _rearm(self) -> None:
        """The limits are others, or the run waited."""
        self.settings = self.steering.context.settings
        self.alarm.set(self.settings.budgets.wall_time)

    def _announce(self) -> None:
        about: dict[str, JsonValue] = {
            "run": self.run.id,
            "task": self.task.name,
            "target": self._target.name,
            "models": self.settings.models.model_dump(mode="json"),
            "budgets": self.settings.budgets.model_dump(mode="json"),
            "parallel": self.settings.parallel,
        }
        if self.told.any:
            self.journal.tell("run_resumed", **about, attempts=len(self.run.attempts()), changes=self.changes)
        else:
            self.journal.tell("run_started", **about)

    def _conclude(self, reason: StopReason) -> Outcome:
        """Write outcome.json from what is known: the state after the last finished step, and the run folder."""
        outcome = self._write_outcome(reason)
        winner = None if outcome.best is None else self.run.attempt(outcome.best)
        self.journal.tell(
            "run_ended",
            reason=reason,
            iterations=outcome.iterations,
            attempts=sum(outcome.counts.values()),
            kept=outcome.counts.get("kept", 0),
            best=outcome.best,
            seconds=None if winner is None else winner.seconds,
            share_of_limit=None if winner is None else winner.share_of_limit,
            speedup=None if winner is None else winner.speedup,
            elapsed=outcome.elapsed,
            **told_of(outcome.final),
            **({"message": self.control.message} if reason == "user" and self.control.message else {}),
        )
        return outcome

    def _write_outcome(self, reason: StopReason) -> Outcome:
        spent = self.casting.purse.spent_with(self.state.get("device_seconds", 0.0))
        outcome = Outcome.of(self.run, reason, self.state["iteration"], self.clock.elapsed, spent)
        self.run.write_outcome(outcome.model_dump(mode="json"))
        return outcome

    def _tell_of_judge(self, op: Operation, tries: int, message: str, wait: float) -> None:
        self.journal.tell("judge_retried", op=op, tries=tries, message=message, wait=wait)


def _phase(snapshot: StateSnapshot) -> Phase:
    """Where a run goes on after that checkpoint."""
    if "stale" not in snapshot.values:  # what adds up, as attempts do, is there from the beginning
        return "start"
    return "end" if snapshot.next == ("finish",) else "search"
