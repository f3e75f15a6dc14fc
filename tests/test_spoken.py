"""What models say as it comes, in a file of the run folder that another process shows: for no other use, and never at
the run's cost."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from scripted_model import says
from scripted_run import Stage, judge, proposal, reading, set_up

from agents import spoken
from agents.events import Event, bound
from agents.models.base import OnText, Reply, Request
from agents.secrets import Scrubber
from agents.spoken import SPOKEN, Piece, Spoken, piece_in, speaker_of
from app.session.lines import folded
from app.session.voices import Voices
from memory.files import RunFolderError
from memory.tail import Tail

KEY = "planted/Key+0123456789"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path, monkeypatch)


def pieces(folder: Path) -> list[Piece]:
    with Tail(folder / SPOKEN) as tail:
        return [piece for line in tail.lines() if (piece := piece_in(line)) is not None]


def by_speaker(folder: Path) -> dict[str, str]:
    said: dict[str, str] = {}
    for piece in pieces(folder):
        said[piece.speaker] = said.get(piece.speaker, "") + piece.text + ("|" if piece.is_last else "")
    return said


async def test_a_run_leaves_what_was_said_with_each_speaker_apart(stage: Stage) -> None:
    """Two coders speak at once: each waits in the middle of its reply until the other one spoke."""
    both, blocks = asyncio.Barrier(2), iter((16, 32))

    async def reply(request: Request, on_text: OnText | None = None) -> Reply:
        if any(message.speaker == "tool" for message in request.messages):
            return says("done")
        assert on_text is not None
        block = next(blocks)
        for piece in ("I try ", f"a block of {block}."):
            on_text(piece)
            await both.wait()
        return judge(block).model_copy(update={"text": f"I try a block of {block}."})

    stage.add("coder", []).reply = reply  # type: ignore[method-assign]
    stage.add("planner", [proposal("smaller blocks", "larger blocks").model_copy(update={"text": "Two ideas."})])
    stage.add("analyst", [reading("a2")])
    await stage.play(parallel=2)
    said = by_speaker(stage.run.path)
    assert said["planner of iteration 1"] == "Two ideas.|"
    coders = {said[f"coder {n} of iteration 1"].split("|")[0] for n in (0, 1)}
    assert coders == {"I try a block of 16.", "I try a block of 32."}
    assert (stage.run.path / SPOKEN).stat().st_mode & 0o777 == 0o600
    assert ("coder", "I try ") in stage.heard, "and whoever asked hears it at once, as before"


def ended(role: str, turn: str) -> Event:
    return Event(event="model_called", fields={"role": role}, bound={"turn": turn})


async def test_a_key_that_comes_in_pieces_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spoken, "EVERY", 0.0)  # each piece is written by itself, as far as it may be
    with Spoken(tmp_path, Scrubber([KEY])) as writer, bound(turn="0001-coder-0"):
        hear = writer.heard(lambda _role, _piece: None)
        for piece in ("the key is ", *KEY, ", I say"):
            hear("coder", piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        writer.ended(lambda _: None)(ended("coder", "0001-coder-0"))
    assert by_speaker(tmp_path) == {"coder 0 of iteration 1": "the key is [secret], I say|"}
    assert len(pieces(tmp_path)) > 1


async def test_pieces_are_put_together_and_a_large_file_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spoken, "MOST_BYTES", 2_000)
    path, all_said = tmp_path / SPOKEN, ""
    with Spoken(tmp_path, Scrubber()) as writer, Tail(path) as tail, bound(turn="0001-planner"):
        hear, end = writer.heard(lambda _role, _piece: None), writer.ended(lambda _: None)
        for reply in range(40):
            for word in range(50):
                hear("planner", f"{reply}.{word} ")
            end(ended("planner", "0001-planner"))
            hear("planner", "")  # another reply begins: what ended is written
            lines = [*tail.lines()]
            assert len(lines) == 1, "fifty pieces are one line"
            all_said += str(json.loads(lines[0])["text"])
            assert path.stat().st_size < 3_000
    assert all_said == "".join(f"{reply}.{word} " for reply in range(40) for word in range(50))


@pytest.mark.parametrize("harm", ["a folder", "a link", "a pipe", "gone"])
async def test_a_disk_that_takes_nothing_costs_the_run_nothing(stage: Stage, harm: str, tmp_path: Path) -> None:
    path, other = stage.run.path / SPOKEN, tmp_path / "other"
    other.write_text("mine\n")
    if harm == "a folder":
        path.mkdir()
    elif harm == "a link":
        path.symlink_to(other)
    elif harm == "a pipe":
        os.mkfifo(path)
    planned = proposal("larger blocks").model_copy(update={"text": "One idea."})
    stage.script([planned], [judge(16), says("done")], [reading("a1")])
    outcome = await stage.play()
    assert outcome.reason == "iterations" and outcome.best == "a1"
    assert other.read_text() == "mine\n"


async def test_what_was_cut_amid_a_line_costs_that_line(tmp_path: Path) -> None:
    (tmp_path / SPOKEN).write_text('{"role": "planner", "text": "I was ki')
    with Spoken(tmp_path, Scrubber()) as writer:
        writer.heard(lambda _role, _piece: None)("planner", "again\udc80")
    assert by_speaker(tmp_path) == {"planner": "again?|"}
    for torn in ("", "[]", "1", '{"role": 1}', "[" * 100_000):
        assert piece_in(torn) is None


def test_nothing_that_resumes_or_plans_reads_it() -> None:
    """The name stands where it is written and where it is shown."""
    root = Path(spoken.__file__).parents[1]
    users = {
        path.relative_to(root).as_posix()
        for folder in ("agents", "app", "memory", "prompts", "tools")
        for path in (root / folder).rglob("*.py")
        if "agents.spoken" in path.read_text() or SPOKEN in path.read_text()
    }
    shown = {"app/session/screen.py", "app/replies.py", "app/serve/speech.py"}
    assert users == {"agents/spoken.py", "agents/drive.py", "agents/context.py", "memory/runs.py", *shown}


@pytest.mark.parametrize(
    ("role", "turn", "name"),
    [
        ("planner", "0003-planner", "planner of iteration 3"),
        ("planner", "0003-planner-1", "planner of iteration 3"),
        ("coder", "0012-coder-1", "coder 1 of iteration 12"),
        ("analyst", "", "analyst"),
        ("analyst", "strange", "analyst"),
    ],
)
def test_speakers_have_names(role: str, turn: str, name: str) -> None:
    assert speaker_of(role, turn) == name


@given(
    said=st.lists(st.tuples(st.sampled_from("ab"), st.text("x \n漢", max_size=60), st.booleans()), max_size=30),
    widths=st.lists(st.sampled_from((8, 30)), min_size=30, max_size=30),
)
def test_what_is_folded_piece_by_piece_is_what_is_folded_at_once(
    said: list[tuple[str, str, bool]], widths: list[int]
) -> None:
    voices, whole, amid = Voices(), list[list[str]](), dict[str, list[str]]()
    for (speaker, text, is_last), width in zip(said, widths, strict=False):
        voices.hear([Piece(speaker, text, is_last)])
        voices.lines(width, 10)
        if speaker not in amid and text.strip():
            amid[speaker] = [speaker, ""]
            whole.append(amid[speaker])
        if speaker in amid:
            amid[speaker][1] = amid[speaker][1] + text if amid[speaker][1] else text.lstrip()
            if is_last:
                del amid[speaker]
    voices.hear([Piece(speaker, "", True) for speaker in "ab"])  # what goes on is shown after what is over
    expected = [line for speaker, text in whole[-12:] for line in (Text(speaker), *folded(text, 30), Text())]
    assert [line.plain for line in voices.lines(30, 10)] == [line.plain for line in expected]


def test_of_several_that_speak_at_once_each_is_seen() -> None:
    voices = Voices()
    voices.hear([Piece("a", "1\n2\n3\n4", False), Piece("b", "5\n6\n7\n8", False), Piece("c", "whole", True)])
    assert [line.plain for line in voices.lines(30, 10)] == ["c", "whole", "", "a", *"234", "", "b", *"678", ""]
    voices.hear([Piece("a", "", True)])
    assert [line.plain for line in voices.lines(30, 10)][-6:] == ["b", *"5678", ""], "one alone has all the room"


def test_a_speaker_is_named_harmlessly() -> None:
    voices = Voices()
    voices.hear([Piece("\x1b]0;title\x07\u202ecoder\n" + "x" * 500, "hi\n", is_last=True)])
    name = voices.lines(60, 20)[0].plain
    assert name.startswith("]0;titlecoder x") and len(name) < 120


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    """A pipe has nobody at its other end, and a device has no end."""
    path = tmp_path / SPOKEN
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with Tail(path) as tail, pytest.raises(RunFolderError, match="no plain file"):
        [*tail.lines()]
