"""The trip-wires of `tools.screen` for Python: what no honest kernel's file does, told at once with its line.

Nothing rests on this either: the sandbox, fresh data, the judge's clock and the dispatcher's trace stand behind it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.records import Diagnostic

MODULES = {
    "subprocess": "a kernel may not start processes",
    "multiprocessing": "a kernel may not start processes",
    "pty": "a kernel may not start processes",
    "socket": "a kernel may not use the network",
    "urllib": "a kernel may not use the network",
    "http": "a kernel may not use the network",
    "requests": "a kernel may not use the network",
    "tools": "a kernel may not use the judge's own modules",
}
"""Modules by their first name."""
FUNCTIONS = {
    **{
        f"os.{name}": "a kernel may not start processes"
        for name in (
            *("fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "execv", "execve", "execvp"),
            *("execl", "execle", "execlp", "spawnl", "spawnv", "spawnvp"),
        )
    },
    "os._exit": "a kernel may not end its process",
    "os.kill": "a kernel may not signal processes",
}
"""Functions by their full name."""
_PROC = ("/proc/self", "/proc/thread-self")


def trip_wires(file: str, text: str) -> tuple[Diagnostic, ...]:
    """What the file may not contain; empty for one that is no Python, which the build explains."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(
        Diagnostic(severity="error", message=message, file=file, line=line)
        for node in ast.walk(tree)
        for line, message in _tripped(node)
    )


def _tripped(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        yield from ((node.lineno, MODULES[name]) for name in (n.partition(".")[0] for n in names) if name in MODULES)
    elif isinstance(node, ast.Call) and (message := FUNCTIONS.get(_dotted(node.func))):
        yield node.lineno, message
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(_PROC):
        yield node.lineno, "a kernel may not look at its own process"


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
