"""How many tokens a text costs at most. Not covered: a provider's exact count, which a better `TokenCounter` may
give."""

from __future__ import annotations

from typing import Protocol


class TokenCounter(Protocol):
    """Counts tokens of texts. A counter may count too many, never too few."""

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        ...


class ByteBound:
    """An upper bound for byte-pair encodings that needs no vocabulary.

    Three letters of a word, one digit, one mark, one line end, eight blanks in a row and one byte outside ASCII each
    count as one token, and a single blank goes with the word after it: well above what current vocabularies make of
    C++ and of English. It counts classes of bytes, not words, so that a prompt costs well under a millisecond.
    """

    _CLASSES = bytes(
        ord("a") if chr(byte).isalpha() and byte < 128 else ord(" ") if byte in b" \t" else ord(".")
        for byte in range(256)
    )

    def count(self, text: str) -> int:
        kinds = b"." + text.encode().translate(self._CLASSES)
        letters, blanks = kinds.count(b"a"), kinds.count(b" ")
        words = kinds.count(b" a") + kinds.count(b".a")
        runs = kinds.count(b". ") + kinds.count(b"a ")
        single = kinds.count(b"a a") + kinds.count(b". a")
        marks = len(kinds) - 1 - letters - blanks
        return marks + -(-(letters + 2 * words) // 3) + -(-(blanks - single + 7 * (runs - single)) // 8)
