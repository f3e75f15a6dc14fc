"""`warpsmith batch`: many tasks, one budget, with a live table on the way and one report at the end."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from pydantic import JsonValue
from rich.console import Console
from rich.markup import escape

from agents.batch import Batch, PassedOver, Plan, QueuedTask
from agents.batch_books import BatchEvent
from agents.batch_crew import Crew
from agents.batch_queue import BATCH_NAME, BatchFolder
from agents.pausing import Paused, forget
from agents.secrets import Scrubber
from agents.state_address import passwords_in
from app.batch_pausing import ask_to_go_on, limit_of, wait_for_a_plan
from app.batch_plan import STATE_VARIABLE, BatchRequest, plan_for
from app.batch_report import figures, write_summary
from app.batch_summary import BatchSummary, TaskRow, summarize_batch
from app.batch_tasks import batch_name, read_tasks
from app.batch_view import Watch, print_json, watch_for
from app.configuration import Configuration, model_lines, require_usable
from app.exits import DONE, REJECTED
from app.quantities import duration, percent, times
from app.signals import exit_code_of, stopped_by_signals
from app.terminal import console_for, plain_table
from app.tracing import require_traces
from memory.files import RunFolderError
from tools.errors import TaskError, WarpsmithError
from tools.executor import executor_for

__all__ = ["BatchRequest", "run_batch"]

PASSED_SHOWN = 8


def run_batch(request: BatchRequest, as_json: bool) -> int:
    """Run a batch to its end and return the exit code. Raises TaskError, WarpsmithError, RunFolderError."""
    if request.resume is not None and request.paths:
        raise WarpsmithError(
            "--resume goes on with the tasks that a batch has", "Leave out the tasks, or begin a new batch."
        )
    earlier = None if request.resume is None else find_batch(request.resume, request.runs)
    before = None if earlier is None else earlier.board().plan
    plan, configuration = plan_for(request, before, os.environ, Path.cwd())
    require_usable(configuration)
    executor_for(plan.executor)
    require_traces(plan.otel, os.environ)
    console = console_for(stderr=as_json)
    if earlier is not None and (paused := ask_to_go_on(earlier, before, plan)) is not None:
        _say_lifted(earlier, paused, console, as_json)
        return DONE
    folder = earlier or _new(request, configuration, console)
    _say_models(configuration, console)
    console.print(f"batch     {folder.path}", markup=False, highlight=False, soft_wrap=True)
    forget(folder.path)
    caught = asyncio.run(_work(folder, plan, configuration, console, as_json=as_json, state=request.state))
    return _finish(folder, console, as_json, caught)


def find_batch(name: str, root: Path) -> BatchFolder:
    """A batch by path, by its folder's name, by an unambiguous part of it, or `latest`. Raises RunFolderError."""
    if (Path(name) / BATCH_NAME).is_file():
        return BatchFolder(Path(name))
    found = [path.parent for path in sorted(root.glob(f"*/{BATCH_NAME}"))]
    if not found:
        raise RunFolderError(f"there are no batches under {root}", "Begin one with `warpsmith batch`, or give --runs.")
    if name == "latest":
        return BatchFolder(found[-1])
    fitting = [path for path in found if path.name == name] or [path for path in found if name in path.name]
    if len(fitting) != 1:
        shown = ", ".join(path.name for path in (fitting or found)[:4])
        raise RunFolderError(f"{name} fits {len(fitting)} batches", f"There are: {shown}.")
    return BatchFolder(fitting[0])


def _say_lifted(folder: BatchFolder, paused: Paused, console: Console, as_json: bool) -> None:
    if as_json:
        print_json({"event": "lifted", "path": str(folder.path), "process": paused.pid})
        return
    text = f"batch     {folder.path} goes on in process {paused.pid}"
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _new(request: BatchRequest, configuration: Configuration, console: Console) -> BatchFolder:
    if not request.paths:
        raise TaskError("missing", "No task was named", "For instance: warpsmith batch examples/ --jobs 2")
    tasks, passed_over = read_tasks(request.paths)
    for each in passed_over[:PASSED_SHOWN]:
        console.print(f"passed over {each.path}: {each.reason}", markup=False, highlight=False, soft_wrap=True)
    if len(passed_over) > PASSED_SHOWN:
        console.print(f"and {len(passed_over) - PASSED_SHOWN} more; the report has all", highlight=False)
    if not tasks:
        raise TaskError("not_a_task", "There is no task in what was named", _why(passed_over))
    scrubber = Scrubber.of(configuration.connections, passwords_in(request.state))
    batch = Batch(
        version=version("warpsmith"),
        name=request.name or batch_name(request.paths),
        command=tuple(scrubber.text(word) for word in request.command),
        tasks=tasks,
        passed_over=passed_over,
    )
    return BatchFolder.create(request.runs, batch)


