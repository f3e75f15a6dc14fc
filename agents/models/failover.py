"""The models that may play a role: when one can't, the next goes on with the same history.

A refusal, a request that is not accepted and replies that can't be used say something about this turn; so the next
turn begins with the preferred model again. An outage, an exhausted account and a wrong key say something about the
model, which then rests for a while, for all turns of all roles. Where nobody answers at an address, all models that are
asked there rest: a dead server is found out once.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agents.models.base import ChatModel, Dialect, ModelFault, ModelUnavailable
from agents.models.dialect import LADDER
from agents.models.parting import CHOSEN, Parting

Why: TypeAlias = ModelFault | Literal["format", "user"]
"""Why another model speaks: a fault, replies that could not be used, or a person's wish."""

RESTS: dict[Why, float] = {"transient": 300.0, "quota": 1800.0, "auth": float("inf")}
"""Seconds that a model is left alone by all turns; the other reasons hold for one turn only."""
SMALLER = 0.6
"""A window whose size nobody tells is taken to be this part of what did not fit, prompt and reply together."""
REFITS = 4
"""Times in a row that a prompt is made smaller for a model; the window is then an eighth of what was taken for it."""
MARGIN = 0.95
"""Of a window that is known: what is not counted, as the frame of each message, takes the rest."""
_LIMITS = (
    r"> (\d+)(?: maximum|,|$)",
    r"context (?:size|window|length|limit)\D{0,40}?(\d{3,})",
    r"n_ctx\W+(\d+)",
)
"""How OpenAI, Anthropic, vLLM and llama.cpp name the window in their errors, commas taken out."""
_PROMPTS = (
    r"(\d+) in the messages",
    r"(?:resulted in|prompt is too long:|context limit:) (\d+)",
    r"request \((\d+) tokens\)",
    r"n_prompt_tokens\W+(\d+)",
)
"""How they name what they counted of the prompt."""


@dataclass
class Candidate:
    """A model in a lineup. `window` is smaller than the model's own once a prompt did not fit."""

    model: ChatModel
    output: int | None = None
    """The most tokens of one reply, where known."""
    learnt: int | None = None
    endpoint: str = ""
    """Where it is asked, which it may share with other models; empty: nowhere but here."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def window(self) -> int:
        """Tokens of prompt and reply together, in our way of counting."""
        return min(self.model.window, self.learnt or self.model.window)


@dataclass(frozen=True)
class _Rest:
    until: float
    why: Why
    message: str


class Rests:
    """Which models are left alone for a while, and why. Shared by all roles of a run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._models: dict[str, _Rest] = {}
        self._endpoints: dict[str, _Rest] = {}

    def begin(self, candidate: Candidate, why: Why, message: str = "", unreachable: bool = False) -> None:
        """Leave a model alone, where the reason is the model's own; unreachable: all models at its address."""
        if why not in RESTS:
            return
        rest = _Rest(self._clock() + RESTS[why], why, message)
        if unreachable and candidate.endpoint:
            self._endpoints[candidate.endpoint] = rest
        else:
            self._models[candidate.name] = rest

    def end(self, candidate: Candidate) -> None:
        """A person wants it to be asked."""
        self._models.pop(candidate.name, None)
        self._endpoints.pop(candidate.endpoint, None)

    def of(self, candidate: Candidate) -> tuple[Why, str] | None:
        """Why it is left alone now: the reason and what it said; None when it isn't."""
        found = (self._models.get(candidate.name), self._endpoints.get(candidate.endpoint))
        now = self._clock()
        return next(((rest.why, rest.message) for rest in found if rest is not None and rest.until > now), None)


class Lineup:
    """All models of one role, preferred first. Shared by the role's turns; `rests` by all roles.

    `parting` is set once a person chose others: nobody in it is asked then.
    """

    def __init__(self, candidates: Sequence[Candidate], rests: Rests | None = None) -> None:
        self.candidates = list(candidates)
        self.rests = rests or Rests()
        self.parting = Parting()

    @property
    def name(self) -> str:
        """Of the model that the next turn begins with."""
        return self.ready()[0].name

    @property
    def window(self) -> int:
        """Of the model that the next turn begins with."""
        return self.ready()[0].window

    def ready(self) -> list[Candidate]:
        """Those that do not rest; all of them when none is ready."""
        return [c for c in self.candidates if self.rests.of(c) is None] or self.candidates

    def resting(self, name: str) -> tuple[Why, str] | None:
        """Why the model of that name is left alone now; None when it isn't."""
        return next((self.rests.of(c) for c in self.candidates if c.name == name), None)

    async def aclose(self) -> None:
        for candidate in self.candidates:
            await candidate.model.aclose()


