"""`warpsmith models` and `warpsmith models test`: what is configured, what it costs, and whether it works."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agents.models.catalogue import Price
from agents.models.connections import Connection
from agents.models.spec import TAKES_REST_AS_IT_IS, parse_spec
from agents.settings import ROLES, Role
from app.configuration import Asked, Configuration, configure, require_usable
from app.exits import DONE, FAILED, REJECTED
from app.interrupts import raise_on_ctrl_c
from app.probe import Probe, probe
from app.quantities import count, money, span, tokens
from app.settings_file import FILE_NAME, describe
from app.terminal import console_for, plain_table
from tools.errors import WarpsmithError

_WORKS = {"yes": "green", "no": "red", "unknown": "yellow"}


class ModelRow(BaseModel):
    """One model in use. Tokens; prices in US dollars for a million tokens. None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    place: int
    """0: the role's own; n: the nth fallback."""
    model: str
    source: str
    """Where it was set: a flag, a variable, a file, or `default`."""
    provider: str
    window: int | None
    output: int | None
    price: Price | None
    price_source: str
    problem: str
    """Why it can't be used as things are; empty when nothing speaks against it."""


class EndpointRow(BaseModel):
    """How one provider is reached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str
    in_use: bool
    wire: str
    address: str
    """Empty: the provider's own."""
    address_source: str
    dialect: str
    """`native` where nothing is set."""
    dialect_source: str
    key: Literal["present", "withheld", "missing", "not needed"]
    """withheld: it is there, but may not go to that address."""
    key_source: str
    """The variable or file that it was found in, or the variable to put it in."""


class Listing(BaseModel):
    """Everything that is configured about models."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[str, ...]
    models: tuple[ModelRow, ...]
    endpoints: tuple[EndpointRow, ...]
    budgets: dict[str, dict[str, float | int | str]]
    """Name to `value` and `source`."""


def list_models(asked: Asked, as_json: bool) -> int:
    """Print what is configured; 1 when a model in use can't be used as things are. Raises WarpsmithError."""
    listing = listing_of(configure(asked, os.environ, Path.cwd()))
    if as_json:
        print(listing.model_dump_json())
    else:
        _print_listing(console_for(), listing)
    return REJECTED if any(row.problem for row in listing.models) else DONE


def listing_of(configuration: Configuration) -> Listing:
    """The configuration as rows. No key's value is in it."""
    rows = [row for role in ROLES for row in _rows(role, configuration)]
    used = {row.provider for row in rows}
    return Listing(
        files=tuple(describe(path) for path in configuration.files),
        models=tuple(rows),
        endpoints=tuple(
            _endpoint_row(name, connection, configuration, name in used)
            for name, connection in configuration.connections.providers.items()
        ),
        budgets={name: {"value": b.value, "source": b.source} for name, b in configuration.budgets.items()},
    )


def try_model(spec: str, asked: Asked, timeout: float, as_json: bool) -> int:
    """Try one model; 0 when a run can use it, 1 when it answers but its tools don't work, 2 when it gives no answer.

    Raises WarpsmithError when it can't even be asked: no such provider, no key, or one that needs no server.
    """
    from agents.models.registry import connect, resolve

    configuration = configure(
        Asked(model=spec, base_url=asked.base_url, dialect=asked.dialect, config=asked.config, fallback=("none",)),
        os.environ,
        Path.cwd(),
    )
    require_usable(configuration)
    facts = configuration.catalogue.of(spec)
    named = parse_spec(spec)
    if named.provider in TAKES_REST_AS_IT_IS:
        raise WarpsmithError(
            f"`{spec}` is no model behind a server, so there is nothing to test",
            "Use it as it is, in `warpsmith optimize`; name a model as provider:model to test that.",
        )
    connection = configuration.connections.providers.get(named.provider)

    async def ask() -> Probe:
        model = resolve(spec, connections=configuration.connections)
        bare = connect(named, connection) if connection is not None else None
        try:
            return await probe(
                model,
                facts.price,
                timeout,
                known_window=(connection.window if connection else None) or facts.window,
                ask_window=bare.probe if bare else None,
            )
        finally:
            await model.aclose()
            if bare is not None:
                await bare.aclose()

    raise_on_ctrl_c()
    done = asyncio.run(ask())
    if as_json:
        print(done.model_dump_json())
    else:
        _print_probe(console_for(), done)
    if done.failure and done.works("tools") == "unknown":
        return FAILED
    return DONE if done.works("tools") == "yes" else REJECTED


def _rows(role: Role, configuration: Configuration) -> list[ModelRow]:
    choice = configuration.roles[role]
    rows = []
    for place, spec in enumerate(choice.specs):
        provider = parse_spec(spec).provider
        facts = configuration.catalogue.of(spec)
        connection = configuration.connections.providers.get(provider)
        own = configuration.prices.get(spec)
        rows.append(
            ModelRow(
                role=role,
                place=place,
                model=spec,
                source=choice.fallback.source if place else choice.model.source,
                provider=provider,
                window=(connection.window if connection else None) or facts.window,
                output=configuration.connections.output(provider, facts.output),
                price=facts.price,
                price_source=own.source if own else facts.price.source if facts.price else "",
                problem=_problem(provider, configuration),
            )
        )
    return rows


