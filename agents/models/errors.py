"""Whatever an SDK, its HTTP client or an event in a stream says went wrong, as a `ModelError` by one table."""

from __future__ import annotations

import json
import math
import re
import time
from email.utils import parsedate_to_datetime

from agents.models.base import ModelError, Usage
from agents.models.error_table import TABLE, Trouble
from agents.models.shapes import Fields, fields, index, text

_COUNTS = ("n_prompt_tokens", "n_ctx")
"""Fields in which llama.cpp tells how long the prompt is and may be."""


def classify(error: Exception, model: str, key: str = "") -> ModelError:
    """What an exception of an SDK or of its HTTP client means. model: as a person named it. key: is blotted out."""
    response, body = getattr(error, "response", None), getattr(error, "body", None)
    if response is None and not body:
        return lost(error.__cause__ or error, model)
    headers = fields(getattr(response, "headers", None))
    status = index(getattr(error, "status_code", None))
    return _error(_read(fields(body), status, str(body or error), headers), model, key)


def from_body(body: Fields, model: str, key: str = "", usage: Usage | None = None) -> ModelError:
    """What an error object means that came where a reply should be."""
    return _error(_read(body, None, json.dumps(dict(body), default=str), {}), model, key, usage)


def lost(error: BaseException, model: str) -> ModelError:
    """A connection that could not be made or broke, or bytes that make no sense."""
    name = type(error).__name__
    if isinstance(error, (ValueError, TypeError, AttributeError)):
        return ModelError("transient", f"{model}: the stream holds something that is not what it should be ({name})")
    if "Timeout" in name:
        return ModelError(
            "transient",
            f"{model}: nothing came in time ({name})",
            "Try again, or set a longer `timeout`.",
            unreachable=name == "ConnectTimeout",
        )
    if name == "ConnectError":
        advice = "Check the base URL and the network."
        return ModelError("transient", f"{model}: it can't be reached ({error})", advice, unreachable=True)
    return ModelError("transient", f"{model}: the connection broke ({name}: {str(error)[:200]})", "Try again.")


def _error(trouble: Trouble, model: str, key: str, usage: Usage | None = None) -> ModelError:
    row = next((row for row in TABLE if row.fits(trouble)), TABLE[-1])
    fault = row.fault
    if trouble.retry is False and fault == "transient" and trouble.status == 429:
        fault = "quota"
    if trouble.retry is True and fault == "bad_request":
        fault = "transient"
    signs = " ".join([*([f"HTTP {trouble.status}"] if trouble.status else []), *trouble.names])
    said = " ".join(trouble.message.split())
    if key:
        said = said.replace(key, "[key]")
    message = f"{model}: {row.what}" + (f" ({signs})" if signs else "") + (f": {said[:400]}" if said else "")
    return row.kind(fault, message.rstrip(". "), row.advice, retry_after=trouble.retry_after, usage=usage)


def _read(body: Fields, status: int | None, otherwise: str, headers: Fields) -> Trouble:
    """The parts of an error object as any of the servers writes it; a page of HTML becomes its words."""
    inner = fields(body.get("error")) or body
    details, more = fields(inner.get("details")), fields(inner.get("metadata"))
    code = inner.get("code")
    if status in (None, 200):
        status = code if isinstance(code, int) and 400 <= code < 600 else None
    found = (inner.get("type"), code, details.get("error_code"), more.get("error_type"))
    names = tuple(dict.fromkeys(name for name in found if isinstance(name, str) and name and name != "error"))
    message = text(inner.get("message")) or text(body.get("error")) or text(body.get("detail"))
    if not message:
        message = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", otherwise, flags=re.DOTALL | re.IGNORECASE)
    raw = " ".join([text(more.get("raw")), *(f"{n}: {inner[n]}" for n in _COUNTS if isinstance(inner.get(n), int))])
    should = headers.get("x-should-retry")
    return Trouble(
        status=status,
        names=names,
        message=f"{message} {raw}".strip(),
        retry_after=_retry_after(headers, message),
        retry={"true": True, "false": False}.get(str(should)),
    )


def _retry_after(headers: Fields, message: str) -> float | None:
    """Seconds that the provider asks to wait: by header (milliseconds, seconds or a date), else in its message."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(str(headers.get(name))) / scale
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    date = headers.get("retry-after")
    if isinstance(date, str):
        try:
            return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
        except (ValueError, OverflowError):
            pass
    found = re.search(r"(?:try again|retry) in (?:(\d+)m(?!s))?(?:([\d.]+)(ms|s)\b)?", message, re.IGNORECASE)
    if found is None or not (found[1] or found[2]):
        return None
    try:
        return 60.0 * float(found[1] or 0) + float(found[2] or 0) / (1000.0 if found[3] == "ms" else 1.0)
    except ValueError:
        return None
