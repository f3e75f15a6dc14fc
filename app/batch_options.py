"""The options of `warpsmith batch` that no other command has, or that say something else there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

Tasks = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[TASKS]...",
        help="Tasks, folders of tasks (each sub-folder with task.toml, each *.py file), or lists of them: text "
        "files with one path a line. What is no task is passed over, with the reason.",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, max=64, help="Tasks at the same time [1]. Their timings never overlap on a device."
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        metavar="BATCH",
        help="Go on with a batch: its folder, part of its name, or `latest`. Finished tasks are not run again. "
        "Limits given with it replace the batch's.",
    ),
]
AllDollars = Annotated[
    float | None, typer.Option(metavar="USD", help="All tasks together: end when model calls have cost so much.")
]
AllTokens = Annotated[
    int | None, typer.Option(metavar="N", help="All tasks together: end after N tokens of model calls, in and out.")
]
AllWallTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="All tasks together: end the search after a time, as 90m or 2d. Last measurements follow it.",
    ),
]
AllDeviceTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="All tasks together: end after so much building, judging and profiling, as 8h."),
]
PauseAtLimit = Annotated[
    bool | None,
    typer.Option(
        "--pause-at-limit/--end-at-limit",
        help="Once only limits stand in the way, wait for a person instead of ending: from another terminal "
        "`warpsmith batch --resume BATCH` with a larger limit lets it go on [end].",
        show_default=False,
    ),
]
Turn = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Iterations of one turn [5]; then the task that promises most has the next (docs/batches.md).",
    ),
]
Retries = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="How often in a row a task is tried again after its machine or its process failed [2]. A verdict is "
        "never retried.",
    ),
]
Target = Annotated[Literal["cpu", "cuda"] | None, typer.Option(help="Where the kernels must be fast [cpu].")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of builtin:autotune's search [0].")]
Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the batch's folder [that of the folder of tasks].")
]
Executor = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        envvar="WARPSMITH_EXECUTOR",
        help="Where kernels are built and judged: local, or command:CMD where CMD runs `warpsmith worker` [local].",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print events as JSON lines on standard output, the summary last.")
]


@dataclass(frozen=True)
class TaskLimits:
    """When each task of a batch is to end, as a person says it. None: nothing was said."""

    iterations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Each task: end after N iterations [200].")
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Each task: end after N attempts in a row without a gain [40]."),
    ] = None
    near_limit: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Each task: end when its best kernel is within so many percent of the shortest time that the hardware "
            "allows [5]; 0 never.",
        ),
    ] = None
    """Percent; 0 switches it off."""
    task_wall_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Each task: end its search after a time, as 30m.")
    ] = None
    task_device_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Each task: end after so much device time, as 30m.")
    ] = None
    task_dollars: Annotated[
        float | None, typer.Option(metavar="USD", help="Each task: end when its model calls have cost so much.")
    ] = None
    task_tokens: Annotated[int | None, typer.Option(metavar="N", help="Each task: end after N tokens, in and out.")] = (
        None
    )
