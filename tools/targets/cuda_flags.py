"""The closed set of nvcc flags that a CUDA kernel may ask for, and the few that a tuner tries."""

from __future__ import annotations

import re
from typing import Final

from tools.targets.base import FlagGroup

_ASSEMBLER = (
    r"-O[0-4]|-(?:dlcm|-def-load-cache)=c[agvs]|-(?:dscm|-def-store-cache)=(?:wb|cg|cs|wt)|-?-warn-[a-z-]+"
    r"|-?-allow-expensive-optimizations=(?:true|false)|--(?:register-usage-level|regUsageLevel)=\d+"
)
_ALLOWED: Final = re.compile(
    r"-O[0-3]|--?(?:use_fast_math|extra-device-vectorization|expt-relaxed-constexpr|extended-lambda|restrict)"
    r"|--?(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|--?maxrregcount=\d{1,3}"
    rf"|--?(?:Xptxas|ptxas-options)=(?:{_ASSEMBLER})"
    r"|-Xcompiler=-O[0-3]|--?std=c\+\+(?:17|20)|--?diag-suppress=\d+(?:,\d+)*"
)
TUNABLE: Final[tuple[FlagGroup, ...]] = (
    ((), ("--use_fast_math",)),
    ((), ("-maxrregcount=32",), ("-maxrregcount=64",), ("-maxrregcount=128",)),
    ((), ("-Xptxas=-dlcm=cg",)),
    ((), ("--extra-device-vectorization",)),
)
"""What is worth trying on any device; the first alternative of each group adds nothing."""


def allowed_flag(flag: str) -> bool:
    """Whether a kernel may ask for `flag`, one word as nvcc takes it."""
    return _ALLOWED.fullmatch(flag) is not None
