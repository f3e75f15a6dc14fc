"""What a person sees while a run goes on: a live panel on a terminal, plain lines everywhere else.

Both are fed by the run's events (`agents.events`) and print to standard error when the result goes out as JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from pydantic import JsonValue
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agents.events import Event, EventKind
from agents.limits import STOP_WORDS
from app.quantities import duration, percent, span, times

RECENT = 6
Fields = dict[str, JsonValue]


class Progress(Protocol):
    """Shows events as they happen; a context manager for the time of the run."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, event: Event) -> None:
        """Take in one event."""
        ...


def progress_for(console: Console, wall_time: float | None) -> Progress:
    """A panel on a terminal, lines otherwise. `wall_time` is the run's time budget in seconds."""
    return Panel(console, wall_time) if console.is_terminal and not console.is_dumb_terminal else Lines(console)


class Lines:
    """One line for every attempt and every turn of the run."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, event: Event) -> None:
        text = line(event)
        if text:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def line(event: Event) -> str:
    """An event as one line of text; empty for events that only a log needs."""
    words = _LINES.get(event.event)
    return words(event.fields) if words else ""


class Panel:
    """Iteration, best, percent of the limit, time left, and the last attempts, redrawn in place."""

    def __init__(self, console: Console, wall_time: float | None) -> None:
        self._console = console
        self._wall_time = wall_time
        self._began = time.monotonic()
        self._state: Fields = {}
        self._best: Fields = {}
        self._recent: list[Fields] = []
        self._doing = "opening the task, measuring the machine and the baseline"
        self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Panel:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        f = event.fields
        match event.event:
            case "run_started":
                self._console.print(f"run [bold]{escape(str(f.get('run')))}[/bold]", highlight=False)
            case "task_opened":
                for workload in _workloads(f):
                    self._console.print(f"  {escape(workload)}", highlight=False)
                self._doing = "judging the starting kernel"
            case "iteration_started" | "iteration_ended":
                self._state |= f
            case "hypothesis":
                self._doing = f"trying {f.get('change', '')}"
            case "attempt_judged":
                self._recent = [*self._recent, f][-RECENT:]
            case "best_changed":
                self._best = f
            case "tool_called" | "profiled" | "diagnosed" | "model_called":
                self._doing = _activity(event)
            case "stopping":
                self._doing = f"stopping: {_reason(f)}; measuring the best kernel afresh"
            case _:
                pass

    def _draw(self) -> RenderableType:
        elapsed = time.monotonic() - self._began
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column()
        grid.add_row("iteration", self._iteration())
        grid.add_row("best", self._best_text())
        grid.add_row("of limit", self._limit_bar())
        grid.add_row("time", f"{span(elapsed)} gone, {self._left(elapsed)}")
        width = max(20, self._console.width - 4)
        doing = Text(" ".join(self._doing.split()), style="italic", overflow="ellipsis", no_wrap=True)
        doing.truncate(width)
        recent = [Text(_attempt_line(f), style=_style(f), overflow="ellipsis", no_wrap=True) for f in self._recent]
        return Group(Text(), *recent, Text(), grid, Text(), doing, Text("Ctrl-C stops and keeps the best", style="dim"))

    def _iteration(self) -> str:
        number = _number(self._state, "iteration")
        if number is None:
            return "-"
        total = _number(self._state, "iterations")
        return f"{number:.0f} of {total:.0f}" if total else f"{number:.0f}"

    def _best_text(self) -> str:
        best = self._best
        if not best:
            return "-"
        gain = _number(best, "gain")
        parts = [f"{best.get('attempt')}  {duration(_number(best, 'seconds'))}"]
        if gain is not None:
            parts.append(f"[bold green]{times(gain)}[/bold green] against the start")
        parts.append(f"{times(_number(best, 'speedup'))} against the baseline")
        return ", ".join(parts)

    def _limit_bar(self) -> RenderableType:
        share = _number(self._best, "share_of_limit")
        if share is None:
            return "-"
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=1.0, completed=min(share, 1.0), width=30), percent(share))
        return row

    def _left(self, elapsed: float) -> str:
        left = _number(self._state, "time_left")
        if self._wall_time is not None:
            bound = max(0.0, self._wall_time - elapsed)
            return f"at most {span(bound)} left"
        return f"about {span(left)} left" if left is not None else "time left unknown yet"


def _activity(event: Event) -> str:
    f = event.fields
    if event.event == "tool_called":
        return f"{f.get('role')}: {f.get('tool')}"
    if event.event == "model_called":
        return f"{f.get('role')}: {f.get('model')} answered"
    return f"analyst: {f.get('attempt')} is bound by {f.get('bottleneck')}"


def _attempt_line(f: Fields) -> str:
    head = f"{f.get('attempt')!s:>4}  {f.get('outcome')!s:<8}"
    seconds = _number(f, "seconds")
    if seconds is None:
        why = str(f.get("reason") or f.get("note") or "").replace("_", " ")
        return f"{head} {why}  {f.get('change') or ''}".rstrip()
    figures = f"{duration(seconds):>9}  {percent(_number(f, 'share_of_limit')):>6} of limit"
    return f"{head} {figures}  {f.get('change') or ''}".rstrip()


def _iteration_line(f: Fields) -> str:
    left = _number(f, "time_left")
    parts = [f"iteration {f.get('iteration')} of {f.get('iterations')}: best {f.get('best') or '-'}"]
    if _number(f, "seconds") is not None:
        parts.append(f"{duration(_number(f, 'seconds'))}, {percent(_number(f, 'share_of_limit'))} of limit")
    if left is not None:
        parts.append(f"about {span(left)} left")
    return ", ".join(parts)


def _workloads(f: Fields) -> list[str]:
    workloads = f.get("workloads")
    return [
        f"{w.get('workload')}: baseline {duration(_number(w, 'baseline_seconds'))},"
        f" limit {duration(_number(w, 'limit_seconds'))}"
        for w in (workloads if isinstance(workloads, list) else [])
        if isinstance(w, dict)
    ]


def _reason(f: Fields) -> str:
    return next((words for reason, words in STOP_WORDS.items() if reason == f.get("reason")), str(f.get("reason")))


def _style(f: Fields) -> str:
    return {"kept": "green", "rejected": "red", "unjudged": "red"}.get(str(f.get("outcome")), "dim")


def _number(f: Fields, name: str) -> float | None:
    value = f.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _started_line(f: Fields) -> str:
    return f"run {f.get('run')}: opening the task, measuring the machine and the baseline"


def _opened_line(f: Fields) -> str:
    return "; ".join([f"task opened in {span(_number(f, 'seconds'))}", *_workloads(f)])


_LINES: dict[EventKind, Callable[[Fields], str]] = {
    "run_started": _started_line,
    "task_opened": _opened_line,
    "attempt_judged": _attempt_line,
    "iteration_ended": _iteration_line,
    "stopping": lambda f: f"stopping: {_reason(f)}",
    "run_failed": lambda f: f"the run failed: {f.get('message', f.get('error', ''))}",
}
