"""`warpsmith models` and `models test` as a person runs them, against real servers on the three wires."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agents.models.base import ChatModel, Reply, ToolCall, Usage
from agents.models.catalogue import Price
from app.cli import app
from app.probe import Probe, probe, window_check
from tests.llm_server import Answer, Call, LlmServer, Tokens, breaks, status
from tests.scripted_model import Line, ScriptedModel, says
from tests.talking_run import Brain

BOTH = (Call("add", {"a": 2, "b": 3}), Call("add", {"a": 40, "b": 17}))
GOOD = [Answer("", calls=BOTH), Answer("The sums are 5 and 57, as the tool says.")]
PLANTED = "planted-key-0123456789abcdef"


class Ran(NamedTuple):
    """How the command ended and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Warpsmith:
    """The command in this process, in a folder of its own and with nothing in the environment but what is given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.chdir(folder)
        for name in [name for name in os.environ if "API_KEY" in name or "BASE_URL" in name or "WARPSMITH" in name]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(folder / "home"))
        monkeypatch.setenv("COLUMNS", "140")

    def __call__(self, *arguments: object, **environ: str) -> Ran:
        for name, value in environ.items():
            self._monkeypatch.setenv(name, value)
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            app(list(map(str, arguments)))
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, *self._capsys.readouterr())


@pytest.fixture
def warpsmith(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Warpsmith:
    return Warpsmith(tmp_path, monkeypatch, capsys)


def checks(done: Probe | dict[str, Any]) -> dict[str, str]:
    listed = done["checks"] if isinstance(done, dict) else [check.model_dump() for check in done.checks]
    return {check["name"]: check["works"] for check in listed}


def test_models_lists_roles_keys_windows_and_prices_and_never_a_key(tmp_path: Path, warpsmith: Warpsmith) -> None:
    (tmp_path / "warpsmith.toml").write_text(
        '[models]\ndefault = "openai:gpt-6-sol@high"\nfallback = ["local:qwen3:30b"]\n'
        '[endpoints.local]\nbase_url = "http://127.0.0.1:9/v1"\nwindow = 32768\ndialect = "json"\n'
        '[prices."local:qwen3:30b"]\ninput = 0\noutput = 0.5\ndate = 2026-11-01\n[budgets]\nmax_dollars = 3\n'
    )
    done = warpsmith("models", "--json", "--coder", "anthropic:claude-opus-5", OPENAI_API_KEY=PLANTED)
    listing = json.loads(done.stdout)
    assert done.returncode == 1 and PLANTED not in done.stdout  # the coder's key is missing
    rows = {(row["role"], row["place"]): row for row in listing["models"]}
    planner, coder, fallback = rows["planner", 0], rows["coder", 0], rows["planner", 1]
    assert (planner["model"], planner["source"]) == ("openai:gpt-6-sol@high", "warpsmith.toml")
    assert planner["window"] and planner["price"]["date"] and planner["problem"] == ""
    assert coder["source"] == "--coder" and "ANTHROPIC_API_KEY" in coder["problem"]
    assert (fallback["window"], fallback["price"]["output"], fallback["price_source"]) == (32768, 0.5, "warpsmith.toml")
    ends = {row["provider"]: row for row in listing["endpoints"]}
    assert (ends["openai"]["key"], ends["openai"]["key_source"]) == ("present", "OPENAI_API_KEY")
    assert (ends["anthropic"]["key"], ends["local"]["key"]) == ("missing", "not needed")
    assert ends["local"]["dialect"] == "json" and ends["local"]["address_source"] == "warpsmith.toml"
    assert listing["budgets"] == {"max_dollars": {"value": 3, "source": "warpsmith.toml"}}
    text = warpsmith("models", OPENAI_API_KEY=PLANTED)
    assert text.returncode == 0 and PLANTED not in text.stdout
    for expected in (
        "OPENAI_API_KEY present",
        "ANTHROPIC_API_KEY not set",
        "http://127.0.0.1:9/v1",
        "2026-11-01",
        "json",
        "max dollars $3.00 (warpsmith.toml)",
    ):
        assert expected in text.stdout


def test_a_key_that_a_stray_file_would_send_away_is_listed_as_withheld_and_never_sent(
    tmp_path: Path, warpsmith: Warpsmith
) -> None:
    with LlmServer() as server:
        (tmp_path / "warpsmith.toml").write_text(
            f'[models]\ndefault = "openai:m"\n[endpoints.openai]\nbase_url = "{server.url}/v1"\n'
        )
        listed = warpsmith("models", OPENAI_API_KEY=PLANTED)
        tested = warpsmith("models", "test", "openai:m", OPENAI_API_KEY=PLANTED)
        meant = warpsmith("models", "--base-url", f"{server.url}/v1", OPENAI_API_KEY=PLANTED)
    assert listed.returncode == 1 and "OPENAI_API_KEY withheld" in listed.stdout and "--config" in listed.stdout
    assert tested.returncode == 2 and "may not decide" in tested.stderr and server.requests == []
    assert meant.returncode == 0 and "OPENAI_API_KEY present" in meant.stdout
    assert PLANTED not in "".join(each.stdout + each.stderr for each in (listed, tested, meant))


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic"])
def test_a_good_model_passes_on_every_wire_and_costs_what_was_reported(
    tmp_path: Path, warpsmith: Warpsmith, provider: str
) -> None:
    told = [
        Answer(a.text, calls=a.calls, tokens=Tokens(input=1300 + 100 * n, output=40, cached=1024 * n))
        for n, a in enumerate(GOOD)
    ]
    with LlmServer(told) as server:
        server.window = 200_000
        url = server.connections().providers[provider].base_url
        (tmp_path / "warpsmith.toml").write_text(
            f'[prices."{provider}:m"]\ninput = 2\ncached = 1\noutput = 10\ndate = 2026-11-30\n'
        )
        done = warpsmith(
            *("models", "test", f"{provider}:m", "--base-url", f"{provider}={url}", "--json"),
            OPENAI_API_KEY=PLANTED,
            ANTHROPIC_API_KEY=PLANTED,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert set(checks(result).values()) <= {"yes"}, result
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (2700, 80)
    assert result["dollars"] == pytest.approx((2700 - 1024) * 2e-6 + 1024 * 1e-6 + 80 * 10e-6)
    assert len(server.requests) == 2 and PLANTED not in done.stdout


def test_a_dead_address_and_a_stalled_server_are_said_quickly(tmp_path: Path, warpsmith: Warpsmith) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    done = warpsmith("models", "test", "openai-chat:m", "--base-url", dead)
    assert done.returncode == 2 and "reachable" in done.stdout and "failed" in done.stdout, done.stdout + done.stderr
    with LlmServer([]) as server:
        server.faults.append(breaks("stall"))
        url = server.connections().providers["openai-chat"].base_url
        done = warpsmith("models", "test", "openai-chat:m", "--base-url", url, "--timeout", 1, "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 2 and "1 s" in result["failure"] and checks(result)["reachable"] == "no"


def test_a_refused_key_is_reachable_and_fails(tmp_path: Path, warpsmith: Warpsmith) -> None:
    with LlmServer([]) as server:
        server.faults.append(status(401, type="authentication_error", message="invalid x-api-key"))
        url = server.connections().providers["anthropic"].base_url
        done = warpsmith("models", "test", "anthropic:m", "--base-url", url, "--json", ANTHROPIC_API_KEY=PLANTED)
    result = json.loads(done.stdout)
    assert done.returncode == 2 and checks(result)["reachable"] == "yes" and checks(result)["tools"] == "unknown"
    assert result["failure"] and result["advice"] and PLANTED not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["models", "test", "openai:m"], "OPENAI_API_KEY"),
        (["models", "test", "m"], "provider"),
        (["models", "test", "builtin:autotune"], "nothing to test"),
        (["models", "test", "replay:nowhere"], "nothing to test"),
        (["models", "test", "openai-chat:m"], "--base-url"),
        (["models", "--config", "nowhere.toml"], "nowhere.toml"),
        (["optimize", "task.py", "--model", "openai:m"], "OPENAI_API_KEY"),
        (["optimize", "task.py", "--max-dollars", "0"], "--max-dollars"),
        (["optimize", "task.py", "--fallback", "coder=m"], "provider"),
    ],
)
def test_what_can_not_be_asked_is_one_sentence_and_nothing_is_made(
    tmp_path: Path, warpsmith: Warpsmith, arguments: list[str], said: str
) -> None:
    (tmp_path / "task.py").write_text(
        "import numpy as np\ndef inputs(rng): return {'x': rng.random(9)}\ndef reference(x): return {'y': x}\n"
    )
    done = warpsmith(*arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 2
    assert said in done.stderr and "…." not in done.stderr and not (tmp_path / "runs").exists()


def called(*calls: tuple[str, str], **fields: Any) -> Reply:
    made = tuple(ToolCall(id=f"c{n}", name=name, arguments=text) for n, (name, text) in enumerate(calls))
    return Reply(tool_calls=made, usage=Usage(input_tokens=10, output_tokens=5), stop="tools", **fields)


async def tried(*script: Line) -> Probe:
    model: ChatModel = ScriptedModel(list(script))
    price = Price(input=1, output=1, date="2026-11-30")
    return await probe(model, price, 30.0, known_window=200_000, ask_window=None)


async def test_what_a_weak_model_does_is_told_apart() -> None:
    twice = called(("add", '{"a": 2, "b": 3}'), ("add", '{"a": 40, "b": 17}'))
    cases: list[tuple[Line, str, str]] = [
        (says("I would rather write [bold]a poem\x1b[2J"), "no", "unknown"),
        (called(("add", '{"a": 2, "b": 3}')), "yes", "no"),
        (twice, "yes", "yes"),
        (called(("add", '{"a": 2, "b": 3')), "no", "no"),
        (called(("add", '{"a": "2", "b": 3}')), "no", "no"),
        (called(("sum", '{"a": 2, "b": 3}')), "no", "no"),
        (called(("add", '{"a": 2, "b": 3}'), dialect="json"), "yes", "no"),
        (twice.model_copy(update={"stop": "length"}), "no", "yes"),
    ]
    for first, tools, parallel in cases:
        done = await tried(first, says("5 and 57"))
        assert (checks(done)["tools"], checks(done)["parallel tools"]) == (tools, parallel), done
        assert "\x1b" not in done.model_dump_json()
    json_tools = next(c for c in (await tried(cases[6][0], says("5"))).checks if c.name == "tools")
    assert "json dialect" in json_tools.found


@pytest.mark.parametrize(
    ("told", "known", "used", "works"),
    [
        (None, None, 128_000, "unknown"),
        (8_192, None, 128_000, "no"),
        (200_000, None, 128_000, "yes"),
        (8_192, 32_768, 32_768, "no"),
        (8_192, 8_192, 8_192, "yes"),
        (65_536, 8_192, 8_192, "yes"),
        (None, 8_192, 8_192, "yes"),
    ],
)
def test_a_window_that_the_server_does_not_have_is_found(
    told: int | None, known: int | None, used: int, works: str
) -> None:
    check = window_check(told, known, used)
    assert check.works == works and ("`window`" in check.found) == (works != "yes")


KERNEL = """
#include "task.h"
// tune: BLOCK = 8,10
#ifndef BLOCK
#define BLOCK 8
#endif
extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i < args.x_size; i += BLOCK)
        for (int64_t k = i; k < i + BLOCK && k < args.x_size; ++k) args.y[k] = args.x[k] + 1.0;
}
"""


@pytest.mark.slow
def test_a_run_from_the_command_line_books_what_the_server_reported_and_leaves_no_key(
    tmp_path: Path, warpsmith: Warpsmith
) -> None:
    (tmp_path / "task.py").write_text(
        "import numpy as np\ndef inputs(rng): return {'x': rng.random(4096)}\ndef reference(x): return {'y': x + 1}\n"
    )
    (tmp_path / "task.cpp").write_text(KERNEL)
    with LlmServer(Brain()) as server:
        (tmp_path / "warpsmith.toml").write_text(
            f'[models]\ndefault = "mine:m"\n[endpoints.mine]\nbase_url = "{server.url}/v1"\nkey_env = "MINE"\n'
            '[prices."mine:m"]\ninput = 1\noutput = 2\ndate = 2026-11-30\n'
        )
        done = warpsmith("optimize", "task.py", "--iterations", 1, "--max-dollars", 2, "--json", MINE=PLANTED)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    rows = result["spending"]["rows"]
    assert {row["role"] for row in rows} == {"planner", "coder", "analyst"}
    assert sum(row["input_tokens"] for row in rows) == server.total.input
    assert sum(row["output_tokens"] for row in rows) == server.total.output
    assert sum(row["dollars"] for row in rows) == pytest.approx((server.total.input + 2 * server.total.output) * 1e-6)
    assert "mine:m" in done.stderr and server.url in done.stderr and "warpsmith.toml" in done.stderr
    held = [path for path in Path(result["path"]).rglob("*") if path.is_file()]
    assert "Models and money" in Path(result["report"]).read_text()
    assert not [path for path in held if PLANTED.encode() in path.read_bytes()] and PLANTED not in done.stderr
    assert json.loads((Path(result["path"]) / "config.json").read_text())["endpoints"]["mine"]["key_env"] == "MINE"
    assert all(request.headers["authorization"] == f"Bearer {PLANTED}" for request in server.requests)
