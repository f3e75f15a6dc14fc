"""A list over the panes, of which one is chosen: by its number, or with the arrows and enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from app.session.lines import clean


class Choose(ModalScreen[int | None]):
    """Dismissed with the place of what was chosen, from 0, or None. Each choice: its name, what it is, and a remark."""

    DEFAULT_CSS = """
    Choose { align: center middle; background: transparent; }
    Choose > Vertical {
        width: 76; max-width: 96%; height: auto; max-height: 90%;
        border: round $accent; background: $background; padding: 0 1;
    }
    Choose OptionList, Choose OptionList:focus {
        height: auto; max-height: 16; border: none; padding: 0; background: $background;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "leave it"),
        *(Binding(str(number), f"take({number - 1})", show=False) for number in range(1, 10)),
    ]

    def __init__(self, title: str, choices: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(Text(clean(self._title, 200), style="bold"))
            yield OptionList(*(Option(self._prompt(place)) for place in range(len(self._choices))), id="choices")
            yield Label(Text("a number or enter takes it, escape leaves it", style="dim"))

    def on_mount(self) -> None:
        self.app.clear_notifications()  # they would hide it
        self.query_one(OptionList).focus()

    def _prompt(self, place: int) -> Text:
        name, what, remark = self._choices[place]
        prompt = Text.assemble((f"{place + 1} {name:<12}", "bold"), what)
        if remark:
            prompt.append(f"\n  {clean(remark, 400)}", style="dim")
        return prompt

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_take(self, place: int) -> None:
        if place < len(self._choices):
            self.dismiss(place)

    def action_leave(self) -> None:
        self.dismiss(None)
