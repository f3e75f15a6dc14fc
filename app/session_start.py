"""`warpsmith session`: a screen where there is a terminal, lines everywhere else."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from agents.events import Event
from app.exits import DONE, REJECTED
from app.inputs import find_run
from app.plain import one_line, printable
from tools.errors import WarpsmithError

if TYPE_CHECKING:
    from app.optimize import Prepared, Request
    from app.session.app import SessionApp
    from memory.runs import RunFolder


def require_one(task: Path | None, attach: str | None) -> None:
    """Raises WarpsmithError unless exactly one of both is given."""
    if (task is None) == (attach is None):
        raise WarpsmithError("a session is about one run", "Give a TASK to start one, or --attach RUN to join one.")


def has_screen() -> bool:
    """Whether there is a terminal that can be drawn on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def say_at_once(words: str) -> None:
    """What is begun, before what takes its time to be loaded."""
    print(printable(f"{words} …"), flush=True)


def left_behind(app: SessionApp) -> list[str]:
    """What a person wrote in that session and the run does not have, in words: where it is."""
    return [f"kept      what you wrote of {draft.about}: {draft.folder}" for draft in app.session.drafts.close()]


def start_session(request: Request, *, plain: bool, as_json: bool) -> int:
    """Start a run and sit beside it; the exit code. Raises as `app.optimize.optimize_task`."""
    from app.optimize import optimize_task

    if as_json:
        return optimize_task(request, as_json=True, progress=EventLines())
    if plain or not has_screen():
        return optimize_task(request, as_json=False)
    return _on_screen(request)


def attach_to(name: str, runs: Path, *, plain: bool, as_json: bool) -> int:
    """Join a run; the exit code. Raises RunFolderError."""
    run = find_run(name, runs)
    if plain or as_json or not has_screen():
        from app.following import show_run_log
        from app.log_lines import Wanted

        return DONE if show_run_log(run, Wanted(), follow=True, as_json=as_json) else REJECTED
    say_at_once(f"reading   {run.id}")
    from app.session.app import SessionApp
    from app.terminal import console_for

    app = SessionApp(run)
    app.run()
    for words in left_behind(app):
        console_for().print(words, markup=False, highlight=False, soft_wrap=True)
    if app.session.story.ended is None and not app.session.story.is_gone:
        words = f"left      {run.id} goes on; back to it: warpsmith session --attach {run.id}"
        console_for().print(words, markup=False, highlight=False, soft_wrap=True)
    return DONE


def _on_screen(request: Request) -> int:
    """The run in a thread, the screen in this one; afterwards the summary, as `optimize` prints it."""
    say_at_once(f"starting  a session on {request.task}")
    from app.optimize import finish, prepared
    from app.terminal import console_for
    from app.tracing import require_traces
    from memory.runs import RunFolder

    require_traces(request.otel, os.environ)
    asked = prepared(request)
    run = RunFolder.create(request.runs, asked.task.name, asked.config)
    for text in request.hints:
        run.add_hint(text, 1)
    console = console_for()
    while True:
        error, left, warnings = _sit_beside(asked, run, request)
        for text in (*(f"warning: {one_line(text)}" for text in warnings), *left):
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        if error is not None:
            if not RunFolder(run.path).attempts():
                shutil.rmtree(run.path, ignore_errors=True)
            raise error
        if (run.path / BACKGROUND).exists():
            words = f"goes on   in the background: warpsmith session --attach {run.id}"
            console.print(words, markup=False, highlight=False)
            return DONE
        code = finish(run, console, as_json=False, stopped=None)
        found = _going_on(asked, run)
        if found is None:
            return code
        asked, run = found


def _sit_beside(asked: Prepared, run: RunFolder, request: Request) -> tuple[BaseException | None, list[str], list[str]]:
    """Drive a run and show it until the person leaves or it is over: what ended it out of order, what is left behind,
    and warnings."""
    from app.session.app import SessionApp
    from app.session.driver import Driver
    from app.tracing import traced

    warnings: list[str] = []
    with traced(request.otel, os.environ, run.id, lambda _: None, warnings.append) as on_event:
        driver = Driver(asked, run, request.state, on_event)
        driver.start()
        app = SessionApp(run, driver)
        try:
            app.run()
        finally:
            driver.stop()
            driver.join()
    return driver.error, left_behind(app), warnings


def _going_on(asked: Prepared, run: RunFolder) -> tuple[Prepared, RunFolder] | None:
    """What another policy made of a run; None when it simply ended."""
    from agents.settings import RunSettings
    from agents.steering_fork import successor_of
    from app.optimize import judged_at
    from memory.runs import RunFolder
    from tools.task import TaskSource

    fork = successor_of(RunFolder(run.path))
    if fork is None:
        return None
    config = fork.config()
    more = replace(
        asked,
        task=TaskSource.model_validate(config["task"]),
        settings=RunSettings.model_validate(config["settings"]),
        executor=judged_at(str(config["executor"]), asked.configuration),
        config=config,
    )
    return more, fork


BACKGROUND = "background.log"
"""As `app.session.hand_over` writes it."""


class EventLines:
    """Progress as JSON lines on standard output, as they stand in events.jsonl but for the time."""

    def __enter__(self) -> EventLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, event: Event) -> None:
        print(json.dumps({"event": event.event, **event.bound, **event.fields}), flush=True)

    def say(self, speaker: str, piece: str) -> None:
        del speaker, piece  # whole replies are in the run's transcripts

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)
