"""The CUDA compiler behind the target: what it builds without a GPU, what it refuses and how it says so."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_tasks import saxpy

from tools.contract import Signature, Tensor, task_header
from tools.deviceless import DevicelessJudge
from tools.errors import InfrastructureError, KernelError
from tools.no_device import ADVICE, NO_DEVICE
from tools.process import run_command
from tools.profiles import StaticProfile
from tools.records import Kernel, StageReport
from tools.reference import load_reference
from tools.sandbox import Confinement, detect
from tools.targets import cuda, cuda_toolkit, cuda_vendor
from tools.targets.base import Build
from tools.targets.cuda import CudaTarget
from tools.targets.cuda_flags import allowed_flag
from tools.targets.cuda_headers import WITHOUT_HALF, WITHOUT_SPECIAL_FUNCTIONS
from tools.targets.cuda_toolkit import Device, chosen_architecture, find_devices, find_toolkit
from tools.targets.foresee import evaluate, foreseen_faults
from tools.task import read_task

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/kernel.cu"))
ARRAY = {"dtype": "float32", "shape": (1000,)}
SIGNATURE = Signature(inputs=(Tensor(name="a", **ARRAY),), outputs=(Tensor(name="out", **ARRAY),))  # type: ignore[arg-type]
HEADER = task_header("test", [SIGNATURE])
COPY = "__global__ void copy(const float* a, float* out) { out[threadIdx.x] = a[threadIdx.x]; }"
LAUNCH = "copy<<<1, 32, 0, stream>>>(args.a, args.out);"


def _toolkit_problem() -> str:
    try:
        find_toolkit()
    except InfrastructureError as error:
        return str(error)
    return ""


needs_nvcc = pytest.mark.skipif(bool(_toolkit_problem()), reason=_toolkit_problem() or "nvcc is here")
needs_no_gpu = pytest.mark.skipif(bool(find_devices()), reason="this machine has a GPU")


def source(before: str = COPY, body: str = LAUNCH) -> str:
    """Line 2 begins with `before`; `body` follows the line of `solve`."""
    head = 'extern "C" void solve(const task::Args& args, void* scratch, task::Stream stream) {'
    return f'#include "task.h"\n{before}\n{head}\n{body}\n}}\n'


def kernel(text: str, **settings: Any) -> Kernel:
    return Kernel.model_validate({"language": "cuda", "files": {"kernel.cu": text}, **settings})


def compiled(text: str, libraries: tuple[str, ...] = (), **settings: Any) -> Build:
    return CudaTarget("sm_90a").compile_kernel(kernel(text, **settings), HEADER, libraries=libraries)


# ------------------------------------------------------------------------------------------------------------ building


@needs_nvcc
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_builds_and_reports_its_kernel(name: str) -> None:
    task = read_task(ROOT / "examples" / name)
    reference = load_reference(task)
    header = task_header(task.name, [reference.signature(index) for index in range(len(task.workloads))])
    build = CudaTarget("sm_90a").compile_kernel(task.start["cuda"], header)
    assert build.library is not None and build.library.is_file(), build.report.output
    assert build.report.device is not None and build.report.device.architecture == "sm_90a"
    (found,) = build.report.device.functions
    assert found.kind == "kernel" and found.name.startswith("(anonymous namespace)::")
    assert found.registers and found.spill_store_bytes == found.stack_bytes == 0
    assert found.most_threads == found.occupancy[-1].threads


@needs_nvcc
def test_a_build_is_kept_by_architecture_and_told_apart_by_it() -> None:
    text = source()
    first, again = compiled(text), compiled(text)
    assert first.library is not None and again.library == first.library and again.report.cached
    other = CudaTarget("sm_80").compile_kernel(kernel(text), HEADER)
    assert other.library is not None and other.library != first.library
    assert other.report.device is not None and other.report.device.architecture == "sm_80"
    assert "arch=compute_90a,code=sm_90a" in first.report.command and "-lineinfo" in first.report.command


@needs_nvcc
def test_hoppers_own_instructions_several_files_defines_and_flags_reach_the_compiler() -> None:
    files = {
        "kernel.cu": source(
            '#include "part/helper.cuh"\n#if N != 7\n#error N\n#endif\n'
            "__device__ __noinline__ float slow(float x) { float a[30]; for (int i = 0; i < 30; ++i) a[i] = x * i;"
            " return a[(int)x]; }\n"
            "template <int M> __global__ void __launch_bounds__(256, 2) copy(const float* a, float* out) {\n"
            'asm volatile("wgmma.fence.sync.aligned;"); out[M] = slow(helper(a[M])); }',
            "copy<3><<<1, 256, 0, stream>>>(args.a, args.out); host(args);",
        ),
        "part/helper.cuh": "__device__ inline float helper(float x) { return x + N; }\nvoid host(const task::Args&);",
        "host.cpp": "#include <cstdint>\nnamespace task { struct Args; }\nvoid host(const task::Args&) {}",
    }
    made = Kernel(language="cuda", files=files, defines={"N": "7"}, flags=("--use_fast_math", "-maxrregcount=64"))
    build = CudaTarget("sm_90a").compile_kernel(made, HEADER)
    assert build.report.device is not None, build.report.output
    copy, slow = build.report.device.functions
    assert (copy.kind, copy.most_threads, slow.kind, slow.registers) == ("kernel", 256, "function", None)
    assert copy.name.startswith("void copy<3>(") and slow.name == "slow(float)"
    assert "--use_fast_math" in build.report.command


TEMPLATE = 'template <int N> __device__ float f() { static_assert(N > 3, "too small"); return N; }\n'
BROKEN = {
    "host": ("", "undeclared = 1;", 4, 'identifier "undeclared" is undefined'),
    "device": ("__global__ void k() { undeclared = 1; }", "k<<<1, 1>>>();", 2, 'identifier "undeclared" is undefined'),
    "assembly": (
        '__global__ void k(float* p) {\nasm volatile("mov.f99 %0, 1;" : "=f"(p[0]));\n}',
        "k<<<1, 1>>>(args.out);", 3, "ptxas: Unknown modifier",
    ),
    "template": (TEMPLATE + "__global__ void k(float* p) { p[0] = f<2>(); }", "k<<<1, 1>>>(args.out);", 2, "too small"),
    "include": ('#include "nowhere.h"', "", 2, "No such file"),
    "outside": ('#include "/etc/hostname"', "", 2, "No such file"),
    "host assembly": ("", 'asm("bogus %eax");', 4, "no such instruction"),
    "undefined": ('extern "C" void cblas_sgemm();', "cblas_sgemm();", None, "undefined reference to `cblas_sgemm'"),
    "device function": (
        "__device__ float other(float); __global__ void k(float* p) { p[0] = other(p[1]); }",
        "k<<<1, 1>>>(args.out);", None, "ptxas: Unresolved extern function",
    ),
    "shared memory": (
        "template <int N> __global__ void k(float* p) { __shared__ float big[N]; big[threadIdx.x] = p[0];"
        " __syncthreads(); p[1] = big[5]; }",
        "k<70000><<<1, 1>>>(args.out);", None, "Entry function 'void k<70000>(float*)' uses too much shared data",
    ),
}  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_build_is_told_by_line(name: str) -> None:
    before, body, line, said = BROKEN[name]
    build = compiled(source(before, body))
    errors = [item for item in build.report.diagnostics if item.severity == "error"]
    assert (build.reason, build.library, build.report.built, build.report.device) == (
        "compile_error",
        None,
        False,
        None,
    )
    assert said in errors[0].message and errors[0].line == line
    assert errors[0].file == ("kernel.cu" if line else None)
    assert build.message.startswith(f"kernel.cu:{line}: ") or line is None


HALF = {
    "a type": "__global__ void k(float* p) { __half h = 1; p[0] = (float)h; }",
    "a conversion alone": "__global__ void k(float* p) { p[0] = __half2float(__hneg(__float2half(p[1]))); }",
    "brain floats": "__global__ void k(float* p) { p[0] = (float)__nv_bfloat16(p[1]); }",
    "in a header of its own": '#include "more.cuh"\n__global__ void k(float* p) { p[0] = twice(p[1]); }',
}  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", HALF)
def test_16_bit_floats_are_there_for_whoever_names_them(name: str) -> None:
    """Their headers take a third of nvcc's time, so they are left out for a kernel that can't use them."""
    more = "#pragma once\n__device__ inline float twice(float x) { return __half2float(__float2half(2 * x)); }\n"
    files = {"kernel.cu": source(HALF[name], "k<<<1, 1, 0, stream>>>(args.out);"), "more.cuh": more}
    if "more" not in HALF[name]:
        del files["more.cuh"]
    build = CudaTarget("sm_90a").compile_kernel(Kernel(language="cuda", files=files), HEADER)
    assert build.library is not None, build.message
    assert WITHOUT_HALF not in build.report.command
    assert WITHOUT_HALF in compiled(source()).report.command


LIBRARY_USERS = {
    "what no header of its own brings": "float least() { return std::numeric_limits<float>::min(); }",
    "cooperative groups": "#include <cooperative_groups.h>\nnamespace groups = cooperative_groups;",
    "CUB": "#include <cub/block/block_reduce.cuh>\nusing Reduce = cub::BlockReduce<float, 64>;",
    "a special function": "double bessel(double x) { return std::cyl_bessel_j(0.0, x); }",
}  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("name", LIBRARY_USERS)
def test_the_standard_library_is_there_for_whoever_uses_it(name: str) -> None:
    """What CUDA's own headers include of it takes a third of nvcc's time: it is left out where no file names it."""
    build = compiled(f'#include "task.h"\n{LIBRARY_USERS[name]}\n{source()}')
    assert build.library is not None, build.message
    assert (WITHOUT_SPECIAL_FUNCTIONS in build.report.command) == ("std" not in LIBRARY_USERS[name])
    assert WITHOUT_SPECIAL_FUNCTIONS in compiled(source()).report.command


@needs_nvcc
def test_what_needs_a_header_that_was_left_out_is_built_with_it() -> None:
    """However the need is hidden."""
    hidden = "#define JOINED(a, b) a##b\nfloat least() { return JOINED(s, td)::numeric_limits<float>::min(); }"
    build = compiled(f'#include "task.h"\n{hidden}\n{source()}')
    assert build.library is not None, build.message
    assert not {WITHOUT_HALF, WITHOUT_SPECIAL_FUNCTIONS} & set(build.report.command)


@needs_nvcc
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_task_of_16_bit_floats_has_their_types(dtype: str) -> None:
    x, y = (Tensor.model_validate({"name": name, "dtype": dtype, "shape": (64,)}) for name in ("a", "out"))
    header = task_header("small", [Signature(inputs=(x,), outputs=(y,))])
    text = source("template <typename T> __global__ void copy(const T* a, T* out) { out[0] = a[0]; }")
    assert CudaTarget("sm_90a").compile_kernel(kernel(text), header).library is not None


def test_two_sources_of_one_name_are_refused() -> None:
    with pytest.raises(KernelError, match="two sources are named kernel"):
        CudaTarget("sm_90a").compile_kernel(
            Kernel(language="cuda", files={"kernel.cu": source(), "part/kernel.cpp": ""}), HEADER
        )


@needs_nvcc
def test_a_library_without_the_entry_is_told_apart() -> None:
    assert compiled('#include "task.h"\nstatic int unused;\n').reason == "no_entry"


@pytest.fixture
def vendor_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder as the vendor's Python packages have, with a library of one function and its header."""
    monkeypatch.setattr(cuda_vendor, "_packages", lambda: [tmp_path])
    folder = tmp_path / "cu99"
    (folder / "lib").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "include/cublas_v2.h").write_text('extern "C" int cublasCreate_v2(void**);\n')
    code = 'extern "C" int cublasCreate_v2(void**) { return 0; }\n'
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(folder / "lib/libcublas.so.13")]
    subprocess.run([*command, "-Wl,-soname,libcublas.so.13"], input=code, text=True, check=True)
    cuda_vendor.find_library.cache_clear()
    yield folder
    cuda_vendor.find_library.cache_clear()


