"""Figures as a person reads them: times, shares, sizes and rates with their units."""

from __future__ import annotations

import math
from collections.abc import Sequence

_TIME_UNITS: tuple[tuple[float, str], ...] = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_PREFIXES: tuple[tuple[float, str], ...] = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def disturbance(cores: float) -> str:
    """What to think of times that were measured beside other programs, which used that many cores."""
    return f"Other programs used {cores:.1f} cores while this was measured: its times may read long"


def throttling(share: float) -> str:
    """What to think of times of which so large a share was measured while the device was throttled."""
    return f"The device stayed throttled in {percent(share)} of the timed calls: times may read long"


def duration(seconds: float | None) -> str:
    """A measured time to four significant digits: `1.234 ms`. None is a dash."""
    if seconds is None:
        return "-"
    for unit, name in _TIME_UNITS:
        if abs(seconds) >= unit:
            return f"{_digits(seconds / unit)} {name}"
    return f"{seconds * 1e9:.3f} ns" if seconds else "0 s"


def span(seconds: float | None) -> str:
    """How long something goes on, as a clock says it: `45 s`, `2 min 05 s`, `3 h 12 min`. None is a dash."""
    if seconds is None:
        return "-"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def percent(share: float | None) -> str:
    """A fraction of 1 as `41 %`, with a decimal below 10 %. None is a dash."""
    if share is None:
        return "-"
    return f"{share * 100:.1f} %" if abs(share) < 0.1 else f"{share * 100:.0f} %"


def times(ratio: float | None) -> str:
    """A speed-up as `1.52x`. None is a dash."""
    if ratio is None:
        return "-"
    return f"{ratio:.2f}x" if ratio < 100 else f"{ratio:.0f}x"


def amount(value: float | None, unit: str) -> str:
    """A count or rate with a decimal prefix: `24.1 GB/s`, `1.20 TFLOP/s`. None is a dash."""
    if value is None:
        return "-"
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{_digits(value / factor, 3)} {prefix}{unit}"
    return f"{value:g} {unit}"


def tally(counts: dict[str, int], order: Sequence[str] = ()) -> str:
    """Counts in words, largest first unless `order` is given: `4 wrong_result, 1 timeout`. Zeros are left out."""
    names = [name for name in order if counts.get(name)] or sorted(counts, key=lambda name: (-counts[name], name))
    return ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in names if counts[name])


def count(number: int | None) -> str:
    """A whole number with its thousands apart: `32,768`. None is `unknown`."""
    return "unknown" if number is None else f"{number:,}"


def tokens(number: int) -> str:
    """A count of tokens in four places: `812`, `12.3k`, `1.05M`."""
    for factor, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= factor:
            return f"{_digits(number / factor, 3)}{unit}"
    return str(number)


def money(dollars: float | None) -> str:
    """US dollars, small sums to two significant digits: `$12.40`, `$0.0031`. None is `unknown`."""
    if dollars is None:
        return "unknown"
    if dollars == 0 or abs(dollars) >= 0.1:
        return f"${dollars:,.2f}"
    return f"${dollars:.{1 - math.floor(math.log10(abs(dollars)))}f}"


def cost(dollars: float | None, unpriced_tokens: int) -> str:
    """What calls cost, and how many tokens of them have no known price: `$0.12 + 3.1k tokens unpriced`."""
    if dollars is None or not unpriced_tokens:
        return money(dollars)
    return f"{money(dollars)} + {tokens(unpriced_tokens)} tokens unpriced"


def figure(value: float) -> str:
    """A number to four significant digits, large ones with a decimal prefix: `2.910 M`, `0.06257`."""
    if abs(value) < 1e4:
        return f"{value:.4g}"
    factor, prefix = next(pair for pair in _PREFIXES if abs(value) >= pair[0])
    return f"{_digits(value / factor)} {prefix}"


def short(value: float, unit: str) -> str:
    """A round figure for an axis, with a decimal prefix: `500 µs`, `20 G`."""
    scales = ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
    for factor, prefix in (*_PREFIXES, *scales):
        if abs(value) >= factor * (1 - 1e-9):
            return f"{value / factor:.4g} {prefix}{unit}".rstrip()
    return f"{value:g} {unit}".rstrip()


def _digits(value: float, significant: int = 4) -> str:
    whole = len(f"{abs(value):.0f}")
    return f"{value:.{max(0, significant - whole)}f}"
