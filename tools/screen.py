"""Static trip-wires: a kernel that plainly reaches outside its job gets a quick, clear message before it is built.

Nothing rests on this. Every row has a structural defence behind it (the sandbox, fresh data, the judge's clock), so the
rows are few and name only what no honest kernel writes; text that hides from them is met by those defences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.records import Diagnostic, Kernel
from tools.torch_screen import trip_wires


@dataclass(frozen=True)
class TripWire:
    """A pattern in code (comments removed) and what to tell its author."""

    pattern: re.Pattern[str]
    message: str
    in_strings: bool = False
    """Whether the pattern is looked for with string literals kept."""


def _calls(*names: str) -> re.Pattern[str]:
    """A call of one of the functions, free or qualified by `::`, but not a member function of the same name."""
    return re.compile(rf"(?<![\w.])(?<!->)(?:{'|'.join(names)})\s*\(")


def _includes(*headers: str) -> re.Pattern[str]:
    return re.compile(rf"^[^\S\n]*#\s*include\s*[<\"](?:{'|'.join(headers)})[>\"]", re.MULTILINE)


TRIP_WIRES: tuple[TripWire, ...] = (
    TripWire(
        _calls("fork", "vfork", "posix_spawnp?", "system", "popen", r"exec[lv]p?e?", "execveat"),
        "a kernel may not start processes",
    ),
    TripWire(
        _includes(r"spawn\.h", r"sys/wait\.h", r"sys/ptrace\.h"), "a kernel may not start or watch processes", True
    ),
    TripWire(
        _includes(r"sys/socket\.h", r"netinet/.*", r"arpa/.*", r"netdb\.h"), "a kernel may not use the network", True
    ),
    TripWire(_calls("dlopen", "dlmopen", "dlsym", "dlvsym"), "a kernel may not load libraries or look symbols up"),
    TripWire(_calls("syscall", "ptrace", "process_vm_readv", "process_vm_writev"), "a kernel may not call the system"),
    TripWire(
        re.compile(
            r"\b(?:__asm__|asm|__asm)\b(?:(?!\b(?:__asm__|asm|__asm)\b)[^;])*?(?:\bsyscall\b|\bsysenter\b|\bint\s+\$?0x80\b|\bsvc\b|\.incbin\b)"
        ),
        "a kernel may not call the system or read files from assembly",
        True,
    ),
    TripWire(
        _calls("getenv", "secure_getenv", "setenv", "putenv"), "a kernel has no environment: pass values as tunables"
    ),
    TripWire(re.compile(r"/proc/(?:self|\d|thread-self)"), "a kernel may not look at its own process", True),
    TripWire(
        re.compile(r"^[^\S\n]*#\s*(?:include|embed)\s*[<\"](?:/|[^>\"\n]*\.\./)", re.MULTILINE),
        "a kernel may include only its own files and the toolchain's headers",
        True,
    ),
)

_TOKENS = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")"""
    r"""|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>'(?:\\.|[^'\\\n])+')""",
    re.DOTALL,
)


def screen(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """What the kernel's sources may not contain, by file and line; empty when nothing was tripped."""
    found: list[Diagnostic] = []
    if "task.h" in kernel.files:
        found.append(
            Diagnostic(severity="error", message="task.h is generated: include it, don't bring it", file="task.h")
        )
    for file, text in kernel.files.items():
        if file.endswith(".py"):
            found += trip_wires(file, text)
            continue
        joined = text.replace("\\\n", "  ")
        kept, bare = without_comments(joined, keep_strings=True), without_comments(joined, keep_strings=False)
        for wire in TRIP_WIRES:
            for match in wire.pattern.finditer(kept if wire.in_strings else bare):
                start = match.start() + len(match[0]) - len(match[0].lstrip())
                line = joined.count("\n", 0, start) + 1
                found.append(Diagnostic(severity="error", message=wire.message, file=file, line=line))
    return tuple(found)


def without_comments(text: str, *, keep_strings: bool) -> str:
    """The text with comments, and on request the inside of literals, blanked out; positions and lines stay."""

    def blank(match: re.Match[str]) -> str:
        if match["comment"] is None and keep_strings:
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    # A quote in 1'000'000 is a digit separator, not the start of a character.
    return _TOKENS.sub(blank, re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", " ", text))
