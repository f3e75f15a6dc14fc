"""A list over the panes, of which one is chosen: by its number, or with the arrows and enter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.session.lines import clean, folded
from app.session.over import Dialog, Words
from app.session.steady import Steady

MOST: Final = 16
"""Lines that are seen at once."""


class Choices(OptionList, Steady):
    """What there is to choose from. It looks as if it had the focus always, since it is seen only when it has."""

    DEFAULT_CSS = """
    Choices, Choices:focus {
        border: none; padding: 0; background: $background; background-tint: $foreground 5%;
    }
    Choices > .option-list--option-highlighted {
        color: $block-cursor-foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    """
    virtual_size: Reactive[Size] = Reactive(Size(0, 0))
    """As in Textual, but that nothing else is laid out for it."""

    def __init__(self, on_choice: Callable[[int], None]) -> None:
        """on_choice: called with the place of what was chosen, before any further key is looked at."""
        super().__init__(id="choices")
        self._on_choice = on_choice

    def action_select(self) -> None:
        if self.highlighted is not None:
            self._on_choice(self.highlighted)

    def offer(self, prompts: Sequence[Text]) -> None:
        """These, the first of them chosen."""
        self.set_options([Option(prompt) for prompt in prompts])
        self.action_first()

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        if changed:
            self._clear_caches()  # its lines are as wide as there is room beside a scroll bar
            self._update_lines()  # before they are drawn, which would be done again for it
        return changed

    def on_resize(self, event: Resize) -> None:
        """Lines that were drawn are right already; to draw them again is needless."""
        event.prevent_default()


class Choose(Dialog[int | None]):
    """Answered with the place of what was chosen, from 0, or None."""

    DEFAULT_CSS = "Choose { layer: choose; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "leave it"),
        *(Binding(str(number), f"take({number - 1})", show=False) for number in range(1, 10)),
    ]

    def __init__(self) -> None:
        super().__init__(None)
        self._title = ""
        self._list = Choices(self.answer)

    def compose(self) -> ComposeResult:
        yield Words()
        yield self._list
        yield Words()

    async def ask(self, title: str, choices: Sequence[tuple[str, str, str]]) -> int | None:
        """Each choice: its name, what it is, and a remark."""
        self.app.clear_notifications()  # they would hide it
        self._title = clean(title, 200)
        self._list.offer([_prompt(place, *choice) for place, choice in enumerate(choices)])
        return await self.answered(self._list)

    def arranged(self, room: Size) -> Sequence[int]:
        title, foot = self.query(Words)
        above = title.say(folded(self._title, room.width, "bold"))
        below = foot.say(folded("a number or enter takes it, escape leaves it", room.width, "dim"))
        seen = min(MOST, room.height - above - below, self._list.get_content_height(room, room, room.width))
        return above, max(1, seen), below

    def action_take(self, place: int) -> None:
        if place < self._list.option_count:
            self.answer(place)


def _prompt(place: int, name: str, what: str, remark: str) -> Text:
    prompt = Text.assemble((f"{place + 1} {name:<12}", "bold"), what)
    if remark:
        prompt.append(f"\n  {clean(remark, 400)}", style="dim")
    return prompt
