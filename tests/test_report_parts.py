"""What the report works out: the claim, the way to the best, the tree, what failed, and runs side by side."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from app.batch_report import render as batch_page
from app.batch_summary import summarize_batch
from app.cli import app
from app.compare import compare, contender
from app.compare_report import parts_of
from app.pages import rendered, style_source, style_text
from app.plot_claim import claim
from app.plot_frame import BROAD
from app.report import baseline_name, page_fields, render
from app.report_claim import main_baseline, subjects
from app.report_failures import failures
from app.report_path import scores_of, shortened, source_diff, steps, way_to
from app.report_profiles import profiles
from app.report_source import sources
from app.report_tree import Node, tree
from app.summary import summarize
from memory.runs import Attempt, RunFolder
from tests.hostile_run import breaks, hostile_batch, hostile_run
from tests.synthetic_run import make_run


def put(path: Path, **changes: Any) -> None:
    """Change top-level fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def anew(run: RunFolder) -> RunFolder:
    return RunFolder(run.path)


def test_the_claim_holds_the_best_against_start_baseline_and_limit(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    summary = summarize(run)
    by_name = {subject.name: subject for subject in subjects(summary, run.facts(), "NumPy")}
    assert list(by_name) == ["NumPy", "start", "best", "hardware limit"]
    best, numpy, start, limit = (by_name[name] for name in ("best", "NumPy", "start", "hardware limit"))
    assert best.seconds == pytest.approx(summary.best_seconds) and best.ratio is None
    assert numpy.ratio == pytest.approx(summary.speedup) and start.ratio == pytest.approx(summary.gain)
    assert limit.ratio == pytest.approx(summary.share_of_limit)
    assert best.interval and best.interval.low == pytest.approx(best.seconds * 0.98)
    assert summary.claim is not None and start.raced == summary.claim.interval and not start.doubt
    # An interval of a ratio that was not raced is from the outer ends: 0.97/1.02 and 1.03/0.98 of it.
    assert numpy.ratio_interval and numpy.ratio
    assert numpy.ratio_interval.low == pytest.approx(numpy.ratio * 0.97 / 1.02)
    assert numpy.ratio_interval.high == pytest.approx(numpy.ratio * 1.03 / 0.98)


def test_baselines_with_names_stand_beside_the_fastest_and_odd_ones_are_passed_over(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    facts: Any = run.facts()
    for workload, seconds in zip(facts["workloads"], (6e-3, 4e-3), strict=True):
        workload["baselines"] = [
            timed("eager", seconds),
            timed("compile", seconds / 2),
            timed("of a plugin", seconds * 2),
            timed("none", 0.0),
            {"name": "odd", "seconds": "soon"},
            "odd",
        ]
    facts["workloads"][1]["baselines"].pop(2)
    assert main_baseline(facts, "PyTorch") == "torch.compile"
    found = {s.name: s for s in subjects(summarize(run), facts, "torch.compile")}
    assert list(found) == ["torch.compile", "PyTorch eager", "start", "best", "hardware limit"]
    assert found["PyTorch eager"].seconds == pytest.approx((6e-3 * 4e-3) ** 0.5)
    interval = found["PyTorch eager"].interval
    assert interval and interval.low == pytest.approx(found["PyTorch eager"].seconds * 0.9)
    # The main one is as it was timed beside the best; what lacks a workload is left out.
    assert found["torch.compile"].ratio == pytest.approx(summarize(run).speedup)


def timed(name: str, seconds: float) -> dict[str, Any]:
    interval = {"low": seconds * 0.9, "high": seconds * 1.1, "confidence": 0.95}
    return {"name": name, "seconds": seconds, "interval": interval, "samples": 9}


def test_the_main_baseline_is_named_by_the_facts_where_they_do(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    assert baseline_name(run) == main_baseline(None, "NumPy") == "NumPy"
    facts: Any = run.facts()
    facts["workloads"][0]["baselines"] = [timed("eager", 2.0), timed("compile", 1.0)]
    facts["workloads"][1]["baselines"] = [timed("eager", 1.0), timed("compile", 2.0)]
    run.write_facts(facts)
    assert baseline_name(run) == "fastest baseline"
    facts["workloads"][1]["baselines"].pop(0)
    run.write_facts(facts)
    assert baseline_name(run) == "torch.compile" and "against torch.compile" in render(run)


def test_nothing_accepted_claims_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, accept=False, attempts=3)
    assert subjects(summarize(run), run.facts(), "NumPy") == [] and claim(BROAD, []) == ""


def test_the_way_leads_from_the_start_to_the_best_with_the_effect_of_each_step(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    attempts = run.attempts()
    way = way_to("a21", attempts)
    assert [a.id for a in way] == ["a0", "a6", "a9", "a12", "a15", "a18", "a21"]
    found = steps(run, way, scores_of(run, attempts), attempts)
    assert [step.parent for step in found] == [a.id for a in way[:-1]]
    for step, (before, after) in zip(found, itertools.pairwise(way), strict=True):
        assert before.seconds and after.seconds
        assert step.moved and step.moved.evidence == "medians"
        assert step.moved.ratio == pytest.approx(before.seconds / after.seconds)
        assert step.diff.added == step.diff.removed == 1
        # Nobody wrote a score down, so it is worked out: the metric is `seconds`.
        assert step.score and step.score.change == pytest.approx(after.seconds / before.seconds - 1)
    assert way_to(None, attempts) == way_to("a99", attempts) == []


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=3)
    put(run.folder_of("a1") / "attempt.json", parent="a2")
    put(run.folder_of("a2") / "attempt.json", parent="a1")
    attempts = anew(run).attempts()
    assert [a.id for a in way_to("a2", attempts)] == ["a1", "a2"]
    tree(attempts, way_to("a2", attempts), {})


def test_long_diffs_are_cut_and_say_so(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=8)
    lines = source_diff(run.attempt("a0"), run.attempt("a7"))
    assert shortened(lines, 10_000).left_out == 0
    cut = shortened(lines, 150)
    assert 0 < len(cut.lines) < len(lines) and cut.left_out == len(lines) - len(cut.lines)


def attempt(number: int, parent: int | None) -> Attempt:
    return Attempt.model_validate(
        {"id": f"a{number}", "parent": None if parent is None else f"a{parent}", "iteration": number}
        | {"kernel_id": "k", "kernel": {}, "change": f"c{number}", "outcome": "kept", "judged_at": 0.0}
        | {"device_seconds": 0.0}
    )


def flat(nodes: tuple[Node, ...], depth: int = 1) -> list[tuple[str, int]]:
    return [
        pair
        for node in nodes
        for pair in [(node.attempt.id, depth), *(p for branch in node.branches for p in flat(branch, depth + 1))]
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=199), st.integers(0, 199))
def test_the_tree_shows_each_attempt_once_and_stays_shallow(parents: list[int], best: int) -> None:
    made = [attempt(0, None)] + [attempt(n + 1, parent % (n + 1)) for n, parent in enumerate(parents)]
    way = way_to(f"a{best % len(made)}", made)
    (chain,) = tree(made, way, {})
    found = flat(chain)
    assert sorted(name for name, _ in found) == sorted(a.id for a in made)
    assert max(depth for _, depth in found) <= len(made).bit_length() + 1
    assert [node.attempt.id for node in chain if node.trunk] == [a.id for a in way]


def test_a_chain_of_200_has_one_level() -> None:
    made = [attempt(0, None)] + [attempt(n, n - 1) for n in range(1, 200)]
    assert {depth for _, depth in flat(tree(made, made, {})[0])} == {1}


def test_failures_are_grouped_by_reason_with_the_judges_evidence(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (group,) = failures(run, run.attempts())
    assert group.reason == "wrong result" and [f.attempt for f in group.found] == ["a3", "a10", "a17"]
    assert "out[3, 7] is 0.5, not 0.25" in group.found[0].detail and "12 of 4,096 wrong" in group.found[0].detail


def test_a_lost_verdict_is_a_failure_with_a_sentence(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=4)
    (run.folder_of("a3") / "verdict.json").write_text("{}")
    (group,) = failures(anew(run), run.attempts())
    assert group.reason == "verdict lost" and "verdict.json" in group.found[0].message


def test_profiles_before_and_after_are_held_against_each_other(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=8)
    way = way_to("a6", run.attempts())
    alone = profiles(run, way)
    assert alone and alone.before is None and alone.after.attempt == "a6"
    told = run.profile("a6")
    assert told is not None
    metric = {"name": "ipc", "unit": "", "source": "perf"}
    run.add_profile("a0", told | {"metrics": [metric | {"value": 0.5}, metric | {"name": "gone", "value": 1.0}]})
    run.add_profile("a6", told | {"metrics": [metric | {"name": "new", "value": 3.0}, metric | {"value": 2.0}]})
    both = profiles(run, way)
    assert both and both.before and both.before.attempt == "a0"
    assert [(m.name, m.change) for m in both.metrics] == [("ipc", 3.0), ("new", None), ("gone", None)]
    page = render(run)
    assert "+300 %" in page and "before, a0" in page


def test_hot_lines_are_marked_in_the_source(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    hot = {"file": "kernel.cpp", "line": 2, "text": "", "note": "cache misses", "share": 0.4}
    profile = run.profile("a0")
    assert profile is not None
    run.add_profile("a0", profile | {"hot_lines": [hot]})
    (source,) = sources(run, run.attempt("a0"))
    assert [line.note for line in source.lines if line.note] == ["40 % cache misses"] and source.left_out == 0


def test_a_page_allows_its_own_style_and_nothing_else(tmp_path: Path) -> None:
    page = render(make_run(tmp_path, attempts=2))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy and "unsafe" not in policy[1] and "default-src &#39;none&#39;" not in policy[1]
    assert style_source(style_text(("page.css",))).strip("'") in policy[1].replace("&#43;", "+")
    assert " style=" not in page


# ------------------------------------------------------------------------------------------------------ side by side


def clocked(run: RunFolder, *lines: dict[str, Any]) -> RunFolder:
    (run.path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return anew(run)


def told(second: int, event: str = "iteration_ended", **fields: Any) -> dict[str, Any]:
    return {"event": event, "time": f"2027-01-15T08:{second // 60:02d}:{second % 60:02d}Z"} | fields


START = 1_800_000_000  # 2027-01-15T08:00:00Z


def test_a_contender_says_what_it_took_until_the_best(tmp_path: Path) -> None:
    paid = {"role": "coder", "model": "a:b", "input_tokens": 900, "output_tokens": 100, "dollars": 0.25}
    run = clocked(
        make_run(tmp_path),
        told(0, "run_started", models={"planner": "a:b", "coder": "c:d", "analyst": "a:b"}),
        told(0, "iteration_started", iteration=1),
        told(5, "model_called", iteration=1, **paid),
        told(15, "model_called", iteration=21, **paid),
        told(60, "model_called", iteration=22, **paid),
    )
    found = contender(run)
    assert (found.best, found.best_after_attempts, found.best_after_seconds) == ("a21", 22, 21)
    assert (found.best_after_tokens, found.best_after_dollars) == (2000, 0.5)
    assert (found.tokens, found.dollars, found.failed, found.rejections) == (3000, 0.75, 3, {"wrong_result": 3})
    assert found.model == "planner a:b, coder c:d, analyst a:b"
    assert [m.attempt for m in found.curve] == list(range(1, 25))
    assert found.curve[-1].speedup == run.attempt("a21").speedup


def test_what_a_fresh_measurement_refuted_is_in_no_curve(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.add_final("a21", run.verdict("a21"), confirmed=False)
    found = contender(anew(run))
    assert found.best == "a18" and found.curve[-1].speedup == run.attempt("a18").speedup
    assert "then refuted by a fresh measurement" in render(anew(run))


def test_runs_are_grouped_by_task_and_models_are_summed_up(tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "1"), make_run(tmp_path / "2", attempts=7)
    other = make_run(tmp_path / "3", accept=False, attempts=3)
    put(other.path / "config.json", task={"name": "other", "kind": "numpy"})
    for run, model in ((first, "x:1"), (second, "y:2"), (other, "y:2")):
        clocked(run, told(0, "run_started", models={"planner": model, "coder": model, "analyst": model}))
    facts: Any = second.facts()
    facts["hardware"]["model"] = "Another"
    second.write_facts(facts)
    found = compare([anew(first), anew(second), anew(other)])
    assert [(g.task, [r.letter for r in g.runs]) for g in found.groups] == [("softmax", ["A", "B"]), ("other", ["C"])]
    assert found.groups[0].winner == "A" and found.groups[1].winner is None
    assert "different machines" in found.groups[0].differs[0] and not found.groups[1].differs
    assert [(m.model, m.runs, m.solved, m.failed) for m in found.models] == [("x:1", 1, 1, 3), ("y:2", 2, 1, 4)]
    page = rendered("compare.html.j2", {"compared": parts_of(found)})
    for words in ("By model", "x:1", "different machines", "best so far against the baseline"):
        assert words in page


def test_the_command_compares_and_says_what_it_can_not(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "runs", attempts=4) for _ in range(2)]
    out, root = tmp_path / "models.html", ["--runs", str(tmp_path / "runs")]
    names = [run.id for run in runs]
    done = CliRunner().invoke(app, ["report", "--compare", *names, "--out", str(out), *root])
    assert done.exit_code == 0 and done.output.strip() == str(out) and "2 runs side by side" in out.read_text()
    as_json = CliRunner().invoke(app, ["report", "--compare", *names, "--json", *root])
    assert [r["letter"] for r in json.loads(as_json.output)["groups"][0]["runs"]] == ["A", "B"]
    one = CliRunner().invoke(app, ["report", names[0], *root])
    assert one.exit_code == 0 and one.output.strip().endswith("report.html")
    for wrong, said in (
        (["report", *names], "a report is of one run"),
        (["report", "--compare", names[0], names[0]], "1 different runs can't be compared"),
        (["report", "--compare", "nothing", names[0]], "there is no run nothing"),
    ):
        failed = CliRunner().invoke(app, [*wrong, *root])
        assert failed.exit_code == 2 and said in failed.output


def test_no_hostile_text_gets_out_of_its_place(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    batch = hostile_batch(tmp_path)
    pages = [
        render(run),
        rendered("compare.html.j2", {"compared": parts_of(compare([run, run]))}),
        batch_page(summarize_batch(batch), batch.path),
    ]
    for page in pages:
        assert breaks(page) == []
    assert "&lt;script&gt;" in pages[0] and "naïve" in pages[0]
    assert page_fields(run)["steps"]


def test_a_long_run_makes_a_small_report(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=45)
    text = "\n".join(f"    acc[{n}] = __builtin_fmaf(a[{n}], b[{n}], acc[{n}]);" for n in range(1500))
    for number in range(0, 45, 3):  # those that were kept
        path = run.folder_of(f"a{number}") / "attempt.json"
        told = json.loads(path.read_text())
        told["kernel"]["files"]["kernel.cpp"] += text.replace("acc", f"acc{number}")
        path.write_text(json.dumps(told))
    page = render(anew(run))
    assert len(page.encode()) < 1_000_000 and "more lines are not shown" in page
