"""The doctor's look at a GPU and at what judging on it needs. Without a GPU nothing here is a fault."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from app.findings import Finding, State, output, run
from tools.errors import WarpsmithError
from tools.targets.cuda_toolkit import (
    PYCUDA_ADVICE,
    QUERY_SECONDS,
    chosen_architecture,
    fault_of_cuda_home,
    find_devices,
    find_toolkit,
)
from tools.targets.device_choice import VARIABLE, VISIBLE, chosen_device

PARAMETERS = Path("/proc/driver/nvidia/params")
COUNTERS = (
    "Profiles then have no counters. An administrator can allow them: NVreg_RestrictProfilingToAdminUsers=0 for the"
    " nvidia module. Being root does not help: a kernel is run without capabilities."
)


def gpu() -> Finding:
    """The devices that the driver lists, and its version."""
    try:
        chosen = chosen_device(os.environ)
        names = [device.name for device in find_devices()]
    except WarpsmithError as error:
        return Finding("gpu", "limited", error.message, error.advice)
    driver = output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], QUERY_SECONDS)
    if not names and (query := shutil.which("nvidia-smi")) is not None:
        return _nothing_listed(query, chosen)
    if not names and (named := os.environ.get(VARIABLE)):
        advice = f"Unset {VARIABLE} to judge on the CPU, or install the driver: there is no nvidia-smi on the PATH."
        return Finding("gpu", "limited", f"no NVIDIA GPU, and {VARIABLE}={named} names one", advice)
    if not names:
        return Finding("gpu", "info", "no NVIDIA GPU", "A GPU elsewhere does as well: docs/gpu.md, --executor.")
    version = driver.splitlines()[0] if driver else "of unknown version"
    return Finding("gpu", "ok", f"{', '.join(names)}, driver {version}")


def _nothing_listed(query: str, chosen: str | None) -> Finding:
    """What it is when nvidia-smi lists nothing, or not the chosen one."""
    done = run([query, "-L"], seconds=QUERY_SECONDS)
    said = (done.stdout + done.stderr).decode(errors="replace") if done is not None else "it does not answer"
    listed = re.findall(r"^GPU \d+:", said, re.MULTILINE)
    if chosen is not None and listed and done is not None and done.returncode == 0:
        advice = f"Set {VARIABLE} or {VISIBLE} to a number or a UUID of `nvidia-smi -L`."
        return Finding("gpu", "limited", f"nvidia-smi lists {len(listed)} GPU(s), and none is {chosen}", advice)
    first = said.split("\n")[0][:200] or "it says nothing"
    advice = "Its driver may not be loaded, or not match: dmesg says more. In a container: --gpus all."
    return Finding("gpu", "limited", f"nvidia-smi lists no GPU: {first}", advice)


def nvcc() -> Finding:
    """The compiler, and the disassembler beside it."""
    wrong_home = fault_of_cuda_home()
    try:
        toolkit = find_toolkit()
    except WarpsmithError as error:
        advice = f"Kernels for a GPU need it: {error.advice}"
        return Finding("nvcc", "limited" if wrong_home else _lacking(), wrong_home or error.message, advice)
    found = f"nvcc {toolkit.version} in {toolkit.root}" + (f"; {wrong_home}" if wrong_home else "")
    try:
        chosen_architecture()
    except WarpsmithError as error:
        return Finding("nvcc", "limited", f"{found}; {error.message}", error.advice)
    if wrong_home:
        return Finding("nvcc", "limited", found, "Set CUDA_HOME to a toolkit that works, or unset it.")
    if toolkit.tool("cuobjdump") is None:
        advice = "Machine code can't be shown as SASS: install CUDA's binary utilities (PTX can)."
        return Finding("nvcc", "limited" if _has_gpu() else "info", f"{found}, without cuobjdump", advice)
    return Finding("nvcc", "ok", f"{found}, with cuobjdump")


def pycuda() -> Finding:
    """Whether PyCUDA is here and starts CUDA, tried in a process of its own."""
    if find_spec("pycuda") is None:
        return Finding("pycuda", _lacking(), "not installed", f"Judging on a GPU needs it. {PYCUDA_ADVICE}")
    code = "import pycuda.driver as d; d.init(); print(d.Device.count(), '.'.join(map(str, d.get_version())))"
    done = run([sys.executable, "-c", code])
    if done is not None and done.returncode == 0:
        count, version = done.stdout.decode().split()
        return Finding("pycuda", "ok", f"works with {count} device(s), built for CUDA {version}")
    last = (
        (done.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
        if done is not None
        else "it does not answer"
    )
    advice = (
        PYCUDA_ADVICE
        if "libcuda" not in last
        else "The driver's libcuda.so.1 must be found: set LD_LIBRARY_PATH to it."
    )
    return Finding("pycuda", _lacking(), f"installed, and does not start: {last[:200]}", advice)


def profiler() -> Finding:
    """Nsight Compute, and whether the driver lets everybody read counters."""
    from tools.profilers.ncu import find_ncu

    path = find_ncu()
    if path is None:
        advice = "Profiles then have no counters. It comes with the CUDA toolkit; put ncu on the PATH."
        return Finding("ncu", "limited" if _has_gpu() else "info", "not installed", advice)
    version = re.search(r"Version (\S+)", output([path, "--version"], QUERY_SECONDS) or "")
    found = f"{path}, version {version[1] if version else 'unknown'}"
    restricted = counters_restricted()
    if restricted is None:
        return Finding("ncu", "info", f"{found}; no driver tells who may read counters")
    if restricted:
        return Finding("ncu", "limited", f"{found}; counters are for administrators alone", COUNTERS)
    return Finding("ncu", "ok", f"{found}; everybody may read counters")


def counters_restricted(parameters: Path = PARAMETERS) -> bool | None:
    """What the driver's module was loaded with; None where there is none or it does not say."""
    try:
        match = re.search(r"^RmProfilingAdminOnly: (\d)", parameters.read_text(), re.MULTILINE)
    except OSError:
        return None
    return match[1] == "1" if match else None


def sanitizer() -> Finding:
    """compute-sanitizer, which looks at winners."""
    try:
        path = find_toolkit().tool("compute-sanitizer")
    except WarpsmithError:
        path = None
    if path is None:
        advice = "Races and bad accesses of winners are then not looked for. It comes with the CUDA toolkit."
        return Finding("compute-sanitizer", "limited" if _has_gpu() else "info", "not installed", advice)
    version = re.search(r"Version (\S+)", output([str(path), "--version"], QUERY_SECONDS) or "")
    return Finding("compute-sanitizer", "ok", f"{path}, version {version[1] if version else 'unknown'}")


LOOKS: tuple[Callable[[], Finding], ...] = (gpu, nvcc, pycuda, profiler, sanitizer)


def _has_gpu() -> bool:
    try:
        return bool(find_devices())
    except WarpsmithError:
        return False  # the look at the GPU says why


def _lacking() -> State:
    """What the lack of something is that judging on a GPU can't do without."""
    return "limited" if _has_gpu() else "info"
