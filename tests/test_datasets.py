"""Runs written as data sets: every line in its columns' types, filtered, without private parts, whole or not at all."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripted_model import says
from scripted_run import Stage, judge, proposal, reading, set_up
from synthetic_run import make_run

from agents import privacy
from agents.dataset_card import card
from agents.dataset_schema import COLUMNS, KINDS, Kind, misfit
from agents.datasets import Counted, Wanted, export
from agents.privacy import Privacy
from agents.secrets import Scrubber
from memory.files import RunFolderError
from memory.runs import RunFolder
from tools.errors import WarpsmithError
from tools.records import Kernel, Unjudged

EVERYTHING = Wanted(kinds=KINDS)


def lines_of(folder: Path, kind: Kind) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{kind}.jsonl").read_text().split("\n") if line]


def written(runs: list[RunFolder], folder: Path, wanted: Wanted = EVERYTHING, **more: Any) -> Counted:
    return export(runs, folder, wanted, more.pop("privacy", Privacy()), card, **more)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return set_up(tmp_path / "runs", monkeypatch)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    """Two runs of one iteration each, with turns of all roles."""
    root, runs = tmp_path_factory.mktemp("runs"), []
    with pytest.MonkeyPatch.context() as patch:
        for i, blocks in enumerate(([16, 4], [64, 32])):
            stage = set_up(root, patch)
            coder = [judge(blocks[0]), judge(blocks[1]), says("Done.")]
            stage.script([proposal(f"change {i}")], coder, [reading("a1")])
            asyncio.run(stage.play())
            runs.append(RunFolder(stage.run.path))
    return runs


def test_every_line_of_every_kind_has_all_columns_in_their_types(two_runs: list[RunFolder], tmp_path: Path) -> None:
    counted = written(two_runs, tmp_path / "set")
    for kind in KINDS:
        rows = lines_of(tmp_path / "set", kind)
        assert len(rows) == counted.lines[kind] > 0
        assert [misfit(row, COLUMNS[kind]) for row in rows] == [None] * len(rows)
        assert all(list(row) == list(COLUMNS[kind]) for row in rows)
    assert {path.name for path in (tmp_path / "set").iterdir()} == {"README.md", *(f"{kind}.jsonl" for kind in KINDS)}


def test_a_value_of_another_type_is_found_wherever_it_stands(two_runs: list[RunFolder], tmp_path: Path) -> None:
    written(two_runs, tmp_path / "set")
    row = lines_of(tmp_path / "set", "sft")[0]
    assert misfit({**row, "iteration": 1.0}, COLUMNS["sft"]) == ".iteration: float is no int64"
    row["messages"][0]["extra"] = None
    assert misfit(row, COLUMNS["sft"], "row") is not None


def test_conversations_are_openai_chats_that_end_with_the_model(two_runs: list[RunFolder], tmp_path: Path) -> None:
    written(two_runs, tmp_path / "set")
    for row in lines_of(tmp_path / "set", "sft"):
        roles = [message["role"] for message in row["messages"]]
        assert roles[:2] == ["system", "user"] and roles[-1] == "assistant"
        assert not any(a == b == "user" for a, b in pairwise(roles))
        open_calls: list[str] = []
        for message in row["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] in open_calls
            open_calls = [call["id"] for call in message["tool_calls"] or []] or open_calls
        offered = {tool["function"]["name"] for tool in json.loads(row["tools"])}
        assert {c["function"]["name"] for m in row["messages"] for c in m["tool_calls"] or []} <= offered


def test_an_episodes_observations_and_actions_make_up_the_conversation(
    two_runs: list[RunFolder], tmp_path: Path
) -> None:
    written(two_runs, tmp_path / "set")
    chats = {row["run"] + "/" + row["turn"]: row for row in lines_of(tmp_path / "set", "sft")}
    episodes: dict[str, list[dict[str, Any]]] = {}
    for row in lines_of(tmp_path / "set", "rl"):
        episodes.setdefault(row["episode"], []).append(row)
    assert set(episodes) == set(chats)
    for name, steps in episodes.items():
        assert [step["step"] for step in steps] == list(range(len(steps)))
        assert [step["done"] for step in steps] == [False] * (len(steps) - 1) + [True]
        assert [step["begins_anew"] for step in steps] == [True] + [False] * (len(steps) - 1)
        assert [m for step in steps for m in (*step["observation"], step["action"])] == chats[name]["messages"]
        earned = max(
            (step["reward_continuous"] for step in steps if step["reward_continuous"] is not None), default=None
        )
        assert earned == chats[name]["reward_continuous"]
        assert all(step["reward"] == (step["reward_continuous"] or 0.0) for step in steps)


def test_rewards_of_episodes_may_be_steps(two_runs: list[RunFolder], tmp_path: Path) -> None:
    written(two_runs, tmp_path / "set", Wanted(kinds=("rl",), scale="steps"))
    rows = lines_of(tmp_path / "set", "rl")
    assert {row["reward"] for row in rows} >= {0.0, 3.0}
    assert all(row["reward"] == (row["reward_steps"] or 0.0) for row in rows)


async def test_an_episode_with_a_kernel_that_was_not_judged_is_no_episode(stage: Stage, tmp_path: Path) -> None:
    evaluate = stage.executor.evaluate

    async def fail(task: Any, kernel: Kernel, *more: Any, **named: Any) -> Any:
        if kernel.defines.get("BLOCK") == "32":
            return Unjudged(kernel=kernel.id, message="the device fell off the bus")
        return await evaluate(task, kernel, *more, **named)

    stage.executor.evaluate = fail  # type: ignore[method-assign]
    stage.script([proposal("x")], [judge(32), judge(64), says("Done.")], [reading("a2")])
    await stage.play()
    counted = written([RunFolder(stage.run.path)], tmp_path / "set")
    assert {row["role"] for row in lines_of(tmp_path / "set", "rl")} == {"analyst"}
    assert counted.left_out["a kernel that could not be judged"] == 2
    calls_made = [row for row in lines_of(tmp_path / "set", "trajectory") if row["attempts"] and row["role"] == "coder"]
    assert [row["reward_steps"] for row in calls_made] == [None, 3]
    assert "unjudged" not in (tmp_path / "set/preference.jsonl").read_text()


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (Wanted(roles=("coder",)), {"coder"}),
        (Wanted(models=("scripted:pl*",)), {"planner"}),
        (Wanted(not_models=("scripted:c*", "*:analyst")), {"planner"}),
        (Wanted(accepted_only=True), {"planner", "coder"}),
        (Wanted(min_speedup=50.0), {"planner", "coder"}),
        (Wanted(min_speedup=1e9), set()),
    ],
)
def test_filters_leave_out_what_they_say(
    two_runs: list[RunFolder], tmp_path: Path, wanted: Wanted, left: set[str]
) -> None:
    counted = written(two_runs, tmp_path / "set", wanted)
    rows = lines_of(tmp_path / "set", "sft")
    assert {row["role"] for row in rows} == left and +counted.left_out
    if wanted.min_speedup is not None:
        assert all(row["speedup"] >= wanted.min_speedup for row in rows)


def test_the_same_content_is_written_once(two_runs: list[RunFolder], tmp_path: Path) -> None:
    once = written(two_runs[:1], tmp_path / "once")
    twice = written([two_runs[0], two_runs[0]], tmp_path / "twice")
    assert twice.lines == once.lines and twice.left_out["the same content again"] == sum(once.lines.values())
    kept = written([two_runs[0]] * 2, tmp_path / "kept", Wanted(kinds=KINDS, keep_duplicates=True))
    assert kept.lines == Counter({kind: 2 * count for kind, count in once.lines.items()})


def test_the_card_tells_columns_counts_and_filters(two_runs: list[RunFolder], tmp_path: Path) -> None:
    counted = written(two_runs, tmp_path / "set", Wanted(kinds=KINDS, min_speedup=1.5))
    text = (tmp_path / "set/README.md").read_text()
    head, body = text.removeprefix("---\n").split("\n---\n", 1)
    for kind in KINDS:
        size = (tmp_path / f"set/{kind}.jsonl").stat().st_size
        assert f"num_bytes: {size}\n    num_examples: {counted.lines[kind]}" in head
        assert f"    path: {kind}.jsonl" in head
    assert "speedup over the baseline of at least 1.5" in body and "| scripted:coder |" in body
    assert "licen" in body and "license:" not in head


# Private parts and hostile texts


HOSTILE = [
    "\ud800 half a pair",
    "a whole one \U0001f600 and \udfff",
    "line\u2028separator\x85and\x0bmore\x00",
    "x" * 300_000,
    '{"role": "system"}\n{"messages"',
]


@pytest.mark.parametrize("text", HOSTILE, ids=["half", "pairs", "separators", "huge", "lines"])
def test_hostile_texts_stay_one_valid_line_each(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path / "runs", attempts=2)
    path = run.path / "transcript/0001-coder-0.jsonl"
    path.parent.mkdir()
    reply = {"speaker": "assistant", "text": text, "tool_calls": [{"id": "c", "name": "run", "arguments": text}]}
    answer = {"speaker": "tool", "call": "c", "tool": "run", "text": text}
    path.write_text("\n".join(json.dumps(line) for line in (reply, answer, {**reply, "text": "end"})) + "\n")
    written([run], tmp_path / "set")
    for kind in ("sft", "rl", "trajectory"):
        raw = (tmp_path / f"set/{kind}.jsonl").read_bytes()
        assert len([json.loads(line) for line in raw.split(b"\n") if line]) >= 1
        assert b"\\ud8" not in raw and raw.decode("utf-8")


def test_nothing_private_gets_out(tmp_path: Path) -> None:
    key, home = "sk-" + "q" * 30, "/home/annabel"
    known = "a-password-without-a-shape"
    root = tmp_path / "runs"
    said = (
        f"{home}/x.cu, {root}/y, ann.host-7 annabel@host-7, {key} {known} /Users/bob/z C:\\Users\\carl\\w "
        "api_key=abcdefgh12345 max(host, root)"
    )
    run = make_run(root, attempts=6, note=said)
    run.transcript("0001-coder-0").add({"speaker": "user", "label": "ask", "blob": run.blobs.put(said)})
    run.transcript("0001-coder-0").add({"speaker": "assistant", "text": said})
    hidden = Privacy(
        Scrubber([known]).text, {home: "[home]", str(root): "[runs]"}, {"annabel": "[user]", "host-7": "[host]"}
    )
    written([run], tmp_path / "set", privacy=hidden)
    out = "".join(path.read_text() for path in (tmp_path / "set").iterdir())
    for word in (key, known, home, str(root), "annabel", "host-7", "bob", "carl", "abcdefgh12345"):
        assert word not in out, word
    assert "max(host, root)" in out and "[home]/x.cu" in out


def test_this_machines_names_and_folders_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "people/zoe_q"))
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "zoe_q")
    monkeypatch.setattr(privacy.socket, "gethostname", lambda: "tower9.lab.example")
    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to(tmp_path / "real")
    known = privacy.of_this_machine(str, [link])
    text = f"{tmp_path}/people/zoe_q/a {link}/b {tmp_path}/real/c zoe_q@tower9 tower9.lab.example zoe_quill"
    assert known.text(text) == "[home]/a [runs]/b [runs]/c [user]@[host] [host] zoe_quill"
    assert not privacy.is_telling("root") and not privacy.is_telling("ab") and privacy.is_telling("annabel")


def test_known_paths_end_where_they_end() -> None:
    hidden = Privacy(paths={"/root": "[home]"})
    assert hidden.text("/root /root/x -I/root/inc '/root'") == "[home] [home]/x -I[home]/inc '[home]'"
    assert hidden.text("/rootfs /root-2") == "/rootfs /root-2"


# The folder


def test_a_data_set_is_replaced_only_on_demand_and_only_if_it_is_one(two_runs: list[RunFolder], tmp_path: Path) -> None:
    folder = tmp_path / "deep/set"
    written(two_runs, folder, Wanted())
    before = (folder / "sft.jsonl").read_bytes()
    with pytest.raises(WarpsmithError, match="there already"):
        written(two_runs[:1], folder, Wanted())
    assert (folder / "sft.jsonl").read_bytes() == before
    written(two_runs[:1], folder, Wanted(kinds=("rl",)), force=True)
    assert {path.name for path in folder.iterdir()} == {"README.md", "rl.jsonl"}
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(WarpsmithError, match="no data set"):
        written(two_runs, folder, Wanted(), force=True)
    assert (folder / "thesis.tex").read_text() == "mine"


def test_a_failure_in_the_middle_leaves_nothing_behind(
    two_runs: list[RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "set"
    written(two_runs, folder, Wanted())
    before = (folder / "sft.jsonl").read_bytes()

    def half() -> Iterator[RunFolder]:
        yield two_runs[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(RunFolderError, match="disk is full"):
        export(half(), folder, Wanted(), Privacy(), card, force=True)
    assert (folder / "sft.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_damaged_run_is_counted_and_the_others_are_written(two_runs: list[RunFolder], tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", attempts=2)
    (run.path / "attempts/a1/attempt.json").write_text("{")
    counted = written([RunFolder(run.path), *two_runs], tmp_path / "set")
    assert counted.damaged == {run.id: 1} and counted.lines["sft"] > 0


# The command


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = [str(Path(sys.executable).with_name("warpsmith")), "export-dataset", *arguments]
    return subprocess.run(program, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_command_takes_folders_of_runs_at_any_depth(two_runs: list[RunFolder], tmp_path: Path) -> None:
    root = two_runs[0].path.parent
    batch = tmp_path / "batch/night"
    batch.mkdir(parents=True)
    (batch / "runs").symlink_to(root)  # links are not followed
    done = command(
        str(root), str(two_runs[0].path), "-o", "set", "--kind", "rl", "--kind", "sft", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["runs"] == 2 and set(found["lines"]) == {"rl", "sft"} and not found["unreadable"]
    assert str(root) not in (tmp_path / "set/rl.jsonl").read_text()
    shown = command(str(root), "-o", "of-nobody", "--kind", "sft", "--model", "nobody:*", cwd=tmp_path)
    assert shown.returncode == 1 and "sft         0 lines" in shown.stdout, "a kind without a line is counted too"
    for wrong, why in (
        (["nothing-there", "-o", "x"], "no run"),
        (["batch", "-o", "x"], "no runs in batch"),
        ([str(root), "-o", "set"], "--force"),
        ([str(root), "-o", "x", "--kind", "dpo"], "sft, preference, rl, trajectory"),
    ):
        failed = command(*wrong, cwd=tmp_path)
        assert failed.returncode == 2 and why in failed.stderr, failed.stderr
    empty = command(str(root), "-o", "none", "--min-speedup", "1e9", cwd=tmp_path)
    assert empty.returncode == 1 and (tmp_path / "none/README.md").is_file()
