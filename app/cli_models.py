"""The commands `warpsmith models` and `warpsmith models test`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.exits import guarded
from app.options import AsJson, BaseUrl, Config, Debug, DialectOption, ModelOptions, grouped

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@app.callback(
    epilog="Exit codes: 0 every model in use can be asked, 1 a key or an address is missing, 2 a setting can't be used."
)
@grouped
def models(
    context: typer.Context,
    *,
    options: ModelOptions,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the models in use: where each was set, whether its key is there, window, prices."""
    if context.invoked_subcommand is not None:
        return
    with guarded(debug, as_json):
        from app.models import list_models

        sys.exit(list_models(options.asked(config), as_json))


@app.command(epilog="Exit codes: 0 a run can use it, 1 it answers but its tool calls don't work, 2 it gives no answer.")
def test(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="As provider:model.")],
    *,
    base_url: BaseUrl = None,
    dialect: DialectOption = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="For the whole test.")] = 60.0,
    config: Config = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make two small requests to a model and say what works. It costs a few thousand tokens."""
    with guarded(debug, as_json):
        from app.models import try_model

        asked = ModelOptions(base_url=base_url, dialect=dialect).asked(config)
        sys.exit(try_model(spec, asked, timeout, as_json))
