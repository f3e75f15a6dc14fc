"""What the panes say of an attempt and of the run, as styled lines. Marks are words and signs first, colours second."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from app.predicted import predicted_words
from app.quantities import amount, duration, figure, percent, times
from app.session.archive import Filed
from app.session.lines import clean, folded, rows
from app.session.story import Story
from app.session.tried import Mark, Tried
from memory.ledger import built_since, settings_of
from memory.movement import Movement, movement, outcome_words, race_in
from tools.facts import TaskFacts
from tools.profiles import Profile
from tools.records import Accepted, Rejected

SIGNS: Final[dict[Mark, tuple[str, str]]] = {
    "kept": ("+", "green"),
    "same": ("≈", ""),
    "slower": ("-", "yellow"),
    "rejected": ("x", "red"),
    "unjudged": ("?", "magenta"),
    "tried": ("…", "cyan"),
    "waits": ("»", "bold cyan"),
    "dropped": ("·", "dim"),
}
"""A sign and a style for how something stands."""
BAR: Final = 24
"""Cells."""
LABEL: Final = 11


def head(text: str) -> Text:
    return Text(text, style="bold")


def labelled(label: str, text: str, width: int, style: str = "") -> list[Text]:
    """A label and its text, folded beside it."""
    body = folded(text, max(12, width - LABEL), style)
    first = Text.assemble((f"{label:<{LABEL}}", "dim"), body[0])
    return [first, *(Text.assemble(" " * LABEL, line) for line in body[1:])]


def bar(share: float, width: int = BAR) -> str:
    """A share of 1 as a bar that is readable without colour."""
    full = round(min(1.0, max(0.0, share)) * width)
    return "[" + "#" * full + "." * (width - full) + "]"


def moved(tried: Tried, story: Story) -> Movement | None:
    """How the time moved from the parent's; None where one of them was not measured."""
    return movement(tried, story.attempts.get(tried.parent or ""), story.attempts)


def what(tried: Tried, story: Story) -> str:
    """What an attempt is: what was built other than its parent was, then its author's words, unless they say that."""
    if tried.iteration == 0 and tried.parent is None:
        return "the starting kernel"
    parent = story.attempts.get(tried.parent or "")
    built = built_since(tried.change, "" if parent is None else parent.change)
    said = f"by you: {tried.person}" if tried.person is not None else tried.idea.change if tried.idea else ""
    if not said or said in (built, tried.change, settings_of(tried.change)):
        return built or said
    return f"{built}: {said}" if built else said


def verdict_lines(story: Story, filed: Filed, facts: TaskFacts | None, width: int) -> list[Text]:
    """Verdict and profile of an attempt."""
    tried = story.attempts.get(filed.attempt.id)
    attempt = filed.attempt
    sign, style = SIGNS[attempt.outcome]
    best = " (the best)" if attempt.id == story.best else ""
    lines = [Text.assemble((f"{sign} {attempt.id} {outcome_words(attempt.outcome)}{best}", f"bold {style}".strip()))]
    if attempt.parent:
        lines += labelled("from", attempt.parent, width)
    said = {name: str(value) for name, value in (attempt.hypothesis or {}).items() if value is not None}
    lines += labelled("by you", attempt.person, width) if attempt.person else []
    lines += labelled("change", said.get("change", ""), width) if said.get("change") else []
    lines += labelled("built as", attempt.change, width)
    if said.get("expected"):
        lines += labelled("predicted", predicted_words(said), width)
    if tried is not None and attempt.parent:
        came = moved(tried, story)
        measured = "no time" if came is None else f"time {came.words} against {came.against}, {came.basis}"
        lines += labelled("measured", measured, width)
    lines += labelled("why", attempt.note, width) if attempt.note else []
    lines += [Text(), *_of_verdict(filed, width)]
    if filed.profile is not None:
        lines += [Text(), *profile_lines(filed.profile, width)]
    elif isinstance(filed.verdict, Accepted):
        lines += [Text(), Text("not profiled yet", style="dim")]
    read = story.diagnoses.get(attempt.id)
    lines += [Text(), *labelled("analyst", read, width)] if read else []
    if facts is not None and isinstance(filed.verdict, Accepted):
        lines += [Text(), *labelled("sandbox", facts.sandbox, width)]
    return lines


