"""What a run's `config.json` says of how the run was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from pydantic import JsonValue

from agents.secrets import Scrubber
from agents.settings import RunSettings
from agents.state_address import passwords_in, public_address
from app.configuration import Configuration


def asked_for(
    settings: RunSettings, configuration: Configuration, executor: str, state: str | None, command: Sequence[str]
) -> dict[str, JsonValue]:
    """The part of `config.json` that may be another one when the run is resumed. No key is in it."""
    scrubber = Scrubber.of(configuration.connections, passwords_in(state))
    return {
        "version": version("warpsmith"),
        "command": [scrubber.text(word) for word in command],
        "executor": executor,
        "state": None if state is None else public_address(state),
        "settings": settings.model_dump(mode="json"),
        "endpoints": {name: scrubber.json(connection.told) for name, connection in configuration.providers.items()},
    }
