"""PTX and SASS of a build: the first is kept beside it, the second is read by the toolkit's cuobjdump."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tools.device_code import DeviceCode
from tools.errors import InfrastructureError, KernelError
from tools.machine_code import Form
from tools.targets.base import Build
from tools.targets.building import LIBRARY, last_line
from tools.targets.cuda_toolkit import find_toolkit
from tools.targets.cuda_workplace import workplace
from tools.targets.ptxas import function_text

KEPT: Final = "kept"
"""The folder of a build that holds its PTX."""
_LISTED: Final = 8 << 20
_ENCODING: Final = re.compile(r"\s*/\* 0x[0-9a-f]{16} \*/\s*$")
_PLACE: Final = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+")
_FUNCTION: Final = re.compile(r"^\s*Function : (\S+)\n", re.MULTILINE)


def listing(build: Build, function: str | None, form: Form) -> str:
    """The PTX or SASS of one function by its symbol, its name or a word of it; of every kernel when None.

    KernelError when there is no such function, build or form, or when the toolkit lacks cuobjdump, which SASS needs.
    """
    device = build.report.device
    if build.library is None or device is None:
        raise KernelError("a kernel that does not build has no machine code", "Build it first.")
    if form == "asm":
        raise KernelError("`asm` is the CPU's machine code", "Ask for `sass` or `ptx`.")
    symbols = [_symbol(device, function)] if function else [f.symbol for f in device.functions if f.kind == "kernel"]
    if not symbols:
        raise KernelError("nothing in this build runs on the device", "Launch a __global__ function.")
    texts = _ptx(build.library.parent, symbols) if form == "ptx" else _sass(build.library.parent, symbols)
    return "\n".join(texts)


def _ptx(folder: Path, symbols: list[str]) -> list[str]:
    sources = [path.read_text() for path in sorted((folder / KEPT).glob("*.ptx"))]
    found = [function_text(source, symbol) for symbol in symbols for source in sources]
    return [text for text in found if text]


def _sass(folder: Path, symbols: list[str]) -> list[str]:
    tool = find_toolkit().tool("cuobjdump")
    if tool is None:
        advice = "Ask for `ptx`. CUDA's binary utilities bring cuobjdump."
        raise KernelError("this machine has no cuobjdump, which SASS needs", advice)
    command = (str(tool), "-sass", f"../{LIBRARY}")
    result = workplace(folder, tool).run(command, output=_LISTED, proc=True)  # without /proc it crashes
    parts = _FUNCTION.split(result.stdout)[1:]
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    if not result.ok or not any(symbol in texts for symbol in symbols):
        raise InfrastructureError(f"cuobjdump did not list {symbols[0]}: {last_line(result)}")
    return [f"Function : {symbol}\n{_plain(texts[symbol])}" for symbol in symbols if symbol in texts]


def _plain(text: str) -> str:
    """Offsets and instructions alone: their encodings fill two thirds of the text and tell a reader nothing."""
    lines = []
    for line in text.splitlines():
        bare = _ENCODING.sub("", line)
        if line.startswith("Fatbin"):  # what follows is another file's
            break
        if bare.strip() and not bare.strip().startswith(("..", ".headerflags")):
            lines.append(_PLACE.sub(r"\1: ", bare).rstrip(" ;"))
    return "\n".join(lines)


def _symbol(device: DeviceCode, function: str) -> str:
    for match in (
        lambda each: each.symbol == function,
        lambda each: each.name == function,
        lambda each: function in re.split(r"[^\w]+", each.name.split("(")[0] + " " + each.name),
    ):
        found = [each.symbol for each in device.functions if match(each)]
        if found:
            return found[0]
    names = ", ".join(each.name for each in device.functions[:8]) or "none"
    raise KernelError(f"the kernel has no device function `{function}`", f"It has: {names}.")
