"""The scripts that run on a GPU machine: without one they load, know their sections, and build what they will run."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from small_tasks import saxpy
from toolkit import needs_nvcc

from tools import reference
from tools.targets.cuda_toolkit import Toolkit

H200 = Path(__file__).parent / "h200"
sys.path.insert(0, str(H200))

import everything_on_gpu  # noqa: E402
import gpu_programs  # noqa: E402
import instruments  # noqa: E402
import zoo_on_gpu  # noqa: E402


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(H200 / "everything_on_gpu.py"), *arguments]
    environment = os.environ | {"OUT": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)


@pytest.mark.parametrize("path", sorted(H200.glob("*_on_gpu.py")), ids=lambda path: path.stem)
def test_every_script_loads(path: Path) -> None:
    assert importlib.import_module(path.stem).__doc__


@needs_nvcc
def test_a_dry_run_builds_and_writes_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--dry-run", "clocks")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^-- (\w+): as it should be", done.stdout, re.MULTILINE) == ["clocks"]
    assert list(tmp_path.iterdir()) == []


@needs_nvcc
def test_a_dry_run_without_a_disassembler_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/softmax").symlink_to(everything_on_gpu.ROOT / "examples/softmax")
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setattr(everything_on_gpu, "ROOT", tmp_path)
    monkeypatch.setattr(Toolkit, "tool", lambda *_: None)
    assert everything_on_gpu.main(["--dry-run", "listing"]) == 0
    said = capsys.readouterr().out
    assert "left out: SASS" in said and "'ptx'" in said and "-- listing: as it should be" in said


def test_unknown_sections_are_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "nothing")
    assert done.returncode == 2 and "there is no section nothing" in done.stderr


def test_parts_of_a_verdict_are_those_of_the_thread_that_judges() -> None:
    plain = reference.Reference.draw
    source = reference.load_reference(saxpy())
    with instruments.measured() as seconds:
        beside = threading.Thread(target=source.draw, args=(0, 1))
        beside.start()
        beside.join()
        assert seconds == {}
        source.draw(0, 1)
    assert list(seconds) == ["drawing inputs"] and seconds["drawing inputs"] > 0
    assert reference.Reference.draw is plain


def test_the_zoo_is_the_recorded_one() -> None:
    text = zoo_on_gpu.ZOO.read_text()
    for known in zoo_on_gpu.KNOWN:
        assert re.search(rf"\b{known.name}\(.*// {re.escape(known.comment)}", text)
        kernel = zoo_on_gpu.kernel(known).files["kernel.cu"]
        assert f"{known.name}<<<" in kernel and "int main" not in kernel
    assert len({known.name for known in zoo_on_gpu.KNOWN}) == len(re.findall(r"__global__", text)) == 10


def test_every_program_says_how_it_may_end() -> None:
    assert all(asked.status and "int main()" in asked.text for asked in gpu_programs.PROGRAMS.values())