@needs_nvcc
def test_the_devices_libraries_are_only_for_tasks_that_allow_them(vendor_package: Path) -> None:
    text = source('extern "C" int cublasCreate_v2(void**);', "void* handle; cublasCreate_v2(&handle);")
    refused = compiled(text)
    assert refused.reason == "forbidden_library" and "cublas" in refused.message
    allowed = compiled(text, libraries=("cublas", "openblas"))
    assert allowed.library is not None, allowed.report.output
    found = cuda_vendor.find_library("cublas")
    assert found is not None and f"-Xlinker=-rpath,{found.folder}" in allowed.report.command


@needs_nvcc
def test_a_library_of_a_python_package_brings_its_headers_and_is_found_when_it_is_loaded(vendor_package: Path) -> None:
    if cuda_vendor.find_library("cublas") != cuda_vendor.VendorLibrary(
        "cublas", vendor_package / "lib/libcublas.so.13"
    ):
        pytest.skip("the toolkit has a cuBLAS of its own")
    assert cuda_vendor.folders() == (vendor_package / "lib",)
    text = source("#include <cublas_v2.h>", "void* handle; cublasCreate_v2(&handle);")
    build = compiled(text, libraries=("cublas",))
    assert build.library is not None, build.report.output
    loaded = subprocess.run(["ldd", build.library], capture_output=True, text=True, check=True).stdout
    assert f"libcublas.so.13 => {vendor_package}/lib/libcublas.so.13" in loaded


