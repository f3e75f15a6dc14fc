"""Building PyCUDA: what is found of CUDA, what its build is told, and what is said when it can't be built or used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tools import cuda_setup
from tools.cuda_setup import Place, build, explain, find_place, main, try_it
from tools.errors import InfrastructureError
from tools.process import is_running
from tools.targets.cuda_toolkit import Toolkit


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit's folders, without its programs; no driver is on this machine."""
    root = tmp_path.resolve() / "cuda"
    (root / "include").mkdir(parents=True)
    found = Toolkit(root, root / "bin" / "nvcc", (13, 0), "13.0.88")
    monkeypatch.setattr(cuda_setup, "find_toolkit", lambda: found)
    monkeypatch.setattr(cuda_setup, "DRIVERS", ())
    monkeypatch.setattr(cuda_setup, "_linker_cache", lambda: "")
    return root


def settings(place: Place) -> dict[str, object]:
    told: dict[str, object] = {}
    exec(place.siteconf(), told)
    return told


def test_a_toolkit_with_everything(toolkit: Path, tmp_path: Path) -> None:
    (toolkit / "include" / "cuda.h").touch()
    (toolkit / "include" / "curand.h").touch()
    (toolkit / "lib64" / "stubs").mkdir(parents=True)
    (toolkit / "lib64" / "stubs" / "libcuda.so").touch()
    place = find_place(tmp_path)
    assert place == Place(toolkit, True, toolkit / "lib64" / "stubs")
    told = settings(place)
    assert told["CUDA_ROOT"] == str(toolkit) and told["CUDA_ENABLE_CURAND"] is True
    assert told["CUDADRV_LIB_DIR"] == [str(toolkit / "lib64" / "stubs")]
    assert find_place(tmp_path, curand=False).curand is False


def test_headers_below_targets_and_no_curand(toolkit: Path, tmp_path: Path) -> None:
    include = toolkit / "targets" / "x86_64-linux" / "include"
    include.mkdir(parents=True)
    (include / "cuda.h").touch()
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "libcuda.so").touch()
    place = find_place(tmp_path, tmp_path / "given")
    assert place == Place(toolkit, False, tmp_path / "given")
    assert str(include) in str(settings(place)["CUDA_INC_DIR"])


def test_without_stubs_the_driver_s_own_library_is_linked(
    toolkit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (toolkit / "include" / "cuda.h").touch()
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "libcuda.so.1").write_text("the library")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(cuda_setup, "DRIVERS", (str(driver),))
    assert find_place(scratch).driver_folder == scratch
    assert (scratch / "libcuda.so").read_text() == "the library"
    (scratch / "libcuda.so").unlink()
    monkeypatch.setattr(cuda_setup, "DRIVERS", ())
    line = f"\tlibcuda.so.1 (libc6,x86-64) => {driver / 'libcuda.so.1'}\n"
    monkeypatch.setattr(cuda_setup, "_linker_cache", lambda: line)
    assert find_place(scratch).driver_folder == scratch


def test_what_is_missing_is_said(toolkit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "has no cuda.h" in capsys.readouterr().err
    (toolkit / "include" / "cuda.h").touch()
    assert main([]) == 1
    said = capsys.readouterr().err
    assert "no libcuda.so to link against" in said and "cuda-driver-dev" in said


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("src/cpp/cuda.hpp:14:10: fatal error: cuda.h: No such file or directory", "headers are missing"),
        ("src/cpp/curand.hpp:6:12: fatal error: curand.h: No such file or directory", "--without-curand"),
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error", "--driver-folder"),
        ("fatal error: Python.h: No such file or directory", "python3-dev"),
        ("ERROR: Could not find a version that satisfies the requirement pycuda", "wheels"),
        ("error: command 'g++' failed: No such file or directory: 'g++': No such file", "apt-get install g++"),
        ("something else", "docs/gpu.md"),
    ],
)
def test_a_failed_build_is_explained(output: str, said: str) -> None:
    assert said in explain(output)


