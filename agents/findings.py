"""Records as a model reads them: what decides the next step, without the bulk. The whole evidence is in the run
folder."""

from __future__ import annotations

from pydantic import JsonValue

from agents.attempts import Judged
from tools.device_code import DeviceCode
from tools.profiles import Profile
from tools.program import Experiment
from tools.records import BuildReport, Diagnostic, QuickResult, Rejected, StageReport, Verdict

STREAM_TAIL = 2000
DIAGNOSTICS = 20


def of_judged(judged: Judged) -> dict[str, JsonValue]:
    """An attempt's verdict, with the attempt's id."""
    attempt = judged.attempt
    found: dict[str, JsonValue] = {"attempt": attempt.id, "outcome": attempt.outcome}
    if not judged.is_new:
        found["already_judged"] = "the very same kernel; nothing was measured again"
    return found | of_verdict(judged.verdict)


def of_verdict(verdict: Verdict) -> dict[str, JsonValue]:
    """Times and the race when accepted; else the stage, the reason and everything that explains it."""
    if verdict.status == "unjudged":
        return {"status": "unjudged", "message": verdict.message}
    if isinstance(verdict, Rejected):
        found: dict[str, JsonValue] = {
            "status": "rejected",
            "stage": verdict.stage,
            "reason": verdict.reason,
            "message": verdict.message,
        }
        if verdict.diagnostics:
            found["diagnostics"] = _diagnostics(verdict.diagnostics)
        if verdict.mismatch is not None:
            found["mismatch"] = verdict.mismatch.model_dump(mode="json", exclude_none=True)
        return found | _streams(verdict.stages[-1])
    found = {
        "status": "accepted",
        "seconds": verdict.seconds,
        "speedup_over_baseline": verdict.speedup,
        "share_of_limit": verdict.share_of_limit,
        "worst_error": verdict.worst_error,
        "workloads": [
            timing.model_dump(mode="json", exclude={"interval"}, exclude_none=True) for timing in verdict.timings
        ],
    }
    if verdict.comparison is not None:
        found["against_best"] = verdict.comparison.model_dump(mode="json")
    return found


def of_build(report: BuildReport) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {"built": report.built, "command": " ".join(report.command[-12:])}
    if report.diagnostics:
        found["diagnostics"] = _diagnostics(report.diagnostics)
    elif not report.built:
        found["output"] = report.output[-STREAM_TAIL:]
    if report.device is not None:
        found["device"] = _device(report.device)
    if report.listing is not None:
        found["listing"] = report.listing.model_dump(mode="json", exclude_none=True)
    return found


def of_experiment(experiment: Experiment) -> dict[str, JsonValue]:
    """What a program printed stands under `stdout` and `stderr` alone, whatever it looks like."""
    found: dict[str, JsonValue] = experiment.model_dump(
        mode="json", exclude={"program", "diagnostics"}, exclude_defaults=True
    )
    if experiment.diagnostics:
        found["diagnostics"] = _diagnostics(experiment.diagnostics)
    return found


def _device(code: DeviceCode) -> dict[str, JsonValue]:
    """The device part of a build, short: the occupancy of a block size is its share, its blocks and what limits it."""
    functions: list[JsonValue] = []
    for f in code.functions:
        shown: dict[str, JsonValue] = f.model_dump(mode="json", exclude={"symbol", "occupancy"}, exclude_none=True)
        if f.occupancy:
            shown["occupancy_by_threads"] = {
                str(o.threads): f"{o.share:.0%} ({o.blocks} blocks, limited by {', '.join(o.limited_by)})"
                for o in f.occupancy
            }
        functions.append(shown)
    return {"architecture": code.architecture, "functions": functions}


def of_quick(results: list[QuickResult]) -> list[JsonValue]:
    return [
        {"variant": i, **r.model_dump(mode="json", exclude_none=True, exclude={"kernel"})}
        for i, r in enumerate(results)
    ]


def of_profile(profile: Profile) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = profile.model_dump(mode="json", exclude={"kernel", "metrics"}, exclude_none=True)
    found["metrics"] = {m.name: f"{m.value:.6g} {m.unit} ({m.source})" for m in profile.metrics}
    return found


def _diagnostics(diagnostics: tuple[Diagnostic, ...]) -> list[JsonValue]:
    worst_first = sorted(diagnostics, key=lambda d: ("error", "warning", "note").index(d.severity))
    lines: list[JsonValue] = []
    for d in worst_first[:DIAGNOSTICS]:
        where = f"{d.file or 'kernel'}:{d.line or '?'}: " if d.file or d.line else ""
        lines.append(f"{where}{d.severity}: {d.message}")
    if len(diagnostics) > DIAGNOSTICS:
        lines.append(f"and {len(diagnostics) - DIAGNOSTICS} more")
    return lines


def _streams(stage: StageReport) -> dict[str, JsonValue]:
    streams = {"stdout": stage.stdout[-STREAM_TAIL:], "stderr": stage.stderr[-STREAM_TAIL:]}
    return {name: text for name, text in streams.items() if text.strip()}
