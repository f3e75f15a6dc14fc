"""Runs one kernel alone, on recorded inputs, in the sandbox: what the instruments watch (see `native/replay.cpp`)."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tools.buffers import Value
from tools.cache import native_binary
from tools.contract import Signature, Slot
from tools.errors import InfrastructureError
from tools.process import Completed, run_command
from tools.sandbox import Confinement, Sandbox

MAGIC: Final = b"WSPLAN1\n"
FLAGS: Final = ("-fopenmp", "-rdynamic", "-ldl")
RESULT_BYTES: Final = 256 << 20
"""Largest file that an instrument inside the sandbox may write."""
_SAID = re.compile(r"^replay regions (\d+) fork ([0-9.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Replay:
    """A recorded workload. `folder` is the one place that the confined program may write."""

    plan: Path
    folder: Path
    sandbox: Sandbox

    def program(self, library: Path, calls: int, limit: int, *modes: str) -> list[str]:
        """The bare command: `calls` calls of the kernel in `library`, ended by SIGPROF after `limit` CPU seconds."""
        return [str(native_binary("replay", FLAGS)), str(library), str(self.plan), str(calls), str(limit), *modes]

    def confined(
        self, command: Sequence[str], library: Path, *, instrument: bool = False, observed: bool = False
    ) -> list[str]:
        """`command` behind the sandbox. An `instrument` may also fork, see /proc and write to `folder`; an `observed`
        program is started by an instrument outside of it."""
        shown = (native_binary("replay", FLAGS), library, self.plan)
        policy = Confinement(
            read_only=shown,
            writable=(self.folder,) if instrument else (),
            file_size=RESULT_BYTES if instrument else 0,
            allow_fork=instrument,
            proc=instrument,
            observed=observed,
        )
        return self.sandbox.wrap(list(command), policy)

    def environment(self, threads: int | None = None) -> dict[str, str]:
        """All that the program sees of the environment; `threads` caps every OpenMP team."""
        limit = {} if threads is None else {"OMP_THREAD_LIMIT": str(threads)}
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": str(self.folder), **limit}


def record(
    signature: Signature, slots: Sequence[Slot], inputs: Mapping[str, Value], folder: Path, sandbox: Sandbox
) -> Replay:
    """Write the plan of one workload into `folder`. InfrastructureError when there is no room for it."""
    plan = folder / "plan"
    sizes = {output.name: output.nbytes for output in signature.outputs}
    heads: list[bytes] = []
    contents: list[bytes] = []
    for slot in slots:
        if slot.kind == "value":
            heads.append(struct.pack("<Qq", 0, slot.value))
        elif slot.kind == "scalar":
            heads.append(struct.pack("<Q", 0) + _word(inputs[slot.name]))
        elif slot.name in inputs:
            content = np.ascontiguousarray(inputs[slot.name]).tobytes()
            heads.append(struct.pack("<QQ", 1, len(content)))
            contents.append(content)
        else:
            heads.append(struct.pack("<QQ", 2, sizes[slot.name]))
    try:
        with plan.open("wb") as file:
            file.writelines([MAGIC, struct.pack("<Q", len(heads)), *heads, *contents])
    except OSError as error:
        raise InfrastructureError(f"the workload can't be recorded for the profiler: {error.strerror}") from error
    return Replay(plan, folder, sandbox)


def _word(value: Value) -> bytes:
    """A scalar as it stands in its slot: a float as its bits, everything else as a 64-bit integer."""
    plain = value.item() if isinstance(value, np.ndarray | np.generic) else value
    return struct.pack("<d", plain) if isinstance(plain, float) else struct.pack("<q", int(plain))


@dataclass(frozen=True)
class Regions:
    """OpenMP regions opened by one call, and seconds that an empty one costs at best."""

    count: int
    fork_seconds: float


def count_regions(replay: Replay, library: Path, timeout: int) -> Regions:
    """Run the kernel natively once. InfrastructureError when it does not end well within `timeout` seconds."""
    command = replay.confined(replay.program(library, 1, timeout, "flush"), library)
    said = _SAID.findall(checked(run_command(command, timeout=timeout, env=replay.environment())).stdout)
    if not said:
        raise InfrastructureError("the kernel ended before the profiler could count its parallel regions")
    return Regions(int(said[-1][0]), float(said[-1][1]))


def checked(done: Completed) -> Completed:
    """`done`, if it ended well; else InfrastructureError with its last words."""
    if done.ok:
        return done
    words = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["it said nothing"]
    how = "timed out" if done.timed_out else f"ended with {done.signal or done.exit_code}"
    raise InfrastructureError(f"{Path(done.argv[0]).name} {how}: {words[-1][:200]}")
