"""Runs a task's own Python: modules from text, exceptions as `TaskError`s with the user's line, bounded memory.

Trusted code (the user wrote it), but wrong code: it may raise anything and ask for any amount of memory. Not covered:
a module of the task that is imported inside a function, since the task's modules are importable only while it loads.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import resource
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType

import psutil
from pydantic import JsonValue

from tools.errors import TaskError
from tools.tasks.source_text import parse, with_constants

SPARE = 0.85
"""Share of the available memory that a task may fill."""


def load_module(files: Mapping[str, str], entry: str, constants: Mapping[str, JsonValue]) -> ModuleType:
    """Execute `entry` with its module-level `constants` replaced. Raises TaskError like `user_call`."""
    finder = _TextFinder(files)
    module = ModuleType("warpsmith_task")
    module.__file__ = entry
    # A module has to be findable by name while its classes are made: dataclasses and torch look there.
    sys.modules[module.__name__] = module
    sys.meta_path.insert(0, finder)
    try:
        with user_call(files, f"{entry} can't be loaded"):
            tree = with_constants(parse(entry, files[entry]), constants)
            _remember_lines(entry, files[entry])
            exec(compile(tree, entry, "exec"), module.__dict__)
    finally:
        sys.meta_path.remove(finder)
        for name in finder.loaded:
            sys.modules.pop(name, None)
    return module


@contextmanager
def user_call(files: Mapping[str, str], what: str) -> Iterator[None]:
    """Turn whatever the task's code raises into a TaskError whose message is `what` and the user's line.

    "too_large" when memory ran out, else "raised". TaskErrors pass.
    """
    try:
        with bounded_memory():
            yield
    except TaskError:
        raise
    except (Exception, SystemExit) as error:  # the task's code may raise anything at all
        where = _place(error, files)
        if isinstance(error, MemoryError) or _is_torch_out_of_memory(error):
            raise too_large(f"{what}: {where}it needs more memory than there is") from error
        if isinstance(error, ModuleNotFoundError):
            raise TaskError(
                "missing", f"{what}: {where}{error}", f"Install {error.name} where warpsmith runs."
            ) from error
        text = str(error).strip().splitlines()
        problem = type(error).__name__ + (f": {text[0]}" if text else "")
        raise TaskError("raised", f"{what}: {where}{problem}", "Correct the task's file.") from error


def too_large(message: str) -> TaskError:
    """The one way a task is refused for its size."""
    return TaskError("too_large", message, "Make it smaller, for instance with --set NAME=VALUE.")


def require_memory(needed: float, what: str) -> None:
    """Raise TaskError("too_large") unless `needed` bytes fit into the memory that is available now."""
    available = available_memory() * SPARE
    if needed > available:
        raise too_large(f"{what} needs about {_size(needed)} of memory and {_size(available)} can be used")


def available_memory() -> int:
    """Bytes that can still be allocated without swapping, by the machine and by the control group."""
    available = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            available = min(available, int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no control group of version 2: the machine's figure stands
    return max(available, 0)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Within, allocations beyond the memory that is available fail with MemoryError instead of ending the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = _data_bytes() + int(available_memory() * SPARE)
    if soft != resource.RLIM_INFINITY:
        bound = min(bound, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def _place(error: BaseException, files: Mapping[str, str]) -> str:
    """`file:line: ` of the innermost frame that is the user's."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""


def _is_torch_out_of_memory(error: BaseException) -> bool:
    words = ("allocate memory", "out of memory")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def _remember_lines(name: str, text: str) -> None:
    """Let tracebacks and `inspect.getsource` find the text of a file that is not on disk."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


class _TextFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the task's own modules from their text, ahead of everything else of that name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self.loaded: list[str] = []

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        name = self._file(fullname)
        if name is None:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=name, is_package=name.endswith("__init__.py"))

    def exec_module(self, module: ModuleType) -> None:
        name = self._file(module.__name__)
        assert name is not None
        self.loaded.append(module.__name__)
        code: CodeType = compile(parse(name, self._files[name]), name, "exec")
        _remember_lines(name, self._files[name])
        exec(code, module.__dict__)

    def _file(self, module: str) -> str | None:
        stem = module.replace(".", "/")
        return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in self._files), None)
