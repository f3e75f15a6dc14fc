"""compute-sanitizer on a torch kernel that is called alone, on the smallest workload, in a process of its own.

It takes its time, since PyTorch is imported under each tool anew, so only a kernel that would win is looked at. PyTorch
asks the driver for each tensor apart meanwhile, with room behind it, so that memcheck sees where one ends. What a tool
finds counts when the kernel is called, not while its model is made, and races only where they are certain. A tool that
can't look, for whatever reason, is no verdict: the evidence says what was not looked at. Not covered: other workloads;
races in global memory; a kernel that behaves when it is watched.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tools import cuda_programs
from tools.cache import stored
from tools.contract import Scalar
from tools.cuda_instruments import observed
from tools.cuda_process import driver_environment
from tools.cuda_sanitizer import FOUND, OPTIONS, Outcome, outcome_of
from tools.errors import InfrastructureError
from tools.process import Completed, run_command
from tools.sandbox import detect
from tools.targets.cuda_toolkit import find_toolkit
from tools.torch_call import ModelCall
from tools.torch_host import driver_folder, python_folders
from tools.torch_load import EXTENSIONS, MADE
from tools.torch_process import Home
from tools.torch_replay import DATA, PLAN

SECONDS = 90.0
"""For one tool, the import of PyTorch included."""
VARIABLE = "WARPSMITH_TORCH_SANITIZERS"
"""Names the tools, with commas between, where not all of them are wanted; `none` for none."""
TOOLS: Mapping[str, tuple[str, ...]] = {
    "memcheck": (*OPTIONS["memcheck"], "--padding", "256", "--report-api-errors", "no"),
    "racecheck": (*OPTIONS["racecheck"], "--racecheck-detect-level", "error"),
    "initcheck": (*OPTIONS["initcheck"],),
}
"""PyTorch asks the driver for functions that it need not have: errors of calls say nothing here."""
UNSEEN: Mapping[str, str] = {
    "memcheck": "reads outside of arrays, and writes outside of memory that the kernel did not get from PyTorch",
    "racecheck": "races in shared memory",
    "initcheck": "reads of memory that nothing has written",
}
"""What goes unseen without each."""
NEVER_SEEN = "races in global memory"
FILE_SIZE = 1 << 30
_FILES = ("__init__.py", "torch_replay.py", "torch_load.py", "torch_ops.py")
_RANDOM = (Path("/dev/urandom"),)
"""PyTorch opens it as it is imported."""
_READY, _CALLING, _DONE = "replay: ready", "replay: calling", "replay: done"
_RAISED = re.compile(r"^replay: kernel: (.*)$", re.MULTILINE)
_NOT_STARTED = "PyTorch did not start under it"


@dataclass(frozen=True)
class Recorded:
    """One workload's inputs, by name, for the kernel of a build."""

    build: Path
    call: ModelCall
    values: Mapping[str, Any]


def wanted_tools() -> tuple[str, ...]:
    """Raises InfrastructureError for a setting that names no tool."""
    given = os.environ.get(VARIABLE, ",".join(TOOLS))
    names = [name.strip() for name in given.split(",") if name.strip() not in ("", "none")]
    if not set(names) <= set(TOOLS):
        raise InfrastructureError(f"{VARIABLE}={given} names no tool", f"Choose from {', '.join(TOOLS)}, or none.")
    return tuple(name for name in TOOLS if name in names)


def watched(recorded: Recorded, home: Home, tools: Sequence[str], program: Path | None = None) -> list[Outcome]:
    """How each tool ended, all of them at once. `program` is compute-sanitizer, where it is not the toolkit's."""
    program = program or find_toolkit().tool("compute-sanitizer")
    if program is None:
        return [Outcome(tool, trouble="this machine has no compute-sanitizer") for tool in tools]
    try:
        with tempfile.TemporaryDirectory(prefix="warpsmith-") as place, ThreadPoolExecutor(max(len(tools), 1)) as pool:
            plan = Path(place).resolve() / "plan"
            plan.mkdir()
            write_plan(plan, recorded, home.target)
            return list(pool.map(functools.partial(_run, program, recorded.build, plan, home), tools))
    except (OSError, InfrastructureError) as error:
        return [Outcome(tool, trouble=f"it can't be started: {error}") for tool in tools]


def _run(program: Path, build: Path, plan: Path, home: Home, tool: str) -> Outcome:
    own, package = plan.parent / tool, replay_package()
    shutil.copytree(build / MADE, own / MADE, ignore=shutil.ignore_patterns(EXTENSIONS))
    command = [
        *(str(program.resolve()), "--tool", tool, *TOOLS[tool], "--error-exitcode", str(FOUND)),
        *("--launch-timeout", f"{SECONDS:.0f}"),  # it waits for the first call of CUDA, behind the import
        *("--print-limit", "4", "--show-backtrace", "device", "--target-processes", "application-only"),
        *(str(cuda_programs.python()), "-P", "-m", "tools.torch_replay", str(build), str(plan)),
    ]
    readable = (*python_folders(), program.resolve().parent, package, build, plan)
    confined = observed(detect(), command, readable, own, file_size=FILE_SIZE, devices=_RANDOM)
    return told(tool, run_command(confined, timeout=SECONDS, env=_environment(home, package, own), cwd=Path("/")))


