"""Who may see the dashboard, and what its pages may do: checked and set before any page is made.

A request is answered when it reads (GET, HEAD), names a host that is ours, and brings the token or the cookie that the
token was traded for. A name that is not ours is refused because a page from elsewhere can make its own name lead to
this machine (DNS rebinding); an address is no name, so it can't. Not covered: encryption, for which there is ssh.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.serve.problems import problem

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
_OPEN: Final = "/static/"
"""Style sheets and scripts: the same for everyone, so that the page that asks for a token can be styled."""


class Guard:
    """Wraps the site. `token` is what the printed address holds, `names` are further host names that are ours."""

    def __init__(self, app: ASGIApp, token: str, names: Iterable[str] = (), port: int = 0) -> None:
        self._app = app
        self._token = token
        self._names = frozenset(name.lower().rstrip(".") for name in ("localhost", *names))
        self._cookie = f"warpsmith_{port}"
        self._pass = hashlib.sha256(f"cookie of {token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _harden(MutableHeaders(scope=message))
            await send(message)

        request = Request(scope)
        answer = self._refusal(request)
        await (answer or self._app)(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        """What to answer instead of the page; None when it may be seen."""
        if not self.is_ours(request.headers):
            return problem(421, "This address is not ours", "Open the address that `warpsmith serve` printed.")
        if request.method not in ("GET", "HEAD"):
            answer = problem(405, "The dashboard only shows", "A run is steered from the terminal.")
            answer.headers["Allow"] = "GET, HEAD"
            return answer
        if self._same(request.query_params.get("token"), self._token):
            return self._let_in(request)
        if request.url.path.startswith(_OPEN) or self._is_let_in(request):
            return None
        return problem(401, "This page needs its token", "Open the whole address that `warpsmith serve` printed.")

    def is_ours(self, headers: Headers) -> bool:
        """Whether the request was made to an address, or to one of our names."""
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return False
        name = host_name(hosts[0])
        return name is not None and (name in self._names or _is_address(name))

    def _is_let_in(self, request: Request) -> bool:
        """Whether it brings the cookie, or as a program does the token itself."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        by_token = kind.lower() == "bearer" and self._same(given.strip(), self._token)
        return by_token or self._same(request.cookies.get(self._cookie), self._pass)

    def _let_in(self, request: Request) -> Response:
        """The same page without the token in its address, which could end in a history or a log."""
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        path = "/" + request.url.path.lstrip("/")
        answer = RedirectResponse(f"{path}?{urlencode(kept)}" if kept else path, status_code=303)
        answer.set_cookie(self._cookie, self._pass, httponly=True, samesite="strict", path="/")
        return answer

    @staticmethod
    def _same(given: str | None, known: str) -> bool:
        """Compared in a time that says nothing about how much of it is right."""
        return given is not None and secrets.compare_digest(given.encode(errors="replace"), known.encode())


def host_name(header: str) -> str | None:
    """The name or address of a Host header, without its port; None for one that is none."""
    text = header.strip().lower()
    if text.startswith("["):
        inside, closed, rest = text[1:].partition("]")
        return inside if closed and (not rest or rest.startswith(":")) else None
    name, _, port = text.partition(":")
    return name.rstrip(".") if name and (not port or port.isdigit()) else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _harden(headers: MutableHeaders) -> None:
    for name, value in _HEADERS.items():
        headers[name] = value
    headers.setdefault("Content-Security-Policy", PAGE_POLICY)
    headers.setdefault("Cache-Control", "no-store")
