"""The panes beside the plan: the kernel, verdict and profile, models' words, the log, and money and time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from rich.style import Style
from rich.text import Text
from textual.color import Color
from textual.geometry import Region
from textual.widgets import Static

from app.log_lines import log_line
from app.session.archive import Archive, Filed
from app.session.hypothesis import idea_lines
from app.session.lines import Lines, clean, folded
from app.session.money import money_lines
from app.session.source import VIEWS, View, diff_lines, painted, source_lines
from app.session.steady import Frame
from app.session.story import Story
from app.session.tried import Idea
from app.session.voices import Voices
from app.session.words import verdict_lines

_LOG_STYLES: Final[Mapping[str, str]] = {
    "best_changed": "bold green",
    "model_retried": "yellow",
    "model_changed": "yellow",
    "model_failed": "red",
    "run_failed": "bold red",
    "steered": "bold cyan",
    "steer_refused": "bold red",
    "answered": "cyan",
    "plan_waits": "bold cyan",
    "exported": "cyan",
    "tool_called": "dim",
    "model_called": "dim",
}
NARROWEST: Final = 24
"""Cells that a line has at least; in a pane that is narrower it is cut."""


class Pane(Frame):
    """A frame with a title, and something that scrolls in it."""

    DEFAULT_CSS = """
    Pane { border: round $foreground 30%; padding: 0; height: 1fr; width: 1fr; }
    Pane { border-title-color: $foreground; border-subtitle-color: $foreground 80%; }
    """

    def __init__(self, title: str, id: str, *body: Any) -> None:
        super().__init__(*body, id=id)
        self._frame_alone = self._marked = False
        self.border_title = title
        self.room = NARROWEST
        """Cells of a line in it."""

    def mark(self, focused: bool) -> None:
        """Show in the frame whether it has the focus. A rule that is set like this has nothing else drawn again."""
        if focused is self._marked:
            return  # it comes back after a dialog
        self._marked = focused
        if focused:
            self.styles.set_rule("border_title_style", Style(bold=True, reverse=True))
            self.styles.set_rule("border_title_color", Color.parse(self.app.theme_variables["accent"]))
        else:
            self.styles.clear_rule("border_title_style")
            self.styles.clear_rule("border_title_color")
        self._frame_alone = True
        self.refresh()
        self._frame_alone = False

    def fit(self, width: int) -> None:
        """It is so many cells wide from now on, frame and bar included."""
        self.room = max(NARROWEST, width - 3)

    def entitle(self, title: str, below: str | None = None) -> None:
        """Write into the frame, which alone is drawn again."""
        self._frame_alone = True
        if title != self.border_title:
            self.border_title = title
        if below is not None and below != self.border_subtitle:
            self.border_subtitle = below
        self._frame_alone = False

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if self._frame_alone:
            width, height = self.outer_size
            regions = (Region(-1, -1, width, 1), Region(-1, height - 2, width, 1))
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)


class KernelPane(Pane):
    """An attempt's source or what it changed."""

    def __init__(self) -> None:
        self.body = Lines(id="kernel-body")
        super().__init__("2 kernel", "kernel", self.body)
        self.view: View = "source"
        self._shown: tuple[object, ...] = ()
        self._hot: list[int] = []
        self._place = -1

    def update(self, story: Story, archive: Archive, attempt: str | None) -> None:
        """Show that attempt, if it is not shown already."""
        filed = archive.find(attempt)
        other = {"source": None, "parent": None if filed is None else filed.attempt.parent, "best": story.best}[
            self.view
        ]
        profiled = filed is not None and filed.profile is not None
        if (key := (attempt, self.view, other, profiled, filed is None)) == self._shown:
            return
        same = self._shown[:2] == key[:2]
        self._shown, self._place = key, -1
        if filed is None:
            self._hot = []
            self.entitle("2 kernel")
            self.body.show([Text("no attempt is chosen yet", style="dim")])
            return
        self.body.show(self._lines(filed, archive.find(other)), painted if self.view == "source" else None)
        if not same:
            self.body.scroll_home(animate=False)
        against = {"source": "", "parent": f" against its parent {other}", "best": f" against the best, {other}"}[
            self.view
        ]
        self.entitle(f"2 kernel: {filed.attempt.id}{against}")

    def _lines(self, filed: Filed, other: Filed | None) -> list[Text]:
        if self.view == "source":
            lines, self._hot = source_lines(filed)
            return lines
        self._hot = []
        names = ("nothing" if other is None else other.attempt.id, filed.attempt.id)
        return diff_lines(None if other is None else other.kernel, filed.kernel, names)

    def turn(self) -> View:
        """The next view."""
        self.view = VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)]
        return self.view

    def next_hot(self) -> bool:
        """Go to the next hot line; False when none is marked."""
        if not self._hot:
            return False
        self._place = (self._place + 1) % len(self._hot)
        self.body.go_to(self._hot[self._place])
        return True


