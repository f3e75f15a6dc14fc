"""The closed set of compiler flags that a C++ kernel may ask for, and the few that a tuner tries."""

from __future__ import annotations

import re

from tools.targets.base import FlagGroup

# Names after -f that change how code is generated and nothing else: no plugin, file, instrumentation or dump.
_GENERATION = (
    "fast-math", "associative-math", "reciprocal-math", "finite-math-only", "signed-zeros", "trapping-math",
    "math-errno", "unsafe-math-optimizations", "rounding-math", "cx-limited-range", "fp-int-builtin-inexact",
    "single-precision-constant", "unroll-loops", "unroll-all-loops", "peel-loops", "split-loops", "unswitch-loops",
    "tree-vectorize", "tree-loop-vectorize", "tree-slp-vectorize", "tree-loop-distribution",
    "tree-loop-distribute-patterns", "tree-loop-im", "tree-loop-ivcanon", "tree-parallelize-loops",
    "loop-interchange", "loop-unroll-and-jam", "loop-block", "loop-nest-optimize", "graphite-identity", "ivopts",
    "predictive-commoning", "version-loops-for-strides", "prefetch-loop-arrays", "inline-functions",
    "inline-small-functions", "inline", "ipa-cp-clone", "ipa-pta", "omit-frame-pointer", "strict-aliasing",
    "strict-overflow", "wrapv", "gcse-after-reload", "gcse-las", "gcse-sm", "schedule-insns", "schedule-insns2",
    "modulo-sched", "rename-registers", "web", "tracer", "exceptions", "rtti", "semantic-interposition", "plt",
    "stack-protector", "openmp-simd", "builtin", "split-paths", "tree-partial-pre", "align-loops",
    "align-functions", "vect-cost-model", "simd-cost-model", "fp-contract", "lto", "inline-limit",
)  # fmt: skip
_ALLOWED = re.compile(
    r"-O[0-3s]|-Ofast"
    rf"|-f(no-)?({'|'.join(map(re.escape, _GENERATION))})(=[\w.-]+)?"
    r"|-m(arch|tune)=[\w.+-]+"
    r"|-m(no-)?(mmx|sse[\w.]*|ssse3|avx[\w-]*|fma4?|f16c|bmi2?|popcnt|lzcnt|amx-[\w-]+|prefer-vector-width=\w+|vzeroupper|gather|scatter|tune-ctrl=[\w,^]+)"
    r"|-mprefer-vector-width=(none|128|256|512)|-mrecip(=[\w,!:]+)?|-mcmodel=(small|medium)|-mcpu=[\w.+-]+"
    r"|--param=[a-z0-9-]+=\d+|-std=(c|gnu)\+\+(17|20|23|2a|2b)|-W(no-)?[a-z-]{3,}"
)


def allowed_flag(flag: str) -> bool:
    """Whether a kernel may ask for `flag`, one word as g++ takes it."""
    return _ALLOWED.fullmatch(flag) is not None


def tunable_flags(cpu: str) -> tuple[FlagGroup, ...]:
    """What is worth trying on a CPU with these feature flags; the first alternative of each group adds nothing."""
    width: FlagGroup = ((), ("-mprefer-vector-width=256",), ("-mprefer-vector-width=512",))
    return (
        ((), ("-O3",), ("-Ofast",)),
        ((), ("-funroll-loops",)),
        *((width,) if "avx512f" in cpu.split() else ()),
    )
