"""Cheating `ModelNew` files against the real judge, on this machine's processors, and honest ones that resemble them.

A dozen of those beside tests/kernels/torch.toml; all of them are judged on a GPU, and test_golden_h200.py replays that.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator

import pytest
from adversary import BUSY_TRIES, explain, outcome, too_busy
from test_cheating import CATALOGUE
from torch_cheats import FOLDER, MANIFEST, SHARED, cpu_task, torch_kernel

from tools.judge import Judge, open_task
from tools.messages import CALLS_SHIFT, REQUEST
from tools.records import Accepted, Rejected, Unjudged
from tools.worker import WorkerFailed

pytest.importorskip("torch")

CHEATS = {name: row for name, row in MANIFEST.items() if "stage" in row}
JUDGED = [name for name, row in MANIFEST.items() if row.get("ci")]


def test_every_file_is_in_the_manifest_and_has_an_honest_twin() -> None:
    listed = {row.get("kernel", name) for name, row in MANIFEST.items()} | {SHARED.removesuffix(".py")}
    assert listed == {path.stem for path in FOLDER.glob("*.py")}
    for name, row in CHEATS.items():
        twin = MANIFEST[row["twin"]]
        assert "stage" not in twin and not twin.get("harmless"), name
        assert row["rows"] and set(row["rows"]) <= set(CATALOGUE), name
    assert all("stage" not in row and row["rows"] for row in MANIFEST.values() if row.get("harmless"))


@pytest.mark.parametrize("name", [name for name, row in MANIFEST.items() if "kernel" not in row])
def test_kernel_is_a_model_and_says_its_trick_and_the_defence(name: str) -> None:
    text = torch_kernel(name).files["kernel.py"]
    words = ("# Trick: ", "# Defence: ") if MANIFEST[name].get("rows") else ("# Looks like: ", "# Honest: ")
    assert [line.startswith(word) for line, word in zip(text.splitlines(), words, strict=False)] == [True, True]
    assert any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in ast.parse(text).body)


@pytest.fixture(scope="module")
def judges() -> Iterator[dict[str, Judge]]:
    opened: dict[str, Judge] = {}
    yield opened
    for judge in opened.values():
        judge.close()


def judged(judges: dict[str, Judge], name: str) -> Accepted | Rejected | Unjudged:
    source = cpu_task(MANIFEST[name])
    if source.id not in judges:
        judges[source.id] = open_task(source)
    for _ in range(BUSY_TRIES):
        verdict = judges[source.id].evaluate(torch_kernel(name))
        if not too_busy(verdict):
            break
    return verdict


@pytest.mark.parametrize("name", JUDGED)
def test_verdict_is_the_one_that_it_deserves(name: str, judges: dict[str, Judge]) -> None:
    wanted, verdict = MANIFEST[name], judged(judges, name)
    if too_busy(verdict) and wanted.get("stage", "time") == "time":
        pytest.skip("other programs keep this machine too busy")
    if "stage" not in wanted:
        assert isinstance(verdict, Accepted), explain(verdict)
    else:
        stages = [wanted["stage"]] if isinstance(wanted["stage"], str) else wanted["stage"]
        expected = {f"{stage}:{reason}" for stage in stages for reason in wanted["reasons"]}
        assert outcome(verdict) in expected, explain(verdict)


def test_the_page_on_cheating_names_every_row_and_every_fixture() -> None:
    text = (FOLDER.parents[2] / "docs/cheating.md").read_text(encoding="utf-8")
    native = tomllib.loads((FOLDER.parent / "cuda.toml").read_text(encoding="utf-8"))
    assert [row for row in CATALOGUE if f"\n| {row} |" not in text] == []
    assert [name for name in native if f"`{name.removeprefix('cuda_')}`" not in text] == []
    assert [name for name in MANIFEST if f"`{name}`" not in text] == []


@pytest.mark.parametrize(("name", "right"), [("honest", True), ("c1_empty", False), ("c10_alias", None)])
def test_a_row_of_calls_computes_each_of_them(
    name: str, right: bool | None, judges: dict[str, Judge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the judge asks for on a GPU, of the same worker on this machine's processors."""
    source = cpu_task(MANIFEST[name])
    judge = judges.get(source.id) or judges.setdefault(source.id, open_task(source))
    kernel = torch_kernel(name)
    with judge.device.torch.worker(judge.build_variant(kernel, "release"), judge.calls, judge.buffers, None) as worker:
        assert worker.allowance.seconds > 0  # and what copying takes is known from here on
        content = judge.content.fresh(0)
        worker.outputs[0].poison(7)
        monkeypatch.setattr(worker, "_request", lambda nonce, workload: REQUEST.pack(nonce, workload, 5 << CALLS_SHIFT))
        if right is None:
            with pytest.raises(WorkerFailed, match="instead of memory of its own"):
                worker.call(0, timeout=20.0)
            return
        worker.call(0, timeout=20.0, freeze_on_answer=True)
        assert content.check(dict(worker.outputs[0].outputs)).ok is right
