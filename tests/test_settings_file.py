"""`warpsmith.toml`: found where it should be, read whole, and refused in one helpful sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.settings_file import SettingsFileError, find_files, key_path, read_settings

WHOLE = """
[models]
default = "anthropic:claude-x@high"
planner = "openai:gpt-x"
fallback = ["local:qwen3"]

[models.roles.coder]
fallback = ["openai:gpt-x", "local:qwen3:30b"]

[endpoints.local]
wire = "chat"
base_url = "http://127.0.0.1:8000/v1"
key_env = "LOCAL_KEY"
dialect = "json"
window = 32768
output = 4096
timeout = 30
headers = { "X-Title" = "kernels" }

[prices."local:qwen3"]
input = 0
output = 0.5
date = 2026-11-30

[budgets]
max_dollars = 5
max_tokens = 2000000
wall_time = "2h"
"""


def settings(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "warpsmith.toml"
    path.write_text(text)
    return path


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    read = read_settings(settings(tmp_path, WHOLE))
    assert read.models.default == "anthropic:claude-x@high" and read.models.planner == "openai:gpt-x"
    assert read.models.roles.coder.fallback == ("openai:gpt-x", "local:qwen3:30b")
    assert read.endpoints["local"].window == 32768 and read.endpoints["local"].headers == {"X-Title": "kernels"}
    assert read.prices["local:qwen3"].date == "2026-11-30" and read.prices["local:qwen3"].cached is None
    assert (read.budgets.max_dollars, read.budgets.max_tokens, read.budgets.wall_time) == (5, 2_000_000, "2h")


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("[modles]\n", "modles", "models"),
        ('[models]\ndefualt = "a:b"\n', "models.defualt", "default"),
        ('[models.roles.coder]\nfalback = ["a:b"]\n', "models.roles.coder.falback", "fallback"),
        ('[models.roles.codr]\nmodel = "a:b"\n', "models.roles.codr", "coder"),
        ('[endpoints.local]\nurl = "http://x"\n', "endpoints.local.url", "base_url"),
        ('[prices."a:b"]\ninput = 1\noutput = 1\ncache = 1\n', "prices.a:b.cache", "cached"),
        ('[prices."a:b".long]\nabove = 1\ninput = 1\noutput = 1\ncash = 1\n', "prices.a:b.long.cash", "cached"),
        ("[budgets]\ndollars = 5\n", "budgets.dollars", "max_dollars"),
    ],
)
def test_an_unknown_key_names_file_key_and_the_nearest_known(tmp_path: Path, text: str, key: str, near: str) -> None:
    path = settings(tmp_path, text)
    with pytest.raises(SettingsFileError) as caught:
        read_settings(path)
    assert str(path) in caught.value.message and f"`{key}`" in caught.value.message
    assert f"Did you mean `{near}`?" in caught.value.advice


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[models\n", "not TOML"),
        ('[endpoints.local]\nwire = "smoke"\n', "endpoints.local.wire"),
        ('[endpoints.local]\nbase_url = "127.0.0.1:8000"\n', "endpoints.local.base_url"),
        ('[endpoints.local]\nbase_url = "http://me:word@host/v1"\n', "endpoints.local.base_url"),
        *(
            (f'[endpoints.local]\nbase_url = "{address}"\n', "endpoints.local.base_url")
            for address in (
                "http:///v1",
                "http://[::1/v1",
                "http://h:x/v1",
                "http://h:99999/v1",
                "http://h/v1?a",
                "ftp://h",
            )
        ),
        ("[endpoints.local]\ntimeout = inf\n", "endpoints.local.timeout"),
        ('[endpoints.local.headers]\n"X Y" = "z"\n', "endpoints.local.headers"),
        ('[endpoints.local.headers]\nX = "a\\nb"\n', "endpoints.local.headers.X"),
        ('[endpoints.local.headers]\nX = "\u00fc"\n', "endpoints.local.headers.X"),
        ('[endpoints.builtin]\nbase_url = "http://h/v1"\n', "endpoints.builtin"),
        ('[endpoints.replay]\nbase_url = "http://h/v1"\n', "endpoints.replay"),
        ('[endpoints.Local]\nwire = "chat"\n', "Local"),
        ('[models]\nfallback = "a:b"\n', "models.fallback"),
        ("[budgets]\nmax_dollars = 0\n", "budgets.max_dollars"),
        ("[budgets]\nmax_dollars = inf\n", "budgets.max_dollars"),
        ("[prices.gpt]\ninput = 1\noutput = 1\ndate = 2026-11-30\n", "prices.gpt"),
        ('[prices."a:b"]\ninput = inf\noutput = 1\ndate = 2026-11-30\n', "prices.a:b.input"),
        ('[prices."a:b"]\ninput = 1\ndate = 2026-11-30\n', "prices.a:b.output"),
        ('[prices."a:b"]\ninput = 1\noutput = 1\n', "prices.a:b.date"),
    ],
)
def test_what_can_not_stand_there_is_said_with_its_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsFileError) as caught:
        read_settings(settings(tmp_path, text))
    assert said in caught.value.message and caught.value.advice and not caught.value.message.endswith(".")
    assert "word" not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        '[endpoints.local]\napi_key = "x"\n',
        '[endpoints.local]\nkey = "short"\n',
        '[endpoints.local]\nkey_env = "sk-ant-api03-a1b2a1b2a1b2a1b2a1b2a1b2"\n',
        '[endpoints.local.headers]\nAuthorization = "Bearer abc"\n',
        '[endpoints.local.headers]\nX-Api-Key = "abc"\n',
        '[endpoints.local.headers]\nX-Other = "AIzaSyA1234567890abcdefgh"\n',
        '[endpoints.local]\nbase_url = "https://host/v1?k=abcdef0123456789abcdef0123"\n',
        '[models]\ndefault = "sk-proj-0123456789abcdef0123"\n',
    ],
)
def test_a_secret_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsFileError) as caught:
        read_settings(settings(tmp_path, text))
    value = text.split('"')[1]
    assert "secret" in caught.value.message and "key_env" in caught.value.advice
    assert value not in str(caught.value) or value in ("x", "short")


@pytest.mark.parametrize("name", ["MYCORP_LLM_GATEWAY_PRODUCTION_KEY_2026", "KEY", "_k1"])
def test_the_name_of_a_variable_is_no_secret(tmp_path: Path, name: str) -> None:
    read = read_settings(
        settings(tmp_path, f'[endpoints.local]\nkey_env = "{name}"\nkey_file = "a/0123456789abcdef0123456789"\n')
    )
    assert read.endpoints["local"].key_env == name


def test_the_nearest_file_up_to_the_repository_and_the_user_s_own_below_it(tmp_path: Path) -> None:
    home, repository = tmp_path / "home", tmp_path / "outer" / "repository"
    inner = repository / "a" / "b"
    inner.mkdir(parents=True)
    (repository / ".git").mkdir()
    settings(tmp_path / "outer", "")
    own = settings(home / ".config" / "warpsmith", "")
    environ = {"HOME": str(home)}
    assert find_files(None, inner, environ) == [own]
    top = settings(repository, "")
    assert find_files(None, inner, environ) == [top, own]
    near = settings(inner, "")
    assert find_files(None, inner, environ) == [near, own]
    assert find_files(top, inner, environ) == [top, own]
    assert find_files(None, inner, {"XDG_CONFIG_HOME": str(tmp_path / "none"), "HOME": str(home)}) == [near]
    assert find_files(own, inner, environ) == [own]


def test_without_a_repository_only_the_current_folder_counts(tmp_path: Path) -> None:
    settings(tmp_path, "")
    below = tmp_path / "below"
    below.mkdir()
    environ = {"HOME": str(tmp_path / "nobody")}
    assert find_files(None, below, environ) == []
    assert find_files(None, tmp_path, environ) == [tmp_path / "warpsmith.toml"]


def test_a_key_file_is_relative_to_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert key_path("keys/one", tmp_path / "warpsmith.toml") == tmp_path / "keys/one"
    assert key_path("~/one", tmp_path / "warpsmith.toml") == tmp_path / "home/one"


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsFileError) as caught:
        read_settings(tmp_path / "none.toml")
    assert "none.toml" in caught.value.message and "--config" in caught.value.advice


def test_every_settings_file_in_the_documentation_can_be_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8")
    shown = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(shown) >= 3
    for each in shown:
        assert read_settings(settings(tmp_path, each)).endpoints
