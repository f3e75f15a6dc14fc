"""`warpsmith show RUN --context ROLE --at N`: what a role was told at the beginning of its turn, word for word."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from pydantic import JsonValue
from rich.console import Console

from agents.settings import Role
from app.exits import DONE
from app.terminal import console_for, plain_table
from memory.files import RunFolderError
from memory.runs import RunFolder


@dataclass(frozen=True)
class Part:
    """One message of an opening. `tokens` is what it was counted to cost the model."""

    speaker: str
    label: str
    tokens: int
    text: str


@dataclass(frozen=True)
class Seen:
    """How a turn began. `view` says of what it was made: role, iteration, attempts known, model, window, budget, the
    factor from our count to the model's, tokens of tools and of the reply."""

    view: dict[str, JsonValue]
    parts: tuple[Part, ...]


def show_context(run: RunFolder, role: Role, iteration: int | None, slot: int, as_json: bool) -> int:
    """Print an opening message by message, and a table of what each part cost. The last turn without `iteration`."""
    seen = seen_by(run, role, last_turn(run, role, slot) if iteration is None else iteration, slot)
    if as_json:
        parts = [{"speaker": p.speaker, "label": p.label, "tokens": p.tokens, "text": p.text} for p in seen.parts]
        print(json.dumps({"view": seen.view, "messages": parts}, ensure_ascii=False))
        return DONE
    for part in seen.parts:
        sys.stdout.write(f"──── {part.speaker}: {part.label} ({part.tokens:,} tokens)\n{part.text}\n")
    _print_costs(console_for(), seen)
    return DONE


def seen_by(run: RunFolder, role: Role, iteration: int, slot: int = 0) -> Seen:
    """The opening of a turn, read back from its transcript. slot: which of an iteration's coders, from 0.

    RunFolderError when there was no such turn, or when it was written by a version that kept no openings.
    """
    name = turn_name(role, iteration, slot)
    lines = run.transcript(name).lines()
    if not lines:
        raise RunFolderError(
            f"{run.id} has no turn of {'coder ' + str(slot) if role == 'coder' else 'the ' + role} in iteration "
            f"{iteration}",
            "Its turns are the files under transcript/.",
        )
    begins = max((i for i, line in enumerate(lines) if line.get("speaker") == "view"), default=None)
    if begins is None:
        raise RunFolderError(f"{name} was written by an older version, which kept no openings")
    parts = []
    for line in lines[begins + 1 :]:
        if "blob" not in line or "tokens" not in line:
            break
        tokens = line["tokens"]
        parts.append(
            Part(
                speaker=str(line["speaker"]),
                label=str(line["label"]),
                tokens=tokens if isinstance(tokens, int) else 0,
                text=run.blobs.get(str(line["blob"])),
            )
        )
    return Seen(lines[begins], tuple(parts))


def turn_name(role: Role, iteration: int, slot: int = 0) -> str:
    """What the agents call that turn."""
    return f"{iteration:04d}-{role}" + (f"-{slot}" if role == "coder" else "")


def last_turn(run: RunFolder, role: Role, slot: int = 0) -> int:
    """The last iteration in which the role spoke; RunFolderError when it never did."""
    ending = turn_name(role, 0, slot)[4:]
    names = [path.stem for path in run.path.glob(f"transcript/*{ending}.jsonl")]
    found = [int(name.partition("-")[0]) for name in names if name.partition("-")[0].isdigit()]
    if not found:
        raise RunFolderError(f"{run.id} has no turn of the {role} yet")
    return max(found)


def _print_costs(console: Console, seen: Seen) -> None:
    table = plain_table("part", "tokens", "share", numeric=("tokens", "share"))
    budget = seen.view.get("budget")
    whole = budget if isinstance(budget, int) and budget > 0 else 1
    total = sum(part.tokens for part in seen.parts)
    for label, tokens in [*((part.label, part.tokens) for part in seen.parts), ("in all", total)]:
        table.add_row(label, f"{tokens:,}", f"{tokens / whole:.1%}")
    console.print()
    console.print(table)
    view = seen.view
    console.print(
        f"of a budget of {whole:,} tokens: {view.get('model')} has a window of {view.get('window'):,}, of which tools "
        f"take {view.get('tools'):,} and the reply up to {view.get('reply'):,}; counts are o200k_base times "
        f"{view.get('factor')}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
