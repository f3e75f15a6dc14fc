"""What libraries have to say during a run (httpx2, openai, langgraph, …): warnings and worse go to `log.jsonl`, with
what is bound around them, and not to the terminal.

Not covered: what a library prints, and what it says below a warning. Local variables are never written, since they hold
prompts and keys; the text of an exception is, without keys.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from structlog.processors import ExceptionRenderer, JSONRenderer, TimeStamper
from structlog.stdlib import ProcessorFormatter, add_log_level, add_logger_name
from structlog.tracebacks import ExceptionDictTransformer

from agents.events import where
from agents.secrets import Scrubber

MOST_BYTES = 10_000_000
"""Of the file; what was there before moves to `log.jsonl.1`, and what was there is dropped."""


@contextmanager
def library_log(path: Path, scrubber: Scrubber) -> Iterator[None]:
    """Meanwhile warnings of libraries are lines of `path`, which is made when there is one.

    A line: `event` (the message), `time`, `level`, `logger`, what is bound, and `exception` with its frames. A full
    disk costs lines and nothing else.
    """
    handler = _Quiet(path, maxBytes=MOST_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[_add_where, add_log_level, add_logger_name, TimeStamper("iso", utc=True, key="time")],
            processors=[
                ProcessorFormatter.remove_processors_meta,
                ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
                lambda _logger, _method, line: scrubbed(line, scrubber),
                JSONRenderer(),
            ],
        )
    )
    run = where().get("run")
    handler.addFilter(lambda _record: where().get("run", run) == run)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def scrubbed(line: MutableMapping[str, Any], scrubber: Scrubber) -> dict[str, Any]:
    """The line without keys."""
    return {name: scrubber.json(value) for name, value in line.items()}


class _Quiet(RotatingFileHandler):
    """A line that can't be written is lost, without a word."""

    def handleError(self, record: logging.LogRecord) -> None:
        del record


def _add_where(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in where().items():
        line.setdefault(name, value)
    return line
