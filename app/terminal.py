"""Consoles and bare tables: how whatever is printed reaches a terminal or a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from app.plain import printable


class LastingConsole(Console):
    """Shows what others wrote and never obeys it; falls silent when its reader goes away (`| head`), where rich
    would end the program and with it the run."""

    def __init__(self, **settings: Any) -> None:
        """As rich's, but `:m:` in a model's name or a text stays what it is and becomes no emoji."""
        super().__init__(emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, less every control character in a text: whatever is printed here comes through this."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console_for(stderr: bool = False) -> Console:
    """A console that doesn't fold lines to 80 columns when it writes into a file or a pipe."""
    console = LastingConsole(stderr=stderr)
    return console if console.is_terminal else LastingConsole(stderr=stderr, width=160)


def plain_table(*columns: str, numeric: Sequence[str] = ()) -> Table:
    """An empty table with a rule under its head; columns named in `numeric` are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    return table
