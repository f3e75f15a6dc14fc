"""The address of a database that keeps the graph's state: what of it may be written down, and what not."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from tools.errors import WarpsmithError

POSTGRES: Final = ("postgresql", "postgres")
_SECRET: Final = ("password", "sslpassword", "passfile")


def public_address(state: str) -> str:
    """A database's address without its password. Raises WarpsmithError when it is none."""
    parts = urlsplit(state)
    if parts.scheme not in POSTGRES or not parts.path.strip("/"):
        raise WarpsmithError(
            "the state is kept in a file, or in PostgreSQL as postgresql://user@host/database",
            "Leave out --state for a file in the run folder.",
        )
    user, at, host = parts.netloc.rpartition("@")
    query = [(name, value) for name, value in parse_qsl(parts.query) if name not in _SECRET]
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return parts._replace(netloc=netloc, query=urlencode(query, quote_via=quote)).geturl()


def passwords_in(state: str | None) -> tuple[str, ...]:
    """What of a database's address nobody may read, as written and as meant."""
    if state is None:
        return ()
    parts = urlsplit(state)
    written = parts.netloc.rpartition("@")[0].partition(":")[2]
    found = [written, unquote(written), *(value for name, value in parse_qsl(parts.query) if name in _SECRET[:2])]
    return tuple(dict.fromkeys(filter(None, found)))
