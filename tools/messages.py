"""The layout of what a worker is asked and answers, byte for byte as in tools/native/protocol.hpp.

Imports next to nothing: the worker for CUDA kernels starts with it.
"""

from __future__ import annotations

import struct
from enum import IntEnum

REQUEST = struct.Struct("=QiI")
"""Nonce, workload (-1 asks for an empty answer), and for a GPU the microseconds of delay before the kernel, with the
number of calls in a row above CALLS_SHIFT (0: one call that is timed)."""
CALLS_SHIFT = 20
LOAD = -2
"""Instead of a workload (on a GPU): take in the kernel whose number the last field is, or go back to it."""
MESSAGE = struct.Struct("=QIiQiiii88s")
MESSAGE_BYTES = MESSAGE.size


class Kind(IntEnum):
    """Kinds of messages: READY, DONE, and reports after which the worker only waits to be killed."""

    READY = 1
    DONE = 2
    FAULT = 3
    FORBIDDEN = 4
    EXIT = 5
    EXCEPTION = 6
    NO_MEMORY = 7
    NOT_LOADED = 8
    NOT_CONFINED = 9
    DEVICE_FAULT = 10
    """A GPU reports an error; the text is its name."""
    BROKEN = 11
    """A torch kernel broke a rule or raised; the worker's report says which and where."""


class Place(IntEnum):
    """Where a fault's address lies: relative to the tensor of the message's slot, or in the scratch memory's guards."""

    BEFORE = -1
    INSIDE = 0
    AFTER = 1
    SCRATCH = 2
    ELSEWHERE = 3
