"""What holds for all tests and for every process that they start."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Nothing here rests on a quiet machine, so no judge waits long for one.
os.environ.setdefault("WARPSMITH_PATIENCE", "0.5")
# Make passes its options and its level on to whatever it starts; these tests are not a part of its run.
for name in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "GNUMAKEFLAGS", "MAKE_TERMOUT", "MAKE_TERMERR"):
    os.environ.pop(name, None)
# Nobody's own lessons are read or added to; the folder is made only when a test leaves something there.
os.environ["WARPSMITH_DATA"] = str(Path(tempfile.gettempdir(), f"warpsmith-tests-{os.getpid()}"))
