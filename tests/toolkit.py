"""Tests that need a CUDA toolkit, and why they are skipped without one."""

from __future__ import annotations

import pytest

from tools.errors import InfrastructureError
from tools.targets.cuda_toolkit import find_toolkit


def _no_toolkit() -> str:
    try:
        find_toolkit()
    except InfrastructureError as error:
        return str(error)
    return ""


needs_nvcc = pytest.mark.skipif(bool(_no_toolkit()), reason=_no_toolkit() or "nvcc is here")
