"""Reader of ``opainfo``: states of Omni-Path ports, and links that are slower than they could be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "opainfo"
_PORT = re.compile(r"^\s*(hfi1_\d{1,3}:\d{1,3})\s+PortGID:")
_STATE = re.compile(r"^\s*PortState:\s+(\w[\w ]{0,30}?)\s*$")
#: Value now and those that are enabled.
_LINK = re.compile(r"^\s*Link(Speed|Width)\s+Act: ([\d.]{1,6}) ?(?:Gb)?\s+En: ([\d.,Gb]{1,20})")
_DOWNGRADED = re.compile(r"^\s*LinkWidthDnGrd\s+ActTx:\s*(\d)\s+Rx:\s*(\d)\s+En:\s*([\d,]{1,10})")
_QUALITY = re.compile(r"^\s*Link Quality: (\d) ?\(?(\w{0,20})")
#: Quality of a link without errors, from 0 to 5.
_GOOD = 4
_UNITS = {"Speed": " Gbit/s per lane", "Width": " lanes"}


def _read(text: Text) -> Iterator[Reading]:
    port, facts = "", list[Fact]()
    for number, line in text.lines():
        if (match := _PORT.match(line)) is not None:
            port = match[1]
            facts.append(text.fact(Quantity.NOTE, f"Omni-Path port {port}", number, _PROGRAM))
        elif port:
            facts += _facts(text, port, number, line)
    yield Reading(facts)


def _facts(text: Text, port: str, number: int, line: str) -> Iterator[Fact]:
    """Yield the fault that a line about a port states."""
    state = ""
    if (match := _STATE.match(line)) is not None and match[1] != "Active":
        state = f"is {match[1]}"
    elif (match := _LINK.match(line)) is not None:
        enabled = max(float(one) for one in match[3].replace("Gb", "").split(",") if one)
        if float(match[2]) < enabled:
            state = f"runs at {match[2]} of {enabled:g}{_UNITS[match[1]]} that are enabled"
    elif (match := _DOWNGRADED.match(line)) is not None:
        enabled = max((int(one) for one in match[3].split(",") if one), default=0)
        lanes = min(int(match[1]), int(match[2]))
        # A port that is down has no lanes.
        if 0 < lanes < enabled:
            state = f"sends or receives with {lanes} of {enabled} lanes, since others have errors (LinkWidthDnGrd)"
    elif (match := _QUALITY.match(line)) is not None and int(match[1]) < _GOOD:
        state = f"has links of quality {match[1]} of 5{f' ({match[2]})' if match[2] else ''}"
    if state:
        yield text.fact(Quantity.CARD_STATE, state, number, _PROGRAM, subject=(port,))


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "opainfo > opainfo.txt",
    "hfi1_0:1                           PortGID:0xfe80000000000000:001175010101abcd",
    lambda text: "PortGID:" in text.raw and any(_PORT.match(line) for _, line in text.lines()),
    _read,
    "opainfo.txt",
    versions="Omni-Path ports that are down, or slower than they could be",
)
