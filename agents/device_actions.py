"""The tools that use the device: they build, measure, profile, tune and try. Written as in `agents.actions`."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from agents import findings
from agents.seat import Candidate, Seat, build_kernel
from agents.toolbox import Refused, Result
from tools import tune as tuning
from tools.machine_code import MOST_LINES, ListingRequest
from tools.profiles import Profile
from tools.program import MAIN_FILE, MOST_SECONDS, Program, ProgramLanguage
from tools.records import Kernel, QuickResult

MAX_VARIANTS = 24


async def compile(
    seat: Seat,
    *,
    candidate: Candidate,
    listing: Annotated[
        Literal["none", "asm", "sass", "ptx"],
        Field(description="Machine code to show: `asm` of a CPU, `sass` or `ptx` of a GPU."),
    ] = "none",
    function: Annotated[
        str | None, Field(description="Whose: a name or a word of it; all functions of the kernel when left out.")
    ] = None,
    around: Annotated[
        str | None, Field(description="Only lines that match this (as grep -E), with 3 lines on both sides.")
    ] = None,
    lines: Annotated[int, Field(ge=1, le=MOST_LINES, description="The most lines to show, the first ones.")] = 120,
) -> Result:
    """Build a candidate without running it: whether it built, and errors and warnings by line. Costs about a second.

    For a GPU also each kernel's registers, spills, shared memory and occupancy. With `listing` the machine code of a
    function: look there whether loads are vectorised (`LDG.E.128`, `vmovups`), loops unrolled, registers spilled
    (`STL`, `LDL`) or tensor cores used (`HGMMA`, `HMMA`). `around` picks lines out of long code: `LDG|STG`.
    """
    kernel = build_kernel(candidate, seat)
    asked = None
    if listing != "none":
        asked = ListingRequest(form=listing, function=function or None, around=around or None, lines=lines)
    started = time.monotonic()
    report = await seat.context.executor.build(seat.context.task, kernel, asked)
    return Result(value=findings.of_build(report), device_seconds=time.monotonic() - started, kernel=kernel)


async def run(
    seat: Seat,
    *,
    mode: Annotated[
        Literal["full", "quick"], Field(description="`full` judges one candidate, `quick` compares several.")
    ],
    candidates: Annotated[list[Candidate], Field(min_length=1, max_length=MAX_VARIANTS)],
) -> Result:
    """Measure candidates against the best kernel so far.

    `full`: exactly one candidate goes through the whole gauntlet (screen, build, correctness on secret inputs of
    several distributions, determinism, memory safety, timing, audit) and becomes an attempt in the ledger. It is kept
    only when it is faster than the best beyond noise. The result names the failing stage and reason, the first wrong
    element and the worst slice, or the times of each workload. Judging the same kernel again costs nothing and
    returns the earlier verdict.

    `quick`: up to 24 candidates get a light check and a short timing side by side with the best. Use it to choose
    between variants; nothing is kept until it passed `full`.
    """
    kernels = [build_kernel(candidate, seat) for candidate in candidates]
    attempts = seat.context.attempts
    if mode == "full":
        if len(kernels) != 1:
            raise Refused(
                f"mode `full` judges one candidate, not {len(kernels)}", "Use `quick` to choose between several."
            )
        if seat.sample is not None:
            return await _hand_in(seat, kernels[0])
        parent = candidates[0].base or seat.parent
        judged = await attempts.judge(kernels[0], parent, seat.iteration, seat.hypothesis, seat.call)
        return Result(value=findings.of_judged(judged), device_seconds=judged.device_seconds, kernel=kernels[0])
    started = time.monotonic()
    best = attempts.best()
    incumbent = None if best is None else attempts.kernel(best.id)
    results = await seat.context.executor.quick(seat.context.task, kernels, incumbent)
    return Result(
        value=findings.of_quick(results), device_seconds=time.monotonic() - started, kernel=_fastest(kernels, results)
    )


async def profile(
    seat: Seat,
    *,
    attempt: Annotated[str, Field(description="An accepted attempt, e.g. `a12`.")],
    workload: Annotated[str | None, Field(description="Its name; the heaviest when left out.")] = None,
    metrics: Annotated[
        list[str], Field(max_length=40, description="Further counters of a GPU, by Nsight Compute's names.")
    ] = [],  # noqa: B006 (pydantic copies it)
) -> Result:
    """What the machine really does with an attempt's kernel: the bottleneck class with its evidence, counters, hot
    source lines, what the compiler vectorised and what not, and the position under the measured roofs. What could not
    be measured is listed in `missing`.
    """
    context = seat.context
    kernel = context.attempts.kernel(attempt)
    if context.attempts.verdict(attempt).status != "accepted":
        raise Refused(f"{attempt} was not accepted, so there is nothing to profile", "Name an accepted attempt.")
    known = [facts.workload for facts in context.facts.workloads]
    if workload is not None and workload not in known:
        raise Refused(f"there is no workload {workload}", f"There are: {', '.join(known)}.")
    stored = context.run.profile(attempt)
    if stored is not None and not metrics and workload in (None, stored["workload"]):
        return Result(value=findings.of_profile(Profile.model_validate(stored)))
    started = time.monotonic()
    found = await context.executor.profile(context.task, kernel, workload, metrics)
    seconds = time.monotonic() - started
    context.run.add_profile(attempt, found.model_dump(mode="json"))
    context.journal.tell(
        "profiled", attempt=attempt, bottleneck=found.bottleneck, evidence=list(found.evidence), seconds=seconds
    )
    return Result(value=findings.of_profile(found), device_seconds=seconds)


async def experiment(
    seat: Seat,
    *,
    files: Annotated[
        dict[str, str], Field(description="Path to text, with an `int main` in `main.cpp`, or `main.cu` for a GPU.")
    ],
    flags: Annotated[list[str], Field(description="Further compiler flags.")] = [],  # noqa: B006 (pydantic copies it)
    seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS, description="When to end it.")] = 10.0,
) -> Result:
    """Build and run a small program of your own on the device: a micro-benchmark, an ablation, a question to the
    hardware.

    It runs alone on the device, confined like a kernel: no files, no network, no other processes, no arguments, a few
    seconds. Print what you want to know; 12 KB of stdout and 4 KB of stderr come back. `task.h` can be included.
    Nothing it prints counts as a measurement of a kernel: only `run` decides what is faster.
    """
    chosen = seat.context.settings.language
    on_host = chosen == "cpp" or (chosen == "torch" and seat.context.facts.target == "cpu")
    language: ProgramLanguage = "cpp" if on_host else "cuda"
    if MAIN_FILE[language] not in files:
        raise Refused(f"the program has no {MAIN_FILE[language]}", "Pass it in `files`, with an `int main`.")
    program = Program(language=language, files=files, flags=tuple(flags), seconds=seconds)
    started = time.monotonic()
    found = await seat.context.executor.experiment(seat.context.task, program)
    return Result(value=findings.of_experiment(found), device_seconds=time.monotonic() - started)


async def tune(
    seat: Seat,
    *,
    candidate: Candidate,
    trials: Annotated[int, Field(ge=2, le=200, description="How many configurations to time.")] = 24,
) -> Result:
    """Sweep the parameters that a candidate declares (`// tune: BLOCK = 64,128,256`) together with the compiler flags.

    One call, many timings, no model turns. Returns the best configurations; judge the winner with `run` in mode `full`.
    """
    kernel = build_kernel(candidate, seat)
    best = seat.context.attempts.best()
    incumbent = None if best is None else seat.context.attempts.kernel(best.id)
    started = time.monotonic()
    report = await tuning.tune(
        seat.context.executor, seat.context.task, kernel, incumbent, trials, groups=seat.context.flag_groups
    )
    return Result(value=report.model_dump(mode="json"), device_seconds=time.monotonic() - started, kernel=kernel)


async def _hand_in(seat: Seat, kernel: Kernel) -> Result:
    """What `full` does for one of several coders: the judge chooses between their kernels when all are done."""
    started = time.monotonic()
    report = await seat.context.executor.build(seat.context.task, kernel)
    value: dict[str, JsonValue] = {"build": findings.of_build(report)}
    if report.built:
        value["handed_in"] = (
            f"as sample {seat.sample} of {seat.context.settings.samples}; the judge races all of them when their "
            "coders are done, and the fastest one is judged in full. The last one that you hand in counts."
        )
    seconds = time.monotonic() - started
    return Result(value=value, device_seconds=seconds, kernel=kernel, handed_in=report.built)


def _fastest(kernels: list[Kernel], results: list[QuickResult]) -> Kernel:
    """The fastest variant that was timed; the last one when none was."""
    timed = [(result.seconds, i) for i, result in enumerate(results) if result.seconds is not None]
    return kernels[min(timed)[1]] if timed else kernels[-1]
