"""What is shown over the panes: a line to write an action, a question with two answers, and the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static
from textual.widgets.input import Selection

from app.session.lines import Lines, clean
from app.session.steady import Frame, draw_below
from app.steer_words import USAGES

_FRAME: Final = """
{name} {{ align: center middle; background: transparent; }}
{name} > Vertical {{
    width: {width}; max-width: 96%; height: auto; max-height: 90%;
    border: round $accent; background: $background; padding: 0 1;
}}
"""


class Write(ModalScreen[str | None]):
    """One line of text, begun already. What is offered after that is selected: the first letter replaces it, enter
    takes it. Dismissed with what was written, or None."""

    DEFAULT_CSS = _FRAME.format(name="Write", width=76)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave it")]

    def __init__(self, title: str, begun: str = "", note: str = "", offer: str = "") -> None:
        super().__init__()
        self._title, self._begun, self._note, self._offer = title, begun, note, offer

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(Text(self._title, style="bold"))
            yield Input(value=self._begun + self._offer, select_on_focus=False, id="line")
            yield Static(Text(self._note, style="dim"), id="note")
            yield Label(Text("enter does it, escape leaves it", style="dim"))

    def on_mount(self) -> None:
        self.app.clear_notifications()  # they would hide the line
        self.query_one(Input).selection = Selection(len(self._begun), len(self._begun) + len(self._offer))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


class WriteAction(Write):
    """An action as `warpsmith steer` takes it; shows how it is written."""

    def __init__(self, begun: str = "", offer: str = "") -> None:
        super().__init__("What shall be done?", begun, usage_of(begun), offer)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#note", Static).update(Text(usage_of(event.value), style="dim"))


def usage_of(begun: str) -> str:
    """How what was begun is written, or what there is."""
    name = begun.split(" ", 1)[0]
    usage = USAGES.get(name)
    if usage is not None:
        return f"{usage.form}: {usage.help}"
    near = [known for known in USAGES if known.startswith(name)] or list(USAGES)
    return " ".join(near)


class Sure(ModalScreen[bool]):
    """Yes or no."""

    DEFAULT_CSS = _FRAME.format(name="Sure", width=64)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "yes"),
        Binding("n,escape", "answer(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(Text(clean(self._question, 600)))
            yield Label(Text("y yes   n no", style="bold"))

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class Help(Frame):
    """All keys and all actions, over the panes while it is open. No screen of its own, since to go to another screen
    and back costs more than all else that a key does; and not taken off the screen but moved off its edge, so that it
    is laid out once."""

    DEFAULT_CSS = """
    Help {
        layer: over; offset: 0 -1000; width: 84; max-width: 96%; height: 90%;
        border: round $accent; background: $background; padding: 0 1;
    }
    Help Lines { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "leave", "back")]

    def __init__(self, keys: Sequence[tuple[str, Sequence[tuple[str, str]]]], when_left: Callable[[], None]) -> None:
        """when_left: called when the person leaves it, to give the focus to something else."""
        super().__init__()
        self._keys, self._when_left = keys, when_left

    @property
    def is_modal(self) -> bool:
        """Keys of the screen below don't count while it has the focus."""
        return True

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
        self.styles.offset = (0, 0)
        self.screen.set_focus(body, scroll_visible=False)

    def close(self) -> None:
        draw_below(self)
        self.styles.offset = None

    def action_leave(self) -> None:
        self.close()
        self._when_left()