@needs_nvcc
def test_a_library_behind_a_linked_folder_is_seen_by_what_is_confined(vendor_package: Path) -> None:
    """As a toolkit's lib64 often is."""
    real = vendor_package / "targets/lib"
    (vendor_package / "lib").rename(vendor_package / "kept")
    real.parent.mkdir()
    (vendor_package / "kept").rename(real)
    (vendor_package / "lib").symlink_to("targets/lib")
    found = cuda_vendor.find_library("cublas")
    if found is None or not found.file.is_relative_to(vendor_package):
        pytest.skip("the toolkit has a cuBLAS of its own")
    assert cuda_vendor.folders() == (real,)
    for readable in (cuda_vendor.folders(), (vendor_package, *cuda_vendor.folders())):
        command = detect().wrap(["/bin/cat", str(found.file)], Confinement(read_only=readable))
        seen = run_command(command, timeout=20, env={})
        assert seen.ok, seen.stderr


@needs_nvcc
@pytest.mark.parametrize("folder", ["/usr/lib", "/usr/local/lib"])
def test_headers_that_the_host_s_compiler_knows_are_not_named_again(folder: str) -> None:
    words = cuda_vendor.VendorLibrary("cublas", Path(folder, "libcublas.so.13")).link
    assert words == (f"-L{folder}", "-l:libcublas.so.13", f"-Xlinker=-rpath,{folder}")


