"""State that is damaged: what a kill or a disk left of the files of a run is passed over, replaced, or said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from crash_harness import Story, differences, once
from power_cut import broken_json, leftovers

from memory.runs import RunFolder

ITERATIONS = 3
TAILS = {
    "half a line": b'{"event": "attempt_judged", "time": "2026-11-30T10:0',
    "half a character": '{"event": "hypothesis", "change": "größer'.encode()[:-4],
    "nothing where something was": b"\0" * 5000,
    "garbage": bytes(range(256)) * 3,
    "garbage and a line's end": b"\xff\xfe{]\n",
    "JSON that is no event": b'[1, 2]\n"event"\nnull\n{"event": 7}\n{}\n',
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A run that nothing happens to."""
    story = Story(tmp_path_factory.mktemp("whole") / "run", "builtin", ITERATIONS)
    assert story.child(partial(story.play, count=story.root / "operations")) == 0
    return story


def killed(root: Path, whole: Story) -> Story:
    """One that was killed at two thirds of its way."""
    story = Story(root / "run", "builtin", ITERATIONS)
    fatal = int((whole.root / "operations").read_text()) * 2 // 3
    assert story.child(partial(story.play, fatal=fatal)) != 0
    return story


def same_in_the_end(story: Story, whole: Story) -> None:
    assert story.child(story.play) == 0, (story.root / "failure").read_text()
    run = RunFolder(story.run.path)
    assert differences(run, RunFolder(whole.run.path)) == [] and once(run) == []
    assert leftovers(run.path) == [] and broken_json(run.path.rglob("*.json")) == []


@pytest.mark.parametrize("tail", TAILS)
def test_whatever_stands_at_the_end_of_the_files_of_lines_a_run_goes_on(
    tmp_path: Path, whole: Story, tail: str
) -> None:
    story = killed(tmp_path, whole)
    names = ["events.jsonl"] if "event" in tail else ["events.jsonl", "scores.jsonl", "tokens.jsonl", "hints.jsonl"]
    for path in [*(story.run.path / name for name in names), *story.run.path.glob("transcript/*.jsonl")]:
        with path.open("ab") as file:
            file.write(TAILS[tail])
    before = len(RunFolder(story.run.path).events())
    same_in_the_end(story, whole)
    assert len(RunFolder(story.run.path).events()) > before


def no_record(folder: Path) -> None:
    (folder / "attempt.json").unlink()


def no_verdict(folder: Path) -> None:
    (folder / "attempt.json").unlink()
    (folder / "verdict.json").write_text('{"status": "acc')


def drafts(folder: Path) -> None:
    for name in (f".{folder.name}", ".a9", ".a10"):
        shutil.copytree(folder, folder.with_name(name))
        (folder.with_name(name) / ".verdict.json.x7f").write_text("{")
        (folder.with_name(name) / "attempt.json").write_text('{"id": "a')
    shutil.rmtree(folder)


@pytest.mark.parametrize("damage", [no_record, no_verdict, drafts])
def test_an_attempt_that_is_not_whole_is_none_and_is_judged(
    tmp_path: Path, whole: Story, damage: Callable[[Path], None]
) -> None:
    """The one after the newest: as it is when a power cut took what its folder held."""
    story = killed(tmp_path, whole)
    run = RunFolder(story.run.path)
    newest, following = run.attempts()[-1].id, run.next_id()
    shutil.copytree(run.folder_of(newest), run.folder_of(following))
    damage(run.folder_of(following))
    assert RunFolder(story.run.path).next_id() == following
    same_in_the_end(story, whole)


@pytest.mark.parametrize("text", ["", "{", "[]", "\0" * 100])
@pytest.mark.parametrize("name", ["attempt.json", "verdict.json"])
def test_a_record_that_is_damaged_is_named_and_nothing_takes_its_place(
    tmp_path: Path, whole: Story, name: str, text: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole.run.path, run, symlinks=True)
    path = run / "attempts" / "a1" / name
    path.write_text(text)
    story = Story(tmp_path / "story", "builtin", ITERATIONS)
    story.run = RunFolder(run)
    assert story.child(story.play) != 0
    assert str(path.relative_to(run)) in (story.root / "failure").read_text()
    assert path.read_text() == text
