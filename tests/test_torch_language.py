"""Torch kernels judged for real on this machine's processors, and the rules that need no judge."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch_kernels import EXTENSION, HEAD, HONEST, PLAIN_HEAD, kernel, plain

from tools.contract import Scalar, Signature, Tensor
from tools.errors import InfrastructureError, KernelError
from tools.judge import Judge, load_task
from tools.process import is_running
from tools.records import Accepted, Kernel, Reason, Rejected
from tools.runner import Failed
from tools.screen import screen
from tools.targets.choice import target_of
from tools.task import read_kernel, read_task
from tools.torch_build import with_defines
from tools.torch_call import model_call, plain_call
from tools.torch_host import forked_sandbox, torch_server
from tools.torch_trace import require_own_work
from tools.tunables import parse_tunables

torch: Any = pytest.importorskip("torch")

TASKS = Path(__file__).parent / "tasks"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with load_task(read_task(TASKS / "saxpy.py")) as made:
        made.open()
        yield made


def test_an_honest_kernel_passes_the_whole_gauntlet(judge: Judge) -> None:
    verdict = judge.evaluate(kernel())
    assert isinstance(verdict, Accepted), verdict
    stages = {report.stage: report for report in verdict.stages}
    assert list(stages) == ["screen", "build", "correct", "deterministic", "memory-safe", "time", "audit"]
    assert stages["memory-safe"].details["not_covered"]
    watched: Any = stages["correct"].details["device_kernels"]
    assert "aten::empty_like" in watched[0]["operators"]
    assert judge.build(kernel()).cached


REFUSED: dict[str, tuple[Kernel, str, Reason, str]] = {
    "an operator": (plain("return a * x + y"), "correct", "framework_op", "aten::mul.*kernel.py:10"),
    "a fallback": (
        plain("try:\n    raise RuntimeError\nexcept RuntimeError:\n    return torch.add(y, x, alpha=a)"),
        "correct",
        "framework_op",
        "aten::add",
    ),
    "an operator whose refusal is caught": (
        kernel(f"try:\n    a * x\nexcept Exception:\n    pass\n{HONEST}"),
        "correct",
        "framework_op",
        "aten::mul",
    ),
    "an operator in a thread": (
        plain(
            "out = []\nt = threading.Thread(target=lambda: out.append(a * x + y))\nt.start()\nt.join()\nreturn out[0]"
        ),
        "correct",
        "framework_op",
        "aten::mul",
    ),
    "an operator in a thread without the module": (
        kernel(
            "import _thread\nout = []\n_thread.start_new_thread(lambda: out.append(a * x + y), ())\n"
            "while not out:\n    time.sleep(1e-5)\nreturn out[0]"
        ),
        "correct",
        "framework_op",
        "aten::mul",
    ),
    "torch.compile": (
        plain("return torch.compile(lambda x, y: x + y)(x, y)"),
        "correct",
        "framework_op",
        "torch.compile",
    ),
    "late work": (
        kernel(
            "out = torch.empty_like(x)\ndef work():\n    time.sleep(0.003)\n    saxpy(x, y, a, out)\n"
            "threading.Thread(target=work).start()\nreturn out"
        ),
        "correct",
        "late_work",
        "after the call had returned",
    ),
    "an alias": (plain("return x"), "correct", "wrong_result", "memory of `x`"),
    "a subclass": (
        kernel("return torch.nn.Parameter(saxpy(x, y, a, torch.empty_like(x)), False)"),
        "correct",
        "wrong_result",
        "Parameter.*plain torch.Tensor",
    ),
    "another dtype": (plain("return torch.empty(4096, dtype=torch.float16)"), "correct", "wrong_result", "float16"),
    "no stride": (plain("return torch.empty(1).expand(4096)"), "correct", "wrong_result", "strides"),
    "an input written": (
        kernel(f"saxpy(x, y, a, x)\n{HONEST}"),
        "correct",
        "input_modified",
        "wrote to the input `x`",
    ),
    "a part left out": (
        kernel("return saxpy(x, y, a, torch.empty_like(x), 4000)"),
        "correct",
        "not_written",
        "96 of 4096",
    ),
    "a remembered result": (
        kernel(
            'if not hasattr(self, "out"):\n    self.out = saxpy(x, y, a, torch.empty_like(x))\nreturn self.out',
        ),
        "correct",
        "wrong_result",
        "should be",
    ),
    "a child": (plain('getattr(os, "fo" + "rk")()\nreturn x'), "correct", "forbidden_syscall", "PermissionError"),
    "an end": (plain('getattr(os, "_ex" + "it")(0)'), "correct", "exited", "exited"),
    "a crash": (kernel("ctypes.memset(16, 0, 8)\nreturn x"), "correct", "crashed", "null pointer"),
    "a process named": (plain('os.system("true")\nreturn x'), "screen", "forbidden_source", "kernel.py:10"),
    "no ModelNew": (
        Kernel(language="torch", files={"kernel.py": "import torch\n"}),
        "build",
        "no_entry",
        "ModelNew",
    ),
    "no Python": (
        Kernel(language="torch", files={"kernel.py": "import torch\n\nclass ModelNew(:\n"}),
        "build",
        "compile_error",
        "kernel.py:3",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_kernel_is_refused_for_the_right_reason(judge: Judge, what: str) -> None:
    candidate, stage, reason, message = REFUSED[what]
    verdict = judge.evaluate(candidate)
    assert isinstance(verdict, Rejected), verdict
    assert (verdict.stage, verdict.reason) == (stage, reason), verdict.message
    assert pytest.raises(AssertionError, match=message).matches(AssertionError(verdict.message)), verdict.message


@pytest.mark.skipif(shutil.which("ninja") is None, reason="PyTorch builds extensions with ninja, which is not here")
def test_an_extension_is_built_once_and_its_errors_are_told_by_the_kernels_own_lines(judge: Judge) -> None:
    build = judge.build_variant(kernel(head=EXTENSION), "release")
    with judge.runner(build) as runner:
        runner.call_unclocked(judge.content.fresh(0))
        runner.verify_last()
    wrong = judge.evaluate(kernel(head=EXTENSION.replace("y[i];", "z[i];")))
    assert isinstance(wrong, Rejected)
    assert (wrong.stage, wrong.reason, wrong.diagnostics[0].line) == ("build", "compile_error", 9), wrong
    assert "z" in wrong.message


def test_a_worker_sees_nothing_but_its_own(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    if forked_sandbox().level == "rlimits":
        pytest.skip("rlimits hide nothing")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    body = """
