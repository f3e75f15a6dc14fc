"""Looks for bad accesses, races and reads of nothing in one kernel, in the background or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from tools.cuda_process import Host
from tools.cuda_sanitizer import LEAKS, OPTIONS, Outcome, Sanitizing, encode_plan
from tools.records import Kernel
from tools.runner import Failed
from tools.screen import without_comments
from tools.stages import Evidence
from tools.targets.base import Build

if TYPE_CHECKING:
    from tools.judge import Judge


_TAKES_MEMORY = re.compile(r"alloc|create|instantiate|\bnew\b|thrust|dlopen|##", re.IGNORECASE)
"""What a text has in it that takes memory on the device, or that may hide in pasted names that it does."""
NOT_NEEDED = "the text names nothing that takes device memory"


def may_leak(kernel: Kernel) -> bool:
    """Whether what a kernel leaves behind is worth a look, which costs a verdict up to half a second."""
    return any(_TAKES_MEMORY.search(without_comments(text, keep_strings=True)) for text in kernel.files.values())


class CudaLook:
    """See `tools.device.Look`: memcheck on every workload, the other tools on the smallest. What the kernel leaves
    behind is looked at where it may leave something."""

    def __init__(self, host: Host, judge: Judge, kernel: Kernel) -> None:
        self._leak_check = may_leak(kernel)
        tools = [tool for tool in OPTIONS if tool != LEAKS or self._leak_check]
        self._names = judge.names
        sizes = [sum(tensor.nbytes for tensor in signature.input_tensors) for signature in judge.signatures]
        everywhere = sorted(range(len(sizes)), key=sizes.__getitem__)
        self._jobs = [(tool, everywhere if tool == "memcheck" else everywhere[:1]) for tool in tools]

        def plan(name: str) -> bytes:
            index = int(name)
            return encode_plan(judge.signatures[index], judge.buffers[index].slots, judge.content.drawn_beside(index))

        jobs = [(tool, list(map(str, indices))) for tool, indices in self._jobs]
        self._sanitizing = Sanitizing(host, plan, jobs, vendor=bool(judge.source.libraries))
        self._outcomes: list[Outcome] | None = None

    def load(self, build: Build) -> None:
        assert build.library is not None
        self._sanitizing.load(build.library)

    def __enter__(self) -> CudaLook:
        return self

    def __exit__(self, *_: object) -> None:
        self._sanitizing.close()

    def report(self, evidence: Evidence) -> None:
        if self._outcomes is None:
            self._outcomes = self._sanitizing.outcomes()
        if not self._leak_check:
            evidence.details["not_needed"] = f"{LEAKS}: {NOT_NEEDED}"
        tell(evidence, [[self._names[index] for index in indices] for _, indices in self._jobs], self._outcomes)


def tell(evidence: Evidence, workloads: Sequence[Sequence[str]], outcomes: Sequence[Outcome]) -> None:
    """Put what each job (on the workloads of these names, in this order) found into the evidence. Raises Failed for the
    first finding."""
    done: list[JsonValue] = []
    missing: list[JsonValue] = []
    for names, outcome in zip(workloads, outcomes, strict=True):
        open_ones = names[outcome.passed :]
        if outcome.finding is not None:
            where = open_ones[0] if open_ones else " or ".join(names)
            raise Failed(
                "memory_error",
                f"{outcome.finding.summary} (workload {where})",
                diagnostics=outcome.finding.diagnostics,
                details={"tool": outcome.tool},
                output=outcome.text,
            )
        unseen = (open_ones or names) if outcome.trouble else ()  # a kernel may say itself that it passed
        done += (f"{name}/{outcome.tool}" for name in names if name not in unseen)
        missing += (f"{name}/{outcome.tool}: {outcome.trouble}" for name in unseen)
    evidence.details.update({"checked": done, **({"could_not_check": missing} if missing else {})})
