"""Lists of copies such as ``0>3 1>3``."""

from __future__ import annotations

import re

from fabricast.core.errors import InputError

#: Arrows that users write, with blanks around them.
_ARROW = re.compile(r"\s*(?:-+>|=+>|\u2192|>)\s*")


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Return the names of source and target of each copy of a list, which spaces, commas or semicolons separate.

    >>> pairs_of("0>3, node1.gpu0>node0.gpu0"), pairs_of("0->3;1 -> 2")
    ([('0', '3'), ('node1.gpu0', 'node0.gpu0')], [('0', '3'), ('1', '2')])
    """
    pairs = []
    arrows = _ARROW.sub(">", text)
    for word in arrows.replace(",", " ").replace(";", " ").split():
        source, arrow, target = word.partition(">")
        if ">" in target or not (source and arrow and target):
            raise InputError(f"contains '{word}', expected copies such as '0>3 1>3'", argument="copies")
        pairs.append((source, target))
    return pairs
