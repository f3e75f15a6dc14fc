"""An export is there whole or not at all: on a full disk, where something is in the way, and when it is ended."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_disk import UNSHARE, mounts_work
from test_export_note import exportable

from app.exporting.folder import DRAFT, write_folder
from tests.test_cli import command
from tools.errors import WarpsmithError

FILES = {"README.md": "read me\n", "op/csrc/kernel.cpp": "int x;\n", "op/call.py": "x = 1\n"}
AMID = """
import os, signal, sys
from pathlib import Path
from app.exporting.folder import write_folder

class Files(dict):
    def items(self):
        for number, item in enumerate(super().items()):
            if number == 1:
                os.kill(os.getpid(), int(sys.argv[2]))
            yield item

for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # whoever started the tests may have had them ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
write_folder(Path(sys.argv[1]), Files({"a.txt": "a", "b/c.txt": "c"}))
signal.pause()
"""
"""Writes a folder, and gets a signal after the first of two files."""


def held(root: Path) -> dict[str, str]:
    """Each file below a folder."""
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def entries(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_folder_is_made_with_all_that_leads_there(tmp_path: Path) -> None:
    place = write_folder(tmp_path / "new/er/out", FILES)
    assert place == tmp_path / "new/er/out" and held(tmp_path / "new/er") == {f"out/{k}": v for k, v in FILES.items()}
    (tmp_path / "plain").mkdir()
    assert place.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_empty_folder_stays_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stands in it goes on standing in it."""
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    assert write_folder(Path(), FILES) == tmp_path
    assert tmp_path.stat().st_ino == before and held(tmp_path) == FILES


@pytest.mark.parametrize("in_the_way", ["file", "full folder"])
def test_what_is_there_is_left_alone(tmp_path: Path, in_the_way: str) -> None:
    out = tmp_path / "out"
    if in_the_way == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").touch()
    before = entries(tmp_path)
    with pytest.raises(WarpsmithError, match="is there already"):
        write_folder(out, FILES)
    assert entries(tmp_path) == before


@pytest.mark.parametrize("is_there", [True, False])
def test_what_can_not_be_written_leaves_nothing(tmp_path: Path, is_there: bool) -> None:
    """A file is in the way of a folder amid the export; then a path leads through a file."""
    out = tmp_path / "some/where"
    if is_there:
        out.mkdir(parents=True)
    before = entries(tmp_path)
    with pytest.raises(WarpsmithError, match=f"can't write {out}: ") as failure:
        write_folder(out, {"a": "first", "a/b": "below a file"})
    assert "Nothing of it was left there" in failure.value.advice and entries(tmp_path) == before
    with pytest.raises(UnicodeEncodeError):
        write_folder(out, {"a": "first", "b": "\ud800"})
    assert entries(tmp_path) == before
    (tmp_path / "file").touch()
    with pytest.raises(WarpsmithError, match="part of the path is a file"):
        write_folder(tmp_path / "file/out", FILES)


@pytest.mark.skipif(not mounts_work(), reason="this machine lets nobody mount in a namespace")
def test_a_full_disk_leaves_nothing_and_is_one_sentence(tmp_path: Path) -> None:
    run = exportable(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    arguments = command("export", run.path, "--out", disk / "out", "--no-check")
    again = command("export", run.path, "--out", tmp_path / "out", "--no-check")
    script = (
        f"mount -t tmpfs -o size=8k none {shlex.quote(str(disk))} && {shlex.join(arguments)}; code=$?; "
        f"find {shlex.quote(str(disk))} -mindepth 1; {shlex.join(again)} && exit $code"
    )
    done = subprocess.run([*UNSHARE, "sh", "-c", script], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith(f"error: can't write {disk / 'out'}: the disk is full.\n"), done.stderr
    assert len(done.stderr.splitlines()) == 2 and str(disk) not in done.stdout, "nothing lies there"
    assert done.stdout.startswith(f"written to {tmp_path / 'out'}\n  README.md\n"), "where it is is said"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_process_that_is_ended_amid_leaves_all_of_it_or_nothing(tmp_path: Path, number: signal.Signals) -> None:
    script = [sys.executable, "-c", AMID, str(tmp_path / "out"), str(int(number))]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -number, done.stderr
    if number == signal.SIGKILL:
        (left,) = tmp_path.iterdir()
        assert left.name.startswith(DRAFT)
        write_folder(tmp_path / "out", FILES)
        return
    assert entries(tmp_path) == ["out", "out/a.txt", "out/b", "out/b/c.txt"]
