"""The commands `warpsmith export-dataset` and `warpsmith env`: runs and the judge, for those who train models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.exits import guarded
from app.options import LOCAL, RUNS, Debug, RunsRoot

app = typer.Typer(rich_markup_mode=None)
AsJson = Annotated[bool, typer.Option("--json", help="Print the counts as JSON on standard output.")]
KindOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="sft: conversations for fine-tuning [the default]. preference: better and worse kernels. rl: steps of "
        "episodes. trajectory: every model call with its whole prompt. May be repeated.",
    ),
]


@app.command("export-dataset", epilog="Exit codes: 0 written, 1 no line was left after the filters, 2 could not do it.")
def export_dataset(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Run folders, their names, `latest`, or folders that hold runs."),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")],
    kind: KindOption = None,
    accepted_only: Annotated[
        bool, typer.Option("--accepted-only", help="Leave out turns without an accepted kernel.")
    ] = False,
    min_speedup: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="Leave out turns whose best kernel is not X times the baseline."),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="Only turns of planner, coder, analyst or summary; may be repeated."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only turns by a model, as 'openai:*'; may be repeated.")
    ] = None,
    not_model: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="No turns by a model, as 'builtin:*'; may be repeated.")
    ] = None,
    reward: Annotated[
        Literal["continuous", "steps"],
        typer.Option(help="What `reward` of rl is: in [-1, 1], or CUDA Agent's -1, 1, 2, 3."),
    ] = "continuous",
    pairs: Annotated[int, typer.Option(min=1, help="Preference pairs of one parent, at most.")] = 16,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Write the same content more than once.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier data set.")] = False,
    runs: RunsRoot = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the trajectories of runs as a data set with a card.

    Keys, home and run folders and names of user and machine are taken out. Load it with
    datasets.load_dataset("DIR", "sft"). The columns are described in docs/trajectories.md.
    """
    with guarded(debug, as_json):
        from agents.datasets import ROLES, Wanted
        from app.dataset import kinds_named, named, write_dataset

        wanted = Wanted(
            kinds=kinds_named(kind or ["sft"]),
            accepted_only=accepted_only,
            min_speedup=min_speedup,
            roles=named("--role", role or (), ROLES),
            models=tuple(model or ()),
            not_models=tuple(not_model or ()),
            scale=reward,
            pairs=pairs,
            keep_duplicates=keep_duplicates,
        )
        sys.exit(write_dataset(sources, runs, output, wanted, force=force, as_json=as_json))


@app.command("env", epilog="Exit codes: 0 the input ended or a signal came, 2 could not serve.")
def env(
    task: Annotated[
        Path, typer.Argument(metavar="TASK", help="A NumPy file, a KernelBench file, or a folder with task.toml.")
    ],
    *,
    http: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Serve HTTP on this port [standard input]; 0 a free one."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to serve HTTP on. There is no TLS: keep it local.")] = "127.0.0.1",
    target: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option(help="Where kernels must be fast [that of the starting kernel].")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of an episode, at most.")] = 10,
    device_seconds: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="Seconds of judging of an episode, at most [no limit].")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes at once, at most.")] = 64,
    reward: Annotated[
        Literal["continuous", "steps"], typer.Option(help="In [-1, 1], or CUDA Agent's -1, 1, 2, 3.")
    ] = "continuous",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a size of the task; may be repeated."),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(metavar="SPEC", envvar="WARPSMITH_EXECUTOR", help="Where kernels are judged: local or command:…"),
    ] = LOCAL,
    debug: Debug = False,
) -> None:
    """Serve the judge of a task as a reset/step environment, for training.

    The first line on standard output says that it is ready, and with --http where. Then JSON lines on standard input,
    as {"op": "reset"} and {"op": "step", "episode": "…", "action": {"files": {"kernel.cpp": "…"}}}, are answered on
    standard output; over HTTP they are POST /v1/reset and /v1/step with the token of WARPSMITH_ENV_TOKEN, or of the
    first line where that is not set. The protocol is described in docs/trajectories.md.
    """
    with guarded(debug):
        from agents.environment import Limits
        from app.training import Serving, serve

        limits = Limits(steps=steps, device_seconds=device_seconds, episodes=episodes)
        sys.exit(
            serve(
                Serving(
                    task=task,
                    settings=tuple(settings or ()),
                    target=target,
                    executor=executor,
                    limits=limits,
                    scale=reward,
                    host=host,
                    port=http,
                )
            )
        )
