"""Options that several commands share, about models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

_BUILT_IN = "builtin:autotune"

Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="SPEC", help=f"Model of all roles, as provider:model or provider:model@effort [{_BUILT_IN}]."
    ),
]
Planner = Annotated[str | None, typer.Option("--planner", metavar="SPEC", help="Model of the planner.")]
Coder = Annotated[str | None, typer.Option("--coder", metavar="SPEC", help="Model of the coder.")]
Analyst = Annotated[str | None, typer.Option("--analyst", metavar="SPEC", help="Model of the analyst.")]
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
        help="How tools are spoken of with models that have no tool calls of their own.",
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
    typer.Option("--hint", metavar="TEXT", help="What you know: every role is told it from now on; may be repeated."),
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
    float | None, typer.Option("--max-dollars", metavar="USD", help="End when model calls have cost so much.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", help="End after so many tokens, in and out.")
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
