"""The judge as an environment to train in: episodes of `reset` and `step`, each step a kernel and its verdict.

Messages are plain JSON; `app.training` carries them over HTTP and standard input. What is wrong with a message is an
`Unfit` of a closed set of faults and changes nothing. A failure of the machine is one that may be sent again: it is
never a reward. The protocol is described, with its version, in docs/trajectories.md.

Not covered: training. Episodes live in memory; a restart forgets them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from typing import Literal

from agents import findings, rewards
from agents.attempts import outcome_of
from agents.environment_protocol import VERSION, Close, Fields, Found, Reset, Step, Unfit, read
from agents.figures import rounded
from agents.rewards import Scale
from agents.seat import Candidate, changed
from agents.toolbox import Refused
from tools.errors import InfrastructureError, KernelError, TaskError
from tools.executor import Executor
from tools.facts import TaskFacts
from tools.records import ENTRY_FILE, Accepted, Kernel, Language, Unjudged, Verdict
from tools.task import TaskSource

IDLE_SECONDS = 3600.0
"""An episode that nobody stepped for so long gives its place to a new one."""
TARGETS: dict[Language, Literal["cpu", "cuda"]] = {"cpp": "cpu", "cuda": "cuda"}


@dataclass(frozen=True)
class Limits:
    """Of one episode, and of how many there may be at once."""

    steps: int = 10
    device_seconds: float | None = None
    episodes: int = 64


@dataclass
class Episode:
    """One series of steps from the starting kernel. `kernels` and `verdicts` are by name: `start`, `s1`, `s2`, ..."""

    id: str
    steps: int
    device_seconds: float | None
    kernels: dict[str, Kernel]
    best: str | None
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    spent: float = 0.0
    """Seconds of building, checking and timing."""
    taken: int = 0
    """Steps so far."""
    last: Found | None = None
    """What the last one was answered."""
    busy: bool = False
    touched: float = field(default_factory=time.monotonic)

    @property
    def ended(self) -> str | None:
        """The budget that is used up."""
        if self.taken >= self.steps:
            return "steps"
        return "device_seconds" if self.device_seconds is not None and self.spent >= self.device_seconds else None

    @property
    def left(self) -> Found:
        seconds = None if self.device_seconds is None else max(0.0, self.device_seconds - self.spent)
        return {"steps": self.steps - self.taken, "device_seconds": seconds}

    def add(self, kernel: Kernel, verdict: Verdict) -> str:
        """The next step's kernel; its name."""
        self.taken += 1
        name = f"s{self.taken}"
        self.kernels[name], self.verdicts[name] = kernel, verdict
        return name

    def base(self, name: str | None) -> Kernel | None:
        """The kernel that an action starts from; the best, else the starting one, when none is named."""
        if name is None:
            return self.kernels.get(self.best or "start")
        place = {"best": self.best, "last": f"s{self.taken}" if self.taken else "start"}.get(name, name)
        if place not in self.kernels:
            known = ", ".join(["best", "last", *self.kernels])
            raise Unfit("action", f"there is no kernel {name} to start from", f"There are: {known}.")
        return self.kernels[place]


