"""From `provider:model` to a model. Providers are a table, so that adding one is one line."""

from __future__ import annotations

from collections.abc import Callable

from agents.models.base import ChatModel
from agents.models.builtin import Autotune
from tools.errors import WarpsmithError


class UnknownModel(WarpsmithError):
    """The name of a model that there is not."""


def _builtin(name: str, seed: int) -> ChatModel:
    if name != "autotune":
        raise UnknownModel(f"there is no built-in model `{name}`", "There is `builtin:autotune`.")
    return Autotune(seed)


PROVIDERS: dict[str, Callable[[str, int], ChatModel]] = {"builtin": _builtin}
"""Provider to what makes its model out of the model's name and the run's seed."""


def resolve(spec: str, seed: int = 0) -> ChatModel:
    """The model that `spec` names, as `builtin:autotune`. Raises UnknownModel."""
    provider, _, name = spec.partition(":")
    if provider not in PROVIDERS or not name:
        known = ", ".join(f"{provider}:…" for provider in PROVIDERS)
        raise UnknownModel(f"the model `{spec}` is not known", f"Name it as provider:model; there are: {known}.")
    return PROVIDERS[provider](name, seed)
