"""`task.toml`: the manifest of a task folder. Text only; the reference beside it is not touched here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue, ValidationError

from tools.errors import TaskError
from tools.records import Policy, Record

DistributionName = Literal["given", "heavy_tailed", "shifted", "sparse", "structured"]


class WorkloadSpec(Record):
    """One size of the task and how much it counts."""

    name: str = Field(default="default", min_length=1)
    weight: float = Field(default=1.0, gt=0)
    """Relative weight in the geometric mean over workloads."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Keyword arguments of `inputs(rng, **parameters)`; for a KernelBench file, module constants to replace."""
    flops: float | None = Field(default=None, gt=0)
    """Arithmetic operations of one call; absent where the reference's `flops(...)` says or nothing is known."""
    bytes: float | None = Field(default=None, gt=0)
    """Fewest bytes that must move in one call; absent means each input read once, each output written once."""


class StartFiles(Record):
    """The starting kernels, as file names beside `task.toml`."""

    cpp: str | None = None
    cuda: str | None = None
    torch: str | None = None


class Manifest(Record):
    """The keys that `task.toml` may hold."""

    name: str | None = Field(default=None, min_length=1)
    description: str = ""
    reference: str = "reference.py"
    policy: Policy = "strict"
    libraries: tuple[str, ...] = ()
    """Libraries that a kernel may link or load besides the language's own, such as `openblas`."""
    distributions: tuple[DistributionName, ...] | None = None
    """Input distributions to check under; absent means all of them."""
    inplace: tuple[str, ...] = ()
    """Inputs that the kernel may overwrite."""
    start: StartFiles = StartFiles()
    workloads: tuple[WorkloadSpec, ...] = (WorkloadSpec(),)


def read_manifest(path: Path) -> Manifest:
    """Parse `task.toml` at `path`.

    Raises TaskError("missing") when it can't be read, TaskError("not_a_task") naming the key or line that is wrong.
    """
    try:
        raw: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TaskError("missing", f"{path} can't be read ({error.strerror})", "Check the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TaskError("not_a_task", f"{path.name} is not valid TOML: {error}", "Correct that line.") from error
    try:
        manifest = Manifest.model_validate(raw)
    except ValidationError as error:
        raise TaskError("not_a_task", f"{path.name}: {_first_problem(error)}", _KEYS) from error
    names = [workload.name for workload in manifest.workloads]
    if not names or len(set(names)) != len(names):
        raise TaskError(
            "not_a_task", f"{path.name}: every workload needs a name of its own", "Name each [[workloads]]."
        )
    return manifest


_KEYS = (
    "Keys are " + ", ".join(Manifest.model_fields) + "; a workload has " + ", ".join(WorkloadSpec.model_fields) + "."
)


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key `{key}`"
    return f"key `{key}`: {first['msg']}"
