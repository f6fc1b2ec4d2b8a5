"""Reader of ``/proc/net/bonding``: links of a bond that send no data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "/proc/net/bonding"
_HEADING = "Ethernet Channel Bonding Driver"
_NAME = re.compile(r"/proc/net/bonding/([\w.-]{1,40})")
_FIELD = re.compile(r"^\s*(Bonding Mode|MII Status|Slave Interface|Aggregator ID): (.{1,80})$")
_NO_AGGREGATOR = "has no active aggregator"
#: Mode in which one link at a time sends.
_ONE_AT_A_TIME = "active-backup"


@dataclass
class _Bond:
    """Bond with its mode and links: line, whether each is up, and its aggregator."""

    name: str
    line: int
    mode: str = ""
    active: str = ""  # Aggregator that is in use
    without_line: int = 0  # Line that states that no aggregator is active
    links: dict[str, tuple[int, str, str]] = field(default_factory=dict)


def _is_report(text: Text) -> bool:
    return _HEADING in text.raw


def _bonds(text: Text) -> Iterator[_Bond]:
    """Yield the bonds of a text, which may have several."""
    bond, link, name = None, "", ""
    for number, line in text.lines():
        named = _NAME.search(line)
        name = name if named is None else named[1]
        if _HEADING in line:
            if bond is not None:
                yield bond
            bond, link, name = _Bond(name or "a bond", number), "", ""
        elif bond is not None and _NO_AGGREGATOR in line:
            bond.without_line = number
        elif bond is not None and (match := _FIELD.match(line)) is not None:
            if match[1] == "Slave Interface":
                link = match[2].strip()
                bond.links[link] = number, "", ""
            elif match[1] == "Bonding Mode":
                bond.mode = match[2].strip()
            elif not link:
                bond.active = match[2].strip() if match[1] == "Aggregator ID" else bond.active
            else:
                line_of, state, aggregator = bond.links[link]
                is_state = match[1] == "MII Status"
                words = match[2].strip()
                bond.links[link] = line_of, words if is_state else state, aggregator if is_state else words
    if bond is not None:
        yield bond


def _facts(text: Text, bond: _Bond) -> Iterator[Fact]:
    """Yield what a bond states, and its links that send nothing."""
    one = f", of which one at a time is in use ({_ONE_AT_A_TIME})" if _ONE_AT_A_TIME in bond.mode else ""
    words = (
        f"{bond.name} has the links {listed(list(bond.links), 8)}{one}" if bond.links else f"{bond.name} has no link"
    )
    yield text.fact(Quantity.NOTE, words, bond.line, _PROGRAM)
    if bond.without_line:
        state = "has no active aggregator: LACP is not agreed with the switch"
        yield text.fact(Quantity.CARD_STATE, state, bond.without_line, _PROGRAM, subject=(bond.name,))
    for link, (line, state, aggregator) in bond.links.items():
        if state and state != "up":
            yield text.fact(Quantity.CARD_STATE, f"is {state} in {bond.name}", line, _PROGRAM, subject=(link,))
        elif bond.active.isdigit() and aggregator.isdigit() and aggregator != bond.active:
            state = f"has aggregator {aggregator}, the active one of {bond.name} is {bond.active}: it sends nothing"
            yield text.fact(Quantity.CARD_STATE, state, line, _PROGRAM, subject=(link,))


def _read(text: Text) -> Iterator[Reading]:
    yield Reading([fact for bond in _bonds(text) for fact in _facts(text, bond)])


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "cat /proc/net/bonding/* > bonding.txt",
    "Ethernet Channel Bonding Driver: v6.8.0-45-generic",
    _is_report,
    _read,
    "bonding.txt",
    versions="links of bonds that are down, or outside the active aggregator of LACP",
    is_per_host=True,
)
