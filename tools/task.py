"""A task as read from its files: text and settings, nothing executed. See `tools.reference` for what runs it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from tools.errors import KernelError, TaskError
from tools.records import ENTRY_FILE, Kernel, Language, Policy, Record, content_id
from tools.tasks.folder import Manifest, StartFiles, WorkloadSpec, read_manifest
from tools.tasks.source_text import LIMIT, bound_names, constant_names, local_modules, parameter_names, parse

__all__ = ["TaskKind", "TaskSource", "WorkloadSpec", "read_kernel", "read_task"]

TaskKind: TypeAlias = Literal["numpy", "kernelbench"]

SUFFIXES: dict[Language, tuple[str, ...]] = {
    "cpp": (".cpp", ".cc", ".h", ".hpp", ".inc"),
    "cuda": (".cu", ".cuh", ".h", ".hpp", ".inc"),
    "torch": (".py", ".cu", ".cuh", ".cpp", ".h", ".hpp"),
}
"""Files of a folder that belong to a kernel of each language."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


class TaskSource(Record):
    """A self-contained task: it travels as JSON and needs no file of the user's any more."""

    name: str
    kind: TaskKind
    entry: str
    """The file of `files` that holds the reference."""
    files: dict[str, str]
    """Relative POSIX path to text: the reference and the Python modules beside it that it imports."""
    workloads: tuple[WorkloadSpec, ...] = (WorkloadSpec(),)
    overrides: dict[str, JsonValue] = Field(default_factory=dict)
    """Module constants (KernelBench) or workload parameters (NumPy) replaced by the user for this run."""
    policy: Policy = "strict"
    libraries: tuple[str, ...] = ()
    distributions: tuple[str, ...] | None = None
    """Names out of `tools.numerics.DISTRIBUTIONS`; absent means all."""
    inplace: tuple[str, ...] = ()
    """Inputs that the kernel may overwrite."""
    description: str = ""
    start: dict[Language, Kernel] = Field(default_factory=dict)
    """Starting kernels by language; may be empty."""

    @property
    def id(self) -> str:
        """Content id of what is computed and how it is judged: everything but the starting kernels."""
        return content_id(self.model_dump(mode="json", exclude={"start"}))


def read_task(path: Path, overrides: Mapping[str, JsonValue] | None = None) -> TaskSource:
    """Read the task at `path`: a NumPy file, a KernelBench file, or a folder with `task.toml`. Executes nothing.

    Raises TaskError: "missing" (no such file), "not_python" (with the line), "not_a_task" (what it lacks, or an
    override that names no constant or parameter). A starting kernel that can't be read raises KernelError.
    """
    if path.is_dir():
        if not (path / "task.toml").is_file():
            raise TaskError("not_a_task", f"{path} has no task.toml", "Pass a task file, or a folder that has one.")
        manifest, folder = read_manifest(path / "task.toml"), path
        name = manifest.name or path.resolve().name
    elif path.is_file():
        stem = Path(path.name).stem
        manifest, folder = (
            Manifest(reference=path.name, start=StartFiles(cpp=f"{stem}.cpp", cuda=f"{stem}.cu")),
            path.parent,
        )
        name = stem
    else:
        raise TaskError("missing", f"There is no task at {path}", "Check the path.")
    files = local_modules(folder, _inside(folder, manifest.reference, "reference"))
    tree = parse(manifest.reference, files[manifest.reference])
    kind = _kind(manifest.reference, tree)
    replaced = dict(overrides or {})
    _check_names(manifest, kind, tree, replaced)
    return TaskSource(
        name=name,
        kind=kind,
        entry=manifest.reference,
        files=files,
        workloads=manifest.workloads,
        overrides=replaced,
        policy=manifest.policy,
        libraries=manifest.libraries,
        distributions=manifest.distributions,
        inplace=manifest.inplace,
        description=manifest.description or ast.get_docstring(tree) or "",
        start=_start_kernels(folder, manifest.start, required=path.is_dir()),
    )


def read_kernel(path: Path, language: Language | None = None) -> Kernel:
    """Read a kernel from one source file or from a folder of sources.

    Without `language` the file's suffix (.cpp, .cu, .py) or the folder's entry file decides. A single file takes with
    it the headers beside it that it includes in quotes. Raises KernelError.
    """
    if path.is_dir():
        language = language or _language_of_folder(path)
        names = [p for p in sorted(path.rglob("*")) if p.is_file() and p.suffix in SUFFIXES[language]]
        files = {p.relative_to(path).as_posix(): _kernel_text(p) for p in names}
    elif path.is_file():
        language = language or _language_of_file(path)
        files = {ENTRY_FILE[language]: _kernel_text(path)} | _quoted_includes(path)
    else:
        raise KernelError(f"There is no kernel at {path}", "Check the path.")
    if ENTRY_FILE[language] not in files:
        raise KernelError(f"{path} has no {ENTRY_FILE[language]}", f"A {language} kernel's entry file has that name.")
    files.pop("task.h", None)
    return Kernel(language=language, files=files)


