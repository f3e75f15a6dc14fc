"""Runs whose every text tries to break out of a page: tags, attributes, templates, escape sequences, odd Unicode."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from agents.batch import Batch, Begun, Granted, Plan, QueuedTask, Turned
from agents.batch_queue import TASK_FIELD, BatchFolder
from memory.runs import RunFolder
from tests.stub_executor import TASK
from tests.synthetic_run import make_run

TAGS = "</style></title></pre><script>window.pwned=1</script><img src=http://evil.example/x onerror=window.pwned=1>"
ATTRIBUTE = '" onmouseover="window.pwned=1" x=\' onfocus=window.pwned=1 autofocus tabindex=1 \''
TEMPLATE = "{{ 33333*44447 }}{% raw %}${33333*44447}"
EVALUATED = str(33333 * 44447)
"""So long that no time of the day and no figure on a page is it."""
STEERING = "\x1b[2J\x1b]0;pwned\x07\u202egnp.exe\u2066 \x00\x9b31m"
UNICODE = "naïve \ufdfd 日本語 \U0001f469\u200d\U0001f467 Z\u0338\u0322\u034da\u0337lgo \ud800"
HOSTILE = f"{TAGS}{ATTRIBUTE}{TEMPLATE}{STEERING}{UNICODE}]]>-->"


def hostile_run(root: Path, attempts: int = 12) -> RunFolder:
    """A run that ended, with hostile text wherever a task, a model or a kernel may put some."""
    run = make_run(root, attempts=attempts)
    for number in range(attempts):
        _rewrite(run.folder_of(f"a{number}") / "attempt.json", _attempt)
        _rewrite(run.folder_of(f"a{number}") / "verdict.json", _verdict)
        diagnosis = {"attempt": f"a{number}", "bottleneck": "memory", "evidence": [HOSTILE], "summary": HOSTILE}
        _write(run.folder_of(f"a{number}") / "diagnosis.json", diagnosis | {"hypothesis_held": None})
        if run.profile(f"a{number}") is not None or number == 0:
            _write(run.folder_of(f"a{number}") / "profile.json", _profile(f"a{number}"))
    _rewrite(run.path / "config.json", lambda told: told | {"task": {"name": HOSTILE}, "command": ["x", HOSTILE]})
    _rewrite(run.path / "facts.json", _facts)
    lines = [
        {"event": "run_started", "run": run.id, "task": HOSTILE, "models": {"planner": HOSTILE, "coder": "a:b"}},
        _call(model=HOSTILE),
        {"event": "model_changed", "iteration": 1, "role": "coder", "before": HOSTILE, "after": HOSTILE}
        | {"why": "auth", "message": HOSTILE, "call": "c"},
        {"event": "hypothesis", "iteration": 2, "idea": HOSTILE, "change": HOSTILE, "metric": HOSTILE}
        | {"expected": HOSTILE, "parent": None, "lessons": [], "kind": "other"},
        {"event": HOSTILE, "said": HOSTILE},
        {"event": "run_ended", "reason": "patience", "iterations": 3, "attempts": attempts, "kept": 1, "best": "a0"}
        | {"seconds": 0.1, "share_of_limit": 0.1, "speedup": 2.0, "elapsed": 5.0},
    ]
    stamped = [{"v": 2, "time": f"2026-11-30T10:00:{place:02d}Z"} | line for place, line in enumerate(lines)]
    (run.path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in stamped))
    return RunFolder(run.path)


def hostile_batch(root: Path) -> BatchFolder:
    """Two tasks with hostile paths: one that ended, one that had no turn."""
    tasks = tuple(QueuedTask(key=key, path=f"tasks/{key} {HOSTILE[:200]}", task=TASK) for key in ("good", "waiting"))
    made = BatchFolder.create(root, Batch(version="0", name="two", tasks=tasks, passed_over=()))
    run = make_run(made.runs, attempts=6)
    run.write_config({**run.config(), TASK_FIELD: "good"})
    plan = Plan.model_validate({"settings": {}, "shared": {"dollars": 5.0}})
    with made.journal() as journal:
        journal.add(Begun(time=1.0, elapsed=0.0, plan=plan))
        journal.add(Granted(elapsed=1.0, task="good"))
        journal.add(
            Turned(
                elapsed=2.0,
                task="good",
                reason="iterations",
                iterations=5,
                share_of_limit=0.3,
                device_seconds=9.0,
            )
        )
    return made


class _Breaks(HTMLParser):
    """Collects what no page of ours has: scripts without a file of ours, handlers, styles, addresses elsewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("img", "iframe", "object", "embed", "base") or (tag == "script" and not given.get("src")):
            self.found.append(tag)
        for name, value in attrs:
            away = name in ("src", "href", "action") and not (value or "").startswith(("#", "/", "?"))
            if name.startswith("on") or name == "style" or away or (value or "").startswith("//"):
                self.found.append(f"{tag} {name}={value}")


