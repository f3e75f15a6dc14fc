"""What a model is told in a run of 200 iterations: tokens by section, against two simpler ways, and what is still known
at the end.

    python -m bench.memory [--iterations 200]

The simulated model and executor of `tests/simulated_run.py` go through the real graph, run folder, views and tools, in
processes of their own, with windows of 16k, 128k and 1M tokens; one run is killed at iteration 137 and resumed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WINDOWS = (16_000, 128_000, 1_000_000)
KILL_AT = 137
LAST_K = 40
"""Messages that the keep-last-k way keeps."""
SHOWN = (1, 50, 100, 200)
ROLES = ("planner", "coder", "analyst")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what models are told in a long run.")
    parser.add_argument("--iterations", type=int, default=200)
    rows = figures(parser.parse_args().iterations)
    for name, value, budget, unit in rows:
        print(f"{name:<58} {value:>10.3f} {unit:<6} (budget {budget:g})")
    return 0 if all(value <= budget for _, value, budget, _ in rows) else 1


def figures(iterations: int = 200) -> list[tuple[str, float, float, str]]:
    """Name, measured value, budget and unit; the tables are printed."""
    with tempfile.TemporaryDirectory() as folder:
        found = {window: _child(Path(folder) / str(window), window, iterations) for window in WINDOWS}
        for window in WINDOWS:
            _print_window(Path(folder) / str(window), window, found[window], iterations)
        whole = Path(folder) / "128000"
        changed = _killed_and_resumed(Path(folder) / "killed", whole, iterations)
        lost = [name for name, where in recall(_run_in(whole), iterations).items() if where == "lost"]
        grown, _, _ = ways(_run_in(whole))
        of_128k = found[128_000]
        return [
            ("a planner's view in the last tenth, median processor time", of_128k["view"], 0.030, "s"),
            ("prompt tokens / append-everything", of_128k["tokens"] / grown, 0.25, "x"),
            ("memory of the orchestrator, end / halfway", of_128k["memory"][-1] / of_128k["memory"][1], 1.15, "x"),
            ("views that differ after a kill and a resume", changed, 0, ""),
            ("planted facts that are lost at the end", len(lost), 0, ""),
        ]


def play(root: Path, window: int, iterations: int, kill_at: int) -> dict[str, Any]:
    """One run, begun or resumed, in this process; its figures."""
    sys.path.insert(0, str(ROOT / "tests"))
    import simulated_run

    from agents.events import Event

    memory: list[int] = []
    views = _timed_views()

    def watch(event: Event) -> None:
        quarter = max(1, iterations // 4)
        if event.event == "iteration_ended" and int(str(event.fields["iteration"])) % quarter == 0:
            memory.append(_resident())

    began = time.perf_counter()
    model = simulated_run.play(root, window, iterations, kill_at, watch)
    calls = [call for call in model.calls if call.role in ROLES]
    return {
        "seconds": time.perf_counter() - began,
        "calls": len(calls),
        "tokens": sum(call.tokens for call in calls),
        "shared": sum(call.shared for call in calls),
        "largest": max(call.tokens for call in calls),
        "summaries": len(model.calls) - len(calls),
        "view": statistics.median(views[-max(1, len(views) // 10) :]),
        "memory": memory,
    }


def ways(run: Any) -> tuple[int, int, int]:
    """Prompt tokens (o200k_base) of the same calls with everything appended, and with the last k messages; and the
    first iteration in which a prompt with everything would be over 128k.

    Both ways are one conversation a role that holds the system message once, each turn's question, each
    attempt's details and each kernel when it is new, every reply and every tool's whole answer.
    """
    grown = last_k = 0
    outgrown = 10**9
    for role in ROLES:
        system, kept, everything, seen = 0, deque[int](maxlen=LAST_K), 0, set[str]()
        for lines in _turns(run, role):
            view = lines[0]
            opening = [line for line in lines if "tokens" in line]
            system = _raw(opening[0], view)
            for part in opening[1:]:
                new = part["label"] not in ("ledger", "newest attempts", "track record") and part["blob"] not in seen
                seen.add(part["blob"])
                if new:
                    everything += _raw(part, view)
                    kept.append(_raw(part, view))
            tools = int(view["tools"] / view["factor"])
            for line in lines[len(opening) + 1 :]:
                if line["speaker"] == "assistant":
                    grown += tools + system + everything
                    if tools + system + everything > 128_000:
                        outgrown = min(outgrown, int(view["iteration"]))
                    last_k += tools + system + sum(kept)
                size = _said(line)
                everything += size
                kept.append(size)
    return grown, last_k, outgrown


def recall(run: Any, iterations: int) -> dict[str, str]:
    """Where each planted fact is at the end: `view` of the planner or the coder, `search`, or `lost`."""
    sys.path.insert(0, str(ROOT / "tests"))
    from simulated_run import BEST_SETTINGS, BURIED, FAILED_IDEA, HINT, LIMIT

    from agents.library import Library
    from app.context import seen_by

    views = "\n".join(
        part.text
        for role in ("planner", "coder")
        for part in seen_by(run, role, iterations, 0).parts  # type: ignore[arg-type]
    )
    library = Library(run, "// task.h\n", "cpp")
    facts = {
        "the failed idea": (f"{FAILED_IDEA[1][:24]}", FAILED_IDEA[1]),
        "why it failed": (FAILED_IDEA[2], f"{FAILED_IDEA[1]} failed because"),
        "a limit of the machine": (LIMIT[1], "how many registers before accumulators spill"),
        "the user's hint": (HINT[1], "layout of the output"),
        "the best parameters": (" ".join(f"{k}={v}" for k, v in BEST_SETTINGS.items()), "best settings"),
        "a line amid a long answer": (BURIED[1], "candidate vld1q_quux alignment"),
    }
    found = {}
    for name, (fact, query) in facts.items():
        hits = [] if fact in views else library.search(query, 8).hits
        found[name] = "view" if fact in views else "search" if any(fact in hit.text for hit in hits) else "lost"
    library.close()
    return found


def _child(root: Path, window: int, iterations: int, kill_at: int = 0) -> dict[str, Any]:
    root.mkdir(exist_ok=True)
    asked = f"Path({str(root)!r}), {window}, {iterations}, {kill_at}"
    code = f"import json; from pathlib import Path; from bench.memory import play; print(json.dumps(play({asked})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGKILL and kill_at:
        return {}
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _killed_and_resumed(root: Path, whole: Path, iterations: int) -> int:
    """Openings of a run that was killed and resumed that differ from those of the one that was not, or are missing."""
    kill_at = KILL_AT if iterations > KILL_AT else max(1, iterations * 2 // 3)
    assert _child(root, 128_000, iterations, kill_at) == {}, "the run was not killed"
    _child(root, 128_000, iterations)
    ours, theirs = _openings(_run_in(root)), _openings(_run_in(whole))
    print(f"killed at iteration {kill_at} and resumed: {len(ours)} parts of openings against {len(theirs)}")
    return len(ours.items() ^ theirs.items())


def _print_window(root: Path, window: int, found: dict[str, Any], iterations: int) -> None:
    run = _run_in(root)
    grown, last_k, outgrown = ways(run)
    print(f"\nwindow {window:,}: {found['calls']} calls, {found['summaries']} summaries, {found['seconds']:.0f} s")
    print(f"  in all {found['tokens']:,} prompt tokens, the largest prompt {found['largest']:,}")
    print(f"  {found['shared'] / found['tokens']:.0%} began like the role's prompt before (what a provider can cache)")
    print(
        f"  append everything {grown:,}: {grown / found['tokens']:.1f}x; keep the last {LAST_K} {last_k:,}: "
        f"{last_k / found['tokens']:.1f}x"
    )
    print(f"  with everything appended a prompt is over 128,000 tokens in iteration {outgrown}")
    print(f"  memory of the process by quarters: {', '.join(f'{m / 1e6:.0f} MB' for m in found['memory'])}")
    for role in ("planner", "coder"):
        _print_sections(run, role, [i for i in SHOWN if i <= iterations])
    for name, where in recall(run, iterations).items():
        print(f"  {name}: {where}")


def _print_sections(run: Any, role: str, iterations: list[int]) -> None:
    table: dict[str, dict[int, int]] = defaultdict(dict)
    for iteration in iterations:
        name = f"{iteration:04d}-{role}" + ("-0" if role == "coder" else "")
        lines = run.transcript(name).lines()
        for line in lines:
            if "tokens" in line:
                label = "recent attempts" if str(line["label"]).startswith("attempt ") else str(line["label"])
                table[label][iteration] = table[label].get(iteration, 0) + _raw(line, lines[0])
    print(f"  {role:<24}" + "".join(f"{i:>9}" for i in iterations))
    for label, cells in [*table.items(), ("in all", _sums(table, iterations))]:
        print(f"    {label:<22}" + "".join(f"{cells.get(i, 0):>9,}" for i in iterations))


def _sums(table: dict[str, dict[int, int]], iterations: list[int]) -> dict[int, int]:
    return {i: sum(cells.get(i, 0) for cells in table.values()) for i in iterations}


def _openings(run: Any) -> dict[tuple[str, int, str], str]:
    """Turn, place and label to blob id, which is the text's hash."""
    found = {}
    for path in sorted(run.path.glob("transcript/*.jsonl")):
        lines = run.transcript(path.stem).lines()
        begins = max((i for i, line in enumerate(lines) if line["speaker"] == "view"), default=0)
        for i, line in enumerate(lines[begins:]):
            if "tokens" in line:
                found[path.stem, i, str(line["label"])] = str(line["blob"])
    return found


