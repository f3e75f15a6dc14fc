"""A GPU's worker comes up without its kernel and takes it in later: a script stands in for it, and no GPU is needed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from tools import cuda_process, cuda_programs
from tools.buffers import OutputBuffers
from tools.cuda_outputs import OutputPool
from tools.cuda_process import CONTEXT_BYTES, KERNEL, CudaWorker, Host, end_together, wait_until_free
from tools.errors import InfrastructureError
from tools.nvml import Monitor
from tools.sandbox import Confinement, Sandbox
from tools.worker import Launch, WorkerFailed

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tools.messages import LOAD, MESSAGE, REQUEST, Kind, Place
requests, answers, library, log = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], open(sys.argv[4], "a")
def answer(nonce, kind, text=""):
    os.write(answers, MESSAGE.pack(nonce, kind, 0, 0, 0, 0, Place.ELSEWHERE, -1, text.encode()))
assert os.read(requests, 4) == b"plan" and not os.path.exists(library)
answer(0, Kind.READY)
while data := os.read(requests, REQUEST.size):
    nonce, workload, order = REQUEST.unpack(data)
    path = f"{{library}}.{{order}}" if order else library
    if workload != LOAD:
        answer(nonce, Kind.DONE)
    elif os.path.exists(path):
        log.write(open(path).read())
        log.flush()
        answer(nonce, Kind.READY)
    else:
        answer(nonce, Kind.NOT_LOADED, "no such kernel")
"""


class Open:
    """No sandbox."""

    def wrap(self, argv: Sequence[str], policy: Confinement) -> list[str]:
        assert policy == Confinement()
        return list(argv)


class Scripted(CudaWorker):
    """A worker whose program is a command, and which has no arrays."""

    def __init__(self, command: Sequence[str], log: Path, monitor: Monitor | None = None) -> None:
        self.program, self.log = command, log
        super().__init__([], Host("GPU-0", Path("/nowhere"), cast(Sandbox, Open()), monitor), cast(OutputPool, None))

    def _make_outputs(self) -> tuple[OutputBuffers, ...]:
        return ()

    def _launch(self, library: Path, requests: int, answers: int) -> Launch:
        assert library.name == KERNEL and library.parent.is_dir()
        arguments = (str(requests), str(answers), str(library), str(self.log))
        return Launch((*self.program, *arguments), Confinement(), {}, (), b"plan", opens_files=True)

    @property
    def inbox(self) -> Path:
        return self._inbox


@pytest.fixture
def libraries(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("one", "other")]
    for path in paths:
        path.write_text(f"{path.name} ")
    return paths


def scripted(folder: Path) -> Scripted:
    return Scripted([sys.executable, "-c", SCRIPT], folder / "log")


def test_kernels_are_taken_in_by_number_and_take_turns(tmp_path: Path, libraries: list[Path]) -> None:
    worker = scripted(tmp_path)
    worker.load(libraries[0])
    worker.load(libraries[1], 3)
    worker.use(3)
    worker.pause()
    worker.use(0)
    assert worker.ping().inner == 0.0
    assert (tmp_path / "log").read_text() == "one other one ", "the one in use is not asked for again"
    with pytest.raises(WorkerFailed, match="no such kernel"):
        worker.use(7)
    assert worker.closed and not worker.inbox.exists()


class Gone(Scripted):
    """One whose program has ended when its plan is sent, or only later."""

    before_plan: bool

    def _send(self, data: bytes) -> None:
        assert self._process is not None
        if self.before_plan:
            self._process.wait()
        super()._send(data)


class Crowded(Scripted):
    """One for whose outputs the device has no room."""

    def _make_outputs(self) -> tuple[OutputBuffers, ...]:
        raise InfrastructureError("no room for 1 MiB of arrays on the device")


@pytest.mark.parametrize("before_plan", [True, False])
def test_one_that_does_not_come_up_is_no_kernel_s_fault(
    tmp_path: Path, libraries: list[Path], before_plan: bool
) -> None:
    kind = type("Gone", (Gone,), {"before_plan": before_plan})
    ends = ["/bin/false"] if before_plan else ["/bin/sh", "-c", "sleep 0.2; exit 1"]
    worker = kind.__new__(kind)
    with pytest.raises(InfrastructureError, match="does not come up"):
        worker.__init__(ends, tmp_path / "log")
        worker.load(libraries[0])
    assert worker.closed and not worker.inbox.exists()


def test_those_that_nobody_asked_for_end_together(tmp_path: Path) -> None:
    workers = [scripted(tmp_path) for _ in range(3)]
    end_together(workers)
    assert all(worker.closed and not worker.inbox.exists() for worker in workers)


class Lists:
    """A driver that lists these processes as computing."""

    def __init__(self, *computing: int) -> None:
        self.computing, self.asked = frozenset(computing), 0

    def processes(self) -> frozenset[int]:
        self.asked += 1
        return self.computing


def test_a_worker_that_the_driver_numbers_otherwise_is_gone_when_its_memory_is_free(
    libraries: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, lists = 10 * CONTEXT_BYTES, Lists(1)
    free = iter([beside, beside, beside + CONTEXT_BYTES - 1, beside + CONTEXT_BYTES])
    monkeypatch.setattr(cuda_process, "free_bytes", lambda: next(free))
    worker = Scripted([sys.executable, "-c", SCRIPT], tmp_path / "log", cast(Monitor, lists))
    worker.load(libraries[0])
    worker.close()
    assert lists.asked == 1 and next(free, None) is None


def test_one_that_is_closed_again_does_not_wait_again(
    libraries: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([0, CONTEXT_BYTES])
    monkeypatch.setattr(cuda_process, "free_bytes", lambda: next(free))
    worker = Scripted([sys.executable, "-c", SCRIPT], tmp_path / "log", cast(Monitor, Lists(1)))
    worker.load(libraries[0])
    for _ in range(2):
        worker.close()
    assert next(free, None) is None


def test_one_that_finds_no_room_for_its_outputs_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    monkeypatch.setattr(cuda_programs, "inbox", lambda: inbox)
    with pytest.raises(InfrastructureError, match="no room"):
        Crowded([], tmp_path / "log")
    assert not inbox.exists()


def test_memory_that_others_took_meanwhile_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_process, "_FREE_SECONDS", 0.0)
    assert not wait_until_free(lambda: 1, 2)
    assert wait_until_free(lambda: 2, 2)
