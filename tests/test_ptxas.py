"""What ptxas and nvcc said once, read back; and the occupancy that follows, against the toolkit's own calculator."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tools.device_code import DeviceFunction, Occupancy
from tools.errors import InfrastructureError
from tools.targets.cuda_messages import read_messages_of_nvcc
from tools.targets.cuda_toolkit import find_toolkit
from tools.targets.occupancy import (
    BLOCK_SIZES,
    LIMITS,
    STATIC_SHARED,
    limits_of,
    occupancy,
    occupancy_by_size,
    static_shared_limit,
)
from tools.targets.ptxas import Use, function_text, launch_bounds, read_messages, read_report, source_place

GOLDEN = Path(__file__).parent / "golden/h200"
ZOO = (GOLDEN / "zoo/zoo_ptxas.txt").read_text()

OLDER = """\
ptxas info    : 0 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'
ptxas info    : Function properties for _Z1kPf
    120 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 32 registers, 944 bytes cumulative stack size, 4096 bytes smem, 368 bytes cmem[0]
"""
CALLED = """\
ptxas info    : Function properties for _Z5otherf
    120 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'
ptxas info    : Function properties for _Z1kPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _Z3subf
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 136 bytes cumulative stack size
ptxas info    : Compile time = 3.213 ms
"""
PTX = """\
.version 9.0
.target sm_90a
.func  (.param .b32 func_retval0) _Z5otherf(
.param .b32 _Z5otherf_param_0
)
;
.visible .entry _Z1kPf(
.param .u64 .ptr .align 1 _Z1kPf_param_0
)
.maxntid 16, 8, 2
.minnctapersm 2
{
.reg .b32 %r<3>;
.loc 1 7 5
mov.f99 %f1, 1;
{
.loc 2 12 1
ret;
}
}
.weak .entry _Z1kPfS_(
.param .u64 _Z1kPfS__param_0
)
{
ret;
}
.func  (.param .b32 func_retval0) _Z5otherf(
.param .b32 _Z5otherf_param_0
)
{
ret;
}
.file 1 "/somewhere/src/kernel.cu"
.file 2 "/somewhere/src/part/more.cuh"
"""


def test_every_kernel_of_the_zoo_is_read() -> None:
    uses = {use.symbol: use for use in read_report(ZOO)}
    assert len(uses) == 10
    spilling = uses["_Z14register_spillPfPKfl"]
    assert spilling == Use("_Z14register_spillPfPKfl", 944, 1708, 1980, registers=32, shared=0, barriers=0)
    transpose = uses["_Z23bank_conflict_transposePfPKfi"]
    assert (transpose.registers, transpose.shared, transpose.barriers) == (16, 4096, 1)
    assert [use.symbol for use in uses.values() if use.spill_stores] == [spilling.symbol]


def test_an_older_report_says_nothing_of_barriers() -> None:
    (use,) = read_report(OLDER)
    assert use == Use("_Z1kPf", 120, 4, 8, registers=32, shared=4096, barriers=None)


def test_called_functions_have_a_frame_but_no_registers() -> None:
    uses = {use.symbol: use for use in read_report(CALLED)}
    assert uses["_Z5otherf"] == Use("_Z5otherf", 120, 0, 0)
    assert uses["_Z3subf"] == Use("_Z3subf", 16, 0, 0)
    assert uses["_Z1kPf"] == Use("_Z1kPf", 0, 0, 0, registers=24, shared=0, barriers=1)


@pytest.mark.parametrize(
    "text", ["", "ptxas info    : Used 3 registers", CALLED[: CALLED.index("ptxas info    : Used")]]
)
def test_half_a_report_tells_of_no_kernel(text: str) -> None:
    assert [use for use in read_report(text) if use.registers is not None] == []


def test_an_assembler_error_is_told_by_source_line() -> None:
    said = (
        "ptxas ../kept/kernel.ptx, line 15; error   : Unknown modifier '.f99'\nptxas fatal   : Ptx assembly aborted\n"
    )
    first, last = read_messages(said, PTX)
    assert (first.severity, first.file, first.line) == ("error", "kernel.cu", 7) and "'.f99'" in first.message
    assert (last.severity, last.file) == ("error", None)
    assert read_messages(said)[0].line is None


def test_lost_performance_is_a_warning_and_figures_are_none() -> None:
    said = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine\n"
    (found,) = read_messages(said + ZOO)
    assert found.severity == "warning" and "setmaxnreg" in found.message


def test_ptx_tells_places_bounds_and_functions() -> None:
    assert source_place(PTX, 17) == ("more.cuh", 12)
    assert source_place(PTX, 13) is None
    assert launch_bounds(PTX) == {"_Z1kPf": 256}
    body = function_text(PTX, "_Z1kPf")
    assert body is not None and body.startswith(".visible .entry _Z1kPf(") and body.count("ret;") == 1
    assert (function_text(PTX, "_Z5otherf") or "").endswith("{\nret;\n}\n")
    assert function_text(PTX, "_Z1k") is None


NVCC = """\
kernel.cu(4): error: identifier "undeclared" is undefined
  undeclared = 1;
  ^

