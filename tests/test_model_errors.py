"""Every fault of a provider, over real HTTP on each wire: what it means, how long to wait, what it cost."""

from __future__ import annotations

import asyncio
import email.utils
import json
import socket
import time
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.models import errors
from agents.models.base import Message, ModelError, ModelFault, Reply, Request, ToolSpec
from agents.models.connections import Connection, Connections
from agents.models.error_table import TABLE, FormatUnsupported, StaleReasoning
from agents.models.registry import WIRES as WIRES_OF_OURS
from agents.models.registry import resolve
from agents.models.spec import ModelSpec
from tests.llm_frames import frames
from tests.llm_server import PROVIDER_OF, WIRES, Answer, Call, Fault, LlmServer, Tokens, Wire, breaks, status

ASKED = Request(
    messages=(Message(speaker="system", text="s"), Message(speaker="user", text="u")),
    tools=(ToolSpec(name="run", description="", parameters={"type": "object", "properties": {}}),),
)
BAD = "invalid_request_error"


async def failure(wire: Wire, fault: Fault, **changes: Any) -> tuple[ModelError, LlmServer]:
    """What `fault` becomes, after exactly one request."""
    with LlmServer() as server:
        server.faults.append(fault)
        changes = {"timeout": 5.0, "dialect": "native", **changes}
        model = resolve(f"{PROVIDER_OF[wire]}:m", connections=server.connections(**changes))
        try:
            with pytest.raises(ModelError) as caught:
                await model.reply(ASKED)
        finally:
            await model.aclose()
    assert len(server.requests) == 1, "no retry but ours"
    assert caught.value.message.startswith(f"{PROVIDER_OF[wire]}:m: ") and len(caught.value.message) < 700
    return caught.value, server


