"""Loads, when it is imported, what runs load each for itself."""

from __future__ import annotations

from memory.tokens import COUNTER
from tools.space import Assignment, Space, suggest

_START = Assignment(defines={"BLOCK": "1"})
suggest(Space(tunables={"BLOCK": ("1", "2", "4")}, start=_START), [(_START, 1.0)], 0)
COUNTER.count("word")