class Environment:
    """Judges the kernels of many episodes of one task. Belongs to one event loop; the caller closes the executor."""

    def __init__(
        self, task: TaskSource, language: Language, executor: Executor, limits: Limits, scale: Scale = "continuous"
    ) -> None:
        self._task = task
        self._language: Language = language
        self._executor = executor
        self._limits = limits
        self._scale: Scale = scale
        self._episodes: dict[str, Episode] = {}
        self._opening = asyncio.Lock()
        self._facts: TaskFacts | None = None
        self._start: Verdict | None = None

    async def ready(self) -> TaskFacts:
        """Open the task and judge its starting kernel, once. Raises TaskError, KernelError, InfrastructureError."""
        async with self._opening:
            if self._facts is None:
                self._facts = await self._executor.open(self._task, TARGETS[self._language])
            kernel = self._task.start.get(self._language)
            if kernel is not None and self._start is None:
                verdict = await self._executor.evaluate(self._task, kernel)
                if isinstance(verdict, Unjudged):
                    raise InfrastructureError(f"the starting kernel could not be judged: {verdict.message}")
                self._start = verdict
            return self._facts

    async def answer(self, op: str, fields: Fields) -> Found:
        """What `op` (info, reset, step, close) finds. Raises Unfit."""
        try:
            match op:
                case "info":
                    return self._info()
                case "reset":
                    return await self._reset(read(Reset, fields))
                case "step":
                    return await self._step(read(Step, fields))
                case "close":
                    return self._close(read(Close, fields))
        except (InfrastructureError, TaskError) as error:
            raise Unfit("infrastructure", error.message, error.advice or "Send it again; it did not count.") from error
        raise Unfit("protocol", f"there is no operation {op[:40]!r}", "There are: info, reset, step, close.")

    def _info(self) -> Found:
        return {
            "version": VERSION,
            "task": self._task.name,
            "language": self._language,
            "reward": self._scale,
            "episodes": len(self._episodes),
            "limits": {
                "episodes": self._limits.episodes,
                "steps": self._limits.steps,
                "device_seconds": self._limits.device_seconds,
            },
            "action": Candidate.model_json_schema(),
        }

    async def _reset(self, asked: Reset) -> Found:
        facts = await self.ready()
        self._make_room()
        start = self._task.start.get(self._language)
        episode = Episode(
            id=secrets.token_hex(8),
            steps=min(asked.steps or self._limits.steps, self._limits.steps),
            device_seconds=_least(asked.device_seconds, self._limits.device_seconds),
            kernels={} if start is None else {"start": start},
            best="start" if isinstance(self._start, Accepted) else None,
            verdicts={} if self._start is None else {"start": self._start},
        )
        self._episodes[episode.id] = episode
        return {
            "episode": episode.id,
            "observation": {
                "task": {"name": self._task.name, "description": self._task.description, "policy": self._task.policy},
                "reference": dict(self._task.files),
                "language": self._language,
                "entry_file": ENTRY_FILE[self._language],
                "header": facts.header,
                "workloads": [workload.model_dump(mode="json") for workload in facts.workloads],
                "hardware": facts.hardware,
                "start": None if start is None or self._start is None else _as_seen(start, self._start),
            },
            "info": {"left": episode.left},
        }

    async def _step(self, asked: Step) -> Found:
        episode = self._find(asked.episode)
        if episode.last is not None and asked.step == episode.taken - 1:
            return episode.last
        if asked.step not in (None, episode.taken):
            raise Unfit("episode", f"step {asked.step} is not the next one", f"The next one is {episode.taken}.")
        if episode.ended is not None:
            raise Unfit("episode", f"the episode is over: no {episode.ended} left", "Begin another with reset.")
        if episode.busy:
            raise Unfit("busy", "the episode's last step is still being judged", "Send it again later.")
        kernel = self._made(asked.action, episode)
        episode.busy = True
        try:
            verdict, is_new = await self._judge(kernel, episode)
        finally:
            episode.busy, episode.touched = False, time.monotonic()
        episode.last = self._told(kernel, verdict, episode, is_new)
        return episode.last

    def _close(self, asked: Close) -> Found:
        episode = self._find(asked.episode)
        del self._episodes[episode.id]
        return {"episode": episode.id, "steps": episode.taken, "best": episode.best}

    def _made(self, action: Candidate, episode: Episode) -> Kernel:
        try:
            return changed(action, episode.base(action.base), self._language)
        except Refused as refused:
            raise Unfit("action", refused.message, refused.advice) from refused

    async def _judge(self, kernel: Kernel, episode: Episode) -> tuple[Verdict, bool]:
        """The verdict, and whether it is a new one: the same kernel is judged once an episode."""
        for name, verdict in episode.verdicts.items():
            if episode.kernels[name].id == kernel.id:
                return verdict, False
        incumbent = None if episode.best is None else episode.kernels[episode.best]
        try:
            verdict = await self._executor.evaluate(self._task, kernel, incumbent)
        except KernelError as error:
            raise Unfit("action", error.message, error.advice) from error
        if isinstance(verdict, Unjudged):
            raise InfrastructureError(f"the kernel could not be judged: {verdict.message}")
        episode.spent += sum(stage.seconds for stage in verdict.stages)
        return verdict, True

    def _told(self, kernel: Kernel, verdict: Verdict, episode: Episode, is_new: bool) -> Found:
        """Take the verdict into the episode, as its next step, and say what came of it."""
        reward = rewards.of_verdict(verdict, self._start.seconds if isinstance(self._start, Accepted) else None)
        assert reward is not None, "only what was judged comes here"
        outcome, name = outcome_of(verdict), episode.add(kernel, verdict)
        if outcome == "kept" and is_new:
            episode.best = name
        return {
            "episode": episode.id,
            "step": episode.taken - 1,
            "observation": {
                "attempt": name,
                "outcome": outcome,
                "best": episode.best,
                "verdict": rounded(findings.of_verdict(verdict)),
            },
            "reward": reward.on(self._scale),
            "done": episode.ended is not None,
            "info": {
                "reward_steps": reward.steps,
                "reward_continuous": reward.continuous,
                "kernel": kernel.id,
                "already_judged": not is_new,
                "ended": episode.ended,
                "left": episode.left,
            },
        }

    def _find(self, episode: str) -> Episode:
        if episode not in self._episodes:
            raise Unfit("episode", f"there is no episode {episode[:40]!r}", "Begin one with reset.")
        return self._episodes[episode]

    def _make_room(self) -> None:
        """Episodes that nobody steps any more give way. Raises Unfit when all places are taken."""
        now = time.monotonic()
        for episode in list(self._episodes.values()):
            if episode.ended is not None or (not episode.busy and now - episode.touched > IDLE_SECONDS):
                if len(self._episodes) < self._limits.episodes:
                    return
                del self._episodes[episode.id]
        if len(self._episodes) >= self._limits.episodes:
            raise Unfit("full", f"{len(self._episodes)} episodes are open", "Close one, or try again later.")


def _as_seen(kernel: Kernel, verdict: Verdict) -> Found:
    return {
        "files": dict(kernel.files),
        "defines": dict(kernel.defines),
        "flags": list(kernel.flags),
        "verdict": rounded(findings.of_verdict(verdict)),
    }


def _least(*bounds: float | None) -> float | None:
    return min((bound for bound in bounds if bound is not None), default=None)
