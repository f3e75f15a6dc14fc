"""Counting: the vendored vocabulary, each text encoded once, and what a model's own count teaches."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory import tokens
from memory.calibration import MARGIN, UNKNOWN, Calibration, bound_of
from memory.files import RunFolderError
from memory.tokens import CHUNK, COUNTER, Corrected, Counter, load_encoding, pieces

ROOT = Path(__file__).parent.parent


class Spy:
    """An encoding that remembers what it was asked to encode."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_ordinary(self, text: str) -> list[int]:
        self.encoded.append(text)
        return load_encoding().encode_ordinary(text)


def test_counts_are_those_of_o200k_base() -> None:
    """Token ids as tiktoken documents them for this vocabulary, and counts of texts that fit one piece."""
    assert load_encoding().encode_ordinary("hello world") == [24912, 2375]
    assert load_encoding().encode_ordinary("tiktoken is great!") == [83, 8251, 2488, 382, 2212, 0]
    assert COUNTER.count("hello world") == 2 and COUNTER.count("") == 0


def test_special_words_in_a_text_are_text() -> None:
    assert COUNTER.count("<|endoftext|>") > 1
    assert COUNTER.count("broken \ud800 surrogate") > 1


def test_a_text_is_encoded_once_and_only_what_changed_again() -> None:
    spy = Spy()
    counter = Counter(lambda: spy)
    text = "".join(f"    const float x{i} = a[{i}] * b[{i}];\n" for i in range(400))
    first = counter.count(text)
    assert counter.count(text) == first and "".join(spy.encoded) == text
    before = len(spy.encoded)
    counter.count(text + "    return x0;\n")
    counter.count(text.replace("x399", "y399"))
    assert sum(map(len, spy.encoded[before:])) <= 4 * CHUNK


@pytest.mark.parametrize("written", [str, json.dumps], ids=["text", "json"])
def test_an_edit_anywhere_leaves_what_stands_around_it_known(written: Callable[[str], str]) -> None:
    """Texts of 600 lines, where a few are put in or taken out."""
    rng = random.Random(5)
    lines = [f"    x{rng.randrange(99)} += a[{rng.randrange(999)}] * scale[{rng.randrange(99)}];\n" for _ in range(600)]
    again = whole = 0
    for place in range(0, 600, 40):
        spy = Spy()
        counter = Counter(lambda: spy)  # noqa: B023 (used within this round)
        counter.count(written("".join(lines)))
        before = len(spy.encoded)
        edited = lines[:place] + rng.sample(lines, rng.randrange(9)) + lines[place + rng.randrange(9) :]
        text = written("".join(edited))
        counter.count(text)
        again += sum(map(len, spy.encoded[before:]))
        whole += len(text)
    assert again < whole / 3


def test_what_is_remembered_is_bounded() -> None:
    spy = Spy()
    counter = Counter(lambda: spy, known=4)
    for i in range(40):
        counter.count(f"text {i}")
    assert len(counter._counts) == 4
    counter.count("text 39")
    assert spy.encoded.count("text 39") == 1
    counter.count("text 0")
    assert spy.encoded.count("text 0") == 2


@given(st.text(max_size=50).map(lambda text: text * 300))
@example("=" * 1_000_000)
@example(" " * 500_000)
@settings(max_examples=30)
def test_no_piece_is_longer_than_the_encoder_should_see(text: str) -> None:
    cut = list(pieces(text))
    assert "".join(cut) == text and all(0 < len(piece) <= CHUNK for piece in cut)


@given(st.lists(st.sampled_from(["int x = 1;", "", "  // why", "\tfor (;;) {", "}", "naïve — 漢字"]), max_size=300))
@settings(max_examples=30)
def test_cutting_at_line_ends_adds_next_to_nothing(lines: list[str]) -> None:
    text = "\n".join(lines)
    whole = len(load_encoding().encode_ordinary(text))
    assert whole <= COUNTER.count(text) <= whole + 2 * len(list(pieces(text)))


def test_a_changed_vocabulary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    forged = tmp_path / "o200k_base.tiktoken.gz"
    forged.write_bytes(gzip.compress(gzip.decompress(tokens.VOCABULARY.read_bytes()) + b"IQ== 999999\n"))
    monkeypatch.setattr(tokens, "VOCABULARY", forged)
    with pytest.raises(RunFolderError, match="not the vocabulary"):
        load_encoding.__wrapped__()
    forged.write_bytes(b"no gzip")
    with pytest.raises(RunFolderError, match="can't read"):
        load_encoding.__wrapped__()


def test_counting_needs_no_network() -> None:
    code = (
        "import socket\n"
        "def none(*_, **__): raise OSError('no network')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = none\n"
        "from memory.tokens import COUNTER\n"
        "print(COUNTER.count('int main() { return 0; }'))\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TIKTOKEN")} | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert int(run.stdout) == COUNTER.count("int main() { return 0; }") > 5


@pytest.mark.parametrize(
    ("model", "factor"),
    [
        ("openai:gpt-5.2", 1.1),
        ("openai:o4-mini", 1.1),
        ("anthropic:claude-opus-4-6", 1.6),
        ("anthropic:claude-sonnet-4-5-20250929", 1.6),
        ("openai-chat:anthropic/claude-haiku-4.5", 1.6),
        ("anthropic:claude-opus-4-8", 2.4),
        ("anthropic:claude-sonnet-5", 2.4),
        ("local:qwen3", 1.6),
        ("builtin:autotune", 1.0),
    ],
)
def test_before_the_first_report_the_factor_is_an_upper_bound(model: str, factor: float) -> None:
    assert bound_of(model) == factor


def test_reports_count_from_the_next_iteration_on_and_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    calibration = Calibration(path)
    calibration.observe("coder", "m", 3, 10_000, 13_000)
    calibration.observe("coder", "m", 3, 10_000, 15_000)
    assert calibration.factor("coder", "m", 3) == UNKNOWN == calibration.factor("planner", "m", 9)
    with path.open("a") as file:
        file.write('{"iteration": 3, "role": "coder", "model": "m", "coun')
    for known in (calibration, Calibration(path)):
        assert known.factor("coder", "m", 4) == pytest.approx(1.6) and known.factor("coder", "other", 4) == UNKNOWN
    Calibration(path).observe("coder", "m", 4, 10_000, 20_000)
    assert Calibration(path).factor("coder", "m", 5) == pytest.approx(2.1)


def test_a_short_prompt_and_a_missing_report_teach_nothing(tmp_path: Path) -> None:
    calibration = Calibration(tmp_path / "tokens.jsonl")
    calibration.observe("coder", "m", 1, 100, 900)
    calibration.observe("coder", "m", 1, 10_000, 0)
    assert calibration.factor("coder", "m", 2) == UNKNOWN


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(500, 10**6), st.floats(0.5, 3.0)), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_a_prompt_like_a_recent_one_is_never_counted_too_low(reports: list[tuple[int, int, float]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        calibration = Calibration(Path(folder) / "tokens.jsonl")
        for iteration, counted, ratio in reports:
            calibration.observe("coder", "m", iteration, counted, max(1, int(counted * ratio)))
        last = max(iteration for iteration, _, _ in reports)
        factor = calibration.factor("coder", "m", last + 1)
        newest = [int(counted * ratio) / counted for iteration, counted, ratio in reports if iteration == last]
        assert factor >= max(newest) * MARGIN - 1e-9


def test_a_corrected_count_is_rounded_up() -> None:
    assert Corrected(COUNTER, 1.6).count("hello world") == 4