STATUSES: dict[str, tuple[Fault, ModelFault]] = {
    "429": (status(429, type="rate_limit_error"), "transient"),
    "429 without a body": (status(429, body=""), "transient"),
    "429 quota": (status(429, type="insufficient_quota", code="insufficient_quota"), "quota"),
    "429 quota in words": (status(429, type="x", message="You exceeded your current quota, see billing"), "quota"),
    "429 quota of a minute": (
        status(429, type="x", message="You exceeded your current quota. Please retry in 31.5s."),
        "transient",
    ),
    "429 not to be retried": (status(429, {"x-should-retry": "false"}, type="rate_limit_error"), "quota"),
    "429 larger than the rate": (
        status(429, code="rate_limit_exceeded", message="Request too large for m on tokens per min (TPM): Limit 9"),
        "overflow",
    ),
    "529": (status(529, type="overloaded_error"), "transient"),
    "500": (status(500, type="api_error"), "transient"),
    "502 page": (status(502, {"content-type": "text/html"}, body="<html><h1>Bad gateway</h1></html>"), "transient"),
    "503": (status(503, type="server_error"), "transient"),
    "504": (status(504, type="timeout_error"), "transient"),
    "408": (status(408), "transient"),
    "401": (status(401, type="authentication_error"), "auth"),
    "401 without a body": (status(401, body=""), "auth"),
    "400 key": (status(400, type=BAD, message="API key not valid: invalid api key"), "auth"),
    "402": (status(402, type="x", message="Insufficient credits"), "quota"),
    "400 billing": (status(400, type=BAD, message="Your credit balance is too low to access the API"), "quota"),
    "403": (status(403, type="permission_error"), "auth"),
    "403 moderation": (status(403, type="x", message="Your input was flagged"), "refusal"),
    "400 policy": (status(400, type=BAD, code="content_policy_violation"), "refusal"),
    "404": (status(404, type="not_found_error", code="model_not_found"), "bad_request"),
    "413": (status(413, type="request_too_large"), "overflow"),
    "400": (status(400, type=BAD, message="messages.0: bad"), "bad_request"),
    "422": (status(422, body='{"detail": "field required"}'), "bad_request"),
    "400 to be retried": (status(400, {"x-should-retry": "true"}, type=BAD), "transient"),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", STATUSES)
async def test_a_status_means(wire: Wire, name: str) -> None:
    fault, meaning = STATUSES[name]
    error, _ = await failure(wire, fault)
    assert error.fault == meaning
    assert error.advice and error.usage is None


OVERFLOWS = {
    "openai chat": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001.",
    "openai responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "anthropic with reply": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease",
    "vllm": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the "
    "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
    "vllm reply": "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens "
    "and your prompt contains at least 62466 input tokens, for a total of at least 128001 tokens.",
    "vllm engine": "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    "llama.cpp": "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "llama.cpp later": "Context size has been exceeded.",
    "llama-cpp-python": "Requested tokens (2285) exceed context window of 2048",
    "ollama": "prompt too long; exceeded max context length by 4 tokens",
    "ollama embed": "the input length exceeds the context length",
    "openrouter": "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens",
    "sglang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "gemini": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "grok": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "groq": "Please reduce the length of the messages or completion.",
    "bedrock": "Input is too long for requested model.",
    "tgi": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 16 `max_new_tokens`",
    "lm studio": "The number of tokens to keep from the initial prompt is greater than the context length.",
}
OTHERS = {
    "rate": "This request would exceed your organization's rate limit of 40,000 input tokens per minute; please reduce "
    "the prompt length or the maximum tokens requested, or try again later.",
    "parameter": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
    "string": "Invalid type for 'input': expected a string, got an object.",
}


@pytest.mark.parametrize("name", OVERFLOWS)
async def test_a_prompt_that_is_too_long_is_known_by_whatever_words(name: str) -> None:
    error, _ = await failure("chat", status(400, type=BAD, message=OVERFLOWS[name]))
    assert error.fault == "overflow" and OVERFLOWS[name][:40].split(".")[0] in error.message


@pytest.mark.parametrize("name", OTHERS)
def test_other_words_are_no_overflow(name: str) -> None:
    body = {"error": {"message": OTHERS[name], "type": "rate_limit_error" if name == "rate" else BAD}}
    assert errors.from_body(body, "m").fault == ("transient" if name == "rate" else "bad_request")


async def test_llama_cpp_s_counts_are_told() -> None:
    body = {
        "error": {
            "code": 400,
            "message": "too long",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 9,
            "n_ctx": 8,
        }
    }
    error, _ = await failure("chat", status(400, body=json.dumps(body)))
    assert error.fault == "overflow" and "n_ctx: 8" in error.message


@pytest.mark.parametrize("wire", WIRES)
async def test_a_wrong_effort_is_told_apart(wire: Wire) -> None:
    wording = "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model."
    error, _ = await failure(wire, status(400, type=BAD, message=wording))
    assert error.fault == "bad_request" and "@effort" in error.advice


@pytest.mark.parametrize(
    "wording",
    [
        "registry.ollama.ai/library/gemma does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tools param requires --jinja flag",
        'No endpoints found that support tool use. Try disabling "run".',
        "Tool calling is not supported with this model",
        "`response_format` of type json_schema is not supported by this model",
    ],
)
def test_a_server_without_tools_is_told_apart(wording: str) -> None:
    error = errors.from_body({"error": {"message": wording, "type": BAD}}, "m")
    assert isinstance(error, FormatUnsupported) and "dialect" in error.advice


@pytest.mark.parametrize(
    "wording",
    [
        "The encrypted content for item rs_0a could not be verified.",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "Item 'rs_68' of type 'reasoning' was provided without its required following item.",
    ],
)
def test_reasoning_that_is_not_taken_back_is_told_apart(wording: str) -> None:
    assert isinstance(errors.from_body({"error": {"message": wording, "type": BAD}}, "m"), StaleReasoning)


# How long to wait.


WAITS: list[tuple[dict[str, str], str, float | None]] = [
    ({}, "slow down", None),
    ({"retry-after": "7"}, "", 7.0),
    ({"retry-after": "0.25"}, "", 0.25),
    ({"retry-after-ms": "1500", "retry-after": "7"}, "", 1.5),
    ({"retry-after": "-3"}, "", 0.0),
    ({"retry-after": "nan"}, "", None),
    ({"retry-after": "soon"}, "", None),
    ({"retry-after": "86400"}, "", 86400.0),
    ({}, "Rate limit reached for m. Please try again in 1m2.5s.", 62.5),
    ({}, "Please try again in 850ms.", 0.85),
]


@pytest.mark.parametrize("wire", WIRES)
async def test_the_wait_is_what_the_provider_asks_for(wire: Wire) -> None:
    with LlmServer() as server:
        server.faults.extend(status(429, h, type="rate_limit_error", message=message) for h, message, _ in WAITS)
        model = resolve(f"{PROVIDER_OF[wire]}:m", connections=server.connections())
        waits = []
        for _ in WAITS:
            with pytest.raises(ModelError) as caught:
                await model.reply(ASKED)
            waits.append(caught.value.retry_after)
        await model.aclose()
    assert waits == [seconds for _, _, seconds in WAITS]


async def test_the_wait_may_be_a_date() -> None:
    later = email.utils.formatdate(time.time() + 3600, usegmt=True)
    error, _ = await failure("messages", status(429, {"retry-after": later}, type="rate_limit_error"))
    past, _ = await failure("chat", status(503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}))
    assert error.retry_after is not None and 0 < error.retry_after <= 3600
    assert past.retry_after == 0.0


