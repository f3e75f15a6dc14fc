"""What Ctrl-C, SIGTERM and SIGHUP do to a run or a batch: the first finishes what goes on, the second cuts it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.exits import INTERRUPTED

FINISHING = "finishing the step that goes on, then saving and reporting; again to stop at once"
CUTTING = "stopping at once"


@contextmanager
def stopped_by_signals(stop: Callable[[bool], None]) -> Iterator[list[int]]:
    """Within it `stop` is called for each signal in the event loop, with True from the second on; the list gets the
    signals that came. SIGHUP is left alone where it is ignored, as under nohup."""
    loop = asyncio.get_running_loop()
    caught: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    numbers += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []

    def hear(number: int) -> None:
        caught.append(number)
        stop(len(caught) > 1)

    for number in numbers:
        loop.add_signal_handler(number, hear, number)
    try:
        yield caught
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def exit_code_of(number: int) -> int:
    """Of a command that a signal stopped."""
    return INTERRUPTED if number == signal.SIGINT else 128 + number
