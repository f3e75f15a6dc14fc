"""What a person sees while a batch goes on: a live table on a terminal, lines in a pipe, JSON lines for a program."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agents.batch import Batch
from agents.batch_board import Board
from agents.batch_books import BatchEvent, Kind
from agents.events import Event
from agents.limits import STOP_WORDS
from app import event_lines
from app.event_lines import Fields, number
from app.plain import one_line
from app.quantities import duration, money, percent, span, times, tokens

Spent = Callable[[], tuple[float, int, float]]
"""Dollars, tokens and device seconds so far."""
_STYLES = {"ended": "green", "failed": "red", "refused": "red", "running": "bold", "waiting": "dim"}
_TOLD = ("best_changed", "budget_low", "model_changed", "model_retried", "run_failed")
"""Events of runs that are worth a line."""


class Watch(Protocol):
    """Shows a batch's events as they happen."""

    def show(self, event: BatchEvent) -> None: ...

    def live(self, spent: Spent) -> AbstractContextManager[object]:
        """For the time of the batch."""
        ...


def watch_for(console: Console, batch: Batch, board: Board, wall_time: float | None, as_json: bool) -> Watch:
    """As `--json` and the console want it. wall_time: seconds for the whole batch."""
    if as_json:
        return JsonLines()
    if console.is_terminal and not console.is_dumb_terminal:
        return Panel(console, batch, board, wall_time)
    return PlainLines(console)


class JsonLines:
    """Each event as a JSON object: `event` (the kind), `time` (Unix), `task` and the kind's fields; an event of a run
    is under `run_event`."""

    def show(self, event: BatchEvent) -> None:
        fields = dict(event.fields)
        if event.kind == "happened":
            fields = {"run_event": {"event": fields["event"], "fields": fields["fields"]}}
        print_json({"event": event.kind, "time": time.time(), "task": event.task, **fields})

    def live(self, spent: Spent) -> AbstractContextManager[object]:
        del spent
        return nullcontext()


