"""Reads what AddressSanitizer and UndefinedBehaviorSanitizer print about a kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.records import Diagnostic

_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)(?P<rest>[^\n]*)")
_ACCESS = re.compile(r"^(?P<access>READ|WRITE) of size (?P<size>\d+)", re.MULTILINE)
_FRAME = re.compile(
    r"^\s*#\d+ 0x[0-9a-f]+ in (?P<function>.*?) (?P<file>[^\s:]+):(?P<line>\d+)(?::(?P<column>\d+))?$", re.MULTILINE
)
_UNDEFINED = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): runtime error: (?P<message>[^\n]+)", re.MULTILINE
)


@dataclass(frozen=True)
class SanitizerReport:
    summary: str
    """One phrase with the source line: "heap-buffer-overflow: WRITE of 4 bytes at kernel.cpp:12"."""
    diagnostics: tuple[Diagnostic, ...]


def read_report(output: str) -> SanitizerReport | None:
    """The first error in a sanitized program's output, or None. Files are named as the kernel names them."""
    undefined = _UNDEFINED.search(output)
    if undefined is not None:
        place = _diagnostic(undefined, undefined["message"])
        return SanitizerReport(f"undefined behaviour at {place.file}:{place.line}: {undefined['message']}", (place,))
    address = _ADDRESS.search(output)
    if address is None:
        return None
    access = _ACCESS.search(output, address.end())
    what = address["kind"] + (f": {access['access']} of {access['size']} bytes" if access else "")
    frames = [frame for frame in _FRAME.finditer(output, address.end()) if _own(frame["file"])]
    places = tuple(_diagnostic(frame, f"{what} in {frame['function']}") for frame in frames[:1])
    return SanitizerReport(what + (f" at {places[0].file}:{places[0].line}" if places else ""), places)


def _own(file: str) -> bool:
    """Not a frame of the runtime, the standard library or the worker."""
    return (
        not file.startswith(("/usr/", "../", "/build/")) and "sanitizer" not in file and not file.endswith("worker.cpp")
    )


def _diagnostic(match: re.Match[str], message: str) -> Diagnostic:
    column = match["column"]
    return Diagnostic(
        severity="error",
        message=message,
        file=match["file"].removeprefix("./"),
        line=int(match["line"]),
        column=int(column) if column else None,
    )
