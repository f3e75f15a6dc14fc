"""The cache stays small, keeps what is used, and is one cache to many processes."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import eviction
from tools.cache import stored
from tools.errors import InfrastructureError
from tools.eviction import IN_USE_SECONDS, MAKING, SIZE_VARIABLE, evict, size_limit, used

ROOT = Path(__file__).resolve().parent.parent
BYTES = 100_000

CHURN = """
import os, sys
from tools import eviction
from tools.cache import stored

eviction.EVERY = 1
for turn in range(40):
    for name in ("a", "b", "c", "d", sys.argv[1] + str(turn)):
        entry = stored("builds", [name], lambda folder: (folder / "text").write_bytes(name.encode() * 100_000) and None)
        assert (entry / "text").read_bytes() == name.encode() * 100_000
    os.utime(entry, (0, 1))  # its own, which it never asks for again
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path))
    monkeypatch.setattr(eviction, "EVERY", 1)
    return tmp_path


def make(name: str, age: float = 0.0, kind: str = "builds") -> Path:
    """An entry that was last used `age` seconds ago."""
    entry = stored(kind, [name], lambda folder: (folder / "kernel.so").write_bytes(bytes(BYTES)) and None)
    os.utime(entry, (0, time.time() - age))
    return entry


def test_the_least_recently_used_go_until_there_is_room(cache: Path) -> None:
    old = [make(str(age), IN_USE_SECONDS + 1000 - age, kind) for age, kind in zip(range(10), itertools.cycle("xy"))]
    evict(cache, 8 * BYTES)
    left = [entry.is_dir() for entry in old]
    assert left == sorted(left) and 0 < sum(left) * BYTES <= 8 * BYTES
    assert not list(cache.glob(f"*/{MAKING}*"))


def test_nothing_goes_while_it_fits_and_nothing_that_is_used(cache: Path) -> None:
    old, young = make("old", 2 * IN_USE_SECONDS), make("young", IN_USE_SECONDS / 2)
    evict(cache, 10 * BYTES)
    assert old.is_dir()
    assert used(old) and not used(cache / "builds" / "none")
    evict(cache, 1)
    assert old.is_dir() and young.is_dir()


def test_a_new_entry_makes_room_and_one_that_went_is_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIZE_VARIABLE, "1")
    old = [make(f"old {number}", 2 * IN_USE_SECONDS) for number in range(11)]
    assert sum(entry.is_dir() for entry in old) < 11
    gone = next(number for number, entry in enumerate(old) if not entry.is_dir())
    assert make(f"old {gone}") == old[gone] and old[gone].is_dir()


def test_the_size_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SIZE_VARIABLE, raising=False)
    assert size_limit() == 2 << 30
    monkeypatch.setenv(SIZE_VARIABLE, "100")
    assert size_limit() == 100 << 20
    for wrong in ("", "-1", "1.5", "big"):
        monkeypatch.setenv(SIZE_VARIABLE, wrong)
        with pytest.raises(InfrastructureError, match=SIZE_VARIABLE):
            size_limit()


def test_what_is_asked_for_while_it_is_about_to_go_stays(cache: Path) -> None:
    entry = make("old", 2 * IN_USE_SECONDS)
    asked = os.open(entry.parent / ".lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(asked, fcntl.LOCK_SH)  # as `used` does
    remover = threading.Thread(target=evict, args=(cache, 0))
    remover.start()
    remover.join(0.2)
    assert entry.is_dir()
    os.utime(entry)
    os.close(asked)
    remover.join()
    assert entry.is_dir()


def test_processes_that_make_use_and_remove_at_once_never_see_half_an_entry(cache: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), SIZE_VARIABLE: "1"}
    argv = [sys.executable, "-P", "-c", CHURN]
    others = [subprocess.Popen([*argv, name], env=environment) for name in "wxyz"]
    assert [other.wait() for other in others] == [0, 0, 0, 0]
    assert 0 < len([path for path in (cache / "builds").iterdir() if path.is_dir()]) < 4 + 4 * 40
