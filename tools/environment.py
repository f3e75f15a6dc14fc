"""The environment of what we start: no model provider's key gets into it.

What compiles, judges or measures here needs no secret at all. A command that reaches another machine may need some (of
a cloud, of ssh), so that it loses only what is known to be a model's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

_SECRET = re.compile(r"(?i)(^|_)(key|keys|token|secret|password|passwd|credentials?)(_|$)|apikey")
_OF_A_MODEL = re.compile(r"(?i)_API_(KEY|TOKEN)$|^(anthropic|openai)_\w*(key|token)$")


def without_secrets(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`environ` (ours when left out) without every variable whose name says that it is a secret."""
    return {k: v for k, v in (os.environ if environ is None else environ).items() if not _SECRET.search(k)}


def without_model_keys(withheld: Collection[str] = (), environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`environ` (ours when left out) without the keys of model providers, and without the variables `withheld`."""
    known = os.environ if environ is None else environ
    return {k: v for k, v in known.items() if k not in withheld and not _OF_A_MODEL.search(k)}
