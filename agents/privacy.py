"""Takes out of texts what a run says about the machine and the person: keys, private paths, names of user and host.

What is replaced is known (this machine's home, names, the folders of the runs) or has the shape of a home folder, on
whatever machine. Not covered: names of people, projects or machines that stand in a task's own words.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue

from agents.secrets import in_all_texts

Clean: TypeAlias = Callable[[str], str]

SHORTEST_NAME = 3
"""Characters. Shorter names of users and hosts stand everywhere in other words' places."""
COMMON = frozenset(
    {
        "root", "user", "admin", "ubuntu", "debian", "nobody", "runner", "docker", "test", "localhost", "host",
        "max", "min", "abs", "sum", "int", "long", "float", "double", "half", "auto", "void", "char", "bool",
        "main", "const", "static", "task", "kernel", "block", "grid", "thread", "warp", "size", "data",
        "index", "value", "name", "file", "path", "node", "gpu", "cpu", "cuda", "dev", "build", "home"
    }
)  # fmt: skip
"""Names that say nothing about anybody, or that sources are full of."""
_HOMES = re.compile(r"(?P<root>/home/|/Users/|[A-Za-z]:\\+Users\\+)(?P<name>[^/\\\s\"':;,<>|]+)")
_END = r"(?![\w-])"


@dataclass(frozen=True)
class Privacy:
    """What to take out. `clean` takes out keys (see `agents.secrets.Scrubber.text`)."""

    clean: Clean = field(default=str)
    paths: Mapping[str, str] = field(default_factory=dict)
    """Absolute path to what stands in its place."""
    names: Mapping[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """`text` without private parts, and without halves of surrogate pairs, which no JSON reader takes."""
        text = self.clean(whole(text))
        for path, mark in sorted(self.paths.items(), key=lambda item: -len(item[0])):
            if path in text:
                text = re.sub(re.escape(path) + _END, mark, text)
        text = _HOMES.sub(lambda found: f"{found['root']}[user]", text)
        for name, mark in self.names.items():
            if name in text:
                text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", mark, text)
        return text

    def json(self, value: JsonValue) -> JsonValue:
        """`value` with `text` done to all its strings, names included."""
        return in_all_texts(value, self.text)


def of_this_machine(clean: Clean, folders: Iterable[Path]) -> Privacy:
    """Knows this machine's home folder and names, and `folders`: run folders and where they lie."""
    paths = {str(form): "[home]" for form in _forms(Path.home())}
    for folder in folders:
        paths |= {str(form): "[runs]" for form in _forms(folder)}
    paths |= {str(form): "[here]" for form in _forms(Path.cwd()) if str(form) not in paths}
    host = socket.gethostname()
    names = {_user(): "[user]", host: "[host]", host.partition(".")[0]: "[host]"}
    return Privacy(
        clean,
        {path: mark for path, mark in paths.items() if len(Path(path).parts) > 1},
        {name: mark for name, mark in names.items() if is_telling(name)},
    )


def is_telling(name: str) -> bool:
    """Whether a user's or host's name gives away anything."""
    return len(name) >= SHORTEST_NAME and name.lower() not in COMMON


def whole(text: str) -> str:
    """`text` with halves of surrogate pairs joined, or replaced where the other half is missing."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _forms(path: Path) -> set[Path]:
    """As it is named, and where it really is."""
    return {path.absolute(), path.resolve()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # nobody has a name for the number
        return ""
