"""A profiler or sanitizer that runs a kernel alone on a GPU: what it sees, and what stays out of its reach.

Both talk to the program by sockets and start it themselves, so seccomp is left out; what hides files, other processes
and the network stays in force. Not covered: a kernel that falsifies what an instrument says of it. That is why no
figure of an instrument is a verdict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import cuda_programs
from tools.cuda_process import Host, device_files, driver_environment
from tools.sandbox import Confinement, Sandbox
from tools.targets import cuda_vendor
from tools.targets.cuda_toolkit import find_toolkit


@dataclass(frozen=True)
class Bench:
    """One kernel, recorded workloads, and the one folder that an instrument may write. A library that is not there
    yet may come into its folder later: the program waits for it."""

    host: Host
    library: Path
    plans: tuple[Path, ...]
    """One a workload."""
    folder: Path
    shown: tuple[Path, ...] = ()
    """Folders of the instrument itself."""
    file_size: int = 1 << 30
    """Bytes of the largest file that it may write."""
    vendor: bool = False
    """Whether the kernel may call the vendor's libraries: they have more than it needs, so that is loaded as it is
    used. An instrument looks into all that is loaded."""

    def program(self, calls: int) -> list[str]:
        """The bare command that runs the kernel `calls` times on each workload."""
        return [str(cuda_programs.replay()), str(self.library), str(calls), *map(str, self.plans)]

    def confined(self, command: Sequence[str]) -> list[str]:
        """`command`, which may start the program, behind the sandbox."""
        library = self.library if self.library.exists() else self.library.parent
        readable = (*cuda_vendor.folders(), *self.shown, cuda_programs.replay(), library, *self.plans)
        return observed(self.host.sandbox, command, readable, self.folder, file_size=self.file_size)

    def environment(self) -> dict[str, str]:
        """All that it sees of the environment."""
        path = f"{find_toolkit().root / 'bin'}:/usr/bin:/bin"
        own = {"PATH": path, "LC_ALL": "C", "TMPDIR": str(self.folder), "HOME": str(self.folder)}
        lazy = {"CUDA_MODULE_LOADING": "LAZY"} if self.vendor else {}
        return {**driver_environment(self.host.uuid), **own, **lazy}


def observed(
    sandbox: Sandbox,
    command: Sequence[str],
    readable: Sequence[Path],
    folder: Path,
    *,
    file_size: int,
    devices: Sequence[Path] = (),
) -> list[str]:
    """An instrument's command, which starts the program that it looks at, behind what of the sandbox it can bear. It
    may write `folder`, in files of at most `file_size` bytes, and open `devices` beside the GPU's."""
    policy = Confinement(
        read_only=(*find_toolkit().folders, *readable, Path("/sys")),
        writable=(folder,),
        devices=(*device_files(), *devices),
        file_size=file_size,
        open_files=1024,
        allow_fork=True,
        proc=True,
        loopback=True,
    )
    own_root = sandbox.level in ("bwrap", "namespaces")
    weaker = dataclasses.replace(sandbox, seccomp=False, landlock=0 if own_root else sandbox.landlock)
    return weaker.wrap(list(command), policy)
