"""Which of a machine's GPUs a judge takes: `WARPSMITH_DEVICE=1`, or its UUID; the first visible one without it."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Final

from tools.errors import InfrastructureError

VARIABLE: Final = "WARPSMITH_DEVICE"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f]+(-[0-9a-f]+)*(/\d+/\d+)?", re.IGNORECASE)


def chosen_device(environment: Mapping[str, str]) -> str | None:
    """The device as CUDA and nvidia-smi name it (a number or a UUID); None where nothing is said of it.

    A number counts the devices of `CUDA_VISIBLE_DEVICES` where that is set, else all of the machine's in nvidia-smi's
    order. InfrastructureError when it is neither a number nor a UUID, or that list is shorter.
    """
    visible = [each.strip() for each in environment.get(VISIBLE, "").split(",") if each.strip()]
    named = environment.get(VARIABLE, "").strip()
    if not named:
        return visible[0] if visible else None
    if _UUID.fullmatch(named):
        return named
    if not named.isdecimal():
        raise InfrastructureError(f"{VARIABLE}={named} names no device", "Give a number, or a UUID of `nvidia-smi -L`.")
    if visible and int(named) >= len(visible):
        raise InfrastructureError(f"{VARIABLE}={named}, but {VISIBLE} lists {len(visible)}", "Count from 0.")
    return visible[int(named)] if visible else str(int(named))


def take_chosen_device(environment: MutableMapping[str, str]) -> None:
    """Make it the only one that CUDA sees, for a process that has not started CUDA. May be called again."""
    chosen = chosen_device(environment)
    if environment.get(VARIABLE) and chosen is not None:
        environment.update({VISIBLE: chosen, VARIABLE: "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
