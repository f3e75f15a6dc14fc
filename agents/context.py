"""What is constant during a run, but for the settings that a person changes: handed to every node of the graph, never
stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agents.attempts import Attempts
from agents.events import Journal
from agents.in_flight import InFlight
from agents.lessons import Lessons
from agents.library import Library
from agents.limits import Clock
from agents.models.costs import Answered
from agents.models.failover import Lineup
from agents.models.money import Purse
from agents.models.retry import Stopping
from agents.secrets import Scrubber
from agents.settings import Role, RunSettings
from agents.steering import Steering
from agents.told import Told
from memory.runs import RunFolder
from tools.executor import Executor
from tools.facts import TaskFacts
from tools.targets.base import FlagGroup
from tools.task import TaskSource

OnRoleText: TypeAlias = Callable[[Role, str], None]


@dataclass
class Context:
    """One run's world, as its nodes see it."""

    task: TaskSource
    settings: RunSettings
    """A person may change them between two calls (`agents.steering_deeds`), and nothing else in here."""
    facts: TaskFacts = field(init=False)
    """Known once the task is open, as are `library` and `lessons`."""
    flag_groups: Sequence[FlagGroup]
    """What a tuner may try of the target's compiler flags."""
    models: dict[Role, Lineup]
    """Who plays which role; a person may change it between two calls (`agents.control.Control.use`)."""
    purse: Purse
    answered: Answered
    """Replies that were paid for before this process began."""
    told: Told
    """What earlier processes finished and told."""
    stopping: Stopping
    scrubber: Scrubber
    on_text: OnRoleText
    """Hears each piece of a reply as it comes (`agents.spoken`)."""
    executor: Executor
    run: RunFolder
    attempts: Attempts
    journal: Journal
    clock: Clock
    library: Library = field(init=False)
    lessons: Lessons = field(init=False)
    steering: Steering
    in_flight: InFlight = field(default_factory=InFlight)
    turns: set[str] = field(default_factory=set)
    """In which this process asked a model."""
