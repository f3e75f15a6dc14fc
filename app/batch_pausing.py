"""`--pause-at-limit` of a batch: it waits once nothing is left to do but for a limit, and another terminal's
`warpsmith batch --resume` with a larger one lets it go on."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from pydantic import ValidationError

from agents.batch import Plan
from agents.batch_board import Board
from agents.batch_books import BatchEvent
from agents.batch_queue import BatchFolder
from agents.limits import Budget, StopReason, limits_of
from agents.pausing import Paused, is_held, lift, lifted, paused_in, waiting
from agents.settings import Budgets
from memory.lock import hold
from tools.errors import WarpsmithError

_BUDGETS: tuple[Budget, ...] = tuple(limits_of(Budgets()))


def limit_of(board: Board) -> StopReason | None:
    """The limit that keeps the batch from going on; None when none does: a task at `near_limit` reached its aim."""
    ends = [board.reason, *(state.reason for state in board.tasks.values() if state.status == "ended")]
    return next((reason for reason in ends if reason in _BUDGETS), None)


async def wait_for_a_plan(
    folder: BatchFolder, reason: StopReason, tell: Callable[[BatchEvent], None], given_up: Callable[[], object]
) -> Plan | None:
    """The plan that somebody asks for; None once nobody will. Raises RunFolderError: another process has the batch."""
    with hold(folder.path), waiting(folder.path, reason):
        go_on = f"warpsmith batch --resume {shlex.quote(str(folder.path))} with a larger limit"
        tell(BatchEvent(kind="paused", task=None, fields={"reason": reason, "go_on": go_on}))
        while (asked := await lifted(folder.path, given_up)) is not None:
            try:
                return Plan.model_validate(asked["plan"])
            except (KeyError, ValidationError):
                continue  # whatever wrote that into the folder was none of ours
    return None


def ask_to_go_on(folder: BatchFolder, before: Plan | None, plan: Plan) -> Paused | None:
    """Have the process that waits go on with `plan`; None when none waits.

    Raises WarpsmithError when no limit is another one, or checkpoints are to be kept elsewhere.
    """
    paused = paused_in(folder.path)
    if paused is None or before is None or not is_held(folder.path):
        return None
    if plan.state != before.state:
        raise WarpsmithError("the batch waits in another process, which keeps its state where it is", _stop(paused))
    if (plan.settings.budgets, plan.shared) == (before.settings.budgets, before.shared):
        raise WarpsmithError("the batch waits in another process at limits that are as they were", "Raise one.")
    return paused if lift(folder.path, {"plan": plan.model_dump(mode="json")}) else None


def _stop(paused: Paused) -> str:
    return f"Stop it first, then resume: kill -INT {paused.pid}"
