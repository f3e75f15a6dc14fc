"""A whole run that talks to a server over HTTP: the brain behind the server, and a process that is killed in a call.

The brain plays all three roles out of what it is told, whatever the wire.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agents.control import Control
from agents.drive import optimize
from agents.events import Event, OnEvent
from agents.models.catalogue import Catalogue, Price
from agents.models.connections import BUILT_IN, Connections
from agents.models.retry import Stopping
from agents.outcome import Outcome
from agents.settings import Budgets, Models, RunSettings
from memory.runs import RunFolder
from tests.killed_run import seconds_of
from tests.llm_heard import check, heard
from tests.llm_server import KEY, Answer, Call, Recorded, Tokens
from tests.stub_executor import TASK, StubExecutor

SPECS = {"responses": "openai:m", "chat": "openai-chat:m", "messages": "anthropic:m"}
PRICE = Price(input=1.0, cached=0.25, cache_write=2.0, output=8.0, date="2026-11-30")
CATALOGUE = Catalogue.with_prices(dict.fromkeys(SPECS.values(), PRICE))


class Brain:
    """Answers a request as a diligent model would. `tokens`: what it reports, another amount each time."""

    def __init__(self, hypotheses: int = 1) -> None:
        self.hypotheses = hypotheses
        self._serial = itertools.count(1)

    def __call__(self, request: Recorded) -> Answer:
        check(request.wire, request.body)
        answer = self.answer(request)
        n = next(self._serial)
        tokens = Tokens(input=1000 + n, output=20 + n, cached=64 * (n % 3), cache_write=0, reasoning=n % 5)
        return Answer(answer.text, answer.calls, reasoning="let me see", tokens=tokens)

    def answer(self, request: Recorded) -> Answer:
        told = heard(request.wire, request.body)
        asked = "\n".join(each.text for each in told if each.kind == "user")
        if any("You are the planner" in each.text for each in told if each.kind == "system"):
            return self._plan(asked)
        if any("You are the analyst" in each.text for each in told if each.kind == "system"):
            return _read(asked)
        if any(each.kind == "result" for each in told):
            return Answer("Done.")
        change = re.findall(r"^Change: BLOCK=(\d+)$", asked, re.MULTILINE)[-1]
        candidate = {"defines": {"BLOCK": int(change)}}
        return Answer(calls=(Call("run", {"mode": "full", "candidates": [candidate]}),))

    def _plan(self, asked: str) -> Answer:
        iteration = int(re.findall(r"Iteration (\d+) of at most", asked)[-1])
        blocks = [10 * iteration + slot for slot in range(self.hypotheses)]
        made = [
            {"idea": "fewer trips", "change": f"BLOCK={b}", "metric": "seconds", "expected": "-5 %", "parent": "a0"}
            for b in blocks
        ]
        return Answer(calls=(Call("propose", {"hypotheses": made}),))


def _read(asked: str) -> Answer:
    judged = re.findall(r"Iteration \d+ judged (.+)\.", asked)[-1].split(", ")
    read = [
        {"attempt": a, "bottleneck": "memory", "evidence": ["90 %"], "summary": "Streams.", "hypothesis_held": True}
        for a in judged
    ]
    return Answer(calls=(Call("diagnose", {"diagnoses": read}),))


class Hasty(Stopping):
    """Waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def connections_to(url: str, key: str = KEY, **changes: Any) -> Connections:
    """All providers, at one server."""
    common = {"key": SecretStr(key), "timeout": 5.0, **changes}
    urls = {"openai": f"{url}/v1", "openai-chat": f"{url}/v1", "anthropic": url}
    return Connections(
        providers={name: BUILT_IN[name].model_copy(update={"base_url": to, **common}) for name, to in urls.items()}
    )


def settings_for(spec: str, iterations: int = 2, parallel: int = 1, **more: Any) -> RunSettings:
    budgets = more.pop("budgets", {})
    fallback = more.pop("fallback", ())
    return RunSettings(
        budgets=Budgets(iterations=iterations, near_limit=None, patience=None, **budgets),
        models=Models.choose(spec, fallback=fallback),
        parallel=parallel,
        **more,
    )


async def talk(
    run: RunFolder, url: str, settings: RunSettings, on_event: OnEvent, control: Control | None = None, **changes: Any
) -> Outcome:
    """Drive `run`; waits between attempts are skipped."""
    if control is None:
        control = Control()
        control.stopping = Hasty()
    executor = StubExecutor(seconds_of)
    where = connections_to(url, **changes)
    return await optimize(
        TASK, settings, run, executor, on_event, control=control, connections=where, catalogue=CATALOGUE
    )


def main(folder: str, url: str, spec: str, kind: str, fatal: str) -> None:
    """Tells all events on stdout, and dies once the event of that kind came `fatal` times: it is written down by then,
    but nothing of it is in the checkpoint."""
    left = int(fatal)

    def tell(event: Event) -> None:
        nonlocal left
        print(json.dumps(event.model_dump(mode="json")), flush=True)
        left -= event.event == kind
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(talk(RunFolder(Path(folder)), url, settings_for(spec), tell))


if __name__ == "__main__":
    main(*sys.argv[1:])
