"""An export that a session asks for, in a process of its own: the screen answers whatever the judge does, and is not
slowed down by it. It is what `warpsmith export` does, told as JSON lines on standard output:

    {"doing": "…"}                        what it is about
    {"folder": "…"}                       the files are written
    {"ended": "…", "status": "…"}         the last line: what came of it, in words, and one of `Status`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from app.exporting.checks import Form
from app.interrupts import raise_on_ctrl_c
from memory.files import RunFolderError
from tools.errors import WarpsmithError

if TYPE_CHECKING:
    from app.export_kernel import Wanted, Written

Status: TypeAlias = Literal["accepted", "rejected", "unjudged", "refused"]
"""`refused`: nothing was written."""


def command(run: Path, attempt: str, form: Form, out: Path, executor: str) -> list[str]:
    """The process's."""
    return [sys.executable, "-P", "-m", "app.session.export_process", str(run), attempt, form, str(out), executor]


def main(arguments: Sequence[str]) -> None:
    """Export as `command` says."""
    from app.export_kernel import Wanted, judge_export, write_export

    raise_on_ctrl_c()  # the session stops it so, whatever was ignored where that was started
    run, attempt, form, out, executor = arguments
    wanted = Wanted(run=run, attempt=attempt, form=cast(Form, form), out=Path(out), check=True, executor=executor)
    written = None
    try:
        _tell(doing="writing the files")
        written = write_export(wanted, Path(run).parent)
        _tell(folder=str(written.outcome.folder))
        _tell(doing="the judge begins")
        outcome = judge_export(written, wanted, lambda stage: _tell(doing=stage))
    except (WarpsmithError, RunFolderError) as error:
        what = "refused" if written is None else "not judged again"
        words = f"{what}: {error.message}" + (f". {error.advice}" if error.advice else "")
        _end(written, wanted, "refused" if written is None else "unjudged", words)
        return
    _end(written, wanted, outcome.status, outcome.said)


def _end(written: Written | None, wanted: Wanted, status: Status, words: str) -> None:
    """The last line; what was written is noted in the run's log before."""
    from app.export_kernel import note

    unnoted = None if written is None or status == "refused" else note(written, wanted.form, status, words)
    _tell(ended=words + (f"; not noted in the run's log: {unnoted}" if unnoted else ""), status=status)


def _tell(**said: str) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
