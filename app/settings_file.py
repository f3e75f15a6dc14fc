"""`warpsmith.toml`: where it is looked for, what may stand in it, and what is wrong with one that can't be used.

A file names variables and files that hold keys; it never holds a key. Nothing here decides which setting wins:
that is `app.configuration`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agents.models.base import Dialect
from agents.models.catalogue import Price
from agents.models.connections import Wire, is_address
from agents.models.spec import TAKES_REST_AS_IT_IS, parse_spec
from agents.secrets import Scrubber
from tools.errors import WarpsmithError

FILE_NAME = "warpsmith.toml"

_SECRET_NAME = re.compile(r"^(.*[-_])?(key|token|secret|password|authorization|bearer|credential)s?$", re.I)
_SECRET_VALUE = re.compile(r"^(Bearer|Basic)\s|(?=[A-Za-z]*\d)(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{24,}")
"""Beside what `agents.secrets` knows, names and values that look like a secret are refused here."""


class SettingsFileError(WarpsmithError):
    """A `warpsmith.toml` that can't be read or does not say what such a file may say."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _day(value: object) -> object:
    """TOML has dates of its own; a price's date is text."""
    if isinstance(value, dict) and isinstance(value.get("date"), date):
        return value | {"date": value["date"].isoformat()}
    return value


def _address(text: str) -> str:
    if not is_address(text) or "@" in text:
        raise ValueError("it is no address in full like http://127.0.0.1:8000/v1, without `@`, `?` and `#`")
    return text


def _provider(name: str) -> str:
    if name in TAKES_REST_AS_IT_IS:
        raise ValueError(f"`{name}:` is no server; choose another name")
    return name


def _priced(name: str) -> str:
    try:
        parse_spec(name)
    except WarpsmithError as error:
        raise ValueError(error.message) from error
    return name


class RoleTable(_Table):
    """`[models.roles.coder]`"""

    model: str | None = None
    fallback: tuple[str, ...] | None = None


class RolesTable(_Table):
    """`[models.roles]`"""

    planner: RoleTable = RoleTable()
    coder: RoleTable = RoleTable()
    analyst: RoleTable = RoleTable()


class ModelsTable(_Table):
    """`[models]`: which model plays which role."""

    default: str | None = None
    """For every role that names none."""
    planner: str | None = None
    coder: str | None = None
    analyst: str | None = None
    fallback: tuple[str, ...] | None = None
    """For every role that names none."""
    roles: RolesTable = RolesTable()


class EndpointTable(_Table):
    """`[endpoints.NAME]`: a server of one's own, used as `NAME:model`; or what differs for `openai` and its like."""

    wire: Wire | None = None
    """chat: Chat Completions; responses: OpenAI's Responses; messages: Anthropic's Messages."""
    base_url: Annotated[str, AfterValidator(_address)] | None = None
    key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable that holds the key."""
    key_file: str | None = None
    """Path of a file that holds nothing but the key; `~` is understood, a relative path is relative to this file."""
    dialect: Dialect | None = None
    window: int | None = Field(default=None, ge=1_024)
    """Tokens of prompt and reply together."""
    output: int | None = Field(default=None, ge=16)
    """The most tokens that one reply may have."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds without a byte until a request counts as lost."""
    total_timeout: float | None = Field(default=None, gt=0)
    """Seconds that one request may take in all."""
    headers: dict[
        Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")], Annotated[str, Field(pattern=r"^[ -~]*$")]
    ] = {}
    """Sent with each request; none of them secret."""
    sends_reasoning_back: bool | None = None
    """`chat` only: whether a model's reasoning goes back with its messages; some servers demand it, some refuse it."""
    output_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """`chat` only: the field that bounds a reply, for servers that know just one of them."""


class BudgetsTable(_Table):
    """`[budgets]`: when a run ends, as the flags of `optimize` say it."""

    max_dollars: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, ge=1)
    iterations: int | None = Field(default=None, ge=1)
    patience: int | None = Field(default=None, ge=1)
    wall_time: str | None = None


class SettingsFile(_Table):
    """What one file says. Everything is absent that it does not say."""

    models: ModelsTable = ModelsTable()
    endpoints: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$"), AfterValidator(_provider)], EndpointTable] = {}
    prices: dict[Annotated[str, AfterValidator(_priced)], Annotated[Price, BeforeValidator(_day)]] = {}
    """`[prices."provider:model"]`: US dollars for a million tokens, over what `agents.models.catalogue` knows."""
    budgets: BudgetsTable = BudgetsTable()


