"""What a person sees while a run goes on: a live panel on a terminal, plain lines everywhere else.

Both are fed by the run's events (`agents.events`) and print to standard error when the result goes out as JSON.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
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
from app.doing import Doing, while_spoken
from app.event_lines import Fields, activity, attempt_line, gain_words, line, number, stop_reason, workloads
from app.quantities import duration, percent, span, times
from app.speech import Speech

RECENT = 6
FOOT = "Ctrl-C finishes the step, saves and reports"
SILENT = 30.0
"""Seconds that something takes until plain lines say what it is."""
OVER = ("run_ended", "run_paused", "run_failed", "plan_waits")
"""Events after which nothing goes on until somebody does something."""
SAID_AT_THE_END = "run_failed"
"""The command ends with the same as an error, with what to do about it."""
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
        self._doing = Doing()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rest()

    def _rest(self) -> None:
        """Nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell_later(self, seconds: float, after: float) -> None:
        """Say in so many seconds what goes on, which is `after` it began; and again when it lasted twice as long."""
        self._rest()
        with suppress(RuntimeError):  # nothing goes on where no loop runs
            self._timer = asyncio.get_running_loop().call_later(seconds, self._tell, after)

    def _tell(self, after: float) -> None:
        self.note(str(self._doing))
        self._tell_later(after, 2 * after)

    def show(self, event: Event) -> None:
        count(self._bill, event)
        if self._doing.take(event.event, event.bound | event.fields):
            self._tell_later(SILENT, SILENT)
        elif event.event in OVER:
            self._rest()
        text = "" if event.event == SAID_AT_THE_END else line(event)
        if event.event == "iteration_ended" and str(self._bill):
            text += f", {self._bill}"
        if text:
            self._console.print(" ".join(text.splitlines()), markup=False, highlight=False, soft_wrap=True)
        if (note := note_after(event)) and note != FOOT:
            self.note(note)

    def say(self, speaker: str, piece: str) -> None:
        del speaker, piece  # whole replies are in the run's transcripts

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def note_after(event: Event) -> str | None:
    """How a run that a person let wait goes on, or that it does; None where the event says nothing of it."""
    if event.event != "steered":
        return None
    how = f"paused: `warpsmith steer {event.bound.get('run')} resume` goes on"
    return {"pause": how, "resume": FOOT}.get(str(event.fields.get("action")))


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
        self._doing = Doing()
        self._note = FOOT
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
        self._doing.text = while_spoken(self._doing.text, speaker)

    def note(self, text: str) -> None:
        self._note = text

    def show(self, event: Event) -> None:
        f = event.fields
        count(self._bill, event)
        self._keep_time(event)
        if not self._doing.take(event.event, event.bound | f) and (text := activity(event)):
            self._doing.begin(text)
        if event.event in PAID:
            self._speech.end(str(f.get("role")))
        match event.event:
            case "run_started" | "run_resumed":
                self._console.print(f"run [bold]{escape(str(f.get('run')))}[/bold]", highlight=False)
            case "task_opened":
                for workload in workloads(f):
                    self._console.print(f"  {escape(workload)}", highlight=False)
            case "iteration_started" | "iteration_ended":
                self._state |= f
            case "attempt_judged":
                self._recent = [*self._recent, f][-RECENT:]
            case "best_changed":
                self._best = f
            case "steered" | "steer_refused" | "answered" | "plan_waits" | "exported":
                self._console.print(Text(line(event), style="cyan"), highlight=False)
                self._note = note_after(event) or self._note
            case "model_changed" | "budget_low":
                self._console.print(Text(line(event), style="yellow"), highlight=False)
            case "stopping":
                self._doing.begin(f"stopping: {stop_reason(f)}; measuring the best kernel afresh")
            case _:
                pass  # told as what goes on, or not at all

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
        doing = Text(" ".join(str(self._doing).split()), style="italic", overflow="ellipsis", no_wrap=True)
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
        parts = [f"{best.get('attempt')}  {duration(number(best, 'seconds'))}"]
        if gain := gain_words(best):
            parts.append(f"[bold green]{gain}[/bold green]")
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
