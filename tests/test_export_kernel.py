"""Accepted kernels exported in three forms; each is judged again from the files, for real, on the processor."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import make_run

from app.export_kernel import Wanted, export_kernel
from app.exporting import forms
from app.exporting.checks import Form
from app.exporting.flags import HALF, flags_of, shown
from app.exporting.flat import flattened
from app.exporting.forms import Origin
from app.findings import INSTALL_TORCH
from app.inputs import kernel_at
from memory.files import RunFolderError
from memory.runs import Attempt, RunFolder
from tools.calls_process import Calls, calls_of
from tools.contract import Scalar, Signature, Tensor, task_header
from tools.errors import KernelError, WarpsmithError
from tools.records import Accepted, Interval, Kernel, StageReport, TargetName, WorkloadTiming
from tools.targets.cpu import CpuTarget
from tools.task import TaskSource, read_task
from tools.torch_call import model_call

TASKS = Path(__file__).parent / "tasks"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
ACCEPTED = {"samples": 9, "baseline_seconds": 2e-3, "limit_seconds": 1e-4}


_KNOWN: dict[tuple[str, str], Calls] = {}


def calls_for(task: TaskSource, target: TargetName) -> Calls:
    """As `calls_of`, which starts a process: asked once for each task here."""
    if (task.id, target) not in _KNOWN:
        _KNOWN[task.id, target] = calls_of(task, target)
    return _KNOWN[task.id, target]


@pytest.fixture(autouse=True)
def asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.export_kernel.calls_of", calls_for)


def run_of(root: Path, task: TaskSource, kernel: Kernel) -> RunFolder:
    """A run that accepted one kernel, as an earlier judge would have left it; only the compiler's command is real."""
    build = None
    if kernel.language == "cpp":
        build = CpuTarget().compile_kernel(kernel, calls_for(task, "cpu").header).report
    timing = WorkloadTiming(
        workload="default", weight=1, seconds=1e-3, interval=Interval(low=1e-3, high=1e-3), **ACCEPTED
    )
    stages = (StageReport(stage="build", passed=True, seconds=0.1, build=build),)
    verdict = Accepted(kernel=kernel.id, stages=stages, timings=(timing,), worst_error=0.1)
    run = RunFolder.create(root, task.name, {"task": task.model_dump(mode="json")})
    attempt = Attempt(
        id="a0",
        parent=None,
        iteration=0,
        kernel_id=kernel.id,
        kernel=kernel.model_dump(mode="json"),
        change="the starting kernel",
        outcome="kept",
        judged_at=1.8e9,
        device_seconds=1.0,
    )
    run.add_attempt(attempt, kernel.files, verdict.model_dump(mode="json"))
    return run


MODEL = """#include "task.h"
#include <cmath>
extern "C" void solve(const task::Args& a, void*) {
    for (int64_t row = 0; row < a.x_d0; ++row)
        for (int64_t at = 0; at < a.out_d1; ++at) {
            double sum = a.linear_bias[at];
            for (int64_t k = 0; k < a.x_d1; ++k) sum += a.x[row * a.x_d1 + k] * a.linear_weight[at * a.x_d1 + k];
            sum = (sum - a.norm_running_mean[at]) / std::sqrt(a.norm_running_var[at] + 1e-5);
            sum = sum * a.norm_weight[at] + a.norm_bias[at];
            a.out[row * a.out_d1 + at] = static_cast<float>((sum > 0 ? sum : 0) * a.scale);
        }
}
"""


def asked(run: RunFolder, form: Form, out: Path, **changes: object) -> Wanted:
    fields = {"run": str(run.path), "attempt": None, "form": form, "out": out, "check": True, "executor": "local"}
    return Wanted(**(fields | changes))  # type: ignore[arg-type]


def exported(capsys: pytest.CaptureFixture[str], *arguments: object, **more: object) -> tuple[int, dict[str, Any]]:
    code = export_kernel(asked(*arguments, **more), Path("runs"), as_json=True)  # type: ignore[arg-type]
    return code, json.loads(capsys.readouterr().out)


def test_bare_sources_are_judged_as_they_lie_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = read_task(TASKS / "saxpy.py")
    kernel = task.start["cpp"].model_copy(update={"flags": ("-O3",), "defines": {}})
    run = run_of(tmp_path / "runs", task, kernel)
    (run.path / "events.jsonl").touch()
    code, told = exported(capsys, run, "sources", tmp_path / "out")
    assert code == 0, told
    (event,) = run.events()
    assert (event["event"], event["folder"], event["status"]) == ("exported", str(tmp_path / "out"), "accepted")
    assert str(event["said"]).startswith("accepted again: ") and told["unnoted"] == ""
    assert told["verdict"]["status"] == "accepted"
    assert told["verdict"]["kernel"] == kernel.id, "flags come back with it"
    assert told["files"] == ["README.md", "build.json", "kernel.cpp", "task.h"]
    command = json.loads((tmp_path / "out/build.json").read_text())["command"]
    assert "-O3" in command and command[0] == "g++"
    subprocess.run(command, cwd=tmp_path / "out", check=True)
    assert (tmp_path / "out/kernel.so").is_file()


