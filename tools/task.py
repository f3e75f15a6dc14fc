"""A task as read from its files: text and settings, nothing executed. See `tools.reference` for what runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from tools.records import Kernel, Language, Policy, Record, content_id
from tools.tasks.folder import WorkloadSpec

__all__ = ["TaskKind", "TaskSource", "WorkloadSpec", "read_kernel", "read_task"]

TaskKind: TypeAlias = Literal["numpy", "kernelbench"]


class TaskSource(Record):
    """A self-contained task: it travels as JSON and needs no file of the user's any more."""

    name: str
    kind: TaskKind
    entry: str
    """The file of `files` that holds the reference."""
    files: dict[str, str]
    """Relative POSIX path to text: the reference and the Python modules beside it that it imports."""
    workloads: tuple[WorkloadSpec, ...] = (WorkloadSpec(),)
    overrides: dict[str, JsonValue] = {}
    """Module constants (KernelBench) or workload parameters (NumPy) replaced by the user for this run."""
    policy: Policy = "strict"
    libraries: tuple[str, ...] = ()
    distributions: tuple[str, ...] | None = None
    """Names out of `tools.numerics.DISTRIBUTIONS`; absent means all."""
    inplace: tuple[str, ...] = ()
    """Inputs that the kernel may overwrite."""
    description: str = ""
    start: dict[Language, Kernel] = {}
    """Starting kernels by language; may be empty."""

    @property
    def id(self) -> str:
        """Content id of what is computed and how it is judged: everything but the starting kernels."""
        return content_id(self.model_dump(mode="json", exclude={"start"}))


def read_task(path: Path, overrides: Mapping[str, JsonValue] | None = None) -> TaskSource:
    """Read the task at `path`: a NumPy file, a KernelBench file, or a folder with `task.toml`. Executes nothing.

    Raises TaskError: "missing" (no such file), "not_python" (with the line), "not_a_task" (what it lacks, or an
    override that names no constant or parameter).
    """
    raise NotImplementedError


def read_kernel(path: Path, language: Language | None = None) -> Kernel:
    """Read a kernel from one source file or from a folder of sources.

    Without `language` the file's suffix (.cpp, .cu, .py) or the folder's entry file decides. Raises KernelError.
    """
    raise NotImplementedError
