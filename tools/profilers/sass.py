"""What a kernel's machine code consists of: counts of the instructions that tell how it moves data and computes.

Counted in the code, not as executed: an instruction in a loop counts once. Pure: SASS in, counts and sentences out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from tools.profiles import Metric


class Group(NamedTuple):
    """Instructions of one kind: a metric's name, what they are called, and their operation codes."""

    name: str
    words: str
    codes: re.Pattern[str]


def _group(name: str, words: str, codes: str) -> Group:
    return Group(name, words, re.compile(rf"(?:{codes})\b"))


GROUPS: Final[tuple[Group, ...]] = (
    _group("wide_loads", "global loads of 128 bits", r"LDG\.(?:\w+\.)*128"),
    _group("narrow_loads", "narrower global loads", r"LDG"),
    _group("wide_stores", "global stores of 128 bits", r"STG\.(?:\w+\.)*128"),
    _group("narrow_stores", "narrower global stores", r"STG"),
    _group("async_copies", "asynchronous copies to shared memory", r"LDGSTS|UBLKCP|UTMALDG|UTMASTG|UTMAREDG"),
    _group("local_accesses", "local memory accesses (spills, indexed arrays)", r"LDL|STL"),
    _group("shared_accesses", "shared memory accesses", r"LDS|STS|LDSM|STSM"),
    _group("atomics", "atomics", r"ATOMG?|ATOMS|REDG?|UREDG?"),
    _group("barriers", "barriers", r"BAR|SYNCS|WARPSYNC"),
    _group("tensor_instructions", "tensor core instructions", r"[HIQBD]G?MMA|OMMA|UTC\w*MMA"),
    _group("fp32", "fp32 instructions", r"FFMA2?|FADD2?|FMUL2?"),
    _group("fp64", "fp64 instructions", r"DFMA|DADD|DMUL"),
    _group("half", "half precision instructions (HFMA2 also loads constants)", r"HFMA2|HADD2|HMUL2"),
    _group("integer", "integer instructions", r"IMAD|IADD3?|LEA|SHF|LOP3|ISETP|VIADD"),
    _group("special", "special function instructions", r"MUFU"),
)
"""The first group that fits takes the instruction."""
TOLD: Final = ("wide_loads", "narrow_loads", "local_accesses", "tensor_instructions")
"""Groups that are metrics, at 0 too: that there are none is what one wants to know of them."""
_INSTRUCTION: Final = re.compile(r"^\s*[0-9a-f]{4,}:\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)


def count(text: str) -> Counter[str]:
    """Instructions by group, and all of them under `all`; of a listing as `tools.targets.cuda_listing` makes it."""
    found: Counter[str] = Counter()
    for match in _INSTRUCTION.finditer(text):
        code = match[1]
        if code == "NOP":
            continue
        found["all"] += 1
        group = next((each.name for each in GROUPS if each.codes.match(code)), None)
        if group is not None:
            found[group] += 1
    return found


def sentence(counts: Mapping[str, int]) -> str:
    """The groups that occur, as one sentence."""
    parts = [f"{counts[each.name]} {each.words}" for each in GROUPS if counts.get(each.name)]
    return f"its machine code has {counts.get('all', 0)} instructions: {', '.join(parts) or 'none of note'}"


def metrics(counts: Mapping[str, int]) -> tuple[Metric, ...]:
    return tuple(
        Metric(name=f"sass_{name}", value=counts.get(name, 0), unit="instructions in the code", source="compiler")
        for name in TOLD
    )
