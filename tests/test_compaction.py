from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from memory import compaction
from memory.compaction import Spoken, total
from memory.tokens import COUNTER

LONG = "error: no matching function for call to 'load'\n" * 200


class Shelf:
    """Where texts go before they give way."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def put(self, text: str) -> str:
        path = f"evicted/{len(self.texts)}.txt"
        self.texts[path] = text
        return path

    def holds(self, piece: str) -> bool:
        return any(piece in text for text in self.texts.values())


def call(key: int, arguments: object, text: str = "", attached: str = "") -> Spoken:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Spoken(key, "assistant", text, (written,), ("run",), attached)


def answer(key: int, text: str) -> Spoken:
    return Spoken(key, "tool", text)


def candidate(source: str, name: str = "kernel.cpp") -> dict[str, object]:
    return {"mode": "full", "candidates": [{"files": {name: source}, "flags": ["-O3"]}]}


def rounds(count: int, size: int = 4000) -> list[Spoken]:
    thread = []
    for i in range(count):
        thread.append(call(2 * i, candidate(f"// version {i}\n" + f"x{i} = {i};\n" * (size // 9))))
        thread.append(answer(2 * i + 1, f"verdict {i}: " + "sample " * (size // 7)))
    return thread


def test_answers_give_way_before_sources_and_the_newest_round_never() -> None:
    shelf, thread = Shelf(), rounds(4)
    cost = total(thread, COUNTER)
    lightly = compaction.without_words(thread, cost - 300, COUNTER, shelf.put)
    assert lightly[0] == thread[0] and "left out; whole in evicted/0.txt" in lightly[1].text
    assert lightly[1].text.startswith("verdict 0: ") and len(lightly[1].text) < 1300
    assert lightly[2:] == thread[2:] and shelf.texts["evicted/0.txt"] == thread[1].text
    hard = compaction.without_words(thread, 0, COUNTER, shelf.put)
    assert hard[-2:] == thread[-2:]
    assert "an older kernel.cpp of" in hard[0].arguments[0] and shelf.holds("// version 0\nx0 = 0;\n")
    assert total(hard, COUNTER) < cost / 2


def test_arguments_stay_json_with_their_small_parts() -> None:
    shelf = Shelf()
    thread = [call(0, candidate(LONG, "other.h")), answer(1, "ok"), call(2, "{not json" * 200), answer(3, "ok")]
    short = compaction.without_words([*thread, call(4, {}), answer(5, "")], 0, COUNTER, shelf.put)
    first, second = json.loads(short[0].arguments[0]), json.loads(short[2].arguments[0])
    assert first["mode"] == "full" and first["candidates"][0]["flags"] == ["-O3"]
    assert len(first["candidates"][0]["files"]["other.h"]) < 400 and "left out" in second["not_json"]
    assert shelf.holds(LONG) and shelf.holds("{not json" * 200)


def test_a_message_gives_way_once() -> None:
    shelf = Shelf()
    once = compaction.without_words(rounds(4), 0, COUNTER, shelf.put)
    kept = len(shelf.texts)
    assert compaction.without_words(once, 0, COUNTER, shelf.put) == once and len(shelf.texts) == kept


def test_old_reasoning_is_dropped_before_arguments_are_cut_and_the_newest_stays() -> None:
    thread = [call(0, candidate(LONG), attached="secret " * 900), answer(1, "ok"), call(2, {}, attached="new " * 900)]
    aim = total(thread, COUNTER) - 200
    short = compaction.without_words(thread, aim, COUNTER, Shelf().put)
    assert (short[0].attached, short[0].arguments, short[2].attached) == ("", thread[0].arguments, "new " * 900)


def test_whole_rounds_are_replaced_and_never_the_last() -> None:
    thread = rounds(5, 1000)
    one = total(thread[:2], COUNTER)
    assert compaction.oldest_rounds(thread, one // 2, COUNTER) == 2
    assert compaction.oldest_rounds(thread, one + 10, COUNTER) == 4
    assert compaction.oldest_rounds(thread, 10**9, COUNTER) == 8
    assert compaction.oldest_rounds(thread[-2:], 10**9, COUNTER) == 0


def test_a_digest_says_what_was_called_and_what_came_of_it() -> None:
    text = compaction.digest(rounds(3), "evicted/x.txt")
    assert text.count("- called run") == 3 and "→ verdict 2: sample" in text
    assert len(compaction.digest(rounds(200), "evicted/x.txt")) < 5000


def test_what_is_kept_of_a_round_has_everything() -> None:
    text = compaction.as_text(rounds(2))
    assert all(f"// version {i}" in text and f"verdict {i}" in text for i in range(2))


def test_in_the_last_resort_even_the_newest_is_cut() -> None:
    shelf = Shelf()
    thread = [call(0, candidate(LONG), "thinking " * 500), answer(1, LONG * 3)]
    short = compaction.last_resort(thread, 700, COUNTER, shelf.put)
    assert total(short, COUNTER) <= 700 and shelf.holds(LONG * 3) and json.loads(short[0].arguments[0])


TEXTS = st.text(max_size=40).map(lambda text: text * 200) | st.sampled_from([LONG, "short", ""])
ROUNDS = st.lists(st.tuples(TEXTS, TEXTS, st.lists(TEXTS, min_size=1, max_size=3)), max_size=6)


@given(ROUNDS, st.integers(0, 4000))
@settings(max_examples=40, deadline=None)
def test_every_call_keeps_its_answer_and_nothing_is_lost(rounds: list[tuple[str, str, list[str]]], aim: int) -> None:
    shelf, thread = Shelf(), []
    for said, argument, answers in rounds:
        arguments = tuple(json.dumps({"files": {"kernel.cpp": argument}, "n": i}) for i, _ in enumerate(answers))
        thread.append(Spoken(len(thread), "assistant", said, arguments, ("run",) * len(answers)))
        thread += [Spoken(len(thread) + i, "tool", text) for i, text in enumerate(answers)]
    short = compaction.without_words(thread, aim, COUNTER, shelf.put)
    assert [(m.key, m.speaker, m.names) for m in short] == [(m.key, m.speaker, m.names) for m in thread]
    assert all(json.loads(text)["n"] == i for m in short for i, text in enumerate(m.arguments))
    assert total(short, COUNTER) <= total(thread, COUNTER) + 200 * len(thread)
    for was, now in zip(thread, short, strict=True):
        assert was.text == now.text or shelf.holds(was.text)
        if was.arguments != now.arguments:
            assert all(shelf.holds(json.loads(a)["files"]["kernel.cpp"]) or a in now.arguments for a in was.arguments)
