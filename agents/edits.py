"""Replaces one piece of a text, or says why it can't be done and shows the lines that were probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from agents.toolbox import Refused

SHOWN_MATCHES = 8
SHOWN_LINES = 24
_COPY = "Copy the lines exactly, without their numbers, or pass the whole file in `files`."
ALIKE = 0.5
"""Similarity from which lines are shown as the ones that were probably meant."""


def replace_once(files: Mapping[str, str], file: str, old: str, new: str) -> str:
    """The text of `file` with `old`, which must occur exactly once, replaced by `new`.

    Raises Refused, with line numbers as they are in the file.
    """
    if file not in files:
        raise Refused(f"there is no file {file} to edit", f"There are: {', '.join(files) or 'none'}.")
    text = files[file]
    times = text.count(old)
    if times == 1:
        return text.replace(old, new)
    if times > 1:
        raise Refused(_several(file, text, old, times))
    elsewhere = [name for name, other in files.items() if name != file and old in other]
    if elsewhere:
        raise Refused(f"the text to replace is not in {file}, but in {', '.join(elsewhere)}", "Name that file.")
    raise Refused(_missing(file, text, old))


def _several(file: str, text: str, old: str, times: int) -> str:
    """Where all the matches are."""
    lines, starts, at = text.splitlines(), list[int](), text.find(old)
    while at >= 0:
        starts.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + 1)
    shown = [f"{number:>5}: {lines[number - 1]}" for number in dict.fromkeys(starts[:SHOWN_MATCHES])]
    more = "" if len(starts) <= SHOWN_MATCHES else f"\n       and {len(starts) - SHOWN_MATCHES} more"
    why = f"the text to replace occurs {times} times in {file}. Copy more of the lines around the one you mean of"
    return f"{why}\n" + "\n".join(shown) + more


def _missing(file: str, text: str, old: str) -> str:
    """What stands there instead: the same lines with other blanks, or the most similar ones."""
    lines, wanted = text.splitlines(), old.strip("\n").splitlines() or [old]
    start = _same_but_blanks(lines, wanted)
    if start is not None:
        why = f"the text to replace stands in {file} with other blanks or tabs. {_COPY} The file has"
        return f"{why}\n{_numbered(lines, start, len(wanted))}"
    start, alike = _closest(lines, wanted)
    if alike < ALIKE:
        first = wanted[0].strip()[:80]
        return f"the text to replace is not in {file}, nor anything like it ({first!r} in {len(lines)} lines). {_COPY}"
    why = f"the text to replace is not in {file}. {_COPY} The lines most like it ({alike:.0%}) are"
    return f"{why}\n{_numbered(lines, start, len(wanted))}"


def _same_but_blanks(lines: list[str], wanted: list[str]) -> int | None:
    """Index of the first line from which `lines` are `wanted` but for blanks."""
    squeezed, sought = [_squeezed(line) for line in lines], [_squeezed(line) for line in wanted]
    if not any(sought):
        return None
    last = len(lines) - len(wanted)
    found = next((i for i in range(last + 1) if squeezed[i : i + len(sought)] == sought), None)
    if found is None and len(sought) == 1:
        return next((i for i, line in enumerate(squeezed) if sought[0] in line), None)
    return found


def _squeezed(line: str) -> str:
    return "".join(line.split())


def _closest(lines: list[str], wanted: list[str]) -> tuple[int, float]:
    """Index of the first of the lines most like `wanted`, and how alike they are, from 0 to 1."""
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2("\n".join(line.strip() for line in wanted))
    best, start = 0.0, 0
    for i in range(max(1, len(lines) - len(wanted) + 1)):
        matcher.set_seq1("\n".join(line.strip() for line in lines[i : i + len(wanted)]))
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, start = ratio, i
    return start, best


def _numbered(lines: list[str], start: int, count: int) -> str:
    """The lines from `start` (counted from 0), one more on each side, with their numbers counted from 1."""
    first, last = max(0, start - 1), min(len(lines), start + count + 1)
    shown = [f"{i + 1:>5}: {lines[i]}" for i in range(first, min(last, first + SHOWN_LINES))]
    if last - first > SHOWN_LINES:
        shown.append(f"       and {last - first - SHOWN_LINES} more lines")
    return "\n".join(shown)
