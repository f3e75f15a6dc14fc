"""Cuts machine code to what was asked for: the first lines, or the lines around those that match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.errors import KernelError
from tools.machine_code import Listing, ListingRequest
from tools.process import run_command

MOST_CHARACTERS: Final = 24_000
LONGEST_LINE: Final = 200
MATCHING_SECONDS: Final = 5.0
GAP: Final = "..."


def cut(text: str, request: ListingRequest) -> Listing:
    """The part of `text` that `request` asks for. KernelError for an expression that is none."""
    every = [line.rstrip()[:LONGEST_LINE] for line in text.splitlines()]
    if request.around is None:
        shown, matches = every[: request.lines], None
    else:
        hits = _matching(every, request.around)
        shown, matches = list(_near(every, hits, request.context))[: request.lines], len(hits)
    kept = _within(shown)
    return Listing(
        form=request.form,
        text="\n".join(kept),
        total_lines=len(every),
        shown_lines=sum(line != GAP for line in kept),
        matches=matches,
    )


def _matching(lines: list[str], pattern: str) -> list[int]:
    """Numbers (from 0) of the lines that match. By grep, whose time does not explode with any expression."""
    command = ("grep", "-E", "-n", "-e", pattern)
    content = "\n".join(lines).encode() + b"\n"
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    ran = run_command(command, stdin=content, timeout=MATCHING_SECONDS, env=environment, output_limit=1 << 24)
    if ran.exit_code not in (0, 1):
        said = (ran.stderr.strip().splitlines() or ["it took too long"])[-1].removeprefix("grep: ")
        raise KernelError(f"`{pattern}` can't be searched for: {said}", "Give an expression as for grep -E.")
    return [int(line.split(":", 1)[0]) - 1 for line in ran.stdout.splitlines()]


def _near(lines: list[str], hits: list[int], context: int) -> Iterator[str]:
    """The lines around the hits, numbered from 1, with a gap where some are left out."""
    last = -1
    for hit in hits:
        for number in range(max(hit - context, last + 1), min(hit + context + 1, len(lines))):
            if number > last + 1:
                yield GAP
            yield f"{number + 1}: {lines[number]}"
            last = number


def _within(lines: list[str]) -> list[str]:
    """The first lines that fit into the characters of an answer."""
    kept, room = [], MOST_CHARACTERS
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept
