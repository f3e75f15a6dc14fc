"""The build stage of a torch kernel: its file is imported once where compilers may run, and what they made is kept.

A build is a folder: `src` holds what the kernel brought, `made` what was made of it. Workers see both read-only. What
a kernel's Python decides to compile is its own affair, so the compilers' messages are read from what they said, and the
libraries that came out are looked at for calls that no dispatcher sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tools.cache import entry_of, stored
from tools.contract import Scalar
from tools.errors import InfrastructureError, KernelError
from tools.process import run_command
from tools.records import BuildReport, Diagnostic, Kernel, Reason
from tools.targets.base import Build
from tools.targets.building import CutShort
from tools.targets.cuda_messages import read_messages_of_nvcc
from tools.targets.cuda_toolkit import find_toolkit
from tools.toolchain import find_compiler
from tools.torch_call import ModelCall
from tools.torch_host import (
    torch_server,
)
from tools.torch_load import ENTRY, MADE, SOURCES
from tools.torch_making import Outcome, made
from tools.torch_process import REASONS, Home

FORMAT = "2"  # of the cached folders; raise it when their content changes
_PATH_PART = re.compile(r"\w[\w.+-]*")
_VALUE = re.compile(r"[\w.+-]+")
BYPASSES = re.compile(
    r"_ZN2at(?:6native|3cpu|4cuda4blas)\S+|aoti_torch_(?:cpu|cuda)_\w+|(?:cublas|cublasLt|cudnn|cusparse|cusolver|cufft|cutensor)"
    r"[A-Z]\w+|cblas_\w+|[sdcz]gem[mv]_\b"
)
"""Symbols of functions that compute and that no dispatcher sees."""


Place: TypeAlias = tuple[Home, str | None]
"""Where it runs, and the GPU's architecture."""


def build_torch(
    kernel: Kernel, calls: Sequence[ModelCall], home: Home, architecture: str | None, libraries: Sequence[str]
) -> Build:
    """Build it, or return the cached build, failed ones too. Raises KernelError and InfrastructureError."""
    _require_plain_paths(kernel)
    server = torch_server(home.target, home.uuid)
    if home.target == "cuda" and not server.cuda_version:
        raise InfrastructureError("PyTorch is built without CUDA here", "Install a build of it for your driver.")
    plans = [_plan(call) for call in calls]
    identity = [
        *("torch", FORMAT, kernel.id, home.target, architecture or "", server.torch_version, *libraries),
        *(json.dumps(plans, sort_keys=True), find_compiler().identity),
        *((find_toolkit().identity, home.uuid or "") if home.target == "cuda" else ()),
    ]
    fresh: list[Build] = []

    def fill(folder: Path) -> None:
        for path, text in with_defines(kernel).items():
            (folder / SOURCES / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / SOURCES / path).write_text(text)
        for name in ("triton", "cupy"):
            (folder / MADE / name).mkdir(parents=True)
        fresh.append(_built(kernel, folder, plans, (home, architecture), libraries))
        _move_references(folder, entry_of("torch", identity))
        (folder / "build.json").write_text(fresh[0].model_dump_json())

    try:
        folder = stored("torch", identity, fill)
    except CutShort as stopped:
        return stopped.build
    build = Build.model_validate_json((folder / "build.json").read_text())
    report = build.report.model_copy(update={"cached": not fresh})
    return build.model_copy(update={"library": folder if build.library is not None else None, "report": report})


def _built(kernel: Kernel, folder: Path, plans: list[Any], place: Place, libraries: Sequence[str]) -> Build:
    outcome = made(folder, plans, *place)
    text = outcome.output + str(outcome.told.get("text", ""))
    diagnostics = tuple(_placed(read_messages_of_nvcc(text), folder, kernel))
    if outcome.told.get("built"):
        bypass = None if libraries else _bypass(folder)
        if bypass is None:
            report = _report(kernel, diagnostics, outcome, built=True)
            return Build(report=report, library=Path(SOURCES), language="torch")
        return _failed(kernel, diagnostics, outcome, "forbidden_library", bypass)
    if outcome.limit:
        failed = _failed(kernel, diagnostics, outcome, "compile_error", f"it needed more than {outcome.limit}")
        raise CutShort(failed)
    if not outcome.told:
        message = f"importing it ended the process (exit code {outcome.code})"
        reason: Reason = "out_of_memory" if outcome.code in (-9, 137) else "compile_error"
        return _failed(kernel, diagnostics, outcome, reason, message)
    return _told_failure(kernel, diagnostics, outcome)


