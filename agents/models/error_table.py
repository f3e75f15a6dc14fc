"""The table of what goes wrong with models: the first row that fits decides what it means.

A row fits by the provider's own type or code, by HTTP status, or by words. Types and codes come from openai 3.57 and
anthropic 2.14 (`ErrorType`, `ResponseError.code`, `*_error_details`) and from what vLLM, llama.cpp, Ollama, OpenRouter
and other servers are known to answer, words being all that some of them give.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from agents.models.base import ModelError, ModelFault


class FormatUnsupported(ModelError):
    """The server can't do what the request's dialect needs: tools, or text held to a schema."""


class StaleReasoning(ModelError):
    """The provider does not take back the reasoning that was sent along, which it may have issued to another key."""


@dataclass(frozen=True)
class Trouble:
    """What a provider said went wrong, whoever wrapped it. `status` is None where none came, as within a stream."""

    status: int | None = None
    names: tuple[str, ...] = ()
    """Its type and codes."""
    message: str = ""
    retry_after: float | None = None
    """Seconds."""
    retry: bool | None = None
    """What `x-should-retry` says."""


@dataclass(frozen=True)
class Row:
    fault: ModelFault
    what: str
    """What happened, after the model's name."""
    names: Collection[str] = ()
    statuses: Collection[int] = ()
    words: str = ""
    """A regular expression that is searched in the provider's message, whatever its case."""
    advice: str = ""
    kind: type[ModelError] = ModelError

    def fits(self, trouble: Trouble) -> bool:
        return (
            any(name in self.names for name in trouble.names)
            or trouble.status in self.statuses
            or bool(self.words and re.search(self.words, trouble.message, re.IGNORECASE))
        )


TABLE: tuple[Row, ...] = (
    Row(
        "overflow",
        "the prompt is longer than its window",
        names=(
            "context_length_exceeded",
            "exceed_context_size_error",
            "model_context_window_exceeded",
            "request_too_large",
            "string_above_max_length",
            "request_body_too_large_after_decoding",
        ),
        statuses=(413,),
        words=(
            r"maximum (context|prompt|model) length|exceeds? (the|this) (context window|available context)"
            r"|exceeds? (the |this )?(max\w* |model'?s? )?context (length|window|size)"
            r"|context[ _](length|size|window)( has been)? exceed"
            r"|exceeds? context limit|longer than the model'?s context|prompt is too long|prompt too long"
            r"|input is too long for|input token count.*exceeds the maximum|exceed context window"
            r"|greater than the context length|max_new_tokens` must be|too large for model with \d+ maximum context"
            r"|reduce the length of the (messages|input|prompt)|request too large for .* tokens per min"
        ),
        advice="Shorten the prompt, or set the model's window in warpsmith.toml.",
    ),
    Row(
        "bad_request",
        "it does not take back its earlier reasoning",
        names=("invalid_encrypted_content", "thinking_signature_invalid"),
        words=(
            r"encrypted content .*(could not|cannot|can't) be|invalid `?signature`? in `?thinking`?"
            r"|thinking` or `redacted_thinking` blocks .* cannot be modified|item '?rs_\w+'? .*(not found|without its)"
        ),
        kind=StaleReasoning,
    ),
    Row(
        "bad_request",
        "it can't speak of tools in this way",
        words=(
            r"does not support (tools?|function)|support tool use|tools? (calling|use|choice)?\s?(is|are) not supported"
            r"|enable-auto-tool-choice|requires --jinja|unrecognized request argument.*: (tools|response_format|text)"
            r"|(response_format|json_schema|output_config\.format|text\.format|structured outputs?)\S* .*not supported"
            r"|does not support (response_format|json_schema|structured output|output format)"
            r"|(response_format|json_schema|output_config)\S* .*not (permitted|allowed)"
            r"|unsupported (parameter|value): '?(tools|response_format|text\.format)"
        ),
        advice='Set `dialect = "json"` or `"text"` for its endpoint in warpsmith.toml.',
        kind=FormatUnsupported,
    ),
    Row(
        "quota",
        "the account's money or allowance is used up",
        names=(
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "enforced_spend_limit_reached",
            "contract_spend_limit_reached",
            "linked_organization_spend_limit_reached",
            "linked_organization_billing_unavailable",
            "user_profile_not_billable",
            "insufficient_credits",
        ),
        statuses=(402,),
        words=r"credit balance is too low|insufficient (credits?|funds|balance|quota)|spend(ing)? limit|your monthly",
        advice="Top it up or raise its limit, or name another model with --fallback.",
    ),
    Row(
        "transient",
        "it is asked too often",
        names=("rate_limit_error", "rate_limit_exceeded", "ramp_limit_exceeded", "slow_down"),
        words=r"(try again|retry) in \d|rate limit reached",
        advice="Wait, or ask for a higher rate limit.",
    ),
    Row(
        "quota",
        "the account's money or allowance is used up",
        words=r"exceeded your current quota|quota exceeded|check your plan and billing",
        advice="Top it up or raise its limit, or name another model with --fallback.",
    ),
    Row(
        "refusal",
        "it declines to answer this",
        names=(
            "content_policy_violation",
            "content_filter",
            "moderation_blocked",
            "bio_policy",
            "cyber_policy",
            "misalignment_policy_violation",
            "refusal",
        ),
        words=r"was flagged|usage polic|content management policy|safety (system|reasons)|violat\w+ .*polic",
        advice="Name another model with --fallback.",
    ),
    Row(
        "auth",
        "its key is missing, wrong or not allowed to do this",
        names=(
            "authentication_error",
            "permission_error",
            "invalid_api_key",
            "organization_on_hold",
            "region_not_supported",
            "unsupported_country_region_territory",
        ),
        statuses=(401, 403),
        words=r"(incorrect|invalid|missing) api[ -]?key|no api[ -]?key",
        advice="Check the key and what it may use.",
    ),
    Row(
        "bad_request",
        "it has no such model or address",
        names=("model_not_found", "not_found_error"),
        statuses=(404, 405, 410),
        advice="Check the model's name and the base URL, which ends in /v1 for most servers.",
    ),
    Row(
        "transient",
        "it is overloaded or out of order",
        names=(
            "overloaded_error",
            "api_error",
            "server_error",
            "internal_server_error",
            "internal_error",
            "timeout_error",
            "request_timeout",
            "conflict_error",
            "vector_store_timeout",
            "request_body_timeout",
        ),
        statuses=(408, 409, 425, 429, 499, *range(500, 600)),
        advice="Try again later.",
    ),
    Row(
        "bad_request",
        "it does not know this effort",
        words=r"reasoning[._ ]?effort|thinking|\beffort\b|does not support reasoning",
        advice="Leave out `@effort` behind the model's name, or name one that it knows.",
    ),
    Row(
        "bad_request",
        "it does not take this bound on the reply",
        words=r"max_tokens|max_completion_tokens|max_output_tokens",
        advice="Set `output` for its endpoint in warpsmith.toml, or try it as openai: where it is OpenAI's.",
    ),
    Row(
        "bad_request",
        "it does not accept the request",
        names=("invalid_request_error", "invalid_prompt"),
        statuses=range(400, 500),
        advice="Look at its endpoint's settings in warpsmith.toml, or name another model with --fallback.",
    ),
    Row("transient", "it broke off with an error", words=""),
)
"""Rows are tried from the first. The last fits whatever is left: an error without any sign of what it is."""