@needs_nvcc
def test_a_library_that_is_allowed_and_lacking_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "LIBRARIES", ("nowhere",))
    assert cuda_vendor.link_words(("nowhere",)) == ("-lnowhere",)
    with pytest.raises(InfrastructureError, match="the task allows nowhere, which this machine lacks"):
        compiled(source(), libraries=("nowhere",))


@needs_nvcc
def test_a_listing_shows_one_function() -> None:
    target = CudaTarget("sm_90a")
    build = compiled(source(COPY + "\n__global__ void other(float* p) { p[0] = 1; }"))
    text = target.listing(build, "copy", "ptx")
    assert ".entry _Z4copy" in text and "other" not in text and text.rstrip().endswith("}")
    with pytest.raises(KernelError, match="no device function `nothing`"):
        target.listing(build, "nothing", "ptx")
    if find_toolkit().tool("cuobjdump") is None:
        with pytest.raises(KernelError, match="cuobjdump"):
            target.listing(build, "copy", "sass")
    else:
        assert "EXIT" in target.listing(build, "copy", "sass")


def test_what_did_not_build_has_no_listing() -> None:
    wide = source(body="copy<<<1, 2048, 0, stream>>>(args.a, args.out);")
    with pytest.raises(KernelError, match="does not build"):
        CudaTarget("sm_90a").listing(compiled(wide), "copy", "ptx")


# ------------------------------------------------------------------------------------------------------------ settings

FORBIDDEN_FLAGS = (
    *("-I/x", "-include", "-ccbin=/x", "--compiler-bindir=/x", "@file", "-O3 -I/x", "-Xlinker=-rpath,/", "-L/x", "-lm"),
    *("-Xcompiler=-fplugin=x", "-Xptxas=-v,-o=/x", "-o", "-DX", "--options-file=x", "-optf=x", "-dc", "-rdc=true"),
    *(
        "-arch=sm_80",
        "-gencode=arch=compute_80,code=sm_80",
        "-G",
        "-run",
        "-default-stream=per-thread",
        "--keep-dir=/x",
    ),
    *("-cudart=shared", "-std=c++20\n", "-maxrregcount=", "-Xptxas=", "-dryrun", "-fatbin", "-M", ""),
)


@pytest.mark.parametrize("flag", FORBIDDEN_FLAGS)
def test_flags_outside_the_closed_set_are_refused(flag: str) -> None:
    with pytest.raises(KernelError, match="is not allowed"):
        compiled(source(), flags=(flag,))


@pytest.mark.parametrize("flag", ["-O2", "--fmad=false", "-Xptxas=-O2", "-Xptxas=-dlcm=cg", "--maxrregcount=40"])
def test_flags_of_code_generation_are_allowed(flag: str) -> None:
    assert allowed_flag(flag)