# Streams that break.


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", ["truncated", "malformed", "wrong_shape", "disconnect", "stall", "html"])
async def test_a_broken_stream_is_never_a_short_answer(wire: Wire, kind: str) -> None:
    fault = breaks(kind, answer=Answer("a reply that is broken off " * 5, tokens=Tokens(500, 70, cached=300)))
    error, server = await failure(wire, fault, timeout=0.5 if kind == "stall" else 5.0)
    assert error.fault == "transient"
    assert (error.usage.input_tokens if error.usage else 0) == server.total.input
    assert (error.usage.output_tokens if error.usage else 0) == server.total.output


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("kind", "code", "meaning"),
    [
        ("overloaded_error", None, "transient"),
        ("rate_limit_error", "rate_limit_exceeded", "transient"),
        ("server_error", "server_error", "transient"),
        ("insufficient_quota", "insufficient_quota", "quota"),
        ("invalid_request_error", "context_length_exceeded", "overflow"),
        ("invalid_request_error", "content_filter", "refusal"),
        ("authentication_error", None, "auth"),
        ("never_heard_of", None, "transient"),
    ],
)
async def test_an_error_within_a_stream_is_known_by_type_and_code(
    wire: Wire, kind: str, code: str | None, meaning: str
) -> None:
    error, _ = await failure(wire, breaks("error_event", type=kind, code=code))
    assert error.fault == meaning and "it broke" in error.message


async def test_responses_may_tell_an_error_as_an_event_of_its_own() -> None:
    body = {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}
    assert errors.from_body(body, "m").fault == "transient"


async def test_openrouter_s_error_in_a_chunk_is_known_by_its_code() -> None:
    body = {"error": {"code": 402, "message": "no", "metadata": {"raw": "upstream said so"}}}
    error = errors.from_body(body, "m")
    assert error.fault == "quota" and "upstream said so" in error.message


async def test_a_slow_drip_that_finishes_is_a_reply() -> None:
    """Each pause is shorter than the stall's bound; all of them together are longer."""
    text = "π and 😀, in the middle of whose bytes a piece ends"
    with LlmServer() as server:
        server.faults.extend([breaks("drip", answer=Answer(text), gap=0.4)] * len(WIRES))
        connections = server.connections(timeout=1.5)
        models = [resolve(f"{PROVIDER_OF[wire]}:m", connections=connections) for wire in WIRES]
        replies = await asyncio.gather(*(model.reply(ASKED) for model in models))
        for model in models:
            await model.aclose()
    assert [reply.text for reply in replies] == [text] * len(WIRES)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_as_a_whole_is_bounded_in_time(wire: Wire) -> None:
    error, server = await failure(wire, breaks("stall"), timeout=30.0, total_timeout=0.5)
    assert error.fault == "transient" and "0.5 s" in error.message
    assert await asyncio.to_thread(server.requests[0].left.wait, 10)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_breaks_off_after_the_finish_marker_gave_a_reply(wire: Wire) -> None:
    with LlmServer() as server:
        server.faults.append(breaks("late_disconnect", answer=Answer("all of it")))
        model = resolve(f"{PROVIDER_OF[wire]}:m", connections=server.connections())
        assert (await model.reply(ASKED)).text == "all of it"
        await model.aclose()


