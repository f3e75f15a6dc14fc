"""From `provider:model` to a model. Providers are a table, so that adding one is one line."""

from __future__ import annotations

from collections.abc import Callable

from agents.models.base import ChatModel
from agents.models.builtin import Autotune
from agents.models.connections import Connections
from agents.models.spec import ModelSpec, UnknownModel, parse_spec

__all__ = ["UnknownModel", "resolve"]


def _builtin(spec: ModelSpec, seed: int) -> ChatModel:
    if spec.model != "autotune":
        raise UnknownModel(f"there is no built-in model `{spec.model}`", "There is `builtin:autotune`.")
    return Autotune(seed)


LOCAL: dict[str, Callable[[ModelSpec, int], ChatModel]] = {"builtin": _builtin}
"""Providers that need no connection: what makes the model out of its name and the run's seed."""


def resolve(spec: str, seed: int = 0, *, connections: Connections | None = None) -> ChatModel:
    """The model that `spec` names, as `builtin:autotune` or `anthropic:MODEL@high`. Opens nothing.

    connections: the built-in providers without any key when left out. Raises UnknownModel, and ModelError (auth) when
    the provider's key is missing.
    """
    named = parse_spec(spec)
    if named.provider in LOCAL:
        return LOCAL[named.provider](named, seed)
    (connections or Connections()).of(named.provider)
    raise UnknownModel(f"`{spec}` can't be spoken to yet")
