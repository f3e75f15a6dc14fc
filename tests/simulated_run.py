"""A long run without a model and without a compiler: a simulated model plays all roles, with texts of realistic sizes.

Sources are 4-30 KB, profiles 1-8 KB, a third of what is judged fails with up to 8 KB of output. Everything follows from
a seed and from what the model is told, so that a run that was killed and resumed goes the same way as one that was not.
"""

# ruff: noqa: ARG002 (protocols name arguments that a simulation does not need)

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stub_executor import TASK, StubExecutor

from agents.drive import optimize
from agents.events import Event
from agents.models import registry
from agents.models.base import Message, OnText, Reply, Request, ToolCall, Usage
from agents.settings import Budgets, Models, RunSettings
from memory.runs import RunFolder, list_runs
from memory.tokens import COUNTER
from tools.machine_code import ListingRequest
from tools.profiles import Metric, Profile, Roofline
from tools.records import BuildReport, Diagnostic, Kernel, QuickResult, Rejected, StageReport, Verdict
from tools.task import TaskSource

RATIO = 1.3
"""What the simulated provider counts for one token of o200k_base."""
FAILED_IDEA = (7, "Walk operand B along a Hilbert curve", "misaligned load of B at row 77")
LIMIT = (12, "the accumulators can't exceed 168 registers before they spill to the stack")
BURIED = (15, "note: candidate 'vld1q_quux' expects an alignment of 32 bytes")
HINT = (20, "Never change the layout of the output: another kernel reads it in place.")
BEST_SETTINGS = {"BLOCK": "128", "UNROLL": "4"}
"""Planted facts: in which iteration, and what. The last is what the fastest kernel of the run is set to."""

_IDEAS = (
    ("tiling", "Stage tiles of {a}x{b} of operand {x} in the cache and keep them over {c} steps"),
    ("vectorization", "Load operand {x} in packs of {a} and reduce {c} of them at once"),
    ("memory_layout", "Pad the rows of {x} to {a} words so that {c} streams do not collide"),
    ("unrolling", "Unroll the loop over {x} by {c} with {a} independent accumulators"),
    ("prefetching", "Prefetch {x} {c} iterations ahead in strides of {b}"),
    ("parallelism", "Give each thread {a} rows of {x} and {c} columns"),
    ("algorithm", "Split the sum over {x} into {c} partial sums of {a} and merge them pairwise"),
)
_LINES = (
    "    const float x{i} = args.x[row * stride + {j}] * scale[{i}];",
    "    acc[{i}] = __builtin_fmaf(a[{j}], b[{i}], acc[{i}]);",
    "    for (int64_t k{i} = 0; k{i} < depth; k{i} += UNROLL) {{ sum{i} += tile[{j}][k{i}]; }}",
    "    // lane {i} holds columns {j} to {j}+7 of the panel",
    "    if (col + {j} < width) out[row * width + col + {j}] = v{i};",
    "static inline void step_{i}(const float* __restrict p, float* __restrict q) {{ q[{j}] += p[{i}]; }}",
)


def source(rng: random.Random, mark: str, size: int) -> str:
    """A C++ file of about `size` characters. mark: what the executor reads, as `speed 1.25`."""
    head = f'#include "task.h"\n// {mark}\n// tune: BLOCK = 16,32,64,128,256\n// tune: UNROLL = 1,2,4,8\n'
    head += "#ifndef BLOCK\n#define BLOCK 16\n#endif\n#ifndef UNROLL\n#define UNROLL 1\n#endif\n"
    lines, length = [], len(head)
    while length < size:
        line = rng.choice(_LINES).format(i=rng.randrange(64), j=rng.randrange(512))
        lines.append(line)
        length += len(line) + 1
    return head + "\n".join(lines) + '\nextern "C" void solve(const task::Args& args, void*) {}\n'


def size_of(rng: random.Random) -> int:
    """Of a source, in characters: mostly small, now and then large."""
    return int(min(30_000, max(4_000, rng.lognormvariate(9.0, 0.55))))


TASK_OF_200 = TASK.model_copy(
    update={
        "name": "simulated",
        "start": {"cpp": Kernel(language="cpp", files={"kernel.cpp": source(random.Random(0), "speed 1.0", 6_000)})},
    }
)


