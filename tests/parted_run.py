"""A run whose coder is asked at one server and all others at another; and a process of its own that is killed once it
told an event."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agents.control import Control
from agents.drive import optimize
from agents.events import Event, OnEvent
from agents.models.connections import BUILT_IN, Connections
from agents.outcome import Outcome
from agents.settings import Budgets, Models, RunSettings
from memory.runs import RunFolder
from tests.killed_run import seconds_of
from tests.llm_server import KEY
from tests.stub_executor import TASK, StubExecutor
from tests.talking_run import CATALOGUE

NEW = "anthropic:m"
"""Plays all roles but the coder, and the coder once it was swapped."""


def settings_for(old: str, **more: Any) -> RunSettings:
    """One iteration in which `old` codes first."""
    budgets = Budgets(iterations=1, near_limit=None, patience=None)
    return RunSettings(budgets=budgets, models=Models(planner=NEW, coder=old, analyst=NEW), **more)


async def talk(
    run: RunFolder, old_url: str, new_url: str, settings: RunSettings, on_event: OnEvent, **more: Any
) -> Outcome:
    """old_url: of `openai:` and `openai-chat:`. new_url: of `anthropic:`. more: as of `optimize`."""
    urls = {"openai": f"{old_url}/v1", "openai-chat": f"{old_url}/v1", "anthropic": new_url}
    common = {"key": SecretStr(KEY), "timeout": 3600.0}
    connections = Connections(
        providers={name: BUILT_IN[name].model_copy(update={"base_url": to, **common}) for name, to in urls.items()}
    )
    executor = more.pop("executor", None) or StubExecutor(seconds_of)
    more = {"connections": connections, "catalogue": CATALOGUE, "control": Control()} | more
    return await optimize(TASK, settings, run, executor, on_event, **more)


def main(folder: str, old_url: str, new_url: str, kind: str) -> None:
    run = RunFolder(Path(folder))

    def tell(event: Event) -> None:
        if event.event == kind:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = RunSettings.model_validate(run.config()["settings"])
    asyncio.run(talk(run, old_url, new_url, settings, tell))


if __name__ == "__main__":
    main(*sys.argv[1:])
