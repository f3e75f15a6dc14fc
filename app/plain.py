"""Text that models, kernels, tasks and servers wrote, made harmless for a terminal.

Not covered: text that merely looks like ours. What may only stand on one line goes through `one_line`.
"""

from __future__ import annotations

import re

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""All that a terminal obeys rather than shows: C0 and C1 codes except tab and line feed, DEL, and the marks that turn
the direction of writing (Unicode 15, section 23.2)."""

_BLANKS = {ord(end): " " for end in "\t\n\u2028\u2029"}


def printable(text: str) -> str:
    """The text without what a terminal would obey. What is left of an escape sequence is shown as it is written."""
    return _STEERING.sub("", text)


def blanked(text: str) -> str:
    """One line, as long as before: a blank stands for each of those, for tabs and for line ends."""
    return _STEERING.sub(" ", text).translate(_BLANKS)


def one_line(text: str) -> str:
    """The same on one line, runs of white space as one space."""
    return " ".join(printable(text).split())
