"""The text of a PDF, page by page: `python -P -m memory.pdf_text FILE`, in a process of its own.

A malformed or hostile file may loop, recurse or fill memory in its parser, so the parser runs where that costs nothing
but this process. Prints one JSON line a page, `{"page": n, "text": "…"}` from 1, flushed at once, so that what was read
before a time-out is kept; exits with 3 when the file needs a password. Not covered: scanned pages without text.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Final

MOST_PAGES: Final = 3000
PAGE_CHARACTERS: Final = 20_000
"""Of one page; the rest is left out."""
MEMORY_BYTES: Final = 2 << 30
LOCKED: Final = 3
"""Exit code."""
MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What pypdf raises, beside its own errors, on a page whose objects are not what they should be; that page is left out.
"""


def main() -> int:
    """Read the file named on the command line."""
    import pypdf

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    reader = pypdf.PdfReader(sys.argv[1])
    if reader.is_encrypted and not reader.decrypt(""):
        return LOCKED
    for number in range(min(len(reader.pages), MOST_PAGES)):
        try:
            text = reader.pages[number].extract_text()[:PAGE_CHARACTERS]
        except (pypdf.errors.PyPdfError, *MALFORMED):
            continue
        print(json.dumps({"page": number + 1, "text": text}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