class SimulatedExecutor(StubExecutor):
    """Reads off a kernel's own remark how fast it is; judges, builds and profiles with realistic amounts of text."""

    def __init__(self) -> None:
        super().__init__(_seconds)

    async def build(self, task: TaskSource, kernel: Kernel, listing: ListingRequest | None = None) -> BuildReport:
        text = kernel.files["kernel.cpp"]
        if "broken" not in _mark(text):
            return await super().build(task, kernel, listing)
        rng = random.Random(kernel.id)
        buried = [BURIED[1]] if "buried" in _mark(text) else []
        told = [f"no matching function for call to 'step_{rng.randrange(99)}(float, int)'" for _ in range(12)]
        notes = [f"candidate template ignored: {' '.join(_LINES[rng.randrange(6)].split())}" for _ in range(60)]
        notes[30:30] = buried
        return BuildReport(
            kernel=kernel.id,
            built=False,
            seconds=0.0,
            command=("g++",),
            diagnostics=tuple(
                Diagnostic(severity="error", message=f"{line}; {'; '.join(notes[i * 5 : i * 5 + 6])}", line=i)
                for i, line in enumerate(told)
            ),
            output="\n".join(notes),
        )

    async def evaluate(
        self, task: TaskSource, kernel: Kernel, incumbent: Kernel | None = None, *, final: bool = False
    ) -> Verdict:
        mark = _mark(kernel.files["kernel.cpp"])
        if "fails" not in mark:
            return await super().evaluate(task, kernel, incumbent, final=final)
        self.judged.append(kernel.id)
        rng = random.Random(kernel.id)
        crashed = rng.random() < 0.4
        message = FAILED_IDEA[2] if "hilbert" in mark else f"y[{rng.randrange(999)}] is off by {rng.random():.3g}"
        trace = "\n".join(f"#{i} 0x{rng.getrandbits(48):012x} in step_{i}" for i in range(rng.randrange(20, 160)))
        stage = StageReport(stage="correct", passed=False, seconds=0.1, stderr=trace)
        return Rejected(
            kernel=kernel.id,
            stage="correct",
            reason="crashed" if crashed else "wrong_result",
            message=message,
            stages=(stage,),
        )

    async def quick(
        self, task: TaskSource, kernels: Sequence[Kernel], incumbent: Kernel | None = None
    ) -> list[QuickResult]:
        return [QuickResult(kernel=kernel.id, status="timed", seconds=_seconds(kernel)) for kernel in kernels]

    async def profile(
        self, task: TaskSource, kernel: Kernel, workload: str | None = None, metrics: Sequence[str] = ()
    ) -> Profile:
        self.profiled.append(kernel.id)
        rng = random.Random(kernel.id)
        names = [f"l{rng.randrange(3)}__{rng.choice(('read', 'write', 'miss'))}_sectors_{i}" for i in range(60)]
        return Profile(
            kernel=kernel.id,
            workload=workload or "default",
            bottleneck="memory",
            evidence=tuple(f"line {i}: {rng.random():.1%} of the stalls" for i in range(rng.randrange(4, 30))),
            metrics=tuple(
                Metric(name=name, value=rng.random() * 100, unit="%", source="perf")
                for name in names[: rng.randrange(8, 60)]
            ),
            roofline=Roofline(bytes=8192.0, seconds=0.5, peak_bandwidth=1e10),
        )


def _mark(text: str) -> str:
    return text.splitlines()[1]


def _seconds(kernel: Kernel) -> float:
    """The source's speed, and a gain for the best settings."""
    found = re.search(r"speed ([\d.]+)", _mark(kernel.files["kernel.cpp"]))
    right = sum(kernel.defines.get(name) == value for name, value in BEST_SETTINGS.items())
    return 0.5 / float(found[1] if found else 1.0) / (1 + 0.02 * right)


@dataclass(frozen=True)
class Call:
    """One request as the provider saw it: tokens of o200k_base, and how much of it began like the role's one before."""

    role: str
    iteration: int
    tokens: int
    shared: int


