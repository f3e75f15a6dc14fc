"""Names of device functions as people and profilers use them."""

from __future__ import annotations

import re

from tools.device_code import DeviceCode


def function_names(device: DeviceCode | None) -> tuple[str, ...]:
    """The kernels' bare names: `void (anonymous namespace)::scale<256>(float*)` is `scale`."""
    kernels = [each.name for each in device.functions if each.kind == "kernel"] if device is not None else []
    return tuple(dict.fromkeys(bare_name(name) for name in kernels))


def bare_name(name: str) -> str:
    """A demangled name without result type, name spaces, template arguments and parameters."""
    text = name.replace("(anonymous namespace)::", "")
    previous = None
    while previous != text:  # template arguments may hold others
        previous, text = text, re.sub(r"<[^<>]*>", "", text)
    return re.split(r"::|\s", text.split("(")[0].strip())[-1]
