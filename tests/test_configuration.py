"""Which setting wins, where it came from, and what can't be used: flags, environment, files, defaults."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.settings import ROLES
from app.configuration import Asked, Configuration, configure, fallbacks, require_usable
from tools.errors import WarpsmithError

LOCAL = '[endpoints.local]\nbase_url = "http://127.0.0.1:1/v1"\n'


def made(folder: Path, asked: Asked, environ: dict[str, str] | None = None, text: str = "") -> Configuration:
    if text:
        (folder / "warpsmith.toml").write_text(text)
    return configure(asked, {"HOME": str(folder / "home")} | (environ or {}), folder)


def specs(configuration: Configuration) -> dict[str, str]:
    return {role: configuration.roles[role].model.value for role in ROLES}


def test_nothing_said_is_the_built_in_model_for_every_role(tmp_path: Path) -> None:
    configuration = made(tmp_path, Asked())
    assert set(specs(configuration).values()) == {"builtin:autotune"}
    assert configuration.roles["coder"].model.source == "default" and configuration.files == ()
    require_usable(configuration)


@settings(max_examples=40, deadline=None)
@given(
    said=st.dictionaries(
        st.tuples(
            st.sampled_from(["flag", "variable", "file"]), st.sampled_from(["default", "planner", "coder", "analyst"])
        ),
        st.sampled_from(["openai:a", "anthropic:b", "local:c:7b"]),
    )
)
def test_the_stronger_layer_wins_and_within_it_the_narrower_setting(
    tmp_path_factory: pytest.TempPathFactory, said: dict[tuple[str, str], str]
) -> None:
    folder = tmp_path_factory.mktemp("layers")
    flags = {name: spec for (layer, name), spec in said.items() if layer == "flag"}
    asked = Asked(**{"model" if name == "default" else name: spec for name, spec in flags.items()})
    environ = {
        f"WARPSMITH_{'MODEL' if name == 'default' else name.upper()}": spec
        for (layer, name), spec in said.items()
        if layer == "variable"
    }
    lines = [f'{name} = "{spec}"' for (layer, name), spec in said.items() if layer == "file"]
    found = specs(made(folder, asked, environ, "\n".join(["[models]", *lines, LOCAL])))
    for role in ROLES:
        order = [(layer, name) for layer in ("flag", "variable", "file") for name in (role, "default")]
        assert found[role] == next((said[place] for place in order if place in said), "builtin:autotune")


def test_each_answer_says_where_it_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        '[models]\ndefault = "local:q"\nfallback = ["openai:a"]\n[budgets]\nmax_dollars = 3\nmax_tokens = 10\n' + LOCAL
    )
    environ = {"WARPSMITH_ANALYST": "anthropic:b", "WARPSMITH_MAX_DOLLARS": "4.5", "OPENAI_API_KEY": "k"}
    configuration = made(tmp_path, Asked(coder="openai:a", max_tokens=20), environ, text)
    sources = {role: configuration.roles[role].model.source for role in ROLES}
    assert sources == {"planner": "warpsmith.toml", "coder": "--coder", "analyst": "WARPSMITH_ANALYST"}
    assert configuration.roles["planner"].fallback.value == ("openai:a",)
    assert configuration.roles["coder"].fallback.value == ()  # a model is no fallback of itself
    assert {name: dataclasses.astuple(b) for name, b in configuration.budgets.items()} == {
        "max_tokens": (20, "--max-tokens"),
        "max_dollars": (4.5, "WARPSMITH_MAX_DOLLARS"),
    }
    assert configuration.endpoints.origin("local", "base_url") == "warpsmith.toml"
    assert configuration.endpoints.origin("openai", "key") == "OPENAI_API_KEY"


def test_fallbacks_for_all_for_one_role_and_for_none() -> None:
    assert fallbacks(["a:b, c:d:7b", "coder=e:f"]) == {"fallback": ("a:b", "c:d:7b"), "coder.fallback": ("e:f",)}
    assert fallbacks(["a:b", "c:d"]) == {"fallback": ("a:b", "c:d")}
    assert fallbacks(["coder=none"]) == {"coder.fallback": ()} and fallbacks([]) == {}


def test_a_fallback_flag_takes_a_file_s_away_and_autotune_needs_none(tmp_path: Path) -> None:
    text = '[models]\nfallback = ["openai:a"]\n[models.roles.coder]\nfallback = ["anthropic:b"]\n'
    configuration = made(tmp_path, Asked(model="openai:x", fallback=("none",)), text=text)
    assert all(configuration.roles[role].fallback.value == () for role in ROLES)
    configuration = made(tmp_path, Asked(model="openai:x"))
    assert configuration.roles["coder"].fallback.value == ("anthropic:b",)
    assert configuration.roles["planner"].fallback.value == ("openai:a",)
    require_usable(made(tmp_path, Asked()))


def test_addresses_go_to_the_provider_in_use(tmp_path: Path) -> None:
    def url(provider: str, *base_urls: str, model: str = "builtin:autotune", **environ: str) -> str | None:
        configuration = made(tmp_path, Asked(model=model, base_url=base_urls), environ)
        return configuration.connections.providers[provider].base_url

    assert url("openai-chat", "http://a/v1") == "http://a/v1"
    assert url("openai-chat", "http://a/v1", model="openai-chat:q") == "http://a/v1"
    assert url("anthropic", "http://a", model="anthropic:q", ANTHROPIC_BASE_URL="http://b") == "http://a"
    assert url("anthropic", model="anthropic:q", ANTHROPIC_BASE_URL="http://b") == "http://b"
    assert url("openai", "openai=http://a/x=1/v1", "http://b/v1") == "http://a/x=1/v1"
    with pytest.raises(WarpsmithError, match="could be for openai or anthropic"):
        made(tmp_path, Asked(planner="openai:a", coder="anthropic:b", base_url=("http://a",)))


def test_the_environment_wins_over_a_file_and_a_nearer_file_over_the_user_s_own(tmp_path: Path) -> None:
    own = tmp_path / "home" / ".config" / "warpsmith"
    own.mkdir(parents=True)
    (own / "warpsmith.toml").write_text(LOCAL + 'dialect = "json"\nwindow = 9000\n[endpoints.openai]\ntimeout = 7\n')
    text = '[endpoints.local]\nbase_url = "http://near/v1"\n[endpoints.openai]\nbase_url = "http://file/v1"\n'
    configuration = made(tmp_path, Asked(), {"OPENAI_BASE_URL": "http://variable/v1"}, text)
    local, openai = (configuration.connections.providers[name] for name in ("local", "openai"))
    assert (local.base_url, local.dialect, local.window, local.wire) == ("http://near/v1", "json", 9000, "chat")
    assert (openai.base_url, openai.timeout, openai.wire) == ("http://variable/v1", 7, "responses")
    assert configuration.endpoints.origin("openai", "base_url") == "OPENAI_BASE_URL"


def test_a_key_comes_from_its_variable_or_its_file_and_never_shows(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("planted-in-a-file\n")
    text = LOCAL + 'key_env = "LOCAL_KEY"\nkey_file = "key"\n'
    from_file = made(tmp_path, Asked(model="local:q"), text=text)
    from_variable = made(tmp_path, Asked(model="local:q"), {"LOCAL_KEY": "planted-in-a-variable"})
    for configuration, key in ((from_file, "planted-in-a-file"), (from_variable, "planted-in-a-variable")):
        held = configuration.connections.providers["local"].key
        assert held is not None and held.get_secret_value() == key
        assert "planted" not in repr(configuration)
        require_usable(configuration)


@pytest.mark.parametrize("content", [None, "", "two words"])
def test_a_key_file_without_a_key_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)
    with pytest.raises(WarpsmithError) as caught:
        made(tmp_path, Asked(), text=LOCAL + 'key_file = "key"\n')
    assert str(tmp_path / "key") in caught.value.message and caught.value.advice


def test_a_model_without_its_key_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(WarpsmithError) as caught:
        require_usable(made(tmp_path, Asked(coder="openai:gpt-x")))
    assert "openai:gpt-x" in caught.value.message and "OPENAI_API_KEY" in caught.value.message
    assert "warpsmith models" in caught.value.advice and "--fallback none" not in caught.value.advice
    with pytest.raises(WarpsmithError) as caught:
        require_usable(made(tmp_path, Asked(model="openai:a", fallback=("anthropic:b",)), {"OPENAI_API_KEY": "k"}))
    assert "ANTHROPIC_API_KEY" in caught.value.message and "--fallback none" in caught.value.advice


@pytest.mark.parametrize(
    ("asked", "environ", "said"),
    [
        (Asked(model="gpt-5"), {}, "openai:gpt-5"),
        (Asked(), {"WARPSMITH_CODER": "gpt-5"}, "WARPSMITH_CODER"),
        (Asked(fallback=("coder=gpt-5",)), {}, "gpt-5"),
        (Asked(model="nowhere:x"), {}, "nowhere"),
        (Asked(model="openai-chat:x"), {}, "--base-url"),
        (Asked(base_url=("127.0.0.1:8000",)), {}, "http://"),
        (Asked(base_url=("http://me:word@host/v1",)), {}, "password"),
        (Asked(base_url=("http://[::1/v1",)), {}, "--base-url"),
        (Asked(base_url=("http://host:99999/v1",)), {}, "--base-url"),
        (Asked(base_url=("http://host/v1?version=1",)), {}, "--base-url"),
        (Asked(model="openai:a\x1b[31m"), {}, "can't be seen"),
        (Asked(base_url=("nowhere=http://host/v1",)), {}, "nowhere"),
        (Asked(dialect=("latin",)), {}, "native, json, text"),
        (Asked(), {"WARPSMITH_MAX_DOLLARS": "much"}, "WARPSMITH_MAX_DOLLARS"),
        (Asked(), {"WARPSMITH_MAX_TOKENS": "-1"}, "WARPSMITH_MAX_TOKENS"),
    ],
)
def test_what_can_not_be_used_is_said_before_anything_is_built(
    tmp_path: Path, asked: Asked, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(WarpsmithError) as caught:
        require_usable(made(tmp_path, asked, environ))
    assert said in str(caught.value) and caught.value.advice and "word@" not in str(caught.value)
    assert not caught.value.message.endswith(".") and "….'" not in str(caught.value)


def test_an_endpoint_without_an_address_is_named(tmp_path: Path) -> None:
    with pytest.raises(WarpsmithError, match=r"endpoints\.local"):
        made(tmp_path, Asked(), text='[endpoints.local]\nwire = "chat"\n')


SENDS = '[endpoints.{name}]\nbase_url = "{to}"\n{more}'
AWAY = "http://elsewhere.example/v1"


@pytest.mark.parametrize(
    ("name", "to", "more", "key"),
    [
        ("openai", AWAY, "", "OPENAI_API_KEY"),
        ("openai", "http://127.0.0.1:8000/v1", "", "OPENAI_API_KEY"),
        ("openai", "http://api.openai.com/v1", "", "OPENAI_API_KEY"),
        ("openai", "https://api.openai.com.example/v1", "", "OPENAI_API_KEY"),
        ("openai", "https://evilopenai.com/v1", "", "OPENAI_API_KEY"),
        ("anthropic", AWAY, "", "ANTHROPIC_API_KEY"),
        ("openai-chat", AWAY, "", "WARPSMITH_API_KEY"),
        ("local", AWAY, 'key_env = "OPENAI_API_KEY"\n', "OPENAI_API_KEY"),
        ("local", AWAY, 'key_env = "ANTHROPIC_API_KEY"\n', "ANTHROPIC_API_KEY"),
        ("local", AWAY, 'key_env = "OPENROUTER_API_KEY"\n', "OPENROUTER_API_KEY"),
        ("local", AWAY, 'key_env = "GITHUB_TOKEN"\n', "GITHUB_TOKEN"),
        ("local", AWAY, 'key_file = "{home}/secret"\n', "secret"),
        ("local", AWAY, 'key_file = "../secret"\n', "secret"),
        ("local", AWAY, 'key_file = "link"\n', "secret"),
        ("mine", AWAY, "", "MINE"),
    ],
)
def test_a_file_that_lay_in_the_folder_turns_no_key_elsewhere(
    tmp_path: Path, name: str, to: str, more: str, key: str
) -> None:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "deep" / "er").mkdir(parents=True)
    own = tmp_path / "home" / ".config" / "warpsmith"
    own.mkdir(parents=True)
    (tmp_path / "secret").write_text("planted-in-a-file")
    (tmp_path / "home" / "secret").write_text("planted-in-a-file")
    (root / "link").symlink_to(tmp_path / "secret")
    (own / "warpsmith.toml").write_text('[endpoints.mine]\nbase_url = "https://mine.example/v1"\nkey_env = "MINE"\n')
    (root / "warpsmith.toml").write_text(SENDS.format(name=name, to=to, more=more.format(home=tmp_path / "home")))
    environ = {key: "planted-key-1", "HOME": str(tmp_path / "home")}
    for folder in (root, root / "deep" / "er"):
        configuration = configure(Asked(model=f"{name}:m"), environ, folder)
        assert configuration.connections.providers[name].key is None
        with pytest.raises(WarpsmithError) as caught:
            require_usable(configuration)
        said = str(caught.value)
        assert all(part in said for part in ("warpsmith.toml", key, to, "--base-url", "--config"))
        assert "planted" not in said
        require_usable(configure(Asked(model="builtin:autotune"), environ, folder))


@pytest.mark.parametrize(
    ("name", "to", "more", "key"),
    [
        ("local", AWAY, 'key_env = "LOCAL_KEY"\n', "LOCAL_KEY"),
        ("local", AWAY, 'key_file = "keys/local"\n', ""),
        ("openrouter", "https://openrouter.ai/api/v1", 'key_env = "OPENROUTER_API_KEY"\n', "OPENROUTER_API_KEY"),
        ("openai", "https://eu.api.openai.com/v1", "", "OPENAI_API_KEY"),
    ],
)
def test_a_file_that_lay_in_the_folder_may_name_a_key_of_its_own(
    tmp_path: Path, name: str, to: str, more: str, key: str
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "local").write_text("planted-key-1")
    environ = {key: "planted-key-1"} if key else {}
    configuration = made(tmp_path, Asked(model=f"{name}:m"), environ, SENDS.format(name=name, to=to, more=more))
    require_usable(configuration)
    assert configuration.connections.providers[name].secret == "planted-key-1"


@pytest.mark.parametrize("by", ["flag", "variable", "--config", "own"])
def test_whoever_names_an_address_may_have_any_key_sent_there(tmp_path: Path, by: str) -> None:
    environ = {"OPENAI_API_KEY": "planted-key-1"}
    asked = Asked(model="openai:m")
    text = SENDS.format(name="openai", to=AWAY, more="")
    own = tmp_path / "home" / ".config" / "warpsmith"
    own.mkdir(parents=True)
    if by == "own":
        (own / "warpsmith.toml").write_text(text)
    else:
        (tmp_path / "warpsmith.toml").write_text(text)
    if by == "flag":
        asked = dataclasses.replace(asked, base_url=(AWAY,))
    elif by == "variable":
        environ["OPENAI_BASE_URL"] = AWAY
    elif by == "--config":
        asked = dataclasses.replace(asked, config=tmp_path / "warpsmith.toml")
    for folder in (tmp_path, *([own] if by == "own" else [])):
        configuration = configure(asked, environ | {"HOME": str(tmp_path / "home")}, folder)
        require_usable(configuration)
        openai = configuration.connections.providers["openai"]
        assert (openai.base_url, openai.secret) == (AWAY, "planted-key-1")
