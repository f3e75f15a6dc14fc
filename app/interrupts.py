"""What Ctrl-C does before anything is started: it ends the process at once.

As an exception it would be raised amid somebody's import, where it can be swallowed, and the run would go on.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def end_on_ctrl_c() -> None:
    """From now on. There is nothing to tidy up yet."""
    signal.signal(signal.SIGINT, _end)


def raise_on_ctrl_c() -> None:
    """From now on it is a KeyboardInterrupt again, so that what is started now is ended in order."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"stopped\n")
    os._exit(INTERRUPTED)
