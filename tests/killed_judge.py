"""A judge in a process of its own that measures nothing and is killed, or loses its worker, at steps that a seed chose.

All but the measuring is real: the executor and its pipes, the keeper above the judge, the lock of the device, a worker
forked for each evaluation, shared memory and a temporary file. What is to be killed when lies in a file, `fates`, one
line each: `judge 12` dies at the twelfth step that judge and workers take together, counted over all judges since the
file was written, and `worker 12` at the first step of a worker from there on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from killed_run import seconds_of
from stub_executor import StubExecutor

from tools import device_lock
from tools.executor import ProcessExecutor
from tools.job_process import spawn
from tools.keeper import kept
from tools.protocol import VERSION, answered
from tools.records import Kernel, Unjudged
from tools.service_process import ServiceProcess
from tools.task import TaskSource

PLACE = "WARPSMITH_KILLED_JUDGE"
"""The folder of a story; by this variable its processes are known."""
ROOT = Path(__file__).resolve().parent
ARENA_BYTES = 1 << 20


def executor(place: Path) -> ProcessExecutor:
    """Like `LocalExecutor`, with that judge."""

    async def start() -> ServiceProcess:
        environment = os.environ | {
            "PYTHONPATH": f"{ROOT.parent}:{ROOT}",
            "TMPDIR": str(place / "scratch"),
            PLACE: str(place),
        }
        argv = kept([sys.executable, "-P", str(ROOT / "killed_judge.py")])
        return ServiceProcess(await spawn(argv, environment, "the judge's process"))

    return ProcessExecutor(start, None, attempts=2, pause=0.0)


def foresee(place: Path, fates: list[tuple[str, int]]) -> None:
    """What is to happen from now on."""
    (place / "steps").write_bytes(b"")
    (place / "fates").write_text("".join(f"{victim} {step}\n" for victim, step in fates))


def alive(place: Path) -> list[int]:
    """Processes of that story."""
    wanted = f"{PLACE}={place}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def is_free(place: Path) -> bool:
    """Whether nobody holds the device."""
    device_lock.LOCK_FOLDER = place
    with device_lock.device_lock(patience=0.0):
        return True


@dataclass
class Fate:
    """Looks at each step whether it is the last one of somebody."""

    place: Path
    judge: int
    """Its process id."""

    def step(self) -> None:
        steps = os.open(self.place / "steps", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(steps, b".")
        now = os.fstat(steps).st_size
        os.close(steps)
        first, _, rest = (self.place / "fates").read_text().partition("\n")
        victim, _, at = first.partition(" ")
        if not first or now < int(at) or (victim == "worker" and os.getpid() == self.judge):
            return
        draft = self.place / f"fates.{os.getpid()}"
        draft.write_text(rest)
        draft.replace(self.place / "fates")
        os.kill(self.judge if victim == "judge" else os.getpid(), signal.SIGKILL)


class Judge:
    """Answers jobs, one at a time."""

    def __init__(self, place: Path) -> None:
        self.place, self.fate = place, Fate(place, os.getpid())
        self.stub = StubExecutor(lambda kernel: None if kernel.defines.get("UNROLL") == "8" else seconds_of(kernel))
        self.notes = os.open(place / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def answer(self, job: dict[str, Any]) -> Any:
        self.fate.step()
        task = TaskSource.model_validate(job["task"])
        kernel = Kernel.model_validate(job["kernel"]) if "kernel" in job else None
        incumbent = Kernel.model_validate(job["incumbent"]) if job.get("incumbent") else None
        operations: dict[str, Callable[[], Any]] = {
            "open": lambda: self.stub.open(task),
            "build": lambda: self.stub.build(task, kernel),  # type: ignore[arg-type]
            "profile": lambda: self.stub.profile(task, kernel),  # type: ignore[arg-type]
            "evaluate": lambda: self.stub.evaluate(task, kernel, incumbent, final=bool(job.get("final"))),  # type: ignore[arg-type]
        }
        if job["op"] == "evaluate" and not self.measured(f"{'final ' if job.get('final') else ''}{kernel.id}"):  # type: ignore[union-attr]
            return Unjudged(kernel=kernel.id, message="something outside the judge killed the worker")  # type: ignore[union-attr]
        return asyncio.run(operations[job["op"]]())

    def measured(self, what: str) -> bool:
        """Whether a worker lived to tell it."""
        with device_lock.device_lock(), tempfile.NamedTemporaryFile():
            self.fate.step()
            arena = os.memfd_create("arena")
            os.truncate(arena, ARENA_BYTES)
            worker = os.fork()
            if worker == 0:
                self._work(arena, what)
            self.fate.step()
            _, status = os.waitpid(worker, 0)
            found = os.pread(arena, len(what), 0)
            os.close(arena)
            self.fate.step()
            return status == 0 and found == what.encode()

    def _work(self, arena: int, what: str) -> None:
        self.fate.step()
        os.write(self.notes, f"begin {what}\n".encode())
        self.fate.step()
        os.pwrite(arena, what.encode(), 0)
        os.write(self.notes, f"end {what}\n".encode())
        self.fate.step()
        os._exit(0)


def main() -> None:
    """Serve until stdin ends, as `tools.service` does."""
    place = Path(os.environ[PLACE])
    device_lock.LOCK_FOLDER = place
    judge = Judge(place)
    for line in sys.stdin:
        job = json.loads(line)
        if job["op"] == "cancel":
            continue
        sys.stderr.write(json.dumps({"v": VERSION, "id": job["id"], "stage": "begun"}) + "\n")
        sys.stderr.flush()
        found = judge.answer(job)
        result = found.model_dump(mode="json")
        print(json.dumps(answered(job["id"], result)), flush=True)
        judge.fate.step()


if __name__ == "__main__":
    main()
