"""`--pause-at-limit`: the run waits at its limit, and another terminal's `warpsmith resume` lets it go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.events import Journal, OnEvent, bound
from agents.limits import LIFTABLE, STOP_WORDS, StopReason
from agents.pausing import LIFT_NAME, Paused, lift, lifted, paused_in, waiting
from agents.settings import RunSettings
from agents.standing import Standing
from agents.steering_limits import AtLimit, limits_at_its_end, with_given
from agents.wishes import Wishes
from app.changes import Changes, changes_between, with_history
from app.go_on import RAISES, how_to_go_on, used_up
from app.terminal import console_for
from memory.files import Json, RunFolderError
from memory.runs import RunFolder
from tools.errors import WarpsmithError


@dataclass(frozen=True)
class Lifted:
    """What a person asked for of a run that waited."""

    settings: RunSettings
    changes: Changes


def may_wait(settings: RunSettings, reason: StopReason) -> bool:
    """Whether a run that came to its end for `reason` is to wait for a person."""
    return settings.pause_at_limit and reason in LIFTABLE


async def wait_for_a_person(
    run: RunFolder,
    task: str,
    reason: StopReason,
    *,
    on_event: OnEvent,
    on_paused: Callable[[], object],
    given_up: Callable[[], object],
) -> Lifted | None:
    """What is asked for once somebody asks; None once nobody will. The caller holds the run's folder.

    on_paused: called when the folder says that the run waits. Raises RunFolderError.
    """
    settings = RunSettings.model_validate(run.config()["settings"])
    with (
        waiting(run.path, reason),
        bound(run=run.id, task=task),
        Journal(run.path / "events.jsonl", on_event) as journal,
        AtLimit(run, settings, reason, journal) as hand,
    ):

        def look() -> Json | None:
            given = hand.look()
            return None if given is None else _wanted(run, given)

        journal.tell("run_paused", reason=reason, go_on=how_to_go_on(run, reason))
        on_paused()
        while (asked := await lifted(run.path, lambda: given_up() or hand.is_over, look)) is not None:
            try:
                taken = _taken(run, asked)
            except (KeyError, TypeError, ValueError):
                continue  # whatever wrote that into the folder was none of ours
            hand.tell()
            return taken
    return None


def _wanted(run: RunFolder, settings: RunSettings) -> Json:
    """As another process asks for it."""
    config = run.config()
    changed: Json = {"settings": settings.model_dump(mode="json"), "command": ["warpsmith", "steer"]}
    return {"wanted": config | changed, "hints": []}


def ask_to_go_on(run: RunFolder, wanted: Json, hints: tuple[str, ...]) -> Paused | None:
    """Have the process that waits there go on. None when it is gone, and nothing was asked. Raises RunFolderError."""
    paused = paused_in(run.path)
    return paused if paused is not None and lift(run.path, {"wanted": wanted, "hints": list(hints)}) else None


def refuse_at_its_limit(run: RunFolder, settings: RunSettings) -> None:
    """Raises WarpsmithError for a run that ended at a limit which is as it was, also in what was given to it since."""
    reason = (run.outcome() or {}).get("reason")
    known = next((known for known in RAISES if known == reason), None)
    if known is None:
        return
    budgets = with_given(run, settings.budgets)
    name, example = RAISES[known]
    if limits_at_its_end(run).get(name) == getattr(budgets, name):
        message = f"{run.id} ended since {STOP_WORDS[known]}, and that limit is as it was"
        raise WarpsmithError(message, f"Raise it: {example}")


def say_whether_it_ends_at_once(run: RunFolder, settings: RunSettings) -> None:
    """On standard error: that a run has used up a limit that it is to go on with."""
    standing, budgets = Standing.of(run), with_given(run, settings.budgets)
    if (reached := standing.reaches(budgets)) is not None:
        begun = Wishes.of(run.events()).iteration > standing.iterations
        when = "after the iteration that was begun" if begun else "at once, with a last measurement"
        console = console_for(stderr=True)
        words = f"note: it ends {when}: {used_up(reached, standing, budgets)}"
        console.print(words, markup=False, highlight=False, soft_wrap=True)


def _taken(run: RunFolder, asked: Json) -> Lifted:
    """Written down as of any resumption. Raises KeyError, TypeError and ValueError for what is no such thing."""
    wanted, hints = asked["wanted"], asked["hints"]
    if not isinstance(wanted, dict) or not isinstance(hints, list):
        raise TypeError(f"{LIFT_NAME} is not as it should be")
    settings = RunSettings.model_validate(wanted["settings"])
    config = run.config()
    changes = changes_between(config, wanted)
    run.write_config(with_history(config, wanted, changes))
    iteration = (run.outcome() or {}).get("iterations")
    if not isinstance(iteration, int):
        raise RunFolderError(f"{run.path} has no outcome any more")
    for text in hints:
        run.add_hint(str(text), iteration + 1)
    return Lifted(settings, changes)
