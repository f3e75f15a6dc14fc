"""The native contract: what a kernel is given, as records and as the generated `task.h`.

A signature names the inputs and outputs of one workload. All workloads of a task share names, dtypes and ranks. A
dimension that is equal in all of them becomes a compile-time constant of `task::Args`, a varying one a run-time
member, so `args.x_d0` is right in both cases and `task::Args::x_d0` works in templates where the size is fixed.

Every non-static member of `task::Args` is one 8-byte slot, in the order of `slots`, so that a worker which knows
nothing of the task can fill it. An output that has an input's name is updated in place: it appears once, as `T*`,
and holds the input's content when the kernel starts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import model_validator

from tools.records import Record

DType: TypeAlias = Literal[
    "float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool",
]  # fmt: skip
CType: TypeAlias = Literal["int64", "float64", "bool"]

ITEM_BYTES: dict[DType, int] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}  # fmt: skip
C_NAME: dict[DType, str] = {
    "float64": "double", "float32": "float", "float16": "float16", "bfloat16": "bfloat16",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "bool": "bool",
}  # fmt: skip

# Words that can't name a member in C++20 or CUDA C++; `Args` and the aliases would shadow the header's own names.
_RESERVED = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq Args float16 bfloat16 int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t
    uint64_t
"""
RESERVED = frozenset(_RESERVED.split())
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class Tensor(Record):
    """A dense, C-contiguous array. Rank 0 has one element; any dimension may be 0."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * ITEM_BYTES[self.dtype]


class Scalar(Record):
    """An input passed by value. Its value is drawn with the other inputs, so it may differ from call to call."""

    name: str
    ctype: CType


class Signature(Record):
    """What one workload gives to the kernel and takes back, in the order of `task::Args`."""

    inputs: tuple[Tensor | Scalar, ...]
    outputs: tuple[Tensor, ...]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """Every tensor among the inputs, those updated in place included."""
        return tuple(item for item in self.inputs if isinstance(item, Tensor))

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(item for item in self.inputs if isinstance(item, Scalar))

    @property
    def in_place(self) -> frozenset[str]:
        """Names that are both an input and an output."""
        return frozenset(item.name for item in self.inputs) & frozenset(item.name for item in self.outputs)

    @property
    def members(self) -> tuple[Tensor | Scalar, ...]:
        """What `task::Args` holds: the read-only inputs, then the outputs."""
        return tuple(item for item in self.inputs if item.name not in self.in_place) + self.outputs

    @model_validator(mode="after")
    def _names_are_usable(self) -> Signature:
        generated: list[str] = []
        for item in self.members:
            if not _NAME.match(item.name) or item.name in RESERVED:
                raise ValueError(f"`{item.name}` can't name an argument of a C++ kernel")
            generated.append(item.name)
            if isinstance(item, Tensor):
                generated += [f"{item.name}_size", *(f"{item.name}_d{axis}" for axis in range(len(item.shape)))]
        twice = sorted({name for name in generated if generated.count(name) > 1})
        if twice:
            raise ValueError(f"the name `{twice[0]}` would appear twice in the kernel's arguments")
        inputs = {item.name: item for item in self.inputs}
        for output in self.outputs:
            if output.name in inputs and inputs[output.name] != output:
                raise ValueError(f"`{output.name}` is updated in place but changes its dtype or shape")
        if not self.outputs:
            raise ValueError("a kernel needs at least one output")
        return self


class Slot(Record):
    """One 8-byte member of `task::Args`.

    `input` and `output` are pointers to the tensor `name`; `value` is the constant `value` (a dimension or size that
    varies between workloads); `scalar` is the scalar input `name` (int64, float64 bits, or bool widened to int64).
    """

    kind: Literal["input", "output", "value", "scalar"]
    name: str
    member: str
    value: int = 0


def slots(signature: Signature, signatures: Sequence[Signature]) -> tuple[Slot, ...]:
    """The slots of `signature`, one of the `signatures` of its task, in the order of the members of `task::Args`."""
    fixed = _fixed(signatures)
    found: list[Slot] = []
    for item in signature.members:
        if isinstance(item, Scalar):
            found.append(Slot(kind="scalar", name=item.name, member=item.name))
            continue
        is_output = any(output.name == item.name for output in signature.outputs)
        found.append(Slot(kind="output" if is_output else "input", name=item.name, member=item.name))
        found += [
            Slot(kind="value", name=item.name, member=member, value=value)
            for member, value in _sizes(item).items()
            if member not in fixed
        ]
    return tuple(found)


def task_header(task_name: str, signatures: Sequence[Signature]) -> str:
    """The text of `task.h`: valid C++20 (g++ 11 or newer) and CUDA C++ (nvcc).

    `signatures` holds one signature for each workload; ValueError when they differ in names, dtypes or ranks.
    """
    _require_same_kind(signatures)
    dtypes = {item.dtype for item in signatures[0].members if isinstance(item, Tensor)}
    aliases = [text for dtype, text in (("float16", _FLOAT16), ("bfloat16", _BFLOAT16)) if dtype in dtypes]
    return _HEADER.format(
        task=" ".join(re.sub(r"[^\w .,+*/()-]", " ", task_name).split()),
        aliases="".join(aliases),
        members="\n".join(f"    {line}" for line in _member_lines(signatures)),
    )


def _member_lines(signatures: Sequence[Signature]) -> list[str]:
    fixed = _fixed(signatures)
    first = signatures[0]
    outputs = {item.name for item in first.outputs}
    lines: list[str] = []
    for item in first.members:
        if isinstance(item, Scalar):
            kind = "double" if item.ctype == "float64" else "int64_t"
            note = "  // 0 or 1" if item.ctype == "bool" else ""
            lines.append(f"{kind} {item.name};{note}")
            continue
        const = "" if item.name in outputs else "const "
        role = "in place" if item.name in first.in_place else "output" if item.name in outputs else "input"
        shape = ", ".join(str(fixed.get(f"{item.name}_d{axis}", "varies")) for axis in range(len(item.shape)))
        lines.append(f"{const}{C_NAME[item.dtype]}* {item.name};  // {role}, {item.dtype}[{shape}]")
        for member in _sizes(item):
            value = fixed.get(member)
            lines.append(f"int64_t {member};" if value is None else f"static constexpr int64_t {member} = {value};")
    return lines


def _sizes(tensor: Tensor) -> dict[str, int]:
    sizes = {f"{tensor.name}_d{axis}": extent for axis, extent in enumerate(tensor.shape)}
    return {**sizes, f"{tensor.name}_size": tensor.size}


def _fixed(signatures: Sequence[Signature]) -> dict[str, int]:
    """Members that have one value in all workloads."""
    values: dict[str, set[int]] = {}
    for signature in signatures:
        for item in signature.members:
            if isinstance(item, Tensor):
                for member, value in _sizes(item).items():
                    values.setdefault(member, set()).add(value)
    return {member: min(seen) for member, seen in values.items() if len(seen) == 1}


def _require_same_kind(signatures: Sequence[Signature]) -> None:
    def kind(signature: Signature) -> list[tuple[str, str, int]]:
        return [
            (item.name, item.dtype, len(item.shape)) if isinstance(item, Tensor) else (item.name, item.ctype, 0)
            for item in (*signature.inputs, *signature.outputs)
        ]

    if not signatures:
        raise ValueError("a task needs at least one workload")
    for index, signature in enumerate(signatures):
        if kind(signature) != kind(signatures[0]):
            raise ValueError(f"workload {index} differs from the first one in the names, dtypes or ranks of its arrays")


_FLOAT16 = """
#if defined(__CUDACC__)
using float16 = __half;
#elif defined(__FLT16_MANT_DIG__)
using float16 = _Float16;
#else
#error "this task uses float16, which this compiler lacks in C++: use g++ 12 or newer"
#endif
"""

_BFLOAT16 = """
#if defined(__CUDACC__)
using bfloat16 = __nv_bfloat16;
#else
/// 16-bit brain float: computes as float, rounds to nearest even when stored.
struct bfloat16 {
    uint16_t bits;
    bfloat16() = default;
    bfloat16(float value) {
        uint32_t word;
        __builtin_memcpy(&word, &value, 4);
        const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
        const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
        bits = static_cast<uint16_t>(is_nan ? (word >> 16) | 0x40u : rounded);
    }
    operator float() const {
        const uint32_t word = static_cast<uint32_t>(bits) << 16;
        float value;
        __builtin_memcpy(&value, &word, 4);
        return value;
    }
};
#endif
"""

_HEADER = """\
// Generated: the arguments of the task "{task}". Do not edit.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#if !defined(TASK_WITHOUT_HALF)  // set where no file names a half type: these two take a third of nvcc's time
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#endif

namespace task {{
{aliases}
/// Arrays are dense and C-contiguous; `x_d0`, `x_d1`, ... are the extents of `x` and `x_size` its number of elements.
struct Args {{
{members}
}};

#if defined(__CUDACC__)
using Stream = cudaStream_t;
#endif

}}  // namespace task

// Implement `solve`. `scratch` has `scratch_bytes(args)` bytes, 256-byte aligned, with unspecified content;
// it is null where `scratch_bytes` is not defined or returns 0.
#if defined(__CUDACC__)
extern "C" void solve(const task::Args& args, void* scratch, task::Stream stream);
#else
extern "C" void solve(const task::Args& args, void* scratch);
#endif
extern "C" int64_t scratch_bytes(const task::Args& args);
"""
