"""Reads what ptxas says (`-Xptxas -v`) and the PTX that it was given.

Not covered: the assembler's own words about constant and local memory, which tell nothing that a kernel's author can't
see in its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from tools.records import Diagnostic

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(?P<symbol>[^']+)' for '(?P<architecture>\w+)'")
_PROPERTIES = re.compile(r"ptxas info\s*: Function properties for (?P<symbol>\S+)")
_FRAME = re.compile(r"\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (?P<registers>\d+) registers(?P<rest>.*)")
_MESSAGE = re.compile(
    r"ptxas (?:(?P<file>\S+), line (?P<line>\d+); )?(?P<kind>error|warning|fatal|info)\s*: (?P<message>.*)"
)
_KEPT_INFO = re.compile(r"\(C\d+\)")  # advice on performance, marked as information


@dataclass(frozen=True)
class Use:
    """What ptxas spent on one function. The last three are None for a function that is not a kernel."""

    symbol: str
    stack: int
    spill_stores: int
    spill_loads: int
    registers: int | None = None
    shared: int | None = None
    """Bytes of static shared memory."""
    barriers: int | None = None


def read_report(text: str) -> tuple[Use, ...]:
    """Every function of the report in its order, kernels by their entry line."""
    entries: set[str] = set()
    frames: dict[str, tuple[int, int, int]] = {}
    spent: dict[str, re.Match[str]] = {}
    entry = subject = ""
    for line in text.splitlines():
        if match := _ENTRY.match(line):
            entry = subject = match["symbol"]
            entries.add(entry)
            frames.setdefault(entry, (0, 0, 0))
        elif match := _PROPERTIES.match(line):
            subject = match["symbol"]
        elif subject and (match := _FRAME.match(line)):
            stack, stores, loads = map(int, match.groups())
            frames[subject] = (stack, stores, loads)
        elif entry and (match := _USED.match(line)):
            spent[entry] = match
    whole = [symbol for symbol in frames if symbol in spent or symbol not in entries]
    return tuple(_use(symbol, frames[symbol], spent.get(symbol)) for symbol in whole)


def _use(symbol: str, frame: tuple[int, int, int], used: re.Match[str] | None) -> Use:
    if used is None:
        return Use(symbol, *frame)
    shared = sum(int(number) for number in re.findall(r"(\d+)(?:\+\d+)? bytes smem", used["rest"]))
    barriers = re.search(r"used (\d+) barriers", used["rest"])
    return Use(symbol, *frame, int(used["registers"]), shared, int(barriers[1]) if barriers else None)


def read_messages(text: str, ptx: str = "") -> tuple[Diagnostic, ...]:
    """Errors, warnings and advice of ptxas. Lines of `ptx` are told as the source lines that they came from."""
    found = []
    for line in text.splitlines():
        match = _MESSAGE.match(line)
        if match is None or (match["kind"] == "info" and not _KEPT_INFO.match(match["message"])):
            continue
        severity = "error" if match["kind"] in ("error", "fatal") else "warning"
        place = source_place(ptx, int(match["line"])) if match["line"] else None
        file, number = place or (None, None)
        found.append(
            Diagnostic.model_validate(
                {"severity": severity, "message": f"ptxas: {match['message']}", "file": file, "line": number}
            )
        )
    return tuple(dict.fromkeys(found))


def source_place(ptx: str, line: int) -> tuple[str, int] | None:
    """File name and line of the source that line `line` (from 1) of `ptx` was made from, where -lineinfo says so."""
    files = {match[1]: match[2] for match in re.finditer(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', ptx, re.MULTILINE)}
    for text in reversed(ptx.splitlines()[:line]):
        if match := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", text):
            file = files.get(match[1])
            return (PurePosixPath(file).name, int(match[2])) if file else None
        if re.match(r"\s*(\.visible |\.weak )?\.(entry|func)\b", text):
            return None
    return None


def launch_bounds(ptx: str) -> dict[str, int]:
    """Kernels with `__launch_bounds__`, by symbol: the most threads of a block."""
    pattern = re.compile(r"\.entry\s+(?P<symbol>[\w$]+)\s*\(.*?\)(?P<directives>[^{]*)\{", re.DOTALL)
    bounds = {}
    for match in pattern.finditer(ptx):
        if most := re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", match["directives"]):
            x, y, z = (int(number or 1) for number in most.groups())
            bounds[match["symbol"]] = x * y * z
    return bounds


def function_text(ptx: str, symbol: str) -> str | None:
    """The definition of one kernel or function; None when `ptx` does not hold it."""
    for start in re.finditer(
        r"^[^\n/]*\.(?:entry|func)\b[^;{]*?\b" + re.escape(symbol) + r"(?![\w$])", ptx, re.MULTILINE
    ):
        body = "".join(_until_closed(ptx[start.start() :]))
        if body:
            return body
    return None


def _until_closed(text: str) -> Iterator[str]:
    """Lines up to the one that closes the first brace; none when a declaration ends before any brace."""
    depth, lines = 0, []
    for line in text.splitlines(keepends=True):
        lines.append(line)
        code = line.split("//")[0]
        depth += code.count("{") - code.count("}")
        if "{" in "".join(lines) and depth == 0:
            yield from lines
            return
        if depth == 0 and code.rstrip().endswith(";"):
            return
