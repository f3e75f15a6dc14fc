"""`warpsmith export`: an accepted kernel in a form that others use, judged again from the files as written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError
from rich.console import Console
from rich.markup import escape

from agents.export_note import note_export
from agents.steer_events import ExportStatus
from agents.steering_actions import Exported
from app.exporting import forms
from app.exporting.checks import Form, Tested, installed_and_tested, missing
from app.exporting.folder import refuse_what_is_there, write_folder
from app.exporting.forms import Origin
from app.exporting.outcome import Outcome
from app.inputs import find_run, kernel_at
from app.interrupts import raise_on_ctrl_c
from app.judging import waiting
from app.terminal import console_for
from app.verdict_tables import print_verdict
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.calls_process import Calls, calls_of
from tools.errors import InfrastructureError, WarpsmithError
from tools.executor import executor_for
from tools.facts import TaskFacts
from tools.job_process import Progress
from tools.records import Accepted, Kernel, TargetName, Unjudged, Verdict
from tools.targets.choice import target_of
from tools.task import TaskSource, read_kernel

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_LONGEST_WORD = 2_000
"""Characters of what came of an export, in the log."""


@dataclass(frozen=True)
class Wanted:
    """What to export, and how."""

    run: str
    attempt: str | None
    form: Form
    out: Path | None
    check: bool
    executor: str


def export_kernel(wanted: Wanted, runs: Path, as_json: bool) -> int:
    """Write the files, judge them again, have the run's log tell of it, print what came of it; the exit code.

    Raises RunFolderError, KernelError, TaskError and WarpsmithError where nothing could be exported.
    """
    written = write_export(wanted, runs)
    outcome = written.outcome
    if not as_json:
        _print_files(outcome)
    if wanted.check:
        with waiting("judging the export") as tell:
            raise_on_ctrl_c()
            try:
                outcome = judge_export(written, wanted, tell)
            except WarpsmithError as error:
                note(written, wanted.form, "unjudged", f"not judged again: {error.message}")
                raise
    unnoted = note(written, wanted.form, outcome.status, outcome.said)
    _print(outcome, wanted, written.origin, unnoted, as_json)
    return outcome.code


@dataclass(frozen=True)
class Written:
    """An export that was not judged again yet."""

    run: RunFolder
    origin: Origin
    calls: Calls | None
    outcome: Outcome


def write_export(wanted: Wanted, runs: Path) -> Written:
    """Write the files, all or none. Raises RunFolderError, KernelError, TaskError and WarpsmithError where none
    could be."""
    run, attempt = _named(wanted, runs)
    origin = origin_of(run, attempt)
    folder = wanted.out or Path(default_name(origin, wanted.form))
    refuse_what_is_there(folder)
    calls = (
        None if wanted.form == "sources" or origin.kernel.language == "torch" else calls_of(origin.task, origin.target)
    )
    files = made(wanted.form, origin, run, calls)
    if not all((folder / name).resolve().is_relative_to(folder.resolve()) for name in files):
        raise RunFolderError(f"{run.id} has a file that leads out of its folder", "The run folder may be damaged.")
    return Written(run, origin, calls, Outcome(write_folder(folder, files), tuple(sorted(files))))


def judge_export(written: Written, wanted: Wanted, tell: Progress) -> Outcome:
    """What came of judging what was written. Raises KernelError and TaskError where it can't be read back."""
    return _judged(written.outcome, wanted, written.origin, written.calls, tell)


def note(written: Written, form: Form, status: ExportStatus, said: str) -> str | None:
    """Have the run's log tell of it. Why it does not, in words: that is no reason for an export to fail."""
    exported = Exported(
        attempt=written.origin.attempt,
        form=form,
        folder=str(written.outcome.folder).encode("utf-8", "replace").decode(),
        status=status,
        said=" ".join(said.split())[:_LONGEST_WORD],
    )
    return note_export(written.run.path, written.origin.task.name, exported)


def default_name(origin: Origin, form: Form) -> str:
    """Of the folder, where none was named."""
    return f"{origin.word}-{origin.attempt}-{form}"


def origin_of(run: RunFolder, attempt_id: str) -> Origin:
    """The accepted kernel of an attempt. RunFolderError where there is none, or its record can't be read."""
    attempt = run.attempt(attempt_id)
    try:
        verdict = _VERDICT.validate_python(run.verdict(attempt_id))
        kernel = Kernel.model_validate(attempt.kernel)
        task = TaskSource.model_validate(run.config().get("task"))
    except ValidationError as error:
        raise RunFolderError(f"{run.id} does not hold {attempt_id} whole", "The run folder may be damaged.") from error
    if not isinstance(verdict, Accepted):
        raise RunFolderError(
            f"{attempt_id} of {run.id} was not accepted", f"`warpsmith show {run.id} {attempt_id}` says why."
        )
    command = next((stage.build.command for stage in verdict.stages if stage.build is not None), ())
    if not command and kernel.language != "torch":
        raise RunFolderError(f"{run.id} does not say how {attempt_id} was built", "The run folder may be damaged.")
    return Origin(task, kernel, run.id, attempt_id, command, _target(run, kernel))


def _target(run: RunFolder, kernel: Kernel) -> TargetName:
    """Where it was judged: a torch kernel where its run was."""
    facts = run.facts()
    if kernel.language != "torch":
        return "cuda" if kernel.language == "cuda" else "cpu"
    return target_of(["torch"], [kernel]) if facts is None else TaskFacts.model_validate(facts).target