def test_every_flag_that_a_tuner_may_try_is_allowed() -> None:
    groups = CudaTarget().tunable_flags
    assert groups and all(group[0] == () for group in groups)
    assert all(allowed_flag(flag) for group in groups for alternative in group for flag in alternative)


@needs_nvcc
def test_every_flag_that_a_tuner_may_try_builds_with_the_others() -> None:
    flags = tuple(flag for group in CudaTarget().tunable_flags for flag in group[-1])
    build = compiled(source(), flags=flags)
    assert build.library is not None, build.report.output


def test_other_languages_and_simulation_are_refused() -> None:
    with pytest.raises(KernelError, match="no cpp kernels"):
        CudaTarget("sm_90a").compile_kernel(Kernel(language="cpp", files={"kernel.cpp": ""}), HEADER)
    with pytest.raises(InfrastructureError, match="simulated"):
        CudaTarget("sm_90a").compile_kernel(kernel(source()), HEADER, "simulate")


def test_a_worker_may_map_the_driver_but_no_library_that_computes() -> None:
    target = CudaTarget()
    assert target.may_map("libcuda.so.1") and target.may_map("libstdc++.so.6")
    assert not target.may_map("libcublas.so.13") and target.may_map("libcublas.so.13", ["cublas"])


# ----------------------------------------------------------------------------------------------------------- foresight


@pytest.mark.parametrize(
    ("before", "body", "line", "said"),
    [
        ("#define T 1024\n__global__ void __launch_bounds__(2 * T) k() {}", "", 3, "2048 threads"),
        ("constexpr int T = 1 << 10;\n" + COPY, "copy<<<1, dim3(T, 2), 0, stream>>>(args.a, args.out);", 5, "2048"),
        (COPY, "const dim3 block(64, 32);\ncopy<<<1, block>>>(args.a, args.out);", 5, "2048 threads"),
        (
            COPY,
            "copy<<<1, 128, 300 * 1024, stream>>>(args.a, args.out);",
            4,
            "more than 49152, up to 232448 on sm_90a, must be asked",
        ),
        ("constexpr int T = 200;\n" + COPY, "copy<<<1, T, T * T * sizeof(float2)>>>(args.a, args.out);", 5, "320000"),
        (
            COPY,
            "cudaFuncSetAttribute(copy, cudaFuncAttributeMaxDynamicSharedMemorySize, 300 * 1024);\n"
            "copy<<<1, 128, 300 * 1024, stream>>>(args.a, args.out);",
            5,
            "307200 bytes of dynamic shared memory: sm_90a has at most 232448 for a block",
        ),
        ("__global__ void k() {\n __shared__ float a[task::Args::a_d0][60];\n}", "", 3, "240000 bytes"),
        ("__global__ void k() {\n __shared__ double a[20000];\n__shared__ char b[4][20000]; }", "", 3, "240000 bytes"),
    ],
)
def test_what_arithmetic_can_tell_is_refused_before_the_compiler(before: str, body: str, line: int, said: str) -> None:
    build = compiled(source(before, body))
    assert (build.reason, build.report.command, build.report.seconds) == ("compile_error", (), 0.0)
    assert said in build.message and build.message.startswith(f"kernel.cu:{line}: ")


@pytest.mark.parametrize(
    "before",
    [
        "#if 0\n__global__ void __launch_bounds__(2048) k() {}\n#endif",
        "// __global__ void __launch_bounds__(2048) k() {}",
        "template <int N> __global__ void k() { __shared__ float a[90000]; }",
        "#define N 9\n#undef N\n#define N 90000\n__global__ void k() { __shared__ float a[N]; }",
        "#define N 45000 + 45000\n__global__ void k() { __shared__ float a[N]; }",
        "__global__ void k() { if constexpr (false) { __shared__ float a[90000]; } }",
        "__global__ void k() { extern __shared__ float a[]; }",
        "struct Unknown { char c[9]; };\n__global__ void k() { __shared__ Unknown a[90000]; }",
    ],
)
def test_what_is_not_certain_is_left_to_the_compiler(before: str) -> None:
    assert foreseen_faults(kernel(source(before)), HEADER, "sm_90a") == ()


def test_a_launch_that_may_not_happen_is_left_to_the_run() -> None:
    for body in (
        "if (args.a_d0 > 5000) copy<<<1, 2048>>>(args.a, args.out);",
        "if (args.a_d0 < 5000) return;\ncopy<<<1, 2048>>>(args.a, args.out);",
    ):
        assert foreseen_faults(kernel(source(body=body)), HEADER, "sm_90a") == ()


