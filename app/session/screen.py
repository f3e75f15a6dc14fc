"""The screen of a session: its panes, what keeps them up to date, and what the keys do."""

from __future__ import annotations

import json
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import work
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Static

from agents import steering_actions as acts
from agents.steering_actions import Action
from agents.steering_box import give
from app.bill import PAID
from app.session.archive import Archive
from app.session.dialogs import Help, Sure, Write, WriteAction
from app.session.driver import Driver
from app.session.editor import edit_kernel, edit_text
from app.session.hand_over import hand_over
from app.session.keys import PANES, bindings, footer, groups
from app.session.lines import brief, clean
from app.session.panes import Headline, KernelPane, LogPane, MoneyPane, Pane, VerdictPane, WordsPane, compose
from app.session.plan import Plan
from app.session.story import Story
from app.session.words import headline
from app.steer_words import action_of, plan_of
from memory.files import RunFolderError
from memory.runs import RunFolder
from memory.tail import Tail, event_in
from tools.errors import WarpsmithError

LOOK_EVERY: Final = 0.05
"""Seconds between two looks at the run."""
AT_ONCE: Final = 0.015
"""Seconds that one look takes at most, so that a key is never waited for long."""
WIDE: Final = (120, 30)
"""Columns and lines from which all panes are shown at once."""


