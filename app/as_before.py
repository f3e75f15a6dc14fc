"""What is asked of something that was begun before: its own models hold where none is named now."""

from __future__ import annotations

from dataclasses import replace

from agents.settings import ROLES, Models
from app.configuration import Asked, fallbacks


def with_models_of(asked: Asked, models: Models) -> Asked:
    """With those models where none is asked for, so that no file and no variable changes them."""
    said = fallbacks(asked.fallback)
    kept = [
        f"{role}={','.join(models.fallback.get(role, ())) or 'none'}"
        for role in ROLES
        if not {"fallback", f"{role}.fallback"} & said.keys()
    ]
    return replace(
        asked,
        model=None,
        planner=asked.planner or asked.model or models.planner,
        coder=asked.coder or asked.model or models.coder,
        analyst=asked.analyst or asked.model or models.analyst,
        fallback=(*asked.fallback, *kept),
    )
