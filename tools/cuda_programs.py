"""What the judge itself runs on a GPU or hands to its workers, built on first use and kept in the cache folder."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

from tools.cache import NATIVE, native_binary, stored
from tools.errors import InfrastructureError
from tools.eviction import MAKING
from tools.process import run_command
from tools.targets.cuda_toolkit import find_toolkit
from tools.toolchain import find_compiler

WORKER = "tools.cuda_worker"
_WORKER_FILES = ("__init__.py", "cuda_worker.py", "cuda_flush.py", "cuda_memory.py", "messages.py")
_PACKAGES = ("numpy", "pycuda", "pytools", "platformdirs", "siphash24", "typing_extensions")
"""What a worker imports, or PyCUDA does."""
_BUILD_SECONDS = 180.0


def instruments(architecture: str) -> Path:
    """The cubin of `native/gpu_instruments.cu`."""
    return _cubin("gpu_instruments", architecture)


def content(architecture: str) -> Path:
    """The cubin of `native/gpu_content.cu`."""
    return _cubin("gpu_content", architecture)


def restraint() -> Path:
    """The library of `native/restraint.cpp`."""
    return native_binary("restraint", ("-shared", "-fPIC"))


def replay() -> Path:
    """The program of `native/gpu_replay.cu`."""
    return _built("gpu_replay.cu", "replay", ("-ldl",))


def _cubin(name: str, architecture: str) -> Path:
    virtual = architecture.replace("sm_", "compute_")
    flags = ("-cubin", "-gencode", f"arch={virtual},code={architecture}")
    return _built(f"{name}.cu", f"{name}.cubin", flags)


def _built(source: str, product: str, flags: tuple[str, ...]) -> Path:
    toolkit, compiler = find_toolkit(), find_compiler()
    path = NATIVE / source

    def build(folder: Path) -> None:
        command = [str(toolkit.nvcc), "-ccbin", str(compiler.path), "-std=c++17", "-O3", str(path)]
        result = run_command([*command, "-o", str(folder / product), *flags], timeout=_BUILD_SECONDS)
        if not result.ok:
            raise InfrastructureError(
                f"{source} does not compile: {result.stderr[:2000]}", "It needs CUDA 12 or newer."
            )

    identity = [source, *flags, toolkit.identity, compiler.identity, path.read_text()]
    return stored("native", identity, build) / product


@functools.cache
def worker_package() -> Path:
    """A folder with a `tools` package that holds the worker and what it imports, so that its sandbox needs no more."""
    sources = [Path(__file__).parent / name for name in _WORKER_FILES]

    def fill(folder: Path) -> None:
        (folder / "tools").mkdir()
        for source in sources:
            shutil.copyfile(source, folder / "tools" / source.name)

    return stored("worker", [source.read_text() for source in sources], fill)


def inbox() -> Path:
    """A new empty folder that a worker sees from its start and finds its kernel in later, beside the worker itself:
    libraries can be loaded from the cache. Whoever asks removes it; what a killed process left goes with the cache."""
    return Path(tempfile.mkdtemp(prefix=MAKING, dir=worker_package().parent))


@functools.cache
def python_folders() -> tuple[Path, ...]:
    """Where a worker's packages lie, without links."""
    found = [importlib.util.find_spec(name) for name in _PACKAGES]
    places = [Path(spec.origin).resolve() for spec in found if spec is not None and spec.origin is not None]
    return tuple(dict.fromkeys(path.parents[1] if path.name.startswith("__init__") else path.parent for path in places))


def python() -> Path:
    """The interpreter itself, not a link in a virtual environment."""
    return Path(sys.executable).resolve()


def python_home() -> Path:
    """What the interpreter needs of its installation."""
    return Path(sys.base_prefix).resolve()
