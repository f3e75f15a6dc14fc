"""The plan: what was tried from which attempt, what was predicted and what came of it.

Two levels: an attempt that something was tried from, and below it all that was. A child that has children of its own
stands at the left edge again, so that the tree stays narrow however long the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.style import Style
from rich.text import Text
from textual.events import Blur, Focus, Resize
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from app.session.hypothesis import told_rows
from app.session.lines import folded, harmless
from app.session.over import in_dialog
from app.session.plan_rows import NARROW, attempt_row, brief_row, idea_row, parent_row
from app.session.steady import Steady
from app.session.story import Story
from app.session.tried import Idea, Tried

WIDEST = 220
"""Cells of a line."""
_DEPTH: Final = 2
"""Cells by which a line is set in below another."""
NOTHING = "nothing"
"""What a first hypothesis starts from when there is no kernel."""


@dataclass(frozen=True)
class Said:
    """A row of text; of a hypothesis, or of the run."""

    text: Text
    idea: Idea | None = None


Leaf = Tried | Idea | Said


class Plan(Tree[Leaf], Steady):
    """A tree of attempts and of hypotheses that are none yet."""

    DEFAULT_CSS = """
    Plan { height: 1fr; background: $background; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
    Plan:focus { background-tint: transparent; }
    Plan:focus > .tree--cursor {
        color: $foreground; background: $block-cursor-blurred-background;
        text-style: $block-cursor-blurred-text-style;
    }
    Plan > .plan--cursor {
        color: $block-cursor-foreground; background: $block-cursor-background; text-style: $block-cursor-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"plan--cursor"}
    """The cursor while the plan has the focus. As a style of the class `:focus` it would be sought for the whole tree,
    and the whole tree drawn, each time that the focus comes or goes."""
    ICON_NODE = "▾ "
    ICON_NODE_EXPANDED = "▾ "

    def __init__(self, on_choice: Callable[[], None]) -> None:
        """on_choice: called when the cursor moved, so that what it is about is drawn together with it."""
        self._on_choice = on_choice
        self._groups: dict[str, TreeNode[Leaf]] = {}
        self._attempts: dict[str, TreeNode[Leaf]] = {}
        self._ideas: dict[int, TreeNode[Leaf]] = {}
        self._waits: dict[int, int] = {}
        """Hypotheses that are told in full, since they wait for a word, and on lines of how many cells."""
        self._idle: tuple[str, int] = ("", 0)
        """What is said while nothing was tried, and on how many cells."""
        self._room = NARROW
        self._story: Story | None = None
        self._best: str | None = None
        self._lit = False
        """The cursor shows that the keys come here, or come back here after a dialog."""
        self._moves = False
        """The cursor is to be moved once the new lines are laid out."""
        super().__init__("what was tried", id="plan")
        self.show_root = True  # until something was tried: it says what is done meanwhile
        self.show_guides = False
        self.guide_depth = _DEPTH
        self.auto_expand = False
        self.root.expand()

    def update(self, story: Story) -> None:
        """Show what came since."""
        self._story = story
        if self.show_root:
            self._tell_idle(story)
        newest, known = None, next(reversed(self._attempts), None)
        for tried in list(story.attempts.values())[len(self._attempts) :]:
            newest = self._add(tried, story)
        for place, idea in enumerate(story.ideas):
            self._show_idea(place, idea)
        newest = self._tell_waiting(story) or newest
        marked = f"{story.best} {story.wishes.pinned}"
        if marked != self._best:
            self._best = marked
            self._relabel()
        if newest is not None and self._follows(known):
            self._moves = True
            self.call_after_refresh(self._move, newest)

    def fit(self, room: int) -> None:
        """A line in it has so many cells from now on."""
        if room != self._room:
            self._room = room
            if self._story is not None and (self._waits or self.show_root):
                self.update(self._story)

    def _tell_idle(self, story: Story) -> None:
        """What is done while nothing was tried, in full; nothing once something was."""
        self.show_root = not (story.attempts or story.ideas)
        said = (story.idle if self.show_root else "", self._room)
        if said != self._idle:
            self._idle = said
            self.root.remove_children()
            for row in folded(said[0], self._room - _DEPTH, "dim") if said[0] else []:
                self.root.add_leaf("", Said(row))

    def _tell_waiting(self, story: Story) -> TreeNode[Leaf] | None:
        """Have hypotheses that wait told in full below their rows; the first of them if that is news."""
        waiting = [place for place, node in self._ideas.items() if story.ideas[place].mark == "waits"]
        for place in self._waits.keys() - waiting:
            del self._waits[place]
            if place in self._ideas:
                self._ideas[place].remove_children()
        fresh = [place for place in waiting if place not in self._waits]
        for place in waiting:
            if self._waits.get(place) != self._room:
                self._waits[place] = self._room
                node, idea = self._ideas[place], story.ideas[place]
                node.remove_children()
                for row in told_rows(idea, self._room - 2 * _DEPTH, place == waiting[0]):
                    node.add_leaf("", Said(row, idea))
        return self._ideas[fresh[0]] if fresh else None

    def _relabel(self) -> None:
        """The best or the pinned one is another."""
        for node in (*self._attempts.values(), *self._groups.values()):
            node.refresh()
        self._invalidate()
        self.refresh()

    def _follows(self, newest: str | None) -> bool:
        """Whether the cursor is at what was the newest attempt, on its way there or nowhere, so that it follows."""
        data = None if self.cursor_node is None else self.cursor_node.data
        return self._moves or not isinstance(data, Tried) or data.id == newest

    def _move(self, node: TreeNode[Leaf]) -> None:
        self._moves = False
        self.move_cursor(node)

    def _add(self, tried: Tried, story: Story) -> TreeNode[Leaf]:
        """An attempt below its parent's group. The hypothesis that it came of has no line of its own any more."""
        if tried.idea is not None:
            node = self._ideas.pop(story.ideas.index(tried.idea), None)
            if node is not None:
                node.remove()
        if tried.iteration == 0 and tried.parent is None:
            node = self.root.add(tried.id, tried, expand=True)
            self._groups[tried.id] = node
        else:
            node = self._group(tried.parent).add_leaf(tried.id, tried)
        self._attempts[tried.id] = node
        return node

    def _group(self, parent: str | None) -> TreeNode[Leaf]:
        """The node at the left edge below which stands what was tried from that attempt."""
        key = parent or NOTHING
        if key not in self._groups:
            tried = None if self._story is None else self._story.attempts.get(key)
            self._groups[key] = self.root.add(key, tried, expand=True)
        return self._groups[key]

    def _show_idea(self, place: int, idea: Idea) -> None:
        if idea.attempts or (idea.mark == "dropped" and place not in self._ideas):
            return
        if place not in self._ideas:
            self._ideas[place] = self._group(idea.parent).add(idea.change[:40], idea, expand=True)
        elif idea.mark == "dropped":
            self._ideas.pop(place).remove()
        else:
            self._ideas[place].refresh()

    def on_focus(self, event: Focus) -> None:
        super().on_focus(event)
        self._light(True)

    def on_blur(self, event: Blur) -> None:
        super().on_blur(event)
        self._light(in_dialog(self.screen.focused))

    def _light(self, lit: bool) -> None:
        if lit != self._lit:
            self._lit = lit
            for key in [key for key in self._line_cache.keys() if key[0] == self.cursor_line]:  # noqa: SIM118
                self._line_cache.discard(key)
            self.refresh_line(self.cursor_line)

    def on_resize(self, event: Resize) -> None:
        """Lines that were drawn know their width; to lay the tree out again is needless."""
        event.prevent_default()
        self._line_cache.grow(event.size.height)

    def watch_cursor_line(self, previous_line: int, line: int) -> None:
        super().watch_cursor_line(previous_line, line)
        if self.is_mounted:
            self._on_choice()

    @property
    def chosen(self) -> str | None:
        """The attempt under the cursor, or that a hypothesis under it starts from."""
        data = None if self.cursor_node is None else self.cursor_node.data
        if isinstance(data, Tried):
            return data.id
        return None if self.idea is None else self.idea.parent

    @property
    def idea(self) -> Idea | None:
        """The hypothesis under the cursor, of which no attempt came yet."""
        data = None if self.cursor_node is None else self.cursor_node.data
        return data.idea if isinstance(data, Said) else data if isinstance(data, Idea) else None

    def choose(self, attempt: str | None) -> None:
        """Put the cursor there."""
        node = self._attempts.get(attempt or "")
        if node is not None:
            self.move_cursor(node)

    def get_label_width(self, node: TreeNode[Leaf]) -> int:  # noqa: ARG002
        """A bound for all of them: to draw each for its width would cost more than all else."""
        return WIDEST

    def render_label(self, node: TreeNode[Leaf], base_style: Style, style: Style) -> Text:
        data, story = node.data, self._story
        group = node in self._groups.values()
        if isinstance(data, Said):
            text = data.text.copy()
        elif story is None or data is None:
            nothing = "" if story is None or story.is_behind else "nothing was tried yet"
            text = Text("from nothing") if group else Text(nothing, style="dim")
        elif isinstance(data, Idea):
            text = idea_row(data)
        elif group:
            text = parent_row(data, story)
        elif self._room < NARROW:
            text = brief_row(data, story)
        else:
            text = attempt_row(data, story)
        text = harmless(text)
        if node is self.cursor_node:
            text.stylize(self.get_component_rich_style("plan--cursor") if self._lit else style)
        else:
            text.stylize(base_style)
        return text
