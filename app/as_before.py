"""What is asked of something that was begun before: its own models hold where none is named now."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agents.settings import ROLES, Models
from app.configuration import Asked, Configuration, RoleChoice, Sourced, fallbacks

AS_BEFORE: Final = "as before"
"""The source of what nobody asks for otherwise."""


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


def with_source(found: Configuration, asked: Asked) -> Configuration:
    """What `with_models_of` led to, where nobody gave a flag for what is as before."""
    roles = {role: _from_before(role, choice, asked) for role, choice in found.roles.items()}
    return replace(found, roles=roles)


def _from_before(role: str, choice: RoleChoice, asked: Asked) -> RoleChoice:
    if getattr(asked, role) is not None:
        return choice
    source = AS_BEFORE if asked.model is None else "--model"
    return RoleChoice(Sourced(choice.model.value, source), choice.fallback)
