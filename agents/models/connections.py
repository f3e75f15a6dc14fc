"""Where providers are reached and with which key: what `registry.resolve` needs beside a model's name.

Keys are `SecretStr`, so that neither a log nor an exception shows one. Not covered: where the values come from beyond
the environment (flags and `warpsmith.toml` are the app's).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from agents.models.base import Dialect
from agents.models.spec import UnknownModel

Wire: TypeAlias = Literal["responses", "chat", "messages"]
"""A protocol. responses: OpenAI's Responses; chat: Chat Completions, which most servers speak; messages: Anthropic's
Messages."""


_TOLD = {"wire", "base_url", "key_env", "dialect", "window", "output"}


class NoProvider(UnknownModel):
    """There is nothing of that name in front of a model's."""


class NoAddress(UnknownModel):
    """Nobody said where the provider's server is."""


class Connection(BaseModel):
    """One provider, or one server of a person's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wire: Wire
    base_url: str | None = None
    """None: the provider's own address. A server's ends in `/v1` (for `messages`: without it)."""
    needs_base_url: bool = False
    key: SecretStr | None = None
    key_env: str = ""
    """The environment variable that a person puts the key into; empty when none is known."""
    url_env: str = ""
    """The environment variable that may hold the base URL."""
    needs_key: bool = False
    headers: dict[str, str] = {}
    """Sent with each request; none of them secret."""
    dialect: Dialect | None = None
    """None: native, and the next one for a model that can't."""
    window: int | None = Field(default=None, ge=1)
    """Tokens of prompt and reply together; None: as the catalogue has it."""
    output: int | None = Field(default=None, ge=1)
    """The most tokens of one reply."""
    connect_timeout: float = Field(default=10.0, gt=0)
    """Seconds until a connection must stand."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds without a piece of the reply until a request counts as lost."""
    total_timeout: float = Field(default=3600.0, gt=0)
    """Seconds that one request may take in all."""
    sends_reasoning_back: bool = False
    """`chat` only: whether a model's `reasoning_content` goes back with its messages. Some servers demand it, some
    refuse it."""
    output_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """`chat` only: what bounds the reply. None: `max_completion_tokens` at OpenAI, `max_tokens` at other servers."""

    @property
    def secret(self) -> str:
        """The key itself; empty when there is none."""
        return "" if self.key is None else self.key.get_secret_value()

    @property
    def told(self) -> dict[str, JsonValue]:
        """What a run's `config.json` says of it; no key is in it, but in an address there may be a password."""
        return self.model_dump(mode="json", include=_TOLD)


BUILT_IN: Mapping[str, Connection] = {
    "openai": Connection(wire="responses", key_env="OPENAI_API_KEY", url_env="OPENAI_BASE_URL", needs_key=True),
    "openai-chat": Connection(wire="chat", key_env="WARPSMITH_API_KEY", needs_base_url=True),
    "anthropic": Connection(wire="messages", key_env="ANTHROPIC_API_KEY", url_env="ANTHROPIC_BASE_URL", needs_key=True),
}
"""The providers that need no table in `warpsmith.toml`."""


class Connections(BaseModel):
    """All providers that a run may use, by the name in front of the model's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    providers: dict[str, Connection] = Field(default_factory=lambda: dict(BUILT_IN))

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], endpoints: Mapping[str, Connection] | None = None
    ) -> Connections:
        """The built-in providers and `endpoints` over them; keys and base URLs that they lack come from `environ`."""
        merged = {**BUILT_IN, **(endpoints or {})}
        return cls(providers={name: _filled(connection, environ) for name, connection in merged.items()})

    def of(self, provider: str) -> Connection:
        """The connection of that name. Raises NoProvider, NoAddress, and UnknownModel for one that is none."""
        connection = self.providers.get(provider)
        if connection is None:
            known = ", ".join(f"{name}:" for name in ["builtin", "replay", *self.providers])
            raise NoProvider(
                f"there is no provider `{provider}`",
                f"There are {known}; a server of your own becomes one by [endpoints.{provider}] in warpsmith.toml.",
            )
        if connection.needs_base_url and connection.base_url is None:
            raise NoAddress(
                f"`{provider}:` needs the address of a server",
                "Pass --base-url, e.g. --base-url http://127.0.0.1:8000/v1.",
            )
        if connection.base_url is not None and not is_address(connection.base_url):
            raise UnknownModel(
                f"`{connection.base_url}`, where `{provider}:` is to be found, is no address",
                "Write it in full and without a question behind it, e.g. http://127.0.0.1:8000/v1.",
            )
        return connection

    def output(self, provider: str, known: int | None) -> int | None:
        """Tokens that a reply of that provider's models may take: what is set for it, else `known` of the model."""
        connection = self.providers.get(provider)
        return (connection.output if connection else None) or known


def is_address(text: str) -> bool:
    """Whether `text` names a server in full, with a path that others can be put behind."""
    try:
        parts = urlsplit(text)
        in_range = parts.port != 0  # looking at the port raises ValueError for one that is none
    except ValueError:
        return False
    plain = text.isprintable() and not set(text) & set(" ?#\\")
    return plain and in_range and parts.scheme in ("http", "https") and bool(parts.hostname)


def _filled(connection: Connection, environ: Mapping[str, str]) -> Connection:
    key = environ.get(connection.key_env, "").strip() if connection.key_env else ""
    url = environ.get(connection.url_env, "").strip() if connection.url_env else ""
    changes: dict[str, object] = {}
    if connection.key is None and key:
        changes["key"] = SecretStr(key)
    if connection.base_url is None and url:
        changes["base_url"] = url
    return connection.model_copy(update=changes)
