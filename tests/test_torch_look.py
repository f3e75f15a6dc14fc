"""compute-sanitizer on torch kernels: the replay alone, how it is started, and what becomes of what a tool says. The
tool is a stand-in here, which starts the replay as the real one does; what the real one said is in the golden records.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toolkit import needs_nvcc

from tools import torch_bench, torch_look
from tools.contract import Scalar, Signature, Tensor
from tools.cuda_sanitizer import Outcome
from tools.errors import InfrastructureError
from tools.process import Completed
from tools.runner import Failed
from tools.stages import Evidence
from tools.torch_bench import NOT_COVERED, TorchBench
from tools.torch_call import plain_call
from tools.torch_look import TOOLS, UNSEEN, VARIABLE, Recorded, told, unseen, wanted_tools, watched, write_plan
from tools.torch_process import Home

pytest.importorskip("torch")

SIGNATURE = Signature(
    inputs=(
        Tensor(name="x", dtype="float32", shape=(5,)),
        Tensor(name="y", dtype="float32", shape=(5,)),
        Scalar(name="a", ctype="float64"),
    ),
    outputs=(Tensor(name="out", dtype="float32", shape=(5,)),),
)
HEAD = "import os, torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, y, a):\n        "
RIGHT = "assert (a * x + y).tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]\n        return x\n"
OVERRUN = "Invalid __global__ read of size 4 bytes\n=========     at saxpy+0x60 in kernel.py:7"


def recorded(folder: Path, body: str = RIGHT) -> Recorded:
    (folder / "build/src").mkdir(parents=True)
    (folder / "build/made/triton").mkdir(parents=True)
    (folder / "build/src/kernel.py").write_text(HEAD + body)
    values = {"x": np.arange(5, dtype=np.float32), "y": np.arange(2, 7, dtype=np.float32), "a": 1.0}
    return Recorded((folder / "build").resolve(), plain_call(SIGNATURE), values)


def replayed(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    given = recorded(folder, body)
    (folder / "plan").mkdir()
    write_plan(folder / "plan", given, "cpu")
    command = [sys.executable, "-P", "-m", "tools.torch_replay", str(given.build), str(folder / "plan")]
    root = str(Path(torch_look.__file__).parents[1])
    return subprocess.run(command, env={"PYTHONPATH": root}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("body", "lines", "code"),
    [
        (RIGHT, ["replay: ready", "replay: calling", "replay: done"], 0),
        ("raise ValueError('no')\n", ["replay: ready", "replay: calling", "replay: kernel: ValueError: no"], 3),
        ("os._exit(0)\n", ["replay: ready", "replay: calling"], 0),
    ],
)
def test_a_replay_calls_the_kernel_on_what_was_recorded(tmp_path: Path, body: str, lines: list[str], code: int) -> None:
    ran = replayed(tmp_path, body)
    assert (ran.stdout.splitlines(), ran.returncode) == (lines, code), ran.stderr


def stand_in(folder: Path, said: str, code: str, *, first: str = '"$@"') -> Path:
    """A sanitizer: it starts the program behind its options, says something, and ends."""
    program = folder / "tool/compute-sanitizer"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "========= COMPUTE-SANITIZER"\nwhile [ "$1" != --target-processes ]; do shift; done\n'
        f'shift 2\n{first}\nended=$?\ncat <<"END"\n{said}\nEND\nexit {code}\n'
    )
    program.chmod(0o755)
    return program


@needs_nvcc
def test_every_tool_starts_the_replay_behind_the_sandbox(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "========= ERROR SUMMARY: 0 errors", "$ended")
    outcomes = watched(recorded(tmp_path), Home("cpu"), ("memcheck", "initcheck"), program)
    assert outcomes == [Outcome("memcheck"), Outcome("initcheck")]


@needs_nvcc
def test_what_a_tool_finds_in_the_call_is_told_with_its_line(tmp_path: Path) -> None:
    program = stand_in(tmp_path, f"========= {OVERRUN}", "77")
    (outcome,) = watched(recorded(tmp_path), Home("cpu"), ("memcheck",), program)
    assert outcome.finding is not None
    assert outcome.finding.summary == "Invalid __global__ read of size 4 bytes at kernel.py:7 (memcheck)"


@needs_nvcc
def test_a_tool_that_does_not_come_up_is_no_verdict(tmp_path: Path) -> None:
    program = stand_in(tmp_path, f"========= {OVERRUN}\n========= ERROR SUMMARY: 1 error", "77", first="false")
    outcomes = watched(recorded(tmp_path), Home("cpu"), tuple(TOOLS), program)
    assert all("PyTorch did not start under it" in outcome.trouble for outcome in outcomes)
    assert torch_look.never_started(outcomes)


def test_a_look_for_which_there_is_no_room_is_no_verdict(tmp_path: Path) -> None:
    given = recorded(tmp_path)
    outcomes = watched(
        replace(given, build=tmp_path / "nowhere"), Home("cpu"), ("memcheck",), stand_in(tmp_path, "", "0")
    )
    assert "can't be started" in outcomes[0].trouble and outcomes[0].finding is None


def finished(code: int, text: str, *, timed_out: bool = False) -> Completed:
    return Completed(("tool",), code, None, timed_out, False, text, "", 1.0, False)


READY, CALLING, DONE = "replay: ready\n", "replay: calling\n", "replay: done\n"
FOUND = f"========= {OVERRUN}\n========= ERROR SUMMARY: 1 error\n"
NOTHING = "========= ERROR SUMMARY: 0 errors\n"


@pytest.mark.parametrize(
    ("code", "text", "trouble"),
    [
        (0, READY + CALLING + DONE + NOTHING, ""),
        (11, READY + CALLING + DONE + "========= Error: process didn't terminate successfully\n" + NOTHING, ""),
        (77, READY + FOUND + CALLING + DONE, "it ended with exit code 77"),  # found while the model was made
        (1, "Device not supported", "PyTorch did not start"),
        (
            3,
            READY + "replay: kernel: OSError: read-only\n" + NOTHING,
            "the kernel's model was not made under it: OSError: read-only",
        ),
        (
            3,
            READY + CALLING + "replay: kernel: RuntimeError: not while capturing\n" + NOTHING,
            "raised RuntimeError: not",
        ),
        (11, READY + CALLING + "========= Error: process didn't terminate successfully\n" + NOTHING, "exit code 11"),
    ],
)
def test_only_what_is_found_in_the_call_counts(code: int, text: str, trouble: str) -> None:
    outcome = told("memcheck", finished(code, text))
    assert outcome.finding is None
    assert trouble in outcome.trouble and bool(outcome.trouble) == bool(trouble)


def test_what_is_found_in_the_call_and_leaving_it_quietly_are_findings() -> None:
    assert told("memcheck", finished(77, READY + CALLING + FOUND)).finding is not None
    left = told("initcheck", finished(0, READY + CALLING + NOTHING)).finding
    assert left is not None and "only when it is watched" in left.summary
    slow = told("racecheck", finished(-9, READY + CALLING, timed_out=True))
    assert slow.finding is None and "more than 90 s" in slow.trouble


def test_what_no_tool_looked_for_is_said() -> None:
    both = [Outcome("memcheck"), Outcome("racecheck"), Outcome("initcheck", trouble="it took too long")]
    assert unseen(both, ["small"], "small") == f"races in global memory; {UNSEEN['initcheck']}"
    wide = unseen(both, ["small", "wide"], "small")
    assert wide.endswith(f"on other workloads than small: {UNSEEN['memcheck']}; {UNSEEN['racecheck']}")
    assert all(text in unseen([], ["small"], "small") for text in UNSEEN.values())


@pytest.mark.parametrize(
    ("given", "tools"), [("memcheck", ("memcheck",)), ("none", ()), ("initcheck, memcheck", ("memcheck", "initcheck"))]
)
def test_tools_are_chosen_by_the_environment(given: str, tools: tuple[str, ...], monkeypatch: Any) -> None:
    monkeypatch.setenv(VARIABLE, given)
    assert wanted_tools() == tools
    monkeypatch.setenv(VARIABLE, "guesswork")
    with pytest.raises(InfrastructureError, match="names no tool"):
        wanted_tools()


class FakeJudge:
    """As much of a judge as the look at one of its kernels needs."""

    names = ("wide", "small")
    signatures = (
        SIGNATURE.model_copy(update={"inputs": (Tensor(name="x", dtype="float32", shape=(900,)),)}),
        SIGNATURE,
    )
    calls = (plain_call(signatures[0]), plain_call(SIGNATURE))

    class content:
        @staticmethod
        def drawn_beside(index: int) -> dict[str, Any]:
            return {"index": index}


def looked(monkeypatch: Any, bench: TorchBench, outcomes: list[Outcome]) -> Evidence:
    evidence = Evidence({"checked": ["wide/guarded", "small/guarded"], "not_covered": NOT_COVERED["cuda"]})

    def watch(recorded: Recorded, home: Home, tools: Any) -> list[Outcome]:
        assert recorded.values == {"index": 1} and tools == tuple(TOOLS) and home.target == "cuda"
        return outcomes

    monkeypatch.setattr(torch_bench.torch_look, "watched", watch)
    build: Any = type("Built", (), {"library": Path("/build")})
    judge: Any = FakeJudge()
    bench._watch(judge, build, evidence)
    return evidence


def test_the_evidence_says_what_was_looked_at_and_what_was_not(monkeypatch: Any) -> None:
    bench = TorchBench(Home("cuda", "GPU-0"), None, None)
    mixed = [Outcome("memcheck"), Outcome("racecheck", trouble="exit code 1: odd"), Outcome("initcheck")]
    details = looked(monkeypatch, bench, mixed).details
    assert details["checked"] == ["wide/guarded", "small/guarded", "small/memcheck", "small/initcheck"]
    assert details["could_not_check"] == ["small/racecheck: exit code 1: odd"]
    assert UNSEEN["racecheck"] in str(details["not_covered"])
    read = told("memcheck", finished(77, READY + CALLING + FOUND))
    with pytest.raises(Failed, match=r"Invalid __global__ read .*kernel.py:7 \(memcheck\) \(workload small\)"):
        looked(monkeypatch, bench, [read])


def test_a_machine_on_which_no_tool_starts_is_not_asked_again(monkeypatch: Any) -> None:
    bench = TorchBench(Home("cuda", "GPU-0"), None, None)
    dead = [told(tool, finished(1, "no device")) for tool in TOOLS]
    assert looked(monkeypatch, bench, dead).details["checked"] == ["wide/guarded", "small/guarded"]
    details = looked(monkeypatch, bench, [Outcome(tool) for tool in TOOLS]).details
    assert details["could_not_check"] and json.dumps(details["not_covered"]).count("races") == 2
