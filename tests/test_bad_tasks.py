"""Tasks that can't be used: each is refused with one sentence, its closed reason and the user's own line."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from adversary import TASKS

from tools.audit import audit
from tools.errors import TaskError
from tools.executor import LocalExecutor
from tools.reference import load_reference
from tools.task import read_task

BAD = TASKS / "bad"

# What only reading the files shows: name, fault, what the sentence says.
UNREADABLE = [
    ("there_is_none.py", "missing", "there_is_none.py"),
    ("no_reference.py", "not_a_task", "reference"),
    ("unknown_key", "not_a_task", "tolerence"),
    ("broken_toml", "not_a_task", "task.toml"),
    ("no_reference_file", "missing", "reference.py"),
]

# What running the reference shows.
UNUSABLE = [
    ("raises_on_import.py", "raised", "raises_on_import.py:3"),
    ("raises_in_inputs.py", "raised", "raises_in_inputs.py:5"),
    ("raises_in_reference.py", "raised", "raises_in_reference.py:9"),
    ("exits.py", "raised", "SystemExit"),
    ("exits_in_reference.py", "raised", "SystemExit"),
    ("wrong_arguments.py", "raised", "argument"),
    ("mismatched_shapes.py", "raised", "mismatched_shapes.py:9"),
    ("returns_nan.py", "not_finite", "NaN"),
    ("returns_infinity.py", "not_finite", "infinity"),
    ("inputs_not_a_dict.py", "shapes", "list"),
    ("shape_by_seed.py", "shapes", "seed"),
    ("output_shape_by_data.py", "shapes", "inputs"),
    ("returns_text.py", "shapes", "str"),
    ("returns_nothing.py", "shapes", "None"),
    ("object_array.py", "shapes", "object"),
    ("complex_array.py", "shapes", "complex128"),
    ("huge_inputs.py", "too_large", "memory"),
    ("huge_output.py", "too_large", "memory"),
    ("all_zeros.py", "degenerate", "zeros"),
    ("constant.py", "degenerate", "constant"),
    ("constant_softmax.py", "degenerate", "constant"),
    ("input_copy.py", "degenerate", "x"),
    ("ignores_seed.py", "degenerate", "earlier"),
    ("random_reference.py", "degenerate", "different"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor() -> AsyncIterator[LocalExecutor]:
    async with LocalExecutor() as started:
        yield started


@pytest.mark.parametrize(("name", "fault", "says"), UNREADABLE)
def test_unreadable_task_is_refused(name: str, fault: str, says: str) -> None:
    with pytest.raises(TaskError) as caught:
        read_task(BAD / name)
    assert caught.value.fault == fault
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("syntax.py", b"def inputs(rng):\n    return {'x': rng.random(8)\n\n\ndef reference(x):\n    return x\n"),
        ("binary.py", b"\x7fELF\x02\x01\x01\x00" + bytes(range(128, 256))),
        ("nul.py", b"def reference(x):\n    return x\x00\n"),
        ("prose.py", b"Dear warpsmith,\nplease make my kernel fast.\n"),
    ],
)
def test_file_that_is_not_python_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TaskError) as caught:
        read_task(path)
    assert caught.value.fault == "not_python"
    assert name in caught.value.message


def test_syntax_error_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "typo.py"
    path.write_text("import numpy\n\n\ndef reference(x)\n    return x\n")
    with pytest.raises(TaskError, match=r"typo\.py:4"):
        read_task(path)


@pytest.mark.parametrize(("name", "fault", "says"), UNUSABLE)
@pytest.mark.asyncio(loop_scope="module")
async def test_unusable_task_is_refused(executor: LocalExecutor, name: str, fault: str, says: str) -> None:
    with pytest.raises(TaskError) as caught:
        await executor.open(read_task(BAD / name))
    assert caught.value.fault == fault
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert "Traceback" not in str(caught.value)


@pytest.mark.asyncio(loop_scope="module")
async def test_task_that_prints_on_the_channel_is_opened(executor: LocalExecutor) -> None:
    facts = await executor.open(read_task(BAD / "chatty.py"))
    assert facts.workloads[0].outputs == ("out: float64[4096]",)


@pytest.mark.asyncio(loop_scope="module")
async def test_task_that_kills_its_judge_is_blamed_and_the_service_goes_on(executor: LocalExecutor) -> None:
    with pytest.raises(TaskError) as caught:
        await executor.open(read_task(BAD / "dies.py"))
    assert caught.value.fault == "raised"
    assert "ended the process" in caught.value.message
    assert (await executor.open(read_task(BAD / "chatty.py"))).workloads


def test_saturated_task_is_noted() -> None:
    notes = audit(load_reference(read_task(BAD / "saturated.py")), seed=1)
    assert any("constant" in note for note in notes)


def test_task_that_takes_all_memory_is_refused() -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom tools.errors import TaskError\n"
        "from tools.reference import load_reference\nfrom tools.task import read_task\n"
        "try:\n    load_reference(read_task(Path(sys.argv[1])))\n"
        "except TaskError as error:\n    print(error.fault)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(BAD / "grows_without_end.py")],
        cwd=TASKS.parent.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert done.stdout.strip() == "too_large"
