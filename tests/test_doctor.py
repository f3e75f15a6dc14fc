"""The doctor tries things for real and says what to do about what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app import doctor
from app.doctor import Finding


def test_this_machine_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.examine(as_json=True) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)}
    assert found["compiler"]["state"] == "ok" and found["sandbox"]["state"] in ("ok", "limited")
    assert all(item["advice"] for item in found.values() if item["state"] in ("limited", "missing"))


def test_a_machine_without_tools_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "LOOKS", (doctor.compiler, doctor.sanitizer, doctor.valgrind, doctor.counters))
    assert doctor.examine(as_json=False) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "apt-get install g++" in text and "apt-get install valgrind" in text
    assert "missing: compiler, sanitizers" in text


def test_an_old_compiler_is_not_taken_for_a_good_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\necho 9.4.0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.compiler() == Finding("compiler", "missing", "g++ 9.4.0", "Install g++ 11 or newer.")


def test_a_compiler_that_builds_nothing_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "g++"
    fake.write_text('#!/bin/sh\ncase "$1" in -dump*) echo 12.2.0;; *) exit 1;; esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.compiler().state == "missing" and doctor.sanitizer().state == "missing"


def test_the_sandbox_in_force_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools import sandbox

    sandbox.detect.cache_clear()
    monkeypatch.setenv("WARPSMITH_SANDBOX", "rlimits")
    try:
        finding = doctor.sandbox()
    finally:
        sandbox.detect.cache_clear()
    assert finding.state == "limited" and "rlimits" in finding.found and "bubblewrap" in finding.advice


def test_a_cache_folder_that_cannot_be_used_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("WARPSMITH_CACHE", str(blocker / "cache"))
    finding = doctor.cache()
    assert finding.state == "missing" and finding.advice
