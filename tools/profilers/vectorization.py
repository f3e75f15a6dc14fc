"""What the compiler made of each loop: g++'s optimisation report, read into one sentence a source line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tools.profilers.valgrind import source_name
from tools.profiles import SourceLine

REPORT_FLAG: Final = "-fopt-info-vec-optimized-missed-internals"
LINES: Final = 24
"""A profile lists at most so many loops."""

_MESSAGE = re.compile(r"^(?P<file>[^:\s][^:]*):(?P<line>\d+):\d+: (?P<kind>optimized|missed|note): (?P<text>\s*.*)$")
_VECTORIZED = re.compile(r"loop (?:with \d+ \w+ )?vectorized using (?:(\d+) byte|variable length) vectors")
_UNROLLED_BLOCK = re.compile(r"basic block part vectorized using (\d+) byte vectors")
_FAILED: Final = "couldn't vectorize loop"

REASONS: Final[tuple[tuple[str, str], ...]] = (
    (
        "would need a runtime alias check|versioning for alias|runtime alias check not supported",
        "its pointers might overlap: copy them to `__restrict` locals, or `#pragma omp simd`",
    ),
    (
        "evolution of base is not affine|involving gather/scatter|data ref analysis failed",
        "an index comes out of memory (gather or scatter), or its address does not advance evenly",
    ),
    (
        "no array mode|single-element interleaving|not falling back to elementwise|not consecutive access",
        "strided access: the inner loop does not walk along contiguous memory",
    ),
    (
        "control flow in loop",
        "a branch, an early exit or an inlined loop in its body: turn the branch into a select, or split the loop (a "
        "math function that may set errno counts as a branch: -fno-math-errno)",
    ),
    (
        "latch block not empty|contains function calls|clobbers memory|function calls or data references",
        "a call that the compiler can't see into (a libm function vectorises only under -ffast-math or when rewritten)",
    ),
    (
        "number of iterations cannot be computed|loop iteration count|not suitable for.*niter|niters? (?:is )?unknown",
        "its trip count can't be computed before it starts: give it a plain counter and a fixed bound",
    ),
    (
        "possible dependence|dependence distance|data dependence|bad data dependence",
        "an iteration needs the result of an earlier one",
    ),
    (
        "not profitable|cost model|too many iterations.*cheap|vectorization not.*cost",
        "the cost model refused it: -O3 uses a less timid one, or give it a longer trip count",
    ),
    (
        "reduc op not supported|reduction: unsafe fp math|in-order.*reduction",
        "a floating-point sum whose order the compiler must keep: keep several partial sums, or "
        "`#pragma omp simd reduction(+:…)`",
    ),
    (
        "relevant stmt not supported",
        "an operation without a vector form on this instruction set or under strict floating-point rules",
    ),
    ("unexpected pattern", "a value carried from one iteration to the next in a form that is no plain reduction"),
    (
        "unsupported data-type|no vectype",
        "no vector form of its data was found (unrolled code with accumulators of its own says so, too)",
    ),
)
OUTER: Final = "multiple nested loops"
"""Said of every loop around another one: not worth a line."""


def parse_report(text: str, files: Mapping[str, str]) -> tuple[SourceLine, ...]:
    """Read what g++ wrote under `REPORT_FLAG`; `files` are the kernel's, path to text.

    A loop vectorised in one version and not in another (a remainder, an alias check that failed) counts as vectorised.
    """
    done: dict[tuple[str, int], str] = {}
    failed: dict[tuple[str, int], str] = {}
    remarks: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = _MESSAGE.match(line)
        if match is None:
            continue
        name = source_name(match["file"], files)
        message = match["text"]
        place = (name or "", int(match["line"]))
        if match["kind"] == "optimized":
            if name is not None and (note := _success(message)) and place not in done:
                done[place] = note
            remarks = []
        elif message == _FAILED:
            if name is not None:
                failed.setdefault(place, _explain(_about(place[1], remarks)))
            remarks = []
        else:
            remarks.append((place[1], message.strip()))
    return _source_lines(done, failed, files)


def _success(message: str) -> str:
    if match := _VECTORIZED.search(message):
        return f"vectorised, {match[1]}-byte vectors" if match[1] else "vectorised, vectors of the machine's length"
    if match := _UNROLLED_BLOCK.search(message):
        return f"straight-line code vectorised, {match[1]}-byte vectors"
    return ""


def _about(line: int, remarks: Sequence[tuple[int, str]]) -> list[str]:
    """The remarks on the loop at `line`: those from its first own one on, since older ones are about other code."""
    start = next((i for i, (number, _) in enumerate(remarks) if number == line), 0)
    return [message for _, message in remarks[start:]]


def _explain(messages: Sequence[str]) -> str:
    """The first known reason among the compiler's remarks on one loop; its own last words when none is known."""
    if any(OUTER in message for message in messages):
        return OUTER
    for pattern, reason in REASONS:
        if any(re.search(pattern, message) for message in messages):
            return f"not vectorised: {reason}"
    return f"not vectorised: {messages[-1].removeprefix('not vectorized: ')}" if messages else "not vectorised"


def _source_lines(
    done: Mapping[tuple[str, int], str], failed: Mapping[tuple[str, int], str], files: Mapping[str, str]
) -> tuple[SourceLine, ...]:
    loops = {*done, *failed}
    inner = {place: note for place, note in failed.items() if note != OUTER and not _holds_a_loop(place, loops, files)}
    notes = inner | dict(done)
    lines = [
        SourceLine(file=name, line=number, text=_text(files[name], number), note=notes[name, number])
        for name, number in sorted(notes)
    ]
    return tuple(line for line in lines if not line.text.startswith("#"))[:LINES]


def _holds_a_loop(place: tuple[str, int], loops: set[tuple[str, int]], files: Mapping[str, str]) -> bool:
    """Whether another reported loop lies within this one, told by the indentation of the source."""
    name, number = place
    lines = files[name].splitlines()
    if not 0 < number <= len(lines):
        return False
    for below in range(number + 1, len(lines) + 1):
        text = lines[below - 1]
        if text.strip() and not text.lstrip().startswith("#") and _indent(text) <= _indent(lines[number - 1]):
            return False
        if (name, below) in loops:
            return True
    return False


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def _text(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip()[:160] if 0 < number <= len(lines) else ""