def _told_failure(kernel: Kernel, diagnostics: tuple[Diagnostic, ...], outcome: Outcome) -> Build:
    told = outcome.told
    said = str(told.get("message", ""))[:1000]
    reason: Reason = told["reason"] if told.get("reason") in REASONS - {"crashed", "exited"} else "compile_error"
    errors = [each for each in diagnostics if each.severity == "error"]
    if errors and reason == "compile_error":
        place = f"{errors[0].file}:{errors[0].line}: " if errors[0].file else ""
        said = f"{place}{errors[0].message}"
    elif isinstance(told.get("line"), int):
        own = Diagnostic(severity="error", message=said, file=str(told.get("file")), line=told["line"])
        diagnostics = (own, *diagnostics)
    return _failed(kernel, diagnostics, outcome, reason, said)


def _plan(call: ModelCall) -> dict[str, Any]:
    scalars = {item.name: item.ctype for item in call.signature.inputs if isinstance(item, Scalar)}
    plain = call.model_dump(mode="json", exclude={"signature"})
    return {**plain, "tensors": {k: [d, list(s)] for k, (d, s) in call.tensors.items()}, "scalars": scalars}


def _require_plain_paths(kernel: Kernel) -> None:
    for path in kernel.files:
        if not all(_PATH_PART.fullmatch(part) for part in path.split("/")):
            raise KernelError(f"`{path}` can't be a kernel's file", "Use relative paths of plain names.")
    if kernel.flags:
        raise KernelError("a torch kernel takes no compiler flags", "Write them into its file.")
    with_defines(kernel)


def with_defines(kernel: Kernel) -> dict[str, str]:
    """Its files with declared tunables set: the assignments `NAME = ...` at the left margin of Python files.

    KernelError for a define that is no such name or no plain value."""
    files = dict(kernel.files)
    for name, value in kernel.defines.items():
        if not (name.isidentifier() and _VALUE.fullmatch(value)):
            raise KernelError(f"`{name}={value}` can't be set", "Use the name of a declared tunable and a plain value.")
        assignment = re.compile(rf"^{name}[ \t]*=[^=\n][^\n]*$", re.MULTILINE)
        found = [path for path, text in files.items() if path.endswith(".py") and assignment.search(text)]
        if not found:
            raise KernelError(f"the kernel has no line `{name} = ...` to set", "Declare it with `# tune: NAME = 1,2`.")
        for path in found:
            files[path] = assignment.sub(f"{name} = {value}", files[path])
    return files


def _move_references(folder: Path, entry: Path) -> None:
    """Triton writes down where its files lie; they will lie in `entry`."""
    for path in (folder / MADE).rglob("*.json"):
        text = path.read_text(errors="replace")
        if str(folder) in text:
            path.write_text(text.replace(str(folder), str(entry)))


def _bypass(folder: Path) -> str | None:
    """A function that computes in the kernel's stead, out of sight of the dispatcher, and that an extension calls."""
    for library in sorted((folder / MADE).rglob("*.so")):
        listing = run_command(["readelf", "-W", "--dyn-syms", str(library)], timeout=60, output_limit=32 << 20)
        for line in listing.stdout.splitlines():
            words = line.split()
            if len(words) >= 8 and words[6] == "UND" and (match := BYPASSES.match(words[7])):
                return f"{library.name} calls {match[0][:80]}, which computes in its stead"
    return None


def _placed(diagnostics: Sequence[Diagnostic], folder: Path, kernel: Kernel) -> Iterator[Diagnostic]:
    """Messages about generated files, told by the line of the kernel's file that the text came from."""
    own = [line.strip() for line in kernel.files[ENTRY].splitlines()]
    for each in diagnostics:
        if each.file is None or not each.file.startswith("/") or each.line is None:
            yield each
            continue
        path = Path(each.file)
        if path.is_relative_to(folder / SOURCES):
            yield each.model_copy(update={"file": path.relative_to(folder / SOURCES).as_posix()})
            continue
        text = _line_of(path, each.line).strip() if path.is_relative_to(folder) else ""
        if text and own.count(text) == 1:
            yield each.model_copy(update={"file": ENTRY, "line": own.index(text) + 1, "column": None})
        else:
            yield each.model_copy(update={"file": path.name})


def _line_of(path: Path, number: int) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _report(kernel: Kernel, diagnostics: Sequence[Diagnostic], outcome: Outcome, *, built: bool) -> BuildReport:
    return BuildReport(
        kernel=kernel.id,
        built=built,
        seconds=outcome.seconds,
        command=("python", ENTRY),
        diagnostics=tuple(diagnostics),
        output=outcome.output,
    )


def _failed(
    kernel: Kernel,
    diagnostics: Sequence[Diagnostic],
    outcome: Outcome,
    reason: Reason,
    message: str,
) -> Build:
    found = list(diagnostics)
    if all(each.severity != "error" for each in found):
        found.append(Diagnostic(severity="error", message=message))
    report = _report(kernel, found, outcome, built=False)
    return Build(report=report, reason=reason, message=message, language="torch")