def _of_verdict(filed: Filed, width: int) -> list[Text]:
    verdict = filed.verdict
    if verdict is None:
        return [Text("no verdict can be read", style="dim")]
    stages = verdict.stages if isinstance(verdict, Accepted | Rejected) else ()
    passed = ", ".join(stage.stage for stage in stages if stage.passed)
    lines = labelled("passed", passed, width) if passed else []
    if isinstance(verdict, Accepted):
        lines += labelled("time", _race(filed), width)
        for t in verdict.timings:
            text = (
                f"{t.workload}: {duration(t.seconds)} ({duration(t.interval.low)} to {duration(t.interval.high)}), "
                f"baseline {duration(t.baseline_seconds)}, limit {duration(t.limit_seconds)}"
            )
            lines += labelled("", text, width)
        lines += [
            Text.assemble(("of limit   ", "dim"), f"{bar(verdict.share_of_limit)} {percent(verdict.share_of_limit)}")
        ]
    elif isinstance(verdict, Rejected):
        lines += labelled("rejected", f"at {verdict.stage}: {verdict.reason.replace('_', ' ')}", width, "bold red")
        lines += labelled("", verdict.message, width)
        for d in verdict.diagnostics[:8]:
            place = f"{d.file}:{d.line}: " if d.file and d.line else ""
            lines += labelled("", f"{place}{d.severity}: {d.message}", width)
        if (m := verdict.mismatch) is not None:
            where = f"{m.output}[{', '.join(map(str, m.index))}]"
            text = f"{where} is {m.actual}, expected {m.expected}; {m.wrong} of {m.total} wrong ({m.workload})"
            lines += labelled("first", text, width)
    else:
        lines += labelled("not judged", verdict.message, width)
    return lines


def _race(filed: Filed) -> str:
    attempt, verdict = filed.attempt, filed.verdict
    race = verdict.comparison if isinstance(verdict, Accepted) else None
    told = race_in(attempt.note)
    name = f"{told.against}, " if told is not None else ""
    decided = outcome_words(race.decision) if race is not None else ""
    against = f", {race.ratio:.3f}x {name}the best by then: {decided}" if race is not None else ""
    return f"{duration(attempt.seconds)}, {times(attempt.speedup)} the baseline{against}"


def profile_lines(profile: Profile, width: int) -> list[Text]:
    """Class, evidence, stalls, position under the roofs, hot lines."""
    lines = [Text.assemble(("bound by   ", "dim"), (profile.bottleneck, "bold"), f" on {clean(profile.workload)}")]
    for text in profile.evidence[:6]:
        lines += labelled("", text, width)
    counters = profile.counters
    if counters is not None and counters.status == "counted":
        lines += labelled("cause", counters.cause.replace("_", " "), width)
        for stall in counters.stalls[:5]:
            lines += labelled("stall", f"{percent(stall.share)} {stall.reason}: {stall.meaning}", width)
    lines += roofline_lines(profile)
    for place, hot in enumerate(profile.hot_lines[:6]):
        share = f"{percent(hot.share)} " if hot.share is not None else ""
        lines += labelled("hot lines" if not place else "", f"{share}{hot.file}:{hot.line} {hot.note}", width)
    if profile.missing:
        lines += labelled("missing", "; ".join(profile.missing[:4]), width)
    return lines


def roofline_lines(profile: Profile) -> list[Text]:
    """Where the kernel stands under the memory's and the arithmetic's roof."""
    roof = profile.roofline
    bandwidth = roof.bytes / roof.seconds
    found = [
        (
            "memory",
            bandwidth / roof.peak_bandwidth,
            f"{amount(bandwidth, 'B/s')} of {amount(roof.peak_bandwidth, 'B/s')}",
        )
    ]
    if roof.flops is not None and roof.peak_flops:
        rate = roof.flops / roof.seconds
        found.append(
            ("arithmetic", rate / roof.peak_flops, f"{amount(rate, 'FLOP/s')} of {amount(roof.peak_flops, 'FLOP/s')}")
        )
        found_at = f"{figure(roof.flops / roof.bytes)} FLOP a byte" if roof.bytes else ""
    else:
        found_at = "operations are not counted"
    lines = [
        Text.assemble((f"{name:<{LABEL}}", "dim"), f"{bar(share)} {percent(share)}  {words}")
        for name, share, words in found
    ]
    return [*lines, Text.assemble((f"{'intensity':<{LABEL}}", "dim"), found_at)]


def said(text: str) -> list[Text]:
    """A text of a model or a person, as it is."""
    return rows(text)
