"""`warpsmith serve`: opens the port, prints the address with its token, and serves until Ctrl-C."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from app.exits import DONE
from app.interrupts import raise_on_ctrl_c
from app.serve.catalog import Catalog
from app.serve.site import Site, build
from memory.lesson_store import LessonStore, default_path
from tools.errors import WarpsmithError

TOKEN_VARIABLE: Final = "WARPSMITH_SERVE_TOKEN"
"""Keeps the address the same from one start to the next; made anew for each start without it."""
LEAST_TOKEN: Final = 16
"""Characters of a token of one's own."""


def serve(
    runs: Path, host: str, port: int, *, names: Sequence[str] = (), lessons: Path | None = None, as_json: bool = False
) -> int:
    """Serve the runs under `runs` on `host`:`port` (0: a free one) until a signal ends it. Further host `names` are
    taken for ours. Raises WarpsmithError when the port can't be had, or the token of the environment is too short."""
    token = _token()
    listener = listen(host, port)
    address, bound = listener.getsockname()[:2]
    site = Site(Catalog(runs), LessonStore(lessons or default_path()))
    server = server_of(build(site, token, names, bound))
    _announce(f"http://{_written(address)}:{bound}/?token={token}", runs, address, as_json)
    raise_on_ctrl_c()
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    return DONE


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server that says nothing and, once it is to end, waits for no stream that is open."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            limit_concurrency=256,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=0,
        )
    )


def _announce(url: str, runs: Path, address: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"url": url, "runs": str(runs)}), flush=True)
        return
    print(f"{url}\nshows the runs under {runs}; Ctrl-C ends it, the runs go on", flush=True)
    if not ipaddress.ip_address(address).is_loopback:
        print("It can be reached from other machines, unencrypted: whoever sees the address sees the runs.", flush=True)


def _token() -> str:
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return secrets.token_urlsafe(24)
    if len(given) < LEAST_TOKEN or not given.isascii() or not given.replace("-", "").replace("_", "").isalnum():
        raise WarpsmithError(
            f"{TOKEN_VARIABLE} can't be used as a token",
            f"Give at least {LEAST_TOKEN} letters, digits, - and _, or leave it out.",
        )
    return given


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections. Raises WarpsmithError when the address can't be had."""
    try:
        (family, kind, protocol, _, where), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen()  # so that who reads the address can use it at once
    except OSError as error:
        advice = "Give another with --port; 0 takes a free one." if port else "Check --host."
        raise WarpsmithError(f"can't serve on {host}:{port}: {error.strerror or error}", advice) from error
    return listener


def _written(address: str) -> str:
    """As it stands in a URL."""
    return f"[{address}]" if ":" in address else address
