"""Where the headers are that a kernel of each language may include: folders of this machine, for `search` to read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tools.errors import InfrastructureError
from tools.process import run_command
from tools.records import Language
from tools.targets.cuda_toolkit import find_toolkit
from tools.toolchain import find_compiler

STANDARD: Final = "vector"
"""A folder of the compiler's search path that holds this header holds the C++ standard library."""


def header_folders(language: Language) -> list[Path]:
    """For `cpp` the compiler's own headers (intrinsics, OpenMP) and the C++ standard library, else the CUDA toolkit's.

    Absolute and free of links. InfrastructureError when there is no such compiler or toolkit here, or it has none.
    """
    folders = _of_compiler() if language == "cpp" else [find_toolkit().root / "include"]
    found = list(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))
    if not found:
        raise InfrastructureError("the compiler's headers are not where it says", "Install it with its headers.")
    return found


def _of_compiler() -> list[Path]:
    compiler = str(find_compiler().path)
    own = run_command([compiler, "-print-file-name=include"], timeout=10)
    verbose = run_command([compiler, "-E", "-x", "c++", "-v", "/dev/null"], timeout=10)
    listed = re.search(r"^#include <\.\.\.>.*?\n(.*?)^\S", verbose.stderr, re.MULTILINE | re.DOTALL)
    searched = [Path(line.strip()) for line in listed[1].splitlines()] if listed else []
    return [Path(own.stdout.strip()), *(folder for folder in searched if (folder / STANDARD).is_file())]
