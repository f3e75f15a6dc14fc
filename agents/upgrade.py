"""Brings a run folder of an older warpsmith to today's format, step by step, and refuses one of a newer.

Whoever changes what a folder holds so that today's code would misread an older one raises `memory.runs.FORMAT` and adds
the step here. A new field with a default needs none. The names of calls (`agents.told`) and the order of tasks in a
turn (`agents.turn`) are part of the format: a turn that was left open is gone on with by them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from memory.files import Json, RunFolderError
from memory.runs import FORMAT, RunFolder

Step = Callable[[RunFolder, Json], Json]


def upgrade(run: RunFolder) -> None:
    """`run` then has today's format. Nothing is written when it has it already. Belongs into `run.alone()`.

    Raises RunFolderError when a newer warpsmith wrote it, or when its configuration is damaged.
    """
    config = run.config()
    found = config.get("format", 1)
    if not isinstance(found, int) or found < 1:
        raise RunFolderError(f"{run.path / 'config.json'} has no format that is known", "The run folder is damaged.")
    if found > FORMAT:
        writer = f"warpsmith {config['version']}" if "version" in config else "a newer warpsmith"
        raise RunFolderError(
            f"the run {run.id} was written by {writer} in format {found}; this one knows formats up to {FORMAT}",
            "Go on with it with that version or a newer one.",
        )
    for number in range(found, FORMAT):
        config = STEPS[number](run, config) | {"format": number + 1}
    if found < FORMAT:
        run.write_config(config)


def _name_the_thread(run: RunFolder, config: Json) -> Json:
    """Format 1 kept checkpoints under the folder's name, which may be another one by now."""
    path = run.path / "state.sqlite"
    thread = run.id
    if path.exists():
        try:
            with closing(sqlite3.connect(path)) as database:
                row = database.execute("SELECT thread_id FROM checkpoints LIMIT 1").fetchone()
        except sqlite3.OperationalError:  # killed before it held a table
            row = None
        except sqlite3.DatabaseError as error:
            raise RunFolderError(f"{path} is damaged: {error}", "Without it a run of this age can't go on.") from error
        thread = thread if row is None else str(row[0])
    return config | {"thread": thread}


STEPS: Final[Mapping[int, Step]] = {1: _name_the_thread}
"""From a format to the next one. Each may be done again after a kill in the middle of it."""
