"""Lists of copies such as ``0>3 1>3``."""

from __future__ import annotations

from fabricast.core.errors import InputError


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Return the names of source and target of each copy of a list, which spaces or commas separate.

    >>> pairs_of("0>3, node1.gpu0>node0.gpu0")
    [('0', '3'), ('node1.gpu0', 'node0.gpu0')]
    """
    pairs = []
    for word in text.replace(",", " ").split():
        source, arrow, target = word.partition(">")
        if not (source and arrow and target):
            raise InputError(f"contains '{word}', expected copies such as '0>3 1>3'", argument="copies")
        pairs.append((source, target))
    return pairs
