"""Number formatting for display."""

from __future__ import annotations

import math
import re

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float | int | None, digits: int = 4) -> str:
    """Format a number for display, with thousands separators and powers of ten.

    >>> number_text(1679616), number_text(0.30000000000000004), number_text(36.0798953), number_text(3e-9)
    ('1,679,616', '0.3', '36.08', '3 × 10⁻⁹')
    """
    if value is None or value != value:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    magnitude = math.floor(math.log10(abs(value)))
    if -4 <= magnitude < 15:
        return _trimmed(f"{value:,.{max(0, digits - 1 - magnitude)}f}")
    power = str(magnitude).translate(_SUPERSCRIPTS)
    return f"{_trimmed(f'{value / 10.0**magnitude:.{digits - 1}f}')} × 10{power}"


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def size_text(size_bytes: float) -> str:
    """Format a size in the largest binary unit that it fills, with four digits.

    >>> size_text(8), size_text(1536), size_text(2**30 - 512)
    ('8 B', '1.5 KiB', '1 GiB')
    """
    for unit, scale in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if float(f"{1024 * size_bytes / scale:.4g}") >= 1024:
            return f"{size_bytes / scale:.4g} {unit}"
    return f"{size_bytes:.0f} B"


def duration_text(seconds: float) -> str:
    """Format a duration in us, ms or s, with four digits.

    >>> duration_text(19.25e-6), duration_text(0.02341), duration_text(12.5)
    ('19.25 us', '23.41 ms', '12.5 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{number_text(seconds / scale)} {unit}"
    return f"{number_text(seconds * 1e6)} us"


def span_text(low: str, high: str) -> str:
    """Return two numbers as a range, or the one number that both are.

    >>> span_text("1", "2"), span_text("2", "2")
    ('1 to 2', '2')
    """
    return low if low == high else f"{low} to {high}"


def with_minus(text: str) -> str:
    """Replace hyphens before negative numbers by minus signs; hyphens in ranges stay.

    >>> with_minus("-113 to 92.78 %, 0-7")
    '−113 to 92.78 %, 0-7'
    """
    return re.sub(r"(?<![^\s(])-(?=\d)", "−", text)
