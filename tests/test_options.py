"""Options that stand together in several commands: typer sees each one, the command gets one record."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import typer
from typer.testing import CliRunner

from app.options import Config, MaxDollars, ModelOptions, RunLimits, grouped


def asked_with(*arguments: str) -> tuple[RunLimits, ModelOptions, Path | None, float | None]:
    app = typer.Typer()
    got: list[tuple[RunLimits, ModelOptions, Path | None, float | None]] = []

    @app.command()
    @grouped
    def run(*, limits: RunLimits, max_dollars: MaxDollars = None, models: ModelOptions, config: Config = None) -> None:
        got.append((limits, models, config, max_dollars))

    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return got[0]


def test_a_group_holds_what_was_said_and_none_of_the_rest() -> None:
    words = "--iterations 3 --near-limit 0 --coder a:b --fallback c:d --fallback e:f --max-dollars 2"
    limits, models, config, dollars = asked_with(*words.split())
    assert limits == RunLimits(iterations=3, near_limit=0.0) and dollars == 2.0 and config is None
    assert models == ModelOptions(coder="a:b", fallback=["c:d", "e:f"])


def test_every_option_of_the_models_reaches_what_is_asked(tmp_path: Path) -> None:
    said = {field.name: f"{field.name}:x" for field in fields(ModelOptions)}
    words = [word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", value)]
    _, models, config, _ = asked_with(*words, "--config", str(tmp_path))
    asked = models.asked(config, max_dollars=1.5, max_tokens=7)
    for name, value in said.items():
        assert getattr(asked, name) in (value, (value,))
    assert (asked.config, asked.max_dollars, asked.max_tokens) == (tmp_path, 1.5, 7)
    assert ModelOptions().asked(None) == type(asked)()


def test_the_options_stand_where_the_groups_stand() -> None:
    app = typer.Typer()

    @app.command()
    @grouped
    def run(*, limits: RunLimits, max_dollars: MaxDollars = None, models: ModelOptions) -> None:
        """Run."""

    shown = typer.main.get_command(app).params
    names = (
        [field.name for field in fields(RunLimits)] + ["max_dollars"] + [field.name for field in fields(ModelOptions)]
    )
    assert [parameter.name for parameter in shown][: len(names)] == names
