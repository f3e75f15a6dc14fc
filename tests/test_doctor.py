"""The doctor tries things for real and says what to do about what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app import doctor, doctor_cuda
from app.findings import Finding, run
from tools import service
from tools.errors import InfrastructureError
from tools.process import is_running
from tools.targets import cuda_toolkit
from tools.targets.cuda_toolkit import chosen_architecture, find_devices, find_toolkit


def test_this_machine_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.examine(as_json=True) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)}
    assert found["compiler"]["state"] == "ok" and found["sandbox"]["state"] in ("ok", "limited")
    assert all(item["advice"] for item in found.values() if item["state"] in ("limited", "missing"))


def test_a_machine_without_tools_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "LOOKS", (doctor.compiler, doctor.sanitizer, doctor.valgrind, doctor.counters))
    assert doctor.examine(as_json=False) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "apt-get install g++" in text and "apt-get install valgrind" in text
    assert "missing: compiler, sanitizers" in text


def test_an_old_compiler_is_not_taken_for_a_good_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\necho 9.4.0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.compiler() == Finding("compiler", "missing", "g++ 9.4.0", "Install g++ 11 or newer.")


def test_a_compiler_that_builds_nothing_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "g++"
    fake.write_text('#!/bin/sh\ncase "$1" in -dump*) echo 12.2.0;; *) exit 1;; esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.compiler().state == "missing" and doctor.sanitizer().state == "missing"


def test_the_sandbox_in_force_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools import sandbox

    sandbox.detect.cache_clear()
    monkeypatch.setenv("WARPSMITH_SANDBOX", "rlimits")
    try:
        finding = doctor.sandbox()
    finally:
        sandbox.detect.cache_clear()
    assert finding.state == "limited" and "rlimits" in finding.found and "bubblewrap" in finding.advice


def test_a_cache_folder_that_cannot_be_used_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("WARPSMITH_CACHE", str(blocker / "cache"))
    finding = doctor.cache()
    assert finding.state == "missing" and finding.advice


# ----------------------------------------------------------------------------------------------------------------- CUDA


def script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_machine_without_a_gpu_lacks_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [look() for look in doctor_cuda.LOOKS]
    assert {finding.name for finding in found} == {"gpu", "nvcc", "pycuda", "ncu", "compute-sanitizer"}
    assert not [finding for finding in found if finding.state in ("missing", "limited")]
    assert all(finding.advice for finding in found if finding.found in ("not installed", "no NVIDIA GPU"))


def test_on_a_machine_with_a_gpu_what_is_lacking_makes_it_weaker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(tmp_path, "nvidia-smi", 'case "$*" in *driver*) echo 580.159.04 ;; *) echo "NVIDIA H200, 9.0" ;; esac')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert doctor_cuda.gpu() == Finding("gpu", "ok", "NVIDIA H200, driver 580.159.04")
    monkeypatch.setattr(doctor_cuda, "find_spec", lambda _: None)
    found = doctor_cuda.pycuda()
    assert (found.state, found.found) == ("limited", "not installed") and "make setup-cuda" in found.advice
    script(tmp_path, "ncu", 'echo "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)"')
    parameters, read = tmp_path / "params", doctor_cuda.counters_restricted
    monkeypatch.setattr(doctor_cuda, "counters_restricted", lambda: read(parameters))
    assert doctor_cuda.profiler().state == "info"
    parameters.write_text("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    denied = doctor_cuda.profiler()
    assert denied.state == "limited" and "NVreg_RestrictProfilingToAdminUsers=0" in denied.advice
    parameters.write_text("RmProfilingAdminOnly: 0\n")
    assert doctor_cuda.profiler().state == "ok" and "2025.3.1.0" in doctor_cuda.profiler().found


def test_a_pycuda_that_does_not_start_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "pycuda"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "driver.py").write_text("raise ImportError('libcuda.so.1: cannot open shared object file')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor_cuda, "find_spec", lambda _: object())
    found = doctor_cuda.pycuda()
    assert "libcuda.so.1: cannot open" in found.found and "LD_LIBRARY_PATH" in found.advice


def test_a_device_lock_that_cannot_be_taken_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tools import device_lock

    assert doctor.device_lock().state == "ok"
    monkeypatch.setattr(device_lock, "LOCK_FOLDER", tmp_path / "nowhere")
    assert doctor.device_lock().state == "missing"


def test_the_models_in_use_and_the_keys_that_lack_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "WARPSMITH_API_KEY", "WARPSMITH_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert doctor.models().state == "info" and "builtin:autotune" in doctor.models().found
    monkeypatch.setenv("WARPSMITH_MODEL", "openai:gpt-x")
    lacking = doctor.models()
    assert lacking.state == "limited" and "OPENAI_API_KEY" in lacking.found and "warpsmith models" in lacking.advice
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key-0123456789")
    ready = doctor.models()
    assert ready.state == "ok" and "openai:gpt-x" in ready.found and "planted" not in repr(ready)
    (tmp_path / "warpsmith.toml").write_text("[modles]\n")
    assert doctor.models().state == "limited" and "modles" in doctor.models().found


@pytest.mark.parametrize(
    ("torch", "ninja", "state"), [(True, True, "ok"), (True, False, "limited"), (False, True, "info")]
)
def test_ninja_is_named_where_pytorch_is(
    torch: bool, ninja: bool, state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda _: object() if torch else None)
    monkeypatch.setenv("PATH", str(tmp_path))
    if ninja:
        (tmp_path / "ninja").touch(0o755)
    finding = doctor.torch()
    assert finding.state == state and ("ninja" in finding.found) is torch


@pytest.mark.parametrize(
    ("variable", "value", "name"), [("WARPSMITH_DEVICE", "fast", "gpu"), ("WARPSMITH_CUDA_ARCH", "sm_99", "nvcc")]
)
def test_a_setting_that_names_nothing_is_a_finding_and_not_the_doctor_s_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, name: str
) -> None:
    script(tmp_path, "nvidia-smi", "echo 'NVIDIA H200, 9.0'")
    script(tmp_path, "nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv(variable, value)
    find_toolkit.cache_clear()
    try:
        found = {finding.name: finding for finding in (look() for look in doctor_cuda.LOOKS)}
    finally:
        find_toolkit.cache_clear()
    assert found[name].state == "limited" and value in found[name].found and found[name].advice


def test_a_driver_that_is_out_of_order_is_told_from_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path, "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = doctor_cuda.gpu()
    assert found.state == "limited" and "version mismatch" in found.found and found.advice


def test_programs_that_can_not_be_started_are_as_good_as_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("nvidia-smi", "bin/nvcc"):
        (tmp_path / name).write_bytes(b"no program")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_devices() == () and "nvidia-smi lists no GPU" in doctor_cuda.gpu().found
    find_toolkit.cache_clear()
    try:
        found = doctor_cuda.nvcc()  # the next nvcc is asked, or it says that this one does not run
    finally:
        find_toolkit.cache_clear()
    assert "can't be started" not in found.found and "bin/nvcc does not run" in found.found


def test_programs_that_hang_are_asked_once_and_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    asked = tmp_path / "asked"
    asked.touch()
    for name in ("nvidia-smi", "bin/nvcc"):
        script(tmp_path, name, f"echo {name} >> {asked}; exec sleep 600")
    monkeypatch.setattr(cuda_toolkit, "QUERY_SECONDS", 0.3)
    monkeypatch.setattr(cuda_toolkit, "_USUAL", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("WARPSMITH_CUDA_ARCH", raising=False)
    find_toolkit.cache_clear()
    try:
        found = {finding.name: finding for finding in (look() for look in doctor_cuda.LOOKS)}
        with pytest.raises(InfrastructureError, match=r"nvidia-smi hangs: .* within 0\.3 s"):
            chosen_architecture()
    finally:
        find_toolkit.cache_clear()
    assert found["gpu"].state == "limited" and "nvidia-smi hangs" in found["gpu"].found
    assert "bin/nvcc hangs" in found["nvcc"].found and all(found[name].advice for name in ("gpu", "nvcc"))
    names = asked.read_text().split()
    assert len(names) == len(set(names))


def test_a_gpu_that_can_not_be_asked_for_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else a check would say that there is no CUDA device, and build for a GPU that is not here."""
    script(tmp_path, "nvidia-smi", "exec sleep 600")
    monkeypatch.setattr(cuda_toolkit, "QUERY_SECONDS", 0.3)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(InfrastructureError, match="hangs") as caught:
        service._no_judging()
    assert "dmesg" in caught.value.advice


