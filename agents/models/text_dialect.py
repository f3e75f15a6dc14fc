"""Tools by plain text: a fenced block `tool NAME` with JSON arguments, and source code in `file PATH` blocks after it.

For models that follow neither native tools nor a schema. Code needs no escaping, which is where weak models fail.
prompts/tools_text.md is the format's documentation, and the model's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from agents.models.base import Dialect, Message, OnText, ToolSpec
from agents.models.conversation import Turn
from agents.models.written_calls import Written, as_call, dumps, loads, tagged, without_thoughts
from prompts.render import render

_FENCE = re.compile(r"[ \t]{0,3}(`{3,})([^`]*)$")
"""A line that opens or closes a fenced block: the fence, and what stands behind it."""
_PATH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+-]*")


@dataclass
class _Block:
    """A fenced block of ours. `about` is the tool's name or the file's path."""

    kind: str
    about: str
    fence: str
    lines: list[str] = field(default_factory=list)

    @property
    def body(self) -> str:
        return "\n".join(self.lines)


class Text:
    """The dialect."""

    name: Dialect = "text"

    def manual(self, tools: Sequence[ToolSpec]) -> str:
        shown = [{"name": t.name, "description": t.description, "schema": dumps(t.parameters)} for t in tools]
        return render("tools_text.md", tools=shown)

    def schema(self, tools: Sequence[ToolSpec]) -> dict[str, JsonValue] | None:  # noqa: ARG002
        """Replies are held to none."""
        return None

    def tell(self, turn: Turn) -> list[Message]:
        """A past reply as the model should have written it, and the results of its calls."""
        said = [turn.text] if turn.parts else []
        said += [written(call.name, call.parsed) for call in turn.called]
        told = [Message(speaker="assistant", text="\n\n".join(said))]
        results = [f"Result of `{call.name}`:\n{call.result}" for call in turn.called]
        return told + ([Message(speaker="user", text="\n\n".join(results))] if results else [])

    def read(self, text: str, tools: Sequence[ToolSpec], cut: bool) -> tuple[str, list[Written]]:  # noqa: ARG002
        """What a reply says and calls."""
        text = without_thoughts(text)
        by_name = {tool.name: tool for tool in tools}
        outside, calls = _Outside(), []
        for line in text.split("\n"):
            outside.take(line)
        for block, files in _grouped(outside.blocks):
            calls.append(_call(block, files, by_name))
        if calls:
            return outside.text, calls
        whole = as_call(loads(text.strip().removeprefix("```json").removesuffix("```").strip()), by_name)
        return ("", [whole]) if whole is not None else tagged(text, by_name)

    def listen(self, on_text: OnText) -> _Lines:
        return _Lines(on_text)


def written(name: str, arguments: dict[str, JsonValue]) -> str:
    """A call as text; the texts in any `files` in blocks of their own."""
    files: dict[str, str] = {}
    body = dumps(_lifted(arguments, files, set(_strings(arguments))))
    return "\n".join([_fenced(f"tool {name}", body), *(_fenced(f"file {path}", files[path]) for path in files)])


class _Outside:
    """Takes a text line by line and parts our blocks from what is around them."""

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self._open: _Block | None = None
        self._other = ""
        """The fence of somebody else's block, in which nothing is ours."""
        self._kept: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self._kept).strip()

    def take(self, line: str) -> bool:
        """Whether the line is outside."""
        found = _FENCE.match(line)
        fence, about = (found[1], found[2].strip()) if found is not None else ("", "")
        inside = self._open.fence if self._open is not None else self._other
        closes = bool(inside) and not about and len(fence) >= len(inside)
        if self._open is not None:
            if closes:
                self._open = None
            else:
                self._open.lines.append(line)
            return False
        kind, _, name = about.replace(":", " ", 1).partition(" ")
        name = name.strip()
        if fence and not self._other and name and (kind == "tool" or (kind == "file" and self.blocks)):
            self._open = _Block(kind, name, fence)
            self.blocks.append(self._open)
            return False
        if closes:
            self._other = ""
        elif not self._other:
            self._other = fence
        self._kept.append(line)
        return True


