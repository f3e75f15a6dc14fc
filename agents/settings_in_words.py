"""Settings as a change in words names them: `UNROLL=4 -O2`."""

from __future__ import annotations

import re
from typing import Final

from tools.space import Assignment

UNSET: Final = "no flags"
"""A point without any setting, in words."""
_DEFINE = re.compile(r"^(\w+)=(\S+)$")


def settings_in(change: str) -> Assignment:
    """Those among the words of a change, be it a plan's or a ledger line's."""
    words = change.split()
    defines = {found[1]: found[2] for word in words if (found := _DEFINE.match(word))}
    return Assignment(defines=defines, flags=tuple(word for word in words if word.startswith("-") and len(word) > 1))


def names_settings(change: str) -> bool:
    """Whether these words hold settings, which are all that the built-in tuner reads of them."""
    assignment = settings_in(change)
    return bool(assignment.defines or assignment.flags) or change.strip() == UNSET