def _problem(provider: str, configuration: Configuration) -> str:
    if provider in TAKES_REST_AS_IT_IS:
        return ""
    try:
        connection = configuration.connections.of(provider)
    except WarpsmithError as error:
        return str(error)
    if provider in configuration.objections:
        return str(configuration.objections[provider])
    if connection.needs_key and connection.key is None:
        return f"{connection.key_env or 'its key'} is not set"
    return ""


def _endpoint_row(name: str, connection: Connection, configuration: Configuration, in_use: bool) -> EndpointRow:
    origin = configuration.endpoints.origin
    key: Literal["present", "withheld", "missing", "not needed"] = "missing" if connection.needs_key else "not needed"
    if name in configuration.endpoints.objections:
        key = "withheld"
    elif connection.key is not None:
        key = "present"
    return EndpointRow(
        provider=name,
        in_use=in_use,
        wire=connection.wire,
        address=connection.base_url or "",
        address_source=origin(name, "base_url"),
        dialect=connection.dialect or "native",
        dialect_source=origin(name, "dialect"),
        key=key,
        key_source=origin(name, "key") or connection.key_env,
    )


def _print_listing(console: Console, listing: Listing) -> None:
    numeric = ("window", "reply", "in", "cached", "out")
    table = plain_table("role", "model", "set in", *numeric, "priced", numeric=numeric)
    for row in listing.models:
        table.add_row(
            row.role if row.place == 0 else "  then",
            escape(row.model),
            escape(row.source),
            *_figures(row),
        )
    console.print(table)
    console.print("[dim]tokens of window and reply; US dollars for a million tokens in, read from cache, out[/dim]")
    console.print()
    console.print(_endpoint_table(listing))
    console.print()
    for name, budget in listing.budgets.items():
        console.print(f"{name.replace('_', ' '):<12}{_limit(name, budget['value'])} ({budget['source']})", markup=False)
    files = ", ".join(listing.files) or f"no {FILE_NAME} was found"
    console.print(f"{'settings':<12}{files}", markup=False, highlight=False)
    for problem in dict.fromkeys(f"{row.model}: {row.problem}" for row in listing.models if row.problem):
        console.print(f"[red]can't be used[/red]  {escape(problem)}", highlight=False)


def _limit(name: str, value: float | str) -> str:
    """A budget as a person reads it: dollars as money, whole numbers with their thousands apart."""
    if isinstance(value, str):
        return value
    return money(value) if name == "max_dollars" else f"{value:,}"


def _endpoint_table(listing: Listing) -> Table:
    table = plain_table("provider", "protocol", "address", "set in", "tools", "key")
    for row in listing.endpoints:
        style = "" if row.in_use else "dim"
        key = {
            "present": f"[green]{escape(row.key_source)} present[/green]",
            "withheld": f"[red]{escape(row.key_source)} withheld[/red]",
            "missing": f"[{'red' if row.in_use else 'dim'}]{escape(row.key_source)} not set[/]",
            "not needed": f"none needed ({escape(row.key_source)})" if row.key_source else "none needed",
        }[row.key]
        dialect = f"{row.dialect} ({row.dialect_source})" if row.dialect_source else row.dialect
        cells = (row.provider, row.wire, row.address or _OWN.get(row.provider, "-"), row.address_source, dialect)
        table.add_row(*map(escape, cells), key, style=style)
    return table


_OWN: Mapping[str, str] = {"openai": "OpenAI's own", "anthropic": "Anthropic's own", "openai-chat": "needs --base-url"}


def _figures(row: ModelRow) -> tuple[str, ...]:
    """Window, longest reply, the three prices, and the day that they are from."""
    if row.provider in TAKES_REST_AS_IT_IS:
        return ("-", "-", "free", "", "", "")
    limits = tuple("unknown" if number is None else tokens(number) for number in (row.window, row.output))
    if row.price is None:
        return (*limits, "unknown", "", "", "")
    cached = "as in" if row.price.cached is None else money(row.price.cached)
    return (*limits, money(row.price.input), cached, money(row.price.output), row.price.date)


def _print_probe(console: Console, done: Probe) -> None:
    console.print(f"[bold]{escape(done.model)}[/bold]", highlight=False)
    table = plain_table("", "", "")
    table.show_header = False
    for check in done.checks:
        table.add_row(check.name, f"[{_WORKS[check.works]}]{check.works}[/]", escape(check.found))
    console.print(table)
    used = done.usage
    cost = money(done.dollars) if done.dollars is not None else "at an unknown price"
    cached = f" ({count(used.cached_tokens)} cached)" if used.cached_tokens else ""
    console.print(
        f"\ncost      {count(used.input_tokens)} tokens in{cached}, {count(used.output_tokens)} out: {cost};"
        f" took {span(done.seconds)}",
        highlight=False,
    )
    if done.failure:
        console.print(f"[red]failed[/red]    {escape(done.failure)}", highlight=False, soft_wrap=True)
        if done.advice:
            console.print(f"          {escape(done.advice)}", highlight=False, soft_wrap=True)
    if done.works("tools") == "no" and not done.failure:
        console.print("try       another way to call tools: --dialect json, or --dialect text", highlight=False)
