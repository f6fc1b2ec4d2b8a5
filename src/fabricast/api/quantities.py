"""Quantities as people write them: numbers in SI units, or text with a unit."""

from __future__ import annotations

from fabricast.core.errors import InputError
from fabricast.core.units import parse_bytes

__all__ = ["MOST_THREADS", "check_count", "to_bytes", "to_bytes_per_s"]

MOST_THREADS = 4096


def check_count(argument: str, count: int, most: int, least: int = 1) -> None:
    """Refuse a number of things that is out of range.

    Parameters
    ----------
    argument : str
        What is counted.
    count, most, least : int
        The number, and its bounds.

    Raises
    ------
    InputError
        If it is out of range.

    Examples
    --------
    >>> check_count("threads", 2, MOST_THREADS)
    """
    if not least <= count <= most:
        raise InputError(f"is {count:g}, expected {least:,} to {most:,}", argument=argument)


def to_bytes(size: float | str, argument: str = "size") -> float:
    """Return a size in bytes.

    Parameters
    ----------
    size : float or str
        Bytes, or text such as ``"300 MiB"``.
    argument : str, default 'size'
        What it is, for the message.

    Raises
    ------
    InputError
        If it is no positive size.

    Examples
    --------
    >>> to_bytes("2 MiB"), to_bytes(64)
    (2097152.0, 64.0)
    """
    return parse_bytes(size if isinstance(size, str) else repr(float(size)), argument)


def to_bytes_per_s(rate: float | str, argument: str = "bandwidth") -> float:
    """Return a rate in bytes/s.

    Parameters
    ----------
    rate : float or str
        Bytes/s, or text such as ``"24 GiB/s"``.
    argument : str, default 'bandwidth'
        What it is, for the message.

    Raises
    ------
    InputError
        If it is no positive rate.

    Examples
    --------
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
