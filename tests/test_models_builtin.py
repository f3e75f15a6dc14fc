from __future__ import annotations

import json
from typing import Any

import pytest

from agents.models.base import Message, Reply, Request, ToolSpec
from agents.models.builtin import Autotune
from agents.models.registry import UnknownModel, resolve
from agents.settings_in_words import names_settings
from memory import ledger
from memory.ledger import LedgerEntry

SECTION = """## Best kernel: a0

### Tunables of a0

BLOCK: 8 | 16 | 32 (now 8)
flags: (none) | -O3 | -O3 -funroll-loops (now (none))

### kernel.cpp

```cpp
NOT: 1 | 2 (now 1)
```
"""


def offer(*names: str) -> list[ToolSpec]:
    return [ToolSpec(name=name, description="", parameters={}) for name in names]


def entry(number: int, change: str, seconds: float | None, parent: str | None = "a0") -> LedgerEntry:
    outcome = "rejected" if seconds is None else "kept"
    return LedgerEntry(attempt=f"a{number}", parent=parent, change=change, outcome=outcome, seconds=seconds)


async def ask(text: str, tools: list[ToolSpec], *answers: str, seed: int = 0) -> Reply:
    messages = [Message(speaker="user", text=text), *(Message(speaker="tool", text=a, call="c") for a in answers)]
    return await Autotune(seed).reply(Request(messages=tuple(messages), tools=tuple(tools)))


async def plan(
    entries: list[LedgerEntry], most: int = 1, section: str = SECTION, seed: int = 0
) -> list[dict[str, Any]]:
    text = f"{ledger.render(entries)}\n\n{section}\nPropose at most {most} hypotheses by calling `propose`."
    reply = await ask(text, offer("propose", "show"), seed=seed)
    assert reply.tool_calls[0].name == "propose"
    found: list[dict[str, Any]] = json.loads(reply.tool_calls[0].arguments)["hypotheses"]
    return found


@pytest.mark.parametrize(
    ("change", "can"),
    [("BLOCK=16", True), ("try BLOCK=16 first", True), ("-O3", True), ("no flags", True), ("- use registers", False)],
)
def test_it_names_settings_settings_alone(change: str, can: bool) -> None:
    assert names_settings(change) is can


async def test_it_walks_the_whole_space_once_and_then_says_that_nothing_is_left() -> None:
    entries = [entry(0, "BLOCK=8", 1.0, None)]
    while proposed := await plan(entries, most=2):
        for hypothesis in proposed:
            assert hypothesis["parent"] == "a0"
            seconds = None if "16" in hypothesis["change"] else 0.5
            entries.append(entry(len(entries), hypothesis["change"], seconds))
    changes = [e.change for e in entries]
    assert len(changes) == 9 == len(set(changes))
    assert "BLOCK=32 -O3 -funroll-loops" in changes


async def test_the_same_prompt_gets_the_same_reply() -> None:
    entries = [entry(0, "BLOCK=8", 1.0, None)]
    assert await plan(entries, most=3) == await plan(entries, most=3)


async def test_flags_that_no_group_knows_are_kept() -> None:
    (hypothesis,) = await plan([entry(0, "BLOCK=8 -fno-math-errno", 1.0, None)])
    assert "-fno-math-errno" in hypothesis["change"]


async def test_times_of_other_sources_do_not_count() -> None:
    """a1 has other sources, and a2 to a9 descend from it: as if nothing but a0 had been measured."""
    foreign = [entry(1, "edited kernel.cpp (+3 -1) BLOCK=8", 0.9)]
    foreign += [entry(n, f"BLOCK={b} {f}".strip(), 0.1, "a1") for n, (b, f) in enumerate([(16, ""), (32, "-O3")], 2)]
    start = [entry(0, "BLOCK=8", 1.0, None)]
    assert await plan(start + foreign) == await plan(start)


async def test_nothing_declared_is_nothing_to_try() -> None:
    assert await plan([entry(0, "default settings", 1.0, None)], section="## Best kernel: a0\n") == []


async def test_as_coder_it_has_the_hypothesis_judged_and_stops() -> None:
    prompt = "## Your hypothesis\n\nParent: a4\nIdea: x\nChange: BLOCK=16 -O3 -funroll-loops\nExpected: seconds less\n"
    tools = offer("compile", "run")
    reply = await ask(prompt, tools)
    assert json.loads(reply.tool_calls[0].arguments) == {
        "mode": "full",
        "candidates": [{"base": "a4", "defines": {"BLOCK": "16"}, "flags": ["-O3", "-funroll-loops"]}],
    }
    assert (await ask(prompt, tools, "{}")).tool_calls == ()


async def test_as_analyst_it_profiles_a_new_best_and_reports_what_was_measured() -> None:
    prompt = "Iteration 3 judged a5, a6.\nNew best: a6.\n"
    tools = offer("profile", "diagnose")
    first = await ask(prompt, tools)
    assert (first.tool_calls[0].name, json.loads(first.tool_calls[0].arguments)) == ("profile", {"attempt": "a6"})
    second = await ask(prompt, tools, json.dumps({"bottleneck": "memory", "evidence": ["90 % of the bandwidth"]}))
    lost, won = json.loads(second.tool_calls[0].arguments)["diagnoses"]
    assert (lost["attempt"], lost["bottleneck"], lost["hypothesis_held"]) == ("a5", "unknown", False)
    assert (won["attempt"], won["bottleneck"], won["evidence"]) == ("a6", "memory", ["90 % of the bandwidth"])


async def test_as_analyst_it_spends_no_profile_on_attempts_that_lost() -> None:
    reply = await ask("Iteration 3 judged a5.\nNone of them is better.\n", offer("profile", "diagnose"))
    assert reply.tool_calls[0].name == "diagnose"


async def test_a_profile_that_was_refused_is_not_read_as_one() -> None:
    reply = await ask("Iteration 3 judged a6.\nNew best: a6.\n", offer("profile", "diagnose"), "error: refused: no")
    assert json.loads(reply.tool_calls[0].arguments)["diagnoses"][0]["bottleneck"] == "unknown"


def test_models_are_named_by_provider() -> None:
    assert resolve("builtin:autotune").name == "builtin:autotune"
    for spec in ("builtin:other", "nobody:model", "autotune", "builtin:"):
        with pytest.raises(UnknownModel) as caught:
            resolve(spec)
        assert "builtin" in str(caught.value)
