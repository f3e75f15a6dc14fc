"""Every level of the sandbox, tried on real programs. A level that this machine lacks is skipped by name."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.errors import InfrastructureError
from tools.process import Completed, descendants, is_running, run_command
from tools.sandbox import LEVELS, Confinement, Level, Sandbox, attempt, detect


@pytest.fixture(params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    level: Level = request.param
    found = attempt(level)
    if found is None:
        pytest.skip(f"this machine does not offer {level}")
    return found


@pytest.fixture
def hiding(sandbox: Sandbox) -> Sandbox:
    if sandbox.level == "rlimits":
        pytest.skip("rlimits hide no files")
    return sandbox


def shell(sandbox: Sandbox, script: str, policy: Confinement | None = None, timeout: float = 20) -> Completed:
    policy = policy or Confinement(allow_fork=True)
    return run_command(sandbox.wrap(["/bin/sh", "-c", script], policy), timeout=timeout, env={})


def python(sandbox: Sandbox, code: str, policy: Confinement) -> Completed:
    """Run our interpreter, which is no part of the system's folders, inside."""
    prefixes = {Path(sys.base_prefix).resolve(), Path(sys.executable).resolve().parent.parent}
    roomy = Confinement(**{**vars(policy), "read_only": (*policy.read_only, *prefixes)})
    argv = [str(Path(sys.executable).resolve()), "-I", "-c", code]
    return run_command(sandbox.wrap(argv, roomy), timeout=30, env={})


def test_a_harmless_program_runs(sandbox: Sandbox) -> None:
    done = shell(sandbox, "echo fine; exit 7")
    assert (done.stdout, done.exit_code) == ("fine\n", 7)
    assert sandbox.describe().endswith("rlimits")


def test_the_environment_is_empty(sandbox: Sandbox) -> None:
    done = run_command(sandbox.wrap(["/usr/bin/env"], Confinement()), timeout=20, env={})
    assert [line.split("=")[0] for line in done.stdout.split()] == ["WARPSMITH_COMMAND"]


