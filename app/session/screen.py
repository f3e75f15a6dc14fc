"""The screen of a session: its panes, and what keeps them up to date."""

from __future__ import annotations

import gc
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from time import time as wall_clock
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widget import Widget
from textual.widgets import Static

from agents.spoken import SPOKEN, piece_in
from agents.steering_box import Box
from app.replies import NOBODY, NOBODY_YET
from app.session.board import Board, places
from app.session.dialogs import Help
from app.session.driver import Driver
from app.session.headline import headline, shortened
from app.session.keys import PANES, TITLES, bindings, footer, groups
from app.session.lines import Lines, clean
from app.session.notes import ANSWERS, note_of
from app.session.over import in_dialog
from app.session.panes import Headline, KernelPane, LogPane, MoneyPane, Pane, VerdictPane, WordsPane, panes
from app.session.steady import Prompt
from app.session.wheel import Wheel
from memory.files import RunFolderError
from memory.runs import RunFolder
from memory.tail import Tail, event_in

LOOK_EVERY: Final = 0.1
"""Seconds between two looks at the run."""
AT_ONCE: Final = 0.015
"""Seconds that one look takes at most, so that a key is never waited for long."""
WIDE: Final = (120, 30)
"""Columns and lines from which all panes are shown at once."""


class SessionScreen(Wheel, Prompt):
    """Follows a run folder and shows it."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As in Textual, but that the whole screen is not drawn again for it: the panes show it themselves."""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    DEFAULT_CSS = """
    SessionScreen { layers: base help choose sure write; align: center middle; }
    SessionScreen #tabs { height: 1; display: none; background: $panel; }
    SessionScreen #keys { height: 1; background: $panel; }
    """

    def __init__(self, run: RunFolder, driver: Driver | None) -> None:
        super().__init__(run, driver)
        self._tail = Tail(run.path / "events.jsonl")
        self._backlog: deque[str] = deque()
        """Lines that were read and not taken in yet."""
        self.story.is_behind = True
        """Until the past was taken in: nobody is told of it."""
        self.is_ready = False
        """Once that was drawn."""
        self.was_typed_ahead = False
        """Before it was."""
        self._zoomed = False
        self._current = PANES[0]
        self._speech = Tail(run.path / SPOKEN)
        self._box = Box(run.path)
        self._stamps: dict[Path, tuple[int, int, int]] = {}
        """Of what is followed when it was read last."""
        self._drawn = (-1, "")
        self._headline = Text()
        self._shown: tuple[object, ...] = ()
        """What the panes were drawn for."""

    def compose(self) -> ComposeResult:
        yield Help(groups(), self._leave_help)
        yield from (self.choose, self.sure, self.write)
        yield Headline(id="headline", markup=False)
        yield Static(id="tabs", markup=False)
        yield Board(Pane("1 plan", "plan-pane", self.plan), *panes(), id="panes")
        yield Static(footer(), id="keys", markup=False)

    def on_mount(self) -> None:
        self.action_pane(PANES[0])
        self.plan.update(self.story)
        self._tell_doing()
        self.set_interval(LOOK_EVERY, self.look)

    def on_unmount(self) -> None:
        self._tail.__exit__(None, None, None)
        self._speech.__exit__(None, None, None)
        self._box.__exit__(None, None, None)

    def on_resize(self) -> None:
        self._arrange()

    def watch_focused(self, before: Widget | None, after: Widget | None) -> None:
        """The frames show where the focus is, or was before a dialog; who clicks beside the help leaves it."""
        if in_dialog(after):
            return
        for body, has_it in ((before, False), (after, True)):
            if body is not None and isinstance(body.parent, Pane):
                body.parent.mark(has_it)
        if after is not None and isinstance(after.parent, Pane):
            self._current = next(name for name in PANES if self._id_of(name) == after.parent.id)
            self.query_one(Help).go()

    @staticmethod
    def _id_of(name: str) -> str:
        """Of a pane."""
        return "plan-pane" if name == "plan" else name

    # --- following the run

    def look(self) -> None:
        """Take in what the run did since, and show it."""
        until, fresh = time.monotonic() + AT_ONCE, []
        try:
            if not self._backlog and self._has_grown(self._tail):
                self._backlog.extend(self._tail.lines())
            while self._backlog and time.monotonic() < until:
                line = event_in(self._backlog.popleft())
                if line is not None:
                    fresh.append(line)
                    self._take(line)
            if not self.story.is_behind and self._has_grown(self._box) and self.story.given.hand(self._box.new()):
                self.story.touch()
            if self.story.is_behind and not self._backlog:
                self.story.is_behind = False
                self.story.touch()
                self.call_after_refresh(self._settle)
        except RunFolderError as error:
            self.notify(clean(error.message), severity="error", markup=False)
        if fresh:
            self.query_one(LogPane).add(fresh)
        heard = self._listen()
        self._show(heard)
        if self.leaving is None and self.story.successor is not None and self.story.ended is not None and self.driver:
            self.leaving = self.app.exit  # the next screen is about the run that goes on
        if self.leaving is not None and not (self.driver is not None and self.driver.is_alive):
            self.leaving()

    def _settle(self) -> None:
        self.is_ready = True
        if self.was_typed_ahead:
            self.notify("Keys that came before the run was shown did nothing.", severity="warning")
        self._keep_what_is_there()

    def _keep_what_is_there(self) -> None:
        """What was loaded and read by now stays. To look through all of it for garbage again and again would hold up a
        key by a tenth of a second."""
        if not self.app.is_headless:
            gc.collect()
            gc.freeze()

    def _has_grown(self, tail: Tail | Box) -> bool:
        """Whether that file is another than the one that was read: an idle look costs two `stat`s."""
        try:
            there = tail.path.stat()
        except OSError:
            return tail is self._tail  # the reading says what is wrong; where nobody spoke there is no speech
        stamp = (there.st_ino, there.st_size, there.st_mtime_ns)
        if stamp == self._stamps.get(tail.path):
            return False
        self._stamps[tail.path] = stamp
        return True

    def _listen(self) -> bool:
        """Take what models said since; whether they did."""
        if not self._has_grown(self._speech):
            return False
        with suppress(RunFolderError):
            said = [piece for line in self._speech.lines() if (piece := piece_in(line)) is not None]
            self.query_one(WordsPane).voices.hear(said)
            self.story.hear({piece.speaker.split(" ", 1)[0] for piece in said})
        return True

    def follow(self) -> None:
        """The cursor is on another attempt: it is drawn with the cursor, not at the next look."""
        chosen = self.plan.chosen or self.story.best
        self.query_one(KernelPane).update(self.story, self.archive, chosen)
        self.query_one(VerdictPane).update(self.story, self.archive, chosen, self.plan.idea)

    def _take(self, line: dict[str, Any]) -> None:
        self.story.take(line)
        kind = line["event"]
        of_draft = self.tell_of_draft(str(line.get("id")), kind == "steered") if kind in ANSWERS else ""
        if kind == "task_opened" and self.driver is not None:
            self.call_after_refresh(self._keep_what_is_there)  # what drives a run is loaded by then
        if self.story.is_behind:
            return
        if (note := note_of(line, of_draft)) is not None:
            self.notify(note.text, title=note.title, severity=note.severity, timeout=note.seconds, markup=False)

    def tell_leaving(self, words: str) -> None:
        line = Text(f" {words}", style="bold", no_wrap=True, overflow="ellipsis")
        self.query_one("#keys", Static).update(line, layout=False)

    def _show(self, heard: bool = False) -> None:
        """Bring the panes up to date. Without news that is once a second: for the clock, and for a profile that came
        after its event. heard: a model said something."""
        story, chosen = self.story, self.plan.chosen or self.story.best
        news = (story.version, chosen, self.size, self.leaving is None, int(time.monotonic()))
        if news == self._shown and not heard:
            return
        self._shown = news
        self._fill()
        self._tell_doing()
        drawn = (story.version, f"{self.size.width} {self.leaving is None}")
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self.plan.update(story)
        self._draw_tabs()

    def _tell_doing(self) -> None:
        """What goes on now, and for how long."""
        story, width = self.story, self.size.width
        doing = story.now(wall_clock())
        told = headline(story, width, doing)
        if told != self._headline:
            self._headline = told
            self.query_one("#headline", Headline).update(told, layout=False)
            pane = self.query_one("#plan-pane", Pane)
            pane.entitle("1 plan", shortened(doing, min(60, pane.room - 2)).replace("[", "("))

    def _fill(self) -> None:
        """Let the panes show what is so now; each knows whether that is news."""
        self.query_one(MoneyPane).update(self.story)
        self.query_one(WordsPane).update(self._quiet())
        self.follow()

    def _quiet(self) -> str:
        return NOBODY if self.story.ended is not None else NOBODY_YET

    # --- panes

    @property
    def shows_one(self) -> bool:
        """Whether one pane has all the room."""
        return self._zoomed or self.size.width < WIDE[0] or self.size.height < WIDE[1]

    def _arrange(self) -> None:
        alone = self._id_of(self._current) if self.shows_one else None
        room = self.size - Size(0, 3 if alone else 2)  # less headline, keys and tabs
        where = {} if alone else places(room)
        for pane in self.query(Pane):
            pane.fit(where.get(str(pane.id), room.region).width)
        self.plan.fit(self.query_one("#plan-pane", Pane).room)
        self.query_one("#tabs").display = alone is not None
        self.query_one(Board).arrange_for(alone)
        if self.dialog is not None:
            self.dialog.fit()
        self._fill()
        self._draw_tabs()

    def _draw_tabs(self) -> None:
        named = enumerate(((name, TITLES.get(name, name)) for name in PANES), start=1)
        parts = [f"[{n} {title}]" if name == self._current else f" {n} {title} " for n, (name, title) in named]
        self.query_one("#tabs", Static).update(" ".join(parts)[: self.size.width], layout=False)

    def action_pane(self, name: str) -> None:
        self._current = name
        self._arrange()
        self.set_focus(self.plan if name == "plan" else self.query_one(f"#{name}-body", Lines), scroll_visible=False)

    def action_step(self, by: int) -> None:
        self.action_pane(PANES[(PANES.index(self._current) + by) % len(PANES)])

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self._arrange()

    def action_best(self) -> None:
        self.plan.choose(self.story.best)

    def action_view(self) -> None:
        view = self.query_one(KernelPane).turn()
        self._shown = ()
        self._show()
        if self.shows_one and self._current != "kernel":  # otherwise its frame says so
            said = {"source": "source", "parent": "against its parent", "best": "against the best"}
            self.notify(f"the kernel: {said[view]}", timeout=2)

    def action_hot(self) -> None:
        if not self.query_one(KernelPane).next_hot():
            self.notify("no hot line is known: the attempt was not profiled, or v shows a difference", timeout=4)

    def action_help(self) -> None:
        self.query_one(Help).open()

    @property
    def is_helping(self) -> bool:
        """Whether the help is over the panes."""
        return self.query_one(Help).is_open

    def _leave_help(self) -> None:
        self.action_pane(self._current)
