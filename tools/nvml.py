"""What NVIDIA's management library says of one device: clocks, reasons for low ones, whose memory it holds.

By ctypes, since it comes with the driver. Not covered: changing anything.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

_SM_CLOCK = 1
REASONS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "a program's choice of clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "a group of devices in step",
    0x20: "heat, told by software",
    0x40: "heat, told by hardware",
    0x80: "power brake",
    0x100: "a display's choice of clocks",
}
"""What the bits of the library's `clocksEventReasons` mean (nvml.h). Others are told by their number."""
SLOWED = 0x8 | 0x20 | 0x40 | 0x80
"""Reasons for which a timing is repeated: hardware slowdown, heat (software, hardware), power brake."""
_MOST = 256


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("bytes", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@dataclass(frozen=True)
class Clock:
    """The multiprocessors' clock at a moment."""

    megahertz: int
    reasons: int
    """Bits of the library's `clocksEventReasons`."""

    @property
    def slowed(self) -> bool:
        return bool(self.reasons & SLOWED)

    @property
    def causes(self) -> tuple[str, ...]:
        """Why the clock is not higher, in words."""
        bits = [1 << place for place in range(self.reasons.bit_length()) if self.reasons >> place & 1]
        return tuple(REASONS.get(bit, f"reason {bit:#x}") for bit in bits)


class Monitor:
    """The library, for one device. OSError where it is missing or does not know the device."""

    def __init__(self, uuid: str) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        if self._library.nvmlInit_v2():
            raise OSError("NVML does not start")
        if self._library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device)):
            raise OSError(f"NVML does not know {uuid}")

    def clock(self) -> Clock | None:
        """None where it can't be read."""
        clock, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        if self._library.nvmlDeviceGetClockInfo(self._device, _SM_CLOCK, ctypes.byref(clock)):
            return None
        if self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._device, ctypes.byref(reasons)):
            return None
        return Clock(clock.value, reasons.value)

    def driver(self) -> str:
        """The driver's version, empty where it can't be read."""
        text = ctypes.create_string_buffer(96)
        return "" if self._library.nvmlSystemGetDriverVersion(text, 96) else text.value.decode()

    def processes(self) -> frozenset[int] | None:
        """Process ids that compute on the device, as numbered by the machine; None where it can't be read."""
        count, found = ctypes.c_uint(_MOST), (_Process * _MOST)()
        with contextlib.suppress(AttributeError):
            if self._library.nvmlDeviceGetComputeRunningProcesses_v3(self._device, ctypes.byref(count), found) == 0:
                return frozenset(found[index].pid for index in range(count.value))
        return None
