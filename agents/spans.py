"""From a run's events to spans: run > iteration > a role's turn > model calls, tool calls, evaluations.

Names are those of OpenTelemetry's conventions for generative AI, as of semantic-conventions-genai 0.1.0
(https://github.com/open-telemetry/semantic-conventions-genai); what they have no name for is `warpsmith.…`. Only names,
counts, times and money become attributes: no text that a model, a person, a kernel or a server wrote.

A span's beginning follows from its event, which comes when it ends and says how long it took. Not covered: spans that
were open when their process was killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from pydantic import JsonValue

from agents.events import Event
from agents.models.spec import UnknownModel, parse_spec

Attributes: TypeAlias = dict[str, str | bool | int | float | list[str]]
Fields: TypeAlias = Mapping[str, JsonValue]

IN_PROCESS: Final = ("builtin", "replay")
"""Providers whose models run in this process."""
PROVIDERS: Final[dict[str, str]] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "openai-chat": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers that have another name here; the rest keep theirs."""
FINISHED: Final[dict[str, str]] = {
    "done": "stop",
    "tools": "tool_call",
    "length": "length",
    "refused": "content_filter",
}
"""The conventions' words for why a reply ended (their FinishReason)."""
_TOKENS: Final[dict[str, str]] = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
_ALWAYS: Final = ("input_tokens", "output_tokens")
"""The others only where there were some."""


@dataclass
class _Turn:
    span: Span
    last: int
    """When something happened in it, nanoseconds since 1970."""


