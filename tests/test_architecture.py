"""The shape of the house: who imports whom, what a start-up costs, and who owns the five names."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "agents", "tools", "memory", "prompts")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
NOT_BELOW = {"tools": {"agents", "app", "memory", "prompts"}, "memory": {"agents", "app", "tools", "prompts"}}
NOT_BELOW |= {"prompts": {"agents", "app", "tools", "memory"}, "agents": {"app"}, "app": set()}
HEAVY = ("torch", "langgraph", "langchain_core", "optuna", "numpy", "openai", "anthropic")


def imports(path: Path) -> set[str]:
    """Top-level names that a module imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downwards_and_only_agents_know_the_graph(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert not imports(path) & NOT_BELOW[package]
    if package != "agents":
        assert not imports(path) & {"langgraph", "langchain_core"}


def test_the_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_only_processes_without_threads_are_forked() -> None:
    """A fork of one that has threads can wait for ever for what one of them holds."""
    may = {"tools/torch_server.py", "tests/nursery.py", "tests/killed_judge.py"}
    paths = [*MODULES, *(ROOT / "tests").glob("*.py"), *(ROOT / "bench").glob("*.py")]
    forking = {str(path.relative_to(ROOT)) for path in paths if any(map(forks, ast.walk(ast.parse(path.read_text()))))}
    assert forking == may


def forks(node: ast.AST) -> bool:
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    plain = ("os.fork", "os.forkpty", "pty.fork", "multiprocessing.Process", "multiprocessing.Pool")
    return called in plain or (called.endswith("get_context") and ast.unparse(node).endswith("'fork')"))


def test_package_files_import_nothing() -> None:
    assert all(path.read_text().strip() == "" for path in MODULES if path.name == "__init__.py")


def test_our_distribution_alone_owns_the_five_names() -> None:
    owners = packages_distributions()
    assert {name: set(owners.get(name, [])) for name in PACKAGES} == {name: {"warpsmith"} for name in PACKAGES}


def test_roles_know_no_model_but_the_protocol() -> None:
    """Only the registry names an implementation, and only the casting of a run asks the registry."""
    names = ("base", "catalogue", "connections", "costs", "failover", "money", "parting", "retry", "spec")
    around = {f"agents.models.{name}" for name in names}
    for path in (ROOT / "agents").glob("*.py"):
        modules = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        asked = {module for module in modules if module and module.startswith("agents.models")}
        allowed = around | ({"agents.models.registry"} if path.name == "casting.py" else set())
        assert asked <= allowed, path


@pytest.mark.parametrize("module", ["app.cli", "agents.settings", "memory.runs", "prompts.render", "tools.records"])
def test_nothing_heavy_is_imported_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout.split()) == (0, []), run.stderr


def test_importing_does_no_work(tmp_path: Path) -> None:
    """No folder, no file, no output, no process: whatever the module."""
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in MODULES
        if path.name not in ("__init__.py", "__main__.py")
    ]
    code = f"""
import importlib, os
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name in ("torch", "pycuda"), error
assert not os.listdir("."), os.listdir(".")
"""
    environment = {
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
