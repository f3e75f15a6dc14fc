"""What a killed judge, or the killed program that asked for it, leaves behind: nothing. Real kills, by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_tasks import HONEST

from tools.keeper import STALE_SECONDS, Folder, remove_leftovers
from tools.process import descendants, is_running
from tools.sandbox import Level, attempt

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 120.0

ASK = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from small_tasks import cpp, saxpy
from tools.executor import LocalExecutor
from tools.task import WorkloadSpec

async def main():
    async with LocalExecutor() as executor:
        await executor.{job}

asyncio.run(main())
"""
# Takes the compiler proper as long as its time limit allows.
TEMPLATES = (
    "template <int A, int B> constexpr int f() { if constexpr (A == 0 || B == 0) return 1; "
    "else return f<A - 1, B>() + f<A, B - 1>() + A * B; }\nint big = f<250, 250>();\n"
)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def named(pid: int) -> dict[str, int]:
    """Name to id of the processes below `pid`."""
    found = {}
    for each in descendants(pid):
        with contextlib.suppress(OSError):
            found[Path(f"/proc/{each}/comm").read_text().strip()] = each
    return found


@contextlib.contextmanager
def asking(job: str, tmp_path: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has a judge do `job` and keeps its temporary files in `tmp_path`."""
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    code = ASK.format(job=job, tests=str(Path(__file__).parent))
    with subprocess.Popen([sys.executable, "-P", "-c", code], env=os.environ | environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_keeper_ends_as_its_program_does(tmp_path: Path) -> None:
    def run(code: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-P", "-m", "tools.keeper", str(os.getpid()), "/bin/sh", "-c", code]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
        return subprocess.run(argv, input="in", capture_output=True, text=True, env=environment, check=False)

    done = run("cat; echo err >&2; touch $TMPDIR/left; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == ("in", "err\n", 3)
    assert [run(f"kill -{name} $$").returncode for name in ("KILL", "TERM", "SEGV")] == [-9, -15, -11]
    assert list(tmp_path.iterdir()) == []


def test_what_left_the_session_and_lost_its_parent_is_ended_too(tmp_path: Path) -> None:
    code = f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' >/dev/null 2>&1 &); "
    code += f"while [ ! -s {tmp_path}/pid ]; do sleep 0.01; done"
    argv = [sys.executable, "-P", "-m", "tools.keeper", str(os.getpid()), "/bin/sh", "-c", code]
    subprocess.run(argv, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    assert not is_running(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("level", "victim"), [("landlock", "who asked"), ("landlock", "the judge"), ("bwrap", "who asked")]
)
def test_a_kill_while_a_kernel_is_compiled_leaves_nothing(level: Level, victim: str, tmp_path: Path) -> None:
    if attempt(level) is None:
        pytest.skip(f"this machine does not offer {level}")
    text = f"// {secrets.token_hex(8)}\n{TEMPLATES}{HONEST}"
    with asking(f"build(saxpy(), cpp({text!r}))", tmp_path, WARPSMITH_SANDBOX=level) as process:
        eventually(lambda: "cc1plus" in named(process.pid))
        below = descendants(process.pid)
        keeper, judge, *_ = below
        os.kill(process.pid if victim == "who asked" else judge, signal.SIGKILL)
        if victim == "the judge":
            eventually(lambda: not is_running(keeper))
            process.kill()
    eventually(lambda: not any(is_running(pid) for pid in below))
    eventually(lambda: not list(tmp_path.iterdir()))


@pytest.mark.skipif(not (shutil.which("perf") or shutil.which("valgrind")), reason="no instrument here")
def test_a_kill_while_a_kernel_is_profiled_leaves_nothing(tmp_path: Path) -> None:
    def watched() -> bool:
        return any(name.startswith(("perf", "valgrind", "cachegrind", "replay")) for name in named(process.pid))

    task = 'saxpy(workloads=(WorkloadSpec(name="long", parameters={"size": 500_000}),))'
    with asking(f"profile({task}, cpp({HONEST!r}))", tmp_path) as process:
        eventually(watched)
        below = descendants(process.pid)
        assert list(tmp_path.iterdir())
        process.kill()
    eventually(lambda: not any(is_running(pid) for pid in below))
    eventually(lambda: not list(tmp_path.iterdir()))


def test_what_a_killed_keeper_left_goes_at_the_next_start_and_what_is_in_use_stays(tmp_path: Path) -> None:
    used, of_perf = Folder(tmp_path), tmp_path / "of-perf"
    of_perf.mkdir()
    argv = [sys.executable, "-P", "-m", "tools.keeper", str(os.getpid()), "sleep", "600"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, env=environment) as keeper:
        eventually(lambda: "sleep" in named(keeper.pid))
        below = descendants(keeper.pid)
        keeper.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert len(list(tmp_path.glob("warpsmith-*"))) == 2
    old, new = (of_perf / f"perf-vdso.so-{name}" for name in ("old123", "new123"))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, time.time() - STALE_SECONDS - 1))
    remove_leftovers(tmp_path, of_perf)
    assert list(tmp_path.glob("warpsmith-*")) == [used.path]
    assert list(of_perf.iterdir()) == [new]
    used.remove()
    assert not used.path.exists()
