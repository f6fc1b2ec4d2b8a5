"""Reader of ``ibstat``: state and rate of the ports of InfiniBand and RoCE cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

__all__ = ["FORMAT"]

_CARD = re.compile(r"^CA '([\w.-]{1,40})'")
_PORT = re.compile(r"^\s+Port (\d{1,3}):")
_FIELD = re.compile(r"^\s+(State|Physical state|Rate|Link layer): (.{1,60}?)\s*$")


@dataclass
class _Port:
    """Port of a card with its fields."""

    name: str
    line: int
    fields: dict[str, str]

    @property
    def is_active(self) -> bool:
        return self.fields.get("State") == "Active"

    @property
    def rate(self) -> float:
        text = self.fields.get("Rate", "")
        return float(text) if text.replace(".", "", 1).isdigit() else 0.0


def _is_report(text: Text) -> bool:
    return "CA type:" in text.raw and any(_CARD.match(line) for _, line in text.lines(lambda line: "CA '" in line))


def _ports(text: Text) -> list[_Port]:
    card, ports = "", list[_Port]()
    for number, line in text.lines():
        if (match := _CARD.match(line)) is not None:
            card = match[1]
        elif card and (match := _PORT.match(line)) is not None:
            ports.append(_Port(f"{card} port {match[1]}", number, {}))
        elif ports and (match := _FIELD.match(line)) is not None:
            ports[-1].fields.setdefault(match[1], match[2])
    return ports


def _read(text: Text) -> Iterator[Reading]:
    ports = _ports(text)
    if not ports:
        raise text.error("has no port, expected the output of 'ibstat'")
    for port in ports:
        if "State" not in port.fields or "Rate" not in port.fields:
            raise text.error(f"{port.name} lacks its state or rate: the file is cut", port.line)
    yield Reading([text.fact(Quantity.NOTE, _words(ports), ports[0].line, "ibstat"), *_states(text, ports)])


def _states(text: Text, ports: list[_Port]) -> Iterator[Fact]:
    """Yield ports that are down, and ports that are slower than most active ones of their kind."""
    for layer in dict.fromkeys(port.fields.get("Link layer", "") for port in ports):
        same = [port for port in ports if port.fields.get("Link layer", "") == layer]
        rates = Counter(port.rate for port in same if port.is_active)
        for port in same:
            if not port.is_active:
                physical = port.fields.get("Physical state", "")
                state = f"is {port.fields['State']}{f' ({physical})' if physical else ''}"
                yield text.fact(Quantity.CARD_STATE, state, port.line, "ibstat", subject=(port.name,))
            elif len(rates) > 1 and port.rate < (usual := _usual(rates)):
                state = f"runs at {port.rate:g} Gbit/s, most ports at {usual:g} Gbit/s"
                yield text.fact(Quantity.CARD_STATE, state, port.line, "ibstat", subject=(port.name,))


def _usual(rates: Counter[float]) -> float:
    """Return the rate of most ports; the highest of equally frequent ones."""
    return max(rates, key=lambda rate: (rates[rate], rate))


def _words(ports: list[_Port]) -> str:
    rates = Counter(port.rate for port in ports if port.is_active)
    listed = ", ".join(f"{count} x {rate:g} Gbit/s" for rate, count in rates.most_common())
    return f"active ports of network cards: {listed or 'none'}"


FORMAT = Format(
    "ibstat",
    Content.STATES,
    "ibstat > ibstat.txt",
    "CA 'mlx5_0'",
    _is_report,
    _read,
    "ibstat.txt",
    versions="ports that are down, and ports with a lower rate than the others",
)
