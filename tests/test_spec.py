"""How models and their providers are named, and what a person who gets it wrong is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from agents.models.catalogue import Catalogue
from agents.models.connections import BUILT_IN, Connection, Connections
from agents.models.dialect import Interpreter
from agents.models.registry import connect, resolve
from agents.models.remote import DEFAULT_WINDOW
from agents.models.spec import EFFORTS, ModelSpec, UnknownModel, parse_spec

KEYS = {"OPENAI_API_KEY": "sk-one", "ANTHROPIC_API_KEY": "sk-two", "WARPSMITH_API_KEY": "sk-three"}


@pytest.mark.parametrize(
    ("text", "provider", "model", "effort"),
    [
        ("openai:gpt-9", "openai", "gpt-9", None),
        ("anthropic:claude-x@high", "anthropic", "claude-x", "high"),
        (" openai-chat:meta-llama/Llama-4:free@low ", "openai-chat", "meta-llama/Llama-4:free", "low"),
        ("local:qwen3:32b-q4_K_M", "local", "qwen3:32b-q4_K_M", None),
        ("vertex:claude-x@20250514", "vertex", "claude-x@20250514", None),
        ("vertex:claude-x@20250514@max", "vertex", "claude-x@20250514", "max"),
        ("builtin:autotune", "builtin", "autotune", None),
        ("replay:runs/a@high/transcript", "replay", "runs/a@high/transcript", None),
        ("replay:C:/runs/x", "replay", "C:/runs/x", None),
    ],
)
def test_a_name_has_a_provider_a_model_and_perhaps_an_effort(
    text: str, provider: str, model: str, effort: str | None
) -> None:
    spec = parse_spec(text)
    assert (spec.provider, spec.model, spec.effort) == (provider, model, effort)
    assert str(spec) == text.strip()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("gpt-5", "Write openai:gpt-5."),
        ("o3-mini", "Write openai:o3-mini."),
        ("claude-opus-9", "Write anthropic:claude-opus-9."),
        ("autotune", "Write builtin:autotune."),
        ("qwen3", "openai-chat:qwen3 with --base-url"),
        ("openai", "Write openai:MODEL"),
        ("openai:", "as openai:MODEL"),
        ("replay:", "as replay:FILE"),
        ("builtin: ", "as builtin:autotune"),
        ("", "builtin:autotune"),
        ("openai:gpt-9@hihg", "Did you mean openai:gpt-9@high?"),
        ("openai:gpt-9@fast", "There are: none, minimal, low"),
        ("Open AI:gpt", "provider:model"),
        ("openai:@high", "There are:"),
        ("mine:m", "[endpoints.mine] in warpsmith.toml"),
        ("openai-chat:m", "--base-url http://127.0.0.1:8000/v1"),
        ("builtin:other", "builtin:autotune"),
    ],
)
def test_a_newcomer_is_told_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve(text, connections=Connections.from_environment(KEYS))
    assert advice in caught.value.advice and caught.value.message


@given(
    st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True).filter(lambda p: p not in ("replay", "builtin")),
    st.from_regex(r"[A-Za-z0-9._:/-]{1,20}", fullmatch=True),
    st.none() | st.sampled_from(EFFORTS),
)
def test_a_name_reads_back_as_it_was_written(provider: str, model: str, effort: str | None) -> None:
    spec = ModelSpec.model_validate({"provider": provider, "model": model, "effort": effort})
    assert parse_spec(str(spec)) == spec


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_is_explained(text: str) -> None:
    try:
        parse_spec(text)
    except UnknownModel as error:
        assert error.message and error.advice


def test_keys_and_addresses_come_from_the_environment_where_nothing_else_is_said() -> None:
    own = Connection(wire="chat", base_url="http://127.0.0.1:1/v1", key=SecretStr("mine"), key_env="OPENAI_API_KEY")
    environ = {**KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:2/v1", "ANTHROPIC_API_KEY": " sk-two\n"}
    found = Connections.from_environment(environ, {"own": own})
    assert found.of("openai").secret == "sk-one" and found.of("openai").base_url == "http://127.0.0.1:2/v1"
    assert found.of("anthropic").secret == "sk-two" and found.of("anthropic").base_url is None
    assert found.of("own").secret == "mine" and found.of("own").base_url == "http://127.0.0.1:1/v1"
    assert all(secret not in f"{found!r} {found.model_dump_json()}" for secret in ("sk-one", "sk-two", "mine"))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8000", "localhost/v1", "ftp://x/v1", "http://", "http:///v1", "http://a b"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    connections = Connections(providers={"own": Connection(wire="chat", base_url=address)})
    with pytest.raises(UnknownModel, match="no address"):
        resolve("own:m", connections=connections)


def test_an_endpoint_of_one_s_own_is_used_under_its_name() -> None:
    own = Connection(wire="messages", base_url="http://127.0.0.1:1", window=32_768, dialect="text", output=2_000)
    model = resolve("own:qwen3@low", connections=Connections(providers={"own": own}))
    assert isinstance(model, Interpreter)
    assert (model.name, model.window, model.dialects) == ("own:qwen3@low", 32_768, ("text",))


def test_a_window_is_the_connection_s_or_the_catalogue_s_or_a_default() -> None:
    connections = Connections.from_environment(KEYS)
    assert resolve("openai:never-heard-of", connections=connections).window == DEFAULT_WINDOW
    catalogue = Catalogue.with_prices()
    listed = {name: facts.window for name in catalogue.names if (facts := catalogue.of(name)).window}
    assert listed
    for name, window in listed.items():
        assert resolve(f"{name}@high", connections=connections).window == window
    small = connections.of("openai").model_copy(update={"window": 9_000})
    assert connect(ModelSpec(provider="openai", model="x"), small).window == 9_000


def test_openai_s_own_chat_is_asked_in_its_own_words() -> None:
    from agents.models.base import Message, Request
    from agents.models.registry import WIRES

    asked = Request(messages=(Message(speaker="user", text="u"),), reply_tokens=5_000, cache_key="k")
    spec = ModelSpec(provider="openai-chat", model="m")
    connection = BUILT_IN["openai-chat"]
    for address, field in (
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("http://127.0.0.1:1/v1", "max_tokens"),
    ):
        body = WIRES["chat"](spec, connection.model_copy(update={"base_url": address})).body(asked)
        assert body[field] == 5_000 and ("prompt_cache_key" in body) == ("openai" in address)
    chosen = connection.model_copy(update={"base_url": "http://x/v1", "output_field": "max_completion_tokens"})
    assert WIRES["chat"](spec, chosen).body(asked)["max_completion_tokens"] == 5_000
