"""From `provider:model` to a model. Providers and wires are tables, so that adding one is one line."""

from __future__ import annotations

from collections.abc import Callable

from agents.models.anthropic_wire import Messages
from agents.models.base import ChatModel, ModelError
from agents.models.builtin import Autotune
from agents.models.catalogue import Catalogue
from agents.models.chat_wire import Chat
from agents.models.connections import Connection, Connections
from agents.models.connections import Wire as WireName
from agents.models.dialect import Interpreter
from agents.models.remote import Remote, Wire
from agents.models.replay import open_replay
from agents.models.responses_wire import Responses
from agents.models.spec import ModelSpec, UnknownModel, parse_spec

__all__ = ["UnknownModel", "resolve"]


def _builtin(spec: ModelSpec, seed: int) -> ChatModel:
    if spec.model != "autotune":
        raise UnknownModel(f"there is no built-in model `{spec.model}`", "There is `builtin:autotune`.")
    return Autotune(seed)


LOCAL: dict[str, Callable[[ModelSpec, int], ChatModel]] = {
    "builtin": _builtin,
    "replay": lambda spec, _: open_replay(spec),
}
"""Providers that need no connection: what makes the model out of its name and the run's seed."""

WIRES: dict[WireName, Callable[[ModelSpec, Connection], Wire]] = {
    "messages": Messages,
    "responses": Responses,
    "chat": Chat,
}


def resolve(spec: str, seed: int = 0, *, connections: Connections | None = None) -> ChatModel:
    """The model that `spec` names, as `builtin:autotune` or `anthropic:MODEL@high`. Opens no connection.

    connections: the built-in providers without any key when left out. Raises UnknownModel, and ModelError (auth) when
    the provider's key is missing.
    """
    named = parse_spec(spec)
    if named.provider in LOCAL:
        return LOCAL[named.provider](named, seed)
    connection = (connections or Connections()).of(named.provider)
    return Interpreter(connect(named, connection), connection.dialect)


def connect(spec: ModelSpec, connection: Connection) -> Remote:
    """The model behind `connection`. Raises ModelError (auth) when its key is missing or can't be one."""
    variable = f"${connection.key_env}" if connection.key_env else "its key_env"
    if connection.needs_key and not connection.secret:
        raise ModelError("auth", f"there is no key for `{spec.provider}:`", f"Put it into {variable}.")
    if not (connection.secret.isascii() and connection.secret.isprintable()) or " " in connection.secret:
        raise ModelError("auth", f"the key for `{spec.provider}:` holds signs that no key has", f"Look at {variable}.")
    facts = Catalogue.with_prices().of(f"{spec.provider}:{spec.model}")
    return Remote(spec, connection, WIRES[connection.wire](spec, connection), facts.window, facts.output)
