"""Python source as text: what a file defines and imports, found by parsing. Nothing is executed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from tools.errors import TaskError

LIMIT = 1 << 20
"""Bytes of text that one file may have."""


def read_text(path: Path) -> str:
    """The text of a file of the task. Raises TaskError("missing" | "not_python")."""
    try:
        if path.stat().st_size > LIMIT:
            raise TaskError(
                "not_python", f"{path} is larger than {LIMIT >> 20} MiB", "Pass the task's own source file."
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TaskError("missing", f"{path} can't be read ({error.strerror})", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise TaskError(
            "not_python", f"{path} is not a text file", "Pass a Python file or a folder with task.toml."
        ) from error


def parse(name: str, text: str) -> ast.Module:
    """Parse `text`, called `name` in messages. Raises TaskError("not_python") with the line."""
    try:
        return ast.parse(text, filename=name)
    except SyntaxError as error:
        raise TaskError(
            "not_python", f"{name}:{error.lineno}: not valid Python ({error.msg})", "Correct that line."
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise TaskError(
            "not_python", f"{name} can't be parsed ({error or 'nested too deeply'})", "Pass a Python file."
        ) from error


def bound_names(tree: ast.Module) -> set[str]:
    """Names that the module binds at its top level: definitions, assignments and imports."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        else:
            names.update(_assigned(node))
    return names


def constant_names(tree: ast.Module) -> set[str]:
    """Names that top-level assignments bind: what an override may replace."""
    return {name for node in tree.body for name in _assigned(node)}


def parameter_names(tree: ast.Module, function: str) -> tuple[str, ...] | None:
    """Parameters of a top-level function after its first; None when it takes `**kwargs` or isn't written here."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            arguments = node.args
            if arguments.kwarg is not None:
                return None
            positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
            return (*positional[1:], *(argument.arg for argument in arguments.kwonlyargs))
    return None


def with_constants(tree: ast.Module, values: Mapping[str, JsonValue]) -> ast.Module:
    """The module with `name = value` after each top-level assignment of `name`, so that what derives from it follows.

    Line numbers stay those of the file. Lists become tuples, as sizes are written in tasks.
    """
    body: list[ast.stmt] = []
    for node in tree.body:
        body.append(node)
        for name in sorted(_assigned(node) & values.keys()):
            value = ast.parse(repr(_as_constant(values[name])), mode="eval").body
            statement = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)
            for new in ast.walk(statement):
                ast.copy_location(new, node)
            body.append(statement)
    return ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))


def local_modules(folder: Path, entry: str) -> dict[str, str]:
    """Relative path to text of `entry` and of every module beside it that it imports, directly or not."""
    files: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        files[name] = read_text(folder / name)
        for module in _imported(parse(name, files[name])):
            for candidate in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
                if (folder / candidate).is_file():
                    waiting.append(candidate)
    return files


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _assigned(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    else:
        return set()
    return {
        name.id
        for target in targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


def _as_constant(value: JsonValue) -> object:
    return tuple(_as_constant(item) for item in value) if isinstance(value, list) else value
