"""`warpsmith check` and `warpsmith profile`: the judge and the profiler alone, on anyone's kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from app.exits import DONE, FAILED, REJECTED
from app.inputs import kernel_at, task_at
from app.interrupts import raise_on_ctrl_c
from app.quantities import figure, percent
from app.terminal import console_for, plain_table
from app.verdict_tables import print_device_code, print_verdict
from tools.counters import Counted
from tools.errors import InfrastructureError
from tools.executor import LOCAL, executor_for
from tools.job_process import Progress
from tools.no_device import ADVICE
from tools.profiles import Profile, StaticProfile
from tools.records import Kernel, Verdict
from tools.task import TaskSource

_CODES = {"accepted": DONE, "rejected": REJECTED, "unjudged": FAILED}


@dataclass(frozen=True)
class Judged:
    """A task and a kernel as read from the command line, and where to judge."""

    task: TaskSource
    kernel: Kernel
    executor: str = LOCAL

    @classmethod
    def of(
        cls,
        task: Path,
        kernel: Path,
        settings: Sequence[str] | None,
        defines: Sequence[str] | None,
        flags: Sequence[str] | None,
        *,
        executor: str = LOCAL,
    ) -> Judged:
        """Read both. Raises TaskError, KernelError."""
        return cls(task_at(task, settings or ()), kernel_at(kernel, defines or (), flags or ()), executor)


def check_kernel(judged: Judged, as_json: bool) -> int:
    """Run the gauntlet and print the verdict; the exit code says accepted, rejected or not judged."""
    with waiting("judging") as tell:
        raise_on_ctrl_c()
        verdict = asyncio.run(_evaluate(judged, tell))
    if as_json:
        print(verdict.model_dump_json())
    else:
        print_verdict(console_for(), verdict, "PyTorch" if judged.task.kind == "kernelbench" else "NumPy")
    return _CODES[verdict.status]


def profile_kernel(judged: Judged, workload: str | None, as_json: bool) -> int:
    """Profile one workload and print what was found."""
    with waiting("profiling") as tell:
        raise_on_ctrl_c()
        profile = asyncio.run(_profile(judged, workload, tell))
    if as_json:
        print(profile.model_dump_json())
    elif isinstance(profile, Profile):
        print_profile(console_for(), profile)
    else:
        print_static_profile(console_for(), profile)
    return DONE


def print_profile(console: Console, profile: Profile) -> None:
    """Class, evidence, metrics, hot lines, and what could not be measured."""
    console.print(f"[bold]{profile.bottleneck}[/bold] bound on workload {escape(profile.workload)}", highlight=False)
    for text in profile.evidence:
        console.print(f"  {escape(text)}", highlight=False)
    if profile.counters is not None and profile.counters.status == "counted":
        _print_counters(console, profile.counters)
    if profile.metrics:
        console.print()
        table = plain_table("metric", "value", "", "from", numeric=("value",))
        for metric in profile.metrics:
            table.add_row(escape(metric.name), figure(metric.value), escape(metric.unit), metric.source)
        console.print(table)
    for title, lines in (("hot lines", profile.hot_lines), ("vectorisation", profile.vectorization)):
        if lines:
            console.print()
            table = plain_table(title, "source", "note", "share", numeric=("share",))
            for item in lines[:20]:
                table.add_row(
                    f"{escape(item.file)}:{item.line}",
                    escape(item.text.strip()),
                    escape(item.note),
                    percent(item.share),
                )
            console.print(table)
    for text in by_reason(profile.missing):
        console.print(f"not measured: {escape(text)}", highlight=False)


def print_static_profile(console: Console, profile: StaticProfile) -> None:
    """What was built, and what nobody can know of it without a device."""
    console.print("[bold]built and not run[/bold]: a static profile", highlight=False)
    for text in profile.evidence:
        console.print(f"  {escape(text)}", highlight=False)
    print_device_code(console, profile.device)
    for text in profile.missing:
        console.print(f"not measured: {escape(text)}", highlight=False)
    for reason in {text.rpartition(": ")[2] for text in profile.missing} & ADVICE.keys():
        console.print(escape(ADVICE[reason]), highlight=False)


def _print_counters(console: Console, counters: Counted) -> None:
    """What is behind the class, what warps wait for, and what the profiler itself advises."""
    unit = f", the limit is {counters.unit}" if counters.unit else ""
    console.print(f"  cause: {counters.cause}{unit}, in {escape(counters.kernel)}", highlight=False)
    if counters.stalls:
        console.print()
        table = plain_table("warps wait", "", "share", numeric=("share",))
        for stall in counters.stalls:
            table.add_row(stall.reason, escape(stall.meaning), percent(stall.share))
        console.print(table)
    if counters.rules:
        console.print()
        table = plain_table("the profiler's own rules", "gain", "", numeric=("gain",))
        for rule in counters.rules:
            table.add_row(rule.name, percent(rule.speedup), escape(rule.text))
        console.print(table)


def by_reason(missing: Sequence[str]) -> list[str]:
    """`name (reason)` entries, those with one reason joined: `a, b (reason)`."""
    names: dict[str, list[str]] = {}
    for entry in missing:
        name, _, reason = entry.partition(" (")
        names.setdefault(reason, []).append(name)
    return [", ".join(group) + (f" ({reason}" if reason else "") for reason, group in names.items()]


async def _evaluate(judged: Judged, tell: Progress) -> Verdict:
    async with executor_for(judged.executor, tell) as executor:
        return await executor.evaluate(judged.task, judged.kernel, final=True)


async def _profile(judged: Judged, workload: str | None, tell: Progress) -> Profile | StaticProfile:
    """A static one of a CUDA kernel where there is no device."""
    async with executor_for(judged.executor, tell) as executor:
        try:
            return await executor.profile(judged.task, judged.kernel, workload)
        except InfrastructureError as error:
            if error.message not in ADVICE or judged.kernel.language != "cuda":
                raise
            return await executor.static_profile(judged.task, judged.kernel)


@contextmanager
def waiting(what: str) -> Iterator[Progress]:
    """A spinner on standard error that names the stage; nothing when that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda stage: status.update(f"{what}: {escape(stage)}")