def _turns(run: Any, role: str) -> Iterator[list[dict[str, Any]]]:
    for path in sorted(run.path.glob(f"transcript/*-{role}*.jsonl")):
        if not path.stem.endswith("-summary"):
            yield run.transcript(path.stem).lines()


def _raw(part: dict[str, Any], view: dict[str, Any]) -> int:
    """A part's tokens of o200k_base."""
    return round(part["tokens"] / view["factor"])


def _said(line: dict[str, Any]) -> int:
    from memory.tokens import COUNTER

    calls = line.get("tool_calls") or []
    return COUNTER.count(str(line.get("text", ""))) + sum(COUNTER.count(call["arguments"]) for call in calls)


def _run_in(root: Path) -> Any:
    from memory.runs import list_runs

    return list_runs(root)[0]


def _timed_views() -> list[float]:
    """Processor seconds of each planner's view from now on, history to messages: a busy machine adds little to them."""
    from agents import briefing
    from agents.models.base import Message
    from agents.room import Room
    from agents.seat import Seat
    from agents.thread import Opening

    seconds: list[float] = []
    plain = briefing.for_planner

    def timed(seat: Seat, stale: int) -> Opening:
        began = time.thread_time()
        opening = plain(seat, stale)

        def project(room: Room) -> list[Message]:
            messages = opening.project(room)
            seconds.append(time.thread_time() - began)
            return messages

        return Opening(project, opening.facts)

    briefing.for_planner = timed
    return seconds


def _resident() -> int:
    """Bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
