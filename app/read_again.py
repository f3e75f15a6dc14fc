"""All settings as they are now, for a person who chooses another model while a run goes on."""

from __future__ import annotations

from collections.abc import Sequence

from agents.casting import Reach
from agents.models.spec import parse_spec
from app.configuration import Configuration


def read_again(configuration: Configuration, specs: Sequence[str], addresses: Sequence[str]) -> Reach:
    """As of `agents.casting.ReadAgain`."""
    found = configuration.again(addresses)
    for spec in specs:
        if (objection := found.endpoints.objections.get(parse_spec(spec).provider)) is not None:
            raise objection
    return Reach(found.connections, found.catalogue)
