"""How a run stands, in a word or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.session.story import Story


def state_of(story: Story) -> str:
    """The first of these that holds; it runs where none does."""
    states = (
        (story.is_behind, "reading"),
        (story.is_unread, "starting"),
        (story.is_gone, "stopped"),
        (story.at_limit is not None, "waits at a limit"),
        (story.failed and story.ended is not None, "failed"),
        (story.ended is not None, "ended"),
        (story.wishes.over is not None, "ending"),
        (bool(story.waiting), "plan waits for you"),
        (story.wishes.paused, "paused"),
    )
    return next((state for holds, state in states if holds), "running")
