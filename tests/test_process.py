"""Commands under limits, and that nothing of them is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.errors import InfrastructureError
from tools.process import descendants, is_running, run_command


def test_a_plain_command_returns_both_streams_and_its_code() -> None:
    done = run_command(["sh", "-c", "cat; echo err >&2; exit 3"], timeout=20, stdin=b"in")
    assert (done.stdout, done.stderr, done.exit_code, done.signal, done.ok) == ("in", "err\n", 3, None, False)


def test_a_death_by_signal_is_told_from_an_exit() -> None:
    done = run_command(["sh", "-c", "kill -SEGV $$"], timeout=20)
    assert (done.exit_code, done.signal) == (None, 11)


def test_the_environment_is_replaced() -> None:
    done = run_command(["/usr/bin/env"], timeout=20, env={"ONLY": "this"})
    assert {line.split("=")[0] for line in done.stdout.split()} == {"ONLY", "WARPSMITH_COMMAND"}


def test_a_timeout_returns_the_output_so_far() -> None:
    done = run_command(["sh", "-c", "echo early; exec sleep 600"], timeout=2)
    assert done.timed_out and not done.ok
    assert done.stdout == "early\n"


def test_output_is_bounded_but_read_to_the_end() -> None:
    done = run_command(["sh", "-c", "head -c 5000000 /dev/zero; echo end >&2"], timeout=60, output_limit=1000)
    assert done.truncated and done.ok
    assert (len(done.stdout), done.stderr) == (1000, "end\n")


def test_stdin_that_nobody_reads_does_not_block() -> None:
    assert run_command(["true"], timeout=20, stdin=b"x" * (4 << 20)).ok


@pytest.mark.parametrize(("ending", "timeout"), [("exec sleep 600", 3), ("exit 0", 60)], ids=["timeout", "exit"])
def test_what_left_the_session_is_found_and_killed(ending: str, timeout: float, tmp_path: Path) -> None:
    script = f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' >/dev/null 2>&1 &) ; "
    wait = f"while [ ! -s {tmp_path}/pid ]; do sleep 0.01; done; "
    run_command(["sh", "-c", script + wait + ending], timeout=timeout)
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_a_child_that_keeps_the_pipe_open_does_not_hold_the_caller() -> None:
    done = run_command(["sh", "-c", "sleep 600 & echo done"], timeout=200)
    assert done.ok and done.stdout == "done\n"


def test_memory_is_bounded_over_the_whole_tree() -> None:
    hog = "import time\nblocks = []\nwhile True: blocks.append(bytes([1]) * (8 << 20)); time.sleep(0.001)"
    done = run_command(["sh", "-c", f'"{sys.executable}" -c "{hog}"; true'], timeout=60, memory_limit=300 << 20)
    assert done.out_of_memory and not done.timed_out


def test_a_missing_program_is_an_infrastructure_error() -> None:
    with pytest.raises(InfrastructureError, match="no-such-program can't be started"):
        run_command(["no-such-program"], timeout=5)


def test_descendants_are_found_at_every_depth() -> None:
    with subprocess.Popen(["sh", "-c", "sh -c 'sleep 600; true'; true"], start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 20
            while len(found := descendants(process.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert len(found) == 2
            assert process.pid not in found
        finally:
            os.killpg(process.pid, 9)
