"""Exports that a session asked for: what may be exported, and a process that does it while the screen goes on."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from memory.runs import RunFolder
from tools.errors import WarpsmithError

if TYPE_CHECKING:
    from app.exporting.checks import Form

FORMS: Final[dict[Form, str]] = {
    "sources": "its files, task.h, the compiler's command, a README",
    "kernelbench": "one kernel.py with ModelNew",
    "torch-op": "a package that registers an operator of PyTorch's",
}
"""What each form is."""
_LONGEST: Final = 1 << 20
"""Bytes of a line."""


class Choice(NamedTuple):
    """A form, what it is, and why it can't be had here; None when it can. `note`: what it lacks here to be judged."""

    form: Form
    what: str
    objection: str | None
    note: str | None


class Exportable(NamedTuple):
    """An accepted attempt: where it was judged, the word that files about it begin with, and its forms."""

    executor: str
    word: str
    choices: tuple[Choice, ...]


def exportable(run: RunFolder, attempt: str) -> Exportable:
    """Raises RunFolderError for an attempt that was not accepted, or whose record can't be read."""
    from app.export_kernel import origin_of
    from app.exporting.checks import missing, objection

    run = RunFolder(run.path)  # attempts may have come since
    origin = origin_of(run, attempt)
    language, kind = origin.kernel.language, origin.task.kind
    choices = tuple(
        Choice(form, what, objection(form, language, kind), missing(form, language)) for form, what in FORMS.items()
    )
    return Exportable(str(run.config().get("executor") or "local"), origin.word, choices)


def free_name(base: str) -> str:
    """A folder's name that nothing has yet in the present folder."""
    names = (base if number == 1 else f"{base}-{number}" for number in range(1, 1_000))
    return next((name for name in names if not Path(name).exists()), base)


def folder_at(where: str) -> Path:
    """The folder that a person named. WarpsmithError for what can be none."""
    try:
        found = Path(where.strip()).expanduser().absolute()
        found.stat()
    except FileNotFoundError:
        return found
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: no name; RuntimeError: nobody's home
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise WarpsmithError(f"{where.strip()} can be no folder: {why}", "Name another one.") from error
    return found


@dataclass
class Export:
    """One export, as far as it came."""

    attempt: str
    form: Form
    folder: Path
    is_written: bool = False
    doing: str | None = "begins"
    """None once it is over."""
    ended: str = ""
    status: str = ""

    @property
    def words(self) -> str:
        """How it stands, in a line."""
        where = f", in {self.folder}" if self.is_written else ""
        return f"{self.attempt} as {self.form}: {self.doing or self.ended}{where}"

    async def carry_out(self, run: RunFolder, executor: str, on_news: Callable[[], None]) -> None:
        """Until it is over; cancelled, the judge is stopped and the files stay. on_news: called when it came further.
        Raises OSError or ValueError when no process can be started, or when what it says is none of its lines."""
        from app.session.export_process import command

        process = await asyncio.create_subprocess_exec(
            *command(run.path.absolute(), self.attempt, self.form, self.folder, executor),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LONGEST,
            start_new_session=True,
        )
        assert process.stdout is not None and process.stderr is not None
        errors = asyncio.create_task(process.stderr.read())
        try:
            async for line in process.stdout:
                self._take(line)
                on_news()
            await process.wait()
            if self.doing is not None:
                said = (await errors).decode(errors="replace").strip().splitlines()
                self._over(f"its process ended: {said[-1] if said else process.returncode}", "unjudged")
                on_news()
        finally:
            errors.cancel()
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)

    def fail(self, why: str) -> None:
        """It could not even begin."""
        self._over(f"not exported: {why}", "refused")

    def end(self, ended: str, status: str) -> None:
        """The log says that it is over, and what came of it."""
        self.is_written = True
        self._over(ended, status)

    def _take(self, line: bytes) -> None:
        with suppress(ValueError):
            told = json.loads(line)
            if "folder" in told:
                self.folder, self.is_written = Path(str(told["folder"])), True
            if "ended" in told:
                self._over(str(told["ended"]), str(told["status"]))
            elif "doing" in told:
                self.doing = str(told["doing"])

    def _over(self, ended: str, status: str) -> None:
        self.doing, self.ended, self.status = None, ended, status
