"""`replay:PATH`: a model that says again what a recording holds, without a network and without money.

PATH is one of

- a run's folder or its `transcript/`: one JSON-lines file a turn, named `ITERATION-ROLE[-SLOT]` (`0003-coder-1.jsonl`).
  Lines whose `speaker` is `assistant` are replies; others are passed over. A new turn of a role takes the role's next
  file, in the order of their names.
- a JSON-lines file of replies, each an `agents.models.base.Reply` or a part of one, and a `role` beside it (`planner`,
  `coder`, `analyst`, `summary`). Where there is none, a reply that proposes is the planner's, one that diagnoses the
  analyst's, any other the coder's. Each role gets its own in their order.

Nothing is compared with what was asked when the recording was made, and a resumed run begins it anew. Reasoning is not
part of a recording. Tokens are told as they were recorded, and cost nothing.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from agents.models.base import Dialect, ModelUnavailable, OnText, Reply, Request
from agents.models.shapes import clean
from agents.models.spec import ModelSpec, UnknownModel

_TURN = re.compile(r"(\d+)-([a-z]+)(?:-(\d+))?(-summary)?")
_ENDS = {"propose": "planner", "diagnose": "analyst"}
"""Tools that only one role has."""


@dataclass
class Recording:
    """Replies in the order in which they are to be said: a role's turns, or just replies."""

    turns: dict[str, deque[list[Reply]]] = field(default_factory=dict)
    replies: dict[str, deque[Reply]] = field(default_factory=dict)


class Replay:
    """The model. A request without a word of the model begins a turn; a turn is known again by how it was opened."""

    window = 1_000_000
    dialects: tuple[Dialect, ...] = ("native",)

    def __init__(self, name: str, recording: Recording) -> None:
        self.name = name
        self._recording = recording
        self._begun: dict[tuple[str, str], deque[Reply]] = {}

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The next recorded reply. Raises ModelUnavailable at the recording's end."""
        role = _role(tool.name for tool in request.tools) if request.tools else "summary"
        queue = self._queue(role, request)
        if not queue:
            raise ModelUnavailable(
                f"the recording {self.name.partition(':')[2]} has no further reply for the {role}",
                "Go on with another model.",
            )
        reply = queue.popleft()
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply.model_copy(update={"usage": reply.usage.model_copy(update={"dollars": 0.0}), "model": self.name})

    async def aclose(self) -> None:
        """Nothing is open."""

    def _queue(self, role: str, request: Request) -> deque[Reply]:
        recording = self._recording
        if not recording.turns:
            return recording.replies.get(role, deque())
        opening = next((i for i, m in enumerate(request.messages) if m.speaker == "assistant"), len(request.messages))
        key = (role, request.messages[opening - 1].text if opening else "")
        if opening == len(request.messages) or key not in self._begun:
            left = recording.turns.get(role)
            self._begun[key] = deque(left.popleft()) if left else deque()
        return self._begun[key]


def open_replay(spec: ModelSpec) -> Replay:
    """The model that plays the recording at `spec.model`. Raises UnknownModel when there is none."""
    path = Path(spec.model).expanduser()
    folder = path / "transcript" if (path / "transcript").is_dir() else path
    recording = Recording()
    try:
        if folder.is_dir():
            _read_turns(folder, recording)
        else:
            for role, reply in _replies(folder, True):
                recording.replies.setdefault(role, deque()).append(reply)
    except (OSError, UnicodeDecodeError) as error:
        raise UnknownModel(
            f"the recording {path} can't be read: {error}", "Name a run's folder, its transcript or a file of replies."
        ) from error
    if not recording.turns and not recording.replies:
        raise UnknownModel(f"the recording {path} holds no reply", "Name a run that spoke with a model.")
    return Replay(str(spec), recording)


def _read_turns(folder: Path, recording: Recording) -> None:
    files = [(found, path) for path in folder.glob("*.jsonl") if (found := _TURN.fullmatch(path.stem))]
    for found, path in sorted(files, key=lambda pair: (int(pair[0][1]), int(pair[0][3] or 0), pair[1].name)):
        role = "summary" if found[4] else found[2]
        recording.turns.setdefault(role, deque()).append([reply for _, reply in _replies(path, False)])


def _replies(path: Path, bare: bool) -> Iterator[tuple[str, Reply]]:
    """The replies in a file, each with its role. bare: a line without a speaker is a reply too. A torn last line, left
    by a kill, is passed over."""
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("it is no object")
            if value.get("speaker", "assistant" if bare else "") != "assistant":
                continue
            said = {name: part for name, part in value.items() if name in Reply.model_fields and name != "opaque"}
            reply = _cleaned(Reply.model_validate(said))
            yield str(value.get("role") or _role(call.name for call in reply.tool_calls)), reply
        except (ValueError, ValidationError, RecursionError) as error:
            if number == len(lines):
                return
            reason = str(error).splitlines()[0]
            raise UnknownModel(f"line {number} of {path} is no recorded reply: {reason}") from error


def _cleaned(reply: Reply) -> Reply:
    calls = tuple(call.model_copy(update={"arguments": clean(call.arguments)}) for call in reply.tool_calls)
    return reply.model_copy(update={"text": clean(reply.text), "tool_calls": calls})


def _role(tools: Iterable[str]) -> str:
    """Whose turn it is, by the tools that are offered or called."""
    return next((_ENDS[tool] for tool in tools if tool in _ENDS), "coder")
