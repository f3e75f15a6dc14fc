"""Builds and runs a model's own small program, confined like a kernel and with the device to itself.

Nothing it prints counts: it is handed back as text and is read by nobody but the model. Not covered: what it does with
its time on the device, which is why the time is short.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from tools.cache import stored
from tools.deviceless import DevicelessJudge
from tools.errors import KernelError
from tools.process import Completed, run_command
from tools.program import STDERR_BYTES, STDOUT_BYTES, Experiment, Outcome, Program
from tools.records import Diagnostic
from tools.sandbox import Confinement, Sandbox
from tools.targets.building import HEADER, Workplace, check_settings, last_line
from tools.targets.cpu import read_diagnostics
from tools.targets.cpu import workplace as cpu_workplace
from tools.targets.cpu_flags import allowed_flag
from tools.targets.cuda import CudaTarget
from tools.targets.cuda_flags import allowed_flag as allowed_nvcc_flag
from tools.targets.cuda_messages import read_messages_of_nvcc
from tools.targets.cuda_toolkit import find_toolkit
from tools.targets.cuda_workplace import driver_library, nvcc, workplace
from tools.toolchain import find_compiler

if TYPE_CHECKING:
    from tools.judge import Judge

MEMORY: Final = 2 << 30
"""Bytes that a program may use."""
_SPACE: Final = 8 << 30  # bytes of address space: threads reserve more than they use
_PRODUCT: Final = "program"
_FAILED: Final = "failed.txt"
_CPU: Final = ("-std=c++20", "-O2", "-march=native", "-fopenmp", "-Wall", "-Wno-unknown-pragmas", "-I.")
_CUDA: Final = ("-O3", "-lineinfo", "-I.", "-Xlinker=--as-needed")
_SUFFIXES: Final = (".cpp", ".cc", ".cxx", ".cu")


def run_experiment(judge: Judge | DevicelessJudge, program: Program) -> Experiment:
    """Build `program` and run it. KernelError for files or flags that are not allowed; InfrastructureError when it was
    built and there is no device."""
    judge.progress("build")
    path, diagnostics = build_program(program, judge.header)
    if path is None:
        return Experiment(program=program.id, status="not_built", diagnostics=diagnostics)
    if isinstance(judge, DevicelessJudge):
        raise judge.refusal
    with judge.lock():
        judge.progress("experiment")
        return outcome_of(program, diagnostics, judge.device.run_program(path, program.seconds))


def run_confined(
    sandbox: Sandbox, program: Path, seconds: float, environment: Mapping[str, str], devices: Sequence[Path] = ()
) -> Completed:
    """Run a program that may compute and print: no files, no network, no other process, an end in `seconds`."""
    on_device = bool(devices)
    policy = Confinement(
        read_only=(program, *([Path("/sys")] if on_device else [])),
        devices=tuple(devices),
        memory=None if on_device else _SPACE,  # a GPU's driver reserves much that is not memory
        cpu_seconds=int(seconds * (os.cpu_count() or 1)) + 1,
        open_files=1024 if on_device else 256,
        proc=on_device,
    )
    return run_command(
        sandbox.wrap([str(program)], policy),
        timeout=seconds,
        cwd=Path("/"),
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", **environment},
        output_limit=STDOUT_BYTES,
        memory_limit=MEMORY,
    )


def outcome_of(program: Program, diagnostics: Sequence[Diagnostic], ran: Completed) -> Experiment:
    """What the run says, in the words of the record."""
    died = ran.signal or (ran.exit_code - 128 if ran.exit_code is not None and ran.exit_code > 128 else 0)
    crashed = died in {each.value for each in signal.Signals}
    status: Outcome = "crashed" if crashed else "ended"
    if ran.timed_out or (crashed and died in (signal.SIGXCPU, signal.SIGPROF)):
        status = "timeout"
    elif ran.out_of_memory:
        status = "out_of_memory"
    return Experiment(
        program=program.id,
        status=status,
        diagnostics=tuple(diagnostics),
        exit_code=ran.exit_code if status == "ended" else None,
        signal=signal.Signals(died).name if status == "crashed" else None,
        stdout=ran.stdout,
        stderr=ran.stderr[:STDERR_BYTES],
        truncated=ran.truncated or len(ran.stderr) > STDERR_BYTES,
        seconds=ran.seconds,
    )


def build_program(program: Program, header: str) -> tuple[Path | None, tuple[Diagnostic, ...]]:
    """The executable, from the cache where it is known, with the compiler's words; None when it does not build."""
    on_device = program.language == "cuda"
    check_settings(program, (), allowed_nvcc_flag if on_device else allowed_flag)
    compiler = find_compiler().identity
    identity = [program.id, header, compiler]
    identity += [find_toolkit().identity, CudaTarget().architecture] if on_device else []

    def make(folder: Path) -> None:
        for path, text in {**program.files, HEADER: header}.items():
            (folder / "src" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "src" / path).write_text(text)
        place = workplace(folder) if on_device else cpu_workplace(folder)
        ran = place.run(_command(program, place))
        (folder / "said.txt").write_text(ran.stderr)
        if (limit := place.limit_met(ran)) is not None:  # not kept: another day it may pass
            raise KernelError(f"the compiler needed more than {limit}", "Make the program smaller.")
        if not ran.ok:
            (folder / _FAILED).write_text(last_line(ran))

    folder = stored("programs", identity, make)
    said = (folder / "said.txt").read_text()
    diagnostics = read_messages_of_nvcc(said) if on_device else read_diagnostics(said)
    if not (folder / _FAILED).is_file():
        return folder / _PRODUCT, diagnostics
    if all(each.severity != "error" for each in diagnostics):
        diagnostics = (*diagnostics, Diagnostic(severity="error", message=(folder / _FAILED).read_text()))
    return None, diagnostics


def _command(program: Program, place: Workplace) -> tuple[str, ...]:
    sources = sorted(path for path in program.files if PurePosixPath(path).suffix in _SUFFIXES)
    begin = (*nvcc(CudaTarget().architecture), *_CUDA) if program.language == "cuda" else _gcc(place)
    defines = [f"-D{name}={value}" for name, value in sorted(program.defines.items())]
    end = driver_library() if program.language == "cuda" else ()
    return (*begin, *program.flags, *defines, *sources, "-o", f"../{_PRODUCT}", *end)


def _gcc(place: Workplace) -> tuple[str, ...]:
    return (str(find_compiler().path), *_CPU, f"-ffile-prefix-map={place.folder / 'src'}=.")