kernel.cu(9): error #20: static assertion failed with "too small"
  static_assert(N > 3, "too small");
  ^
          detected during instantiation of "float f<N>() [with N=2]" at line 12 of part/more.cuh

kernel.cu(2): warning #177-D: variable "x" was declared but never referenced
  int x;
      ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

kernel.cu(2): warning #177-D: variable "x" was declared but never referenced
2 errors detected in the compilation of "kernel.cu".
"""


def test_the_front_ends_messages_come_once_with_their_lines() -> None:
    found = [(d.severity, d.file, d.line, d.message) for d in read_messages_of_nvcc(NVCC)]
    assert found == [
        ("error", "kernel.cu", 4, 'identifier "undeclared" is undefined'),
        ("error", "kernel.cu", 9, 'static assertion failed with "too small" [#20]'),
        ("note", "part/more.cuh", 12, 'detected during instantiation of "float f<N>() [with N=2]"'),
        ("warning", "kernel.cu", 2, 'variable "x" was declared but never referenced [#177]'),
    ]


@pytest.mark.parametrize(
    ("said", "severity", "file", "line"),
    [
        ("kernel.cu:2:10: fatal error: nowhere.h: No such file or directory", "error", "kernel.cu", 2),
        ("kernel.cu:4: Error: no such instruction: `bogus %eax'", "error", "kernel.cu", 4),
        ("/usr/bin/ld: cannot find -lcublas: No such file or directory", "error", None, None),
        ("/usr/bin/ld: b.cudafe1.cpp:(.text+0x11): undefined reference to `cblas_sgemm'", "error", None, None),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_20'", "error", None, None),
        ("nvlink error   : Undefined reference to '_Z3foov' in 'kernel.o'", "error", None, None),
        ("ptxas fatal   : Unresolved extern function '_Z5otherf'", "error", None, None),
        ("nvcc warning : incompatible redefinition for option 'std'", "warning", None, None),
    ],
)
def test_every_program_behind_nvcc_is_understood(said: str, severity: str, file: str | None, line: int | None) -> None:
    (found,) = read_messages_of_nvcc(said + "\n")
    assert (found.severity, found.file, found.line) == (severity, file, line)


def test_occupancy_by_hand() -> None:
    full = occupancy("sm_90a", threads=256, registers=32, shared=0)
    assert (
        full is not None and (full.blocks, full.share) == (8, 1.0) and set(full.limited_by) == {"threads", "registers"}
    )
    heavy = occupancy("sm_90", threads=256, registers=255, shared=0)
    assert heavy is not None and (heavy.blocks, heavy.limited_by) == (1, ("registers",))
    wide = occupancy("sm_90", threads=128, registers=16, shared=100 << 10)
    assert wide is not None and (wide.blocks, wide.limited_by) == (2, ("shared memory",))


def test_occupancy_agrees_with_an_h200() -> None:
    rows = [line for line in (GOLDEN / "occupancy.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(rows) == 81
    for row in rows:
        threads, registers, shared, blocks = map(int, row.split())
        ours = occupancy("sm_90a", threads, registers, shared, barriers=1)
        assert (ours.blocks if ours else 0) == blocks, row


def test_blocks_that_cannot_be_launched_have_no_occupancy() -> None:
    assert occupancy("sm_90", threads=1024, registers=255, shared=0) is None
    assert occupancy("sm_90", threads=2048, registers=16, shared=0) is None
    assert occupancy("sm_86", threads=128, registers=16, shared=100 << 10) is None
    assert occupancy("sm_42", threads=128, registers=16, shared=0) is None
    assert [each.threads for each in occupancy_by_size("sm_90", 128, 0, 0, None)] == [
        s for s in BLOCK_SIZES if s <= 512
    ]
    assert [each.threads for each in occupancy_by_size("sm_90", 32, 0, 0, 100)] == [32, 64, 100]


def test_only_specific_targets_have_more_static_shared_memory() -> None:
    assert static_shared_limit("sm_90") == static_shared_limit("sm_86") == STATIC_SHARED
    assert static_shared_limit("sm_90a") == 227 << 10 and static_shared_limit("sm_120a") == 99 << 10
    assert static_shared_limit("sm_42") is None and limits_of("compute_90") is None


CALCULATOR = """
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
    int major, minor, warps, threads, registers, barriers;
    size_t shared, of_multiprocessor, of_block;
    while (scanf("%d %d %d %zu %zu %d %d %zu %d", &major, &minor, &warps, &of_multiprocessor, &of_block, &threads,
                 &registers, &shared, &barriers) == 9) {
        cudaOccDeviceProp device;
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = 32 * warps;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 49152;
        device.sharedMemPerMultiprocessor = of_multiprocessor;
        device.sharedMemPerBlockOptin = of_block;
        device.reservedSharedMemPerBlock = 1024;
        device.numSms = 1;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = shared;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = 0;
        kernel.numBlockBarriers = barriers;
        cudaOccDeviceState state;
        state.cacheConfig = CACHE_PREFER_NONE;
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult result;
        const cudaOccError error =
            cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, 0);
        printf("%d\\n", error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1);
    }
}
"""


def test_occupancy_agrees_with_the_toolkits_own_calculator(tmp_path: Path) -> None:
    try:
        include = find_toolkit().root / "include"
    except InfrastructureError as error:
        pytest.skip(str(error))
    if not (include / "cuda_occupancy.h").is_file():
        pytest.skip("this CUDA toolkit has no cuda_occupancy.h")
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    build = ["g++", "-std=c++17", f"-I{include}", "calculator.cpp", "-o", "calculator"]
    subprocess.run(build, cwd=tmp_path, check=True)
    draw = random.Random(3)
    asked = []
    for number, limits in LIMITS.items():
        for _ in range(200):
            shared = draw.choice([0, 128, 4096, draw.randint(0, limits.shared_of_block), limits.shared_of_block])
            threads = draw.choice([32, 33, 96, 128, 250, 256, 512, 1000, 1024])
            asked.append((number, threads, draw.randint(1, 255), shared, draw.randint(0, 4)))
    lines = [
        f"{n // 10} {n % 10} {LIMITS[n].warps} {LIMITS[n].shared} {LIMITS[n].shared_of_block} {t} {r} {s} {b}"
        for n, t, r, s, b in asked
    ]
    answer = subprocess.run(
        ["./calculator"], cwd=tmp_path, input="\n".join(lines), capture_output=True, text=True, check=True
    )
    told = [int(line) for line in answer.stdout.split()]
    ours = [occupancy(f"sm_{n}", t, r, s, b) for n, t, r, s, b in asked]
    assert [each.blocks if each else 0 for each in ours] == told
    assert 0 < sum(each is None for each in ours) < len(ours) / 2


def test_the_kind_of_a_function_decides_its_fields() -> None:
    frame = {"name": "f", "symbol": "f", "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0}
    DeviceFunction(kind="function", **frame)  # type: ignore[arg-type]
    full = Occupancy(threads=32, blocks=1, share=0.1, limited_by=("blocks",))
    for wrong in (
        {"kind": "kernel"},
        {"kind": "kernel", "registers": 3},
        {"kind": "function", "registers": 3, "static_shared_bytes": 0},
        {"kind": "function", "occupancy": (full,)},
    ):
        with pytest.raises(ValueError, match="kernel has"):
            DeviceFunction.model_validate(frame | wrong)
