"""Faults of a CUDA kernel's configuration that arithmetic can tell before nvcc runs: blocks with too many threads, more
shared memory than there is, static or asked for at the launch, and more than is granted unasked.

Only what is certain is told. A name that is defined twice, a template, code under `#if`, an expression beyond integer
arithmetic: all that is left to the compiler.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tools.records import Diagnostic, Kernel
from tools.screen import without_comments
from tools.targets.occupancy import MOST_THREADS, STATIC_SHARED, limits_of, static_shared_limit

Constants = dict[str, int]

_SIZES: Final = {
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("short", "half", "__half", "__nv_bfloat16", "int16_t", "uint16_t", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int", "unsigned", "float", "int32_t", "uint32_t", "half2", "__half2", "__nv_bfloat162"), 4),
    **dict.fromkeys(("double", "int64_t", "uint64_t", "float2", "int2", "size_t"), 8),
    **dict.fromkeys(("float4", "int4", "uint4", "double2"), 16),
}
_CONSTANT = re.compile(
    r"\b(?:static\s+|inline\s+|const\s+)*constexpr\s+(?:static\s+|inline\s+|const\s+|unsigned\s+)*"
    r"(?:int|unsigned|long|size_t|auto|u?int(?:32|64)_t)\s+(?P<list>[^;{}]+);"
)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+(?P<value>\w+|\([^()\n]*\))[ \t]*$", re.MULTILINE
)
_KERNEL = re.compile(r"(?P<template>\btemplate\s*<[^;{}]*>\s*(?:static\s+)?)?\b__global__\b(?P<head>[^;{}]*)\{")
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?P<arguments>(?:[^()]|\([^()]*\))*)\)")
_SHARED = re.compile(
    r"(?<!extern\s)__shared__\s+(?:alignas\([^)]*\)\s*|__align__\([^)]*\)\s*)?(?P<type>(?:task::)?\w+)\s+"
    r"(?P<names>\w+\s*\[[^;={}]*)"
)
_SOLVE = re.compile(r"\bsolve\s*\([^;{}]*\)\s*\{")
_LAUNCH = re.compile(r"(?:^|(?<=[;{}]))(?P<before>[^;{}]*?)<<<(?P<arguments>[^;{}]*?)>>>")
_BLOCK = re.compile(r"\bdim3\s+(?P<name>\w+)\s*\((?P<extents>[^;{}]*)\)\s*;")
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*(?:task::)?(?P<type>\w+)\s*\)")
_GRANTED = re.compile(r"FuncSetAttribute|MaxDynamicSharedMemorySize|MAX_DYNAMIC_SHARED_SIZE_BYTES")
"""What a kernel names that asks for more dynamic shared memory than every launch may have."""
_LONGEST: Final = 1_000
"""Characters of an expression that is worth a look."""
_ROUNDS: Final = 16
"""How many constants deep one constant may rest on another."""
_OPERATORS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: lambda a, b: a << min(b, 64),
    ast.RShift: operator.rshift,
    ast.FloorDiv: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    ast.Mod: lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
}


def foreseen_faults(kernel: Kernel, header: str, architecture: str) -> tuple[Diagnostic, ...]:
    """Errors, by file and line, that building `kernel` against `header` for `architecture` is certain to end in, or its
    launch; empty when nothing is certain."""

    def certain(text: str) -> str:
        return _certain(without_comments(text, keep_strings=False), kernel.defines)

    texts = {path: certain(text) for path, text in kernel.files.items()}
    constants = _constants([certain(header), *texts.values()], kernel.defines)
    asks = any(_GRANTED.search(text) for text in kernel.files.values())
    shared = _dynamic_limit(architecture, asks=asks)
    return tuple(
        fault
        for path, text in texts.items()
        for fault in (
            *_faults(path, text, constants, architecture),
            *_launch_faults(path, text, constants, architecture, shared),
        )
    )


def _dynamic_limit(architecture: str, *, asks: bool) -> tuple[int, str] | None:
    """Bytes that a launch may ask for, and why no more; None when the architecture is unknown."""
    limits = limits_of(architecture)
    if limits is None:
        return None
    if asks:
        return limits.shared_of_block, f"{architecture} has at most {limits.shared_of_block} for a block"
    most = f"up to {limits.shared_of_block} on {architecture}"
    return STATIC_SHARED, f"more than {STATIC_SHARED}, {most}, must be asked for by cudaFuncSetAttribute"


def _faults(path: str, text: str, constants: Constants, architecture: str) -> Iterator[Diagnostic]:
    most = static_shared_limit(architecture)
    for kernel in _KERNEL.finditer(text):
        if kernel["template"]:
            continue
        bounds = _BOUNDS.search(kernel["head"])
        threads = evaluate(_parts(bounds["arguments"])[0], constants) if bounds else None
        if threads is not None and threads > MOST_THREADS:
            message = f"a block of {threads} threads: {architecture} has at most {MOST_THREADS}"
            yield _fault(path, text, kernel.start("head"), message)
        body = _body(text, kernel.end())
        arrays = [(match, _bytes(match, constants)) for match in _SHARED.finditer(body)]
        total = sum(size for _, size in arrays if size is not None)
        if most is not None and total > most:
            message = f"{total} bytes of static shared memory: {architecture} has at most {most} for a block"
            yield _fault(path, text, kernel.end() + arrays[0][0].start(), message)


def _launch_faults(
    path: str, text: str, constants: Constants, architecture: str, shared: tuple[int, str] | None
) -> Iterator[Diagnostic]:
    """Launches in `solve` that are made whatever the arguments."""
    for solve in _SOLVE.finditer(text):
        body = _body(text, solve.end())
        blocks = {match["name"]: match["extents"] for match in _BLOCK.finditer(body)}
        for launch in _LAUNCH.finditer(body):
            earlier = text[solve.end() : solve.end() + launch.start("arguments")]
            if re.search(r"\b(return|goto|throw)\b", earlier) or re.search(
                r"\b(if|else|for|while)\b", launch["before"]
            ):
                continue
            place = solve.end() + launch.start("before")
            arguments = _parts(launch["arguments"])
            size = arguments[1].strip() if len(arguments) > 1 else ""
            inline = re.fullmatch(r"dim3\s*\((.*)\)", size, re.DOTALL)
            extents = [evaluate(part, constants) for part in _parts(inline[1] if inline else blocks.get(size, size))]
            threads = math.prod(extent for extent in extents if extent is not None)
            if None not in extents and threads > MOST_THREADS:
                message = f"a block of {threads} threads: {architecture} has at most {MOST_THREADS}"
                yield _fault(path, text, place, message)
            dynamic = evaluate(arguments[2], constants) if len(arguments) > 2 else None
            if dynamic is not None and shared is not None and dynamic > shared[0]:
                yield _fault(path, text, place, f"{dynamic} bytes of dynamic shared memory: {shared[1]}")


def evaluate(expression: str, constants: Mapping[str, int]) -> int | None:
    """The value of an integer expression of C; None when it is not certain."""
    if len(expression) > _LONGEST:
        return None
    sized = _SIZEOF.sub(lambda match: str(_SIZES.get(match["type"], match[0])), expression.strip())
    text = re.sub(r"\b(?:task::)?(?:Args::)?([A-Za-z_]\w*)", r"\1", sized)
    text = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlLzZ]*\b", r"\1", text.replace("'", ""))
    try:
        return _value(ast.parse(text.replace("/", "//"), mode="eval").body, constants)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, constants: Mapping[str, int]) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand, constants)
        return None if value is None else -value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, constants), _value(node.right, constants)
        if left is None or right is None or max(abs(left), abs(right)) >= 1 << 62:
            return None
        return _OPERATORS[type(node.op)](left, right)
    return None


def _constants(texts: list[str], defines: Mapping[str, str]) -> Constants:
    """Macros and `constexpr` integers with one certain value."""
    written: dict[str, set[str]] = {}
    for text in texts:
        for match in _DEFINE.finditer(text):
            written.setdefault(match["name"], set()).add(match["value"].strip())
        for match in _CONSTANT.finditer(text):
            for part in _parts(match["list"]):
                name, equals, value = part.partition("=")
                if equals and name.strip().isidentifier():
                    written.setdefault(name.strip(), set()).add(value.strip())
    for name, value in defines.items():
        written.setdefault(name, set()).add(value)
    known: Constants = {}
    for _ in range(_ROUNDS):
        once = {
            name: evaluate(next(iter(v)), known) for name, v in written.items() if len(v) == 1 and name not in known
        }
        new = {name: value for name, value in once.items() if value is not None}
        if not new:
            break
        known |= new
    return known


def _certain(text: str, defines: Mapping[str, str]) -> str:
    """The text without what stands under a condition, lines kept. `#ifndef X` before `#define X` is no condition unless
    X is given from outside."""
    lines = text.splitlines()
    kept: list[str] = []
    open_conditions: list[bool] = []
    for number, line in enumerate(lines):
        word = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b\s*(\w*)", line)
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if word and word[1] in ("if", "ifdef", "ifndef"):
            defined = re.match(rf"\s*#\s*define\s+{re.escape(word[2])}\b", following) is not None
            open_conditions.append(word[1] == "ifndef" and defined and word[2] not in defines)
        elif word and word[1] == "endif" and open_conditions:
            open_conditions.pop()
        elif word and open_conditions:
            open_conditions[-1] = False
        kept.append(line if all(open_conditions) and not word else "")
    return "\n".join(kept)


def _body(text: str, start: int) -> str:
    """What follows a function's `{` at its own level, up to its `}`; deeper blocks are blanked out."""
    depth, kept = 1, []
    for character in text[start:]:
        depth += (character == "{") - (character == "}")
        if depth == 0:
            break
        kept.append(character if depth == 1 and character != "}" else " ")
    return "".join(kept)


def _bytes(array: re.Match[str], constants: Constants) -> int | None:
    """Bytes of a declaration such as `float a[4][N], b[N]`."""
    item, total = _SIZES.get(array["type"].removeprefix("task::")), 0
    for declared in _parts(array["names"]):
        size = item
        for extent in re.findall(r"\[([^\]]*)\]", declared):
            count = evaluate(extent, constants)
            size = None if size is None or count is None else size * count
        total = total + size if size is not None else total
    return total


def _parts(text: str) -> list[str]:
    """`text` split at its outermost commas."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _fault(path: str, text: str, position: int, message: str) -> Diagnostic:
    start = position + len(text[position:]) - len(text[position:].lstrip())
    return Diagnostic(severity="error", message=message, file=path, line=text.count("\n", 0, start) + 1)
