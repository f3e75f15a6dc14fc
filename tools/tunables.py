"""The parameters that a kernel declares for a sweep: `// tune: BLOCK = 64,128,256`, or `# tune: …` in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tools.errors import KernelError

Tunables: TypeAlias = dict[str, tuple[str, ...]]
"""A declared tunable's name to its values, the default first."""

_TUNE = re.compile(r"^\s*(?://|#)\s*tune\s*:(?P<rest>.*)$")
_DECLARATION = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<values>[^=]+?)\s*\Z")
_VALUE = re.compile(r"[A-Za-z0-9_.+-]+\Z")


def parse_tunables(files: Mapping[str, str]) -> Tunables:
    """Tunables declared in a kernel's files by lines like `// tune: BLOCK = 64,128,256`.

    The default is the value of `#define BLOCK n`, in Python of `BLOCK = n`, where the files have one, else the first
    value; it comes first.
    A malformed or repeated declaration raises KernelError with its `file:line`.
    """
    found: Tunables = {}
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), start=1):
            match = _TUNE.match(line)
            if match is None:
                continue
            declaration = _DECLARATION.match(match["rest"])
            values = [value.strip() for value in declaration["values"].split(",")] if declaration else []
            if declaration is None or not all(_VALUE.match(value) for value in values):
                raise KernelError(
                    f"{path}:{number}: malformed tunable `{line.strip()}`", "Write it as `// tune: NAME = 1,2,4`."
                )
            if declaration["name"] in found:
                raise KernelError(f"{path}:{number}: the tunable {declaration['name']} is declared twice")
            found[declaration["name"]] = _default_first(declaration["name"], values, files)
    return found


def settings_kept(defines: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Of the settings of a kernel with the files `before` those that also hold for the files `after`: all but those of
    declared tunables whose text gives another value now, for who changes it there means it to hold.

    Declarations that can't be read change nothing: the kernel is refused for them when it is judged.
    """
    try:
        declared = parse_tunables(after)
    except KernelError:
        return dict(defines)
    given = {name: value for name in declared if (value := written_value(name, after)) is not None}
    changed = {name for name, value in given.items() if value != written_value(name, before)}
    return {name: value for name, value in defines.items() if name not in changed}


def written_value(name: str, files: Mapping[str, str]) -> str | None:
    """The value of `#define NAME n`, in Python of `NAME = n`; None where no file has one."""
    define = re.compile(
        rf"^(?:\s*#\s*define\s+{re.escape(name)}\s+|{re.escape(name)}\s*=\s*)([A-Za-z0-9_.+-]+)", re.MULTILINE
    )
    return next((match[1] for text in files.values() if (match := define.search(text))), None)


def _default_first(name: str, values: Sequence[str], files: Mapping[str, str]) -> tuple[str, ...]:
    written = written_value(name, files)
    return tuple(dict.fromkeys([*([] if written is None else [written]), *values]))
