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
from typing import Literal, TypeAlias, cast

from app.exporting.checks import Form
from app.quantities import duration, percent
from memory.files import RunFolderError
from tools.errors import WarpsmithError
from tools.records import Accepted, Rejected

Status: TypeAlias = Literal["accepted", "rejected", "unjudged", "refused"]
"""`refused`: nothing was written."""


def command(run: Path, attempt: str, form: Form, out: Path, executor: str) -> list[str]:
    """The process's."""
    return [sys.executable, "-P", "-m", "app.session.export_process", str(run), attempt, form, str(out), executor]


def main(arguments: Sequence[str]) -> None:
    """Export as `command` says."""
    from app.export_kernel import Wanted, judge_export, write_export

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
        _tell(ended=words, status="refused" if written is None else "unjudged")
        return
    verdict, tested = outcome.verdict, outcome.tested
    if isinstance(verdict, Rejected):
        _tell(ended=f"rejected at {verdict.stage}: {verdict.message}", status="rejected")
    elif tested is not None and tested.status == "failed":
        _tell(ended=f"installed, and its self-test failed: {tested.said}", status="rejected")
    elif isinstance(verdict, Accepted):
        found = f"accepted again: {duration(verdict.seconds)}, {percent(verdict.share_of_limit)} of the limit"
        found += "; installed, and its self-test passed" if tested is not None and tested.status == "passed" else ""
        found += f"; its installation was not checked: {outcome.unchecked}" if outcome.unchecked else ""
        _tell(ended=found, status="accepted")
    else:
        _tell(ended=f"not judged again: {outcome.unchecked}", status="unjudged")


def _tell(**said: str) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