def test_home_and_tmp_are_out_of_view(hiding: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    done = shell(hiding, f"cat {secret} {Path.home()}/.profile /etc/passwd; ls /tmp/* {Path.home()}; true")
    assert done.stdout == ""


def test_nothing_can_be_written_but_what_is_named(hiding: Sandbox, tmp_path: Path) -> None:
    shut, opened = tmp_path / "shut", tmp_path / "opened"
    shut.mkdir()
    opened.mkdir()
    policy = Confinement(read_only=(shut,), writable=(opened,), file_size=1 << 20, allow_fork=True)
    done = shell(
        hiding, f"echo x > {opened}/a; echo x > {shut}/a; echo x > /a; echo x > /usr/a; echo x >/dev/null", policy
    )
    assert (opened / "a").read_text() == "x\n"
    assert list(shut.iterdir()) == [] and not Path("/a").exists() and not Path("/usr/a").exists()
    assert done.exit_code == 0  # the last line: /dev/null takes it


def test_files_have_a_largest_size(sandbox: Sandbox, tmp_path: Path) -> None:
    policy = Confinement(writable=(tmp_path,), file_size=1000, allow_fork=True)
    shell(sandbox, f"head -c 100000 /dev/zero > {tmp_path}/big; true", policy)
    assert not (tmp_path / "big").exists() or (tmp_path / "big").stat().st_size <= 1000


def test_there_is_no_network_and_no_tracing(sandbox: Sandbox) -> None:
    code = """
import ctypes, socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    try:
        socket.socket(family, socket.SOCK_STREAM); print("socket", family)
    except OSError as error:
        assert isinstance(error, PermissionError), error
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(0, 0, 0, 0) == -1
assert libc.unshare(0x10000000) == -1
print("done")
"""
    done = python(sandbox, code, Confinement())
    assert done.stdout == "done\n", done.stderr


def test_forking_is_forbidden_unless_allowed(sandbox: Sandbox) -> None:
    code = "import os, threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\nos.fork()"
    done = python(sandbox, code, Confinement())
    assert done.stdout == "thread\n"
    assert "PermissionError" in done.stderr or "Operation not permitted" in done.stderr


def test_address_space_is_bounded(sandbox: Sandbox) -> None:
    code = "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    print('bounded')"
    assert python(sandbox, code, Confinement(memory=512 << 20)).stdout == "bounded\n"


def test_cpu_time_is_bounded(sandbox: Sandbox) -> None:
    done = shell(sandbox, "while :; do :; done", Confinement(cpu_seconds=1))
    assert not done.timed_out and not done.ok


def test_no_core_is_dumped_and_no_capability_left(sandbox: Sandbox) -> None:
    done = shell(sandbox, "ulimit -c; grep CapEff /proc/self/status", Confinement(allow_fork=True, proc=True))
    assert done.stdout.split() == ["0", "CapEff:", "0000000000000000"]


def test_other_processes_are_out_of_reach(sandbox: Sandbox) -> None:
    if sandbox.level in ("landlock", "rlimits") and sandbox.landlock < 6:
        pytest.skip("below Landlock 6 only a pid namespace keeps signals in")
    with subprocess.Popen(["sleep", "600"]) as bystander:
        try:
            shell(sandbox, f"kill -9 {bystander.pid}; true")
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_all_of_it_dies_when_its_parent_does(sandbox: Sandbox, tmp_path: Path) -> None:
    argv = sandbox.wrap(["/bin/sh", "-c", "sleep 600; true"], Confinement(allow_fork=True))
    if "-p" in argv:
        argv[argv.index("-p") + 1] = "0"  # the launcher below is the parent, not this process
    code = "import subprocess, sys, time\nsubprocess.Popen(sys.argv[1:], start_new_session=True)\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code, *argv]) as parent:
        family: list[int] = []
        for _ in eventually():
            family = descendants(parent.pid)
            if any(Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in family):
                break
        os.kill(parent.pid, signal.SIGKILL)
    # Without a pid namespace the confined shell itself dies; what it forked is the business of `run_command`.
    ends = family if sandbox.level in ("bwrap", "namespaces") else family[:1]
    for _ in eventually():
        if not any(is_running(pid) for pid in ends):
            break
    assert not any(is_running(pid) for pid in ends)
    for pid in family:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_forced_level_is_used_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for level in LEVELS:
        if attempt(level) is not None:
            monkeypatch.setenv("WARPSMITH_SANDBOX", level)
            detect.cache_clear()
            assert detect().level == level
    monkeypatch.setenv("WARPSMITH_SANDBOX", "none")
    detect.cache_clear()
    with pytest.raises(InfrastructureError, match="is no level"):
        detect()
    monkeypatch.delenv("WARPSMITH_SANDBOX")
    detect.cache_clear()


def test_without_bubblewrap_a_lower_level_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("WARPSMITH_SANDBOX", raising=False)
    detect.cache_clear()
    assert detect().level != "bwrap"
    detect.cache_clear()


def eventually(seconds: float = 20) -> Iterator[None]:
    """Ticks until a deadline, for conditions that another process makes true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.01)


@pytest.mark.parametrize("level", ["bwrap", "namespaces"])
def test_a_loopback_leads_nowhere_else(level: Level) -> None:
    """An instrument talks to its program over it; the machine's own loopback and the network stay out of reach."""
    sandbox = attempt(level)
    if sandbox is None:
        pytest.skip(f"no {level} here")
    weaker = dataclasses.replace(sandbox, seccomp=False, landlock=0)
    with socket.socket() as outside:
        outside.bind(("127.0.0.1", 0))
        outside.listen(1)
        code = f"""import socket
inside, client = socket.socket(), socket.socket()
inside.bind(("127.0.0.1", 0)); inside.listen(1); client.connect(inside.getsockname()); print("inside")
for address in (("127.0.0.1", {outside.getsockname()[1]}), ("10.0.0.1", 80)):
    try: socket.socket().connect(address); print("outside")
    except OSError: pass"""
        python = Path(sys.executable).resolve()
        policy = Confinement(read_only=(Path(sys.base_prefix).resolve(),), proc=True, loopback=True)
        ran = run_command(weaker.wrap([str(python), "-c", code], policy), timeout=20, env={})
    assert (ran.exit_code, ran.stdout) == (0, "inside\n"), ran.stderr
