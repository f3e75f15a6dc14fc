"""`warpsmith env`: serves one task's judge to a trainer, over standard input or HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from agents.environment import Environment, Limits
from agents.environment_protocol import VERSION
from agents.rewards import Scale
from app.exits import DONE
from app.inputs import task_at
from app.training_http import serve_http
from app.training_lines import serve_lines
from tools.errors import TaskError, WarpsmithError
from tools.executor import executor_for
from tools.records import Language
from tools.task import TaskSource

TOKEN_VARIABLE = "WARPSMITH_ENV_TOKEN"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Serving:
    """What was asked for on the command line."""

    task: Path
    settings: tuple[str, ...]
    target: str | None
    executor: str
    limits: Limits
    scale: Scale
    host: str
    port: int | None
    """None: standard input and output."""


def serve(serving: Serving) -> int:
    """Serve until the input ends or a signal comes. Raises TaskError, KernelError, InfrastructureError, WarpsmithError
    (a bad token, a port that is taken)."""
    task = task_at(serving.task, serving.settings)
    return asyncio.run(_serve(task, serving))


async def _serve(task: TaskSource, serving: Serving) -> int:
    token, is_new = token_for_requests()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    async with executor_for(serving.executor) as executor:
        environment = Environment(task, _language(task, serving.target), executor, serving.limits, serving.scale)
        if not await _unless(stopped, environment.ready):
            return DONE
        if serving.port is None:
            _announce({"transport": "lines"})
            await serve_lines(environment, sys.stdin.buffer, sys.stdout.buffer, stopped)
        else:
            async with serve_http(environment, serving.host, serving.port, token) as url:
                _announce({"transport": "http", "url": url, **({"token": token} if is_new else {})})
                await stopped.wait()
    return DONE


async def _unless(stopped: asyncio.Event, work: Callable[[], Awaitable[object]]) -> bool:
    """Do `work`, unless the wait is cut short; whether it was done."""
    doing = asyncio.ensure_future(work())
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if doing.done():
        await doing
        return True
    doing.cancel()
    await asyncio.gather(doing, return_exceptions=True)
    return False


def _announce(about: dict[str, str]) -> None:
    """The first line on standard output: the environment is ready."""
    print(json.dumps({"v": VERSION, "ready": about}), flush=True)


def _language(task: TaskSource, target: str | None) -> Language:
    if target is None:
        return "cuda" if "cuda" in task.start and "cpp" not in task.start else "cpp"
    if target not in ("cpu", "cuda"):
        raise TaskError("not_a_task", f"there is no target {target}", "There are: cpu, cuda.")
    return "cuda" if target == "cuda" else "cpp"


def token_for_requests() -> tuple[str, bool]:
    """The token that requests must bear, and whether it was made just now. Raises WarpsmithError."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return secrets.token_urlsafe(32), True
    if len(given) < 16 or not given.isascii() or not given.isprintable() or " " in given:
        raise WarpsmithError(
            f"{TOKEN_VARIABLE} is no good token", "Give 16 characters or more without blanks, or leave it away."
        )
    return given, False
