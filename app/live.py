"""What a person sees while a run goes on: a live panel on a terminal, plain lines everywhere else.

Both are fed by the run's events (`agents.events`) and print to standard error when the result goes out as JSON.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agents.events import Event
from app.bill import PAID, Bill
from app.event_lines import Fields, activity, attempt_line, line, number, stop_reason, workloads
from app.quantities import duration, percent, span, times
from app.speech import Speech

RECENT = 6
SPOKEN_LINES = 4
"""Of what a model is saying."""


class Progress(Protocol):
    """Shows events as they happen; a context manager for the time of the run."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, event: Event) -> None:
        """Take in one event."""
        ...

    def say(self, speaker: str, piece: str) -> None:
        """`speaker`, a role, said `piece` in the middle of a reply."""
        ...

    def note(self, text: str) -> None:
        """Something about the run's process, such as that it is to stop."""
        ...


def progress_for(console: Console, wall_time: float | None, bill: Bill | None = None) -> Progress:
    """A panel on a terminal, lines otherwise. wall_time: the run's time budget in seconds; bill: what was paid
    before."""
    if console.is_terminal and not console.is_dumb_terminal:
        return Panel(console, wall_time, bill)
    return Lines(console, bill)


class Lines:
    """One line for every attempt, every turn of the run and whatever happened to its models; no text of theirs."""

    def __init__(self, console: Console, bill: Bill | None = None) -> None:
        self._console = console
        self._bill = bill or Bill()

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, event: Event) -> None:
        count(self._bill, event)
        text = line(event)
        if event.event == "iteration_ended" and str(self._bill):
            text += f", {self._bill}"
        if text:
            self._console.print(" ".join(text.splitlines()), markup=False, highlight=False, soft_wrap=True)

    def say(self, speaker: str, piece: str) -> None:
        del speaker, piece  # whole replies are in the run's transcripts

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def count(bill: Bill, event: Event) -> None:
    """Put an event's cost or limits on the bill, if it has some."""
    if event.event in PAID:
        bill.add(event.fields)
    elif event.event in ("run_started", "run_resumed"):
        bill.limits(event.fields.get("budgets"))


class Panel:
    """Iteration, best, percent of the limit, time left, and the last attempts, redrawn in place."""

    def __init__(self, console: Console, wall_time: float | None, bill: Bill | None = None) -> None:
        self._console = console
        self._wall_time = wall_time
        self._worked = 0.0
        self._since: float | None = None
        """Seconds of search by the last event that said so, and when that was."""
        self._state: Fields = {}
        self._best: Fields = {}
        self._recent: list[Fields] = []
        self._doing = "opening the task, measuring the machine and the baseline"
        self._note = "Ctrl-C finishes the step, saves and reports"
        self._bill = bill or Bill()
        self._speech = Speech(SPOKEN_LINES)
        self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Panel:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, speaker: str, piece: str) -> None:
        self._speech.add(speaker, piece)

    def note(self, text: str) -> None:
        self._note = text

    def show(self, event: Event) -> None:
        f = event.fields
        count(self._bill, event)
        self._keep_time(event)
        if event.event in PAID:
            self._speech.end(str(f.get("role")))
        match event.event:
            case "run_started" | "run_resumed":
                self._console.print(f"run [bold]{escape(str(f.get('run')))}[/bold]", highlight=False)
            case "task_opened":
                for workload in workloads(f):
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
            case "steered" | "steer_refused" | "answered" | "plan_waits" | "exported":
                self._console.print(Text(line(event), style="cyan"), highlight=False)
            case "model_changed" | "budget_low":
                self._console.print(Text(line(event), style="yellow"), highlight=False)
            case "stopping":
                self._doing = f"stopping: {stop_reason(f)}; measuring the best kernel afresh"
            case _:
                self._doing = activity(event) or self._doing

    def _keep_time(self, event: Event) -> None:
        """By the run's own clock, which begins when its start was judged."""
        self._worked = number(event.fields, "elapsed") or self._worked
        if event.event in ("iteration_started", "iteration_ended"):
            self._since = time.monotonic()
        elif event.event in ("run_started", "run_resumed", "run_ended"):
            self._since = None

    def _elapsed(self) -> float:
        return self._worked + (0.0 if self._since is None else time.monotonic() - self._since)

    def _draw(self) -> RenderableType:
        elapsed = self._elapsed()
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column()
        grid.add_row("iteration", self._iteration())
        grid.add_row("best", self._best_text())
        grid.add_row("of limit", self._limit_bar())
        grid.add_row("time", f"{span(elapsed)} gone, {self._left(elapsed)}")
        if str(self._bill):
            grid.add_row("models", str(self._bill))
        width = max(20, self._console.width - 4)
        doing = Text(" ".join(self._doing.split()), style="italic", overflow="ellipsis", no_wrap=True)
        doing.truncate(width)
        recent = [Text(attempt_line(f), style=_style(f), overflow="ellipsis", no_wrap=True) for f in self._recent]
        spoken = [self._speech] if self._speech else []
        foot = Text(self._note, style="dim")
        return Group(Text(), *recent, Text(), grid, Text(), doing, *spoken, foot)

    def _iteration(self) -> str:
        now, total = number(self._state, "iteration"), number(self._state, "iterations")
        if now is None:
            return "-"
        return f"{now:.0f} of {total:.0f}" if total else f"{now:.0f}"

    def _best_text(self) -> str:
        best = self._best
        if not best:
            return "-"
        gain = number(best, "gain")
        parts = [f"{best.get('attempt')}  {duration(number(best, 'seconds'))}"]
        if gain is not None:
            parts.append(f"[bold green]{times(gain)}[/bold green] against the start so far")
        parts.append(f"{times(number(best, 'speedup'))} against the baseline")
        return ", ".join(parts)

    def _limit_bar(self) -> RenderableType:
        share = number(self._best, "share_of_limit")
        if share is None:
            return "-"
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=1.0, completed=min(share, 1.0), width=30), percent(share))
        return row

    def _left(self, elapsed: float) -> str:
        left = number(self._state, "time_left")
        if self._wall_time is not None:
            bound = max(0.0, self._wall_time - elapsed)
            return f"at most {span(bound)} left"
        return f"about {span(left)} left" if left is not None else "time left unknown yet"


def _style(f: Fields) -> str:
    return {"kept": "green", "rejected": "red", "unjudged": "red"}.get(str(f.get("outcome")), "dim")
