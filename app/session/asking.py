"""A screen whose actions may ask the person: its dialogs, and whether one is about to come."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets._toast import ToastRack

from app.session.choose import Choose
from app.session.dialogs import Sure, Write
from app.session.over import Dialog, in_dialog

_Given = ParamSpec("_Given")
_Self = TypeVar("_Self", bound="Asking")


class Asking(Screen[None]):
    """Has a line to write, a question and a choice."""

    def __init__(self) -> None:
        super().__init__()
        self.write, self.sure, self.choose = Write(), Sure(), Choose()
        self.asking = 0
        """Actions that have begun and may open dialogs yet."""

    @property
    def dialog(self) -> Dialog[Any] | None:
        """The one that waits for an answer."""
        return next((each for each in (self.write, self.sure, self.choose) if each.is_open), None)

    @property
    def is_about_to_ask(self) -> bool:
        """Whether a dialog may come that is not there yet: a further key may be meant for it."""
        return self.asking > 0 and self.dialog is None

    def get_widget_at(self, x: int, y: int) -> tuple[Widget, Region]:
        """As in Textual, but that a mouse finds nothing beside a dialog, except a note that it takes away."""
        widget, region = super().get_widget_at(x, y)
        if (
            self.dialog is None
            or in_dialog(widget)
            or any(isinstance(n, ToastRack) for n in widget.ancestors_with_self)
        ):
            return widget, region
        return self, self.region

    async def carry_out(self, action: Coroutine[Any, Any, None]) -> None:
        """One that was counted in `asking`."""
        try:
            await action
        finally:
            self.asking -= 1


def asks(
    action: Callable[Concatenate[_Self, _Given], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[_Self, _Given], None]:
    """An action that may open dialogs. It goes on beside the keys; from the key that began it until it has opened one,
    or ended, the screen `is_about_to_ask`."""

    def begin(self: _Self, /, *args: _Given.args, **kwargs: _Given.kwargs) -> None:
        self.asking += 1
        self.run_worker(self.carry_out(action(self, *args, **kwargs)))

    return begin