def _say_models(configuration: Configuration, console: Console) -> None:
    for text in model_lines(configuration):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _why(passed_over: tuple[PassedOver, ...]) -> str:
    return f"{passed_over[0].path}: {passed_over[0].reason}." if passed_over else ""


async def _work(
    folder: BatchFolder,
    plan: Plan,
    configuration: Configuration,
    console: Console,
    *,
    as_json: bool,
    state: str | None,
) -> int | None:
    """Run the batch, and again with each plan that a person gave it while it waited; the number of the signal that
    stopped it, if one did. No process is left afterwards. state: the database's address, perhaps with a password."""
    batch = folder.batch()
    watch = watch_for(console, batch, folder.board(), plan.shared.wall_time, as_json)
    told = _Reporter(folder, watch)

    def crew_of(plan: Plan) -> Crew:
        return Crew(
            folder=folder,
            plan=plan,
            command=lambda key: (sys.executable, "-P", "-m", "app.batch_job", str(folder.path.resolve()), key),
            config=lambda task: _config(task, plan, configuration, batch.command),
            on_event=told.show,
            environ={} if state is None else {STATE_VARIABLE: state},
        )

    crew = crew_of(plan)

    def halt(at_once: bool) -> None:  # the crew of now
        crew.halt(at_once)

    with stopped_by_signals(halt) as caught, watch.live(lambda: crew.spent):
        while True:
            board = await crew.run()
            limit = limit_of(board)
            if not plan.pause_at_limit or limit is None or caught:
                break
            told.write()
            asked = await wait_for_a_plan(folder, limit, told.show, lambda: caught)
            if asked is None:
                break
            plan, crew = asked, crew_of(asked)
    return caught[0] if caught else None


class _Reporter:
    """Hands events on, and writes the summary each time that a task is over, so that one is there whatever happens."""

    def __init__(self, folder: BatchFolder, watch: Watch) -> None:
        self._folder, self._watch = folder, watch
        self._summary: BatchSummary | None = None

    def show(self, event: BatchEvent) -> None:
        self._watch.show(event)
        if event.kind in ("turned", "failed", "refused") and event.fields.get("status") != "paused":
            self.write()

    def write(self) -> None:
        """The summary of now."""
        self._summary = summarize_batch(self._folder, self._summary)
        write_summary(self._folder, self._summary)


def _config(
    task: QueuedTask, plan: Plan, configuration: Configuration, command: tuple[str, ...]
) -> dict[str, JsonValue]:
    """What is written down of a task's run when it begins. No key is in it."""
    kept = {"wire", "base_url", "key_env", "dialect", "window", "output"}
    return {
        "version": version("warpsmith"),
        "command": list(command),
        "task_path": task.path,
        "executor": plan.executor,
        "state": plan.state,
        "task": task.task.model_dump(mode="json"),
        "settings": plan.settings.model_dump(mode="json"),
        "endpoints": {name: c.model_dump(mode="json", include=kept) for name, c in configuration.providers.items()},
    }


def _finish(folder: BatchFolder, console: Console, as_json: bool, caught: int | None) -> int:
    """Reports and table; a report that can't be written costs a sentence, not the result."""
    summary = summarize_batch(folder)
    page: Path | None = None
    try:
        page = write_summary(folder, summary)
    except RunFolderError as error:
        print(f"warning: {error}", file=sys.stderr)
    print_batch(console, summary)
    if page is not None:
        console.print(f"report    {page}", markup=False, highlight=False, soft_wrap=True)
    if summary.state == "open":
        go_on = f"go on     warpsmith batch --resume {shlex.quote(str(folder.path))}"
        console.print(go_on, markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json({"event": "summary", **summary.model_dump(mode="json"), "report": str(page) if page else None})
    if caught is not None:
        return exit_code_of(caught)
    return DONE if summary.all_found else REJECTED


def print_batch(console: Console, summary: BatchSummary) -> None:
    """The final table and the figures below it."""
    numeric = ("start", "best", "gain", "against", "of limit", "attempts", "reward")
    table = plain_table("task", *numeric, "end", numeric=numeric)
    for row in summary.tasks:
        table.add_row(*_cells(row), style="red" if row.status in ("failed", "refused") else "")
    console.print()
    console.print(table)
    console.print()
    for label, text in figures(summary):
        console.print(f"{label:<30}{text}", markup=False, highlight=False, soft_wrap=True)


def _cells(row: TaskRow) -> tuple[str, ...]:
    return (
        escape(row.task),
        duration(row.start_seconds),
        duration(row.best_seconds),
        escape(row.gained),
        f"{times(row.speedup)} {row.baseline}" if row.speedup else "-",
        percent(row.share_of_limit),
        str(row.attempts),
        "-" if row.reward is None else str(row.reward),
        escape(row.ending),
    )