class _Lines:
    """Hands on the lines outside our blocks as they come."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._outside = _Outside()
        self._line = ""
        self._told = False

    def add(self, piece: str) -> None:
        *lines, self._line = (self._line + piece).split("\n")
        for line in lines:
            self._take(line)

    def end(self, said: str) -> None:  # noqa: ARG002
        self._take(self._line)
        self._line = ""

    def _take(self, line: str) -> None:
        if self._outside.take(line):
            self._on_text(("\n" if self._told else "") + line)
            self._told = True


def _grouped(blocks: Sequence[_Block]) -> Iterator[tuple[_Block, dict[str, str]]]:
    """Each call with the files that follow it."""
    calls: list[tuple[_Block, dict[str, str]]] = []
    for block in blocks:
        if block.kind == "tool":
            calls.append((block, {}))
        elif calls:
            calls[-1][1][block.about] = block.body
    return iter(calls)


def _call(block: _Block, files: dict[str, str], tools: dict[str, ToolSpec]) -> Written:
    name = block.about.split()[0].strip("`\"'():") if block.about.split() else block.about
    value = loads(block.body.strip() or "{}")
    if not isinstance(value, dict):
        return Written(name, block.body)
    used: set[str] = set()
    arguments = _lowered(value, files, used)
    assert isinstance(arguments, dict)
    left = {path: text for path, text in files.items() if path not in used}
    if left and name in tools:
        _add_files(arguments, left, tools[name])
    return Written(name, dumps(arguments))


def _add_files(arguments: dict[str, JsonValue], files: dict[str, str], tool: ToolSpec) -> None:
    """Put files that no argument names where the tool takes them: into its last candidate, or itself."""
    known = tool.parameters.get("properties")
    known = known if isinstance(known, dict) else {}
    target: JsonValue = arguments
    if "candidates" in known:
        several = arguments.setdefault("candidates", [{}])
        target = several[-1] if isinstance(several, list) and several else None
    elif "candidate" in known:
        target = arguments.setdefault("candidate", {})
    elif "files" not in known:
        return
    if isinstance(target, dict):
        there = target.setdefault("files", {})
        if isinstance(there, dict):
            there.update(files)


def _lowered(value: JsonValue, files: dict[str, str], used: set[str]) -> JsonValue:
    """`value` with the text of a file for each string that is `@` and its path."""
    if isinstance(value, dict):
        return {key: _lowered(item, files, used) for key, item in value.items()}
    if isinstance(value, list):
        return [_lowered(item, files, used) for item in value]
    if isinstance(value, str) and value[:1] == "@" and value[1:] in files:
        used.add(value[1:])
        return files[value[1:]]
    return value


def _lifted(value: JsonValue, files: dict[str, str], strings: set[str], within: bool = False) -> JsonValue:
    """The inverse: texts of several lines in a `files` move into `files`. strings: all there are, which no reference
    may equal."""
    if isinstance(value, list):
        return [_lifted(item, files, strings) for item in value]
    if not isinstance(value, dict):
        return value
    lifted: dict[str, JsonValue] = {}
    for key, item in value.items():
        name = key if key not in files else f"{key}+{len(files)}"
        if within and isinstance(item, str) and "\n" in item and _PATH.fullmatch(name) and f"@{name}" not in strings:
            files[name] = item
            lifted[key] = f"@{name}"
        else:
            lifted[key] = _lifted(item, files, strings, within=key == "files")
    return lifted


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _fenced(about: str, body: str) -> str:
    runs = [len(run) for run in re.findall(r"^[ \t]{0,3}(`{3,})", body, re.MULTILINE)]
    fence = "`" * max(3, max(runs, default=0) + 1)
    return f"{fence}{about}\n{body}\n{fence}"
