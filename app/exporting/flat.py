"""Sources in several files as one text: what they include in quotes is put in its place.

Not covered: two sources that each define a thing of the same name for themselves; in one text they clash.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

SOURCES = (".cpp", ".cc", ".cu")
"""Suffixes of what is compiled; other files are included."""
_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"')
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)


def sources_of(files: Mapping[str, str]) -> list[str]:
    """The files that are compiled, in the order of their names."""
    return sorted(path for path in files if PurePosixPath(path).suffix in SOURCES)


def flattened(files: Mapping[str, str]) -> str:
    """All sources as one text that includes none of `files`; `#line` keeps a compiler's messages about them right."""
    return "\n".join(_whole(path, files, ()) for path in sources_of(files))


def _whole(path: str, files: Mapping[str, str], inside: tuple[str, ...]) -> str:
    lines = [f'#line 1 "{path}"']
    text = files[path]
    once = _ONCE.search(text) is not None
    for number, line in enumerate(_ONCE.sub("", text).split("\n"), 1):
        match = _INCLUDE.match(line)
        named = _found(match[1], path, files) if match else None
        if named is None:
            lines.append(line)
        elif named != path and named not in inside:
            lines += [_whole(named, files, (*inside, path)), f'#line {number + 1} "{path}"']
    if once:
        guard = "ONCE_" + re.sub(r"\W", "_", path)
        lines = [f"#ifndef {guard}", f"#define {guard}", *lines, "#endif"]
    return "\n".join(lines)


def _found(name: str, path: str, files: Mapping[str, str]) -> str | None:
    """As a compiler looks: beside the file that includes it, then from the top."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return next((each for each in (beside, posixpath.normpath(name)) if each in files), None)