def tried(action):
    try:
        action()
        return "yes"
    except OSError:
        return "no"
s = __import__("soc" + "ket")
seen = [
    tried(lambda: open(os.path.dirname(__file__) + "/new", "w")),
    tried(lambda: open(os.path.expanduser("~/.profile"))),
    tried(lambda: s.socket(s.AF_INET)),
    tried(lambda: getattr(os, "ki" + "ll")(PARENT, 0)),
    str("SOME_API_KEY" in os.environ),
]
raise ValueError(" ".join(seen))
"""
    verdict = judge.evaluate(plain(body.replace("PARENT", str(os.getpid()))))
    assert isinstance(verdict, Rejected)
    assert "ValueError: no no no no False" in verdict.message


def test_a_worker_that_is_killed_from_outside_is_nobodys_fault(judge: Judge) -> None:
    build = judge.build_variant(kernel(), "release")
    with judge.runner(build) as runner:
        runner.call_unclocked(judge.content.fresh(0))
        os.kill(runner.worker.pid, signal.SIGKILL)
        with pytest.raises(InfrastructureError, match="killed the worker"):
            runner.call_unclocked(judge.content.fresh(0))


def test_variants_are_timed_side_by_side_and_a_tunable_is_set_in_the_file(judge: Judge) -> None:
    head = HEAD + "\n\n# tune: STEPS = 1,2\nSTEPS = 1\n"
    body = "out = torch.empty_like(x)\nfor _ in range(STEPS):\n    saxpy(x, y, a, out)\nreturn out"
    once = kernel(body, head)
    assert parse_tunables(once.files) == {"STEPS": ("1", "2")}
    twice = once.model_copy(update={"defines": {"STEPS": "2"}})
    results = judge.quick([once, twice, plain("return x + y")])
    assert [result.status for result in results] == ["timed", "timed", "rejected"]
    assert results[2].reason == "framework_op"


def test_a_profile_tells_the_time_and_what_it_can_not(judge: Judge) -> None:
    from tools.profilers.torch import profile_kernel

    profile = profile_kernel(judge, kernel())
    assert {metric.name for metric in profile.metrics} == {"seconds", "share_of_limit"}
    assert "machine code" in profile.missing[0]
    assert any("aten::empty_like" in line for line in profile.evidence)


def test_the_death_of_the_server_ends_its_workers_and_is_nobodys_fault(judge: Judge) -> None:
    server = torch_server("cpu")
    runner = judge.runner(judge.build_variant(kernel(), "release"))
    with runner:
        pid = runner.worker.pid
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(InfrastructureError):
            for _ in range(50):
                runner.call_unclocked(judge.content.fresh(0))
    assert not is_running(pid)
    assert not server.alive


# --------------------------------------------------------------------------------------------------- without a judge

_X = Tensor(name="x", dtype="float32", shape=(2, 3))
_OUT = Tensor(name="out", dtype="float32", shape=(2,))
_SIGNATURE = Signature(inputs=(_X, Scalar(name="a", ctype="float64")), outputs=(_OUT,))


def test_any_python_file_is_read_as_a_torch_kernel(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLAIN_HEAD)
    assert read_kernel(tmp_path / "mine.py").language == "torch"


def test_a_task_without_a_module_gives_its_inputs_in_their_order() -> None:
    call = plain_call(_SIGNATURE)
    assert (call.init, call.arguments, call.state) == ("[]", (("input", "x"), ("input", "a")), {})


def test_a_module_is_told_by_literals_and_what_has_none_is_refused() -> None:
    call = model_call(_SIGNATURE, [3, (1, 2), "mean"], [("x", None), (None, None)], {"weight": "x"})
    assert call.init == "[3, (1, 2), 'mean']"
    assert call.arguments == (("input", "x"), ("constant", "None"))
    with pytest.raises(KernelError, match="get_init_inputs"):
        model_call(_SIGNATURE, [object()], [], {})


def test_a_tunable_is_set_at_the_left_margin_only() -> None:
    text = "BLOCK = 64  # tune: not a declaration\ndef f():\n    BLOCK = 1\n"
    made = Kernel(language="torch", files={"kernel.py": text}, defines={"BLOCK": "128"})
    assert with_defines(made)["kernel.py"] == "BLOCK = 128\ndef f():\n    BLOCK = 1\n"
    for define in ({"NO": "1"}, {"BLOCK": "1; import os"}):
        with pytest.raises(KernelError):
            with_defines(made.model_copy(update={"defines": define}))


def test_the_target_is_that_of_the_language_or_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.targets.choice.find_devices", lambda: ())
    triton = Kernel(language="torch", files={"kernel.py": "import triton\n"})
    assert target_of(["cpp"]) == "cpu"
    assert target_of(["torch"], [plain("return x")]) == "cpu"
    assert target_of(["torch"], [triton]) == "cuda"
    monkeypatch.setattr("tools.targets.choice.find_devices", lambda: ("a device",))
    assert target_of(["torch"], [plain("return x")]) == "cuda"


def test_the_screen_reads_python_as_python() -> None:
    text = "import subprocess\nfrom multiprocessing import Pool\nhalf = n // 2  # os.system\nos.fork()\n"
    found = screen(Kernel(language="torch", files={"kernel.py": text}))
    assert [each.line for each in found] == [1, 2, 4]


def test_ModelNew_holds_the_tasks_values_and_no_copies() -> None:
    from tools.torch_load import make_model
    from tools.torch_ops import RuleBrokenError

    class ModelNew(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(size))
            self.register_buffer("own", torch.zeros(1))

    class Module:
        pass

    module = Module()
    module.ModelNew = ModelNew  # type: ignore[attr-defined]
    given = torch.ones(3)
    model = make_model(module, {"init": "[3]"}, {"weight": given}, "cpu")
    given[1] = 5
    assert model.weight.tolist() == [1, 5, 1]
    assert not model.training and not model.weight.requires_grad
    for wrong in ({"bias": given}, {"weight": torch.ones(4)}):
        with pytest.raises(RuleBrokenError) as refused:
            make_model(module, {"init": "[3]"}, wrong, "cpu")
        assert refused.value.reason == "no_entry"


@pytest.mark.parametrize(
    "function",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(...)",
        "triton_poi_fused_add_mul_0",
        "cupy_multiply__float32_float_float32",
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512>(...)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 11, false, false>(float*, float const*)",
        "void cub::DeviceScanKernel<float>(float*)",
    ],
)
def test_a_kernel_of_the_framework_on_the_device_is_told_from_an_own_one(function: str) -> None:
    own = Kernel(language="torch", files={"kernel.py": "__global__ void scale_rows(float* x)"})
    mine: Any = {
        "operators": {"aten::empty": 1},
        "kernels": {"scale_rows(float*)": [2, 10.0], "Memset (Device)": [1, 1.0]},
    }
    assert require_own_work(own, ["w"], [mine]) == {"w": 1.0}
    with pytest.raises(Failed) as failed:
        require_own_work(own, ["w"], [{"kernels": {**mine["kernels"], function: [1, 5.0]}}])
    assert failed.value.reason == "framework_op"


@pytest.mark.parametrize(
    ("function", "passes"),
    [
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(...)", True),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(...)", True),
        ("cupy_multiply__float32_float_float32", False),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", False),
    ],
)
def test_a_vendor_s_kernels_are_allowed_where_the_task_allows_its_library(function: str, passes: bool) -> None:
    calling = Kernel(language="torch", files={"kernel.py": "cupy.matmul(left, right, out=made)"})
    seen: Any = {"kernels": {function: [2, 10.0]}}
    if passes:
        assert require_own_work(calling, ["w"], [seen], ["cublas"]) == {"w": 1.0}
    with pytest.raises(Failed):
        require_own_work(calling, ["w"], [seen], [] if passes else ["cublas"])


def test_functions_of_headers_that_a_kernel_names_are_its_own() -> None:
    scanning = Kernel(language="torch", files={"kernel.py": "cub::DeviceScan::InclusiveSum(room, size, x, out, n)"})
    seen: Any = {"kernels": {"void cub::DeviceScanKernel<float>(float*)": [2, 10.0]}}
    assert require_own_work(scanning, ["w"], [seen]) == {"w": 1.0}
