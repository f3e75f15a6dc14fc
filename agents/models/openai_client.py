"""The OpenAI SDK's client, which speaks both of its wires."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import BaseModel

from agents.models.ambient import headers_for
from agents.models.connections import Connection
from agents.models.shapes import count, fields, items
from agents.models.tls import trust

_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens", "n_ctx")
"""Under which names vLLM, OpenRouter, llama.cpp and other servers tell a model's window; OpenAI tells none."""


def open_client(connection: Connection) -> Any:
    """A client for `connection`, its retries off. It reads no key from the environment, and no headers that are meant
    for another address."""
    import httpx2
    import openai

    more = ("OpenAI-Organization", "OpenAI-Project")
    return openai.AsyncOpenAI(
        api_key=connection.secret or "none",
        base_url=connection.base_url or "https://api.openai.com/v1",
        timeout=httpx2.Timeout(connection.timeout, connect=connection.connect_timeout),
        http_client=openai.DefaultAsyncHttpxClient(verify=trust()),
        max_retries=0,
        default_headers=headers_for(connection, openai.Omit(), "OPENAI_CUSTOM_HEADERS", more),
    )


def sdk_errors() -> tuple[type[Exception], ...]:
    """What the SDK and its HTTP client raise."""
    import httpx2
    import openai

    return (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError)


async def named_window(client: Any, model: str) -> int | None:
    """Tokens of the model's window, where the server tells it in its list of models.

    A server with one model alone may know it by another name than ours (llama.cpp answers to any).
    """
    page = await client.models.list()
    listed = items(page.model_dump(warnings=False).get("data")) if isinstance(page, BaseModel) else []
    for found in [each for each in listed if each.get("id") == model] or (listed if len(listed) == 1 else []):
        told = {**found, **fields(found.get("meta"))}
        return next((n for name in _WINDOWS if (n := count(told.get(name)))), None)
    return None


def bounded_key(cache_key: str) -> str:
    """A cache key of at most 64 characters, which OpenAI allows."""
    return cache_key if len(cache_key) <= 64 else hashlib.sha256(cache_key.encode()).hexdigest()
