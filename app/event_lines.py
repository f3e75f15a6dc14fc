"""A run's events as single lines of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from agents.events import Event
from agents.limits import BUDGET_WORDS, STOP_WORDS
from app.outcomes import race_words
from app.plain import one_line
from app.quantities import duration, figure, money, percent, span, times, tokens
from app.steer_words import in_words
from memory.movement import BASES, outcome_words

Fields = dict[str, JsonValue]

FAULT_WORDS = {
    "transient": "is out of reach or overloaded",
    "overflow": "says that the prompt is too long",
    "refusal": "declined to answer",
    "auth": "does not accept the key",
    "quota": "says that the account is used up",
    "bad_request": "does not accept the request",
    "format": "gave replies that could not be used",
    "user": "was put aside by you",
    "time": "was not waited for any longer",
}
"""What a model did, by fault or by why another one speaks."""
CASE_WORDS = {
    "truncated": "its reply was cut off",
    "empty": "its reply was empty",
    "prose": "it wrote where a call was wanted",
    "refused": "it declined",
    "arguments": "the arguments of its call could not be used",
}
"""What was wrong with a reply, by case."""


def line(event: Event) -> str:
    """An event as one line of text; empty for events that only a log needs."""
    words = _LINES.get(event.event)
    return words(event.fields) if words else ""


def number(fields: Fields, name: str) -> float | None:
    """A figure of an event, None where it has none."""
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def activity(event: Event) -> str:
    """What a role is doing, for a line that the next activity replaces; empty for other events."""
    f = event.fields
    match event.event:
        case "tool_called":
            return f"{f.get('role')}: {f.get('tool')}"
        case "model_called":
            return f"{f.get('role')}: {f.get('model')} answered"
        case "profiled" | "diagnosed":
            return f"analyst: {bound_words(f)}"
        case "model_retried" | "judge_retried" | "model_corrected" | "samples_raced" | "run_paused":
            return line(event)
        case _:
            return ""


def attempt_line(f: Fields) -> str:
    """One judged attempt: outcome, time or reason, the race that decided, change."""
    head = f"{f.get('attempt')!s:>4}  {outcome_words(f.get('outcome')):<14}"
    seconds = number(f, "seconds")
    if seconds is None:
        why = str(f.get("reason") or f.get("note") or "").replace("_", " ")
        return one_line_after(f"{head} {why}", f.get("change"))
    race = race_words(f.get("note"))
    figures = f"{duration(seconds):>9}  {percent(number(f, 'share_of_limit')):>6} of limit"
    return one_line_after(f"{head} {figures}" + (f"  {race}" if race else ""), f.get("change"))


def gain_words(f: Mapping[str, object]) -> str:
    """How many times as fast as the start a new best is, and by what: `2.54x against the start, by races against
    others`. Older runs have medians, which drift: `~1.65x`. Empty where there is none."""
    gain, by = f.get("gain"), f.get("gain_by")
    if not isinstance(gain, int | float) or isinstance(gain, bool):
        return ""
    told = next((words for evidence, words in BASES.items() if evidence == by), "")
    apart = by == "medians" or (by is None and gain != 1.0)
    return f"{'~' if apart else ''}{times(gain)} against the start{f', {told}' if told else ''}"


def bound_words(f: Mapping[str, object]) -> str:
    """What bounds an attempt: `a3 is bound by memory`."""
    if f.get("bottleneck") == "unknown":
        return f"what bounds {f.get('attempt')} is not known"
    return f"{f.get('attempt')} is bound by {f.get('bottleneck')}"


def one_line_after(head: str, change: JsonValue) -> str:
    return f"{head}  {one_line(str(change or ''))}".rstrip()


def workloads(f: Fields) -> list[str]:
    """What the baseline and the limit of each workload are."""
    found = f.get("workloads")
    return [
        f"{w.get('workload')}: baseline {duration(number(w, 'baseline_seconds'))},"
        f" limit {duration(number(w, 'limit_seconds'))}"
        for w in (found if isinstance(found, list) else [])
        if isinstance(w, dict)
    ]


def attempts_in(f: Fields) -> str:
    """How many there were, in words."""
    count = f.get("attempts")
    return f"{count} attempt{'' if count == 1 else 's'}"


def stop_reason(f: Fields) -> str:
    """Why a run ends, in words, with what it was told beside it."""
    words = next((words for reason, words in STOP_WORDS.items() if reason == f.get("reason")), str(f.get("reason")))
    message = one_line(str(f.get("message") or ""))
    return f"{words} ({message})" if message else words


def _iteration_line(f: Fields) -> str:
    left = number(f, "time_left")
    parts = [f"iteration {f.get('iteration')} of {f.get('iterations')}: best {f.get('best') or '-'}"]
    if number(f, "seconds") is not None:
        parts.append(f"{duration(number(f, 'seconds'))}, {percent(number(f, 'share_of_limit'))} of limit")
    if left is not None:
        parts.append(f"about {span(left)} left")
    return ", ".join(parts)


def _retried_line(f: Fields) -> str:
    did = FAULT_WORDS.get(str(f.get("fault")), str(f.get("fault")))
    return f"{f.get('role')}: {f.get('model')} {did}; again in {span(number(f, 'wait'))}{_said(f)}"


def _changed_line(f: Fields) -> str:
    why = str(f.get("why"))
    did = FAULT_WORDS.get(why, why)
    return f"{f.get('role')}: now {f.get('after')}, since {f.get('before')} {did}{_said(f)}"


def _corrected_line(f: Fields) -> str:
    return f"{f.get('role')}: {f.get('model')} was told that {CASE_WORDS.get(str(f.get('case')), str(f.get('case')))}"


def _said(f: Fields) -> str:
    message = one_line(str(f.get("message") or ""))
    return f" ({message})" if message else ""


def _object(value: JsonValue) -> Fields:
    return value if isinstance(value, dict) else {}


def _waits_line(f: Fields) -> str:
    plan = f.get("hypotheses")
    changes = [str(_object(item).get("change")) for item in (plan if isinstance(plan, list) else [])]
    return one_line(f"the plan of iteration {f.get('iteration')} waits for your word: {'; '.join(changes)}")


def _exported_line(f: Fields) -> str:
    return one_line(f"{f.get('attempt')} was exported as {f.get('form')}: {f.get('said')}, in {f.get('folder')}")


def _opened_line(f: Fields) -> str:
    return "; ".join([f"task opened in {span(number(f, 'seconds'))}", *workloads(f)])


def _low_line(f: Fields) -> str:
    budget, used, limit = str(f.get("budget")), number(f, "used") or 0.0, number(f, "limit") or 0.0
    words = next((words for name, words in BUDGET_WORDS.items() if name == budget), budget)
    write = _AMOUNTS.get(budget, figure)
    return f"{percent(used / limit if limit else None)} of the {words} are gone: {write(used)} of {write(limit)}"


def _raced_line(f: Fields) -> str:
    found = f.get("samples")
    samples = [sample for sample in (found if isinstance(found, list) else []) if isinstance(sample, dict)]
    told = [f"{sample.get('sample')}: {_sample_words(sample)}" for sample in samples]
    chosen = "none left a kernel" if f.get("chosen") is None else f"{f.get('chosen')} is judged in full"
    return one_line_after(f"samples {', '.join(told)}; {chosen}", f.get("change"))


def _sample_words(sample: Fields) -> str:
    if sample.get("kernel") is None:
        return "no kernel"
    if sample.get("reason") is not None:
        return str(sample["reason"]).replace("_", " ")
    return "not timed" if sample.get("seconds") is None else duration(number(sample, "seconds"))


_AMOUNTS: dict[str, Callable[[float], str]] = {
    "money": money,
    "tokens": lambda amount: tokens(round(amount)),
    "wall_time": span,
    "device_time": span,
}
"""How a budget is written; the others are counts."""
_LINES: dict[str, Callable[[Fields], str]] = {
    "run_started": lambda f: f"run {f.get('run')}: opening the task, measuring the machine and the baseline",
    "run_resumed": lambda f: f"run {f.get('run')} goes on after {attempts_in(f)}: opening the task again",
    "task_opened": _opened_line,
    "attempt_judged": attempt_line,
    "iteration_ended": _iteration_line,
    "budget_low": _low_line,
    "samples_raced": _raced_line,
    "run_paused": lambda f: f"paused: {stop_reason(f)}; to go on: {f.get('go_on')}",
    "model_retried": _retried_line,
    "judge_retried": lambda f: f"the judge could not do it; again in {span(number(f, 'wait'))}{_said(f)}",
    "model_changed": _changed_line,
    "model_corrected": _corrected_line,
    "stopping": lambda f: f"stopping: {stop_reason(f)}",
    "steered": lambda f: one_line(f"you: {in_words(str(f.get('action')), _object(f.get('about')))}"),
    "steer_refused": lambda f: one_line(f"you: {f.get('action')} was refused: {f.get('message')}"),
    "answered": lambda f: one_line(f"you asked: {f.get('question')} {f.get('by')}: {f.get('answer')}"),
    "plan_waits": _waits_line,
    "exported": _exported_line,
    "run_failed": lambda f: f"the run failed: {f.get('message', f.get('error', ''))}",
}
