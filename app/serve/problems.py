"""Pages that say why there is no page: one sentence and what to do, as on the command line."""

from __future__ import annotations

from pydantic import ValidationError
from starlette.responses import HTMLResponse

from app.exits import explain, sentence
from app.pages import rendered
from memory.files import RunFolderError
from memory.lesson_file import LessonsError


class NotThere(Exception):
    """What was asked for does not exist: `what` in a few words."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def problem(status: int, message: str, advice: str = "") -> HTMLResponse:
    """A page that says so."""
    fields = {"status": status, "message": sentence(message), "advice": advice, "here": ""}
    return HTMLResponse(rendered("problem.html.j2", fields), status_code=status)


def problem_of(error: Exception) -> HTMLResponse:
    """The page for an error: not there, can't be read, or a fault of ours, which is told apart."""
    if isinstance(error, NotThere):
        return problem(404, f"There is no {error.what}", "It may have been moved or deleted.")
    if isinstance(error, ValidationError):
        error = RunFolderError(f"a file of this run does not hold a {error.title}", "The run folder may be damaged.")
    _, message, advice = explain(error)
    known = isinstance(error, RunFolderError | LessonsError)
    return problem(422 if known else 500, message[:1].upper() + message[1:], advice)
