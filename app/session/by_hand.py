"""Kernels and plans that a person edits: opened in the editor, given to the run, and kept until the run has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from textual.app import SuspendNotSupported

from agents import steering_actions as acts
from agents.steering_actions import Action, Command
from app.session.archive import Archive
from app.session.asking import Asking, asks
from app.session.drafts import Draft, Drafts
from app.session.lines import clean
from app.session.story import Story
from app.steer_words import plan_of
from memory.runs import RunFolder
from tools.errors import WarpsmithError
from tools.records import ENTRY_FILE

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

T = TypeVar("T")
_PLAN: Final = "plan.json"
_LONG: Final = 12.0
"""Seconds that a note is shown which says where a person's words are."""


class ByHand(Asking):
    """A screen about one run."""

    def __init__(self, run: RunFolder) -> None:
        super().__init__()
        self.run = run
        self.story = Story()
        self.archive = Archive(run.path)
        self.drafts = Drafts()

    def give(self, action: Action) -> Command | None:
        """Hand an action to the run; None when that failed, which was told."""
        raise NotImplementedError

    @property
    def chosen(self) -> str | None:
        """The attempt that keys are about."""
        raise NotImplementedError

    @asks
    async def action_edit(self) -> None:
        """A kernel's own flags and settings are not sent along: the run takes those of its parent that its text does
        not change, as for `warpsmith steer RUN edit`."""
        filed = self.archive.find(self.chosen)
        if filed is None:
            self.notify("there is no kernel to edit yet")
            return
        name, facts, kernel = filed.attempt.id, self.archive.facts, filed.kernel
        beside = {} if facts is None else {"task.h": facts.header}
        draft = await self._draft(name, "e", kernel.files, ENTRY_FILE[kernel.language], beside)
        files = None if draft is None else self._edited(draft)
        if draft is None or files is None:
            return
        note = await self.write.ask(f"{name} is changed. What is it about?")
        if note is None:
            self._keep(draft, "It was not given to the run", "warning")
        else:
            self._hand_in(draft, acts.EditKernel(parent=name, files=files, note=note.strip()[:1_000]))

    @asks
    async def action_edit_plan(self) -> None:
        if not self.story.waiting:
            self.notify("no plan waits; A switches approval on")
            return
        text = json.dumps(self.story.waiting, indent=2, ensure_ascii=False)
        draft = await self._draft("the plan that waits", "E", {_PLAN: text}, _PLAN, {})
        files = None if draft is None else self._edited(draft)
        if draft is None or files is None:
            return
        try:
            self._hand_in(draft, plan_of(files[_PLAN]))
        except WarpsmithError as error:
            self._keep(draft, error.message)

    async def _draft(
        self, about: str, key: str, before: Mapping[str, str], entry: str, beside: Mapping[str, str]
    ) -> Draft | None:
        """What is to be opened: what was written of it before, if the person wants that; None when they leave it."""
        found = self.drafts.find(about, before)
        if found is not None:
            rows = [("go on", "with what you wrote before", ""), ("start over", "what you wrote is gone then", "")]
            place = await self.choose.ask(f"What you wrote of {about} was not given to the run", rows)
            if place != 1:
                return found if place == 0 else None
            self.drafts.drop(found)
        try:
            return self.drafts.begin(about, key, before, entry, beside)
        except OSError as error:
            why = f"the editor's files can't be written: {error.strerror or error}. Set TMPDIR to a folder with room."
            self.notify(clean(why), severity="error", markup=False, timeout=_LONG)
            return None

    def _edited(self, draft: Draft) -> dict[str, str] | None:
        """What the editor left, with the terminal to itself; None when there is nothing to be given, which is told."""
        try:
            files = self._in_terminal(draft.edit)
        except WarpsmithError as error:
            self._keep(draft, error.message, advice=error.advice)
            return None
        if files is None:
            self.drafts.drop(draft)
            self.notify("nothing was changed")
        return files

    def _in_terminal(self, edit: Callable[[], T]) -> T:
        """What is done with the terminal to itself, where there is one. The screen comes back whatever that raises:
        the library itself takes it back only where nothing was raised."""
        if self.app.is_headless:
            return edit()
        failed: BaseException | None = None
        try:
            with self.app.suspend():
                try:
                    done = edit()
                except BaseException as error:  # noqa: BLE001, raised once the screen is there again
                    failed = error
        except SuspendNotSupported as error:
            raise WarpsmithError("this terminal can't be lent to an editor", "Use :edit PATH instead.") from error
        if failed is not None:
            raise failed
        return done

    def _hand_in(self, draft: Draft, action: Action) -> None:
        command = self.give(action)
        if command is None:
            self._keep(draft, "It was not given to the run")
        else:
            draft.command = command.id

    def tell_of_draft(self, command: str, took_it: bool) -> str:
        """The run answered a command: what that means for what the person wrote, to be told with the answer."""
        draft = self.drafts.answered(command, took_it)
        return "" if draft is None else _kept(draft)

    def _keep(self, draft: Draft, why: str, severity: SeverityLevel = "error", advice: str = "") -> None:
        """Say why a draft was not given, and that it is there."""
        if draft.is_changed:
            told = _kept(draft)
        else:
            self.drafts.drop(draft)
            told = f"Nothing was taken over. {advice}".strip()
        self.notify(clean(f"{why}. {told}"), severity=severity, markup=False, timeout=_LONG)


def _kept(draft: Draft) -> str:
    return f"What you wrote is kept: {draft.key} on {draft.about} goes on with it, or starts over."
