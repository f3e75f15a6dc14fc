"""The scripts that record on a GPU, where something is missing: a sentence and exit status 2 where there is no GPU, and
status 1 where a section failed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

H200 = Path(__file__).parent / "h200"
sys.path.insert(0, str(H200))

import exports_on_gpu  # noqa: E402
import recording  # noqa: E402

SCRIPTS = [path.stem for path in sorted(H200.glob("*_on_gpu.py")) if "__main__" in path.read_text()]
ARGUMENTS = {"examples_on_gpu": ["measure", "nowhere"], "kernelbench_on_gpu": ["nowhere"]}
"""What a script does not run without."""
OF_SECTIONS = ("judge_on_gpu", "speed_on_gpu", "spread_parts_on_gpu", "torch_on_gpu")
DRIVERS = {
    "absent": (None, "nvidia-smi does not start (No such file or directory)"),
    "failing": ("echo 'NVIDIA-SMI has failed: no driver'; exit 9", "nvidia-smi says: NVIDIA-SMI has failed: no driver"),
    "empty": ("true", "nvidia-smi says: nothing"),
    "without devices": ("echo No devices were found", "nvidia-smi says: No devices were found"),
}
PRESENT = "echo 'NVIDIA H200, 575.57.08'"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Puts an nvidia-smi with this text on a PATH of its own, or none."""

    def install(text: str | None) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        if text is not None:
            (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{text}\n")
            (folder / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setenv("OUT", str(tmp_path / "out"))

    return install


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_says_in_a_sentence_that_there_is_no_gpu(
    script: str,
    driver: Callable[[str | None], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver(None)
    path = str(H200 / f"{script}.py")
    monkeypatch.setattr(sys, "argv", [path, *ARGUMENTS.get(script, [])])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(path, run_name="__main__")
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n")) == (2, "", 1), said.err
    assert said.err.startswith("There is no GPU here: ") and "docs/gpu.md" in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", DRIVERS)
def test_each_way_to_lack_a_gpu_is_told(
    name: str, driver: Callable[[str | None], None], capsys: pytest.CaptureFixture[str]
) -> None:
    text, why = DRIVERS[name]
    driver(text)
    with pytest.raises(recording.NoGpu):
        recording.gpu()
    assert recording.machine("nvcc 13.0")["chip"] is None
    with pytest.raises(SystemExit, match="2"):
        recording.require_gpu()
    assert capsys.readouterr().err.startswith(f"There is no GPU here: {why}. ")


def test_a_gpu_is_enough_unless_a_module_is_lacking(
    driver: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver(PRESENT)
    assert recording.gpu() == {"chip": "NVIDIA H200", "driver": "575.57.08"}
    recording.require_gpu("json")
    with pytest.raises(SystemExit, match="2"):
        recording.require_gpu("json", "no_such_module")
    assert capsys.readouterr().err == "Python lacks no_such_module here; see docs/gpu.md.\n"
    assert importlib.util.find_spec("no_such_module") is None


@pytest.mark.parametrize("script", OF_SECTIONS)
def test_a_section_that_failed_leaves_its_record_and_status_one(
    script: str, driver: Callable[[str | None], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        raise RuntimeError("the device fell off the bus")

    def status(section: Callable[..., Any]) -> object:
        monkeypatch.setattr(module, "SECTIONS", {"itself": section})
        try:
            return module.main()
        except SystemExit as ended:
            return ended.code

    driver(PRESENT)
    module: ModuleType = importlib.import_module(script)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "itself"])
    monkeypatch.setattr(recording, "require_gpu", lambda *_: None)
    if hasattr(module, "CudaTarget"):
        monkeypatch.setattr(module, "CudaTarget", lambda: SimpleNamespace(toolchain=lambda: {"compiler": "nvcc 13.0"}))
    if script == "judge_on_gpu":
        monkeypatch.setattr(module, "machine", lambda: recording.machine(None))
    assert status(fails) == 1
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / "out").iterdir())
    assert "the device fell off the bus" in json.dumps(record["itself"]) and record["chip"] == "NVIDIA H200"
    assert status(lambda *_: {"faults": []} if script == "speed_on_gpu" else {}) == 0


def test_nothing_is_exported_of_a_run_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def warpsmith(*arguments: str) -> subprocess.CompletedProcess[str]:
        asked.append(arguments[0])
        return subprocess.CompletedProcess(arguments, 2, "", "error: no CUDA device.\n")

    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setattr(exports_on_gpu, "require_gpu", lambda *_: None)
    monkeypatch.setattr(exports_on_gpu, "warpsmith", warpsmith)
    assert exports_on_gpu.main() == 1 and asked == ["optimize"]
    said = capsys.readouterr()
    assert "no CUDA device" in said.out and said.err == "The run failed, so there is nothing to export.\n"
    assert not (tmp_path / "out").exists()