class VerdictPane(Pane):
    """What the judge and the profiler said of an attempt."""

    def __init__(self) -> None:
        self.body = Lines(id="verdict-body")
        super().__init__("3 verdict and profile", "verdict", self.body)
        self._shown: tuple[object, ...] = ()

    def update(self, story: Story, archive: Archive, attempt: str | None, idea: Idea | None = None) -> None:
        """idea: the hypothesis that is shown instead, since it is none of an attempt yet."""
        filed = None if idea is not None else archive.find(attempt)
        width = self.room
        profiled = filed is not None and filed.profile is not None
        about = (id(idea), idea.mark) if idea is not None else attempt
        quiet = story.idle if filed is None else ""
        key = (about, quiet, profiled, width, story.best, story.diagnoses.get(attempt or ""))
        if key == self._shown:
            return
        same = self._shown[:1] == key[:1]
        self._shown = key
        if idea is not None:
            self.body.show(idea_lines(idea, width))
        elif filed is None:
            self.body.show(folded(quiet, width, "dim"))
        else:
            self.body.show(verdict_lines(story, filed, archive.facts, width))
        if not same:
            self.body.scroll_home(animate=False)


class WordsPane(Pane):
    """What models say, as it comes."""

    def __init__(self) -> None:
        self.body = Lines(follows=True, id="words-body")
        super().__init__("4 models", "words", self.body)
        self.voices = Voices()
        self._shown: tuple[object, ...] = ()

    def update(self, quiet: str) -> None:
        """quiet: what stands there while nobody spoke."""
        width, height = self.room, self.body.size.height
        key = (width, height, self.voices.version or quiet)
        if key == self._shown:
            return
        self._shown = key
        self.body.show(self.voices.lines(width, height) or folded(quiet, width, "dim"))


class LogPane(Pane):
    """All events, one a line."""

    def __init__(self) -> None:
        self.body = Lines(follows=True, id="log-body")
        super().__init__("6 log", "log", self.body)

    def add(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self.body.add([_log_text(line) for line in lines])


def _log_text(line: Mapping[str, Any]) -> Text:
    text = clean(log_line(line))
    return Text(text[11:] if text[4:5] == "-" else text, style=_LOG_STYLES.get(str(line.get("event")), ""))


class MoneyPane(Pane):
    """Limits, money, time, models, and what the person said."""

    def __init__(self) -> None:
        self.body = Lines(id="money-body")
        super().__init__("5 money and time", "money", self.body)
        self._shown: tuple[object, ...] = ()
        self._told = 0.0
        self._since_then = 0.0
        self._looked = time.monotonic()

    def update(self, story: Story) -> None:
        """Time at work goes on between two lines while the run does."""
        passed, self._looked = time.monotonic() - self._looked, time.monotonic()
        if story.elapsed != self._told:
            self._told, self._since_then = story.elapsed, 0.0
        elif story.state == "running" and story.iteration > 0:
            self._since_then += passed
        elapsed = self._told + self._since_then
        width = self.room
        if (key := (story.version, width, int(elapsed))) == self._shown:
            return
        self._shown = key
        self.body.show(money_lines(story, width, elapsed))


class Headline(Static):
    """The run on one line."""

    DEFAULT_CSS = "Headline { height: 1; width: 1fr; background: $panel; }"


def panes() -> list[Pane]:
    """All but the plan, in their order."""
    return [KernelPane(), VerdictPane(), WordsPane(), MoneyPane(), LogPane()]
