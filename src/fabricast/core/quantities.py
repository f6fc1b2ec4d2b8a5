"""Quantities of users: numbers in SI units, or text with a unit."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from numbers import Real

from fabricast.core.errors import InputError
from fabricast.core.units import parse_bytes

MOST_THREADS = 4096
_MOST_SIZES = 10_000
#: Smallest and largest size of a range, and the blank between a number and its unit.
_RANGE = re.compile(r"(\d[\w.]*)(?::|\.\.|-)(\d[\w.]*)")
_UNIT = re.compile(r"(?<=[0-9]) +(?=[KMGT]?i?B\b)", re.IGNORECASE)
#: Bounds of the size of a copy in bytes.
SMALLEST_BYTES, LARGEST_BYTES = 1e-3, 1e15


def check_count(argument: str, count: int, most: int, least: int = 1) -> None:
    """Check that a count is within its bounds.

    >>> check_count("threads", 2, MOST_THREADS)
    """
    is_number = isinstance(count, Real) and not isinstance(count, bool)
    if not is_number or count != count or not least <= count <= most or count != int(count):
        shown = f"{float(count):g}" if is_number else repr(count)
        raise InputError(f"is {shown}, expected {least:,} to {most:,}", argument=argument)


def check_seed(seed: int) -> None:
    """Check that a seed of random numbers is an integer from 0 to 2**63 - 1.

    >>> check_seed(20161113)
    """
    check_count("seed", seed, 2**63 - 1, least=0)


def to_bytes(size: float | str, argument: str = "size") -> float:
    """Convert a size to bytes.

    >>> to_bytes("2 MiB"), to_bytes(64)
    (2097152.0, 64.0)
    """
    return parse_bytes(size if isinstance(size, str) else repr(float(size)), argument)


def to_bytes_per_s(rate: float | str, argument: str = "bandwidth") -> float:
    """Convert a rate to bytes/s.

    >>> to_bytes_per_s("25 GB/s")
    25000000000.0
    """
    text = rate.strip() if isinstance(rate, str) else f"{float(rate)!r}/s"
    if not text.endswith("/s"):
        raise InputError(f"is '{rate}', expected bytes/s or text such as 24 GiB/s", argument=argument)
    try:
        return parse_bytes(text.removesuffix("/s"))
    except InputError:
        raise InputError(f"is '{rate}', expected bytes/s or text such as 24 GiB/s", argument=argument) from None


def listed_sizes(text: str) -> list[str]:
    """Return the sizes of a text, which blanks or commas separate; a range has the sizes of nccl-tests with -f 2.

    >>> listed_sizes("8 B, 64 MiB 1GiB"), listed_sizes("1MiB:4MiB")
    (['8B', '64MiB', '1GiB'], ['1048576', '2097152', '4194304'])
    """
    sizes: list[str] = []
    for word in _UNIT.sub("", text).replace(",", " ").split():
        if (match := _RANGE.fullmatch(word)) is None:
            sizes.append(word)
            continue
        size, last = (parse_bytes(end) for end in match.groups())
        if not 1 <= size <= last:
            text = f"is '{word}', expected a range from the smaller size of at least 1 byte to the larger"
            raise InputError(text, argument="sizes")
        while size <= last:
            sizes.append(f"{size:.0f}")
            size *= 2
    return sizes


def sizes_of(sizes: Sequence[float | str] | str) -> list[float]:
    """Return sizes in bytes, also those that a text lists."""
    return [to_bytes(size, "sizes") for size in (listed_sizes(sizes) if isinstance(sizes, str) else sizes)]


def increasing_sizes(sizes: Sequence[float | str] | str) -> tuple[float, ...]:
    """Return increasing sizes in bytes."""
    found = tuple(sizes_of(sizes))
    if not 0 < len(found) <= _MOST_SIZES:
        raise InputError(f"has {len(found)} elements, expected 1 to {_MOST_SIZES:,}", argument="sizes")
    if any(not 1 <= size <= 2.0**50 for size in found) or any(a >= b for a, b in itertools.pairwise(found)):
        raise InputError("is not increasing between 1 B and 1 PiB, expected increasing sizes", argument="sizes")
    return found
