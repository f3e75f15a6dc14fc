"""The messages of everything that nvcc runs: its front ends, the host compiler, ptxas and the linker.

Files are told as the kernel's own; what a message points to beyond them is told as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.records import Diagnostic
from tools.targets.cpu import read_diagnostics as read_host
from tools.targets.ptxas import read_messages

_FRONT_END = re.compile(
    r"(?P<file>[^\s():]+)\((?P<line>\d+)\): (?P<severity>(?:catastrophic |fatal )?error|warning|remark)"
    r"(?: #(?P<number>\d+)(?:-D)?)?: (?P<message>.*)"
)
_INSTANCE = re.compile(
    r"\s+(?P<message>(?:detected during|instantiation of) .+?) at line (?P<line>\d+)(?: of (?P<file>\S+))?"
)
_PLAIN = re.compile(r"(?:nvcc|nvlink|cudafe\+\+)\s*(?P<kind>fatal|error|warning)\s*: (?P<message>.*)")
_ASSEMBLER = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d+): (?P<kind>Error|Warning): (?P<message>.*)")
_NO_LIBRARY = re.compile(r"\S*ld: (?P<message>cannot find -l\S+.*)")


def read_messages_of_nvcc(text: str, ptx: str = "") -> tuple[Diagnostic, ...]:
    """The messages in `text`, each once, by source line where that is known; `ptx` is what ptxas was given."""
    lines = text.splitlines()
    found = [*_front_ends(lines), *read_host(text), *_others(lines), *read_messages(text, ptx)]
    return tuple(dict.fromkeys(found))


def _front_ends(lines: list[str]) -> Iterator[Diagnostic]:
    file = None
    for line in lines:
        if match := _FRONT_END.match(line):
            file = match["file"].removeprefix("./")
            kind = match["severity"].split()[-1]
            severity = "note" if kind == "remark" else kind
            number = f" [#{match['number']}]" if match["number"] else ""
            yield _diagnostic(severity, match["message"] + number, file, match["line"])
        elif file and (match := _INSTANCE.match(line)):
            yield _diagnostic("note", match["message"], match["file"] or file, match["line"])
        elif not line.strip():
            file = None


def _others(lines: list[str]) -> Iterator[Diagnostic]:
    for line in lines:
        if match := _PLAIN.match(line):
            severity = "warning" if match["kind"] == "warning" else "error"
            yield _diagnostic(severity, match["message"])
        elif match := _ASSEMBLER.match(line):
            yield _diagnostic(match["kind"].lower(), match["message"], match["file"], match["line"])
        elif match := _NO_LIBRARY.match(line):
            yield _diagnostic("error", match["message"])


def _diagnostic(severity: str, message: str, file: str | None = None, line: str | None = None) -> Diagnostic:
    return Diagnostic.model_validate({"severity": severity, "message": message, "file": file, "line": line})
