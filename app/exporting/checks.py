"""What an export lacks to be judged here, and a package tried by being installed.

Not covered: a GPU that is not here; whoever asks is told that nothing was learnt.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from agents.steer_events import ExportForm
from app.findings import INSTALL_NINJA, INSTALL_TORCH
from tools.cache import cache_dir
from tools.errors import InfrastructureError
from tools.process import Completed, run_command
from tools.records import TargetName
from tools.sandbox import Confinement, detect
from tools.torch_host import compilers, device_paths, python_folders

Form: TypeAlias = ExportForm
INSTALL_SECONDS = 120.0
SELFTEST_SECONDS = 600.0
_FILE_SIZE = 1 << 30


@dataclass(frozen=True)
class Tested:
    """What came of installing a package and of its self-test."""

    status: Literal["passed", "failed", "unchecked"]
    said: str
    """What the self-test printed, or why there was none."""


def missing(form: Form, language: str) -> str | None:
    """What this machine lacks to judge the form at all, in words."""
    if form == "sources" and language != "torch":
        return None
    if find_spec("torch") is None:
        return f"PyTorch is not installed here ({INSTALL_TORCH})"
    if language != "torch" and shutil.which("ninja") is None:
        return f"ninja, with which PyTorch builds extensions, is not on the PATH ({INSTALL_NINJA})"
    return None


def objection(form: Form, language: str, kind: str) -> str | None:
    """Why a kernel in that language, of a task of that kind, can't be written in the form here; None when it can."""
    if form == "torch-op" and language == "torch":
        return "the kernel is a PyTorch module, which is no operator"
    if form != "sources" and language != "torch" and kind == "kernelbench" and find_spec("torch") is None:
        return f"PyTorch is not installed here, and the task's Model has to be looked at ({INSTALL_TORCH})"
    return None


def installed_and_tested(folder: Path, package: str, target: TargetName) -> Tested:
    """Install the package into a folder that is then gone, without a network, and run its self-test in a sandbox."""
    for module in ("pip", "setuptools"):
        if find_spec(module) is None:
            return Tested("unchecked", f"{module} is not installed here, so the package was not installed")
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="export-") as made:
        root = Path(made).resolve()
        shutil.copytree(folder, root / "from")
        (root / "work").mkdir()
        installed = _pip(root / "from", root / "site")
        if not installed.ok:
            return Tested("failed", f"pip could not install it: {_end(installed)}")
        tested = _selftest(root, package, target)
    said = tested.stdout.strip()
    if tested.timed_out:
        return Tested("failed", f"{said}\nits self-test took more than {SELFTEST_SECONDS:g} s".strip())
    return Tested("passed", said) if tested.ok else Tested("failed", f"{said}\n{_end(tested)}".strip())


def _pip(source: Path, site: Path) -> Completed:
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"),
        *("--no-build-isolation", "--no-deps", "--no-cache-dir", "--target", str(site), str(source)),
    ]
    return run_command(command, timeout=INSTALL_SECONDS, cwd=source)


def _selftest(root: Path, package: str, target: TargetName) -> Completed:
    folders, environment = compilers(target)
    readable, devices = device_paths(target)
    policy = Confinement(
        read_only=(*python_folders(), *folders, *readable, root / "site"),
        writable=(root / "work",),
        devices=(Path("/dev/null"), Path("/dev/urandom"), *devices),
        file_size=_FILE_SIZE,
        open_files=1024,
        allow_fork=True,
        proc=True,
    )
    own = {
        **{name: str(root / "work") for name in ("HOME", "TMPDIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR")},
        "PYTHONPATH": os.pathsep.join(filter(None, (str(root / "site"), os.environ.get("PYTHONPATH")))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "USER": "export",
        "LC_ALL": "C.UTF-8",
    }
    command: Sequence[str] = [sys.executable, "-P", "-m", f"{package}.selftest"]
    try:
        wrapped = detect().wrap(command, policy)
    except InfrastructureError as error:
        raise InfrastructureError(f"the self-test's sandbox failed: {error.message}", error.advice) from error
    return run_command(wrapped, timeout=SELFTEST_SECONDS, cwd=root / "work", env=environment | own)


def _end(done: Completed) -> str:
    """The last lines of what went wrong."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return "\n".join(lines[-12:])[-2000:] or f"it ended with exit code {done.exit_code}, signal {done.signal}"
