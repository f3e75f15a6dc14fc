"""The CPU's machine code in a built library, by objdump in Intel's syntax.

Not covered: source lines. The release build has no debug information, and one that has is another build.
"""

from __future__ import annotations

import platform
import re
import shutil
from typing import Final

from tools.errors import InfrastructureError, KernelError
from tools.machine_code import Form
from tools.targets.building import LIBRARY, Workplace, last_line

_LISTED: Final = 16 << 20
_HEAD: Final = re.compile(r"^[0-9a-f]+ <(.+)>:\n", re.MULTILINE)
_LINKERS_OWN: Final = re.compile(r"(de)?register_tm_clones|__do_global_dtors_aux|frame_dummy|_init|_fini|_start")
_INTEL: Final = ("x86_64", "i386")


def disassembly(workplace: Workplace, function: str | None, form: Form) -> str:
    """The functions whose name or a word of it is `function` (an OpenMP region is a function too: `solve._omp_fn.0`);
    all of the kernel's own when None. KernelError when there is none, or another form than `asm` is asked for."""
    if form != "asm":
        raise KernelError(f"the CPU has no {form}", "Ask for `asm`.")
    if shutil.which("objdump") is None:
        raise KernelError("this machine has no objdump, which machine code needs", "binutils bring it.")
    command = ("objdump", "-d", "-C", "-w", "--no-show-raw-insn", "-j", ".text", *_syntax(), f"../{LIBRARY}")
    result = workplace.run(command, output=_LISTED)
    if not result.ok:
        raise InfrastructureError(f"objdump failed: {last_line(result)}", "Install binutils.")
    parts = _HEAD.split(result.stdout)[1:]
    functions = [
        (name, text) for name, text in zip(parts[::2], parts[1::2], strict=True) if not _LINKERS_OWN.fullmatch(name)
    ]
    wanted = [(name, text) for name, text in functions if function is None or _is_meant(name, function)]
    if not wanted:
        names = ", ".join(name for name, _ in functions[:8]) or "none"
        raise KernelError(
            f"the kernel has no function `{function}` of its own", f"It may be inlined. There are: {names}."
        )
    return "\n".join(f"<{name}>:\n{text.strip(chr(10))}" for name, text in wanted)


def _is_meant(name: str, function: str) -> bool:
    return name == function or function in re.split(r"\W+", name)


def _syntax() -> tuple[str, ...]:
    return ("-M", "intel") if platform.machine() in _INTEL else ()