@dataclass
class SimulatedModel:
    """Plays all roles. What it does next follows from the last message alone, as far as it knows how it came so far."""

    window: int = 128_000
    seed: int = 0
    name: str = "simulated:model"
    dialects: tuple[str, ...] = ("native",)
    calls: list[Call] = field(default_factory=list)
    on_call: Callable[[Call], None] | None = None
    _longest: int = 30_000
    """Characters of a source that fits a reply."""
    _before: dict[str, list[str]] = field(default_factory=dict)

    async def reply(self, request: Request, on_text: OnText | None = None) -> Reply:
        offered = {tool.name for tool in request.tools}
        role = "planner" if "propose" in offered else "analyst" if "diagnose" in offered else "coder"
        tools = "\n".join(tool.model_dump_json() for tool in request.tools)
        texts = [tools, *(_whole(message) for message in request.messages)]
        self._note(role if request.tools else "summary", texts)
        tokens = int(sum(map(COUNTER.count, texts)) * RATIO) + 4 * len(texts)
        assert tokens + request.reply_tokens <= self.window, f"{tokens} tokens do not fit {self.window}"
        self._longest = int(request.reply_tokens / RATIO * 2)
        if not request.tools:
            said = Reply(text="Several layouts were tried; none was faster than the one before.")
        else:
            said = self._play(role, request.messages)
        return said.model_copy(update={"usage": Usage(input_tokens=tokens, output_tokens=COUNTER.count(str(said)))})

    async def aclose(self) -> None:
        """Nothing is open."""

    def _note(self, role: str, texts: list[str]) -> None:
        before = self._before.get(role, [])
        shared = 0
        for old, new in zip(before, texts, strict=False):
            if old != new:
                break
            shared += COUNTER.count(new)
        self._before[role] = texts
        pattern = r"Idea (\d+):" if role == "coder" else r"Iteration (\d+)"
        found = (re.findall(pattern, "\n".join(texts)) or ["0"])[-1] if role != "summary" else "0"
        call = Call(role, int(found), sum(map(COUNTER.count, texts)), shared)
        self.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)

    def _play(self, role: str, messages: Sequence[Message]) -> Reply:
        opening = "\n".join(m.text for m in messages if m.speaker == "user" and m.label not in ("earlier", "repair"))
        last = messages[-1]
        step = int(last.call[1:]) + 1 if last.speaker == "tool" and last.call else 0
        if role == "planner":
            return self._plan(opening, step)
        return self._code(opening, last, step) if role == "coder" else _analyse(opening, last, step)

    def _plan(self, opening: str, step: int) -> Reply:
        iteration = int(_found(r"Iteration (\d+) of", opening))
        rng = random.Random(f"{self.seed} plan {iteration} {step}")
        if step == 0 and rng.random() < 0.3:
            return _call(step, "search", {"query": "cache blocking vector loads", "limit": 3})
        if step == 1 and rng.random() < 0.3:
            return _call(step, "show", {"attempt": _found(r"kernel: (a\d+)", opening)})
        best = _found(r"(?:Best|Starting) kernel: (a\d+)", opening)
        kind, words = rng.choice(_IDEAS)
        change = words.format(
            a=2 ** rng.randrange(1, 8), b=rng.randrange(8, 512), c=rng.randrange(2, 33), x="ABC"[step % 3]
        )
        if iteration == FAILED_IDEA[0]:
            kind, change = "memory_layout", FAILED_IDEA[1]
        elif iteration % 25 == 0 and step < 2:
            change = FAILED_IDEA[1]  # a model that forgot
            best = _found(rf"^a\d+\|(a\d+)\|{FAILED_IDEA[1][:20]}", opening) or best
        hypothesis = {
            "idea": f"Idea {iteration}: the profile says that memory waits; {change.lower()} should shorten the waits.",
            "change": f"{change} ({iteration})" if change != FAILED_IDEA[1] else change,
            "metric": "seconds",
            "expected": f"-{rng.randrange(2, 30)} %",
            "parent": best,
            "kind": kind,
        }
        return _call(step, "propose", {"hypotheses": [hypothesis]})

    def _code(self, opening: str, last: Message, step: int) -> Reply:
        """Compile, mend, compare, judge; a failure is mended once."""
        change = _found(r"^Change: (.+)$", opening[opening.rfind("## Your hypothesis") :])
        iteration = int(_found(r"Idea (\d+):", opening[opening.rfind("## Your hypothesis") :]) or "0")
        rng = random.Random(f"{self.seed} code {iteration} {step}")
        mood = random.Random(f"{self.seed} mood {iteration}")
        broken, fails, quick = mood.random() < 0.3, mood.random() < 0.35, mood.random() < 0.6
        speed = 1 + 0.02 * iteration * mood.uniform(0.5, 1.05)
        mark = f"speed {speed:.4f}"
        if step == 0:
            wrong = "broken buried" if iteration == BURIED[0] else "broken" if broken else ""
            return self._write(step, "compile", rng, f"{mark} {wrong}".strip())
        if step == 1:
            return self._write(step, "compile", rng, mark)
        if step == 2 and quick:
            variants = [{"defines": {"BLOCK": 16 << i, "UNROLL": 1 << i % 4}} for i in range(4)]
            return _call(step, "run", {"mode": "quick", "candidates": variants})
        if (step in (2, 3) and fails) or (step < 4 and FAILED_IDEA[1] in change):
            failing = "fails hilbert" if FAILED_IDEA[1] in change else "fails"
            return self._judge(step, rng, failing, {})
        if (
            step < 7
            and '"outcome": "kept"' not in last.text
            and '"outcome": "s' not in last.text
            and iteration != FAILED_IDEA[0]
        ):
            return self._judge(step, rng, mark, BEST_SETTINGS if iteration > 60 else {"BLOCK": "64"})
        return Reply(text=f"Done with idea {iteration}.")

    def _write(self, step: int, tool: str, rng: random.Random, mark: str) -> Reply:
        files = {"kernel.cpp": source(rng, mark, min(size_of(rng), self._longest))}
        return _call(step, tool, {"candidate": {"files": files}}, "I write the whole file.")

    def _judge(self, step: int, rng: random.Random, mark: str, defines: dict[str, str]) -> Reply:
        files = {"kernel.cpp": source(rng, mark, min(size_of(rng), self._longest))}
        return _call(step, "run", {"mode": "full", "candidates": [{"files": files, "defines": defines}]})