async def test_an_error_with_status_200_is_an_error() -> None:
    body = json.dumps({"error": {"message": "No credits", "code": 402}})
    error, _ = await failure("chat", breaks("html", body=body, headers={"content-type": "application/json"}))
    assert error.fault == "quota"


async def test_a_page_with_status_200_says_what_to_look_at() -> None:
    error, _ = await failure("chat", breaks("html"))
    assert "/v1" in error.advice and "text/html" in error.message


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_is_not_there(wire: Wire) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        connections = LlmServer().connections(base_url=address)
        model = resolve(f"{PROVIDER_OF[wire]}:m", connections=connections)
        with pytest.raises(ModelError) as caught:
            await model.reply(ASKED)
        await model.aclose()
    assert caught.value.fault == "transient" and "can't be reached" in caught.value.message


# Events of another shape than they should have.

JUNK = st.sampled_from(
    [None, True, -1, 7, 1e9, "x", "", [], [None], {}, {"type": 7}, [{"text": 1}], {"usage": "x"}, 10**30]
)
WHOLE = Answer("some text", (Call("run", {"a": 1}), Call("run", {})), reasoning="hm")


def damaged(value: Any, path: list[int], junk: Any) -> Any:
    """`value` with `junk` at one place, which `path` leads to."""
    if not path or not isinstance(value, (dict, list)) or not value:
        return junk
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, copy = keys[path[0] % len(keys)], value.copy()
    copy[key] = damaged(copy[key], path[1:], junk)
    return copy


@pytest.mark.parametrize("wire", WIRES)
@given(damages=st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 9), max_size=5), JUNK), max_size=4))
@settings(max_examples=150, deadline=None)
def test_a_server_s_odd_events_never_break_us(wire: Wire, damages: list[tuple[int, list[int], Any]]) -> None:
    events: list[Any] = [payload for _, payload in frames(wire, WHOLE, 1)]
    for place, path, junk in damages:
        events[place % len(events)] = damaged(events[place % len(events)], path, junk)
    adapter = WIRES_OF_OURS[wire](ModelSpec(provider="p", model="m"), Connection(wire=wire))
    assembly = adapter.assembly()
    try:
        text = "".join(assembly.take(event) for event in events if isinstance(event, dict))
        reply = assembly.reply()
    except ModelError:
        return
    assert assembly.usage() is None or assembly.usage()
    Reply.model_validate_json(reply.model_dump_json())
    assert reply.text == text or reply.stop == "refused"
    assert not damages or adapter.body(Request(messages=(*ASKED.messages, reply.message)))
    if not damages:
        assert len(reply.tool_calls) == 2


# The table itself.


def test_every_fault_has_a_row_and_every_row_an_advice_or_a_reason() -> None:
    assert {row.fault for row in TABLE} == set(get_args(ModelFault))
    names = [name for row in TABLE for name in row.names]
    assert len(names) == len(set(names)), "a name in two rows would be decided by their order"


@given(
    st.dictionaries(
        st.sampled_from(["error", "type", "code", "message", "details", "metadata", "detail", "n_ctx"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["type", "code", "message", "raw", "error_code"]), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
)
@settings(max_examples=80, deadline=None)
def test_any_error_object_means_something(body: dict[str, Any]) -> None:
    error = errors.from_body(body, "m:x")
    assert error.fault in get_args(ModelFault) and error.message.startswith("m:x: ")


def test_a_model_without_a_key_names_the_variable() -> None:
    for provider, variable in (("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")):
        with pytest.raises(ModelError) as caught:
            resolve(f"{provider}:m", connections=Connections.from_environment({}))
        assert caught.value.fault == "auth" and variable in str(caught.value)


@pytest.mark.parametrize("key", ["sk-…", "sk-a b", "sk-a\x07"])
def test_a_key_that_can_be_none_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ModelError) as caught:
        resolve("openai:m", connections=Connections.from_environment({"OPENAI_API_KEY": key}))
    assert caught.value.fault == "auth" and key not in str(caught.value)