class SessionScreen(Screen[None]):
    """Follows a run folder; `driver` is there when the run is driven in this process."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    DEFAULT_CSS = """
    SessionScreen { layers: base; }
    SessionScreen #tabs { height: 1; display: none; background: $panel; }
    SessionScreen #keys { height: 1; background: $panel; }
    SessionScreen #panes {
        layout: grid; grid-size: 3 3; grid-columns: 5fr 7fr 5fr; grid-rows: 3fr 2fr 11; height: 1fr;
    }
    SessionScreen #kernel { row-span: 2; }
    SessionScreen #log { column-span: 3; }
    SessionScreen.-one #tabs { display: block; }
    SessionScreen.-one #panes { layout: vertical; }
    SessionScreen.-one #panes > Pane { display: none; }
    SessionScreen.-one #panes > Pane.-current { display: block; }
    """

    def __init__(self, run: RunFolder, driver: Driver | None) -> None:
        super().__init__()
        self.run, self.driver = run, driver
        self.story = Story()
        self.archive = Archive(run.path)
        self.plan = Plan()
        self._tail = Tail(run.path / "events.jsonl")
        self._backlog: deque[str] = deque()
        """Lines that were read and not taken in yet."""
        self._zoomed = False
        self._current = PANES[0]
        self._leaving: Callable[[], None] | None = None
        self._drawn = (-1, "")

    def compose(self) -> ComposeResult:
        yield Headline(id="headline", markup=False)
        yield Static(id="tabs", markup=False)
        with Container(id="panes"):
            yield Pane("1 plan", "plan-pane", self.plan)
            yield from compose()
        yield Static(footer(), id="keys", markup=False)

    def on_mount(self) -> None:
        self.action_pane(PANES[0])
        self.set_interval(LOOK_EVERY, self.look)

    def on_unmount(self) -> None:
        self._tail.__exit__(None, None, None)

    def on_resize(self) -> None:
        self._arrange()

    # --- following the run

    def look(self) -> None:
        """Take in what the run did since, and show it."""
        until, fresh = time.monotonic() + AT_ONCE, []
        try:
            if not self._backlog:
                self._backlog.extend(self._tail.lines())
            while self._backlog and time.monotonic() < until:
                line = event_in(self._backlog.popleft())
                if line is not None:
                    fresh.append(line)
                    self._take(line)
        except RunFolderError as error:
            self.notify(clean(error.message), severity="error", markup=False)
        self.query_one(LogPane).add(fresh)
        words = self.query_one(WordsPane)
        while self.driver is not None and not self.driver.said.empty():
            words.say(*self.driver.said.get())
        self._show()
        if self._leaving is not None and not (self.driver is not None and self.driver.is_alive):
            self._leaving()

    def _take(self, line: dict[str, Any]) -> None:
        self.story.take(line)
        kind = line["event"]
        if kind in PAID:
            self.query_one(WordsPane).end(str(line.get("role")))
        if kind == "steer_refused":
            told = f"{line['action']} was refused: {line['message']}. {line['advice']}"
            self.notify(clean(told), severity="error", markup=False, timeout=8)
        elif kind == "answered":
            self.notify(clean(str(line["answer"]), 400), title="answered", markup=False, timeout=10)
        elif kind == "plan_waits":
            self.notify("a approves it, r rejects it, E edits it", title="The plan waits for you", markup=False)

    def _show(self) -> None:
        story, chosen = self.story, self.plan.chosen or self.story.best
        self.query_one(MoneyPane).update(story)
        self.query_one(WordsPane).update(self._quiet())
        self.query_one(KernelPane).update(story, self.archive, chosen)
        self.query_one(VerdictPane).update(story, self.archive, chosen)
        drawn = (story.version, f"{self.size.width} {self._leaving is None}")
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self.plan.update(story)
        self.query_one("#headline", Headline).update(headline(story, self.size.width), layout=False)
        self.query_one("#plan-pane", Pane).border_subtitle = brief(story.ended or story.doing, 60).replace("[", "(")
        self._draw_tabs()

    def _quiet(self) -> str:
        if self.driver is None:
            return "The run is in another process: what its models say is in its transcripts, not here."
        return "Nobody spoke yet. builtin:autotune says nothing; a language model's reply is shown here as it comes."

    # --- panes

    def _arrange(self) -> None:
        wide = self.size.width >= WIDE[0] and self.size.height >= WIDE[1]
        self.set_class(self._zoomed or not wide, "-one")
        self._draw_tabs()

    def _draw_tabs(self) -> None:
        parts = [f"[{n} {name}]" if name == self._current else f" {n} {name} " for n, name in enumerate(PANES, start=1)]
        self.query_one("#tabs", Static).update(" ".join(parts)[: self.size.width], layout=False)

    def action_pane(self, name: str) -> None:
        self._current = name
        for pane in self.query(Pane):
            pane.set_class(pane.id in (name, f"{name}-pane"), "-current")
        (self.plan if name == "plan" else self.query_one(f"#{name}-body")).focus()
        self._arrange()

    def action_step(self, by: int) -> None:
        self.action_pane(PANES[(PANES.index(self._current) + by) % len(PANES)])

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self._arrange()

    def action_best(self) -> None:
        self.plan.choose(self.story.best)

    def action_view(self) -> None:
        view = self.query_one(KernelPane).turn()
        self.notify({"source": "source", "parent": "against its parent", "best": "against the best"}[view], timeout=2)

    def action_hot(self) -> None:
        if not self.query_one(KernelPane).next_hot():
            self.notify("no hot line is known: the attempt was not profiled, or v shows a difference", timeout=4)

    def action_help(self) -> None:
        self.app.push_screen(Help(groups()))

    # --- steering

    def give(self, action: Action) -> None:
        """Hand an action to the run."""
        try:
            give(self.run.path, action)
        except RunFolderError as error:
            self.notify(clean(error.message), severity="error", markup=False)
            return
        if self.story.ended is not None:
            self.notify("The run has ended: this waits until it is resumed.", severity="warning", markup=False)

    @property
    def chosen(self) -> str | None:
        """The attempt that keys are about."""
        return self.plan.chosen or self.story.best

    @work
    async def action_write(self, begun: str) -> None:
        written = await self.app.push_screen_wait(WriteAction(begun))
        if written is None or not written.strip():
            return
        try:
            name, _, rest = written.strip().partition(" ")
            words = shlex.split(rest) if name in ("edit", "plan") else rest.split(" ")
            self.give(action_of([name, *words]))
        except (WarpsmithError, RunFolderError, OSError, ValueError) as error:
            self.notify(clean(str(error)), severity="error", markup=False, timeout=8)

    def action_forbid(self) -> None:
        tried = self.story.attempts.get(self.plan.chosen or "")
        self.action_write("forbid " + (clean(tried.idea.change, 120) if tried is not None and tried.idea else ""))

    def action_withdraw(self) -> None:
        if self.story.hints:
            self.action_write(f"withdraw {clean(self.story.hints[-1], 4_000)}")
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
        self.action_write("approval " + ("off" if self.story.waiting else "on"))

    @work
    async def action_accept(self) -> None:
        question = f"Accept {self.story.best} as it is? It is measured afresh, and the run ends."
        if await self.app.push_screen_wait(Sure(question)):
            self.give(acts.Accept())

    @work
    async def action_edit(self) -> None:
        filed = self.archive.find(self.chosen)
        if filed is None:
            self.notify("there is no kernel to edit yet")
            return
        facts, kernel = self.archive.facts, filed.kernel
        files = self._edited(lambda: edit_kernel(kernel.files, kernel.language, facts.header if facts else None))
        if files is None:
            return
        note = await self.app.push_screen_wait(Write(f"{filed.attempt.id} is changed. What is it about?"))
        if note is not None:
            edited = acts.EditKernel(
                parent=filed.attempt.id, files=files, defines=kernel.defines, flags=kernel.flags, note=note.strip()
            )
            self.give(edited)

    def action_edit_plan(self) -> None:
        if not self.story.waiting:
            self.notify("no plan waits; A switches approval on")
            return
        text = self._edited(lambda: edit_text(json.dumps(self.story.waiting, indent=2, ensure_ascii=False), ".json"))
        if text is not None:
            try:
                self.give(plan_of(text))
            except WarpsmithError as error:
                self.notify(clean(str(error)), severity="error", markup=False, timeout=8)

    def _edited(self, edit: Callable[[], Any]) -> Any:
        """What the person's editor left, with the terminal to itself; None when nothing changed or it failed."""
        try:
            with self._terminal_given():
                after = edit()
        except WarpsmithError as error:
            self.notify(clean(str(error)), severity="error", markup=False, timeout=8)
            return None
        if after is None:
            self.notify("nothing was changed")
        return after

    @contextmanager
    def _terminal_given(self) -> Iterator[None]:
        """The terminal is somebody else's within it, where there is one."""
        if self.app.is_headless:
            yield
            return
        try:
            with self.app.suspend():
                yield
        except SuspendNotSupported as error:
            raise WarpsmithError("this terminal can't be lent to an editor", "Use :edit PATH instead.") from error

    # --- leaving

    @work
    async def action_export(self) -> None:
        filed = self.archive.find(self.chosen)
        if filed is None:
            return
        name = f"{clean(self.story.task, 40).replace('/', '-') or 'kernel'}-{filed.attempt.id}"
        where = await self.app.push_screen_wait(Write(f"Write the sources of {filed.attempt.id} into", name))
        if where:
            try:
                self.notify(f"written: {filed.write_sources(Path(where).expanduser())}", markup=False)
            except (OSError, RunFolderError) as error:
                self.notify(clean(str(error)), severity="error", markup=False)

    @work
    async def action_leave(self) -> None:
        driver = self.driver
        if driver is None or not driver.is_alive:
            self.app.exit()
        elif self._leaving is not None:
            driver.stop(at_once=True)
        elif await self.app.push_screen_wait(
            Sure("Stop the run and leave? What was found is kept, and resume goes on.")
        ):
            self._leave_after(driver, self.app.exit)

    @work
    async def action_detach(self) -> None:
        driver = self.driver
        if driver is None or not driver.is_alive:
            self.app.exit()
        elif await self.app.push_screen_wait(Sure("Leave, and let the run go on in the background?")):
            self._leave_after(driver, self._hand_over)

    def _leave_after(self, driver: Driver, leave: Callable[[], None]) -> None:
        self._leaving = leave
        self.notify("The call that goes on is finished first; q again stops at once.", timeout=30)
        driver.stop()

    def _hand_over(self) -> None:
        if self.driver is not None and self.driver.error is None:
            hand_over(self.run)
        self.app.exit()
