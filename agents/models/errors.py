"""ONE table: whatever an SDK, its HTTP client or an event in a stream says went wrong, as a `ModelError`."""

from __future__ import annotations

from agents.models.base import ModelError


def classify(error: Exception, model: str) -> ModelError:
    """What `error` means for the caller. model: as a person named it."""
    status = getattr(error, "status_code", None)
    fault = "auth" if status in (401, 403) else "transient"
    return ModelError("auth" if fault == "auth" else "transient", f"{model}: {error}")
