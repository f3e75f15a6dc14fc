"""Machine code on request: of a CPU, and of a GPU without one; cut to what was asked for; through the protocol."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import HONEST, cpp, saxpy

from agents.device_actions import compile as action
from agents.seat import Candidate
from tools.errors import InfrastructureError, KernelError
from tools.executor import CommandExecutor, LocalExecutor
from tools.listing import GAP, LONGEST_LINE, MOST_CHARACTERS, cut
from tools.machine_code import ListingRequest
from tools.records import BuildReport, Kernel
from tools.targets.cuda import CudaTarget
from tools.targets.cuda_toolkit import find_toolkit

ROOT = Path(__file__).resolve().parent.parent
TEXT = "\n".join(f"{number:04x}: {'LDG.E.128 R4' if number % 10 == 3 else 'FFMA R1, R2'}" for number in range(100))
PARALLEL = """#include "task.h"
static float __attribute__((noinline)) twice(float x) { return 2 * x; }
extern "C" void solve(const task::Args& args, void*) {
#pragma omp parallel for
    for (int64_t i = 0; i < args.x_size; ++i) args.out[i] = twice(args.x[i]) + args.y[i];
}
"""
DEVICE = """#include "task.h"
namespace {
template <int N> __global__ void scale(const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = blockIdx.x * int64_t{N} + threadIdx.x;
    if (i < n) out[i] = 2 * x[i] + y[i];
}
__global__ void other(float* out) { out[0] = 1; }
}
extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    scale<256><<<(args.x_size + 255) / 256, 256, 0, stream>>>(args.x, args.y, args.out, args.x_size);
    if (args.x_size == 0) other<<<1, 1, 0, stream>>>(args.out);
}
"""
DEVICE_KERNEL = Kernel(language="cuda", files={"kernel.cu": DEVICE})


def _problem() -> str:
    try:
        return "" if find_toolkit() else "no toolkit"
    except InfrastructureError as error:
        return str(error)


needs_nvcc = pytest.mark.skipif(bool(_problem()), reason=_problem() or "nvcc is here")
needs_cuobjdump = pytest.mark.skipif(
    bool(_problem()) or find_toolkit().tool("cuobjdump") is None, reason="this machine has no cuobjdump"
)


def asked(form: str = "sass", **fields: object) -> ListingRequest:
    return ListingRequest.model_validate({"form": form, **fields})


# ---------------------------------------------------------------------------------------------------------- what is cut


def test_the_first_lines_are_shown_and_the_rest_is_counted() -> None:
    listing = cut(TEXT, asked(lines=5))
    assert (listing.shown_lines, listing.total_lines, listing.matches) == (5, 100, None)
    assert listing.text.splitlines() == TEXT.splitlines()[:5]


def test_lines_around_a_match_are_numbered_with_gaps_between() -> None:
    listing = cut(TEXT, asked(around="LDG|STG", context=1, lines=7))
    assert listing.matches == 10
    assert listing.text.splitlines() == [
        *(GAP, "3: 0002: FFMA R1, R2", "4: 0003: LDG.E.128 R4", "5: 0004: FFMA R1, R2"),
        *(GAP, "13: 000c: FFMA R1, R2", "14: 000d: LDG.E.128 R4"),
    ]
    assert cut(TEXT, asked(around="HGMMA")).model_dump(include={"text", "matches"}) == {"text": "", "matches": 0}


@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}"])
def test_an_expression_that_is_none_is_the_asker_s_fault(pattern: str) -> None:
    with pytest.raises(KernelError, match="can't be searched for"):
        cut(TEXT, asked(around=pattern))


def test_an_expression_that_other_engines_never_finish_is_answered() -> None:
    assert cut("a" * 150 + "b\n" + TEXT, asked(around="(a+)+$")).matches == 0


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))),
    st.integers(1, 800),
    st.sampled_from([None, "a", ".", "^$", "x|0"]),
)
@settings(max_examples=25, deadline=None)
def test_no_text_makes_a_listing_longer_than_its_limits(lines: list[str], most: int, around: str | None) -> None:
    listing = cut("\n".join(line * 40 for line in lines), asked(lines=most, around=around))
    assert len(listing.text) <= MOST_CHARACTERS
    assert all(len(line) <= LONGEST_LINE + 8 for line in listing.text.split("\n"))
    assert listing.shown_lines <= min(most, listing.total_lines)


# ----------------------------------------------------------------------------------------------------------------- CPU


async def built(kernel: Kernel, request: ListingRequest) -> BuildReport:
    async with LocalExecutor() as executor:
        return await executor.build(saxpy(), kernel, request)


async def test_a_function_of_the_cpu_is_listed_with_its_parallel_regions() -> None:
    report = await built(cpp(PARALLEL), asked("asm", function="solve"))
    assert report.built and report.listing is not None
    assert "<solve>:" in report.listing.text and "<solve._omp_fn.0>:" in report.listing.text
    assert "<twice(float)>:" not in report.listing.text and "tm_clones" not in report.listing.text
    everything = await built(cpp(PARALLEL), asked("asm", around="ss |ret", lines=400))
    assert everything.listing is not None and everything.listing.matches
    assert any("xmm" in line for line in everything.listing.text.splitlines())


async def test_what_the_cpu_can_t_list_is_said_and_a_failed_build_has_no_listing() -> None:
    async with LocalExecutor() as executor:
        with pytest.raises(KernelError, match="no function `nothing` of its own"):
            await executor.build(saxpy(), cpp(HONEST), asked("asm", function="nothing"))
        with pytest.raises(KernelError, match="the CPU has no sass"):
            await executor.build(saxpy(), cpp(HONEST), asked("sass"))
        failed = await executor.build(saxpy(), cpp("int x = ;"), asked("asm"))
    assert not failed.built and failed.listing is None


# ---------------------------------------------------------------------------------------------------- GPU, without one


@needs_nvcc
async def test_ptx_of_one_kernel_or_of_all_needs_no_device() -> None:
    one = await built(DEVICE_KERNEL, asked("ptx", function="scale"))
    assert one.listing is not None and one.device is not None
    assert ".entry" in one.listing.text and "ld.global" in one.listing.text and "other" not in one.listing.text
    both = await built(DEVICE_KERNEL, asked("ptx", around=r"\.entry", context=0))
    assert both.listing is not None and both.listing.matches == 2
    with pytest.raises(KernelError, match="CPU's machine code"):
        await built(DEVICE_KERNEL, asked("asm"))


@needs_cuobjdump
async def test_sass_has_instructions_without_their_encodings() -> None:
    report = await built(DEVICE_KERNEL, asked("sass", function="scale"))
    assert report.listing is not None
    text = report.listing.text
    assert "LDG.E" in text and "EXIT" in text and "/* 0x" not in text and "other" not in text
    assert all(line.startswith(("Function : ", "00", ".L_")) or ":" in line for line in text.splitlines())
    only = await built(DEVICE_KERNEL, asked("sass", around="LDG|STG", context=0))
    assert only.listing is not None and only.listing.matches
    assert "LDG" in only.listing.text and "IMAD" not in only.listing.text


@needs_nvcc
def test_a_machine_without_cuobjdump_says_so_and_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.targets import cuda_listing
    from tools.targets.cuda_toolkit import Toolkit

    target = CudaTarget("sm_90a")
    header = (
        "#pragma once\n#include <cstdint>\n#include <cuda_runtime.h>\nnamespace task { using Stream = cudaStream_t;\n"
        "struct Args { const float* x; const float* y; float* out; int64_t x_size; }; }\n"
    )
    build = target.compile_kernel(DEVICE_KERNEL, header)
    monkeypatch.setattr(Toolkit, "tool", lambda *_: None)
    with pytest.raises(KernelError, match="no cuobjdump"):
        cuda_listing.listing(build, "scale", "sass")


# ------------------------------------------------------------------------------------------------------------- protocol


async def test_a_listing_travels_to_a_worker_behind_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    async with CommandExecutor((sys.executable, "-P", "-m", "tools.jobs")) as far:
        report = await far.build(saxpy(), cpp(HONEST), asked("asm", function="solve", lines=4))
    assert report.listing is not None and report.listing.shown_lines == 4


async def test_a_worker_that_is_older_is_asked_for_nothing_that_it_does_not_know() -> None:
    greeting = '{"v": 1, "id": "hello", "ok": true, "result": {"versions": [1]}}'
    answer = '{"v": 1, "id": "2", "ok": true, "result": {"kernel": "ID", "built": true, "seconds": 1, "command": []}}'
    kernel = cpp(HONEST)
    script = f"read -r a; echo {shlex.quote(greeting)}; read -r b; case $b in *listing*) exit 9;; esac; "
    script += f"echo {shlex.quote(answer.replace('ID', kernel.id))}; cat"
    async with CommandExecutor(["sh", "-c", script]) as far:
        with pytest.raises(InfrastructureError, match="knows no listing") as caught:
            await far.build(saxpy(), kernel, asked("asm"))
        assert "same warpsmith" in caught.value.advice
        assert (await far.build(saxpy(), kernel)).built


async def test_a_model_gets_it_with_its_build() -> None:
    """The tool passes on what was asked and hands back what was cut; without a `listing` nothing is asked."""
    candidate = Candidate(files={"kernel.cpp": PARALLEL})
    async with LocalExecutor() as executor:
        chosen = SimpleNamespace(language="cpp")
        context = SimpleNamespace(executor=executor, task=saxpy(), settings=chosen)
        seat = SimpleNamespace(context=context, parent=None)
        shown = await action(seat, candidate=candidate, listing="asm", function="solve", around="ret", lines=9)  # type: ignore[arg-type]
        plain = await action(seat, candidate=candidate)  # type: ignore[arg-type]
    assert isinstance(shown.value, dict) and isinstance(plain.value, dict)
    listing = shown.value["listing"]
    assert isinstance(listing, dict) and listing["form"] == "asm" and listing["matches"]
    assert "listing" not in plain.value and shown.kernel == plain.kernel
