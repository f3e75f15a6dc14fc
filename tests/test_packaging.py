"""What a fresh machine meets: lock files, Makefile, CI script, licence, a README whose commands and code are true."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "GNUMAKEFLAGS", "MAKE_TERMOUT", "MAKE_TERMERR")


def pins(name: str) -> dict[str, str]:
    """Name to version of a lock file."""
    found = re.findall(r"^([a-z0-9.-]+)==([^\s\\;]+)", (ROOT / name).read_text(), re.MULTILINE)
    return dict(found)


def make(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a person runs it, also when these tests were started by make, which passes its options and its level on."""
    inherited = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=inherited | environment,
        timeout=60,
        check=False,
    )


def name_of(requirement: str) -> str:
    return re.split(r"[<>=~!\[; ]", requirement)[0].lower().replace("_", "-")


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_locks_name_no_host_path_or_local_build(lock: str) -> None:
    for line in (ROOT / lock).read_text().splitlines():
        assert not re.search(r"://|^-|^\s*--(?!hash)|@ |/home|/tmp|/root", line), line
    assert not [version for version in pins(lock).values() if "+" in version]


def test_locks_pin_every_requirement_and_agree() -> None:
    runtime, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name_of(text) for text in PROJECT["dependencies"]} <= runtime.keys()
    extras = PROJECT["optional-dependencies"]
    assert {name_of(text) for text in extras["test"] + extras["dev"]} <= dev.keys()
    assert "torch==2.13.0" in extras["test"]
    assert {name: dev.get(name) for name in runtime} == runtime
    assert "torch" not in runtime and dev["torch"] == "2.13.0"
    assert not [name for name in dev if name.startswith("nvidia-")]


def test_every_runtime_pin_has_a_hash() -> None:
    text = (ROOT / "requirements.lock").read_text()
    blocks = re.split(r"^(?=[a-z0-9.-]+==)", text, flags=re.MULTILINE)[1:]
    assert blocks and all("--hash=sha256:" in block for block in blocks)


def test_make_help_lists_every_target_and_is_the_default() -> None:
    text = make("help").stdout
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert phony
    assert {line.split()[1] for line in text.splitlines()} == set(phony[1].split())
    assert make().stdout == text


def test_make_says_the_same_inside_make(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = make("help").stdout
    monkeypatch.setenv("MAKELEVEL", "2")
    monkeypatch.setenv("MAKEFLAGS", "w --jobserver-auth=3,4 -- PYTHON=no-such-python")
    inside = make("help")
    assert (inside.stdout, inside.stderr) == (alone, "")


def test_make_without_a_usable_python_says_what_to_do(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for python in ("no-such-python", str(old)):
        done = make("demo", cwd=tmp_path, PYTHON=python)
        assert done.returncode != 0 and "Python 3.11 or newer" in done.stderr
        assert not (tmp_path / ".venv").exists()


def test_ci_script_runs_the_readme_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    assert "make test" in script.read_text() and "make test" in (ROOT / "README.md").read_text()


def test_licence_is_whole_and_declared() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0" and "Private :: Do Not Upload" in PROJECT["classifiers"]


def test_everything_that_the_code_reads_is_package_data() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package in ("app", "tools", "prompts"):
        found = {path for pattern in data[package] for path in (ROOT / package).glob(pattern)}
        others = {
            path
            for path in (ROOT / package).rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
        }
        assert others <= found, f"{package}: {sorted(others - found)}"


def test_readme_names_real_commands_targets_and_files() -> None:
    text = (ROOT / "README.md").read_text()
    help_text = subprocess.run(
        [sys.executable, "-m", "app.start", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    commands = set(re.findall(r"^  ([a-z][a-z-]*) {2,}", help_text.stdout, re.MULTILINE))
    assert set(re.findall(r"`warpsmith ([a-z][a-z-]*)", text)) <= commands
    assert commands <= set(re.findall(r"`warpsmith ([a-z][a-z-]*)", text))
    targets = {line.split()[1] for line in make("help").stdout.splitlines()}
    assert set(re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", text, re.MULTILINE)) - {("", "")} != set()
    assert {a or b for a, b in re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", text, re.MULTILINE)} <= targets
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link


@pytest.mark.slow
def test_readme_kernel_is_accepted_as_printed(tmp_path: Path) -> None:
    blocks = re.findall(
        r"```(python|cpp)\n(?:#|//) (\S+?\.\w+)[^\n]*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert {name for _, name, _ in blocks} == {"rowsum.py", "rowsum.cpp"}
    for _, name, text in blocks:
        (tmp_path / name).write_text(text)
    argv = [
        sys.executable,
        "-m",
        "app.start",
        "check",
        str(tmp_path / "rowsum.py"),
        str(tmp_path / "rowsum.cpp"),
        "--json",
    ]
    done = subprocess.run([*argv, "-D", "LANES=8"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "accepted"
