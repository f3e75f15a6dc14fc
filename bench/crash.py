"""Kills two runs of 200 iterations at 200 points, resumes them after each, and compares them with runs nobody killed.

    python -m bench.crash [--kills 200] [--iterations 200] [--seed 0] [--apart]

The kills are those of tests/crash_harness.py, which says what each of them is; with --apart half of them are kills of
the judge and its workers. docs/reliability.md has the figures.
Exits with 1 when a killed run came to another end, or something was paid for, measured or told twice.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = {"builtin": "builtin:autotune", "priced": "a model that costs"}
FIGURES = {
    "kills": "SIGKILLs of the orchestrator",
    "judge_kills": "of the judge",
    "worker_kills": "of a worker",
    "power_cuts": "of the orchestrator's, with a power cut",
    "attempts": "attempts in the end",
    "lost_evaluations": "evaluations in flight that were lost",
    "lost_calls": "model calls in flight that were lost",
    "seconds": "seconds",
}


def main() -> int:
    """Print what came of it."""
    parser = argparse.ArgumentParser(description="Kill runs and compare their ends.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--apart", action="store_true", help="kill judge and workers too")
    reports = crash(**vars(parser.parse_args()))
    print(f"{'':<40}" + "".join(f"{MODELS[model]:>22}" for model in reports))
    for name, words in FIGURES.items():
        print(f"{words:<40}" + "".join(f"{report[name]:>22.0f}" for report in reports.values()))
    problems = [problem for report in reports.values() for problem in report["problems"]]
    print(f"{len(problems)} problems", *problems, sep="\n")
    return 1 if problems else 0


def crash(kills: int, iterations: int, seed: int, apart: bool) -> dict[str, dict[str, int | float | list[str]]]:
    """The harness's report on each model."""
    asked = {"--kills": kills, "--iterations": iterations, "--seed": seed}
    arguments = [str(word) for pair in asked.items() for word in pair]
    arguments += ["--apart"] if apart else []
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    command = [sys.executable, "-P", str(ROOT / "tests" / "crash_harness.py"), *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
