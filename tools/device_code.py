"""What an assembler spent on the kernels of a build. A part of `tools.records.BuildReport`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, Field, model_validator

Limiter: TypeAlias = Literal["threads", "blocks", "registers", "shared memory", "barriers"]


class Occupancy(BaseModel, frozen=True, extra="forbid"):
    """How much of a multiprocessor blocks of one size can fill, without dynamic shared memory."""

    threads: int
    """Threads of a block."""
    blocks: int = Field(ge=1)
    """Blocks that fit at once."""
    share: float
    """Their warps as a fraction of the warps that a multiprocessor holds."""
    limited_by: tuple[Limiter, ...] = Field(min_length=1)


class DeviceFunction(BaseModel, frozen=True, extra="forbid"):
    """What the assembler spent on a kernel, or on a function that kernels call. Only a kernel has registers of its own
    and an occupancy."""

    kind: Literal["kernel", "function"]
    name: str
    symbol: str
    """The name as it is in the library."""
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    registers: int | None = None
    static_shared_bytes: int | None = None
    barriers: int | None = None
    """Absent where the assembler does not say."""
    most_threads: int | None = None
    """Of `__launch_bounds__`, where the kernel has one."""
    occupancy: tuple[Occupancy, ...] = ()
    """By size of block; a size that can't be launched is left out."""

    @model_validator(mode="after")
    def _kind_decides_fields(self) -> DeviceFunction:
        is_kernel = self.kind == "kernel"
        if is_kernel != (self.registers is not None) or is_kernel != (self.static_shared_bytes is not None):
            raise ValueError("a kernel has registers and static shared memory, a function has neither")
        if not is_kernel and (self.barriers is not None or self.most_threads is not None or self.occupancy):
            raise ValueError("only a kernel has barriers, launch bounds and an occupancy")
        return self


class DeviceCode(BaseModel, frozen=True, extra="forbid"):
    """What a build holds for the device."""

    architecture: str
    """As `sm_90a`."""
    functions: tuple[DeviceFunction, ...]
    """Kernels first."""
