"""What a person is told who leaves a run that is driven here, and what the next key does."""

from __future__ import annotations

from typing import Final, NamedTuple


class Leaving(NamedTuple):
    """What is said to a person who leaves a run that is driven here. first: what is waited for, and what comes then.
    again: what the key does when it is pressed again. line: both in brief. at_once: once it was pressed again.
    why: what the run's end says beside that a person stopped it."""

    first: str
    again: str
    line: str
    at_once: str
    why: str | None = None


ENDS: Final = Leaving(
    "The model call or measurement that goes on is finished first, then the run ends and this closes.",
    "q again drops it and ends the run at once; `warpsmith resume` does it anew.",
    "Ends once this is finished. q again: drop it, and end at once",
    "What went on is dropped: the run ends now.",
)
GOES_ON: Final = Leaving(
    "The model call or measurement that goes on is finished first, then a background process takes the run over.",
    "d or q again drops it and hands the run over at once: it is done anew there. "
    "Either way the run goes on: its log says where it was handed over.",
    "Hands over once this is finished. q again: drop it, and hand over at once",
    "What went on is dropped: the run is handed over now, and goes on in the background.",
    "handed over to a process in the background",
)
