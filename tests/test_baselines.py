"""Baselines by name: the process that times PyTorch, what is kept of it, and which one a kernel is compared with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.verdict_tables import print_verdict
from tools import baseline
from tools.baseline import PATIENCE_VARIABLE, VARIANTS_VARIABLE, Baseline, compile_seconds, torch_rows, wanted_variants
from tools.errors import InfrastructureError
from tools.facts import BaselineFacts, WorkloadFacts
from tools.process import run_command
from tools.records import Accepted, Interval, StageReport, WorkloadTiming
from tools.task import TaskSource, read_task
from tools.torch_baseline import EAGER, Job, Patience, Row, rows

TASK = Path(__file__).parent / "tasks/normalised_linear.py"
SPAN = Interval(low=1e-6, high=2e-6)


def test_a_process_of_its_own_times_pytorch_and_what_the_task_prints_is_not_its_answer(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = TASK.read_text().replace("def get_inputs", "print('{\"task\": 1}')\n\n\ndef get_inputs")
    (tmp_path / "noisy.py").write_text(text)
    noisy = read_task(tmp_path / "noisy.py")
    (tmp_path / "broken.py").write_text(text.replace("class Model(", "1 / 0\n\n\nclass Model("))
    broken = read_task(tmp_path / "broken.py")
    jobs = [Job(source=each, device="cpu", variants=(EAGER, "nonsense"), seconds=0.01) for each in (broken, noisy)]
    found = baseline.run_jobs(jobs)
    assert [row.status for row in found[broken.id]] == ["failed"]
    assert "broken.py" in found[broken.id][0].why and "ZeroDivisionError" in found[broken.id][0].why
    timed = [row for row in found[noisy.id] if row.status == "timed"]
    assert {row.variant for row in timed} == {EAGER}
    assert all(seconds > 0 for row in timed for seconds in row.samples)
    failed = [row for row in found[noisy.id] if row.status == "failed"]
    assert [row.variant for row in failed] == ["nonsense"]  # a compiler that fails leaves PyTorch itself


def timed(task: TaskSource, variant: str, *samples: float) -> Row:
    return Row(task=task.id, workload=0, variant=variant, status="timed", samples=samples)


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Path]:
    """Stands in for the process: what it says, and how it ends."""
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(baseline, "_method", lambda: "as ever")
    runs = tmp_path / "runs"

    def answer(said: str, code: int) -> Path:
        script = tmp_path / "said.sh"
        script.write_text(f"echo ran >> {runs}\ncat <<'END'\n{said}\nEND\necho it broke >&2\nexit {code}\n")

        def stand_in(_: Any, **settings: Any) -> Any:
            return run_command(["sh", str(script)], **settings)

        monkeypatch.setattr(baseline, "run_command", stand_in)
        return runs

    return answer


def test_times_are_paid_for_once_and_of_several_tasks_in_one_process(answers: Callable[[str, int], Path]) -> None:
    one, other = read_task(TASK), read_task(TASK, {"batch_size": 8})
    said = [timed(one, EAGER, 2e-6), timed(one, EAGER, 4e-6, 3e-6), timed(other, EAGER, 1e-6)]
    runs = answers("\n".join(row.model_dump_json() for row in said), 0)
    wanted = [(one, (EAGER,)), (other, (EAGER,))]
    found = torch_rows(wanted, "GPU-1")
    assert found == torch_rows(wanted, "GPU-1") and runs.read_text() == "ran\n"
    facts = baseline.facts_of(found[one.id], 0)
    assert [(each.name, each.seconds, each.samples) for each in facts] == [(EAGER, 3e-6, 3)]
    torch_rows(wanted[:1], "GPU-2")
    assert runs.read_text() == "ran\nran\n"


def test_a_compiler_that_takes_the_process_down_leaves_what_was_timed(answers: Callable[[str, int], Path]) -> None:
    task = read_task(TASK)
    cut = timed(task, "compile", 1e-6).model_dump_json()[:40]
    answers(timed(task, EAGER, 2e-6).model_dump_json() + "\n" + cut, 1)
    found = torch_rows([(task, (EAGER, "compile"))], "GPU-1")[task.id]
    assert [(row.variant, row.status) for row in found] == [(EAGER, "timed"), ("compile", "failed")]
    assert found[1].why == "it broke"


def test_without_pytorch_s_own_time_nothing_is_kept(answers: Callable[[str, int], Path]) -> None:
    task = read_task(TASK)
    runs = answers("", 1)
    for _ in range(2):
        with pytest.raises(InfrastructureError, match="it broke"):
            torch_rows([(task, (EAGER,))], "GPU-1")
    assert runs.read_text() == "ran\nran\n"


def test_the_fastest_counts_whoever_made_it() -> None:
    facts = {
        name: BaselineFacts(name=name, seconds=seconds, interval=SPAN, samples=9)
        for name, seconds in (("eager", 3e-6), ("compile", 4e-6), ("compile-max-autotune", 2e-6))
    }
    assert Baseline(tuple(facts.values()), None, 1.0).seconds == 2e-6
    assert Baseline((facts["eager"], facts["compile"]), None, 1.0).counted.name == "eager"
    workload = WorkloadFacts(
        workload="w", weight=1, inputs=(), outputs=(), bytes=1, flops=None, baseline_seconds=2e-6,
        baseline_interval=SPAN, baselines=tuple(facts.values()), limit_seconds=1e-6,
    )  # fmt: skip
    assert workload.baseline == "compile-max-autotune"
    assert workload.model_copy(update={"baselines": ()}).baseline == ""


def verdict(*baselines: dict[str, float]) -> Accepted:
    timings = tuple(
        WorkloadTiming(
            workload=str(number), weight=1, seconds=1e-6, interval=SPAN, samples=9, limit_seconds=1e-7,
            baseline_seconds=min(each.values()), baselines=each,
        )
        for number, each in enumerate(baselines)
    )  # fmt: skip
    passed = StageReport(stage="time", passed=True, seconds=1)
    return Accepted(kernel="k", stages=(passed,), timings=timings, worst_error=0)


def test_a_verdict_tells_the_speed_against_eager_and_against_the_better_compile() -> None:
    found = verdict(
        {"eager": 8e-6, "compile": 2e-6, "compile-max-autotune": 4e-6}, {"eager": 2e-6, "compile-max-autotune": 8e-6}
    )
    assert found.speedup == pytest.approx(2)
    assert found.speedup_over_eager == pytest.approx(4)
    assert found.speedup_over_compile == pytest.approx(4)
    for without in (
        verdict({"numpy": 3e-6}),
        verdict({"eager": 3e-6}),
        verdict({"eager": 3e-6, "compile": 1e-6}, {"eager": 1e-6}),
    ):
        assert without.speedup_over_eager is None and without.speedup_over_compile is None
    assert Accepted.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("given", ["", "none", "-1", "0", "inf", "nan"])
def test_a_patience_that_is_no_time_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, given)
    with pytest.raises(InfrastructureError, match="no number of seconds"):
        compile_seconds()


def test_pytorch_itself_is_always_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIANTS_VARIABLE, " compile ,")
    assert wanted_variants() == ("eager", "compile")
    monkeypatch.setenv(VARIANTS_VARIABLE, "compile,fast")
    with pytest.raises(InfrastructureError, match="names no baseline"):
        wanted_variants()


def test_what_takes_too_long_is_ended_and_the_next_has_its_own_time() -> None:
    with pytest.raises(TimeoutError, match=r"took longer than 0\.01 s"), Patience().within(0.01):
        while True:
            json.dumps({})
    with Patience().within(60):
        pass


def test_a_variant_that_changes_its_arguments_sees_them_anew(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    seen = tmp_path / "seen"
    (tmp_path / "adds.py").write_text(
        f"import torch\nseen = open({str(seen)!r}, 'a')\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        print(float(x.sum()), file=seen, flush=True)\n        return x.add_(1)\n"
        "def get_inputs():\n    return [torch.rand(100)]\n"
    )
    source = read_task(tmp_path / "adds.py")
    job = Job(source=source, device="cpu", variants=(EAGER,), seconds=0.001, least=3, most=3)
    found = list(rows(torch, job))
    assert [len(row.samples) for row in found] == [3]
    assert len(set(seen.read_text().split()[-4:])) == 1


def test_the_terminal_tells_both_speeds_where_both_were_timed() -> None:
    both = verdict({"eager": 8e-6, "compile": 2e-6})
    console = Console(record=True, width=200, file=io.StringIO())
    print_verdict(console, both, "PyTorch")
    print_verdict(console, verdict({"numpy": 3e-6}), "NumPy")
    text = console.export_text()
    assert "2x against PyTorch (8x against eager, 2x against the better torch.compile)" in text.replace(".00x", "x")
    assert text.count("torch.compile") == 1
