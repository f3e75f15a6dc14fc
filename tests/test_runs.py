from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory.ledger import Outcome
from memory.runs import FORMAT, Attempt, RunFolder, RunFolderError, list_runs


def attempt(number: int, outcome: Outcome = "kept") -> Attempt:
    return Attempt(
        id=f"a{number}",
        parent=None,
        iteration=number,
        kernel_id=f"k{number}",
        kernel={"language": "cpp"},
        change="-O3",
        outcome=outcome,
        seconds=1.0 if outcome == "kept" else None,
        judged_at=0.0,
        device_seconds=0.1,
    )


def add(run: RunFolder, number: int, outcome: Outcome = "kept") -> None:
    run.add_attempt(attempt(number, outcome), {"kernel.cpp": f"// {number}", "sub/x.h": "//"}, {"status": "accepted"})


def test_what_is_written_is_read_back_by_another_reader(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "a task/with odd: name", {"seed": 1})
    add(run, 0)
    add(run, 1, "rejected")
    run.add_diagnosis("a0", {"bottleneck": "memory"})
    again = RunFolder(run.path)
    assert again.config() == {"seed": 1, "format": FORMAT, "thread": run.config()["thread"]}
    assert again.attempts() == [attempt(0), attempt(1, "rejected")]
    assert again.best() == "a0"
    assert (run.path / "best" / "kernel" / "sub" / "x.h").read_text() == "//"
    assert again.diagnosis("a0") == {"bottleneck": "memory"} and again.diagnosis("a1") is None
    assert [folder.id for folder in list_runs(tmp_path)] == [run.id]
    with pytest.raises(RunFolderError, match="no attempt a9"):
        again.attempt("a9")


def test_one_attempt_is_read_without_the_others(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "t", {})
    add(run, 0)
    add(run, 1)
    (run.path / "attempts" / "a0" / "attempt.json").write_text("damaged")
    again = RunFolder(run.path)
    assert again.attempt("a1") == attempt(1)
    for name in ("a0", "a2", "../attempts/a1", "a1/", ""):
        with pytest.raises(RunFolderError):
            again.attempt(name)


def test_runs_that_start_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: RunFolder.create(tmp_path, "task", {}), range(24)))
    assert len({run.path for run in runs}) == 24


def test_the_same_kernel_is_found_again_unless_nothing_was_learnt(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "task", {})
    add(run, 0, "unjudged")
    add(run, 1, "rejected")
    assert run.find_kernel("k0") is None
    assert run.find_kernel("k1") == attempt(1, "rejected")


def test_a_winner_that_a_fresh_measurement_refutes_gives_its_place_back(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "task", {})
    add(run, 0)
    add(run, 1)
    assert (run.path / "best").readlink() == Path("attempts/a1")
    run.add_final("a1", {"status": "rejected"}, confirmed=False)
    assert run.best() == "a0" and RunFolder(run.path).best() == "a0"
    assert (run.path / "best").readlink() == Path("attempts/a0")


def test_a_draft_left_by_a_kill_is_no_attempt_and_is_replaced(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "task", {})
    draft = run.path / "attempts" / ".a0"
    draft.mkdir(parents=True)
    (draft / "attempt.json").write_text("{")
    assert RunFolder(run.path).attempts() == []
    add(run, 0)
    assert RunFolder(run.path).attempts() == [attempt(0)]


def test_a_torn_last_event_is_left_out(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "task", {})
    (run.path / "events.jsonl").write_text('{"event": "run_started"}\n{"event": "att')
    assert run.events() == [{"event": "run_started"}]


def test_places_that_can_not_be_used_are_named_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder.create(tmp_path / "file", "task", {})
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder(tmp_path)
    with pytest.raises(RunFolderError) as caught:
        RunFolder.create(Path("/proc/nothing"), "task", {})
    assert caught.value.advice


def test_a_full_disk_is_one_sentence_and_what_was_there_stays(tmp_path: Path) -> None:
    """A file size limit stands in for the full disk: the kernel refuses the write either way."""
    run = RunFolder.create(tmp_path, "task", {})
    add(run, 0)
    script = f"""
import resource, signal
from pathlib import Path
from memory.runs import RunFolder, RunFolderError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
run = RunFolder(Path({str(run.path)!r}))
try:
    run.write_outcome({{"text": "x" * 100_000}})
except RunFolderError as error:
    print(error.message)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-P", "-c", script]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "can't write" in child.stdout, child.stderr
    assert run.outcome() is None and run.best() == "a0"
    assert list(run.path.glob(".*")) == []


def test_a_folder_that_a_full_disk_leaves_without_its_file_is_not_left(tmp_path: Path) -> None:
    script = f"""
import resource, signal
from pathlib import Path
from agents.batch import Batch
from agents.batch_queue import BatchFolder
from memory.runs import RunFolder, RunFolderError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
long = "x" * 100_000
root = Path({str(tmp_path)!r})
for make in (
    lambda: RunFolder.create(root, "task", {{"text": long}}),
    lambda: BatchFolder.create(root, Batch(version="0", name="b", command=(long,), tasks=())),
):
    try:
        make()
    except RunFolderError as error:
        print(error.message)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-P", "-c", script]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert child.stdout.count("can't write") == 2, child.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunFolderError, match="permission is denied"):
        RunFolder.create(tmp_path, "task", {})


def test_blobs_are_named_by_content_and_stored_once(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "task", {})
    name = run.blobs.put("text ü")
    assert run.blobs.put("text ü") == name and run.blobs.get(name) == "text ü"
    assert len([path for path in (run.path / "blobs").rglob("*") if path.is_file()]) == 1
    with pytest.raises(RunFolderError, match="can't read"):
        run.blobs.get("0" * 32)


def test_the_transcript_only_grows(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "task", {})
    for text in ("one", "two\nlines"):
        run.transcript("0001-planner").add({"text": text})
    lines = (run.path / "transcript" / "0001-planner.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["one", "two\nlines"]
