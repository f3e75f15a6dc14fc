"""What the keys of a session do to the run: steering it, exporting, and leaving it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

from textual import work
from textual.notifications import SeverityLevel

from agents import steering_actions as acts
from agents.ideas import forbids
from agents.steering import NOT_YET
from agents.steering_actions import Action, Command
from agents.steering_box import give
from agents.steering_limits import HEEDED_AT_A_LIMIT
from app.session.asking import asks
from app.session.by_hand import ByHand
from app.session.dialogs import usage_of
from app.session.driver import Driver
from app.session.exports import Export, exportable, folder_at, free_name
from app.session.hand_over import hand_over
from app.session.leaving import ENDS, GOES_ON, Leaving
from app.session.lines import clean
from app.session.meant import readings
from app.session.plan import Plan
from app.steer_words import USAGES, action_of
from memory.files import RunFolderError
from memory.runs import RunFolder
from memory.tail import is_held
from tools.errors import WarpsmithError

SEE_EVERY: Final = 1.0
"""Seconds between two looks whether the run's process lives."""


class Wheel(ByHand):
    """A screen about one run; `driver` is there when the run is driven in this process."""

    def __init__(self, run: RunFolder, driver: Driver | None) -> None:
        super().__init__(run)
        self.driver = driver
        self.plan = Plan(self.follow)
        self.leaving: Callable[[], None] | None = None
        """What is done once the run that is driven here has ended."""
        self._words = ENDS
        self._unseen = 0

    def on_mount(self) -> None:
        if self.driver is None:
            self.set_interval(SEE_EVERY, self._see_process)

    def _see_process(self) -> None:
        """Whether the run's process lives. Between two of its parts nobody holds the log for a moment: so it is gone
        when it was not seen twice."""
        if self.story.version == 0:
            return
        try:
            with (self.run.path / "events.jsonl").open("rb") as log:
                self._unseen = self._unseen + 1 if is_held(log) is False else 0
        except OSError:
            return
        self.story.see(self._unseen < 2)

    def give(self, action: Action) -> Command | None:
        try:
            command = give(self.run.path, action)
        except RunFolderError as error:
            self.notify(clean(error.message), severity="error", markup=False)
            return None
        self._tell_when(action)
        return command

    def _tell_when(self, action: Action) -> None:
        """When an action that was given takes hold, where that is not at once."""
        story = self.story
        if isinstance(action, acts.Forbid) and not any(forbids(action.idea, idea.change) for idea in story.ideas):
            self.notify("No plan so far had all of these words: it holds for plans that come.", severity="warning")
        if story.is_gone:
            words = f"No process works on the run: this waits for `warpsmith resume {self.run.id}`."
            self.notify(clean(words), severity="warning", markup=False)
        elif story.at_limit is not None:
            if not isinstance(action, HEEDED_AT_A_LIMIT):
                self.notify("The run waits at a limit: this waits until l gives a larger one.", markup=False)
        elif story.ended is not None:
            self.notify("The run has ended: this waits until it is resumed.", severity="warning", markup=False)
        elif not story.iteration and isinstance(action, NOT_YET["start"]):
            self.notify("Given: it takes effect once the starting kernel was judged.", markup=False)
        elif isinstance(action, acts.EditKernel):
            self.notify("Given: your kernel is judged when what goes on now is done.", markup=False)

    def follow(self) -> None:
        """Show what the cursor is on."""
        raise NotImplementedError

    @property
    def chosen(self) -> str | None:
        """The attempt that keys are about."""
        return self.plan.chosen or self.story.best

    @asks
    async def action_write(self, begun: str, offer: str = "") -> None:
        title, stands = "What shall be done?", begun
        while (written := await self.write.ask(title, stands, offer, partial(self._usage, begun))) is not None:
            if not written.strip():
                return
            try:
                action = _read(readings(begun, written))
            except (WarpsmithError, RunFolderError, OSError, ValueError) as error:
                title, stands, offer = clean(str(error)), written, ""  # to be written otherwise, and not anew
            else:
                self.give(action)
                return

    def _usage(self, begun: str, line: str) -> str:
        """How what stands in the line is written; of a model also who plays what now."""
        name = line.split(" ", 1)[0]
        name = name if name in USAGES or not begun else begun.split(" ", 1)[0]
        if name != "model":
            return usage_of(name)
        playing = ", ".join(f"{role} {model}" for role, model in self.story.models.items())
        return f"{usage_of(name)}. Now: {clean(playing)}. `warpsmith models` lists what can be named"

    def action_forbid(self) -> None:
        tried = self.story.attempts.get(self.plan.chosen or "")
        idea = self.plan.idea or (None if tried is None else tried.idea)
        self.action_write("forbid ", "" if idea is None else clean(idea.change, 120))

    def action_withdraw(self) -> None:
        if self.story.hints:
            self.action_write("withdraw ", clean(self.story.hints[-1], 4_000))
        else:
            self.notify("no hint stands")

    def action_pause(self) -> None:
        self.give(acts.GoOn() if self.story.wishes.paused else acts.Pause())

    def action_fork(self) -> None:
        if self.chosen is not None:
            self.give(acts.Fork(attempt=self.chosen))

    def action_pin(self) -> None:
        if self.chosen is not None:
            pinned = self.story.wishes.pinned == self.chosen
            self.give(acts.Unpin() if pinned else acts.Pin(attempt=self.chosen))

    def action_approve(self) -> None:
        self.give(acts.Approve())

    def action_approval(self) -> None:
        self.action_write("approval ", "off" if self.story.waiting else "on")

    @asks
    async def action_accept(self) -> None:
        question = f"Accept {self.story.best} as it is? It is measured afresh, and the run ends."
        if await self.sure.ask(question):
            self.give(acts.Accept())

    # --- exporting

    @asks
    async def action_export(self) -> None:
        """As `warpsmith export`: which form, where to, and then it is judged beside everything else."""
        attempt = self.chosen
        if attempt is None:
            self.notify("there is no kernel to export yet")
            return
        try:
            found = exportable(self.run, attempt)
        except RunFolderError as error:
            self.notify(clean(str(error)), severity="error", markup=False, timeout=8)
            return
        rows = [
            (c.form, c.what, c.objection or (f"not judged here: {c.note}" if c.note else "")) for c in found.choices
        ]
        best = "" if attempt == self.story.best else f" (the best is {self.story.best}: b chooses it)"
        place = await self.choose.ask(f"Export {attempt} as{best}", rows)
        if place is None:
            return
        form, _, objection, _ = found.choices[place]
        if objection is not None:
            self.notify(clean(f"{form} does not apply: {objection}"), severity="error", markup=False, timeout=8)
            return
        name = free_name(f"{found.word}-{attempt}-{form}")
        where = await self.write.ask(f"Write {attempt} as {form} into the folder", name)
        if where and where.strip():
            try:
                self._carry_out(Export(attempt, form, folder_at(where)), found.executor)
            except WarpsmithError as error:
                self.notify(clean(str(error)), severity="error", markup=False, timeout=8)

    @work
    async def _carry_out(self, export: Export, executor: str) -> None:
        self.story.exports.append(export)
        self.notify(f"{export.attempt} is being exported as {export.form}: pane 5 says how it stands", markup=False)
        try:
            await export.carry_out(self.run, executor, self.story.touch)
        except (OSError, ValueError) as error:
            export.fail(str(error))
        self.story.touch()
        severity = {"accepted": "information", "unjudged": "warning"}.get(export.status, "error")
        self.notify(
            clean(export.words, 600),
            title="exported" if export.is_written else "not exported",
            severity=cast(SeverityLevel, severity),
            markup=False,
            timeout=15,
        )

    # --- leaving

    @asks
    async def action_leave(self) -> None:
        driver = self.driver
        if self.dialog is not None:
            self.dialog.leave()  # ctrl+q counts over everything
            return
        if self.leaving is None and not await self._may_leave_exports():
            return
        if driver is None or not driver.is_alive:
            self.app.exit()
        elif self.leaving is not None:
            self._leave_at_once(driver)
        elif await self.sure.ask("Stop the run and leave? What was found is kept, and resume goes on."):
            self.leave_after(driver, self.app.exit, ENDS)

    async def _may_leave_exports(self) -> bool:
        """Whether nothing is being exported, or the person leaves all the same."""
        left = [export.attempt for export in self.story.exports if export.doing is not None]
        question = f"The export of {', '.join(left)} is not judged yet. Leave? Its files stay."
        return not left or await self.sure.ask(question)

    @asks
    async def action_detach(self) -> None:
        driver = self.driver
        if not await self._may_leave_exports():
            return
        if driver is None or not driver.is_alive:
            self.app.exit()
        elif self.leaving == self._hand_over:
            self._leave_at_once(driver)
        elif self.story.at_limit is not None:
            self.notify("It waits at a limit: l gives a larger one, then it can go on without you; q ends it.")
        elif await self.sure.ask("Leave, and let the run go on in the background?"):
            self.leave_after(driver, self._hand_over, GOES_ON)

    def leave_after(self, driver: Driver, leave: Callable[[], None], words: Leaving) -> None:
        """Once the run's process has done what it does now."""
        self.leaving, self._words = leave, words
        self.notify(f"{words.first} {words.again}", markup=False, timeout=30)
        self.tell_leaving(words.line)
        driver.stop(why=words.why)

    def _leave_at_once(self, driver: Driver) -> None:
        self.notify(self._words.at_once, markup=False, timeout=30)
        self.tell_leaving(self._words.at_once)
        driver.stop(at_once=True)

    def tell_leaving(self, words: str) -> None:
        """Where it is seen until the session has ended."""
        raise NotImplementedError

    def _hand_over(self) -> None:
        if self.driver is not None and self.driver.error is None:
            hand_over(self.run)
        self.app.exit()


def _read(lines: Sequence[str]) -> Action:
    """The first of these that can be read as an action. Raises what is wrong with the first one, where none can."""
    failed: Exception | None = None
    for line in lines:
        try:
            name, _, rest = line.partition(" ")
            return action_of([name, *(shlex.split(rest) if name in ("edit", "plan") else rest.split(" "))])
        except (WarpsmithError, OSError, ValueError) as error:
            failed = failed or error
    raise failed or WarpsmithError("nothing to do was named")
