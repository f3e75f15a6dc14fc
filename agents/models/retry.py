"""The one layer that asks a model again: only after what may pass, as long as a run's patience lasts.

The SDKs' own retries are off. A provider's Retry-After is obeyed up to a cap; otherwise the wait is random and its
upper end doubles. A person who stops the run ends the wait at once, and one who chooses other models the call.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agents.models.base import ChatModel, ModelError, ModelUnavailable, OnText, Reply, Request
from agents.models.parting import Parted, Parting

RETRY_AFTER_CAP = 120.0
"""Seconds. A provider that asks for more is asked again after this all the same."""
SHORTEST_ASKED = 1.0
"""Seconds. A Retry-After below is as good as none: some servers send 0 or a date in the past for as long as they are
out of order, and would be asked without end."""
FIRST_WAIT, LONGEST_WAIT = 2.0, 60.0
"""Seconds: upper ends of the first wait and of any."""
JITTER = 1.0
"""Seconds that a wait is longer at random, so that coders in parallel do not come back together."""


class Stopping:
    """A person's wish to stop, as something that can be waited for, and the clock by which a run waits. Belongs to one
    event loop once waited for."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def now(self) -> float:
        """Seconds since any moment; setting the machine's clock changes nothing."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Returns after so many seconds, or at once when the run is to stop."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return


@dataclass(frozen=True)
class Patience:
    """How long one call may be waited for, and by which clock."""

    seconds: float
    stopping: Stopping = field(default_factory=Stopping)
    sleep: Callable[[float], Awaitable[None]] | None = None
    """None: `stopping.sleep`."""
    clock: Callable[[], float] | None = None
    """None: `stopping.now`."""
    random: Callable[[], float] = random.random
    """From 0 to 1."""
    parting: Parting = field(default_factory=Parting)
    """Others are to be asked instead."""


@dataclass(frozen=True)
class Tried:
    """One attempt at a call. `outcome` is the reply, or why there is none; `wait`: seconds until the next attempt, None
    when there is none."""

    attempt: int
    outcome: Reply | ModelError
    seconds: float
    wait: float | None = None


async def persist(
    model: ChatModel,
    request: Request,
    on_text: OnText | None,
    patience: Patience,
    tell: Callable[[Tried], None],
) -> Reply:
    """The model's reply, asked for again while what fails may pass. `tell` hears of each attempt before the next.

    Raises the last ModelError once patience is at its end; Parted, which is one, when the call was let go of;
    ModelUnavailable when the run is to stop, or the call was let go of, while nobody is asked.
    """
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

    now = patience.clock or patience.stopping.now
    began = now()

    def wait(state: RetryCallState) -> float:
        return wait_after(_failure(state), state.attempt_number, patience.random())

    def give_up(state: RetryCallState) -> bool:
        late = now() - began + state.upcoming_sleep > patience.seconds
        return late or patience.stopping.is_set or patience.parting.is_set

    async def pause(seconds: float) -> None:
        try:
            await patience.parting.over(lambda: (patience.sleep or patience.stopping.sleep)(seconds))
        except Parted as error:
            raise ModelUnavailable(f"{error.message} while waiting for {model.name}") from None
        if patience.stopping.is_set:
            raise ModelUnavailable(f"stopped while waiting for {model.name}")

    def before_sleep(state: RetryCallState) -> None:
        took = now() - starts[-1]
        tell(Tried(state.attempt_number, _failure(state), took, state.upcoming_sleep))

    starts: list[float] = []
    retrying = AsyncRetrying(
        sleep=pause,
        stop=give_up,
        wait=wait,
        retry=retry_if_exception(_may_pass),
        before_sleep=before_sleep,
        reraise=True,
    )

    async def ask() -> Reply:
        starts.append(now())
        return await patience.parting.over(lambda: model.reply(request, on_text))

    try:
        reply: Reply = await retrying(ask)
    except ModelError as error:
        tell(Tried(len(starts), error, now() - starts[-1]))
        raise
    tell(Tried(len(starts), reply, now() - starts[-1]))
    return reply


def wait_after(error: ModelError, attempt: int, chance: float) -> float:
    """Seconds to wait after the attempt of that number (from 1) failed. chance: from 0 to 1."""
    if error.retry_after is not None and error.retry_after >= SHORTEST_ASKED:
        return min(error.retry_after, RETRY_AFTER_CAP) + JITTER * chance
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 10)) * (0.5 + 0.5 * chance)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, ModelError) and error.fault == "transient" and not isinstance(error, Parted)


def _failure(state: object) -> ModelError:
    from tenacity import RetryCallState

    assert isinstance(state, RetryCallState) and state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, ModelError)
    return error