def breaks(page: str) -> list[str]:
    """What got out of its place in `page`: elements, attributes, evaluated templates, characters that steer."""
    steering = [f"U+{ord(mark):04X}" for mark in "\x00\x07\x1b\x9b\u202e\u2066" if mark in page]
    return _Breaks(page).found + steering + ["evaluated"] * (EVALUATED in page)


def _call(**fields: Any) -> dict[str, Any]:
    cost = {"input_tokens": 1000, "output_tokens": 100, "cached_tokens": 0, "cache_write_tokens": 0, "dollars": 0.5}
    return {"event": "model_called", "role": "coder", "iteration": 1, "call": "c", "tries": 1} | cost | fields


def _attempt(told: Any) -> Any:
    told["kernel"]["files"][HOSTILE.replace("/", "")] = HOSTILE
    told["kernel"]["files"]["kernel.cpp"] += HOSTILE
    told["change"] = told["note"] = f"{told['id']} {HOSTILE}"
    if told["hypothesis"] is not None:
        names = ("idea", "change", "metric", "expected")
        told["hypothesis"] |= {name: f"{told['id']} {HOSTILE}" for name in names} | {"kind": "other", "parent": "a0"}
    return told


def _verdict(told: Any) -> Any:
    for stage in told["stages"]:
        stage["details"] = {HOSTILE: HOSTILE}
        stage["command"] = [HOSTILE]
    if told["status"] == "rejected":
        told["message"] = HOSTILE
        told["mismatch"] |= {"output": HOSTILE, "actual": HOSTILE, "workload": HOSTILE}
        told["diagnostics"] = [{"severity": "error", "message": HOSTILE, "file": HOSTILE, "line": 1}]
    return told


def _profile(attempt: str) -> dict[str, Any]:
    return {
        "kernel": attempt,
        "workload": HOSTILE,
        "bottleneck": "memory",
        "evidence": [HOSTILE],
        "metrics": [{"name": HOSTILE, "value": float(len(attempt)), "unit": HOSTILE, "source": "perf"}],
        "missing": [HOSTILE],
        "hot_lines": [{"file": "kernel.cpp", "line": 1, "text": HOSTILE, "note": HOSTILE, "share": 0.5}],
        "roofline": {"bytes": 1e6, "seconds": 1e-3, "peak_bandwidth": 2e10},
    }


def _facts(told: Any) -> Any:
    told |= {"task": HOSTILE, "sandbox": HOSTILE, "notes": [HOSTILE]}
    told["hardware"][HOSTILE] = HOSTILE
    for workload in told["workloads"]:
        workload |= {"inputs": [HOSTILE], "outputs": [HOSTILE]}
    return told


def _rewrite(path: Path, change: Any) -> None:
    _write(path, change(json.loads(path.read_text())))


def _write(path: Path, told: Any) -> None:
    path.write_text(json.dumps(told))
