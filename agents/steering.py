"""A person's hand on a run that goes on: commands out of the run folder take effect here, each once.

An action is told as an event before anything follows from it, and what it changed beside that (hints, settings) stands
in the run folder. So a run that was killed knows all of it, and does what was given but not yet heeded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, JsonValue, ValidationError

from agents import steering_actions as acts
from agents import steering_deeds
from agents.control import Control
from agents.steer_events import ActionName
from agents.steering_actions import Action, Ask, Command, EditKernel, Exported
from agents.steering_box import Box
from agents.wishes import Decision, Wishes
from memory.files import RunFolderError
from tools.errors import InfrastructureError, KernelError, TaskError, WarpsmithError

if TYPE_CHECKING:
    from agents.context import Context

LOOK_EVERY = 0.1
"""Seconds between two looks at the commands."""
Phase: TypeAlias = Literal["start", "search", "end"]
"""Of a run: its task is not open or its starting kernel not judged yet, it searches, or its winner is measured and
nothing is tried any more."""
NOT_YET: Final[Mapping[Phase, tuple[type[BaseModel], ...]]] = {
    "start": (acts.EditKernel, acts.Pin, acts.Unpin, acts.Fork, acts.SetPolicy, acts.Ask),
    "search": (),
    "end": (acts.EditKernel, acts.Pause, acts.GoOn),
}
"""Actions that wait for the next phase: those about attempts while there is none, and at the end, for the process that
resumes the run, those that only a search can heed."""


class Steering:
    """Heeds commands while the run goes on. Belongs to the run's event loop."""

    def __init__(self, wishes: Wishes, control: Control, on_change: Callable[[], None] | None = None) -> None:
        """on_change: called when the limits or the pause changed."""
        self.wishes = wishes
        self.control = control
        self.on_change = on_change or (lambda: None)
        self._phase: Phase = "start"
        self._given: list[Command] = []
        """What is not heeded yet, oldest first."""
        self._device_seconds = 0.0
        self._context: Context | None = None
        self._box: Box | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._watching: asyncio.Task[None] | None = None

    @property
    def context(self) -> Context:
        assert self._context is not None, "nobody attends yet"
        return self._context

    @property
    def is_over(self) -> bool:
        """Whether the person ended the search."""
        return self.wishes.over is not None

    @property
    def phase(self) -> Phase:
        return "end" if self.control.reason is not None else self._phase

    @asynccontextmanager
    async def attending(self, context: Context) -> AsyncIterator[None]:
        """Commands are heeded within it, also while the task is opened."""
        self._context = context
        with Box(context.run.path, self.wishes.done) as self._box:
            self._hold()
            self._watching = watching = asyncio.create_task(self._watch())
            try:
                yield
            finally:
                self._let_go()
                open_ones = [watching, *self._tasks]
                for task in open_ones:
                    task.cancel()
                await asyncio.gather(*open_ones, return_exceptions=True)

    async def gate(self) -> None:
        """What was given is heeded; returns at once, or when the pause is over or the run is to end."""
        self.look()
        while self.wishes.paused and self.control.reason is None:
            await asyncio.sleep(LOOK_EVERY)

    async def settle(self) -> None:
        """All commands that were given are heeded, and the kernels among them judged. Raises what judging raised."""
        self.enters("search")
        if self._watching is not None and self._watching.done():
            self._watching.result()
        self.look()
        while edits := [task for task in self._tasks if task.get_name() == "edit" or task.done()]:
            self._tasks = [task for task in self._tasks if task not in edits]
            await asyncio.gather(*edits)
        await self.gate()

    @property
    def is_ending(self) -> bool:
        """Whether nothing is tried any more and the winner is measured."""
        return self._phase == "end"

    def enters(self, phase: Phase) -> None:
        """The task is open, and that is the run's phase from now on."""
        self._phase = phase

    async def answered(self) -> None:
        """All questions are answered."""
        asked, self._tasks = self._tasks, []
        await asyncio.gather(*asked)

    async def word(self, iteration: int, plan: int) -> Decision | None:
        """A person's word on a plan; None when the run is to end before there is one."""
        self._hold()
        try:
            while (found := self.wishes.decision(iteration, plan)) is None:
                if self.control.reason is not None or self.is_over or not self.context.settings.approve:
                    return None
                await asyncio.sleep(LOOK_EVERY)
            return found
        finally:
            self._let_go()

    def look(self) -> None:
        """Heed what was given since the last look, as far as it is time for it; what takes long goes on beside the
        run."""
        self._given += self._box.new() if self._box is not None else ()
        for command in [*self._given]:
            if not isinstance(command.action, NOT_YET[self.phase]):
                self._heed(command)
                self._given.remove(command)

    def _heed(self, command: Command) -> None:
        if isinstance(command.action, Exported):
            self._say("exported", id=command.id, **command.action.model_dump(mode="json", exclude={"action"}))
        elif isinstance(command.action, EditKernel | Ask):
            slow = self._edit if isinstance(command.action, EditKernel) else self._ask
            task = asyncio.create_task(slow(command), name=command.action.action)
            self._tasks.append(task)
        else:
            self._do(command, command.action)

    async def _watch(self) -> None:
        while True:
            with suppress(RunFolderError):  # tried again at the next look
                self.look()
            await asyncio.sleep(LOOK_EVERY)

    def _do(self, command: Command, action: Action) -> None:
        """An action that is done at once."""
        try:
            about = steering_deeds.do(self, command, action)
        except (WarpsmithError, ValidationError) as error:
            self._refuse(command, error)
            return
        self._tell(command, about)
        if action.action == "stop":
            self.control.stop("user")

    async def _edit(self, command: Command) -> None:
        try:
            about = await steering_deeds.judge_edit(self, command, cast(EditKernel, command.action))
        except InfrastructureError:
            raise
        except (KernelError, TaskError, ValidationError) as error:
            self._refuse(command, error)
            return
        self._device_seconds += float(cast(float, about.pop("device_seconds")))
        self._tell(command, about)

    async def _ask(self, command: Command) -> None:
        from agents.steering_ask import answer

        action = cast(Ask, command.action)
        text, by = await answer(self.context, command.id, action.question, self.wishes)
        self._say("answered", id=command.id, question=action.question, answer=text, by=by)

    def _tell(self, command: Command, about: dict[str, JsonValue]) -> None:
        was_paused = self.wishes.paused
        self._say("steered", id=command.id, action=command.action.action, iteration=self.wishes.hears, about=about)
        if self.wishes.paused and not was_paused:
            self._hold()
        elif was_paused and not self.wishes.paused:
            self._let_go()
        self.on_change()

    def _refuse(self, command: Command, error: WarpsmithError | ValidationError) -> None:
        if isinstance(error, WarpsmithError):
            message, advice = error.message, error.advice
        else:
            first = error.errors(include_url=False)[0]
            message, advice = f"{'.'.join(map(str, first['loc']))}: {first['msg']}", ""
        action: ActionName = cast(Action, command.action).action
        self._say("steer_refused", id=command.id, action=action, message=message, advice=advice)

    def _say(self, event: Any, **fields: JsonValue) -> None:
        """Tell it, on the disk before anything follows."""
        journal = self.context.journal
        journal.tell(event, **fields)
        journal.flush()
        self.wishes.take({"event": event, **fields})

    def _hold(self) -> None:
        """The run's clock stands still while it waits for the person."""
        if self.wishes.paused or self.wishes.waiting is not None:
            self.context.clock.hold()

    def _let_go(self) -> None:
        if not self.wishes.paused:
            self.context.clock.go_on()

    def plan_waits(self, iteration: int, hypotheses: list[JsonValue]) -> None:
        """Say that a plan waits."""
        self._say("plan_waits", iteration=iteration, hypotheses=hypotheses)

    def begins(self, iteration: int) -> None:
        """An iteration's planner is asked: what is said from now on is for the next one."""
        self.wishes.take({"event": "iteration_started", "iteration": iteration})

    def take_device_seconds(self) -> float:
        """Of kernels by the person's own hand, since this was last asked."""
        taken, self._device_seconds = self._device_seconds, 0.0
        return taken
