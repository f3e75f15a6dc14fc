"""Replies that can't be used as they are: a closed set of cases, and what the model is told in each.

    truncated   ended at the output limit: its calls are not made, since their arguments may be cut off
    refused     the model declined, and no other is left to ask
    empty       neither words nor a call
    prose       words where the turn's end needs a call
    arguments   calls that named no tool of ours or whose arguments did not fit (the calls' answers say it)

A coder that puts a whole entry file into a fenced block has answered: the block is judged like a call to `run`.
"""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias

from agents.models.base import Message, Reply, ToolCall
from agents.settings import Role
from prompts.render import render
from tools.records import ENTRY_FILE, Language

Case: TypeAlias = Literal["truncated", "refused", "empty", "prose", "arguments"]

WORDS: dict[Case, str] = {
    "truncated": "cut off at the output limit",
    "refused": "a refusal",
    "empty": "empty",
    "prose": "without a tool call",
    "arguments": "a call that does not fit any tool",
}

_FENCE = re.compile(
    r"^(?P<fence>```+|~~~+)[ \t]*(?P<label>[\w+#.-]*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S
)
_LABELS = {
    "cpp": {"cpp", "c++", "cxx", "cc", "c", "kernel.cpp", ""},
    "cuda": {"cuda", "cu", "cpp", "c++", "kernel.cu", ""},
    "torch": {"python", "py", "python3", "kernel.py", ""},
}
_ENTRY = {"torch": re.compile(r"\bclass\s+ModelNew\b")}
_SOLVE = re.compile(r"\bsolve\s*\(")
"""What an entry file defines: the contract's class in Python, else its function."""


def read(reply: Reply) -> Case | None:
    """What is wrong with a reply on its face; None when it holds calls, or words that may be an end."""
    if reply.stop == "length":
        return "truncated"
    if reply.tool_calls:
        return None
    if reply.stop == "refused":
        return "refused"
    return None if reply.text.strip() else "empty"


def fenced_kernel(text: str, language: Language) -> str | None:
    """The entry file in `text`: its last fenced block of that language which defines the contract's function."""
    blocks = [
        found["body"]
        for found in _FENCE.finditer(text)
        if found["label"].lower() in _LABELS[language] and _ENTRY.get(language, _SOLVE).search(found["body"])
    ]
    return blocks[-1] if blocks else None


def call_for(code: str, language: Language, call: str) -> ToolCall:
    """The call to `run` that a fenced entry file stands for. call: its id."""
    candidate = {"files": {ENTRY_FILE[language]: code}}
    return ToolCall(id=call, name="run", arguments=json.dumps({"mode": "full", "candidates": [candidate]}))


def told(case: Case, role: Role, reply: Reply, language: Language, reply_tokens: int) -> list[Message]:
    """What joins the history: the model's own words, and what to do better. Calls that were not made are left out."""
    said = [Message(speaker="assistant", text=reply.text)] if reply.text.strip() else []
    text = render(
        "repair.md",
        case=case,
        role=role,
        calls=[call.name for call in reply.tool_calls],
        entry_file=ENTRY_FILE[language],
        reply_tokens=reply_tokens,
    )
    return [*said, Message(speaker="user", text=text, label="repair")]


def answer_to_fence(answer: str, language: Language) -> Message:
    """What the judge said of a fenced entry file. Not a tool's message: no call asked for it."""
    text = render("fenced_answer.md", answer=answer, entry_file=ENTRY_FILE[language])
    return Message(speaker="user", text=text, label="run")
