"""How a person names a model: `provider:model[@effort]`."""

from __future__ import annotations

import difflib
import re
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict

from tools.errors import WarpsmithError

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How hard a model is to think. Which of them a model knows is its provider's matter."""
EFFORTS: tuple[str, ...] = get_args(Effort)
TAKES_REST_AS_IT_IS = ("replay", "builtin")
"""Providers whose models have no effort; what follows the colon may hold any sign, as a path does."""

_PROVIDER = re.compile(r"[a-z][a-z0-9_-]*")
_WRITTEN_AT = {"gpt": "openai", "o": "openai", "claude": "anthropic", "autotune": "builtin", "codex": "openai"}
_FAMILY = re.compile(r"(gpt|o(?=\d)|claude|autotune|codex)")


class UnknownModel(WarpsmithError):
    """The name of a model that there is not, or that can't be used as it is."""


class ModelSpec(BaseModel):
    """A model's name in its parts. `effort` is None where the provider is to choose."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str
    model: str
    effort: Effort | None = None

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" + (f"@{self.effort}" if self.effort else "")


def parse_spec(text: str) -> ModelSpec:
    """The parts of `text`. Raises UnknownModel, which says what was meant.

    Everything after the first colon is the model's name, which may hold `:`, `/` and `@` itself (`qwen3:32b`,
    `meta-llama/Llama-4`, `claude-x@20250514`): what follows the last `@` is an effort only when it is a word.
    """
    written = text.strip()
    provider, colon, rest = written.partition(":")
    if not colon:
        raise UnknownModel(f"the model `{written}` names no provider", _with_provider(written))
    if not _PROVIDER.fullmatch(provider):
        raise UnknownModel(f"`{provider}` is no provider's name in the model `{written}`", "Name it as provider:model.")
    if not rest.strip():
        raise UnknownModel(
            f"`{written}` names a provider but no model", f"Name one, as {provider}:{_example(provider)}."
        )
    if provider in TAKES_REST_AS_IT_IS:
        return ModelSpec(provider=provider, model=rest)
    if not written.isprintable():
        raise UnknownModel(f"the model {written!r} holds signs that can't be seen", "Write it again.")
    model, at, effort = rest.rpartition("@")
    if not at or not effort.isalpha():
        return ModelSpec(provider=provider, model=rest)
    if effort in EFFORTS and model:
        return ModelSpec.model_validate({"provider": provider, "model": model, "effort": effort})
    near = difflib.get_close_matches(effort, EFFORTS, n=1)
    meant = f"Did you mean {provider}:{model}@{near[0]}? " if near and model else ""
    raise UnknownModel(f"`@{effort}` in `{written}` is no effort", f"{meant}There are: {', '.join(EFFORTS)}.")


def _example(provider: str) -> str:
    return {"builtin": "autotune", "replay": "FILE"}.get(provider, "MODEL or " + provider + ":MODEL@high")


def _with_provider(written: str) -> str:
    """What to write instead of a name without a provider."""
    family = _FAMILY.match(written.lower())
    if not written:
        return "Name one as provider:model, e.g. anthropic:MODEL, openai:MODEL or builtin:autotune."
    if family:
        return f"Write {_WRITTEN_AT[family[1]]}:{written}."
    if written in ("openai", "anthropic", "openai-chat", "builtin", "replay"):
        return f"Write {written}:{_example(written)}."
    return f"Write openai:{written}, anthropic:{written}, or openai-chat:{written} with --base-url for your own server."


def is_built_in(name: str) -> bool:
    """Whether that name is of a model that is a part of this program: it reads no hint, and nobody waits for it."""
    return name.startswith("builtin:")
