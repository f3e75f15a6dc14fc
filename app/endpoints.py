"""Where each provider is reached and with which key, put together from flags, environment and settings files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr

from agents.models.base import Dialect
from agents.models.connections import BUILT_IN, Connection, Connections, is_address
from agents.models.spec import TAKES_REST_AS_IT_IS
from app.settings_file import EndpointTable, SettingsFile, SettingsFileError, describe, key_path
from app.trust import may_read, may_send
from tools.errors import WarpsmithError

URL_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL", "openai-chat": "WARPSMITH_BASE_URL"}


@dataclass(frozen=True)
class Endpoints:
    """All providers, and the source of each setting of theirs: provider to field to a flag, a variable or a file."""

    connections: Connections
    origins: Mapping[str, Mapping[str, str]]
    objections: Mapping[str, SettingsFileError]
    """Providers whose key is held back, and why."""

    def origin(self, provider: str, field: str) -> str:
        """Where that setting was made; empty when it is built in."""
        return self.origins.get(provider, {}).get(field, "")


def endpoints_of(
    urls: Mapping[str, str],
    dialects: Mapping[str, str],
    environ: Mapping[str, str],
    files: Iterable[tuple[Path, SettingsFile]],
    stray: Path | None = None,
) -> Endpoints:
    """`urls` and `dialects` come from flags and win; then the environment; then the files, the strongest first.

    stray: the file that may have come with the folder; no key goes to an address in it that is not for it.

    Raises WarpsmithError: a server without an address, a key file that can't be read, a flag for a provider that
    there is not.
    """
    files = list(files)
    names = dict.fromkeys([*BUILT_IN, *(name for _, read in files for name in read.endpoints)])
    for flag, named in (("--base-url", urls), ("--dialect", dialects)):
        for name in named:
            if name not in names:
                raise WarpsmithError(
                    f"{flag} names the provider `{name}`, which there is not",
                    f"There are: {', '.join(names)}; [endpoints.{name}] in warpsmith.toml makes another.",
                )
    made = {name: _endpoint(name, urls, dialects, environ, files, stray=stray) for name in names}
    return Endpoints(
        Connections(providers={name: connection for name, (connection, _, _) in made.items()}),
        {name: origins for name, (_, origins, _) in made.items()},
        {name: objection for name, (_, _, objection) in made.items() if objection is not None},
    )


def by_provider(flag: str, texts: Iterable[str], providers: Iterable[str]) -> dict[str, str]:
    """`[PROVIDER=]VALUE` by provider. Without a name it is `openai-chat` where a role uses that, else the only one.

    providers: of the roles' models. Raises WarpsmithError.
    """
    used = [name for name in dict.fromkeys(providers) if name not in TAKES_REST_AS_IT_IS]
    found: dict[str, str] = {}
    for text in texts:
        head, equals, tail = text.partition("=")
        named = bool(equals) and "/" not in head and ":" not in head
        value = _CHECKS[flag](flag, tail if named else text)
        if named:
            found[head.strip()] = value
        elif "openai-chat" in used or not used:
            found["openai-chat"] = value
        elif len(used) == 1:
            found[used[0]] = value
        else:
            raise WarpsmithError(
                f"{flag} {text} could be for {' or '.join(used)}", f"Say which: {flag} {used[0]}={text}"
            )
    return found


def _url(flag: str, text: str) -> str:
    if not is_address(text.strip()) or "@" in text:
        raise WarpsmithError(
            f"{flag} needs an address that begins with http:// or https:// and holds no password, `?` or `#`",
            f"For instance: {flag} http://127.0.0.1:8000/v1",
        )
    return text.strip()


def _dialect(flag: str, text: str) -> str:
    if text.strip() not in get_args(Dialect):
        raise WarpsmithError(f"{flag} {text} is no dialect", f"There are: {', '.join(get_args(Dialect))}.")
    return text.strip()


_CHECKS = {"--base-url": _url, "--dialect": _dialect}
"""What each flag's value must be."""


