"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

_BUILT_IN = "builtin:autotune"
LOCAL = "local"
RUNS = Path("runs")

RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run: its folder, its name, a part of its name, or `latest`.")
]
RunsRoot = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="Where run folders are.", envvar="WARPSMITH_RUNS")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

Iterations = Annotated[
    int | None,
    typer.Option(
        "--iterations",
        min=1,
        metavar="N",
        help="End after N iterations in all; each plans, codes and analyses once [200].",
    ),
]
WallTime = Annotated[
    str | None,
    typer.Option(
        "--wall-time",
        metavar="TIME",
        help="End the search after a time in all, as 90s, 10m, 2h or 1d. It begins when the starting kernel was "
        "judged; a last measurement follows it.",
    ),
]
DeviceTime = Annotated[
    str | None,
    typer.Option(
        "--device-time", metavar="TIME", help="End after so much building, judging and profiling in all, as 2h."
    ),
]
StopPatience = Annotated[
    int | None,
    typer.Option("--patience", min=1, metavar="N", help="End after N attempts in a row without a gain [40]."),
]
NearLimit = Annotated[
    float | None,
    typer.Option(
        "--near-limit",
        metavar="PERCENT",
        help="End when the best kernel is within so many percent of the shortest time that the hardware allows [5]; "
        "0 never.",
    ),
]
PauseAtLimit = Annotated[
    bool | None,
    typer.Option(
        "--pause-at-limit/--end-at-limit",
        help="At a limit wait for a person instead of ending: from another terminal `warpsmith resume RUN` with a "
        "larger limit lets it go on [end].",
        show_default=False,
    ),
]
Parallel = Annotated[
    int | None,
    typer.Option(
        "--parallel",
        min=1,
        max=16,
        metavar="K",
        help="Try K hypotheses an iteration; their coders work at the same time, timings never overlap [1].",
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples",
        min=1,
        max=8,
        metavar="M",
        help="Draw M kernels for each hypothesis; the judge races them and judges the fastest in full [1].",
    ),
]

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="SPEC",
        help="Model of planner, coder and analyst, as provider:model or provider:model@effort; see `warpsmith models` "
        f"[{_BUILT_IN}, which needs no network].",
    ),
]
Planner = Annotated[str | None, typer.Option("--planner", metavar="SPEC", help="Model of the planner alone.")]
Coder = Annotated[str | None, typer.Option("--coder", metavar="SPEC", help="Model of the coder alone.")]
Analyst = Annotated[str | None, typer.Option("--analyst", metavar="SPEC", help="Model of the analyst alone.")]
Fallback = Annotated[
    list[str] | None,
    typer.Option(
        "--fallback",
        metavar="[ROLE=]SPEC,SPEC",
        help="Models that take over, in order, when one refuses, fails or has run out of quota; may be repeated. "
        "`none` for no fallback.",
    ),
]
BaseUrl = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        metavar="[PROVIDER=]URL",
        help="Address of a server: of openai-chat where it is used, else of the one provider in use; may be repeated.",
    ),
]
DialectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dialect",
        metavar="[PROVIDER=]native|json|text",
        help="How a model calls tools: by its provider's tool calls [native], or as JSON or text in its reply, for a "
        "server that has none.",
    ),
]
Docs = Annotated[
    list[Path] | None,
    typer.Option(
        "--docs",
        metavar="PATH",
        help="A folder or file that agents may search: Markdown, text, source code, PDF; may be repeated.",
    ),
]
Hints = Annotated[
    list[str] | None,
    typer.Option(
        "--hint",
        metavar="TEXT",
        help="What you know about the task or the machine; the models are told it from now on; may be repeated.",
    ),
]
LessonsFile = Annotated[
    str | None,
    typer.Option(
        "--lessons",
        metavar="FILE|none",
        help="Where lessons of earlier runs are taken from and left [in your data folder]; `none` for no lessons.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="WARPSMITH_CONFIG",
        help="Settings file [the nearest warpsmith.toml up to the repository's root].",
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="URL",
        help="Keep checkpoints in PostgreSQL, as postgresql://user@host/database [in the run folder]. A password is "
        "better left to PGPASSWORD or ~/.pgpass.",
    ),
]
OTEL = "--otel"
Otel = Annotated[
    str | None,
    typer.Option(
        OTEL,
        metavar="[URL]",
        help="Send traces to this OpenTelemetry collector, as http://host:4318 [OTEL_EXPORTER_OTLP_ENDPOINT, else "
        "http://localhost:4318]. No text of models or kernels is in them.",
    ),
]
MaxDollars = Annotated[
    float | None, typer.Option("--max-dollars", metavar="USD", help="End when model calls have cost so much, as 5.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", help="End after N tokens of model calls, in and out.")
]


def with_address(arguments: Sequence[str]) -> list[str]:
    """The command line with `--otel` alone made into `--otel=`: only an address that follows it is its value."""
    given = list(arguments)
    for place, word in enumerate(given):
        if word == "--":
            break
        follows = given[place + 1] if place + 1 < len(given) else ""
        if word == OTEL and not follows.startswith(("http://", "https://")):
            given[place] = f"{OTEL}="
    return given