@dataclass(frozen=True)
class Change:
    """Another model speaks than before."""

    before: str
    after: str
    why: Why
    message: str


@dataclass
class Voice:
    """Who speaks for a role in one turn. What it knows follows from what came of the turn's calls, so that a resumed
    turn knows the same."""

    lineup: Lineup
    speaking: str | None = None
    """The model that was asked last."""
    dialect: Dialect = "native"
    """How tools were spoken of in its reply."""
    _gone: dict[str, str] = field(default_factory=dict)
    """What is left out in this turn: model to reason."""
    _why: tuple[Why, str] = ("user", CHOSEN)
    _dialects: dict[str, Dialect] = field(default_factory=dict)
    _refits: Counter[str] = field(default_factory=Counter)
    """Of each model since it last replied."""

    def recast(self, lineup: Lineup) -> None:
        """From now on the role's models are these."""
        if lineup is not self.lineup:
            self.lineup, self._gone, self._why = lineup, {}, ("user", CHOSEN)

    def left(self) -> list[Candidate]:
        """Who may be asked, the next one first."""
        return [c for c in self.lineup.ready() if c.name not in self._gone]

    def change_to(self, candidate: Candidate) -> Change | None:
        """What there is to tell when that model is asked next. A turn beside this one may have found out why."""
        if self.speaking is None or self.speaking == candidate.name:
            return None
        beside = None if self.speaking in self._gone else self.lineup.resting(self.speaking)
        return Change(self.speaking, candidate.name, *(beside or self._why))

    def dialect_of(self, candidate: Candidate) -> Dialect | None:
        """How it is to speak of tools; None: as it does."""
        return self._dialects.get(candidate.name)

    def heard(self, model: str, dialect: Dialect) -> None:
        """That model replied."""
        self.speaking, self.dialect = model, dialect
        del self._refits[model]

    def may_refit(self, model: str) -> bool:
        """Whether the prompt may be made smaller for that model once more before it replies."""
        return self._refits[model] < REFITS

    def refit(self, model: str, window: int) -> None:
        """A prompt did not fit that model's window, which is taken to be so large from now on."""
        self.speaking = model
        self._refits[model] += 1
        for candidate in self.lineup.candidates:
            if candidate.name == model:
                candidate.learnt = min(candidate.window, window)

    def drop(self, model: str, why: Why, message: str) -> None:
        """Leave that model out for the rest of the turn; not where a person chose others, it may be among them."""
        self.speaking, self._why = model, (why, message)
        if why != "user":
            self._gone[model] = f"{why}: {message}"

    def adapt(self, message: str, may_switch: bool = True) -> bool:
        """After replies that can't be used: another way of calling tools, where that may help, else another model.
        False: nothing is left to try."""
        left = self.left()
        if not left or left[0].name != self.speaking:
            return True  # a resumed turn, with other models than the one that spoke
        rung = LADDER.index(self.dialect) + 1
        offered = left[0].model.dialects if may_switch else ()
        following = next((d for d in LADDER[rung:] if d in offered), None)
        if following is not None:
            self._dialects[left[0].name] = following
            return True
        if len(left) > 1:
            self.drop(left[0].name, "format", message)
        return len(left) > 1

    def unavailable(self, model: str = "", why: str = "") -> ModelUnavailable:
        """No model is left: why not, one by one; `model` and `why` are the last one's."""
        gone = self._gone | ({model: why} if model else {})
        reasons = "; ".join(f"{name} ({reason})" for name, reason in gone.items())
        return ModelUnavailable(
            f"no model is left to ask: {reasons}", "Resume the run later, or with another model; nothing is lost."
        )


def learnt_window(message: str, prompt_tokens: int, reply_tokens: int) -> int:
    """The size of a window, in our way of counting, from the error that a prompt which we count as `prompt_tokens` met.

    Providers name the window and often what they counted: how far that is from our count then goes into it.
    """
    text = message.replace(",", "")
    limit, sent = _first(_LIMITS, text), _first(_PROMPTS, text)
    if limit is None or (sent is None and prompt_tokens + reply_tokens <= limit):
        return int((prompt_tokens + reply_tokens) * SMALLER)
    undercount = max(1.0, sent / prompt_tokens) if sent is not None and prompt_tokens else 1.0
    if limit <= reply_tokens:  # the reply shrinks with the window
        return int(limit / undercount * MARGIN)
    fitting = int((limit - reply_tokens) / undercount * MARGIN)
    return min(fitting, int(prompt_tokens * MARGIN)) + reply_tokens


def _first(patterns: Sequence[str], text: str) -> int | None:
    return next((int(found[1]) for pattern in patterns if (found := re.search(pattern, text, re.IGNORECASE))), None)