def _endpoint(
    name: str,
    urls: Mapping[str, str],
    dialects: Mapping[str, str],
    environ: Mapping[str, str],
    files: list[tuple[Path, SettingsFile]],
    *,
    stray: Path | None,
) -> tuple[Connection, dict[str, str], SettingsFileError | None]:
    """One provider's connection, where its settings come from, and why its key is held back."""
    said: dict[str, tuple[Any, str, Path]] = {}
    for path, read in files:
        for field, value in _set_fields(read.endpoints.get(name, EndpointTable())).items():
            said.setdefault(field, (value, describe(path), path))
    values: dict[str, Any] = {field: value for field, (value, _, _) in said.items() if field != "key_file"}
    origins = {field: source for field, (_, source, _) in said.items()}
    for field, value, source in (
        ("base_url", environ.get(URL_VARIABLES.get(name, ""), "").strip(), URL_VARIABLES.get(name, "")),
        ("base_url", urls.get(name), "--base-url"),
        ("dialect", dialects.get(name), "--dialect"),
    ):
        if value:
            values[field], origins[field] = value, source
    own = BUILT_IN.get(name)
    if own is None:
        _require_address(name, values, origins)
        own = Connection(wire=values.get("wire", "chat"), needs_key=bool({"key_env", "key_file"} & said.keys()))
    connection = own.model_copy(update=values)
    key, source = _key(connection, said, environ)
    strays = {field for field, (_, _, path) in said.items() if path == stray}
    from_stray = "base_url" in strays and origins["base_url"] == said["base_url"][1]
    objection = _objection(name, connection, source, strays, said) if key and from_stray else None
    if key and objection is None:
        connection, origins["key"] = connection.model_copy(update={"key": SecretStr(key)}), source
    return Connection.model_validate(connection.model_dump()), origins, objection


def _objection(
    name: str, connection: Connection, source: str, strays: set[str], said: Mapping[str, tuple[Any, str, Path]]
) -> SettingsFileError | None:
    """What speaks against sending the key found in `source` to an address out of a file that may have come with the
    folder; `strays` are the settings out of it."""
    address = connection.base_url or ""
    if source == connection.key_env:
        fine = may_send(source, address, "key_env" in strays)
    else:
        text, _, settings = said["key_file"]
        fine = "key_file" in strays and may_read(key_path(text, settings), settings)
    if fine:
        return None
    variable = f", {URL_VARIABLES[name]}" if name in URL_VARIABLES else ""
    return SettingsFileError(
        f"{said['base_url'][1]} would send the key in {source} to {address}, which a file that just lay in the folder "
        "may not decide",
        f"If you mean it, name the address by --base-url {name}={address}{variable} or in your own "
        "~/.config/warpsmith/warpsmith.toml, or the file by --config. If not, take base_url out.",
    )


def _set_fields(table: EndpointTable) -> dict[str, Any]:
    return {field: value for field, value in table.model_dump(exclude_none=True).items() if value not in ({},)}


def _require_address(name: str, values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    if "base_url" not in values:
        where = next(iter(origins.values()), "warpsmith.toml")
        raise SettingsFileError(
            f"{where}: [endpoints.{name}] has no address", 'Add one: base_url = "http://127.0.0.1:8000/v1"'
        )


def _key(
    connection: Connection, said: Mapping[str, tuple[Any, str, Path]], environ: Mapping[str, str]
) -> tuple[str, str]:
    """The key and where it was found; the variable wins over the file."""
    key = environ.get(connection.key_env, "").strip() if connection.key_env else ""
    if key:
        return key, connection.key_env
    if "key_file" not in said:
        return "", ""
    text, source, settings = said["key_file"]
    path = key_path(text, settings)
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsFileError(
            f"{source}: the key file {path} can't be read", "Make it, or take key_file out."
        ) from error
    if not key or len(key.split()) != 1:
        raise SettingsFileError(f"{source}: the key file {path} does not hold one key", "It may hold nothing else.")
    return key, describe(path)
