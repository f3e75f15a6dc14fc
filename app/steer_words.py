"""Actions on a run as a person writes them, in a shell or in the session: `fork a3`, `budget dollars=5`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from agents import steering_actions as acts
from agents.settings import ROLES, Budgets
from agents.state import Hypothesis
from agents.steering_actions import Action
from app.inputs import kernel_at, seconds_of
from app.quantities import money, percent, span
from memory.movement import outcome_words
from tools.errors import WarpsmithError

_SPANS: Final = ("wall_time", "device_time")
_WHOLE: Final = ("iterations", "patience", "tokens")


class Usage(NamedTuple):
    """How an action is written, what it does, and how it is read."""

    form: str
    help: str
    read: Callable[[Sequence[str]], Action]


def action_of(words: Sequence[str]) -> Action:
    """The action that these words name. Raises WarpsmithError, KernelError (a kernel that can't be read)."""
    if not words:
        raise WarpsmithError("nothing to do was named", f"There are: {', '.join(USAGES)}.")
    name, rest = words[0], [word for word in words[1:] if word.strip()]
    usage = USAGES.get(name)
    if usage is None:
        raise WarpsmithError(f"there is nothing called {name}", f"There are: {', '.join(USAGES)}.")
    try:
        return usage.read(rest)
    except (_Misused, ValidationError) as error:
        raise WarpsmithError(f"{name} is not written like that{_why(error)}", f"Write: {usage.form}") from error


class _Misused(Exception):
    """Too many or too few words."""


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f": {error.errors(include_url=False)[0]['msg']}"
    return f": {error}" if str(error) else ""


def _alone(kind: Callable[[], Action]) -> Callable[[Sequence[str]], Action]:
    def read(words: Sequence[str]) -> Action:
        if words:
            raise _Misused("it takes no more words")
        return kind()

    return read


def _text(make: Callable[[str], Action], needed: bool = True) -> Callable[[Sequence[str]], Action]:
    def read(words: Sequence[str]) -> Action:
        text = " ".join(words).strip()
        if needed and not text:
            raise _Misused("words are missing")
        return make(text)

    return read


def _one(make: Callable[[str], Action]) -> Callable[[Sequence[str]], Action]:
    def read(words: Sequence[str]) -> Action:
        if len(words) != 1:
            raise _Misused("it takes one word")
        return make(words[0])

    return read


def _switch(word: str) -> Action:
    if word not in ("on", "off"):
        raise _Misused("it is on or off")
    return acts.Approval(on=word == "on")


def _model(words: Sequence[str]) -> Action:
    if len(words) not in (2, 3) or words[0] not in (*ROLES, "all"):
        raise _Misused(
            f"it takes one of {', '.join(ROLES)}, a model, and the address of its server where one is needed"
        )
    specs = tuple(spec for spec in words[1].split(",") if spec)
    address = words[2] if len(words) > 2 else None
    return acts.UseModel.model_validate({"role": words[0], "models": specs, "address": address})


def _budget(words: Sequence[str]) -> Action:
    from agents.steering_limits import with_limits

    limits = dict(_limit(word) for word in words)
    with_limits(Budgets(), limits)  # what can be none is said before it is handed to a run
    return acts.SetBudget(limits=limits)


def _limit(word: str) -> tuple[str, float | int | None]:
    """`wall_time=2h`, `near_limit=5` (percent), `dollars=none`."""
    name, equals, text = word.partition("=")
    if not equals or name not in Budgets.model_fields:
        raise _Misused(f"{word} is no limit; there are {', '.join(Budgets.model_fields)}")
    if text == "none":
        return name, None
    try:
        if name in _SPANS:
            return name, seconds_of(text)
        if name == "near_limit":
            return name, float(text.rstrip("%")) / 100 or None
        return name, int(text) if name in _WHOLE else float(text)
    except ValueError as error:
        raise _Misused(f"{text} is no amount") from error


def _edit(words: Sequence[str]) -> Action:
    if not words:
        raise _Misused("a file is missing")
    kernel = kernel_at(Path(words[0]))
    parent = words[1] if len(words) > 1 and words[1][:1] == "a" and words[1][1:].isdecimal() else None
    note = " ".join(words[1 if parent is None else 2 :])
    made = (Path(words[0]) / "attempt.json").is_file()
    return acts.EditKernel(
        files=kernel.files,
        parent=parent,
        note=note,
        defines=kernel.defines if made else None,
        flags=kernel.flags if made else None,
    )


def _plan(words: Sequence[str]) -> Action:
    if len(words) != 1:
        raise _Misused("a file is missing")
    return plan_of(Path(words[0]).read_text(encoding="utf-8"))


def plan_of(text: str) -> acts.EditPlan:
    """A plan out of JSON: one hypothesis or a list of them. Raises WarpsmithError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WarpsmithError(f"the plan is not valid JSON: {error}", "A plan is a list of hypotheses.") from error
    try:
        items = found if isinstance(found, list) else [found]
        return acts.EditPlan(hypotheses=tuple(Hypothesis.model_validate(item) for item in items))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise WarpsmithError(
            f"the plan can't be used: {where}: {first['msg']}", "Keep each hypothesis's fields."
        ) from error


USAGES: Final[Mapping[str, Usage]] = {
    "pause": Usage("pause", "begin nothing new until `resume`", _alone(acts.Pause)),
    "resume": Usage("resume", "go on after a pause", _alone(acts.GoOn)),
    "hint": Usage("hint TEXT", "tell every role something, until it is withdrawn", _text(lambda t: acts.Hint(text=t))),
    "withdraw": Usage("withdraw TEXT", "take a hint back", _text(lambda t: acts.Withdraw(text=t))),
    "approval": Usage("approval on|off", "whether each plan waits for your word", _one(_switch)),
    "approve": Usage("approve", "carry out the plan that waits", _alone(acts.Approve)),
    "plan": Usage("plan FILE", "carry out these hypotheses (JSON) instead of those that wait", _plan),
    "reject": Usage(
        "reject [WHY]", "have the planner make another plan", _text(lambda t: acts.Reject(why=t), needed=False)
    ),
    "edit": Usage("edit PATH [aN] [NOTE]", "have a kernel of your own judged, as a child of aN", _edit),
    "pin": Usage("pin aN", "every hypothesis starts from that attempt", _one(lambda w: acts.Pin(attempt=w))),
    "unpin": Usage("unpin", "let the planner choose parents again", _alone(acts.Unpin)),
    "fork": Usage("fork aN", "the next plan starts from that attempt", _one(lambda w: acts.Fork(attempt=w))),
    "forbid": Usage("forbid IDEA", "carry out no hypothesis with these words", _text(lambda t: acts.Forbid(idea=t))),
    "allow": Usage("allow IDEA", "an idea is no longer forbidden", _text(lambda t: acts.Allow(idea=t))),
    "model": Usage("model ROLE SPEC[,SPEC] [URL]", "have another model play a role, others take over", _model),
    "budget": Usage("budget NAME=VALUE…", "other limits, as dollars=5 wall_time=2h near_limit=3 tokens=none", _budget),
    "policy": Usage(
        "policy strict|tf32|mixed",
        "go on as a new run under another numerics policy",
        _one(lambda w: acts.SetPolicy.model_validate({"policy": w})),
    ),
    "ask": Usage("ask QUESTION", "ask something about the run", _text(lambda t: acts.Ask(question=t))),
    "accept": Usage("accept", "the best is good enough: measure it afresh and end", _alone(acts.Accept)),
    "stop": Usage("stop", "end now and keep the best; `warpsmith resume` goes on", _alone(acts.Stop)),
}
"""By name."""


def in_words(name: str, about: object) -> str:
    """An action that took effect, in a few words. about: of its event; what is no mapping tells nothing."""
    told = _TOLD.get(name)
    return told(about if isinstance(about, Mapping) else {}) if told is not None else name


def _decided(text: str) -> Callable[[Mapping[str, object]], str]:
    return lambda about: f"{text} of iteration {about.get('decided')}"


def _rejected(about: Mapping[str, object]) -> str:
    why = about.get("why")
    return f"rejected the plan of iteration {about.get('decided')}" + (f": {why}" if why else "")


def _judged(about: Mapping[str, object]) -> str:
    note = f" ({about.get('note')})" if about.get("note") else ""
    again = ", which was judged before" if about.get("known") else f": {outcome_words(about.get('outcome'))}"
    by_text = about.get("by_text")
    values = ", ".join(f"{name}={value}" for name, value in by_text.items()) if isinstance(by_text, Mapping) else ""
    set_so = f", with {values} as its text has it" if values else ""
    return f"a kernel by hand{note} is {about.get('attempt')}{again}{set_so}"


def _limits(about: Mapping[str, object]) -> str:
    limits = about.get("limits")
    named = limits.items() if isinstance(limits, Mapping) else ()
    return "limits: " + ", ".join(f"{name} {_amount(str(name), value)}" for name, value in named)


def _amount(name: str, value: object) -> str:
    """A limit in the unit in which it is given."""
    if not isinstance(value, int | float):
        return "none" if value is None else str(value)
    if name in _SPANS:
        return span(value)
    return percent(value) if name == "near_limit" else money(value) if name == "dollars" else f"{value:g}"


def _hint(about: Mapping[str, object]) -> str:
    said, reads = f"hint: {about.get('text')}", about.get("read_by")
    if not isinstance(reads, list) or len(reads) == len(ROLES):
        return said
    roles = " and the ".join(map(str, reads))
    kept = f"only the {roles} reads it" if len(reads) == 1 else f"the {roles} read it" if reads else "nobody reads it"
    return f"{said} ({kept}: builtin:autotune reads no hints; it is kept for a model that comes)"


def _models(about: Mapping[str, object]) -> str:
    models = about.get("models")
    said = f"{about.get('role')} is played by {', then '.join(map(str, models if isinstance(models, list) else []))}"
    return f"{said}, once the answer that comes just now is at its end" if about.get("answering") else said


_TOLD: Final[Mapping[str, Callable[[Mapping[str, object]], str]]] = {
    "pause": lambda _: "paused",
    "resume": lambda _: "goes on",
    "hint": _hint,
    "withdraw": lambda about: f"hint withdrawn: {about.get('text')}",
    "approval": lambda about: "plans wait for a word" if about.get("on") else "plans wait no longer",
    "approve": _decided("approved the plan"),
    "plan": _decided("edited the plan"),
    "reject": _rejected,
    "edit": _judged,
    "pin": lambda about: f"every hypothesis starts from {about.get('attempt')}",
    "unpin": lambda _: "the planner chooses parents",
    "fork": lambda about: f"the next plan starts from {about.get('attempt')}",
    "forbid": lambda about: f"forbidden: {about.get('idea')}",
    "allow": lambda about: f"allowed again: {about.get('idea')}",
    "model": _models,
    "budget": _limits,
    "policy": lambda about: f"policy {about.get('policy')}: goes on as {about.get('run')}",
    "accept": lambda _: "the best was accepted: it is measured afresh and the run ends",
    "stop": lambda _: "stopped",
}
