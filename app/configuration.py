"""Which models a run uses and how they are reached: flags over environment over `warpsmith.toml` over defaults.

The layers are asked one after the other, and within a layer the narrower setting wins: `--model` on the command line
is for every role, whatever a file says about a single one. Each answer remembers where it came from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from agents.models.catalogue import Catalogue, Price
from agents.models.connections import Connection, Connections
from agents.models.spec import TAKES_REST_AS_IT_IS, parse_spec
from agents.settings import DEFAULT_MODEL, ROLES, Models, Role
from app.endpoints import Endpoints, by_provider, endpoints_of
from app.settings_file import (
    ModelsTable,
    SettingsFile,
    SettingsFileError,
    describe,
    find_files,
    read_settings,
    stray_file,
)
from tools.errors import WarpsmithError

DEFAULT = "default"
"""The source of what nobody set."""
_VARIABLES = {
    "default": "WARPSMITH_MODEL",
    "planner": "WARPSMITH_PLANNER",
    "coder": "WARPSMITH_CODER",
    "analyst": "WARPSMITH_ANALYST",
}
FALLBACK_VARIABLE = "WARPSMITH_FALLBACK"
BUDGET_VARIABLES = {"max_dollars": "WARPSMITH_MAX_DOLLARS", "max_tokens": "WARPSMITH_MAX_TOKENS"}
T = TypeVar("T")


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value and where it was said: a flag, a variable, a file, or `default`."""

    value: T
    source: str


@dataclass(frozen=True)
class Asked:
    """What the command line says about models. None or empty: nothing."""

    model: str | None = None
    planner: str | None = None
    coder: str | None = None
    analyst: str | None = None
    fallback: tuple[str, ...] = ()
    """`SPEC,SPEC` for every role or `ROLE=SPEC,SPEC` for one; `none` for no fallback."""
    base_url: tuple[str, ...] = ()
    """`URL` or `PROVIDER=URL`."""
    dialect: tuple[str, ...] = ()
    """`native`, `json` or `text`, or `PROVIDER=…`."""
    max_dollars: float | None = None
    max_tokens: int | None = None
    config: Path | None = None


@dataclass(frozen=True)
class RoleChoice:
    """The model of a role and those that take over from it, in order."""

    model: Sourced[str]
    fallback: Sourced[tuple[str, ...]]

    @property
    def specs(self) -> tuple[str, ...]:
        return (self.model.value, *self.fallback.value)


@dataclass(frozen=True)
class Configuration:
    """Everything that is set about models, resolved."""

    roles: dict[Role, RoleChoice]
    endpoints: Endpoints
    prices: dict[str, Sourced[Price]]
    budgets: dict[str, Sourced[float | int | str]]
    files: tuple[Path, ...]
    """The settings files that were read, the strongest first."""
    asked: Asked = Asked()
    folder: Path = Path()
    """All this was put together for the command line `asked`, given in that folder."""

    def again(self, addresses: Sequence[str] = ()) -> Configuration:
        """The same with files as they are now. addresses: as `Asked.base_url`, over that. Raises as `configure`."""
        asked = replace(self.asked, base_url=(*self.asked.base_url, *addresses))
        return configure(asked, os.environ, self.folder)

    @property
    def connections(self) -> Connections:
        return self.endpoints.connections

    @property
    def catalogue(self) -> Catalogue:
        """What is known of models, with the files' prices over it."""
        return Catalogue.with_prices({spec: price.value for spec, price in self.prices.items()})

    @property
    def models(self) -> Models:
        """The roles' models and those that take over, as a run's settings have them."""
        return Models(
            **{role: choice.model.value for role, choice in self.roles.items()},
            fallback={role: choice.fallback.value for role, choice in self.roles.items()},
        )

    @property
    def specs(self) -> tuple[str, ...]:
        """Every model in use, each once, first the roles' own."""
        own = [self.roles[role].model.value for role in ROLES]
        return tuple(dict.fromkeys([*own, *(spec for role in ROLES for spec in self.roles[role].specs)]))

    @property
    def providers(self) -> dict[str, Connection]:
        """How those providers are reached that models in use have."""
        names = dict.fromkeys(parse_spec(spec).provider for spec in self.specs)
        return {name: self.connections.of(name) for name in names if name not in TAKES_REST_AS_IT_IS}

    @property
    def objections(self) -> dict[str, SettingsFileError]:
        """Those of the providers in use whose key is held back, and why."""
        used = {parse_spec(spec).provider for spec in self.specs}
        return {name: said for name, said in self.endpoints.objections.items() if name in used}


