"""Options that several commands share, one by one and in groups that a command gets as one record."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from app.configuration import Asked

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
        help="At a limit wait for a person instead of ending: a larger one, from another terminal by `warpsmith resume "
        "RUN` or `warpsmith steer RUN budget …`, lets it go on [end].",
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


@dataclass(frozen=True)
class RunLimits:
    """When a run is to end, as a person says it. None: nothing was said."""

    iterations: Iterations = None
    wall_time: WallTime = None
    device_time: DeviceTime = None
    patience: StopPatience = None
    near_limit: NearLimit = None
    """Percent; 0 switches it off."""


@dataclass(frozen=True)
class ModelOptions:
    """Which models are to be asked, and how."""

    model: Model = None
    planner: Planner = None
    coder: Coder = None
    analyst: Analyst = None
    fallback: Fallback = None
    base_url: BaseUrl = None
    dialect: DialectOption = None

    def asked(self, config: Path | None, *, max_dollars: float | None = None, max_tokens: int | None = None) -> Asked:
        """With the settings file and the budgets that were named beside them."""
        from app.configuration import Asked

        return Asked(
            model=self.model,
            planner=self.planner,
            coder=self.coder,
            analyst=self.analyst,
            fallback=tuple(self.fallback or ()),
            base_url=tuple(self.base_url or ()),
            dialect=tuple(self.dialect or ()),
            max_dollars=max_dollars,
            max_tokens=max_tokens,
            config=config,
        )


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it: each parameter that is a group becomes the options of that group."""
    own = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {name: p.annotation for name, p in own.parameters.items() if is_dataclass(p.annotation)}
    options: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        options += _options(groups[name]) if name in groups else [parameter]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    called.__dict__["__signature__"] = own.replace(parameters=options)
    return called


def _options(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]


def with_address(arguments: Sequence[str]) -> list[str]:
    """The command line with `--otel` alone made into `--otel=`: its value is only what looks like an address."""
    given = list(arguments)
    for place, word in enumerate(given):
        if word == "--":
            break
        follows = given[place + 1] if place + 1 < len(given) else ""
        if word == OTEL and "://" not in follows:
            given[place] = f"{OTEL}="
    return given
