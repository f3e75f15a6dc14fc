"""The torch kernels beside tests/kernels/torch.toml, as the tests use them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tools.records import Kernel
from tools.task import TaskSource, read_task

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests/kernels/torch"
MANIFEST: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests/kernels/torch.toml").read_text(encoding="utf-8"))
SHARED = "rows.py"
"""The honest part of them, which goes with each."""


def torch_kernel(name: str) -> Kernel:
    """The kernel of one row."""
    files = {"kernel.py": FOLDER / f"{MANIFEST[name].get('kernel', name)}.py", SHARED: FOLDER / SHARED}
    return Kernel(language="torch", files={file: path.read_text(encoding="utf-8") for file, path in files.items()})


def cpu_task(row: dict[str, Any]) -> TaskSource:
    """The row's task at a size for processors."""
    name = row.get("task", "softmax")
    folder = ROOT / "tests/tasks_adversary" / name
    source = read_task(folder if folder.is_dir() else ROOT / "tests/tasks" / f"{name}.py")
    return source.model_copy(update={"policy": row.get("policy", "strict")})
