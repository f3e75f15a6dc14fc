"""A person's hand on a run that goes on: stop it, or have another model play a role."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from langgraph.runtime import RunControl

from agents.limits import StopReason
from agents.models.retry import Stopping
from agents.settings import Role
from tools.errors import WarpsmithError

Recast: TypeAlias = Callable[[Role, Sequence[str], str | None], None]
"""Has models play a role, the first one at that address."""


class Control:
    """A person's hand on a running `optimize`. `stop` may be called from a signal handler of the event loop."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.message: str | None = None
        """More of why a person ended the run, in words."""
        self.steps = RunControl()
        self.stopping = Stopping()
        self.at_work = False
        """Whether the run has steps to finish: not before its task was opened."""
        self._cut: Callable[[], object] | None = None
        self._recast: Recast | None = None

    def stop(self, reason: StopReason = "user", grace: float = 2.0) -> None:
        """Ends the run at the next step, or `grace` seconds later in the middle of one; a second call cuts at once."""
        again, self.reason = self.reason is not None, self.reason or reason
        self.steps.request_drain(reason)
        self.stopping.set()
        if self._cut is not None:
            asyncio.get_running_loop().call_later(0 if again else grace, self._cut)

    def finish(self, reason: StopReason = "user") -> None:
        """Ends the run once the calls of models and tools that go on are finished, however long they take; `stop` with
        no grace then cuts at once. What is not a step yet is cut at once."""
        if not self.at_work:
            self.stop(reason, grace=0.0)
            return
        self.drain(reason)
        self.stopping.set()

    def drain(self, reason: StopReason = "user") -> None:
        """Ends the run when the step that goes on is finished, however long that takes; `stop` then cuts at once."""
        self.reason = self.reason or reason
        self.steps.request_drain(reason)

    def renew(self) -> None:
        """For another run in the same process, after one that ended."""
        self.reason, self.message, self.steps, self.stopping = None, None, RunControl(), Stopping()

    def use(self, role: Role, spec: str, *fallback: str, address: str | None = None) -> None:
        """From its next call on another model plays `role`; it gets the whole history. The settings stay as they are:
        a resumed run begins with what it is given. address: of the model's server, where nothing else says it.

        Raises UnknownModel, ModelError (its key is missing), and WarpsmithError while no run goes on.
        """
        if self._recast is None:
            raise WarpsmithError("no run is going on", "Name the model when you start or resume one.")
        self._recast(role, (spec, *fallback), address)

    def holds(self, work: asyncio.Task[object], recast: Recast) -> None:
        """From now on `stop` and `use` are about `work`."""
        self._cut, self._recast = work.cancel, recast
        if self.reason is not None:
            work.cancel()
