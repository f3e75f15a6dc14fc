"""A run that goes on from another one's best kernel under another numerics policy.

A policy is part of what is judged: baseline, limit and tolerance follow from it. So verdicts under two policies can't
be compared, and no run has both: the new one judges the kernel anew, as its start (docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from agents.settings import Budgets
from agents.state import Spent
from agents.steering_actions import Forbid, Hint
from agents.steering_box import give
from agents.wishes import Wishes
from memory.files import Json, RunFolderError
from memory.runs import RunFolder, list_runs
from tools.errors import WarpsmithError
from tools.records import Policy

if TYPE_CHECKING:
    from agents.context import Context

FORKED: Final = "forked_from"
"""In `config.json`: `{"run", "attempt", "command"}`."""


def fork_run(context: Context, policy: Policy, command: str, wishes: Wishes) -> RunFolder:
    """The run folder of the new run, made once for a command: same settings, what is left of the limits, and the hints
    and forbidden ideas that hold. Raises WarpsmithError."""
    if policy == context.task.policy:
        raise WarpsmithError(f"the policy is {policy} already")
    if context.purse.is_shared:
        raise WarpsmithError("a task of a batch keeps its policy", "Give it another one in the task's folder.")
    best = context.attempts.best()
    if best is None:
        raise WarpsmithError(
            "there is no accepted kernel to go on from", "Start a run under that policy: set it in task.toml."
        )
    root = context.run.path.parent
    made = next((run for run in list_runs(root) if _forked_by(run.config()) == command), None)
    if made is not None:
        return made
    start = {**context.task.start, context.settings.language: context.attempts.kernel(best.id)}
    task = context.task.model_copy(update={"policy": policy, "start": start})
    spent = context.purse.spent_with(sum(a.device_seconds for a in context.run.attempts()))
    budgets = what_is_left(context.settings.budgets, spent, context.clock.elapsed, wishes.iteration)
    settings = context.settings.model_copy(update={"budgets": budgets})
    before = context.run.config()
    config: Json = {
        **{name: value for name, value in before.items() if name not in ("format", "thread", "history")},
        "task": task.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
        FORKED: {"run": context.run.id, "attempt": best.id, "command": command},
    }
    fork = RunFolder.create(root, task.name, config)
    for text in context.run.standing_hints():
        give(fork.path, Hint(text=text))
    for idea in wishes.forbidden_in(wishes.hears):
        give(fork.path, Forbid(idea=idea))
    return fork


def what_is_left(budgets: Budgets, spent: Spent, elapsed: float, iterations: int) -> Budgets:
    """The limits of a run that goes on where another one stood. Raises WarpsmithError when one is used up."""
    used: dict[str, float] = {
        "iterations": iterations,
        "dollars": spent["dollars"],
        "tokens": spent["input_tokens"] + spent["output_tokens"],
        "wall_time": elapsed,
        "device_time": spent["device_seconds"],
    }
    left: dict[str, JsonValue] = budgets.model_dump()
    for name, amount in used.items():
        bound = left[name]
        if isinstance(bound, int | float):
            rest = bound - (int(amount) if isinstance(bound, int) else amount)
            if rest <= 0:
                raise WarpsmithError(f"nothing is left of the limit of {name.replace('_', ' ')}", "Raise it first.")
            left[name] = rest
    return Budgets.model_validate(left)


def successor_of(run: RunFolder) -> RunFolder | None:
    """The run that goes on where this one ended for another policy; None when its last end was no such."""
    successor, ended = None, False
    for line in run.events():
        if line["event"] == "run_resumed" and ended:
            successor, ended = None, False
        elif line["event"] == "run_ended":
            ended = True
        elif line["event"] == "steered" and line["action"] == "policy":
            about = line["about"]
            successor = str(about["run"]) if isinstance(about, dict) else None
    if successor is None:
        return None
    try:
        return RunFolder(run.path.parent / successor)
    except RunFolderError:
        return None


def _forked_by(config: Mapping[str, Any]) -> str | None:
    forked = config.get(FORKED)
    return str(forked.get("command")) if isinstance(forked, dict) else None