@dataclass
class _Layer:
    """What one source says: setting name to value, with `fallback` and `ROLE.fallback` among the names."""

    models: dict[str, Sourced[str]] = field(default_factory=dict)
    fallbacks: dict[str, Sourced[tuple[str, ...]]] = field(default_factory=dict)


def configure(asked: Asked, environ: Mapping[str, str], folder: Path) -> Configuration:
    """Put all sources together. Raises WarpsmithError: a file, a flag, a variable or a name that can't be used."""
    paths = find_files(asked.config, folder, environ)
    files = [(path, read_settings(path)) for path in paths]
    layers = [_flags(asked), _environment(environ), *(_file(path, read.models) for path, read in files)]
    roles = {role: _choose(role, layers) for role in ROLES}
    for choice in roles.values():
        for spec, source in [(choice.model.value, choice.model.source), *_with_source(choice.fallback)]:
            _check_name(spec, source)
    providers = [parse_spec(choice.model.value).provider for choice in roles.values()]
    urls = by_provider("--base-url", asked.base_url, providers)
    dialects = by_provider("--dialect", asked.dialect, providers)
    return Configuration(
        roles=roles,
        endpoints=endpoints_of(urls, dialects, environ, files, stray_file(asked.config, paths, environ)),
        prices=_prices(files),
        budgets=_budgets(asked, environ, files),
        files=tuple(path for path, _ in files),
        asked=asked,
        folder=folder,
    )


def missing_keys(configuration: Configuration) -> list[tuple[str, Connection]]:
    """The models in use whose provider needs a key that is not there."""
    reached = configuration.providers
    of = [(spec, reached.get(parse_spec(spec).provider)) for spec in configuration.specs]
    return [(spec, c) for spec, c in of if c is not None and c.needs_key and c.key is None]


def require_usable(configuration: Configuration) -> None:
    """Raises WarpsmithError when a model in use can't be reached as things are: no such provider, no key."""
    for objection in configuration.objections.values():
        raise objection
    for spec, connection in missing_keys(configuration)[:1]:
        variable = connection.key_env or "key_env"
        takes_over = spec not in [choice.model.value for choice in configuration.roles.values()]
        without = " or do without it: --fallback none;" if takes_over else ""
        raise WarpsmithError(
            f"the model `{spec}` needs a key, and {variable} is not set",
            f"Set it: export {variable}=…;{without} `warpsmith models` shows what is configured.",
        )


def model_lines(configuration: Configuration) -> list[str]:
    """Which models will be asked, where, and who says so; nothing for a run that asks none over a network."""
    used = configuration.providers
    if not used:
        return []
    lines = [
        f"{role:<12}{', then '.join(choice.specs)} ({choice.model.source})"
        for role, choice in configuration.roles.items()
    ]
    for name, connection in used.items():
        if connection.base_url is not None:
            source = configuration.endpoints.origin(name, "base_url")
            lines.append(f"{name:<12}at {connection.base_url} ({source})")
    return lines