def interpreter(folder: Path, script: str) -> str:
    """In python's place: `$*` has pip's or -c's arguments."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_sources_are_fetched_configured_and_installed(tmp_path: Path) -> None:
    """By a stand-in for pip that hands out an archive and checks the tree that it is to install."""
    tree = tmp_path / "pycuda-2026.1"
    tree.mkdir()
    (tree / "setup.py").touch()
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as archive:
        archive.add(tree, "pycuda-2026.1")
    folder = tmp_path / "build"
    folder.mkdir()
    python = interpreter(
        tmp_path,
        f"""case "$*" in
*" download "*"--no-binary pycuda"*) cp {tmp_path}/archive.tar.gz {folder}/pycuda-2026.1.tar.gz ;;
*" install "*)
    for last; do :; done
    grep -q "CUDA_ROOT = '/cuda'" "$last/siteconf.py" || exit 7
    touch {tmp_path}/done ;;
*) exit 8 ;;
esac""",
    )
    build(python, Place(Path("/cuda"), False, Path("/stubs")), folder)
    assert (tmp_path / "done").is_file()
    failing = interpreter(tmp_path, "echo 'ld: cannot find -lcuda' >&2; exit 1")
    with pytest.raises(InfrastructureError, match="cannot find -lcuda") as caught:
        build(failing, Place(Path("/cuda"), False, Path("/stubs")), folder)
    assert "--driver-folder" in caught.value.advice


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ("raise ImportError('libcuda.so.1: cannot open shared object file')", "LD_LIBRARY_PATH"),
        ("class Error(Exception): ...\ndef init(): raise Error('cuInit failed: no device')", "nvidia-smi"),
    ],
)
def test_a_build_that_cannot_be_used_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, said: str
) -> None:
    package = tmp_path / "pycuda"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "driver.py").write_text(driver + "\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(InfrastructureError) as caught:
        try_it(sys.executable)
    assert said in caught.value.advice and "It is built" in caught.value.advice


def test_it_starts_as_the_makefile_starts_it() -> None:
    root = Path(__file__).resolve().parent.parent
    assert "-m tools.cuda_setup" in (root / "Makefile").read_text()
    command = [sys.executable, "-P", "-m", "tools.cuda_setup", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(root)}, check=True)
    assert "--driver-folder" in said.stdout


@pytest.mark.parametrize("number", cuda_setup.STOP_SIGNALS)
def test_a_build_that_is_stopped_leaves_neither_processes_nor_folders(tmp_path: Path, number: signal.Signals) -> None:
    """By a stand-in for pip that starts a process in a session of its own, makes a folder and sleeps."""
    home, scratch, begun = tmp_path / "cuda", tmp_path / "scratch", tmp_path / "begun"
    for name in ("bin/nvcc", "include/cuda.h", "lib64/stubs/libcuda.so"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    (home / "bin/nvcc").chmod(0o755)
    scratch.mkdir()
    pip = interpreter(
        tmp_path,
        f"mktemp -d > /dev/null; setsid sleep 600 & echo $! $$ > {begun}.new; mv {begun}.new {begun}; wait",
    )
    root = Path(__file__).resolve().parent.parent
    environment = os.environ | {"CUDA_HOME": str(home), "TMPDIR": str(scratch), "PYTHONPATH": str(root)}
    setup = subprocess.Popen(
        [sys.executable, "-P", "-m", "tools.cuda_setup", "--python", pip],
        env=environment, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 - whoever runs this may ignore it
    )  # fmt: skip
    with setup:
        while not begun.exists():
            assert setup.poll() is None
            time.sleep(0.01)
        setup.send_signal(number)
        assert setup.wait(60) == 128 + number
        assert setup.stderr is not None and setup.stderr.read() == "setup-cuda: stopped\n"
    assert not any(is_running(int(pid)) for pid in begun.read_text().split())
    assert list(scratch.iterdir()) == []


def test_a_driver_folder_without_the_library_is_said_before_the_build(toolkit: Path, tmp_path: Path) -> None:
    (toolkit / "include" / "cuda.h").touch()
    with pytest.raises(InfrastructureError, match=r"no libcuda\.so in"):
        find_place(tmp_path, tmp_path / "nowhere")
