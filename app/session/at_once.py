"""Which keys count of those that come from the terminal at once: a paste, what a slow line kept back, what was typed
ahead. A person who types a text means none of its letters as a command to the run.

Until the run's past was read none counts, since nobody saw what they would act on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from textual.events import Key, Paste

from app.session.keys import KEYS
from app.session.terminal import Burst, burst_of

if TYPE_CHECKING:
    from app.session.screen import SessionScreen

Typed: TypeAlias = Key | Paste
_COUNTS: Final = {key.key: key.counts for key in KEYS}
_LABELS: Final = {key.key: key.label for key in KEYS}
_LEAVES: Final = ("ctrl+c", "ctrl+q")
"""Count whatever there is."""
_YES: Final = ("y", "enter")


class AtOnce:
    """Judges what was typed, one after the other, each before it is heeded; says in a note when something is for
    nobody."""

    def __init__(self, session: SessionScreen) -> None:
        self._session = session
        self._was_asked = False
        self._last = Burst()

    def counts(self, typed: Typed) -> bool:
        """Whether it is heeded."""
        session, burst = self._session, burst_of(typed)
        if session.app.screen is not session and session.is_ready:
            return True  # the palette has it
        if self._was_asked and session.dialog is None and self._last is burst:
            burst.is_spent = True  # the key before handed the text in
        self._was_asked, self._last = session.dialog is not None, burst
        if isinstance(typed, Key) and typed.key in _LEAVES:
            return True
        if not session.is_ready:
            session.was_typed_ahead = True
            return False
        if isinstance(typed, Paste):
            return self._pasted()
        return self._pressed(typed, burst)

    def _pressed(self, key: Key, burst: Burst) -> bool:
        session = self._session
        if burst.is_spent:
            return self._refuse(burst, "What came at once with it, after its end, was for nobody.")
        if session.dialog is not None:
            if session.dialog is session.sure and key.key in _YES and burst.keys > 1:
                return self._refuse(burst, "Keys came at once: yes counts only alone.")
            return True
        if session.is_helping:
            return True
        counts, follows = _COUNTS.get(key.key, "always"), burst.is_text
        burst.is_text = follows or counts != "always" or (key.is_printable and key.key not in _COUNTS)
        if counts == "always" or burst.keys == 1 or (counts == "first" and not follows):
            return True
        label = _LABELS[key.key]
        return self._refuse(
            burst, f"Keys came at once: {label} counts only {'alone' if counts == 'alone' else 'first'}."
        )

    def _pasted(self) -> bool:
        if self._session.write.is_open:
            return True
        self._session.notify("A paste counts in a line to write: h, / and : open one.", severity="warning")
        return False

    def _refuse(self, burst: Burst, why: str) -> bool:
        """False, said once a burst."""
        if not burst.is_told:
            burst.is_told = True
            self._session.notify(why, severity="warning", markup=False)
        return False
