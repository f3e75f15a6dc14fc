"""How the command ends: exit codes, and the one place where an exception becomes a sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from app.plain import printable

DONE = 0
REJECTED = 1
FAILED = 2
BROKEN = 3
INTERRUPTED = 130

EXIT_CODES = """Exit codes: 0 done (check: the kernel is accepted; optimize: an accepted kernel was found),
1 no accepted kernel, 2 could not do it (bad arguments, a task or file that can't be used, a machine that can't judge),
3 a fault of the machine ended the run (disk, judge, memory; what was measured is kept: `warpsmith resume` goes on),
130 stopped by Ctrl-C (what was found is kept)."""


@contextmanager
def guarded(debug: bool, as_json: bool = False) -> Iterator[None]:
    """Turn every exception into a sentence with advice and an exit code; with `debug` let it through.

    With `as_json` the error is a JSON object on standard output as well.
    """
    try:
        yield
    except KeyboardInterrupt:
        _fail("interrupted", "stopped", "", INTERRUPTED, as_json)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(DONE)
    except Exception as error:  # the last resort of the command line
        if debug:
            raise
        kind, message, advice = explain(error)
        _fail(kind, message, advice, _code(error), as_json)


def _code(error: Exception) -> int:
    from tools.errors import InfrastructureError

    if not isinstance(error, InfrastructureError):
        return FAILED
    from agents.outcome import RunBroken

    return BROKEN if isinstance(error, RunBroken) else FAILED


def explain(error: Exception) -> tuple[str, str, str]:
    """Kind, sentence and advice of an error, expected or not."""
    from memory.files import RunFolderError
    from memory.lesson_file import LessonsError
    from tools.errors import InfrastructureError, KernelError, TaskError, WarpsmithError

    kinds: tuple[tuple[type[Exception], str], ...] = (
        (TaskError, "task"),
        (KernelError, "kernel"),
        (InfrastructureError, "infrastructure"),
        (WarpsmithError, "error"),
        (RunFolderError, "run_folder"),
        (LessonsError, "lessons"),
    )
    for cls, kind in kinds:
        if isinstance(error, cls):
            return kind, str(getattr(error, "message", error)), str(getattr(error, "advice", ""))
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return "system", f"{error.strerror or error}{where}", "Check the path, its permissions and the free space."
    first = str(error).splitlines()[0] if str(error) else "no message"
    return (
        "internal",
        f"unexpected failure, {type(error).__name__}: {first}",
        "Run again with --debug for the traceback.",
    )


def say_error(message: str, advice: str = "") -> None:
    """One sentence and its advice on standard error."""
    text = f"error: {sentence(message)}" + (f"\n{advice}" if advice else "")
    print(printable(text), file=sys.stderr)


def sentence(message: str) -> str:
    """With one full stop, unless it ends with a mark of its own."""
    return message if message.endswith(("?", "!", "…")) else f"{message.rstrip('.')}."


def _fail(kind: str, message: str, advice: str, code: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"error": {"kind": kind, "message": message, "advice": advice}}))
    if code == INTERRUPTED:
        print(message, file=sys.stderr)
    else:
        say_error(message, advice)
    sys.exit(code)