def test_shared_memory_that_a_launch_may_have_is_left_to_the_run() -> None:
    asked = "cudaFuncSetAttribute(copy, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);\n"
    for body in (
        "copy<<<1, 128, 48 * 1024, stream>>>(args.a, args.out);",
        asked + "copy<<<1, 128, 200 * 1024, stream>>>(args.a, args.out);",
        "copy<<<1, 128, args.a_d0 > 5 ? 300000 : 0, stream>>>(args.a, args.out);",
        "if (args.a_d0 > 5000) copy<<<1, 128, 300 * 1024>>>(args.a, args.out);",
    ):
        assert foreseen_faults(kernel(source(body=body)), HEADER, "sm_90a") == ()


def test_values_from_outside_replace_guarded_defaults_only() -> None:
    guarded = "#ifndef T\n#define T 256\n#endif\n__global__ void __launch_bounds__(T) k() {}"
    assert foreseen_faults(kernel(source(guarded)), HEADER, "sm_90a") == ()
    assert foreseen_faults(kernel(source(guarded), defines={"T": "2048"}), HEADER, "sm_90a") != ()
    fixed = "#define T 256\n__global__ void __launch_bounds__(T) k() {}"
    assert foreseen_faults(kernel(source(fixed), defines={"T": "2048"}), HEADER, "sm_90a") == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [("7 / 2", 3), ("-7 / 2", -3), ("(A + 3) / 4 * 2", 4), ("1u << 4", 16), ("0x10", 16), ("A % 4", 2), ("B", None),
     ("A > 2 ? 1 : 2", None), ("sizeof(int)", 4), ("A * A * sizeof(double)", 288),
     ("sizeof(Tile)", None), ("sizeof args", None), ("1 / 0", None), ("", None), ("1.5 * 2", None)],
)  # fmt: skip
def test_expressions_are_integers_or_unknown(text: str, value: int | None) -> None:
    assert evaluate(text, {"A": 6}) == value


# ------------------------------------------------------------------------------------------------- toolkit and machine


def fake_nvcc(folder: Path, body: str) -> Path:
    path = folder / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


def test_the_compiler_is_found_by_cuda_home_then_path_and_wrappers_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = 'echo "Cuda compilation tools, release 12.9, V12.9.41"\n'
    real = fake_nvcc(tmp_path / "toolkit", f'{version}echo "#\\$ TOP={tmp_path}/toolkit/bin/.." >&2\n')
    wrapper = fake_nvcc(tmp_path / "wrapper", f'exec {real} "$@"\n')
    broken = fake_nvcc(tmp_path / "broken", "exit 1\n")
    monkeypatch.setattr(cuda_toolkit, "_USUAL", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_HOME", str(broken.parent.parent))
    found = find_toolkit.__wrapped__()
    assert (found.root, found.nvcc, found.release, found.version) == (real.parent.parent, real, (12, 9), "12.9.41")
    assert found.folders == (found.root,)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InfrastructureError, match=r"broken/bin/nvcc does not run\. .*CUDA_HOME"):
        find_toolkit.__wrapped__()
    monkeypatch.delenv("CUDA_HOME")
    with pytest.raises(InfrastructureError, match="no CUDA compiler"):
        find_toolkit.__wrapped__()


def test_the_architecture_is_the_devices_own_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Device("NVIDIA H200", "9.0").architecture == "sm_90a" and Device("A100", "8.0").architecture == "sm_80"
    query = tmp_path / "nvidia-smi"
    query.write_text('#!/bin/sh\necho "NVIDIA GeForce RTX 4090, 8.9"\n')
    query.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("WARPSMITH_CUDA_ARCH", raising=False)
    assert chosen_architecture() == "sm_89"
    query.write_text('#!/bin/sh\necho "NVIDIA-SMI has failed"; exit 9\n')
    assert find_devices() == () and chosen_architecture() == "sm_90a"
    monkeypatch.setenv("WARPSMITH_CUDA_ARCH", "sm_100a")
    assert chosen_architecture() == "sm_100a"
    monkeypatch.setenv("WARPSMITH_CUDA_ARCH", "sm_42")
    with pytest.raises(InfrastructureError, match="WARPSMITH_CUDA_ARCH names `sm_42`"):
        chosen_architecture()


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    return warpsmith("check", *arguments)


