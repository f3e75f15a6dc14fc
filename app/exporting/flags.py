"""The judge's own compiler command, as PyTorch's builder of extensions and as a person wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_WITH_VALUE = ("-o", "-ccbin", "-gencode", "-keep-dir")
_DROPPED = ("-shared", "-fPIC", "-Xcompiler=-fPIC", "-I.", "-keep", "-Xptxas=-v", "-Wl,-z,defs", "-Xlinker=-z,defs")
HALF = tuple(
    f"-U__CUDA_NO_{name}__"
    for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_CONVERSIONS", "HALF2_OPERATORS")
)
"""PyTorch switches off CUDA's operators of 16-bit floats; a kernel was judged with them."""


@dataclass(frozen=True)
class Flags:
    """What a build takes beside its sources."""

    compile: tuple[str, ...]
    link: tuple[str, ...]


def flags_of(command: Sequence[str], language: str) -> Flags:
    """The flags of the command that built a kernel, without those that any builder of libraries adds by itself."""
    words = _without_values(command[1:])
    kept = [word for word in words if word.startswith("-") and word not in _DROPPED]
    link = [word for word in kept if word.startswith(("-l", "-Wl,", "-Xlinker=")) and word != "-lineinfo"]
    compiled = [word for word in kept if word not in link]
    if language == "cuda":
        compiled += HALF
    if "-fopenmp" in compiled:
        link.append("-fopenmp")
    return Flags(tuple(compiled), tuple(word.replace("-Xlinker=", "-Wl,") for word in link))


def shown(command: Sequence[str], library: str = "kernel.so") -> list[str]:
    """The command for a folder that holds the sources and `task.h`; it writes `library` there. No path of the machine
    that judged stays in it."""
    words = [word for word in command if word not in ("-keep", "-Xptxas=-v")]
    if "-keep-dir" in words:
        at = words.index("-keep-dir")
        del words[at : at + 2]
    words = [word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in words]
    if "-o" in words:
        words[words.index("-o") + 1] = library
    return words


def _without_values(words: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for word in words:
        if skip or word in _WITH_VALUE:
            skip = not skip and word in _WITH_VALUE
            continue
        kept.append(word)
    return kept
