"""The keys of a session, in one table: what the footer, the help and the command palette show."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from rich.text import Text
from textual.binding import Binding

PANES: Final = ("plan", "kernel", "verdict", "words", "money", "log")
"""In the order of their keys, from 1."""
TITLES: Final = {"words": "models"}
"""What a person reads where that is another word."""


Counts: TypeAlias = Literal["always", "first", "alone"]
"""Of keys that came from the terminal at once, as a paste does, or what is typed ahead: which are commands. Those that
look do always; those that open a line to write only where nothing but such came before, since what follows is the text;
those that act on the run or end it only alone."""


class Key(NamedTuple):
    """A key, the action of the screen that it is, and what that does."""

    key: str
    action: str
    does: str
    group: str
    short: str = ""
    """What the footer says; empty where it does not have it."""
    opens_line: bool = False
    """A line to write text in, which the run gets only after a further key."""

    @property
    def counts(self) -> Counts:
        """Among keys that came at once."""
        if self.group == "Look" or self.key == "ctrl+c":
            return "always"
        return "first" if self.opens_line else "alone"

    @property
    def label(self) -> str:
        """As a person reads it."""
        return _LABELS.get(self.key, self.key)


_LABELS: Final = {"question_mark": "?", "slash": "/", "colon": ":", "shift+tab": "S-tab"}

KEYS: Final[tuple[Key, ...]] = (
    Key("question_mark", "help", "help", "Look", "help"),
    *(
        Key(str(n), f"pane('{name}')", f"go to the pane {TITLES.get(name, name)}", "Look")
        for n, name in enumerate(PANES, start=1)
    ),
    Key("tab", "step(1)", "the next pane", "Look"),
    Key("shift+tab", "step(-1)", "the pane before", "Look"),
    Key("b", "best", "the best attempt", "Look"),
    Key("v", "view", "source, or what changed against parent or best", "Look", "view"),
    Key("n", "hot", "the next hot line of the kernel", "Look"),
    Key("z", "zoom", "one pane alone, or all", "Look"),
    Key("h", "write('hint ')", "hint: tell every role something", "Say", "hint", opens_line=True),
    Key("H", "withdraw", "withdraw the last hint", "Say", opens_line=True),
    Key("slash", "write('ask ')", "ask a question about the run", "Say", "ask", opens_line=True),
    Key("x", "forbid", "forbid an idea", "Say", opens_line=True),
    Key("p", "pause", "pause, go on", "Steer", "pause"),
    Key("e", "edit", "edit the chosen kernel in $EDITOR", "Steer", "edit"),
    Key("f", "fork", "fork: the next plan starts from the chosen attempt", "Steer", "fork"),
    Key("k", "pin", "pin the chosen attempt as parent, or unpin it", "Steer"),
    Key("m", "write('model coder ')", "change the model of a role", "Steer", opens_line=True),
    Key("l", "write('budget ')", "change the budgets", "Steer", opens_line=True),
    Key("y", "write('policy ')", "go on under another numerics policy", "Steer", opens_line=True),
    Key("colon", "write('')", "write any action", "Steer", "do", opens_line=True),
    Key("A", "approval", "whether plans wait for you", "Plan"),
    Key("a", "approve", "approve the plan that waits", "Plan"),
    Key("E", "edit_plan", "edit it in $EDITOR", "Plan"),
    Key("r", "write('reject ')", "reject it", "Plan"),
    Key("w", "accept", "accept the best, and end", "End"),
    Key("X", "export", "export the chosen attempt, and have that judged", "End"),
    Key("d", "detach", "leave, and let the run go on", "End"),
    Key("q", "leave", "leave; asks before it stops a run", "End", "quit"),
    Key("ctrl+c", "leave", "the same", "End"),
)


def bindings() -> list[Binding]:
    """As Textual wants them."""
    return [
        Binding(key.key, key.action, key.short or key.does, show=bool(key.short), key_display=key.label) for key in KEYS
    ]


def footer() -> Text:
    """The keys that one needs most, on a line. It is the same whatever has the focus, and so costs no drawing."""
    line = Text(" ", no_wrap=True, overflow="ellipsis")
    for key in KEYS:
        if key.short:
            line.append(key.label, style="bold")
            line.append(f" {key.short}   ")
    return line


def groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Keys and what they do, by group, for the help."""
    names = dict.fromkeys(key.group for key in KEYS)
    return [(name, [(key.label, key.does) for key in KEYS if key.group == name]) for name in names]
