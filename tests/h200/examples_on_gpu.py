"""Runs every example's CUDA kernel on a GPU: right against the NumPy reference, and how fast, for some settings.

Two steps, since the machine with the GPU may have nothing but Python, NumPy and nvcc:

    python tests/h200/examples_on_gpu.py prepare build/gpu      where warpsmith is installed
    python tests/h200/examples_on_gpu.py measure build/gpu      where the GPU is; writes examples_on_gpu.json

`prepare` writes the generated header and how to fill the kernel's arguments; `measure` reads only that and `examples/`.
The result goes to the folder $OUT (else ./out). It is a record of what the chip did, not a verdict of the judge.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))

import recording  # noqa: E402

ARCHITECTURE = "arch=compute_90a,code=sm_90a"
SETTINGS, CALLS = 6, 20
"""Settings tried besides the default, and timed calls of each."""
FLOOR = 1.5e-4
"""Error allowed as a fraction of the row's scale, as the judge has it for float32."""

HARNESS = r"""
#include <cstdint>
#include <cuda_runtime.h>
namespace task { struct Args; }
extern "C" void solve(const task::Args& args, void* scratch, cudaStream_t stream);
extern "C" __attribute__((weak)) int64_t scratch_bytes(const task::Args& args);

extern "C" int64_t device_scratch_bytes(const task::Args* args) { return scratch_bytes ? scratch_bytes(*args) : 0; }
extern "C" void* device_new(int64_t bytes) {
    void* p = nullptr;
    return cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess ? p : nullptr;
}
extern "C" int device_delete(void* p) { return cudaFree(p); }
extern "C" int device_put(void* to, const void* from, int64_t bytes) {
    return cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
}
extern "C" int device_get(void* to, const void* from, int64_t bytes) {
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
}
extern "C" int device_fill(void* to, int byte, int64_t bytes) { return cudaMemset(to, byte, bytes); }
extern "C" int call(const task::Args* args, void* scratch) {
    solve(*args, scratch, nullptr);
    const int status = cudaGetLastError();
    return status ? status : cudaDeviceSynchronize();
}
// Milliseconds of each of `calls` calls, the second-level cache overwritten before each.
extern "C" int time_calls(const task::Args* args, void* scratch, void* junk, int64_t bytes, int calls, float* times) {
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    for (int i = 0; i < calls; ++i) {
        cudaMemsetAsync(junk, i, bytes, nullptr);
        cudaEventRecord(start, nullptr);
        solve(*args, scratch, nullptr);
        cudaEventRecord(stop, nullptr);
        const int status = cudaEventSynchronize(stop);
        if (status) return status;
        cudaEventElapsedTime(times + i, start, stop);
    }
    return cudaGetLastError();
}
"""


def prepare(folder: Path) -> None:
    """Write `task.h` and `plan.json` of each example."""
    sys.path.insert(0, str(ROOT))
    from tools.contract import slots, task_header
    from tools.reference import load_reference
    from tools.task import read_task
    from tools.tunables import parse_tunables

    for path in sorted((ROOT / "examples").glob("*/task.toml")):
        source = read_task(path.parent)
        reference = load_reference(source)
        signatures = [reference.signature(index) for index in range(len(source.workloads))]
        plan = {
            "tunables": parse_tunables(source.start["cuda"].files),
            "workloads": [
                {
                    "name": workload.name,
                    "parameters": workload.parameters,
                    "slots": [slot.model_dump() for slot in slots(signature, signatures)],
                    "outputs": [tensor.model_dump() for tensor in signature.outputs],
                    "bytes": reference.bytes_moved(index, reference.draw(index, 0)),
                }
                for index, (workload, signature) in enumerate(zip(source.workloads, signatures, strict=True))
            ],
        }
        place = folder / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        (place / "task.h").write_text(task_header(source.name, signatures))
        (place / "plan.json").write_text(json.dumps(plan, indent=1))
        (folder / "harness.cu").write_text(HARNESS)


def measure(folder: Path) -> None:
    """Build, check and time every example; exit status 1 when one is wrong, or none was prepared."""
    recording.require_gpu()
    plans = sorted(folder.glob("*/plan.json"))
    if not plans:
        sys.exit(f"Nothing is prepared under {folder}")
    results = [row for plan in plans for row in measure_example(plan)]
    record = {**machine(folder), "results": results}
    (recording.out_folder() / "examples_on_gpu.json").write_text(json.dumps(record, indent=1))
    for row in results:
        times = f"{row['median_ms']:9.4f} ms" if row["ok"] else f"WRONG {row['problem']}"
        print(f"{row['example']:18} {row['workload']:10} {times}  {row['settings']}")
    sys.exit(any(not row["ok"] for row in results))


def measure_example(plan_path: Path) -> list[dict[str, Any]]:
    """One row for each setting and workload, the default setting first."""
    name, plan = plan_path.parent.name, json.loads(plan_path.read_text())
    rng = random.Random(name)
    space: dict[str, list[str]] = plan["tunables"]
    chosen = [{key: values[0] for key, values in space.items()}, {key: values[-1] for key, values in space.items()}]
    chosen += [{key: rng.choice(values) for key, values in space.items()} for _ in range(SETTINGS - 1)]
    reference = load(ROOT / "examples" / name / "reference.py")
    rows = []
    kernel = ROOT / "examples" / name / "kernel.cu"
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor() as pool:
        places = [Path(work) / f"{index}.so" for index in range(len(chosen))]
        builds = pool.map(build, repeat(plan_path.parent), repeat(kernel), places, chosen)
        for defines, library in zip(chosen, builds, strict=True):
            for workload in plan["workloads"]:
                row = {"example": name, "workload": workload["name"], "settings": defines}
                rows.append({**row, **run(library, reference, workload)})
    return rows


