"""What a person did to a run is in its report, and what that means for doing it again; who played it is in the list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import _accepted, make_run
from test_report import Page

from app.log_lines import log_line
from app.played import models_of, short_models
from app.report import render
from app.report_failures import _said_once
from app.report_path import settings_in_force
from app.report_person import deeds, left_out
from app.serve.catalog import Catalog
from app.session.story import Story
from app.steer_words import in_words
from memory.runs import RunFolder
from tools.records import Kernel


def line(event: str, minute: int = 0, **fields: Any) -> dict[str, Any]:
    return {"event": event, "time": f"2026-11-30T10:{minute:02d}:00+00:00", **fields}


def steered(action: str, minute: int, iteration: int = 2, **about: Any) -> dict[str, Any]:
    return line("steered", minute, id="c", action=action, iteration=iteration, about=about)


STEERED = (
    line("iteration_started", 1, iteration=1, iterations=9),
    steered("hint", 2, text="rows <b>are short</b>"),
    steered("withdraw", 3, text="rows <b>are short</b>"),
    steered("model", 4, 3, role="coder", models=["local:mini"], before=["builtin:autotune"]),
    steered("model", 5, 3, role="coder", models=["builtin:autotune"], before=["local:mini"]),
    steered("edit", 6, 3, attempt="a3", parent="a2", note="wide", outcome="same", known=False, by_text={"LANES": "64"}),
    steered("pause", 7, 4),
    line("answered", 8, id="q", question="what is the best?", answer="a2", by="facts"),
    line("exported", 9, id="x", attempt="a2", form="sources", folder="/tmp/x", status="accepted", said="fine"),
    line("run_resumed", 10, changes={"budgets.iterations": {"before": 3, "after": 9}, "version": {}}),
    line("run_resumed", 11, changes={}),
)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"iterations": 14, "wall_time": 1200.0}, "limits: iterations 14, wall_time 20 min 00 s"),
        ({"dollars": 2.5, "near_limit": 0.03}, "limits: dollars $2.50, near_limit 3.0 %"),
        ({"tokens": None}, "limits: tokens none"),
    ],
)
def test_limits_are_said_in_their_units(limits: dict[str, Any], said: str) -> None:
    assert in_words("budget", {"limits": limits}) == said


def test_what_bounds_a_kernel_is_said_also_where_it_is_not_known() -> None:
    story = Story()
    for bottleneck, said in (("memory", "a3 is bound by memory"), ("unknown", "what bounds a3 is not known")):
        told = line("diagnosed", attempt="a3", bottleneck=bottleneck, summary="s", hypothesis_held=None)
        story.take(told)
        assert story.doing == f"analyst: {said}" and f"{said}: s" in log_line(told)


@pytest.mark.parametrize(
    ("message", "detail", "said"),
    [
        ("k.cpp:1: no x", "k.cpp:1: no x", ("k.cpp:1: no x", "")),
        ("no x", "k.cpp:1: no x", ("k.cpp:1: no x", "")),
        ("it fails: k.cpp:1: no x", "k.cpp:1: no x", ("it fails: k.cpp:1: no x", "")),
        ("wrong", "out[1] is 2", ("wrong", "out[1] is 2")),
    ],
)
def test_a_failure_says_nothing_twice(message: str, detail: str, said: tuple[str, str]) -> None:
    assert _said_once(message, detail) == said


def write_events(run: RunFolder, *lines: dict[str, Any]) -> RunFolder:
    with (run.path / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)
    return RunFolder(run.path)


def test_all_that_a_person_did_is_told_in_order_with_time_and_iteration(tmp_path: Path) -> None:
    done = deeds(STEERED)
    assert [deed.action for deed in done] == [
        "hint", "withdraw", "model", "model", "edit", "pause", "ask", "export", "resume with",
    ]  # fmt: skip
    assert [deed.iteration for deed in done] == [2, 2, 3, 3, 3, 4, 1, 1, 1]
    assert done[4].words == "a kernel by hand (wide) is a3: not told apart, with LANES=64 as its text has it"
    assert done[-1].words == "resumed with budgets.iterations 9"
    page = Page(render(write_events(make_run(tmp_path, attempts=4), *STEERED)))
    for expected in ("What the person did", "hint: rows <b>are short</b>", "exported a2 as sources"):
        assert expected in page.words
    assert all(deed.when in page.words and deed.when for deed in done)
    assert (
        "a person gave 1 hint, swapped models 2 times, had 1 kernel of their own judged and resumed it with other "
        "options 1 time"
    ) in page.words


def test_a_run_that_nobody_touched_has_no_such_section_and_its_command_is_enough(tmp_path: Path) -> None:
    page = Page(render(make_run(tmp_path, attempts=4))).words
    assert "What the person did" not in page and "alone does not make it again" not in page
    assert left_out(deeds([steered("pause", 1), steered("resume", 2), line("answered", 3, question="?")])) == ""


def history(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"history": [{"at": 1.0, "command": [], "changes": each} for each in changes]}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "a"),
        (history({"models": {"before": {"coder": "a"}, "after": {"coder": "b"}}}), "planner a, coder a then b"),
        (
            history(
                {"models": {"before": {"coder": "a"}, "after": {"coder": "b"}}},
                {"models.coder": {"before": "b", "after": "a"}},
            ),
            "planner a, coder a then b",
        ),
        (history({"models.planner": {"before": "z", "after": "a"}}), "planner z then a, coder a"),
        ({"history": [3, {"changes": 4}, {"changes": {"models": 5, "models.coder": {"before": 6}}}]}, "a"),
    ],
)
def test_a_run_is_listed_by_all_models_that_played_it(config: dict[str, Any], said: str, tmp_path: Path) -> None:
    started = line("run_started", models={"planner": "a", "coder": "a"})
    assert short_models(models_of(config, [started])) == said
    run = RunFolder.create(tmp_path, "t", {"task": {"name": "t"}, **config})
    write_events(run, started)
    assert [glance.models for glance in Catalog(tmp_path).runs()] == [said]


def test_a_value_in_the_text_that_the_build_sets_otherwise_is_pointed_out(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1, ended=False)
    text = "// tune: BLOCK = 16,32\n// tune: LANES = 8,16\n#ifndef BLOCK\n#define BLOCK 16\n#endif\n#define LANES 8\n"
    kernel = Kernel(language="cpp", files={"kernel.cpp": text}, defines={"BLOCK": "32"}, flags=("-O3",))
    best = run.attempt("a0").model_copy(
        update={"id": "a1", "parent": "a0", "iteration": 1, "kernel": kernel.model_dump(mode="json")}
    )
    run.add_attempt(best, kernel.files, _accepted(kernel, 1e-3).model_dump(mode="json"))
    run = RunFolder(run.path)
    found = {each.name: each for each in settings_in_force(run.attempt("a0"), run.attempt("a1"))}
    assert {name: (each.before, each.value, each.written) for name, each in found.items()} == {
        "BLOCK": ("16", "32", "16"),
        "LANES": (None, "8", None),
        "flags": ("default", "-O3", None),
    }
    words = " ".join(Page(render(run)).words.split())
    assert "BLOCK: 16 → 32. The source below says 16: the build set 32 over it" in words
