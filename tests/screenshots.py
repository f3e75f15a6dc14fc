"""Pictures of what tests saw, for a person to look at: `build/screenshots/MODULE/TEST--VIEW.png`, or `.svg` of a
terminal. A test run replaces those of the run before."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "build" / "screenshots"


def place(view: str, ending: str) -> Path:
    """Where the test that runs now keeps what it sees; `view` says what that is."""
    module, _, rest = os.environ.get("PYTEST_CURRENT_TEST", "no_test").partition("::")
    test = re.sub(r"[^\w.-]+", "-", rest.partition(" (")[0].replace("::", "-")).strip("-").removeprefix("test_")
    folder = FOLDER / Path(module).stem.removeprefix("test_")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{test[:100]}--{view}.{ending}"


def keep_terminal(app: Any, view: str) -> None:
    """What a Textual application shows now."""
    place(view, "svg").write_text(app.export_screenshot(), encoding="utf-8")
