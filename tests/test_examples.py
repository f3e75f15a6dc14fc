"""The examples: readable as tasks, honest under audit, right for every setting of their tunables.

Kernels are built and called here without the judge: plain g++ and ctypes, so that this file tests the examples alone.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tools.audit import audit
from tools.contract import slots, task_header
from tools.numerics import compare
from tools.reference import Outputs, Reference, load_reference
from tools.task import read_task
from tools.tunables import Tunables, parse_tunables

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/task.toml"))


@cache
def loaded(name: str) -> Reference:
    """The example at about a quarter of its extents, still two different sizes and odd ones."""
    source = read_task(EXAMPLES / name)
    workloads = [
        w.model_copy(update={"parameters": {k: v // 4 + 1 if v > 64 else v for k, v in w.parameters.items()}})  # type: ignore[operator]
        for w in source.workloads
    ]
    return load_reference(source.model_copy(update={"workloads": tuple(workloads)}))


def header(name: str) -> str:
    reference = loaded(name)
    return task_header(name, [reference.signature(index) for index in range(len(reference.workloads))])


def tunables(name: str, language: str = "cpp") -> Tunables:
    return parse_tunables(loaded(name).source.start[language].files)  # type: ignore[index]


def settings(name: str, count: int, language: str = "cpp") -> list[dict[str, str]]:
    """The default, the last value of everything, and some at random."""
    space = tunables(name, language)
    rng = random.Random(name)
    drawn = [{key: rng.choice(values) for key, values in space.items()} for _ in range(count)]
    return [{k: v[0] for k, v in space.items()}, {k: v[-1] for k, v in space.items()}, *drawn]


def built(name: str, folder: Path, defines: dict[str, str]) -> ctypes.CDLL:
    source, library = folder / "kernel.cpp", folder / f"{abs(hash(tuple(defines.items())))}.so"
    source.write_text(loaded(name).source.start["cpp"].files["kernel.cpp"])
    (folder / "task.h").write_text(header(name))
    flags = ["-std=c++20", "-O2", "-march=native", "-fopenmp", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    defined = [f"-D{key}={value}" for key, value in defines.items()]
    subprocess.run(["g++", *flags, *defined, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def called(library: ctypes.CDLL, reference: Reference, workload: int, inputs: dict[str, object]) -> Outputs:
    """One call on poisoned outputs and scratch."""
    signature = reference.signature(workload)
    every = [reference.signature(index) for index in range(len(reference.workloads))]
    outputs = {t.name: np.frombuffer(b"\xa5" * t.nbytes, t.dtype).reshape(t.shape).copy() for t in signature.outputs}
    arrays = {name: value for name, value in {**inputs, **outputs}.items() if isinstance(value, np.ndarray)}
    words = [
        slot.value
        if slot.kind == "value"
        else arrays[slot.name].ctypes.data
        if slot.kind != "scalar"
        else int(np.float64(inputs[slot.name]).view(np.int64))  # type: ignore[arg-type]
        if isinstance(inputs[slot.name], float)
        else int(inputs[slot.name])  # type: ignore[call-overload]
        for slot in slots(signature, every)
    ]
    arguments = (ctypes.c_int64 * len(words))(*words)
    count = 0
    if hasattr(library, "scratch_bytes"):
        library.scratch_bytes.restype = ctypes.c_int64
        count = library.scratch_bytes(arguments)
    scratch = np.full(count + 256, 0xA5, np.uint8)
    aligned = scratch.ctypes.data + -scratch.ctypes.data % 256
    library.solve(arguments, ctypes.c_void_p(aligned if count else None))
    return outputs


def test_there_are_six_with_both_kernels_and_tunables() -> None:
    assert len(NAMES) >= 6
    for name in NAMES:
        start = loaded(name).source.start
        assert set(start) == {"cpp", "cuda"}
        assert all(len(parse_tunables(kernel.files)) >= 3 for kernel in start.values())
    assert sum(len(loaded(name).workloads) > 1 for name in NAMES) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_audit_accepts_the_example(name: str) -> None:
    reference = loaded(name)
    assert not [note for note in audit(reference, seed=4) if "no influence" in note]
    assert reference.flops(0, reference.draw(0, 0))
    assert len(reference.distributions) == 5


@pytest.mark.parametrize("name", NAMES)
def test_kernel_is_right_for_any_setting(name: str, tmp_path: Path) -> None:
    reference = loaded(name)
    libraries = [built(name, tmp_path, defines) for defines in settings(name, 4)]
    for workload in range(len(reference.workloads)):
        for distribution in reference.distributions:
            inputs = reference.draw(workload, 9, distribution)
            own, oracle = reference.baseline(workload, inputs), reference.oracle(workload, inputs)
            noise = reference.noise(workload, inputs, oracle)
            for library in libraries:
                check = compare(called(library, reference, workload, dict(inputs)), oracle, own, "strict", noise=noise)
                assert check.ok, (workload, distribution, check)


@pytest.mark.parametrize("name", NAMES)
def test_cuda_kernel_compiles(name: str, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin:/usr/local/bin")
    if nvcc is None:
        pytest.skip("needs nvcc")
    (tmp_path / "kernel.cu").write_text(loaded(name).source.start["cuda"].files["kernel.cu"])
    (tmp_path / "task.h").write_text(header(name))
    defines = [f"-D{key}={value}" for key, value in settings(name, 1, "cuda")[-1].items()]
    command = [nvcc, "-std=c++20", "-gencode", "arch=compute_90a,code=sm_90a", "-c", "kernel.cu", "-o", "kernel.o"]
    subprocess.run([*command, *defines], cwd=tmp_path, check=True)
