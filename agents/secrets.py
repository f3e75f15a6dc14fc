"""Keeps keys out of everything that is written or shown: known values wherever they stand, and what looks like one.

Two strengths, since a kernel's source or a task must come back as it was: `known` takes out only the values that this
run's connections hold, `text` also whatever has the shape of a key. Not covered: a key that was cut in pieces or
encoded before it reached us, base64 of basic authentication apart.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable

from pydantic import JsonValue

from agents.models.connections import Connections

MARK = "[secret]"
SHORTEST = 6
"""Characters. Shorter values are left alone: they are words that stand everywhere (`none`, `test`)."""

_SHAPES = re.compile(
    r"""
    \bsk-(?:[A-Za-z0-9]+-)*[A-Za-z0-9_-]{16,}                       # OpenAI, Anthropic, OpenRouter and their kin
    | \b(?:gsk|xai|hf|r8|pplx|nvapi|fw|tgp_v1|ghp|gho|ghs|glpat|github_pat)[_-][A-Za-z0-9_-]{16,}
    | \bAIza[A-Za-z0-9_-]{30,}                                      # Google
    | \bAKIA[A-Z0-9]{16}\b                                          # AWS
    | \beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+  # JSON web token
    """,
    re.VERBOSE,
)
_LABELLED = re.compile(
    r"""(?ix)
    ( ["']?\b(?:x-api-key|api[_-]?key|authorization|proxy-authorization|x-goog-api-key)["']?
      \s*[:=,]\s*["']?(?:bearer\s+|basic\s+)? )
    [A-Za-z0-9._~+/=-]{8,}
    | ( \b(?:bearer|basic)\s+ ) (?=[^\s\d]*\d) [A-Za-z0-9._~+/=-]{12,}
    """
)
_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)[^\s/@]+(@)")


class Scrubber:
    """Knows a run's keys. Calls are cheap; scrubbing twice changes nothing."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._add(values)

    def _add(self, values: Iterable[str]) -> None:
        self._values |= set(values)
        known = {value for value in self._values if len(value) >= SHORTEST}
        known |= {base64.b64encode(value.encode()).decode() for value in known}
        longest_first = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @classmethod
    def of(cls, connections: Connections | None, others: Iterable[str] = ()) -> Scrubber:
        """Knows every key of `connections`, the passwords in their addresses, and `others`."""
        return cls([*others, *_secrets_in(connections)])

    def learn(self, connections: Connections) -> None:
        """From now on it knows those of `connections` too."""
        self._add(_secrets_in(connections))

    def known(self, text: str) -> str:
        """`text` without the values of this run's keys."""
        return text if self._known is None else self._known.sub(MARK, text)

    def text(self, text: str) -> str:
        """`text` without the values of this run's keys and without what looks like a key."""
        text = _SHAPES.sub(MARK, self.known(text))
        text = _LABELLED.sub(lambda found: (found[1] or found[2]) + MARK, text)
        return _IN_ADDRESS.sub(rf"\1{MARK}\2", text)

    def json(self, value: JsonValue) -> JsonValue:
        """`value` with `text` done to all its strings, names included."""
        return in_all_texts(value, self.text)

    def error(self, error: BaseException) -> None:
        """Take keys out of an exception's own words, and of those that it was raised from. Raises nothing."""
        seen: set[int] = set()
        todo: list[BaseException | None] = [error]
        while todo:
            this = todo.pop()
            if this is None or id(this) in seen:
                continue
            seen.add(id(this))
            this.args = tuple(self.text(part) if isinstance(part, str) else part for part in this.args)
            for name, value in vars(this).items():
                if isinstance(value, str):
                    setattr(this, name, self.text(value))
            todo += [this.__cause__, this.__context__]


def _secrets_in(connections: Connections | None) -> list[str]:
    """Keys, and passwords in addresses."""
    found: list[str] = []
    for connection in connections.providers.values() if connections is not None else ():
        found.append(connection.secret)
        user, at, _ = (connection.base_url or "").partition("://")[2].partition("@")
        if at:
            found.append(user.partition(":")[2])
    return found


def in_all_texts(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """`value` with `change` done to all its strings, names of fields included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [in_all_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): in_all_texts(item, change) for name, item in value.items()}
    return value
