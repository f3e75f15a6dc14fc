"""The run on one line."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from app.claim import claim_of, start_of
from app.quantities import duration, percent
from app.session.lines import brief, clean, harmless
from app.session.story import Story

_SPAN = 14
"""Characters of how long something goes on, at most."""


def headline(story: Story, width: int, doing: str = "") -> Text:
    """State, iteration, best, and what it does. The gain, the share of the limit and the task have what room is left:
    the plan's frame is not seen in every pane, but the best's figures are in two of them."""
    does = shortened(doing, 80) if story.ended is None or story.failed else ""
    state = (f" {story.state.upper()} ", "reverse bold")
    best = _best(story)
    more = [part for part in _more(story) if part]
    line = Text.assemble(state, _iteration(story, "iteration"), best)
    if line.cell_len + sum(2 + cell_len(part) for part in (*more, does)) > width:
        line = Text.assemble(state, _iteration(story, "it"), best)
    left = width - line.cell_len - (cell_len(does) + 2 if does else 0)
    for part in more:
        if cell_len(part) <= left - 2:
            line.append(f"  {part}")
            left -= cell_len(part) + 2
    if does:
        line.append("  " + shortened(does, width - line.cell_len - 2))
    line = harmless(line)
    line.truncate(width, overflow="ellipsis")
    return line


def shortened(doing: str, room: int) -> str:
    """In so many cells, with how long it goes on, whatever else is cut."""
    doing = clean(doing)
    said, comma, how_long = doing.rpartition(", ")
    if cell_len(doing) <= room or not comma or len(how_long) > _SPAN or room < 2 * _SPAN:
        return brief(doing, max(1, room))
    return f"{brief(said, room - len(how_long) - 2)}, {how_long}"


def _iteration(story: Story, word: str) -> str:
    of = f"/{story.iterations}" if story.iterations else ""
    return "" if story.is_unread else f"  {word} {story.iteration}{of}"


def _best(story: Story) -> str:
    best = story.attempts.get(story.best or "")
    if best is None:
        return ""
    return f"  best {best.id} {duration(best.seconds if story.last is None else story.last.seconds)}"


def _more(story: Story) -> list[str]:
    """Most useful first."""
    best, last, task = story.attempts.get(story.best or ""), story.last, brief(story.task, 40)
    if best is None:
        return [task]
    claim = claim_of(best, start_of(story.attempts), story.attempts, last)
    share = best.share if last is None else last.share_of_limit
    return [claim.in_header(story.ended is not None), f"{percent(share)} of limit", task]