def _inside(folder: Path, name: str, key: str) -> str:
    """`name` as it is, when it stays inside `folder`."""
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise TaskError(
            "not_a_task", f"task.toml: key `{key}` leads out of the folder", "Name a file beside task.toml."
        )
    return name


def _kind(name: str, tree: ast.Module) -> TaskKind:
    bound = bound_names(tree)
    kinds: dict[TaskKind, tuple[str, ...]] = {"numpy": ("inputs", "reference"), "kernelbench": ("Model", "get_inputs")}
    for kind, needed in kinds.items():
        if bound.issuperset(needed):
            return kind
    halves = [n for needed in kinds.values() if bound & set(needed) for n in needed if n not in bound]
    lacks = f"`{halves[0]}`" if halves else "`inputs(rng)` and `reference(...)`, or `Model` and `get_inputs`"
    raise TaskError("not_a_task", f"{name} does not define {lacks}", "A task is a NumPy file or a KernelBench file.")


def _check_names(manifest: Manifest, kind: TaskKind, tree: ast.Module, overrides: Mapping[str, JsonValue]) -> None:
    """Refuse an override or a workload parameter that would replace nothing."""
    constants = constant_names(tree)
    parameters = parameter_names(tree, "inputs") if kind == "numpy" else ()
    if parameters is None:
        return
    for where, given, known in (
        ("override", overrides, constants | set(parameters)),
        *(
            (f"workload `{w.name}`", w.parameters, set(parameters) if kind == "numpy" else constants)
            for w in manifest.workloads
        ),
    ):
        for name in given:
            if name not in known:
                choices = ", ".join(sorted(known)) or "none"
                raise TaskError(
                    "not_a_task",
                    f"{where}: {manifest.reference} has nothing named `{name}` to set",
                    f"It has: {choices}.",
                )


def _start_kernels(folder: Path, start: StartFiles, *, required: bool) -> dict[Language, Kernel]:
    """The starting kernels; files that were only guessed (not `required`) may be absent."""
    kernels: dict[Language, Kernel] = {}
    named: dict[Language, str | None] = {"cpp": start.cpp, "cuda": start.cuda, "torch": start.torch}
    for language, name in named.items():
        if name is not None and (required or (folder / name).is_file()):
            kernels[language] = read_kernel(folder / _inside(folder, name, f"start.{language}"), language)
    return kernels


def _language_of_folder(path: Path) -> Language:
    found = [language for language, entry in ENTRY_FILE.items() if (path / entry).is_file()]
    if len(found) != 1:
        names = ", ".join(ENTRY_FILE.values())
        advice = "Keep one of them, or name the file." if found else "Give the kernel's first file one of these names."
        raise KernelError(f"{path} has {len(found)} of the entry files {names}", advice)
    return found[0]


def _language_of_file(path: Path) -> Language:
    for language, entry in ENTRY_FILE.items():
        if path.suffix == Path(entry).suffix:
            return language
    raise KernelError(f"{path} is not a .cpp, .cu or .py file", "Say which language it is in, or rename it.")


def _kernel_text(path: Path) -> str:
    try:
        if path.stat().st_size > LIMIT:
            raise KernelError(f"{path} is larger than {LIMIT >> 20} MiB", "A kernel is source text.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise KernelError(f"{path} can't be read ({error.strerror})", "Check its permissions.") from error
    except UnicodeDecodeError as error:
        raise KernelError(f"{path} is not UTF-8 text", "A kernel is source text.") from error


def _quoted_includes(path: Path) -> dict[str, str]:
    """Headers that `path` includes in quotes, directly or not, and that lie in its folder or below."""
    folder = path.parent.resolve()
    files: dict[str, str] = {}
    waiting = [path]
    while waiting:
        for name in _INCLUDE.findall(_kernel_text(waiting.pop())):
            header = folder / name
            if name != "task.h" and name not in files and header.is_file() and header.resolve().is_relative_to(folder):
                files[name] = _kernel_text(header)
                waiting.append(header)
    return files