@pytest.mark.parametrize("another", [True, False])
@pytest.mark.parametrize(
    ("nvcc", "says"),
    [(None, "has no bin/nvcc"), ("exit 1", "bin/nvcc does not run"), ("it hung", "bin/nvcc hangs")],
)
def test_a_cuda_home_that_does_not_work_is_said_whatever_nvcc_is_taken_instead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nvcc: str | None, says: str, another: bool
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home / "bin", elsewhere):
        folder.mkdir(parents=True)
    if nvcc is not None:
        script(home / "bin", "nvcc", nvcc)
    if another:
        script(elsewhere, "nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    monkeypatch.setattr(cuda_toolkit, "_hung", {str(home / "bin/nvcc")} if nvcc == "it hung" else set())
    monkeypatch.setattr(cuda_toolkit, "_USUAL", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", str(elsewhere))
    monkeypatch.setenv("CUDA_HOME", str(home))
    find_toolkit.cache_clear()
    try:
        found = doctor_cuda.nvcc()
    finally:
        find_toolkit.cache_clear()
    assert found.state == "limited" and f"CUDA_HOME={home}" in found.found and says in found.found
    assert "CUDA_HOME" in found.advice and ("nvcc 13.0.88" in found.found) is another


@pytest.mark.parametrize(
    ("named", "listed", "says"),
    [
        ("fast", None, "WARPSMITH_DEVICE=fast names no device"),
        ("-1", None, "WARPSMITH_DEVICE=-1 names no device"),
        ("0", None, "no NVIDIA GPU, and WARPSMITH_DEVICE=0 names one"),
        ("GPU-3e6a", None, "no NVIDIA GPU, and WARPSMITH_DEVICE=GPU-3e6a names one"),
        ("7", "GPU 0: NVIDIA H200 (UUID: GPU-ff)", "nvidia-smi lists 1 GPU(s), and none is 7"),
        ("GPU-3e6a", "GPU 0: NVIDIA H200\nGPU 1: NVIDIA H200", "lists 2 GPU(s), and none is GPU-3e6a"),
        ("0", "No devices were found", "nvidia-smi lists no GPU: No devices were found"),
    ],
)
def test_a_device_that_is_not_here_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str, listed: str | None, says: str
) -> None:
    if listed is not None:
        script(tmp_path, "nvidia-smi", f'case "$*" in -L) echo "{listed}" ;; *) exit 6 ;; esac')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("WARPSMITH_DEVICE", named)
    found = doctor_cuda.gpu()
    assert found.state == "limited" and says in found.found and found.advice


def test_a_wrapper_whose_program_hangs_does_not_hold_the_doctor(tmp_path: Path) -> None:
    """What the wrapper started keeps its output open after it was ended."""
    child = tmp_path / "child"
    child.touch()
    script(tmp_path, "ncu", f"sleep 600 & echo $! > {child}; wait")
    assert run([str(tmp_path / "ncu"), "--version"], seconds=0.5) is None
    assert not any(is_running(int(pid)) for pid in child.read_text().split())
