"""The generated header, its slots, and the declarations of tunables."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from tools.contract import DType, Scalar, Signature, Tensor, slots, task_header
from tools.errors import KernelError
from tools.tunables import parse_tunables, settings_kept


def pair(rows: int) -> Signature:
    return Signature(
        inputs=(Tensor(name="x", dtype="float32", shape=(rows, 64)), Scalar(name="eps", ctype="float64")),
        outputs=(Tensor(name="y", dtype="bfloat16", shape=(rows, 64)), Tensor(name="total", dtype="int64", shape=())),
    )


def test_equal_dimensions_are_constants_and_varying_ones_members() -> None:
    header = task_header("rows", [pair(3), pair(5)])
    assert "int64_t x_d0;" in header
    assert "static constexpr int64_t x_d1 = 64;" in header
    assert "static constexpr int64_t total_size = 1;" in header
    assert "static constexpr int64_t x_d0 = 3;" in task_header("rows", [pair(3), pair(3)])


def test_slots_follow_the_members_of_the_header() -> None:
    both = [pair(3), pair(5)]
    found = slots(both[1], both)
    assert [(slot.kind, slot.member, slot.value) for slot in found] == [
        ("input", "x", 0),
        ("value", "x_d0", 5),
        ("value", "x_size", 320),
        ("scalar", "eps", 0),
        ("output", "y", 0),
        ("value", "y_d0", 5),
        ("value", "y_size", 320),
        ("output", "total", 0),
    ]
    header = task_header("rows", both)
    members = [
        line.split(";")[0].split()[-1] for line in header.splitlines() if line.startswith("    ") and ";" in line
    ]
    declared = [name for name in members if name in {slot.member for slot in found}]
    assert declared == [slot.member for slot in found]


@pytest.mark.parametrize("dtype", get_args(DType))
def test_every_dtype_compiles_and_has_its_size(dtype: DType, tmp_path: Path) -> None:
    tensor = Tensor(name="x", dtype=dtype, shape=(2, 0, 3))
    signature = Signature(inputs=(tensor,), outputs=(Tensor(name="y", dtype=dtype, shape=()),))
    (tmp_path / "task.h").write_text(task_header("dtypes", [signature]))
    size = Tensor(name="x", dtype=dtype, shape=(1,)).nbytes
    (tmp_path / "t.cpp").write_text(
        '#include "task.h"\n#include <type_traits>\n'
        f"static_assert(sizeof(*task::Args{{}}.x) == {size} && task::Args::x_size == 0 && sizeof(task::Args) == 16);\n"
        "float twice(const task::Args& args) { return (float)args.y[0] + (float)args.x[0]; }\n"
    )
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "t.cpp"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_bfloat16_rounds_to_nearest_even_and_keeps_nan(tmp_path: Path) -> None:
    (tmp_path / "task.h").write_text(task_header("rows", [pair(3)]))
    (tmp_path / "t.cpp").write_text(
        '#include "task.h"\n#include <cmath>\n#include <cstdio>\n#include <initializer_list>\nint main() {\n'
        "  for (float v : {1.0f, 1.00390625f, 1.01171875f, 3.4e38f, -0.0f, 1e-40f}) "
        'printf("%a\\n", (double)(float)task::bfloat16(v));\n'
        '  printf("%d\\n", std::isnan((float)task::bfloat16(NAN)));\n}\n'
    )
    subprocess.run(["g++", "-std=c++20", "t.cpp", "-o", "t"], cwd=tmp_path, check=True)
    out = subprocess.run(["./t"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    import ml_dtypes
    import numpy as np

    values = np.array([1.0, 1.00390625, 1.01171875, 3.4e38, -0.0, 1e-40], np.float32)
    expected = values.astype(ml_dtypes.bfloat16).astype(float)
    assert [float.fromhex(word) for word in out[:-1]] == list(expected)
    assert out[-1] == "1"


def test_in_place_arrays_appear_once_and_are_writable() -> None:
    state = Tensor(name="state", dtype="float32", shape=(8,))
    signature = Signature(inputs=(state, Scalar(name="steps", ctype="int64")), outputs=(state,))
    header = task_header("in place", [signature])
    assert "float* state;  // in place" in header
    assert "const float* state" not in header
    assert [slot.kind for slot in slots(signature, [signature])] == ["scalar", "output"]


@pytest.mark.parametrize("name", ["class", "2x", "a b", "Args", "x_d0", "x_size", "x", "float16", "_x", "ä", ""])
def test_unusable_names_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Signature(
            inputs=(Tensor(name="x", dtype="float32", shape=(2,)), Tensor(name=name, dtype="float32", shape=(2,))),
            outputs=(Tensor(name="y", dtype="float32", shape=(2,)),),
        )


def test_workloads_must_agree_in_rank() -> None:
    flat = Signature(
        inputs=(Tensor(name="x", dtype="float32", shape=(8,)), Scalar(name="eps", ctype="float64")),
        outputs=pair(3).outputs,
    )
    with pytest.raises(ValueError, match="workload 1 differs"):
        task_header("rows", [pair(3), flat])


def test_a_hostile_task_name_stays_a_comment() -> None:
    header = task_header('x*/\n#include "/etc/passwd"\n//', [pair(3)])
    assert not any(line.startswith("#include") and "passwd" in line for line in header.splitlines())


def test_tunables_put_the_default_first() -> None:
    files = {
        "kernel.cpp": "// tune: BLOCK = 32, 64 ,128\n#ifndef BLOCK\n#define BLOCK 64\n#endif\n",
        "more.h": "  // tune: SCHEDULE = static,dynamic\n// tuned by hand: X = 1\n",
    }
    assert parse_tunables(files) == {"BLOCK": ("64", "32", "128"), "SCHEDULE": ("static", "dynamic")}


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        (("#define B 2", "// more"), {"B": "8", "C": "9", "D": "1"}),
        (("#define B 2", "#define B 4"), {"C": "9", "D": "1"}),
        (("C = 1,2", "C = 2,1"), {"B": "8", "C": "9", "D": "1"}),
        (("#define B 2", "#define B 2\n#define C 2"), {"B": "8", "D": "1"}),
        (("B = 1,2", "B = 1,2,16"), {"B": "8", "C": "9", "D": "1"}),
        (("// tune: C = 1,2", ""), {"B": "8", "C": "9", "D": "1"}),
        (("// tune: C = 1,2", "// tune: C"), {"B": "8", "C": "9", "D": "1"}),
    ],
)
def test_a_setting_holds_until_the_text_declares_another_value(after: tuple[str, str], kept: dict[str, str]) -> None:
    text = "// tune: B = 1,2\n// tune: C = 1,2\n#define B 2\n"
    was = {"B": "8", "C": "9", "D": "1"}
    assert settings_kept(was, {"kernel.cpp": text}, {"kernel.cpp": text.replace(*after)}) == kept


@pytest.mark.parametrize(
    "line", ["// tune: BLOCK 1,2", "// tune: BLOCK =", "// tune: B = 1,,2", "// tune: B = 1;system()"]
)
def test_malformed_tunables_name_their_line(line: str) -> None:
    with pytest.raises(KernelError, match=r"kernel\.cpp:2: "):
        parse_tunables({"kernel.cpp": "int x;\n" + line})


def test_a_tunable_declared_twice_is_refused() -> None:
    with pytest.raises(KernelError, match=r"kernel\.cpp:2: .* twice"):
        parse_tunables({"kernel.cpp": "// tune: B = 1\n// tune: B = 2"})
