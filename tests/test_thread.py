"""A turn's conversation within a window: what gives way, who is asked for a summary, and what becomes of a change of
window."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.briefing import MOST_OF_OPENING
from agents.models.base import Message, Opaque, Request, ToolCall, ToolSpec, Usage
from agents.room import REPLY_SHARE, Room, bounded, observe, reply_room, room_for
from agents.settings import RunSettings
from agents.thread import Opening, Thread, WindowTooSmall
from memory.runs import RunFolder
from memory.tokens import COUNTER
from memory.view import OVERHEAD, Section, fit

SPEC = ToolSpec(name="run", description="Measure candidates. " * 40, parameters={"type": "object"})


def seat_in(root: Path, **more: Any) -> Any:
    """As much of a seat as a thread needs."""
    run = RunFolder.create(root, "t", {})
    context = SimpleNamespace(run=run, settings=RunSettings(**more))
    return SimpleNamespace(context=context, role="coder", iteration=3, attempts=5)


def opening(words: int = 200) -> Opening:
    def project(room: Room) -> list[Message]:
        parts = [
            Section("coder", "You are the coder. ", keep=9),
            Section("best kernel", "x = y; " * words, keep=5, may_be_cut=True),
        ]
        chosen = fit(parts, room.budget // 2, room.counter)
        return [Message(speaker="system" if p.label == "coder" else "user", text=p.text, label=p.label) for p in chosen]

    return Opening(project, {"stale": 1})


def room(budget: int, factor: float = 1.0, model: str = "m") -> Room:
    return Room(budget, budget * 2, model, factor, 100, 1000)


def say(thread: Thread, number: int, size: int = 3000) -> None:
    """One round: a call that writes a file, and a long answer."""
    written = json.dumps({"files": {"kernel.cpp": f"// {number}\n" + "a = b;\n" * (size // 7)}})
    call = ToolCall(id=f"c{number}", name="run", arguments=written)
    thread.add(Message(speaker="assistant", text=f"Round {number}.", tool_calls=(call,)))
    answer = f"verdict {number} " + "stderr line\n" * (size // 12)
    thread.add(Message(speaker="tool", text=answer, call=f"c{number}", label="run"))


def cost(messages: tuple[Message, ...], factor: float = 1.0) -> float:
    texts = [t for m in messages for t in (m.text, *(c.name + c.arguments for c in m.tool_calls))]
    return sum(map(COUNTER.count, texts)) * factor + OVERHEAD * len(messages)


def paired(messages: tuple[Message, ...]) -> bool:
    """Every call has its answer right behind it, and every answer its call; arguments are JSON."""
    open_calls: list[str] = []
    for message in messages:
        if message.speaker == "tool":
            if not open_calls or open_calls.pop(0) != message.call:
                return False
        elif open_calls:
            return False
        open_calls += [call.id for call in message.tool_calls if json.loads(call.arguments) is not None]
    return not open_calls


async def test_while_there_is_room_nothing_changes_and_each_prompt_begins_with_the_one_before(tmp_path: Path) -> None:
    thread = Thread(seat_in(tmp_path), "0003-coder-0", opening())
    before: tuple[Message, ...] = ()
    for number in range(4):
        say(thread, number)
        await thread.prepare(room(60_000))
        messages = thread.messages(room(60_000))
        assert messages[: len(before)] == before and messages[-1].text.startswith(f"verdict {number}")
        before = messages
    assert messages[2:] == thread.said


async def test_a_full_room_is_brought_far_down_once_and_then_left_alone(tmp_path: Path) -> None:
    seat = seat_in(tmp_path)
    thread, space = Thread(seat, "0003-coder-0", opening()), room(8_000)
    compacted, before = 0, ()
    for number in range(12):
        say(thread, number)
        await thread.prepare(space)
        messages = thread.messages(space)
        assert cost(messages) <= space.budget and paired(messages)
        assert messages[-1] == thread.said[-1], "the newest round stays whole"
        compacted += messages[: len(before)] != before
        before = messages
    assert 1 <= compacted <= 8
    evicted = "".join(path.read_text() for path in (seat.context.run.path / "evicted").iterdir())
    for number in range(8):
        assert f"verdict {number} " in evicted and f"// {number}\\na" in evicted.replace("\n", "\\n")


async def test_a_model_sums_up_what_nothing_cheaper_made_small_enough(tmp_path: Path) -> None:
    seat = seat_in(tmp_path)
    thread, space = Thread(seat, "0003-coder-0", opening()), room(9_000)
    asked: list[tuple[Message, ...]] = []

    async def summarise(messages: tuple[Message, ...]) -> str:
        kept = "".join(path.read_text() for path in (seat.context.run.path / "evicted").iterdir())
        assert "Round 0." in kept and "Round 1." in kept, "it is on disk before anybody is asked"
        asked.append(messages)
        return "Blocks of 64 were slower; 128 spilt registers."

    for number in range(60):
        thread.add(Message(speaker="assistant", text=f"Round {number}. " + "thoughts about it " * 60))
        thread.add(Message(speaker="user", text="Call a tool.", label="repair"))
        await thread.prepare(space, summarise)
    messages = thread.messages(space)
    assert 1 <= len(asked) <= 3, "later ones are digested"
    assert "Round 0." in asked[0][1].text and asked[0][0].speaker == "system"
    assert cost(messages) <= space.budget and sum(m.label == "earlier" for m in messages) == 1


@pytest.mark.parametrize("answer", [None, "", "   ", "word " * 5000])
async def test_a_summary_that_is_none_falls_back_to_the_digest(tmp_path: Path, answer: str | None) -> None:
    thread, space = Thread(seat_in(tmp_path), "0003-coder-0", opening()), room(9_000)
    asked = 0

    async def summarise(_: tuple[Message, ...]) -> str | None:
        nonlocal asked
        asked += 1
        return answer

    async def talk(first: int) -> None:
        for number in range(first, first + 40):
            thread.add(Message(speaker="assistant", text=f"Round {number}. " + "thoughts about it " * 60))
            thread.add(Message(speaker="user", text="Call a tool.", label="repair"))
        await thread.prepare(space, summarise)

    await talk(0)
    (note,) = [m for m in thread.messages(space) if m.label == "earlier"]
    assert "- assistant: Round 0. thoughts" in note.text and "evicted/" in note.text
    await talk(40)
    assert asked == 1, "nor is one asked for again"


async def test_a_smaller_window_in_the_middle_of_a_turn_projects_the_opening_anew(tmp_path: Path) -> None:
    seat = seat_in(tmp_path)
    thread = Thread(seat, "0003-coder-0", opening(8_000))
    for number in range(3):
        say(thread, number)
    await thread.prepare(room(60_000))
    large = thread.messages(room(60_000))
    small_room = room(7_000, factor=1.6, model="other")
    beside = thread.messages(small_room)
    assert thread.messages(room(60_000)) == large, "asking for another room changes nothing"
    await thread.prepare(small_room)
    small = thread.messages(small_room)
    assert small == beside and cost(small, 1.6) <= 7_000 and paired(small)
    assert "left out" in small[1].text and small[0] == large[0]
    await thread.prepare(room(60_000))
    assert cost(thread.messages(room(60_000))) <= 60_000
    views = [line for line in seat.context.run.transcript("0003-coder-0").lines() if line["speaker"] == "view"]
    assert [view["model"] for view in views] == ["m", "other", "m"] and views[0]["stale"] == 1


async def test_a_turn_that_is_done_again_sends_and_writes_the_same(tmp_path: Path) -> None:
    seat = seat_in(tmp_path)
    sent = []
    for _ in range(2):
        thread = Thread(seat, "0003-coder-0", opening())
        for number in range(6):
            say(thread, number)
            await thread.prepare(room(6_000))
            sent.append(thread.messages(room(6_000)))
    assert sent[:6] == sent[6:]
    lines = seat.context.run.transcript("0003-coder-0").lines()
    assert [line["speaker"] for line in lines] == ["view", "system", "user"]


async def test_what_must_be_there_and_does_not_fit_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    thread = Thread(seat_in(tmp_path), "0003-coder-0", opening(9_000))
    with pytest.raises(WindowTooSmall, match=r"m has a window of \d+ tokens, and the coder's task") as caught:
        await thread.prepare(room(700))
    assert "larger window" in caught.value.advice
    with pytest.raises(WindowTooSmall):
        thread.messages(room(700))


@given(words=st.integers(10, 4_000), window=st.integers(300, 8_192))
@settings(max_examples=25, deadline=None)
async def test_the_window_that_an_error_names_is_large_enough(
    words: int, window: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def project(room: Room) -> list[Message]:
        system = Section("coder", "x = y; " * words, keep=9)
        chosen = fit([system], int(room.budget * MOST_OF_OPENING), room.counter)
        return [Message(speaker="system", text=part.text, label=part.label) for part in chosen]

    def of(window: int) -> Room:
        reply = window // REPLY_SHARE
        return Room(window - reply - 100, window, "m", 1.0, 100, reply)

    thread = Thread(seat_in(tmp_path_factory.mktemp("run")), "0003-coder-0", Opening(project, {}))
    try:
        await thread.prepare(of(window))
    except WindowTooSmall as error:
        named = re.search(r"window of (\d+) tokens, .* need about (\d+)", error.message)
        assert named is not None and int(named[1]) == window < int(named[2])
        await thread.prepare(of(int(named[2])))


async def test_reasoning_goes_back_whole_with_the_newest_round_and_counts(tmp_path: Path) -> None:
    thread, space = Thread(seat_in(tmp_path), "0003-coder-0", opening()), room(6_000)
    for number in range(4):
        call = ToolCall(id=f"c{number}", name="run", arguments="{}")
        opaque = Opaque(owner="anthropic", items=({"thinking": f"thought {number} " * 800},))
        thread.add(Message(speaker="assistant", text="", tool_calls=(call,), opaque=opaque))
        thread.add(Message(speaker="tool", text="ok", call=f"c{number}", label="run"))
    await thread.prepare(space)
    said = [m for m in thread.messages(space) if m.speaker == "assistant"]
    assert said[0].opaque is None and said[-1] == thread.said[-2]


def test_room_is_the_smaller_of_setting_and_window_less_tools_and_reply(tmp_path: Path) -> None:
    seat = seat_in(tmp_path, context_tokens=100_000, reply_tokens=10_000)
    tools = COUNTER.count(SPEC.model_dump_json())
    large = room_for(seat, [SPEC], "openai:gpt-5", 400_000)
    assert large.tools == pytest.approx(tools * 1.1, abs=1) and large.budget == 100_000 - 10_000 - large.tools
    small = room_for(seat, [SPEC], "openai:gpt-5", 16_000)
    assert (small.reply, small.budget) == (4_000, 12_000 - small.tools)
    assert room_for(seat, [SPEC], "builtin:autotune", 1_000_000).budget > 900_000
    assert reply_room(seat, 400_000, 2_000) == 2_000


def test_what_a_provider_reports_corrects_later_iterations(tmp_path: Path) -> None:
    seat = seat_in(tmp_path)
    request = Request(messages=(Message(speaker="user", text="int x = 1;\n" * 400),), tools=(SPEC,))
    counted = COUNTER.count(request.messages[0].text) + COUNTER.count(SPEC.model_dump_json())
    observe(seat, request, Usage(input_tokens=counted * 2), "local:m")
    later = SimpleNamespace(**{**vars(seat), "iteration": 4})
    assert room_for(seat, [], "local:m", 50_000).factor == 1.6
    assert room_for(later, [], "local:m", 50_000).factor == pytest.approx(2.1, abs=0.06)


def test_a_huge_answer_is_cut_and_kept_whole(tmp_path: Path) -> None:
    seat = seat_in(tmp_path)
    answer = "\n".join(f"line {i}" for i in range(40_000))
    short = bounded(seat, answer)
    assert COUNTER.count(short) < 8_100 and short.startswith("line 0\n") and "line 39999" in short
    where = short.rsplit("whole in ", 1)[1].rstrip(")")
    assert (seat.context.run.path / where).read_text() == answer
    assert bounded(seat, "short") == "short"


async def test_what_only_the_transcript_had_is_left_where_search_finds_it(tmp_path: Path) -> None:
    seat = seat_in(tmp_path)
    thread = Thread(seat, "0003-coder-0", opening())
    for tool, word in (("compile", "needle "), ("show", "attempt "), ("run", "short")):
        thread.add(Message(speaker="assistant", text="", tool_calls=(ToolCall(id=tool, name=tool, arguments="{}"),)))
        text = word * (200 if word != "short" else 1)
        thread.add(Message(speaker="tool", text=text, call=tool, label=tool))
    thread.leave()
    thread.leave()
    (path,) = (seat.context.run.path / "evicted").iterdir()
    assert "needle" in path.read_text() and "attempt" not in path.read_text() and "short" not in path.read_text()


ROUNDS = st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 9_000), st.integers(1, 3)), min_size=1, max_size=8)


@given(ROUNDS, st.integers(3_000, 30_000), st.sampled_from([1.0, 1.6, 2.4]))
@settings(max_examples=25, deadline=None)
def test_any_turn_fits_any_room_with_its_pairs_intact(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[tuple[int, int, int]], budget: int, factor: float
) -> None:
    thread, space = Thread(seat_in(tmp_path_factory.mktemp("runs")), "t", opening()), room(budget, factor)
    for number, (said, answered, count) in enumerate(rounds):
        calls = tuple(
            ToolCall(id=f"{number}.{i}", name="run", arguments=json.dumps({"files": {"k.cpp": "x;\n" * (said // 3)}}))
            for i in range(count)
        )
        thread.add(Message(speaker="assistant", text="t " * (said // 9), tool_calls=calls))
        thread.add(*(Message(speaker="tool", text="y\n" * (answered // 2), call=c.id, label="run") for c in calls))
        try:
            messages = thread.messages(space)
        except WindowTooSmall:
            assert budget < 6_000 * factor
            return
        assert cost(messages, factor) <= budget and paired(messages)
