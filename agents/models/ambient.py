"""What the SDKs add to requests out of the environment, unasked, and which servers have a claim to it.

Such headers name an organisation or hold what a person's own gateway wants, which may be a secret. They are meant for
the provider's own address, or for the one that stands in the environment beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from agents.models.connections import Connection


def headers_for(connection: Connection, omit: object, listed_in: str, more: Iterable[str] = ()) -> dict[str, Any]:
    """The headers of a client: the connection's own, and `omit` for those that this server has no claim to.

    omit: what the SDK takes for "leave it out". listed_in: the variable in which it looks for lines `Name: value`.
    more: what it makes out of other variables.
    """
    if connection.base_url in (None, os.environ.get(connection.url_env, "").strip()):
        return dict(connection.headers)
    lines = os.environ.get(listed_in, "").split("\n")
    foreign = [*(line.partition(":")[0].strip() for line in lines if ":" in line), *more]
    bearer = f"Bearer {connection.secret or 'none'}"
    left_out = {name: bearer if name.lower() == "authorization" else omit for name in foreign}
    return {**left_out, **connection.headers}