def warpsmith(*arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-P", "-m", "app.cli", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)


@needs_nvcc
@needs_no_gpu
def test_check_builds_and_then_could_not_judge() -> None:
    task = ROOT / "examples/histogram"
    said = check(task, task / "kernel.cu")
    assert said.returncode == 2 and "could not judge: no CUDA device" in said.stdout, said.stderr
    assert "(anonymous namespace)::count" in said.stdout and said.stdout.endswith(f"\n{ADVICE[NO_DEVICE]}\n")
    verdict = json.loads(check(task, task / "kernel.cu", "--json").stdout)
    screened, built = (StageReport.model_validate(stage) for stage in verdict["stages"])
    assert (verdict["status"], verdict["message"], screened.stage) == ("unjudged", "no CUDA device", "screen")
    assert built.build is not None and built.build.built and built.build.device is not None
    assert built.build.device.functions[0].registers


@pytest.mark.parametrize("why", sorted(ADVICE))
def test_every_reason_not_to_judge_comes_with_what_to_do(why: str) -> None:
    refusal = DevicelessJudge(saxpy(), CudaTarget("sm_90a"), lambda _: None, why).refusal
    assert refusal.message == why and "`warpsmith doctor`" in refusal.advice and "docs/gpu.md" in refusal.advice
    assert (ROOT / "docs/gpu.md").is_file()


@needs_nvcc
@needs_no_gpu
def test_what_needs_a_device_says_once_that_there_is_none_and_what_to_do(tmp_path: Path) -> None:
    said = warpsmith("optimize", ROOT / "examples/histogram", "--target", "cuda", "--runs", tmp_path)
    assert said.returncode == 2 and (said.stdout + said.stderr).count(NO_DEVICE) == 1, said.stdout + said.stderr
    assert said.stderr == f"error: {NO_DEVICE}.\n{ADVICE[NO_DEVICE]}\n"
    assert "--executor" in said.stderr and list(tmp_path.iterdir()) == []


@needs_nvcc
@needs_no_gpu
def test_without_a_device_a_profile_is_what_the_build_tells(tmp_path: Path) -> None:
    task = ROOT / "examples/histogram"
    said = warpsmith("profile", task, task / "kernel.cu")
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("built and not run: a static profile\n") and " registers, " in said.stdout
    assert f"times and hardware counters: {NO_DEVICE}" in said.stdout and ADVICE[NO_DEVICE] in said.stdout
    found = StaticProfile.model_validate_json(warpsmith("profile", task, task / "kernel.cu", "--json").stdout)
    assert found.device.architecture == "sm_90a" and found.device.functions[0].registers
    has_listing = find_toolkit().tool("cuobjdump") is not None
    assert bool(found.metrics) == has_listing and len(found.missing) == (1 if has_listing else 2)
    (tmp_path / "kernel.cu").write_text("int x = ;")
    broken = warpsmith("profile", task, tmp_path)
    assert broken.returncode == 2 and "the kernel does not build: kernel.cu:1:" in broken.stderr


@needs_no_gpu
def test_check_still_rejects_what_no_device_is_needed_for(tmp_path: Path) -> None:
    task = ROOT / "examples/histogram"
    done = check(task, task / "kernel.cu", "-D", "THREADS=2048", "--json")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["status"], verdict["stage"]) == (1, "rejected", "build")
    assert verdict["stages"][-1]["build"]["diagnostics"][0]["file"] == "kernel.cu"


def test_long_tables_and_chains_are_looked_through_in_one_pass() -> None:
    """Each took minutes when every position was tried against the rest of the file."""
    table = "static const float T[] = {" + "1.5f, " * 20_000 + "};\n(void)T;\n"
    chain = "".join(f"constexpr int A{i} = A{i + 1};\n" for i in range(1000)) + "constexpr int A1000 = 1;\n"
    assert foreseen_faults(kernel(source(COPY + chain, table + LAUNCH)), HEADER, "sm_90a") == ()
    late = kernel(source(body=table + "copy<<<1, 2048, 0, stream>>>(args.a, args.out);"))
    assert [fault.line for fault in foreseen_faults(late, HEADER, "sm_90a")] == [6]


@needs_nvcc
def test_an_architecture_that_nvcc_lacks_is_no_verdict_on_the_kernel() -> None:
    with pytest.raises(InfrastructureError, match="knows no architecture") as caught:
        CudaTarget("sm_80a").compile_kernel(kernel(source()), HEADER)
    assert "WARPSMITH_CUDA_ARCH" in caught.value.advice


