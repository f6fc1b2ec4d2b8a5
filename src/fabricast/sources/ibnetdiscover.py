"""Recognition of the output of ``ibnetdiscover``, which lists switches, hosts and cables of an InfiniBand network."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.sources.text import Format, Reading, Text

_SWITCH = re.compile(r'\bSwitch\s+\d+\s+"S-[0-9a-fA-F]+"|\b(?:CA|SW)\s+\d+\s+\d+\s+0x[0-9a-fA-F]{8,16}\s+\d+x\s')


def _read(text: Text) -> Iterator[Reading]:
    line = next((number for number, line in text.lines() if _SWITCH.search(line)), 0)
    if line:
        yield Reading([text.fact(Quantity.FILE, (text.path, text.clean), line, "ibnetdiscover")], line=line)


FORMAT = Format(
    "ibnetdiscover",
    Content.NETWORK,
    "ibnetdiscover > network.txt",
    'Switch 40 "S-0002c90300a1b2c3" # "leaf0" enhanced port 0 lid 2 lmc 0',
    lambda text: any(word in text.raw for word in ("Switch", "CA", "SW")) and _SWITCH.search(text.raw) is not None,
    _read,
    "ibnetdiscover.txt",
    reader="fabricast map --network",
    versions="with and without `-p`: switches, hosts with their cards, cables with their rates",
)
