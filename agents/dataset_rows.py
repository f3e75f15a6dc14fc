"""Lines of the four kinds of dataset, made of a run's turns. What each column means: docs/trajectories.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from pydantic import JsonValue

from agents.models.base import Message
from agents.rewards import Reward, Scale
from agents.trajectories import Call, Past, Turn

Row: TypeAlias = dict[str, JsonValue]


def chat(messages: Sequence[Message]) -> list[JsonValue]:
    """Messages in OpenAI's chat format. Neighbouring user's messages are one, as providers are sent them."""
    joined: list[Message] = []
    for message in messages:
        if joined and message.speaker == "user" and joined[-1].speaker == "user":
            joined[-1] = joined[-1].model_copy(update={"text": f"{joined[-1].text}\n\n{message.text}"})
        else:
            joined.append(message)
    return [said(message) for message in joined]


def said(message: Message) -> Row:
    """One message in OpenAI's chat format, with all columns of `agents.dataset_schema.CHAT`."""
    calls: list[JsonValue] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return {
        "role": message.speaker,
        "content": message.text,
        "tool_calls": calls or None,
        "tool_call_id": message.call,
    }


def origin(past: Past) -> Row:
    return {
        "run": past.run.id,
        "task": past.task,
        "target": str(past.facts.get("target", "")) or None,
        "chip": past.chip or None,
    }


def worth(reward: Reward | None, speedup: float | None) -> Row:
    """What was earned: nulls for what was not judged."""
    return {
        "reward_steps": None if reward is None else reward.steps,
        "reward_continuous": None if reward is None else reward.continuous,
        "speedup": speedup,
    }


def best_speedup(past: Past, attempts: Sequence[str]) -> float | None:
    """Over the baseline, of the fastest of the accepted attempts."""
    found = [past.attempts[name].speedup for name in attempts if name in past.attempts]
    return max((speedup for speedup in found if speedup is not None), default=None)


def sft(past: Past, turn: Turn) -> Iterator[Row]:
    """A conversation for each stretch of the turn in which nothing was taken out of the prompt."""
    earned = worth(past.best_reward(turn.attempts), best_speedup(past, turn.attempts))
    for i, call in enumerate(turn.calls):
        goes_on = i + 1 < len(turn.calls) and turn.calls[i + 1].fresh < len(turn.calls[i + 1].prompt)
        if not goes_on:
            yield {
                "messages": chat((*call.prompt, call.reply.message)),
                "tools": tools_of(turn.role),
                **origin(past),
                **_about(turn, call),
                **earned,
            }


def rl(past: Past, turn: Turn, scale: Scale) -> Iterator[Row]:
    """The turn as an episode: an observation and an action for each call. A call that had nothing judged earns 0."""
    for i, call in enumerate(turn.calls):
        owned = turn.owned_by(i)
        reward = past.best_reward(owned)
        yield {
            "episode": f"{past.run.id}/{turn.name}",
            "step": i,
            "observation": chat(call.prompt[len(call.prompt) - call.fresh :]),
            "begins_anew": call.fresh == len(call.prompt),
            "action": said(call.reply.message),
            "reward": 0.0 if reward is None else reward.on(scale),
            "done": i + 1 == len(turn.calls),
            "tools": tools_of(turn.role),
            **origin(past),
            **_about(turn, call),
            **worth(reward, best_speedup(past, owned)),
        }


def trajectory(past: Past, turn: Turn) -> Iterator[Row]:
    """Every call with its whole prompt, message by message."""
    for i, call in enumerate(turn.calls):
        usage = call.reply.usage
        owned = turn.owned_by(i)
        prompt: list[JsonValue] = [{"label": message.label or None, **said(message)} for message in call.prompt]
        results: list[JsonValue] = [
            {"call": result.call, "tool": result.tool, "content": result.text} for result in call.results
        ]
        yield {
            **origin(past),
            **_about(turn, call),
            "call": i,
            "prompt": prompt,
            "prompt_is_exact": call.exact,
            "reply": said(call.reply.message),
            "stop": call.reply.stop,
            "results": results,
            "attempts": [_attempt(past, name) for name in owned],
            **worth(past.best_reward(owned), best_speedup(past, owned)),
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached_tokens": usage.cached_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
                "dollars": usage.dollars,
            },
        }


def tools_of(role: str) -> str:
    """The manuals of a role's tools as JSON text, in OpenAI's format; those of the warpsmith that writes."""
    from agents.actions import TOOLS

    specs = [tool.spec for name, tools in TOOLS.items() if name == role for tool in tools]
    return json.dumps([{"type": "function", "function": spec.model_dump(mode="json")} for spec in specs])


def _about(turn: Turn, call: Call) -> Row:
    return {"turn": turn.name, "role": turn.role, "iteration": turn.iteration, "model": call.model or None}


def _attempt(past: Past, name: str) -> Row:
    attempt = past.attempts[name]
    return {
        "id": attempt.id,
        "parent": attempt.parent,
        "outcome": attempt.outcome,
        "share_of_limit": attempt.share_of_limit,
        **worth(past.reward(name), attempt.speedup),
    }
