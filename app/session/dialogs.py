"""What is shown over the panes: a line to write an action, a question with two answers, and the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input, Label
from textual.widgets.input import Selection

from app.plain import printable
from app.session.lines import Lines, clean, folded
from app.session.over import Dialog, Over, Words
from app.session.steady import Steady, Still
from app.steer_words import USAGES


class Line(Input, Steady):
    """A line to write in. It looks as if it had the focus always, since it is seen only when it has."""

    DEFAULT_CSS = "Line { border: tall $border; background-tint: $foreground 5%; }"
    virtual_size: Reactive[Size] = Reactive(Size(0, 0))
    """As in Textual, but that nothing else is laid out for it."""

    def __init__(self, on_change: Callable[[], None], on_enter: Callable[[str], None]) -> None:
        """on_change: called when it holds something else, so that what depends on that is drawn together with it.
        on_enter: called with what was written, before any further key is looked at."""
        self._on_change, self._hand_in = on_change, on_enter
        super().__init__(select_on_focus=False, id="line")

    def watch_value(self) -> None:
        self._on_change()

    async def action_submit(self) -> None:
        self._hand_in(self.value)

    def action_delete_left_all(self) -> None:
        """All before the cursor, as in a shell. Textual takes what is offered alone."""
        self.delete(0, max(self.selection))

    def on_paste(self, event: Paste) -> None:
        """All that was pasted, as one line and without what a terminal obeys. Textual takes the first line alone."""
        event.prevent_default()
        event.stop()
        rows = (printable(row.expandtabs(4)).strip() for row in event.text.splitlines())
        self.replace(" ".join(row for row in rows if row), *self.selection)


class Write(Dialog[str | None]):
    """One line of text. Answered with what was written, or None."""

    DEFAULT_CSS = "Write { layer: write; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave it")]

    def __init__(self) -> None:
        super().__init__(None)
        self._title, self._note = "", ""
        self._explain: Callable[[str], str] | None = None
        self._line = Line(self._changed, self.answer)

    def compose(self) -> ComposeResult:
        yield Words()
        yield self._line
        yield Words()
        yield Words()

    async def ask(
        self, title: str, begun: str = "", offer: str = "", explain: Callable[[str], str] | None = None
    ) -> str | None:
        """begun: what stands there already. offer: what is offered after that. It is selected: the first letter
        replaces it, enter takes it. explain: what is said below the line, by what stands there."""
        self.app.clear_notifications()  # they would hide the line
        self._title, self._explain = title, explain
        self._line.value = begun + offer
        self._line.selection = Selection(len(begun), len(begun) + len(offer))
        return await self.answered(self._line)

    def arranged(self, room: Size) -> Sequence[int]:
        title, note, foot = self.query(Words)
        self._note = self._explained()
        above = title.say(folded(self._title, room.width, "bold"))
        below = note.say(folded(self._note, room.width, "dim"))
        return above, 3, below, foot.say(folded("enter does it, escape leaves it", room.width, "dim"))

    def _explained(self) -> str:
        return "" if self._explain is None else self._explain(self._line.value)

    def _changed(self) -> None:
        if self.is_open and self._explained() != self._note:
            self.fit()


def usage_of(begun: str) -> str:
    """How the action that was begun is written, as `warpsmith steer` takes it; or what there is."""
    name = begun.split(" ", 1)[0]
    usage = USAGES.get(name)
    if usage is not None:
        return f"{usage.form}: {usage.help}"
    near = [known for known in USAGES if known.startswith(name)] or list(USAGES)
    return " ".join(near)


class Sure(Dialog[bool], Still, can_focus=True):
    """Yes or no."""

    DEFAULT_CSS = "Sure { layer: sure; }"
    WIDTH = 64
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "yes"),
        Binding("n,escape", "answer(False)", "no"),
    ]

    def __init__(self) -> None:
        super().__init__(False)
        self._question = ""

    def compose(self) -> ComposeResult:
        yield Words()
        yield Words()

    async def ask(self, question: str) -> bool:
        self._question = clean(question, 600)
        return await self.answered(self)

    def arranged(self, room: Size) -> Sequence[int]:
        question, keys = self.query(Words)
        return question.say(folded(self._question, room.width)), keys.say([Text("y yes   n no", style="bold")])

    def action_answer(self, yes: bool) -> None:
        self.answer(yes)


class Help(Over):
    """All keys and all actions."""

    DEFAULT_CSS = """
    Help { layer: help; width: 84; height: 90%; }
    Help Lines { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "leave", "back")]

    def __init__(self, keys: Sequence[tuple[str, Sequence[tuple[str, str]]]], when_left: Callable[[], None]) -> None:
        """when_left: called when the person leaves it, to give the focus to something else."""
        super().__init__()
        self._keys, self._when_left = keys, when_left

    def compose(self) -> ComposeResult:
        yield Lines(id="help-body")
        yield Label(Text("escape goes back, arrows scroll", style="dim"))

    def on_mount(self) -> None:
        lines: list[Text] = []
        for title, keys in self._keys:
            lines.append(Text(title, style="bold"))
            lines += [Text.assemble(("  " + f"{key:<8}", "bold cyan"), words) for key, words in keys]
            lines.append(Text())
        lines.append(Text("Actions, after a colon here or in `warpsmith steer RUN …`", style="bold"))
        for usage in USAGES.values():
            lines.append(Text.assemble(f"  {usage.form}", (f"  {usage.help}", "dim")))
        self.query_one(Lines).show(lines)

    def open(self) -> None:
        """From its beginning."""
        body = self.query_one(Lines)
        body.scroll_home(animate=False, immediate=True)
        self.come(body)

    def action_leave(self) -> None:
        self.go()
        self._when_left()