@needs_torch
def test_a_kernelbench_file_is_judged_as_a_torch_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = read_task(TASKS / "saxpy.py")
    run = run_of(tmp_path / "runs", task, task.start["cpp"])
    code, told = exported(capsys, run, "kernelbench", tmp_path / "out")
    assert code == 0, told
    assert told["verdict"]["status"] == "accepted"
    assert told["files"] == ["kernel.py"]


@needs_torch
def test_a_package_is_judged_installed_and_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = read_task(TASKS / "two_sizes")
    code, told = exported(capsys, run_of(tmp_path / "runs", task, task.start["cpp"]), "torch-op", tmp_path / "out")
    assert code == 0, told
    assert told["verdict"]["status"] == "accepted"
    assert told["selftest"]["status"] == "passed"
    for words in ("small, through torch.compile: as", "wide, called: as", "opcheck: passed"):
        assert words in told["selftest"]["said"]


IN_PLACE = """import numpy as np

def inputs(rng):
    return {"total": rng.standard_normal((4, 6)), "x": rng.standard_normal((4, 6)), "on": True}

def reference(total, x, on):
    return {"total": total + x if on else total, "count": np.array([x.size], dtype=np.int64)}
"""
ADDS = """#include "task.h"
#include "part/add.h"
extern "C" int64_t scratch_bytes(const task::Args& args) { return args.x_size * 8; }
extern "C" void solve(const task::Args& args, void* scratch) {
    auto* sums = static_cast<double*>(scratch);
    if (reinterpret_cast<uintptr_t>(scratch) % 256) return;
    for (int64_t i = 0; i < args.x_size; ++i) sums[i] = added(args.total[i], args.x[i]);
    if (args.on) for (int64_t i = 0; i < args.x_size; ++i) args.total[i] = sums[i];
    args.count[0] = args.x_size;
}
"""
ADD = """#pragma once
#include "sum.h"
#include "part/sum.h"
inline double added(double a, double b) { return sum(a, b); }
"""
SUM = "#pragma once\ninline double sum(double a, double b) { return a + b; }\n"


def linear_calls(task: TaskSource) -> Calls:
    """What `calls_of` says of tests/tasks/normalised_linear.py, without the seconds that PyTorch takes to say it."""
    own = ("linear.weight", "linear.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var")
    state = {name: name.replace(".", "_") for name in own}
    held = [Tensor(name=name, dtype="float32", shape=(32,)) for name in state.values()]
    held[0] = Tensor(name="linear_weight", dtype="float32", shape=(32, 64))
    x, out = (Tensor(name=name, dtype="float32", shape=(512, size)) for name, size in (("x", 64), ("out", 32)))
    signature = Signature(inputs=(x, Scalar(name="scale", ctype="float64"), *held), outputs=(out,))
    call = model_call(signature, [64, 32], [("x", None), ("scale", None)], state)
    return Calls(header=task_header(task.name, [signature]), calls=(call,))


USES = """import sys

import torch
from task_model import Model, get_init_inputs, get_inputs
from linear import ModelNew as Linear
from added import ModelNew as Added
from k1_sum_op import run

torch.manual_seed(3)
old, given = Model(*get_init_inputs()).eval(), get_inputs()
torch.manual_seed(3)
new = Linear(*get_init_inputs()).eval()
assert torch.allclose(old(*given), new(*given), atol=1e-5), "the same seed gives the same weights"
new.load_state_dict({name: value + 1 for name, value in old.state_dict().items()})
old.load_state_dict(new.state_dict())
assert torch.allclose(old(*given), new(*given), atol=1e-4)

def refused(call, arguments, error, words):
    try:
        call(*arguments)
    except error as raised:
        assert words in str(raised), raised
    else:
        raise AssertionError(words)

for call in (run, Added()):
    total, x = torch.ones(4, 6, dtype=torch.float64), torch.arange(24, dtype=torch.float64).reshape(6, 4).T
    result, count = call(total, x, True)
    assert result is total and count.item() == 24
    assert torch.equal(total, x + 1), "inputs that are not contiguous are copied first"
    refused(call, (total, x[:2], True), ValueError, "not judged with the shapes {'total': (4, 6), 'x': (2, 6)}")
    refused(call, (total, x.float(), True), TypeError, "x has dtype torch.float32; this kernel takes torch.float64")
    refused(call, (total.T.contiguous().T, x, True), ValueError, "total is updated in place and must be contiguous")
    refused(call, (total, x), TypeError, "takes 3")
refused(Added(), (total, 1.0, True), TypeError, "x is a float")
assert "Tensor(a!) total" in str(torch.ops.k1_sum_op.run.default._schema)
nowhere = torch.empty(4, 6, dtype=torch.float64, device="meta")
total, count = run(nowhere, nowhere.clone(), False)
assert total is nowhere and tuple(count.shape) == (1,) and count.dtype == torch.int64 and count.is_meta
assert not [name for name in sys.modules if name.partition(".")[0] in ("app", "tools")], "it needs nothing of ours"
"""


