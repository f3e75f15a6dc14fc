"""Reading tasks and kernels: text only, every fault with its own sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.errors import KernelError, TaskError
from tools.task import TaskSource, read_kernel, read_task

TASKS = Path(__file__).parent / "tasks"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def fault(path: Path, **overrides: int) -> tuple[str, str]:
    with pytest.raises(TaskError) as caught:
        read_task(path, overrides)
    return caught.value.fault, str(caught.value)


def test_numpy_file_with_the_kernel_beside_it() -> None:
    task = read_task(TASKS / "saxpy.py")
    assert (task.name, task.kind, task.entry) == ("saxpy", "numpy", "saxpy.py")
    assert set(task.files) == {"saxpy.py"}
    assert "solve" in task.start["cpp"].files["kernel.cpp"]
    assert task.description.startswith("Scaled sum")


def test_folder_brings_imported_modules_and_included_headers() -> None:
    task = read_task(TASKS / "two_sizes")
    assert set(task.files) == {"reference.py", "drawing.py"}
    assert set(task.start["cpp"].files) == {"kernel.cpp", "largest.h"}
    assert [workload.weight for workload in task.workloads] == [3.0, 1.0]
    assert task.distributions == ("given", "heavy_tailed", "structured")


def test_kernelbench_file_is_recognised_and_not_executed(tmp_path: Path) -> None:
    text = (TASKS / "normalised_linear.py").read_text() + "\nraise SystemExit('executed')\n"
    task = read_task(write(tmp_path / "task.py", text), {"batch_size": 8})
    assert task.kind == "kernelbench"
    assert task.overrides == {"batch_size": 8}


def test_task_travels_as_json_and_its_id_is_its_content() -> None:
    task = read_task(TASKS / "two_sizes")
    assert TaskSource.model_validate_json(task.model_dump_json()) == task
    assert task.model_copy(update={"start": {}}).id == task.id
    assert task.model_copy(update={"policy": "tf32"}).id != task.id


def test_missing_task(tmp_path: Path) -> None:
    assert fault(tmp_path / "no.py")[0] == "missing"


@pytest.mark.parametrize("content", [b"def inputs(rng:\n    pass\n", b"\x7fELF\xff\xfe\x00", b"x = 1\x00"])
def test_not_python(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "task.py"
    path.write_bytes(content)
    assert fault(path)[0] == "not_python"


def test_syntax_error_names_its_line(tmp_path: Path) -> None:
    assert "task.py:2:" in fault(write(tmp_path / "task.py", "x = 1\ndef inputs(rng:\n"))[1]


def test_file_without_a_task_says_what_it_lacks(tmp_path: Path) -> None:
    kind, text = fault(write(tmp_path / "task.py", "def inputs(rng):\n    return {}\n"))
    assert kind == "not_a_task"
    assert "`reference`" in text


def test_folder_without_manifest(tmp_path: Path) -> None:
    assert fault(tmp_path)[0] == "not_a_task"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nmae = 'x'", "nmae"),
        ("[[workloads]]\nname = 'a'\nwieght = 2", "wieght"),
        ("policy = 'loose'", "policy"),
        ("[[workloads]]\nweight = 0", "weight"),
        ("[[workloads]]\nname = 'a'\n[[workloads]]\nname = 'a'", "a name of its own"),
        ("distributions = ['gaussian']", "distributions"),
        ("name = \nx = 1", "line 1"),
        ("reference = '../../etc/passwd'", "reference"),
        ("[[workloads]]\nparameters = { sise = 3 }", "sise"),
    ],
)
def test_wrong_manifest_names_what_is_wrong(tmp_path: Path, text: str, named: str) -> None:
    write(tmp_path / "reference.py", "def inputs(rng, size=1):\n    return {}\ndef reference():\n    return 0\n")
    write(tmp_path / "task.toml", text)
    kind, message = fault(tmp_path)
    assert kind == "not_a_task"
    assert named in message


def test_unknown_override_is_refused_with_the_choices() -> None:
    kind, text = fault(TASKS / "normalised_linear.py", batchsize=3)
    assert kind == "not_a_task"
    assert "batchsize" in text and "batch_size" in text


def test_override_may_name_a_parameter_or_a_constant() -> None:
    assert read_task(TASKS / "saxpy.py", {"SIZE": 8, "offset": 2.0}).overrides == {"SIZE": 8, "offset": 2.0}


def test_start_kernel_of_the_manifest_must_exist(tmp_path: Path) -> None:
    write(tmp_path / "reference.py", "def inputs(rng):\n    return {}\ndef reference():\n    return 0\n")
    write(tmp_path / "task.toml", "[start]\ncpp = 'gone.cpp'")
    with pytest.raises(KernelError, match=r"gone\.cpp"):
        read_task(tmp_path)


def test_kernel_from_a_folder_and_from_a_file(tmp_path: Path) -> None:
    write(tmp_path / "kernel.cpp", '#include "parts/a.h"\n#include "task.h"\n#include "../outside.h"\n')
    write(tmp_path / "parts/a.h", "// a")
    write(tmp_path / "task.h", "// generated")
    write(tmp_path.parent / "outside.h", "// not the kernel's")
    for path in (tmp_path, tmp_path / "kernel.cpp"):
        assert set(read_kernel(path).files) == {"kernel.cpp", "parts/a.h"}
    assert read_kernel(tmp_path).id == read_kernel(tmp_path / "kernel.cpp").id


def test_kernels_that_can_not_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "x.cpp"
    binary.write_bytes(b"\xff\xfe\xfd")
    write(tmp_path / "two/kernel.cpp", "")
    write(tmp_path / "two/kernel.cu", "")
    for path in (tmp_path / "none.cpp", tmp_path / "empty", binary, tmp_path / "two", write(tmp_path / "x.rs", "")):
        with pytest.raises(KernelError):
            read_kernel(path)
    assert read_kernel(tmp_path / "two", "cuda").language == "cuda"