def fallbacks(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`SPEC,SPEC` and `ROLE=SPEC,SPEC` by setting name (`fallback`, `coder.fallback`); `none` is an empty list."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        head, equals, tail = text.strip().partition("=")
        role = head.strip() if equals and head.strip() in ROLES else ""
        specs = [spec.strip() for spec in (tail if role else text).split(",") if spec.strip()]
        name = f"{role}.fallback" if role else "fallback"
        found[name] = () if [spec.lower() for spec in specs] == ["none"] else (*found.get(name, ()), *specs)
    return found


def _flags(asked: Asked) -> _Layer:
    named = {"default": asked.model, "planner": asked.planner, "coder": asked.coder, "analyst": asked.analyst}
    return _Layer(
        {k: Sourced(v, "--model" if k == "default" else f"--{k}") for k, v in named.items() if v is not None},
        {name: Sourced(specs, "--fallback") for name, specs in fallbacks(asked.fallback).items()},
    )


def _environment(environ: Mapping[str, str]) -> _Layer:
    said = {name: environ.get(variable, "").strip() for name, variable in _VARIABLES.items()}
    listed = fallbacks(part for part in environ.get(FALLBACK_VARIABLE, "").split(";") if part.strip())
    return _Layer(
        {name: Sourced(value, _VARIABLES[name]) for name, value in said.items() if value},
        {name: Sourced(specs, FALLBACK_VARIABLE) for name, specs in listed.items()},
    )


def _file(path: Path, table: ModelsTable) -> _Layer:
    source = describe(path)
    models = {"default": table.default, "planner": table.planner, "coder": table.coder, "analyst": table.analyst}
    lists = {"fallback": table.fallback}
    for role in ROLES:
        of_role = getattr(table.roles, role)
        models[role] = of_role.model or models[role]
        lists[f"{role}.fallback"] = of_role.fallback
    return _Layer(
        {name: Sourced(value, source) for name, value in models.items() if value is not None},
        {name: Sourced(specs, source) for name, specs in lists.items() if specs is not None},
    )


def _choose(role: Role, layers: Iterable[_Layer]) -> RoleChoice:
    models = [layer.models[name] for layer in layers for name in (role, "default") if name in layer.models]
    model = next(iter(models), Sourced(DEFAULT_MODEL, DEFAULT))
    names = (f"{role}.fallback", "fallback")
    lists = [layer.fallbacks[name] for layer in layers for name in names if name in layer.fallbacks]
    fallback = next(iter(lists), Sourced((), DEFAULT))
    if model.value.partition(":")[0] in TAKES_REST_AS_IT_IS and fallback.source != "--fallback":
        fallback = Sourced((), DEFAULT)  # neither can be out of reach
    others = tuple(spec for spec in dict.fromkeys(fallback.value) if spec != model.value)
    return RoleChoice(model, Sourced(others, fallback.source))


def _with_source(fallback: Sourced[tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(spec, fallback.source) for spec in fallback.value]


def _check_name(spec: str, source: str) -> None:
    try:
        parse_spec(spec)
    except WarpsmithError as error:
        where = "" if source.startswith("--") else f" (set in {source})"
        raise type(error)(f"{error.message}{where}", error.advice) from error


def _prices(files: Iterable[tuple[Path, SettingsFile]]) -> dict[str, Sourced[Price]]:
    found: dict[str, Sourced[Price]] = {}
    for path, read in files:
        for spec, price in read.prices.items():
            found.setdefault(spec, Sourced(price, describe(path)))
    return found


def _budgets(
    asked: Asked, environ: Mapping[str, str], files: Iterable[tuple[Path, SettingsFile]]
) -> dict[str, Sourced[float | int | str]]:
    found: dict[str, Sourced[float | int | str]] = {}
    for name, said in (("max_dollars", asked.max_dollars), ("max_tokens", asked.max_tokens)):
        flag = f"--{name.replace('_', '-')}"
        if said is not None:
            found[name] = Sourced(_amount(name, flag, str(said)), flag)
    for name, variable in BUDGET_VARIABLES.items():
        text = environ.get(variable, "").strip()
        if text and name not in found:
            found[name] = Sourced(_amount(name, variable, text), variable)
    for path, read in files:
        for name, value in read.budgets.model_dump(exclude_none=True).items():
            found.setdefault(name, Sourced(value, describe(path)))
    return found


def _amount(name: str, source: str, text: str) -> float | int:
    try:
        value = int(text) if name == "max_tokens" else float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise WarpsmithError(f"{source} is {text[:40]!r}, which is no amount above zero", "For instance: 5")
    return value