@needs_torch
def test_exports_work_in_plain_pytorch(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/reference.py").write_text(IN_PLACE)
    (tmp_path / "task/task.toml").write_text('name = "1 sum"\ninplace = ["total"]\n')
    files = {"kernel.cpp": ADDS, "part/add.h": ADD, "part/sum.h": SUM}
    run = run_of(tmp_path / "runs", read_task(tmp_path / "task"), Kernel(language="cpp", files=files))
    linear = read_task(TASKS / "normalised_linear.py")
    _KNOWN[linear.id, "cpu"] = linear_calls(linear)
    model = run_of(tmp_path / "runs", linear, Kernel(language="cpp", files={"kernel.cpp": MODEL}))
    for made, form, out in ((run, "torch-op", "op"), (run, "kernelbench", "kb"), (model, "kernelbench", "model")):
        assert export_kernel(asked(made, form, tmp_path / out, check=False), Path("runs"), as_json=True) == 0
    (tmp_path / "kb/kernel.py").rename(tmp_path / "op/added.py")
    (tmp_path / "model/kernel.py").rename(tmp_path / "op/linear.py")
    (tmp_path / "op/task_model.py").write_text((TASKS / "normalised_linear.py").read_text())
    (tmp_path / "op/uses.py").write_text(USES)
    environment = os.environ | {"TORCH_EXTENSIONS_DIR": str(tmp_path / "built")}
    command = [sys.executable, "uses.py"]
    done = subprocess.run(command, cwd=tmp_path / "op", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_is_no_accepted_kernel_is_refused(tmp_path: Path) -> None:
    task = read_task(TASKS / "saxpy.py")
    run = run_of(tmp_path / "runs", task, task.start["cpp"])
    out = tmp_path / "out"
    assert export_kernel(asked(run, "sources", out, check=False), Path("runs"), as_json=True) == 0
    with pytest.raises(WarpsmithError, match="is there already"):
        export_kernel(asked(run, "sources", out, check=False), Path("runs"), as_json=True)
    with pytest.raises(RunFolderError, match="no attempt a7"):
        export_kernel(asked(run, "sources", tmp_path / "a7", attempt="a7"), Path("runs"), as_json=True)
    unaccepted = make_run(tmp_path / "more")
    rejected = next(each.id for each in unaccepted.attempts() if each.outcome == "rejected")
    (unaccepted.path / "config.json").write_text(json.dumps({"task": task.model_dump(mode="json")}))
    with pytest.raises(RunFolderError, match=f"{rejected} of .* was not accepted"):
        export_kernel(asked(unaccepted, "sources", tmp_path / "b", attempt=rejected), Path("runs"), as_json=True)
    assert not (tmp_path / "b").exists()


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    task = read_task(TASKS / "saxpy.py")
    named = task.model_copy(update={"name": "x\"\"\"\nraise SystemExit('''y"})
    origin = Origin(named, task.start["cpp"], "run\nimport os", "a0", NVCC, "cpu")
    calls = calls_for(task, "cpu")
    files = forms.kernelbench(origin, calls) | forms.torch_op(origin, calls)
    for path, text in files.items():
        if path.endswith(".py") and "/reference/" not in path:
            assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Raise) and node.lineno < 10]
            assert "\nimport os\n" not in text.partition("import ctypes")[0], path
    kernel = Kernel(language="cpp", files=task.start["cpp"].files | {"../../out.h": ""})
    run = run_of(tmp_path / "runs", task, task.start["cpp"])
    record = run.path / "attempts/a0/attempt.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"kernel": kernel.model_dump(mode="json")}))
    with pytest.raises(RunFolderError, match="leads out of its folder"):
        export_kernel(asked(RunFolder(run.path), "sources", tmp_path / "a/b", check=False), Path("runs"), as_json=True)
    assert not (tmp_path / "out.h").exists()