def _analyse(opening: str, last: Message, step: int) -> Reply:
    iteration = int(_found(r"Iteration (\d+) judged", opening))
    new_best = re.search(r"New best: (a\d+)", opening)
    if new_best and step == 0:
        return _call(step, "profile", {"attempt": new_best[1]})
    diagnoses = []
    for attempt in _found(r"Iteration \d+ judged (.+)\.", opening).split(", "):
        learnt = LIMIT[1] if iteration == LIMIT[0] else f"about {iteration % 37} % of the time goes to waiting"
        diagnoses.append(
            {
                "attempt": attempt,
                "bottleneck": "memory",
                "evidence": [f"line {iteration}: most of the stalls", "71 % of the measured bandwidth"],
                "summary": f"In {attempt} {learnt}. What would move it is fewer passes over memory.",
                "hypothesis_held": iteration % 3 == 0,
            }
        )
    return _call(step, "diagnose", {"diagnoses": diagnoses})


def _call(step: int, name: str, arguments: dict[str, Any], text: str = "") -> Reply:
    call = ToolCall(id=f"c{step}", name=name, arguments=json.dumps(arguments))
    return Reply(text=text, tool_calls=(call,), stop="tools")


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def _whole(message: Message) -> str:
    return "\n".join([message.text, *(f"{call.name} {call.arguments}" for call in message.tool_calls)])


def play(
    root: Path,
    window: int = 128_000,
    iterations: int = 200,
    kill_at: int = 0,
    on_event: Callable[[Event], None] = lambda _: None,
) -> SimulatedModel:
    """A run under `root`, begun or gone on with. kill_at: the iteration whose third call of the coder ends the process,
    as by `kill -9`."""
    begun = list_runs(root)
    run = begun[0] if begun else RunFolder.create(root, "simulated", {})
    model, coders = SimulatedModel(window=window), 0

    def die(call: Call) -> None:
        nonlocal coders
        coders += call.role == "coder" and call.iteration == kill_at
        if coders == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: Event) -> None:
        if event.event == "iteration_ended" and event.fields["iteration"] == HINT[0] - 1:
            run.add_hint(HINT[1], HINT[0])
        on_event(event)

    model.on_call = die
    registry.LOCAL["simulated"] = lambda _spec, _seed: model
    settings = RunSettings(
        budgets=Budgets(iterations=iterations, near_limit=None, patience=None),
        models=Models.choose("simulated:model"),
        context_tokens=window,
    )
    asyncio.run(optimize(TASK_OF_200, settings, run, SimulatedExecutor(), watch))
    return model


if __name__ == "__main__":
    play(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:]))
