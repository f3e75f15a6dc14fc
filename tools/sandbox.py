"""Confines a program to what it needs, with the strongest means that this machine offers.

Every program starts behind our `jail` (rlimits, no capabilities, Landlock, seccomp, dies with its parent). Above it
stands bubblewrap where it works, else jail makes the namespaces and the bare root itself, else Landlock alone hides the
files, else only limits are left. Not covered: memory and CPU time shared with the rest of the machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from tools.cache import native_binary
from tools.errors import InfrastructureError
from tools.process import run_command
from tools.toolchain import SYSTEM_PATHS

Level: TypeAlias = Literal["bwrap", "namespaces", "landlock", "rlimits"]
LEVELS: tuple[Level, ...] = get_args(Level)

REFUSED = 125
"""Exit code of a launcher that could not put the confinement in force."""

_WORDS: dict[Level, str] = {"bwrap": "bubblewrap", "namespaces": "namespaces", "landlock": "", "rlimits": ""}
_SETTINGS = tuple(Path("/proc") / name for name in ("sys", "sysrq-trigger", "irq", "bus", "fs"))
"""The machine's settings belong to root, and root stays root in a sandbox."""
_OWN_ROOT: tuple[Level, ...] = ("bwrap", "namespaces")


@dataclass(frozen=True)
class Confinement:
    """What a program may touch. Everything else (network, home, other processes) is out of its reach.

    Paths must be absolute and free of links, as `cache_dir()` and `Path.resolve()` give them. The environment is the
    caller's to choose: pass `env` to the process.
    """

    read_only: tuple[Path, ...] = ()
    """Beside the system's own libraries and compilers, which are always readable."""
    writable: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    """Device files that it may open and control. With any of them it may also do what a GPU's driver insists on: name
    its threads in /proc and bind a Unix socket."""
    memory: int | None = None
    """Bytes of address space (RLIMIT_AS); None where the program needs more than it uses, as AddressSanitizer does."""
    file_size: int = 0
    """Largest file it may write, in bytes."""
    cpu_seconds: int | None = None
    open_files: int = 256
    allow_fork: bool = False
    proc: bool = False
    """It sees /proc: of its own pid namespace, or at lower levels what Landlock leaves of the machine's."""
    observed: bool = False
    """An instrument (perf) starts it on our behalf and is its parent; it then dies with that instrument."""
    loopback: bool = False
    """A network of its own, where there is one, has a loopback that is up: an instrument talks over it to the program
    that it watches. bubblewrap always brings it up."""
    fixed_addresses: bool = False
    """Start it without address space randomisation (AddressSanitizer's runtime wants that on new kernels)."""


@dataclass(frozen=True)
class Sandbox:
    """A level of confinement that was tried and works here."""

    level: Level
    landlock: int
    """Landlock's ABI version in force, 0 for none."""
    seccomp: bool

    def describe(self) -> str:
        """As "bubblewrap + Landlock 7 + seccomp + rlimits"."""
        parts = (
            _WORDS[self.level],
            f"Landlock {self.landlock}" if self.landlock else "",
            "seccomp" if self.seccomp else "",
        )
        return " + ".join([*filter(None, parts), "rlimits"])

    def wrap(self, argv: Sequence[str], policy: Confinement) -> list[str]:
        """`argv` behind the launchers that confine it. Inherited descriptors pass through.

        It dies when the thread that starts it ends. From inside namespaces a death by signal n shows as exit code
        128 + n. Exit code REFUSED with a line from "jail:" means that the confinement could not be put in force.
        """
        return [*self._bubblewrap(argv, policy), *self._jail(argv, policy), *argv]

    def _bubblewrap(self, argv: Sequence[str], policy: Confinement) -> list[str]:
        if self.level != "bwrap":
            return []
        words = [
            shutil.which("bwrap") or "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--cap-drop",
            "ALL",
            "--dev-bind",
            "/dev/null",
            "/dev/null",
        ]
        for path in _readable(argv, policy):
            words += ["--symlink", str(path.readlink())] if path.is_symlink() else ["--ro-bind", str(path)]
            words.append(str(path))
        for path in policy.writable:
            words += ["--bind", str(path), str(path)]
        for path in policy.devices:
            words += ["--dev-bind", str(path), str(path)]
        if policy.proc:
            words += ["--proc", "/proc"]
            words += [word for path in _SETTINGS if path.exists() for word in ("--ro-bind", str(path), str(path))]
        return [*words, "--remount-ro", "/", "--"]

    def _jail(self, argv: Sequence[str], policy: Confinement) -> list[str]:
        words = [str(native_binary("jail")), "-f", str(policy.file_size), "-n", str(policy.open_files)]
        if self.level != "bwrap" and not policy.observed:
            words += ["-p", str(os.getpid())]
        for path in _readable(argv, policy):
            words += ["-r", str(path)]
        own_proc = (Path("/proc"),) if policy.devices and policy.proc and self.level in _OWN_ROOT else ()
        for path in (*policy.writable, *policy.devices, *own_proc):
            words += ["-w", str(path)]
        for option, value in (("-m", policy.memory), ("-c", policy.cpu_seconds)):
            words += [option, str(value)] if value is not None else []
        switches = (
            ("-N", self.level == "namespaces"),
            ("-L", self.landlock > 0),
            ("-S", self.seccomp),
            ("-F", not policy.allow_fork),
            ("-P", policy.proc),
            ("-A", policy.fixed_addresses),
            ("-G", bool(policy.devices)),
            ("-U", policy.loopback and self.level == "namespaces"),
        )
        return [*words, *(switch for switch, on in switches if on), "--"]


def _readable(argv: Sequence[str], policy: Confinement) -> Iterator[Path]:
    """What the launchers must show: the system, the launcher, the program, and what the policy names."""
    program = Path(argv[0])
    own = (native_binary("jail"), *([program] if program.is_absolute() else []))
    system = [path for path in SYSTEM_PATHS if path.exists()]
    yield from system
    yield from (path for path in (*own, *policy.read_only) if not any(path.is_relative_to(each) for each in system))


@cache
def detect() -> Sandbox:
    """The strongest level that works here, really tried once a process; WARPSMITH_SANDBOX forces a level.

    InfrastructureError when a forced level does not work or no helper binary can be built.
    """
    forced = os.environ.get("WARPSMITH_SANDBOX")
    if forced is not None and forced not in LEVELS:
        raise InfrastructureError(f"WARPSMITH_SANDBOX={forced} is no level", f"Levels are {', '.join(LEVELS)}.")
    for level in LEVELS:
        if forced in (None, level) and (sandbox := attempt(level)) is not None:
            return sandbox
    raise InfrastructureError(f"the sandbox level {forced} does not work here", "Unset WARPSMITH_SANDBOX.")


def attempt(level: Level) -> Sandbox | None:
    """The sandbox of `level` if a program really runs in it, else None."""
    if level == "bwrap" and shutil.which("bwrap") is None:
        return None
    abi, seccomp = _offered()
    if level == "landlock" and abi == 0:
        return None
    sandbox = Sandbox(level, 0 if level == "rlimits" else abi, seccomp)
    probe = sandbox.wrap([str(native_binary("jail")), "-Q"], Confinement(proc=True))
    return sandbox if run_command(probe, timeout=20, env={}).ok else None


def _offered() -> tuple[int, bool]:
    """Landlock's ABI (0: none) and whether seccomp filters work."""
    jail = str(native_binary("jail"))
    abi = run_command([jail, "-Q"], timeout=20, env={}).stdout.split()[0]
    return int(abi), run_command([jail, "-S", "--", jail, "-Q"], timeout=20, env={}).ok
