"""Why nothing is judged on a GPU here, and what to do about it."""

from __future__ import annotations

from typing import Final

NO_DEVICE: Final = "no CUDA device"
NO_PYCUDA: Final = "PyCUDA is not installed"
_WHERE_TO_LOOK = "`warpsmith doctor` says what is missing here, docs/gpu.md how to get it."
ADVICE: Final = {
    NO_DEVICE: f"Building needs no device; judging does. `--executor` judges on a GPU elsewhere, {_WHERE_TO_LOOK}",
    NO_PYCUDA: f"Building does not need it; judging does. `make setup-cuda` installs it, {_WHERE_TO_LOOK}",
}
"""By the reason."""
