"""What each action does to a run. Each returns what its event says of it, or raises WarpsmithError with nothing done.

An action that a killed process did without telling is done again: so each may be done twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from agents import steering_actions as acts
from agents.models.base import ModelError
from agents.models.connections import NoAddress, NoProvider, is_address
from agents.models.spec import is_built_in
from agents.settings import ROLES, RunSettings
from agents.settings_in_words import names_settings
from agents.steering_actions import Action, Command, EditKernel
from agents.steering_fork import fork_run
from agents.steering_limits import about_limits, with_limits
from tools.errors import KernelError, WarpsmithError
from tools.records import ENTRY_FILE, Kernel
from tools.tunables import settings_kept, written_value

if TYPE_CHECKING:
    from agents.context import Context
    from agents.steering import Steering

About = dict[str, JsonValue]


def do(steering: Steering, command: Command, action: Action) -> About:
    """Do an action that takes no time. Raises WarpsmithError."""
    return _DEEDS[type(action)](steering, command, action)


async def judge_edit(steering: Steering, command: Command, action: EditKernel) -> About:
    """Have a kernel by the person's own hand judged as an attempt of the iteration that goes on. Raises KernelError."""
    context = steering.context
    parent = action.parent or context.attempts.standing
    base = None if parent is None else context.attempts.kernel(parent)
    language = context.settings.language
    if ENTRY_FILE[language] not in action.files:
        raise KernelError(f"the kernel has no {ENTRY_FILE[language]}", "Its entry file has that name.")
    files = {name: text for name, text in action.files.items() if name != "task.h"}
    own = {} if base is None else settings_kept(base.defines, base.files, files)
    kernel = Kernel(
        language=language,
        files=files,
        defines=action.defines if action.defines is not None else own,
        flags=action.flags if action.flags is not None else () if base is None else base.flags,
    )
    iteration = max(1, steering.wishes.iteration)
    judged = await context.attempts.judge(
        kernel, parent, iteration, None, call=f"steer/{command.id}", person=action.note or "by hand"
    )
    return {
        "attempt": judged.attempt.id,
        "parent": parent,
        "by_text": _set_by_text(kernel, base) if action.defines is None else {},
        "note": action.note,
        "outcome": judged.attempt.outcome,
        "known": not judged.is_new,
        "device_seconds": judged.device_seconds,
    }


def _set_by_text(kernel: Kernel, base: Kernel | None) -> dict[str, JsonValue]:
    """Tunables whose value the kernel's text gives in place of the settings that it started from: what it is now."""
    before = {} if base is None else base.defines
    given = {name: written_value(name, kernel.files) for name in before if name not in kernel.defines}
    return {name: value for name, value in given.items() if value not in (None, before[name])}


def _plain(_steering: Steering, _command: Command, action: Any) -> About:
    """Nothing beside the event."""
    about: About = action.model_dump(mode="json", exclude={"action"})
    return about


def _hint(steering: Steering, _command: Command, action: acts.Hint) -> About:
    context = steering.context
    if action.text not in context.run.standing_hints():
        context.run.add_hint(action.text, steering.wishes.hears)
    models = context.settings.models
    reads = [role for role in ROLES if any(not is_built_in(spec) for spec in models.of(role))]
    return {"text": action.text, "read_by": [*reads]}


def _withdraw(steering: Steering, _command: Command, action: acts.Withdraw) -> About:
    run = steering.context.run
    if action.text in run.standing_hints():
        run.withdraw_hint(action.text, steering.wishes.hears)
    elif action.text not in [str(hint["text"]) for hint in run.hints()]:
        raise WarpsmithError(f"there is no hint {action.text[:80]!r}", "Give its text as it was given.")
    return {"text": action.text}


def _decide(steering: Steering, _command: Command, action: acts.Approve | acts.EditPlan | acts.Reject) -> About:
    waiting = steering.wishes.waiting
    if waiting is None:
        raise WarpsmithError("no plan waits for a word", "Switch approval on: then the next one does.")
    if isinstance(action, acts.EditPlan):
        most = steering.context.settings.parallel
        if len(action.hypotheses) > most:
            raise WarpsmithError(f"{len(action.hypotheses)} hypotheses are too many", f"Give at most {most}.")
        for hypothesis in action.hypotheses:
            if hypothesis.parent is not None:
                steering.context.attempts.find(hypothesis.parent)
            _require_settings(hypothesis.change, steering.context.models["coder"].candidates[0].name)
    about: About = {"decided": waiting, **_plain(steering, _command, action)}
    return about


