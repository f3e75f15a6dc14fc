"""Inputs and right answers that are made while a kernel is compiled: by then they are there.

The task's own code is not asked to stand two threads: whoever runs it joins this one first.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tools.errors import TaskError
from tools.expected import Expected
from tools.reference import Inputs

MOST_BYTES = 1 << 30
"""Of inputs that are kept; right answers take a few times as much."""
Wanted: TypeAlias = tuple[int, str]
"""A workload, and a distribution or `KEPT`."""
KEPT = "kept"
"""A draw of the given distribution whose right answer nobody will ask for."""


class Drawn(NamedTuple):
    """One draw, and what the reference makes of it where that was worked out."""

    inputs: Inputs
    expected: Expected | None


class Ahead:
    """Makes what is wanted, in that order, in a thread of its own. `make` runs the task's code."""

    def __init__(self, make: Callable[[Wanted], Drawn]) -> None:
        self._make = make
        self._made: dict[Wanted, list[Drawn]] = defaultdict(list)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def begin(self, wanted: Sequence[Wanted]) -> None:
        """Forget what was made, and begin anew."""
        self.forget()
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, args=(tuple(wanted),), daemon=True)
        self._thread.start()

    def take(self, wanted: Wanted) -> Drawn | None:
        """One that was made. Ends the making: the caller is about to run the task's code itself."""
        self.join()
        made = self._made.get(wanted)
        return made.pop(0) if made else None

    def join(self) -> None:
        """Returns when nothing is being made any more."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def forget(self) -> None:
        """Give the memory back."""
        self.join()
        self._made.clear()

    def _work(self, wanted: tuple[Wanted, ...]) -> None:
        size = 0
        for each in wanted:
            if self._stop.is_set() or size > MOST_BYTES:
                return
            try:
                drawn = self._make(each)
            except TaskError:  # whoever asks for it will meet the same, and can tell it
                return
            self._made[each].append(drawn)
            size += sum(value.nbytes for value in drawn.inputs.values() if isinstance(value, np.ndarray))
