"""How many blocks a multiprocessor holds at once, from a table of architecture limits.

Source of the table: "Technical Specifications per Compute Capability" in NVIDIA's CUDA Programming Guide (appendix on
compute capabilities). Source of the arithmetic, the allocation units, the barriers and the blocks of 12.0: the
toolkit's own cuda_occupancy.h (13.0). Not covered: thread block clusters, and a carve-out that prefers the L1 cache.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tools.device_code import Limiter, Occupancy

WARP: Final = 32
MOST_THREADS: Final = 1024
"""Threads of a block, on every architecture."""
REGISTERS: Final = 65536
"""Of a multiprocessor, and of a block, on every architecture of the table."""
STATIC_SHARED: Final = 48 << 10
"""Bytes of static shared memory that a target without a suffix may use."""
BLOCK_SIZES: Final = (32, 64, 128, 192, 256, 384, 512, 768, 1024)
_REGISTER_UNIT, _SHARED_UNIT, _PARTITIONS = 256, 128, 4
_RESERVED_SHARED = 1 << 10  # bytes of each block that the driver keeps


@dataclass(frozen=True)
class Limits:
    """What a multiprocessor of one compute capability holds."""

    warps: int
    blocks: int
    shared: int
    """Bytes of a multiprocessor."""
    shared_of_block: int
    """Most bytes of one block, when it asks for them."""
    barriers: int | None = None
    """Named barriers of all blocks together; they bind from Hopper on."""


LIMITS: Final[dict[int, Limits]] = {
    80: Limits(warps=64, blocks=32, shared=164 << 10, shared_of_block=163 << 10),
    86: Limits(warps=48, blocks=16, shared=100 << 10, shared_of_block=99 << 10),
    89: Limits(warps=48, blocks=24, shared=100 << 10, shared_of_block=99 << 10),
    90: Limits(warps=64, blocks=32, shared=228 << 10, shared_of_block=227 << 10, barriers=64),
    100: Limits(warps=64, blocks=32, shared=228 << 10, shared_of_block=227 << 10, barriers=64),
    120: Limits(warps=48, blocks=24, shared=100 << 10, shared_of_block=99 << 10, barriers=24),
}
"""By compute capability times ten."""


def limits_of(architecture: str) -> Limits | None:
    """The limits of an architecture such as `sm_90a`; None when it is not in the table."""
    match = re.fullmatch(r"sm_(\d+)[af]?", architecture)
    return LIMITS.get(int(match[1])) if match else None


def static_shared_limit(architecture: str) -> int | None:
    """Bytes of static shared memory that a kernel may have; None when the architecture is unknown.

    For an architecture-specific target (`sm_90a`) nvcc 13 gives a kernel as much as a block can ask for, and the launch
    needs no attribute (seen on an H200); for others 48 KiB.
    """
    limits = limits_of(architecture)
    if limits is None:
        return None
    return limits.shared_of_block if architecture[-1] in "af" else STATIC_SHARED


def occupancy(
    architecture: str, threads: int, registers: int, shared: int, barriers: int | None = None
) -> Occupancy | None:
    """Blocks of `threads` threads that fit at once, each thread with `registers` registers, each block with `shared`
    bytes of shared memory (static and dynamic). None when such a block can't be launched or the architecture is
    unknown."""
    limits = limits_of(architecture)
    if limits is None or not 0 < threads <= MOST_THREADS or shared > limits.shared_of_block:
        return None
    warps = -(-threads // WARP)
    of_warp = _up(max(registers, 1) * WARP, _REGISTER_UNIT)
    if of_warp * _up(warps, _PARTITIONS) > REGISTERS:
        return None
    fits: dict[Limiter, int] = {
        "threads": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": REGISTERS // _PARTITIONS // of_warp * _PARTITIONS // warps,
        "shared memory": limits.shared // _up(shared + _RESERVED_SHARED, _SHARED_UNIT),
    }
    if barriers and limits.barriers:
        fits["barriers"] = limits.barriers // barriers
    blocks = min(fits.values())
    if blocks == 0:
        return None
    limited_by = tuple(name for name, fit in fits.items() if fit == blocks)
    return Occupancy(threads=threads, blocks=blocks, share=blocks * warps / limits.warps, limited_by=limited_by)


def occupancy_by_size(
    architecture: str, registers: int, shared: int, barriers: int | None, most_threads: int | None
) -> tuple[Occupancy, ...]:
    """The occupancy of the usual block sizes up to `most_threads`, and of that size itself."""
    sizes = {size for size in BLOCK_SIZES if most_threads is None or size <= most_threads}
    found = (
        occupancy(architecture, size, registers, shared, barriers)
        for size in sorted(sizes | ({most_threads} if most_threads else set()))
    )
    return tuple(each for each in found if each is not None)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