class Spans:
    """Makes spans of the events that it hears. Belongs to one run."""

    def __init__(self, tracer: Tracer, now: Callable[[], int] = time.time_ns) -> None:
        self._tracer = tracer
        self._now = now
        self._run: Span | None = None
        self._iteration: tuple[int, Span] | None = None
        self._left = 0
        """The last iteration that is over."""
        self._turns: dict[str, _Turn] = {}
        self._begun: dict[str, int] = {}
        """Calls to models, and when they were first tried."""
        self._kinds: dict[str, Callable[[Event, int], None]] = {
            "run_started": self._run_begins,
            "run_resumed": self._run_begins,
            "task_opened": self._task_opened,
            "iteration_ended": self._iteration_ended,
            "model_called": self._model_called,
            "model_failed": self._model_failed,
            "model_retried": self._model_retried,
            "tool_called": self._tool_called,
            "attempt_judged": self._attempt_judged,
            "run_ended": self._run_ended,
            "run_failed": self._run_failed,
        }

    def hear(self, event: Event) -> None:
        """Take in one event, at the moment it is told."""
        now = self._now()
        self._enter_iteration(event, now)
        if event.event in self._kinds:
            self._kinds[event.event](event, now)

    def close(self) -> None:
        """End all that is still open."""
        now = self._now()
        self._leave_iteration(now)
        if self._run is not None:
            self._run.end(now)
            self._run = None

    def _run_begins(self, event: Event, now: int) -> None:
        self._run = self._span("invoke_workflow warpsmith", event, now, None, operation="invoke_workflow")
        about: Attributes = {"gen_ai.agent.name": "warpsmith", "warpsmith.resumed": event.event == "run_resumed"}
        self._run.set_attributes(about | _given(event.fields, "target", "parallel"))

    def _run_ended(self, event: Event, now: int) -> None:
        if self._run is not None:
            figures = ("iterations", "attempts", "kept", "best", "seconds", "share_of_limit", "speedup")
            reason: Attributes = {"warpsmith.stop_reason": str(event.fields.get("reason"))}
            self._run.set_attributes(reason | _given(event.fields, *figures))
        self._leave_iteration(now)

    def _run_failed(self, event: Event, now: int) -> None:
        self._leave_iteration(now)
        if self._run is not None:
            _fail(self._run, event.fields.get("error"))

    def _task_opened(self, event: Event, now: int) -> None:
        span = self._span("open task", event, _before(now, event.fields, "seconds"), self._run)
        span.set_attributes(_given(event.fields, "sandbox"))
        span.end(now)

    def _enter_iteration(self, event: Event, now: int) -> None:
        """Begin the iteration of an event, if it is another one. 0, the starting kernel, belongs to the run alone."""
        number = event.fields.get("iteration", event.bound.get("iteration"))
        if not isinstance(number, int) or number <= self._left or (self._iteration or (0,))[0] == number:
            return
        self._leave_iteration(now)
        span = self._span("iteration", event, _beginning(event, now), self._run)
        span.set_attribute("warpsmith.iteration", number)
        self._iteration = (number, span)

    def _leave_iteration(self, now: int) -> None:
        for turn in self._turns.values():
            turn.span.end(turn.last)
        self._turns, self._begun = {}, {}
        if self._iteration is not None:
            self._left = self._iteration[0]
            self._iteration[1].end(now)
        self._iteration = None

    def _iteration_ended(self, event: Event, now: int) -> None:
        if self._iteration is not None:
            figures = ("best", "seconds", "share_of_limit", "attempts", "stale", "harness_seconds")
            self._iteration[1].set_attributes(_given(event.fields, *figures))
        self._leave_iteration(now)

    def _model_retried(self, event: Event, now: int) -> None:
        self._begun.setdefault(str(event.fields["call"]), _before(now, event.fields, "seconds"))

    def _model_called(self, event: Event, now: int) -> None:
        span = self._chat(event, now)
        reason = FINISHED.get(str(event.fields.get("stop")), "error")
        span.set_attribute("gen_ai.response.finish_reasons", [reason])
        span.end(now)

    def _model_failed(self, event: Event, now: int) -> None:
        span = self._chat(event, now)
        _fail(span, event.fields.get("fault"))
        span.end(now)

    def _chat(self, event: Event, now: int) -> Span:
        fields = event.fields
        began = self._begun.pop(str(fields["call"]), _before(now, fields, "seconds"))
        parent = self._parent(event, began, now)
        about = model_attributes(str(fields.get("model")))
        remote = about["gen_ai.provider.name"] not in IN_PROCESS
        span = self._span(
            f"chat {about['gen_ai.request.model']}",
            event,
            began,
            parent,
            operation="chat",
            kind=SpanKind.CLIENT if remote else SpanKind.INTERNAL,
        )
        used = {told: fields[ours] for ours, told in _TOKENS.items() if isinstance(fields.get(ours), int)}
        kept = {told: int(str(n)) for told, n in used.items() if n or told in [_TOKENS[name] for name in _ALWAYS]}
        stream: Attributes = {"gen_ai.request.stream": True} if remote else {}
        span.set_attributes(about | stream | kept | _conversation(event) | _given(fields, "dollars", "tries", "call"))
        return span

    def _tool_called(self, event: Event, now: int) -> None:
        fields = event.fields
        began = _before(now, fields, "seconds")
        name = str(fields.get("tool"))
        span = self._span(
            f"execute_tool {name}", event, began, self._parent(event, began, now), operation="execute_tool"
        )
        span.set_attributes({"gen_ai.tool.name": name, "gen_ai.tool.type": "function"})
        if fields.get("error") is not None:
            _fail(span, fields["error"])
        span.end(now)

    def _attempt_judged(self, event: Event, now: int) -> None:
        fields = event.fields
        began = _before(now, fields, "device_seconds")
        span = self._span("evaluate", event, began, self._parent(event, began, now))
        score = fields.get("speedup")
        about: Attributes = {
            "gen_ai.evaluation.name": "speedup",
            "gen_ai.evaluation.score.label": str(fields.get("outcome")),
        }
        if isinstance(score, int | float):
            about["gen_ai.evaluation.score.value"] = float(score)
        figures = ("attempt", "parent", "kernel", "seconds", "share_of_limit", "stage", "reason")
        span.set_attributes(about | _given(fields, *figures))
        if fields.get("outcome") == "unjudged":
            _fail(span, "unjudged")
        span.end(now)

    def _parent(self, event: Event, began: int, now: int) -> Span | None:
        """The turn in which it happened, which begins with the first thing that did; else the iteration, else the
        run."""
        outer = self._run if self._iteration is None else self._iteration[1]
        name, role = event.bound.get("turn"), event.fields.get("role", event.bound.get("role"))
        if name is None or role is None:
            return outer
        turn = self._turns.get(str(name))
        if turn is None:
            span = self._span(f"invoke_agent {role}", event, began, outer, operation="invoke_agent")
            about: Attributes = {"gen_ai.agent.name": str(role), "warpsmith.turn": str(name)}
            span.set_attributes(about | _conversation(event))
            turn = self._turns[str(name)] = _Turn(span, now)
        turn.last = now
        return turn.span

    def _span(
        self,
        name: str,
        event: Event,
        began: int,
        parent: Span | None,
        *,
        operation: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        around = event.bound | event.fields
        about: Attributes = {f"warpsmith.{name}": str(around[name]) for name in ("run", "task") if name in around}
        if operation is not None:
            about["gen_ai.operation.name"] = operation
        inside = Context() if parent is None else set_span_in_context(parent, Context())
        return self._tracer.start_span(name, inside, kind=kind, attributes=about, start_time=began)


def model_attributes(spec: str) -> Attributes:
    """What the conventions say of a model that is named `provider:model[@effort]`."""
    try:
        named = parse_spec(spec)
    except UnknownModel:
        return {"gen_ai.provider.name": "unknown", "gen_ai.request.model": spec}
    about: Attributes = {
        "gen_ai.provider.name": PROVIDERS.get(named.provider, named.provider),
        "gen_ai.request.model": named.model,
    }
    return about if named.effort is None else about | {"gen_ai.request.reasoning.level": named.effort}


def _conversation(event: Event) -> Attributes:
    run, turn = event.bound.get("run"), event.bound.get("turn")
    return {"gen_ai.conversation.id": f"{run}/{turn}"} if turn is not None else {}


def _given(fields: Fields, *names: str) -> Attributes:
    """These fields as attributes, as far as there are some."""
    return {
        f"warpsmith.{name}": value for name in names if isinstance(value := fields.get(name), str | bool | int | float)
    }


def _before(now: int, fields: Fields, name: str) -> int:
    """So many seconds earlier; nanoseconds since 1970."""
    seconds = fields.get(name)
    return now - int(seconds * 1e9) if isinstance(seconds, int | float) else now


def _beginning(event: Event, now: int) -> int:
    """When what an event tells of began."""
    name = "device_seconds" if event.event == "attempt_judged" else "seconds"
    told_at_its_end = event.event in ("attempt_judged", "model_called", "model_failed", "model_retried", "tool_called")
    return _before(now, event.fields, name) if told_at_its_end else now


def _fail(span: Span, why: JsonValue) -> None:
    span.set_attribute("error.type", str(why))
    span.set_status(Status(StatusCode.ERROR))
