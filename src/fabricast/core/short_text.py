"""Texts that are cut to a length: lists of names, and quoted messages."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first names as text, with the number of the others.

    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{separator.join(names[:most])}{more}"


def numbered(kind: str, numbers: Sequence[int], most: int) -> str:
    """Return the name of a kind and its numbers, at most some of them.

    >>> numbered("rank", [3], 2), numbered("rank", [1, 2, 5], 2)
    ('rank 3', 'ranks 1, 2 and 1 more')
    """
    return f"{kind}{'s' if len(numbers) > 1 else ''} {listed([str(number) for number in numbers], most)}"


def shortened(text: str, most: int) -> str:
    """Return a text with at most some characters before an ellipsis.

    >>> shortened("Connection refused", 10)
    'Connection...'
    """
    return text if len(text) <= most else f"{text[:most]}..."


def with_count(places: Sequence[str]) -> str:
    """Return the first of several places with the number of others.

    >>> with_count(["a.txt:1"]), with_count(["a.txt:1", "b.txt:1", "c.txt:1"])
    ('a.txt:1', 'a.txt:1 and 2 more')
    """
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"
