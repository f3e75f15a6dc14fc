"""A session over logs that are not as this version writes them, and over texts that nobody cleaned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from session_pilot import press, resized, settled, shown, stub_run, until
from test_session import HOSTILE

from app.session.app import SessionApp
from app.session.story import Story
from memory.runs import RunFolder

STEERED = ("hint", "withdraw", "model", "budget", "policy", "approve", "pin", "fork", "forbid", "edit", HOSTILE)
OTHERS: tuple[dict[str, Any], ...] = (
    {"event": "answered", "question": HOSTILE, "answer": HOSTILE, "by": HOSTILE},
    {"event": "exported", "attempt": HOSTILE, "form": HOSTILE, "folder": HOSTILE, "status": HOSTILE, "said": HOSTILE},
    {"event": "hypothesis", "iteration": 9, "idea": HOSTILE, "metric": HOSTILE, "expected": HOSTILE, "parent": HOSTILE},
    {"event": "plan_waits", "iteration": 9, "hypotheses": [{"change": HOSTILE}]},
    {"event": "steer_refused", "action": HOSTILE, "message": HOSTILE, "advice": HOSTILE},
    {"event": "diagnosed", "attempt": HOSTILE, "summary": HOSTILE, "bottleneck": HOSTILE},
    {"event": "model_changed", "role": "coder", "after": HOSTILE},
    *({"event": "steered", "action": action, "about": {"text": HOSTILE}} for action in STEERED),
    {"event": "steered", "action": "budget", "about": {"limits": {"dollars": "x"}}},
    {"event": "best_changed", "attempt": HOSTILE, "gain": 1.0},
    {"event": HOSTILE},
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return asyncio.run(stub_run(tmp_path, iterations=2))


def lines_of(run: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "events.jsonl").read_text().splitlines()]


def odd(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One of each kind, with each field gone or something else."""
    for line in {f"{line['event']} {line.get('action')}": line for line in lines}.values():
        for name in line.keys() - {"event"}:
            yield {key: value for key, value in line.items() if key != name}
            yield from (line | {name: value} for value in (None, "x", [1], {"a": 1}, -1))


async def test_lines_of_another_version_are_passed_over(run: RunFolder) -> None:
    """They end no session as they come, and what is whole counts still."""
    lines = lines_of(run)
    told = [*odd([*lines, *OTHERS])]
    app = SessionApp(run)
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.session.story.ended is not None)
        seen = app.session.story.version
        with (run.path / "events.jsonl").open("a") as log:
            log.writelines(json.dumps(line) + "\n" for line in told)
        await until(pilot, lambda: app.session.story.version >= seen + len(told) or not app.is_running)
        await settled(pilot)
        assert app.is_running and "iteration" in shown(app)
    story = Story()
    for line in (*told, *lines):
        story.take(line)
    assert {"a0", "a1", "a2"} <= story.attempts.keys() and story.ended is not None


async def test_no_field_of_any_event_is_obeyed(run: RunFolder) -> None:
    first = lines_of(run)[0]
    with (run.path / "events.jsonl").open("a") as log:
        log.writelines(json.dumps(first | line) + "\n" for line in OTHERS)
    app = SessionApp(run)
    async with app.run_test(size=(160, 48), notifications=True) as pilot:
        await until(pilot, lambda: bool(app.session.story.answers) and bool(app.session.story.exports))
        for size in ((160, 48), (80, 24)):
            await resized(pilot, *size)
            for key in (*"123456", "H", "escape", "x", "escape"):
                await press(pilot, key)
                assert not set("\x1b\x07\x00\x08\u202e\u202c") & set(shown(app)), key
