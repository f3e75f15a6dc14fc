"""What is constant during a run: handed to every node of the graph, never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.attempts import Attempts
from agents.events import Journal
from agents.library import Library
from agents.limits import Clock
from agents.models.base import ChatModel
from agents.settings import Role, RunSettings
from memory.runs import RunFolder
from tools.executor import Executor
from tools.records import TaskFacts
from tools.targets.base import FlagGroup
from tools.task import TaskSource


@dataclass(frozen=True)
class Context:
    """One run's world, as its nodes see it."""

    task: TaskSource
    settings: RunSettings
    facts: TaskFacts
    flag_groups: Sequence[FlagGroup]
    """What a tuner may try of the target's compiler flags."""
    models: Mapping[Role, ChatModel]
    executor: Executor
    run: RunFolder
    attempts: Attempts
    journal: Journal
    clock: Clock
    library: Library
