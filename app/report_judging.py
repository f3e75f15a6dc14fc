"""What each stage of the gauntlet saw, as rows of a table."""

from __future__ import annotations

import shlex

from pydantic import BaseModel, ConfigDict, JsonValue

from app import quantities
from tools.records import StageReport, Verdict

_DETAIL_LENGTH = 240


class StageRow(BaseModel):
    """What one stage of the gauntlet saw, for a table."""

    model_config = ConfigDict(frozen=True)

    stage: str
    passed: bool
    seconds: float
    details: tuple[str, ...]


def stage_rows(verdict: Verdict | None) -> list[StageRow]:
    """One row a stage; none without a verdict."""
    return [] if verdict is None else [_stage_row(stage) for stage in verdict.stages]


def _stage_row(stage: StageReport) -> StageRow:
    details = [f"{name.replace('_', ' ')}: {_short(value, name)}" for name, value in stage.details.items()]
    if stage.command:
        details.insert(0, shlex.join(stage.command))
    return StageRow(stage=stage.stage, passed=stage.passed, seconds=stage.seconds, details=tuple(details))


def _short(value: JsonValue, name: str = "") -> str:
    if isinstance(value, list):
        text = ", ".join(_short(item) for item in value)
    elif isinstance(value, dict):
        text = ", ".join(f"{key.replace('_', ' ')} {_short(item, key)}" for key, item in value.items())
    elif isinstance(value, float):
        text = quantities.duration(value) if name.endswith("seconds") else f"{value:.4g}"
    else:
        text = str(value)
    return text if len(text) <= _DETAIL_LENGTH else text[: _DETAIL_LENGTH - 1] + "…"
