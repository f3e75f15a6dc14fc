"""A disk that is really full and a folder that is really read-only: mounts in a namespace of the test's own."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.test_cli import KERNEL, TASK, command

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def mounts_work() -> bool:
    try:
        done = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not mounts_work(), reason="this machine lets nobody mount in a namespace")


def optimize_with_runs_on(mount: str, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `optimize` on a small task with its runs folder on a mount of its own; then list what the folder holds."""
    (tmp_path / "twice.py").write_text(TASK)
    (tmp_path / "twice.cpp").write_text(KERNEL)
    runs = tmp_path / "runs"
    runs.mkdir()
    arguments = command("optimize", tmp_path / "twice.py", "--runs", runs, "--iterations", "3", *options)
    script = (
        f"mount -t tmpfs {mount} none {runs} && {shlex.join(arguments)}; code=$?; "
        f"find {runs} -name '*.json' -size 0 | sed 's/^/empty: /'; exit $code"
    )
    return subprocess.run(
        [*UNSHARE, "sh", "-c", script],
        cwd=Path(__file__).resolve().parent.parent,
        capture_output=True,
        text=True,
        timeout=200,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("kilobytes", [16, 64, 160])
def test_a_full_disk_ends_the_run_in_one_sentence_with_no_torn_record(tmp_path: Path, kilobytes: int) -> None:
    done = optimize_with_runs_on(f"-o size={kilobytes}k", tmp_path)
    measured = "(what was found so far)" in done.stdout
    assert done.returncode == (3 if measured else 2), done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "full" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert "empty: " not in done.stdout


def test_a_read_only_runs_folder_is_one_sentence_before_any_work(tmp_path: Path) -> None:
    done = optimize_with_runs_on("-o ro", tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ") and "ead-only" in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2 and done.stdout == ""
