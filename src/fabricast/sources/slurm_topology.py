"""Recognition of ``topology.conf`` of Slurm, which describes the network between hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Quantity
from fabricast.sources.text import Format, Reading, Text

_SWITCH = re.compile(r"\bSwitchName\s*=", re.IGNORECASE)


def _read(text: Text) -> Iterator[Reading]:
    line = next((number for number, line in text.lines() if _SWITCH.search(line)), 0)
    if line:
        yield Reading([text.fact(Quantity.FILE, (text.path, text.clean), line, "Slurm")], line=line)


FORMAT = Format(
    "topology.conf of Slurm",
    Content.NETWORK,
    "scontrol show topology > topology.txt",
    "SwitchName=s0 Nodes=node[00-15]",
    lambda text: "switchname" in text.raw.lower() and _SWITCH.search(text.raw) is not None,
    _read,
    "topology.conf",
    reader="fabricast map --network",
    versions="switches and nodes",
)