def _require_settings(change: str, coder: str) -> None:
    """Raises WarpsmithError where a coder that is built in can't carry that out: the iteration would try nothing."""
    if is_built_in(coder) and not names_settings(change):
        raise WarpsmithError(
            f"{coder} can't carry this out: {change[:120]!r} names no setting, and it writes no code",
            "Name settings, e.g. UNROLL=4 or -O2, or have a model play the coder.",
        )


def _attempt(steering: Steering, command: Command, action: acts.Pin | acts.Fork) -> About:
    """About an attempt that must be there."""
    steering.context.attempts.find(action.attempt)
    return _plain(steering, command, action)


def _approval(steering: Steering, _command: Command, action: acts.Approval) -> About:
    context = steering.context
    change_settings(context, context.settings.model_copy(update={"approve": action.on}))
    return {"on": action.on}


def _model(steering: Steering, _command: Command, action: acts.UseModel) -> About:
    context, role = steering.context, action.role
    models = context.settings.models
    before, parting = list(models.of(role)), context.models[role].parting
    _use(steering, action)
    fallback = {**models.fallback, role: tuple(action.models[1:])}
    update = {role: action.models[0], "fallback": {name: specs for name, specs in fallback.items() if specs}}
    change_settings(context, context.settings.model_copy(update={"models": models.model_copy(update=update)}))
    about: About = {"role": role, "models": [*action.models], "before": [*before], "answering": parting.answering}
    return about if action.address is None else about | {"address": action.address}


def _use(steering: Steering, action: acts.UseModel) -> None:
    """Raises WarpsmithError, with what works while the run goes on."""
    address, first = action.address, action.models[0]
    if address is not None and (not is_address(address) or "@" in address):
        raise WarpsmithError(
            f"{address[:80]} is no address of a server",
            "It begins with http:// or https:// and holds no password, `?` or `#`, as http://127.0.0.1:8000/v1.",
        )
    try:
        steering.control.use(action.role, *action.models, address=address)
    except NoAddress as error:
        advice = f"Write it behind the model: model {action.role} {first} http://127.0.0.1:8000/v1"
        raise WarpsmithError(error.message, advice) from error
    except NoProvider as error:
        raise WarpsmithError(error.message, f"{error.advice} It is read again whenever a model is chosen.") from error
    except ModelError as error:
        advice = (
            "The run's process knows the variables that it was started with. Put the key into a file and name that by "
            "key_file in warpsmith.toml, which is read again; or stop the run, set the variable and resume."
        )
        raise WarpsmithError(error.message, advice) from error


def _budget(steering: Steering, _command: Command, action: acts.SetBudget) -> About:
    context = steering.context
    old = context.settings.budgets
    budgets = with_limits(old, action.limits)
    change_settings(context, context.settings.model_copy(update={"budgets": budgets}))
    context.purse.limit(budgets.dollars, budgets.tokens)
    return about_limits(old, budgets, action)


def _policy(steering: Steering, command: Command, action: acts.SetPolicy) -> About:
    context = steering.context
    fork = fork_run(context, action.policy, command.id, steering.wishes)
    return {"policy": action.policy, "before": context.task.policy, "run": fork.id}


def change_settings(context: Context, settings: RunSettings) -> None:
    """From now on these hold, also for a process that resumes the run; what changed is in its history."""
    config = context.run.config()
    before, after = context.settings.model_dump(mode="json"), settings.model_dump(mode="json")
    changes: dict[str, JsonValue] = {
        name: {"before": before.get(name), "after": after[name]} for name in after if after[name] != before.get(name)
    }
    context.settings = settings
    if not changes:
        return
    history = config.get("history")
    entry: JsonValue = {"at": time.time(), "command": ["warpsmith", "steer"], "changes": changes}
    entries = [*(history if isinstance(history, list) else []), entry]
    context.run.write_config({**config, "settings": after, "history": entries})


_DEEDS: Final[dict[type[Any], Callable[[Any, Command, Any], About]]] = {
    acts.Pause: _plain,
    acts.GoOn: _plain,
    acts.Hint: _hint,
    acts.Withdraw: _withdraw,
    acts.Approval: _approval,
    acts.Approve: _decide,
    acts.EditPlan: _decide,
    acts.Reject: _decide,
    acts.Pin: _attempt,
    acts.Unpin: _plain,
    acts.Fork: _attempt,
    acts.Forbid: _plain,
    acts.Allow: _plain,
    acts.UseModel: _model,
    acts.SetBudget: _budget,
    acts.SetPolicy: _policy,
    acts.Accept: _plain,
    acts.Stop: _plain,
}