@pytest.mark.parametrize(
    "said",
    [
        "crt/host_config.h:122:2: error: #error -- unsupported GNU version! gcc versions later than 15 are not",
        "sh: 1: cicc: not found",
        "sh: line 1: ptxas: command not found",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120a'",
    ],
)
def test_a_toolkit_that_builds_nothing_is_the_machines_fault(said: str) -> None:
    with pytest.raises(InfrastructureError) as caught:
        cuda._require_working_nvcc(f"some words\n{said}\n")
    assert caught.value.advice
    cuda._require_working_nvcc(f'kernel.cu:1:2: error: #error "{said}"\n')  # a kernel may quote it and is to blame


@pytest.fixture
def nvcc_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts one in nvcc's place that knows its version and else does what a line of shell says."""

    def put(body: str) -> None:
        version = 'case "$*" in --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit ;; esac'
        fake_nvcc(tmp_path / "toolkit", f"{version}\n{body}\n")
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
        find_toolkit.cache_clear()

    yield put
    find_toolkit.cache_clear()


def failing(*words: str) -> str:
    return "".join(f"echo {shlex.quote(line)} >&2\n" for line in words) + "exit 1"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("exit 1", "exit code 1"),
        ("kill -9 $$", "ended with"),
        (failing("Segmentation fault (core dumped)"), "Segmentation fault"),
        (failing("ptxas info    : 0 bytes gmem", "g++: fatal error: cannot execute 'cc1plus'"), "cc1plus"),
        (failing("kernel.cu(4): warning #177-D: variable was declared", "the licence has expired"), "licence"),
        (failing("nvcc fatal   : Failed to preprocess host compiler properties."), "Failed to preprocess"),
        (failing("/usr/bin/ld: final link failed: ../kernel.so: No space left on device"), "No space left"),
        ("exit 0", "left no library"),
    ],
)
def test_an_nvcc_that_fails_without_a_word_of_the_kernel_is_the_machine_s_fault(
    nvcc_that: Callable[[str], None], body: str, says: str
) -> None:
    nvcc_that(body)
    with pytest.raises(InfrastructureError, match=re.escape(says)) as caught:
        compiled(source())
    assert caught.value.advice


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["kernel.cu(4): error: identifier is undefined"], ()),
        (["kernel.cu:4:1: internal compiler error: Segmentation fault"], ()),
        (["ptxas fatal   : Unresolved extern function 'other'"], ()),
        (["nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)"], ()),
        (["nvlink error   : Undefined reference to 'other'"], ()),
        (
            ["/usr/bin/ld: ../kept/kernel.o:(.data+0x0): multiple definition of `g'", "collect2: error: ld returned 1"],
            (),
        ),
        (["nvcc fatal   : redefinition of argument 'maxrregcount'"], ("-maxrregcount=32",)),
    ],
)
def test_whatever_names_the_kernel_stays_a_verdict_on_it(
    nvcc_that: Callable[[str], None], words: list[str], flags: tuple[str, ...]
) -> None:
    nvcc_that(failing(*words))
    assert compiled(source(), flags=flags).reason == "compile_error"


@needs_nvcc
def test_what_the_linker_refuses_is_the_kernel_s_fault() -> None:
    files = {"kernel.cu": source("int twice = 1;\n" + COPY), "more.cpp": "int twice = 2;\n"}
    build = CudaTarget("sm_90a").compile_kernel(Kernel(language="cuda", files=files), HEADER)
    assert build.reason == "compile_error" and "multiple definition of `twice'" in build.report.output


@pytest.mark.parametrize(
    "files", [{"a" * 201 + ".cu": "x"}, {"part.cu": "x", "part.cu/more.cu": "y"}, {"d/" * 150 + "k.cu": "x"}]
)
def test_files_that_no_folder_can_hold_are_the_kernels_fault(files: dict[str, str]) -> None:
    made = Kernel(language="cuda", files={"kernel.cu": source(), **files})
    with pytest.raises(KernelError):
        CudaTarget("sm_90a").compile_kernel(made, HEADER)


def test_a_define_as_long_as_a_book_is_refused() -> None:
    with pytest.raises(KernelError, match="can't be a define"):
        compiled(source(), defines={"BLOCK": "9" * 1000})


@needs_nvcc
def test_an_entry_of_other_arguments_is_told_the_right_ones() -> None:
    build = compiled('#include "task.h"\nextern "C" void solve(const task::Args& args, void* scratch) {}\n')
    assert build.reason == "compile_error" and build.message.startswith("kernel.cu:2: ")
    assert "task::Stream" in build.report.diagnostics[-1].message