def run(library: ctypes.CDLL, reference: ModuleType, workload: dict[str, Any]) -> dict[str, Any]:
    """Call the kernel on poisoned memory, compare with the reference in float64, then time it."""
    inputs = reference.inputs(np.random.default_rng(random.getrandbits(32)), **workload["parameters"])
    outputs = {t["name"]: np.empty(t["shape"], t["dtype"]) for t in workload["outputs"]}
    on_device = {name: place(library, a) for name, a in {**inputs, **outputs}.items() if isinstance(a, np.ndarray)}
    words = [word(slot, inputs, on_device) for slot in workload["slots"]]
    arguments = (ctypes.c_int64 * len(words))(*words)
    scratch_size = library.device_scratch_bytes(arguments)
    junk_size = 256 << 20
    scratch, junk = library.device_new(scratch_size), library.device_new(junk_size)
    try:
        for name, array in outputs.items():
            require(library.device_fill(on_device[name], 0xA5, array.nbytes), "poisoning")
        require(library.device_fill(scratch, 0xA5, scratch_size), "poisoning")
        require(library.call(arguments, scratch), "the kernel")
        for name, array in outputs.items():
            require(library.device_get(array.ctypes.data, on_device[name], array.nbytes), "reading")
        worst = error_share(reference, inputs, outputs)
        times = (ctypes.c_float * CALLS)()
        require(library.time_calls(arguments, scratch, junk, junk_size, CALLS, times), "timing")
    finally:
        for pointer in (*on_device.values(), scratch, junk):
            library.device_delete(pointer)
    median = float(np.median(list(times)))
    return {
        "ok": bool(worst <= 1),
        "problem": "" if worst <= 1 else f"error is {worst:.3g} of what is allowed",
        "error_share": worst,
        "median_ms": median,
        "least_ms": min(times),
        "gigabytes_per_second": workload["bytes"] / median / 1e6,
    }


def error_share(reference: ModuleType, inputs: dict[str, Any], outputs: dict[str, np.ndarray[Any, Any]]) -> float:
    """Largest error as a share of what is allowed: integers exactly, floats by the scale of their row."""
    wide = {k: v.astype(np.float64) if getattr(v, "dtype", None) == np.float32 else v for k, v in inputs.items()}
    expected = reference.reference(**wide)
    named = expected if isinstance(expected, dict) else {next(iter(outputs)): expected}
    worst = 0.0
    for name, actual in outputs.items():
        right = np.asarray(named[name])
        if actual.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(actual, right) else float("inf"))
            continue
        scale = np.maximum(np.abs(right), np.sqrt(np.mean(right**2, axis=-1, keepdims=True)))
        error = np.where(np.isfinite(actual), np.abs(actual - right) / (FLOOR * scale), np.inf)
        worst = max(worst, float(error.max()))
    return worst


def build(folder: Path, kernel: Path, library: Path, defines: dict[str, str]) -> ctypes.CDLL:
    """Compile kernel and harness to one shared object."""
    nvcc = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if nvcc is None:
        sys.exit("There is no nvcc on this machine")
    command = [nvcc, "-std=c++20", "-O3", "-gencode", ARCHITECTURE, "-shared", "-Xcompiler", "-fPIC", f"-I{folder}"]
    command += [f"-D{key}={value}" for key, value in defines.items()]
    subprocess.run([*command, str(kernel), str(folder.parent / "harness.cu"), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    loaded.device_new.restype, loaded.device_new.argtypes = pointer, [size]
    loaded.device_delete.argtypes = [pointer]
    loaded.device_put.argtypes = loaded.device_get.argtypes = [pointer, pointer, size]
    loaded.device_fill.argtypes = [pointer, ctypes.c_int, size]
    loaded.device_scratch_bytes.restype, loaded.device_scratch_bytes.argtypes = size, [pointer]
    loaded.call.argtypes = [pointer, pointer]
    loaded.time_calls.argtypes = [pointer, pointer, pointer, size, ctypes.c_int, pointer]
    return loaded


def place(library: ctypes.CDLL, array: np.ndarray[Any, Any]) -> int:
    """A copy of `array` on the device."""
    pointer: int | None = library.device_new(array.nbytes)
    if pointer is None:
        sys.exit("The GPU has no memory left, or there is no GPU")
    dense = np.ascontiguousarray(array)
    require(library.device_put(pointer, dense.ctypes.data, dense.nbytes), "copying")
    return pointer


def word(slot: dict[str, Any], inputs: dict[str, Any], on_device: dict[str, int]) -> int:
    """The 8 bytes of one member of `task::Args`."""
    if slot["kind"] == "value":
        return int(slot["value"])
    if slot["kind"] == "scalar":
        value = inputs[slot["name"]]
        return int(np.float64(value).view(np.int64)) if isinstance(value, float) else int(value)
    return on_device[slot["name"]]


def require(status: int, what: str) -> None:
    if status:
        sys.exit(f"CUDA error {status} in {what}")


def machine(folder: Path) -> dict[str, Any]:
    """What ran it, and when."""
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release ([\d.]+)", version)
    examples = sorted(path.parent.name for path in folder.glob("*/plan.json"))
    return {**recording.machine(release[1] if release else None), "examples": examples}


def load(path: Path) -> ModuleType:
    """The example's NumPy reference."""
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("prepare", "measure"):
        sys.exit(__doc__)
    {"prepare": prepare, "measure": measure}[sys.argv[1]](Path(sys.argv[2]))
