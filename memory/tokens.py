"""How many tokens a text costs: o200k_base, offline, each text encoded once.

Not covered: what another vocabulary makes of the same text. `memory.calibration` corrects for that with what
providers report.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final, Protocol
from zlib import crc32

from memory.files import RunFolderError

VOCABULARY: Final = Path(__file__).parent / "vocabulary" / "o200k_base.tiktoken.gz"
SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Of the uncompressed file; the hash that tiktoken itself demands of it."""
CHUNK: Final = 2_000
"""Characters that are encoded at once: what a run of one character costs stays bounded, and an edit in a long text
leaves the counts of its other pieces known."""
SEEN: Final = 48
"""Characters before a cut that decide whether it is one."""
KNOWN: Final = 32_768
"""Pieces whose counts are remembered, about 5 MB."""

# As in tiktoken's `o200k_base` (tiktoken_ext/openai_public.py, MIT; see vocabulary/NOTICE), which would fetch the
# vocabulary from the network.
_SPLIT: Final = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_PLACES: Final = (re.compile(r"\n(?!\n)"), re.compile(r"\S(?= )"))
"""What a cut may follow: the end of a line, else a word."""


class TokenCounter(Protocol):
    """Counts tokens of texts."""

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        ...


class Encoder(Protocol):
    """As much of a tiktoken encoding as counting needs."""

    def encode_ordinary(self, text: str) -> list[int]: ...


@lru_cache(maxsize=1)
def load_encoding() -> Encoder:
    """o200k_base out of the file beside this module, verified; about half a second, once a process.

    Raises RunFolderError when the file is gone or was changed.
    """
    from binascii import a2b_base64

    import tiktoken

    try:
        raw = gzip.decompress(VOCABULARY.read_bytes())
    except (OSError, EOFError) as error:
        raise RunFolderError(f"can't read {VOCABULARY}: {error}", "Install warpsmith again.") from error
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise RunFolderError(f"{VOCABULARY} is not the vocabulary that it should be", "Install warpsmith again.")
    words = raw.split()
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return tiktoken.Encoding("o200k_base", pat_str=_SPLIT, mergeable_ranks=ranks, special_tokens={})


class Counter:
    """Tokens in o200k_base. A piece of text is encoded once and its count remembered by content. Safe with threads.

    A long text is counted in pieces of whole lines. That may add a token at a seam; within one run of a character it
    may also save one, at most in a hundred.
    """

    def __init__(self, load: Callable[[], Encoder] = load_encoding, known: int = KNOWN) -> None:
        self._load = load
        self._known = known
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._lock = Lock()

    def count(self, text: str) -> int:
        return sum(self._count(piece) for piece in pieces(text))

    def _count(self, piece: str) -> int:
        key = hashlib.blake2b(piece.encode(errors="surrogatepass"), digest_size=16).digest()
        with self._lock:
            if (count := self._counts.get(key)) is not None:
                self._counts.move_to_end(key)
                return count
        count = len(self._load().encode_ordinary(piece))
        with self._lock:
            self._counts[key] = count
            if len(self._counts) > self._known:
                self._counts.popitem(last=False)
        return count


COUNTER: Final = Counter()
"""The process's counter: its memory of counts is worth sharing."""


@dataclass(frozen=True)
class Corrected:
    """What a text costs a certain model: `counter`'s figure times `factor`, rounded up."""

    counter: TokenCounter
    factor: float

    def count(self, text: str) -> int:
        return math.ceil(self.counter.count(text) * self.factor)


def pieces(text: str) -> Iterator[str]:
    """`text` cut after line ends into pieces of at most `CHUNK` characters; a longer line is cut before a blank, or
    where it must be.

    Where is decided by what stands there and not by what came before, so that an edit moves the cuts near it only.
    """
    start = 0
    while len(text) - start > CHUNK:
        end = _cut(text, start)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _cut(text: str, start: int) -> int:
    """Of the places for a cut in the second half of `CHUNK` characters that with the smallest checksum before it."""
    half, full = start + CHUNK // 2, start + CHUNK
    for place in _PLACES:
        sums = [
            (crc32(text[found.end() - SEEN : found.end()].encode(errors="surrogatepass")), -found.end())
            for found in place.finditer(text, half, full)
        ]
        if sums:
            return -min(sums)[1]
    return full