def print_json(line: dict[str, JsonValue]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class PlainLines:
    """One line for every turn, every new best and every failure."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, event: BatchEvent) -> None:
        if text := line(event):
            self._console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)

    def live(self, spent: Spent) -> AbstractContextManager[object]:
        del spent
        return nullcontext()


def line(event: BatchEvent) -> str:
    """An event as one line; empty for those that only a log needs."""
    words = _WORDS[event.kind](event.fields)
    return f"{event.task}: {words}" if event.task and words else words


def _run_line(f: Fields) -> str:
    inner = f["fields"]
    if f["event"] not in _TOLD or not isinstance(inner, dict):
        return ""
    if f["event"] == "best_changed":
        gain = event_lines.gain_words(inner)
        figures = ", ".join(part for part in (duration(number(inner, "seconds")), gain) if part)
        return f"{inner.get('attempt')} is the best, {figures}, {percent(number(inner, 'share_of_limit'))} of limit"
    return event_lines.line(Event.model_validate({"event": f["event"], "fields": inner}))


def _ending(f: Fields) -> str:
    return next((words for reason, words in STOP_WORDS.items() if reason == f.get("reason")), "over")


def _turned_line(f: Fields) -> str:
    words = _ending(f) if f["status"] == "ended" else "pauses"
    return f"{words} after {f['iterations']} iterations, {percent(number(f, 'share_of_limit'))} of limit"


def _failed_line(f: Fields) -> str:
    again = number(f, "again")
    what = "given up" if again is None else f"again in {span(again)}" if again else "again now"
    return f"{f['message']}; {what}"


_WORDS: dict[Kind, Callable[[Fields], str]] = {
    "begun": lambda f: f"{f['tasks']} tasks, {f['jobs']} at a time",
    "granted": lambda f: "its last measurement" if f.get("closing") else f"turn {f['turn']}",
    "happened": _run_line,
    "turned": _turned_line,
    "failed": _failed_line,
    "refused": lambda f: f"can't be used: {f['message']}",
    "halting": lambda f: (
        "stopping at once" if f["at_once"] else "finishing the steps that go on; again to stop at once"
    ),
    "nearing": lambda f: "of all tasks together, " + event_lines.line(Event(event="budget_low", fields=f)),
    "paused": lambda f: f"paused: {_ending(f)}; to go on: {f['go_on']}",
    "stopped": lambda _: "",
}


@dataclass
class _Row:
    status: str
    iteration: int = 0
    attempts: int = 0
    turns: int = 0
    best: Fields = field(default_factory=dict)
    share: float | None = None
    doing: str = ""


class Panel:
    """A row a task, redrawn in place."""

    def __init__(self, console: Console, batch: Batch, board: Board, wall_time: float | None) -> None:
        self._console, self._wall_time = console, wall_time
        self._rows = {
            task.key: _Row(
                status=state.status if state.status != "running" else "paused",
                iteration=state.iterations,
                turns=state.turns,
                share=state.share_of_limit,
                doing=state.message,
            )
            for task in batch.tasks
            for state in (board.tasks[task.key],)
        }
        self._origin = time.monotonic() - board.elapsed
        self._note = "Ctrl-C finishes the steps that go on, saves and reports"
        self._spent: Spent = lambda: (0.0, 0, 0.0)

    def live(self, spent: Spent) -> AbstractContextManager[object]:
        self._spent = spent
        return Live(get_renderable=self._draw, console=self._console, refresh_per_second=2, transient=True)

    def show(self, event: BatchEvent) -> None:
        f = event.fields
        if event.kind in ("halting", "paused"):
            self._note = line(event)
        if event.kind == "nearing":
            self._console.print(Text(line(event), style="yellow"), highlight=False)
        row = self._rows.get(event.task or "")
        if row is None:
            return
        match event.kind:
            case "granted":
                row.status, row.doing = "running", "opening the task"
                row.turns = int(number(f, "turn") or row.turns)
            case "happened":
                self._happened(row, f)
            case "turned":
                row.status, row.doing = str(f["status"]), _ending(f) if f["status"] == "ended" else ""
                row.share = number(f, "share_of_limit")
            case "failed" | "refused":
                row.status = "paused" if number(f, "again") is not None else event.kind
                row.doing = line(event).removeprefix(f"{event.task}: ")
            case _:
                pass

    def _happened(self, row: _Row, f: Fields) -> None:
        inner = f["fields"]
        if not isinstance(inner, dict):
            return
        match f["event"]:
            case "iteration_started" | "iteration_ended":
                row.iteration = int(number(inner, "iteration") or 0)
            case "attempt_judged":
                row.attempts += 1
                row.doing = one_line(event_lines.attempt_line(inner))
            case "best_changed":
                row.best, row.share = inner, number(inner, "share_of_limit")
            case "hypothesis":
                row.doing = f"trying {one_line(str(inner.get('change', '')))}"
            case _:
                event = Event.model_validate({"event": f["event"], "fields": inner})
                row.doing = event_lines.activity(event) or row.doing

    def _draw(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), expand=True)
        for name in ("task", "", "iteration", "best", "gain", "vs baseline", "of limit", "turns"):
            right = name not in ("task", "")
            table.add_column(name, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
        table.add_column("", ratio=1, no_wrap=True, overflow="ellipsis")
        shown = self._shown()
        for key in shown:
            row = self._rows[key]
            table.add_row(
                escape(key),
                row.status,
                str(row.iteration or ""),
                duration(number(row.best, "seconds")),
                times(number(row.best, "gain")),
                times(number(row.best, "speedup")),
                percent(row.share),
                str(row.turns or ""),
                Text(row.doing),
                style=_STYLES.get(row.status, ""),
            )
        hidden = len(self._rows) - len(shown)
        more = [Text(f"and {hidden} more", style="dim")] if hidden else []
        return Group(Text(), table, *more, Text(), Text(self._foot()), Text(self._note, style="dim"))

    def _shown(self) -> list[str]:
        """As many as fit on the screen; those that have a turn always, then those that may have one."""
        order = {"running": 0, "paused": 1, "waiting": 2}
        room = max(3, self._console.height - 7)
        keys = sorted(self._rows, key=lambda key: order.get(self._rows[key].status, 3))[:room]
        return [key for key in self._rows if key in set(keys)]

    def _foot(self) -> str:
        dollars, used, device = self._spent()
        gone = time.monotonic() - self._origin
        left = "" if self._wall_time is None else f", at most {span(max(0.0, self._wall_time - gone))} left"
        over = sum(row.status in ("ended", "failed", "refused") for row in self._rows.values())
        paid = f", {money(dollars)}, {tokens(used)} tokens" if used else ""
        return f"{over} of {len(self._rows)} over, {span(gone)} gone{left}, {span(device)} of device time{paid}"