def test_exported_sources_are_read_with_their_settings(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text("// tune: WIDE = 1,2\n")
    record = tmp_path / "build.json"
    record.write_text('{"attempt": "a1", "defines": {"WIDE": "2"}, "flags": ["-O3"]}')
    assert (kernel_at(tmp_path).defines, kernel_at(tmp_path, ["WIDE=1"]).defines) == ({"WIDE": "2"}, {"WIDE": "1"})
    assert kernel_at(tmp_path, flags=["-Ofast"]).flags == ("-O3", "-Ofast")
    record.write_text('{"name": "of another tool"}')
    assert kernel_at(tmp_path).flags == ()
    for damaged in ('{"attempt": "a1"', '{"attempt": "a1"}', '{"attempt": 1, "defines": 3, "flags": []}', "7"):
        record.write_text(damaged)
        with pytest.raises(KernelError, match=r"build\.json can't be read"):
            kernel_at(tmp_path)


def test_a_torch_kernel_is_its_own_file_and_no_operator(tmp_path: Path) -> None:
    text = "# tune: WIDE = 1,2\nWIDE = 1\n\nclass ModelNew:\n    pass\n"
    kernel = Kernel(language="torch", files={"kernel.py": text}, defines={"WIDE": "2"})
    run = run_of(tmp_path / "runs", read_task(TASKS / "saxpy.py"), kernel)
    assert export_kernel(asked(run, "kernelbench", tmp_path / "kb", check=False), Path("runs"), as_json=True) == 0
    assert (tmp_path / "kb/kernel.py").read_text() == text.replace("WIDE = 1\n", "WIDE = 2\n")
    with pytest.raises(KernelError, match="PyTorch module itself can't be exported as a custom operator"):
        export_kernel(asked(run, "torch-op", tmp_path / "op", check=False), Path("runs"), as_json=True)


def test_without_pytorch_the_files_are_there_and_it_says_what_was_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.exporting.checks.find_spec", lambda _: None)
    task = read_task(TASKS / "saxpy.py")
    code, told = exported(capsys, run_of(tmp_path / "runs", task, task.start["cpp"]), "kernelbench", tmp_path / "out")
    assert code == 2
    assert told["unchecked"].startswith(f"PyTorch is not installed here ({INSTALL_TORCH}") and told["verdict"] is None
    assert (tmp_path / "out/kernel.py").is_file()


NVCC = (
    *("/opt/cuda/bin/nvcc", "-ccbin", "/usr/bin/g++", "-std=c++20", "-gencode", "arch=compute_90a,code=sm_90a", "-O3"),
    *("-lineinfo", "-shared", "-Xcompiler=-fPIC", "-Xptxas=-v", "-I.", "--use_fast_math", "-DBLOCK=128", "-keep"),
    *("-keep-dir", "../kept", "kernel.cu", "-o", "../kernel.so", "-Xlinker=-z,defs", "-Xlinker=--as-needed", "-lcuda"),
)


def test_flags_are_those_of_the_judge() -> None:
    flags = flags_of(NVCC, "cuda")
    assert flags.compile == ("-std=c++20", "-O3", "-lineinfo", "--use_fast_math", "-DBLOCK=128", *HALF)
    assert flags.link == ("-Wl,--as-needed", "-lcuda")
    assert shown(NVCC)[:3] == ["nvcc", "-ccbin", "g++"]
    assert not any("keep" in word for word in shown(NVCC)) and not any("/" in word for word in shown(NVCC))


def test_a_cuda_kernel_becomes_python_that_reads() -> None:
    task = read_task(TASKS / "two_sizes")
    kernel = Kernel(language="cuda", files={"kernel.cu": '#include "task.h"\nextern "C" void solve() { "\'\'\'"; }\n'})
    origin = Origin(task, kernel, "run", "a3", NVCC, "cuda")
    calls = calls_of(task, "cuda")
    files = forms.kernelbench(origin, calls) | forms.torch_op(origin, calls)
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
    assert "current_stream" in files["kernel.py"] and "cuda_sources=SOURCE" in files["kernel.py"]
    assert "-gencode=arch" in files["row_statistics_op/call.py"]


def test_included_text_takes_the_place_of_its_include() -> None:
    files = {
        "kernel.cpp": '#include "a/x.h"\n#include <vector>\n#include "a/x.h"\n#include "elsewhere.h"\nint last;\n',
        "a/x.h": '#pragma once\n#include "y.h"\nint x;\n',
        "a/y.h": '#include "x.h"\nint y;\n',
        "second.cc": "int second;\n",
    }
    text = flattened(files)
    assert text.count("int x;") == 2 and text.count("#ifndef ONCE_a_x_h") == 2, "the guard keeps the second one out"
    assert "#pragma once" not in text and '#include "a/x.h"' not in text
    assert '#include "elsewhere.h"' in text and "#include <vector>" in text
    assert text.index("int last;") < text.index("int second;")
    assert '#line 5 "kernel.cpp"' not in text and '#line 4 "kernel.cpp"\n#include "elsewhere.h"' in text