def told(tool: str, ran: Completed) -> Outcome:
    """What a finished tool says of the kernel's call."""
    text = ran.stdout + ran.stderr
    before, _, called = text.partition(_CALLING)
    last = f"more than {SECONDS:g} s" if ran.timed_out else (text.strip().splitlines() or ["nothing said"])[-1][:200]
    raised = _RAISED.search(text)
    last = raised[1] if raised else last
    if _READY not in before:
        return Outcome(tool, trouble=f"{_NOT_STARTED}: {last}")
    if not called:
        return Outcome(tool, trouble=f"the kernel's model was not made under it: {last}")
    if ran.timed_out:
        return Outcome(tool, trouble=f"the kernel's call takes {last} under it")
    outcome = outcome_of(tool, replace(ran, stdout=called, stderr=""))
    if outcome.trouble and raised:
        return Outcome(tool, trouble=f"the kernel raised {raised[1]} under it")
    if outcome.trouble and ran.exit_code != FOUND and _DONE in called:
        return Outcome(tool)  # what ends the interpreter badly comes behind the call
    return outcome


def never_started(outcomes: Sequence[Outcome]) -> bool:
    """Whether no tool came as far as the kernel, as it will be with the next one."""
    return bool(outcomes) and all(outcome.trouble.startswith(_NOT_STARTED) for outcome in outcomes)


def write_plan(place: Path, recorded: Recorded, device: str) -> None:
    """What `tools.torch_replay` reads: each tensor's dtype, shape, offset and elements, and the inputs' bytes."""
    tensors, data = {}, bytearray()
    scalars: dict[str, Any] = {}
    for item in recorded.call.signature.inputs:
        value = recorded.values[item.name]
        if isinstance(item, Scalar):
            scalars[item.name] = value.item() if isinstance(value, np.generic) else value
            continue
        array = np.ascontiguousarray(value)
        data += bytes(-len(data) % 64)
        tensors[item.name] = (item.dtype, list(item.shape), len(data), array.size)
        data += array.tobytes()
    call = recorded.call.model_dump(mode="json", exclude={"signature"})
    told = {"device": device, "tensors": tensors, "scalars": scalars, "call": call}
    (place / PLAN).write_text(json.dumps(told))
    (place / DATA).write_bytes(data)


def unseen(outcomes: Sequence[Outcome], names: Sequence[str], workload: str) -> str:
    """What of bad accesses and races was not looked for, once these tools have looked at that workload."""
    done = [outcome.tool for outcome in outcomes if not outcome.trouble]
    elsewhere = [UNSEEN[tool] for tool in done] if len(names) > 1 else []
    missed = [UNSEEN[tool] for tool in TOOLS if tool not in done]
    others = f"on other workloads than {workload}: {'; '.join(elsewhere)}" if elsewhere else ""
    return "; ".join(filter(None, (NEVER_SEEN, *missed, others)))


@functools.cache
def replay_package() -> Path:
    """A folder with a `tools` package that holds the replay and what it imports, so that its sandbox needs no more."""
    sources = [Path(__file__).parent / name for name in _FILES]

    def fill(folder: Path) -> None:
        (folder / "tools").mkdir()
        for source in sources:
            shutil.copyfile(source, folder / "tools" / source.name)

    return stored("replay", [source.read_text() for source in sources], fill)


def _environment(home: Home, package: Path, own: Path) -> dict[str, str]:
    """All that the replay sees of the environment. What was compiled for the kernel lies in the folder that it may
    write, so that what another process would compile anew can be compiled."""
    found = driver_folder()
    return {
        **(driver_environment(home.uuid) if home.uuid is not None else {}),
        "CUDA_MODULE_LOADING": "LAZY",  # there are gigabytes of kernels in PyTorch's libraries
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
        "PYTHONPATH": ":".join(map(str, (package, *python_folders()))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": f"{find_toolkit().root / 'bin'}:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": str(own),
        "TMPDIR": str(own),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TRITON_CACHE_DIR": str(own / MADE / "triton"),
        "CUPY_CACHE_DIR": str(own / MADE / "cupy"),
        "CUPY_CACHE_SAVE_CUDA_SOURCE": "0",
        "CUDA_PATH": str(find_toolkit().root),
        **({"TRITON_LIBCUDA_PATH": found} if found else {}),
    }