def find_files(explicit: Path | None, folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """The files that count, the strongest first.

    explicit, or the nearest `warpsmith.toml` in `folder` and its parents up to the root of a git repository (without
    one only `folder` is looked at); below it the user's own in `$XDG_CONFIG_HOME/warpsmith` or `~/.config/warpsmith`.
    """
    found = [explicit] if explicit is not None else [path for path in [_nearest(folder.resolve())] if path is not None]
    own = _own(environ)
    if own.is_file() and not any(path.exists() and own.samefile(path) for path in found):
        found.append(own)
    return found


def stray_file(explicit: Path | None, files: Sequence[Path], environ: Mapping[str, str]) -> Path | None:
    """That of `files` which nobody named and which is not the user's own: it may have come with the folder."""
    own = _own(environ)
    if explicit is not None or not files or (own.is_file() and own.samefile(files[0])):
        return None
    return files[0]


def _own(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(home) / "warpsmith" / FILE_NAME


def _nearest(folder: Path) -> Path | None:
    above = [folder, *folder.parents]
    root = next((index for index, each in enumerate(above) if (each / ".git").exists()), 0)
    return next((each / FILE_NAME for each in above[: root + 1] if (each / FILE_NAME).is_file()), None)


def read_settings(path: Path) -> SettingsFile:
    """The file as a record. Raises SettingsFileError with the file, the key and what was meant."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsFileError(f"{path} is not TOML: {error}", "docs/models.md shows a whole file.") from error
    except OSError as error:
        raise SettingsFileError(f"{path} can't be read: {error.strerror}", "Name another with --config.") from error
    _refuse_secrets(path, raw)
    try:
        return SettingsFile.model_validate(raw)
    except ValidationError as error:
        raise _explain(path, error) from error


def key_path(text: str, settings_file: Path) -> Path:
    """Where a `key_file` is: relative to the file that names it."""
    return settings_file.parent / Path(text).expanduser()


def _refuse_secrets(path: Path, raw: dict[str, Any]) -> None:
    for keys, value in _leaves(raw):
        if not isinstance(value, str) or keys[-1] == "key_file":
            continue
        shaped = _SECRET_VALUE.search(value.strip()) or Scrubber().text(value) != value
        if not shaped and not _SECRET_NAME.match(keys[-1]):
            continue
        raise SettingsFileError(
            f"{path}: `{'.'.join(keys)}` looks like a secret, which has no place in a file that is shared",
            'Put the key into an environment variable and name that: key_env = "MY_KEY"; or key_file = "path". '
            "If it was a real key, replace it at the provider.",
        )


def _leaves(value: object, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, (*keys, str(key)))
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, keys)
    elif keys:
        yield keys, value


def _explain(path: Path, error: ValidationError) -> SettingsFileError:
    errors = error.errors()
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    where = tuple(str(part) for part in first["loc"] if part != "[key]")
    name = ".".join(where)
    if first["type"] != "extra_forbidden":
        said = first["msg"].removeprefix("Value error, ")
        return SettingsFileError(
            f"{path}: `{name}` can't be used: {said[:1].lower()}{said[1:]}",
            "docs/models.md says what may stand there.",
        )
    known = _known_keys(where[:-1])
    near = difflib.get_close_matches(where[-1], known, n=1, cutoff=0.5)
    advice = f"Did you mean `{near[0]}`? " if near else ""
    return SettingsFileError(f"{path}: there is no setting `{name}`", f"{advice}There are: {', '.join(known)}.")


def _known_keys(table: tuple[str, ...]) -> list[str]:
    """The keys that the table at this path may have."""
    kind: Any = SettingsFile
    for key in table:
        kind = get_args(kind)[1] if get_origin(kind) is dict else next(_records(kind)).model_fields[key].annotation
    return list(next(_records(kind)).model_fields)


def _records(kind: Any) -> Iterator[type[BaseModel]]:
    """The records that an annotation is about, under `| None` and validators."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _records(part)


def describe(path: Path) -> str:
    """A file as a person names it: relative to the current folder where it lies below it, `~` for the home folder."""
    here, home = Path.cwd(), Path("~").expanduser()
    full = path.resolve()
    if full.is_relative_to(here):
        return str(full.relative_to(here))
    return f"~/{full.relative_to(home)}" if full.is_relative_to(home) else str(full)
