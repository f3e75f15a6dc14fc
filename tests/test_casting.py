"""What a run makes of the names of its models."""

from __future__ import annotations

import pytest

from agents.casting import Casting
from agents.models.catalogue import Catalogue
from agents.models.connections import Connection, Connections
from agents.models.money import Purse
from agents.secrets import Scrubber
from agents.settings import RunSettings


@pytest.mark.parametrize("output", [2_000, None])
def test_room_is_kept_for_the_longest_reply_that_an_endpoint_allows(output: int | None) -> None:
    local = Connection(wire="chat", base_url="http://127.0.0.1:1/v1", output=output)
    casting = Casting(
        RunSettings(), Connections(providers={"local": local}), Catalogue.with_prices(), Purse(None, None), Scrubber(())
    )
    (candidate,) = casting.lineup(["local:some-model"]).candidates
    assert candidate.output == output


def test_a_model_without_an_endpoint_keeps_what_is_known_of_it() -> None:
    assert Connections().output("anthropic", 64_000) == 64_000
    assert Connections(providers={}).output("builtin", None) is None
