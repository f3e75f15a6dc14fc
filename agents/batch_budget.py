"""One budget for the tasks of a batch that have a turn at the same time.

The batch's process holds the pool. Before each model call a task's process asks it, with the most that the call may
cost; the call is let go only while

    spent + what all calls in flight may cost at most  <  limit

which is the rule of a single run (`agents.models.money`) with all tasks' calls in the sum. So a limit of money or
tokens is overshot by less than one call, however many jobs there are. Device time is looked at in the same moment: what
a task does on the device between two of its calls is taken to last as long as the longest such stretch that was seen,
so that near the limit tasks wait for each other, and only a stretch longer than all before it overshoots by more.

What a process held when it died counts as spent, since its provider may have charged it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agents.batch import SharedBudget
from agents.limits import StopReason


@dataclass
class Account:
    """What one task has spent, and holds."""

    dollars: float = 0.0
    tokens: int = 0
    device: float = 0.0
    """Seconds, over all of its turns."""
    held: dict[int, tuple[float, int]] = field(default_factory=dict)
    """Calls in flight by number: the most that each may cost, in dollars and tokens."""
    acting: bool = False
    """A call was let go and none asked for since: it may use the device now."""
    lost_dollars: float = 0.0
    """Held when its process died, and counted as spent; `lost_tokens` too."""
    lost_tokens: int = 0


class Pool:
    """The batch's money, tokens and device time, in one event loop."""

    def __init__(self, limits: SharedBudget, accounts: dict[str, Account]) -> None:
        """accounts: what each task had spent before."""
        self._limits = limits
        self.accounts = accounts
        self._longest = 0.0
        self._changed = asyncio.Event()

    @property
    def spent(self) -> tuple[float, int, float]:
        """Dollars, tokens and device seconds, what was lost included."""
        all_of = self.accounts.values()
        return (
            sum(account.dollars + account.lost_dollars for account in all_of),
            sum(account.tokens + account.lost_tokens for account in all_of),
            sum(account.device for account in all_of),
        )

    @property
    def over(self) -> StopReason | None:
        """The limit that is reached, if one is."""
        return self._short(0.0, 0, 0.0)

    async def take(self, key: str, number: int, dollars: float, tokens: int) -> StopReason | None:
        """Hold back what call `number` of a task may cost at most; waits while only others stand in its way.

        Returns None once the call may be made, else the limit that is reached.
        """
        account = self.accounts[key]
        account.acting = False
        self._wake()
        while self._stands_in_the_way(key):
            if (reached := self.over) is not None:
                return reached
            self._changed.clear()
            await self._changed.wait()
        account.held[number] = (dollars, tokens)
        account.acting = True
        return None

    def settle(self, key: str, number: int, dollars: float, tokens: int) -> None:
        """Call `number` is over and did cost so much."""
        account = self.accounts[key]
        account.held.pop(number, None)
        account.dollars += dollars
        account.tokens += tokens
        self._wake()

    def used_device(self, key: str, seconds: float) -> None:
        """The task has used the device for so long by now, over all of its turns."""
        account = self.accounts[key]
        self._longest = max(self._longest, seconds - account.device)
        account.device = max(account.device, seconds)

    def leave(self, key: str) -> None:
        """The task's turn is over or its process is gone: what it still held is lost."""
        account = self.accounts[key]
        for dollars, tokens in account.held.values():
            account.lost_dollars += dollars
            account.lost_tokens += tokens
        account.held.clear()
        account.acting = False
        self._wake()

    def _stands_in_the_way(self, key: str) -> StopReason | None:
        held = [held for account in self.accounts.values() for held in account.held.values()]
        others = sum(account.acting for other, account in self.accounts.items() if other != key)
        return self._short(sum(h[0] for h in held), sum(h[1] for h in held), others * self._longest)

    def _short(self, dollars: float, tokens: int, device: float) -> StopReason | None:
        spent = self.spent
        bounds: dict[StopReason, tuple[float, float | None]] = {
            "money": (spent[0] + dollars, self._limits.dollars),
            "tokens": (spent[1] + tokens, self._limits.tokens),
            "device_time": (spent[2] + device, self._limits.device_time),
        }
        return next((reason for reason, (sum_, limit) in bounds.items() if limit is not None and sum_ >= limit), None)

    def _wake(self) -> None:
        self._changed.set()