def made(form: Form, origin: Origin, run: RunFolder, calls: Calls | None) -> dict[str, str]:
    """The files of the form, by their paths."""
    if form == "sources":
        facts = run.facts()
        header = (
            calls_of(origin.task, origin.target).header if facts is None else TaskFacts.model_validate(facts).header
        )
        return forms.sources(origin, header)
    nothing = Calls(header="", calls=())
    return (forms.kernelbench if form == "kernelbench" else forms.torch_op)(origin, calls or nothing)


def _named(wanted: Wanted, runs: Path) -> tuple[RunFolder, str]:
    """The run and the attempt that are meant; an attempt's own folder names both."""
    own = Path(wanted.run)
    if wanted.attempt is None and (own / "attempt.json").is_file():
        return RunFolder(own.resolve().parents[1]), own.resolve().name
    run = find_run(wanted.run, runs)
    attempt = wanted.attempt if wanted.attempt not in (None, "best") else run.best()
    if attempt is None:
        raise RunFolderError(f"{run.id} has no accepted attempt", f"`warpsmith show {run.id}` says why.")
    return run, attempt


def _judged(outcome: Outcome, wanted: Wanted, origin: Origin, calls: Calls | None, tell: Progress) -> Outcome:
    """With the verdict on what lies in the folder, and for a package what came of installing it."""
    lacking = missing(wanted.form, origin.kernel.language)
    if lacking is not None:
        return _but(outcome, unchecked=lacking)
    try:
        verdict = asyncio.run(_evaluate(_read_back(outcome, wanted.form, origin, calls), wanted, origin, tell))
    except InfrastructureError as error:
        return _but(outcome, unchecked=error.message)
    if isinstance(verdict, Unjudged):
        return _but(outcome, verdict=verdict, unchecked=verdict.message)
    if wanted.form != "torch-op" or verdict.status != "accepted":
        return _but(outcome, verdict=verdict)
    tell("installing it")
    tested = installed_and_tested(outcome.folder, forms.package_name(origin), origin.target)
    return _but(outcome, verdict=verdict, tested=tested, unchecked=tested.said if tested.status == "unchecked" else "")


def _read_back(outcome: Outcome, form: Form, origin: Origin, calls: Calls | None) -> Kernel:
    """The exported kernel as `warpsmith check` reads it."""
    if form == "sources":
        return kernel_at(outcome.folder)
    if form == "kernelbench" or calls is None:
        return read_kernel(outcome.folder, "torch")
    exported = {name: (outcome.folder / name).read_text("utf-8") for name in outcome.files}
    return forms.op_as_module(origin, calls, exported)


async def _evaluate(kernel: Kernel, wanted: Wanted, origin: Origin, tell: Progress) -> Verdict:
    async with executor_for(wanted.executor, tell) as executor:
        if kernel.language == "torch":  # which runs on either target
            await executor.open(origin.task, origin.target)
        return await executor.evaluate(origin.task, kernel, final=True)


def _but(
    outcome: Outcome, verdict: Verdict | None = None, tested: Tested | None = None, unchecked: str = ""
) -> Outcome:
    return Outcome(outcome.folder, outcome.files, verdict, tested, unchecked)


def _print(outcome: Outcome, wanted: Wanted, origin: Origin, unnoted: str | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**_as_json(outcome, wanted, origin), "unnoted": unnoted or ""}))
        return
    console = console_for()
    _print_outcome(console, outcome, wanted, origin)
    if unnoted is not None:
        console.print(f"[bold yellow]not noted in the run's log[/bold yellow]: {escape(unnoted)}", highlight=False)


def _print_files(outcome: Outcome) -> None:
    """Where they are, before anything else can fail."""
    console = console_for()
    for line in (f"written to {outcome.folder}", *(f"  {name}" for name in outcome.files)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _print_outcome(console: Console, outcome: Outcome, wanted: Wanted, origin: Origin) -> None:
    if not wanted.check:
        console.print("not judged again, as asked")
        return
    console.print()
    if outcome.verdict is not None:
        print_verdict(console, outcome.verdict, "PyTorch" if origin.task.kind == "kernelbench" else "NumPy")
    _print_test(console, outcome.tested)
    if outcome.unchecked and not isinstance(outcome.verdict, Unjudged):
        what = "its installation was not checked" if outcome.verdict is not None else "it was not judged again"
        console.print(f"[bold yellow]{what}[/bold yellow]: {escape(outcome.unchecked)}", highlight=False)


def _print_test(console: Console, tested: Tested | None) -> None:
    if tested is None or tested.status == "unchecked":
        return
    style = "green" if tested.status == "passed" else "red"
    console.print(f"\ninstalled, and its self-test [bold {style}]{tested.status}[/bold {style}]", highlight=False)
    for line in tested.said.splitlines():
        console.print(f"  {line}", markup=False, highlight=False)


def _as_json(outcome: Outcome, wanted: Wanted, origin: Origin) -> Mapping[str, JsonValue]:
    tested = outcome.tested
    return {
        "run": origin.run,
        "attempt": origin.attempt,
        "as": wanted.form,
        "folder": str(outcome.folder),
        "files": list(outcome.files),
        "verdict": None if outcome.verdict is None else outcome.verdict.model_dump(mode="json"),
        "selftest": None if tested is None else {"status": tested.status, "said": tested.said},
        "unchecked": outcome.unchecked,
    }
