"""The CUDA toolkit of this machine and the devices it may build for."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools.errors import InfrastructureError
from tools.process import Completed, run_command
from tools.targets.device_choice import chosen_device
from tools.targets.occupancy import LIMITS, limits_of
from tools.toolchain import SYSTEM_PATHS

DEFAULT_ARCHITECTURE = "sm_90a"
"""What is built for where there is no device and no WARPSMITH_CUDA_ARCH."""
ADVICE = "Install the CUDA toolkit, and set CUDA_HOME when it lies in an unusual place."
PYCUDA_ADVICE = "Run `make setup-cuda`; docs/gpu.md says what it needs."
QUERY_SECONDS = 15.0
"""How long a program may take to say its version or its devices: many GPUs without a daemon that keeps them awake take
some seconds, and one that is out of order never answers."""
_hung: Final[set[str]] = set()
"""Programs that did not answer in this process: they are not asked again."""
_USUAL = Path("/usr/local/cuda")
_SPECIFIC = {"9.0": "sm_90a", "10.0": "sm_100a", "12.0": "sm_120a"}
"""Capabilities with instructions (wgmma, tcgen05) that only the architecture-specific target has."""


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit whose nvcc works."""

    root: Path
    """Absolute and free of links."""
    nvcc: Path
    release: tuple[int, int]
    version: str
    """As `13.0.88`."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """What it needs to read beyond the system's folders."""
        return () if any(self.root.is_relative_to(system) for system in SYSTEM_PATHS) else (self.root,)

    @property
    def identity(self) -> str:
        return f"{self.nvcc} {self.version}"

    def tool(self, name: str) -> Path | None:
        """A program of the toolkit, or one of that name on the PATH."""
        own = self.root / "bin" / name
        found = str(own) if own.is_file() else shutil.which(name)
        return Path(found) if found else None


@dataclass(frozen=True)
class Device:
    """A GPU as the driver lists it."""

    name: str
    capability: str
    """As `9.0`."""

    @property
    def architecture(self) -> str:
        """Its own target: the architecture-specific one where there is one."""
        return _SPECIFIC.get(self.capability, "sm_" + self.capability.replace(".", ""))


@cache
def find_toolkit() -> Toolkit:
    """The toolkit of $CUDA_HOME, of the nvcc on the PATH, or of /usr/local/cuda, in this order.

    A wrapper script on the PATH is followed to the toolkit it starts. InfrastructureError when there is none.
    """
    faults = []
    for nvcc in dict.fromkeys(_candidates()):
        try:
            return _toolkit(nvcc)
        except InfrastructureError as error:
            faults.append(error.message)
    raise InfrastructureError(faults[0] if faults else "no CUDA compiler: there is no nvcc here", ADVICE)


def fault_of_cuda_home() -> str | None:
    """Why the toolkit that $CUDA_HOME names is not taken; None where it is, or none is named."""
    home = os.environ.get("CUDA_HOME")
    if not home:
        return None
    nvcc = Path(home, "bin/nvcc")
    if not nvcc.is_file():
        return f"CUDA_HOME={home} has no bin/nvcc"
    try:
        _toolkit(nvcc)
    except InfrastructureError as error:
        return f"CUDA_HOME={home}: {error.message}"
    return None


def find_devices() -> tuple[Device, ...]:
    """The GPUs that nvidia-smi lists, or the chosen one alone; none where there is no driver.

    InfrastructureError when nvidia-smi hangs, since nothing is known then, and for a choice that names no device.
    """
    query = shutil.which("nvidia-smi")
    if query is None:
        return ()
    chosen = chosen_device(os.environ)
    which = [f"--id={chosen}"] if chosen is not None else []
    try:
        answer = _said([query, *which, "--query-gpu=name,compute_cap", "--format=csv,noheader"])
    except InfrastructureError as error:
        raise InfrastructureError(error.message, "The driver may be out of order: see dmesg.") from None
    rows = [line.rsplit(", ", 1) for line in answer.stdout.splitlines()] if answer is not None and answer.ok else []
    return tuple(Device(row[0], row[1]) for row in rows if len(row) == 2 and re.fullmatch(r"\d+\.\d", row[1]))


def chosen_architecture() -> str:
    """$WARPSMITH_CUDA_ARCH, else the first device's own, else the default. InfrastructureError when it is unknown."""
    named = os.environ.get("WARPSMITH_CUDA_ARCH")
    devices = () if named else find_devices()
    architecture = named or (devices[0].architecture if devices else DEFAULT_ARCHITECTURE)
    if not re.fullmatch(r"sm_\d{2,3}[af]?", architecture) or limits_of(architecture) is None:
        known = ", ".join(f"sm_{number}" for number in LIMITS)
        of_whom = "WARPSMITH_CUDA_ARCH names" if named else "the device has"
        raise InfrastructureError(
            f"{of_whom} `{architecture}`, an architecture that is not known here",
            f"Known: {known}, and from sm_90 on with an a.",
        )
    return architecture


def _said(command: list[str]) -> Completed | None:
    """What a program answers; None when it can't be started (another processor's, a broken script).

    InfrastructureError when it hangs, at once the second time.
    """
    program = command[0]
    if program not in _hung:
        try:
            answer = run_command(command, timeout=QUERY_SECONDS)
        except InfrastructureError:
            return None
        if not answer.timed_out:
            return answer
        _hung.add(program)
    raise InfrastructureError(f"{program} hangs: it does not answer within {QUERY_SECONDS:g} s", ADVICE)


def _candidates() -> Iterator[Path]:
    home, found = os.environ.get("CUDA_HOME"), shutil.which("nvcc")
    for path in (Path(home, "bin/nvcc") if home else None, Path(found) if found else None, _USUAL / "bin/nvcc"):
        if path is not None and path.is_file():
            yield path


def _toolkit(nvcc: Path) -> Toolkit:
    """Ask nvcc for its version and, by a dry run, for the folder it really lives in. InfrastructureError says why that
    can't be used."""
    version = _said([str(nvcc), "--version"])
    match = re.search(r"release (\d+)\.(\d+), V([\d.]+)", version.stdout) if version is not None else None
    if version is None or not version.ok or match is None:
        raise InfrastructureError(f"{nvcc} does not run", ADVICE)
    dry = _said([str(nvcc), "--dryrun", "-x", "cu", "/dev/null", "-o", "/dev/null"])
    top = re.search(r"^#\$ TOP=(.+)$", dry.stderr, re.MULTILINE) if dry is not None else None
    root = Path(top[1]).resolve() if top else nvcc.resolve().parent.parent
    own = root / "bin" / "nvcc"
    return Toolkit(root, own if own.is_file() else nvcc, (int(match[1]), int(match[2])), match[3])
