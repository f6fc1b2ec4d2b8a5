"""Reader of ``iblinkinfo``: cables of an InfiniBand network that are slower than their ports, or than the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

__all__ = ["FORMAT"]

_NODE = re.compile(r"^(CA|Switch|Router): (?:0x[0-9a-f]{1,16} )?(.{1,200}?):?\s*$")
#: Port, state and other end of a cable: 'lid port[ ] ==( 4X 25.78125 Gbps Active/ LinkUp)==> lid port[ ] "name" ( )'.
_CABLE = re.compile(
    r"^(?:0x[0-9a-f]{1,16} \"(?P<switch>[^\"]{1,200})\"|(?:\s+0x[0-9a-f]{1,16})?)"
    r"\s+(?P<lid>\d{1,10})\s+(?P<port>\d{1,5})\[[^\]]{0,10}\]\s+"
    r"==\(\s*(?:(?P<width>\d{1,2})X\s+(?P<speed>[\d.]{1,12}) Gbps\s+)?(?P<state>\w{1,20})/"
    r"\s*(?P<physical>\w{1,20})\)==>\s+(?:(?:0x[0-9a-f]{1,16}\s+)?(?P<to_lid>\d{1,10})\s+(?P<to_port>\d{1,5}))?\s*\[[^\]]{0,10}\]\s+"
    r"\"(?P<to>[^\"]{0,200})\"\s*\((?P<notes>[^)]{0,200})\)"
)
_START_OF_CABLE = "==("
_COULD_BE = re.compile(r"Could be (\S+(?: Gbps)?)")
#: Ends that are parts of a switch, with another rate by design.
_AGGREGATION = "Aggregation Node"
_SUFFIX = re.compile(r"^MF0;|:[\w-]{1,40}/U\d{1,3}$")


@dataclass(frozen=True)
class _Cable:
    """Cable with a working link."""

    name: str
    is_of_host: bool
    lanes: int
    gbit_per_lane: float
    state: str
    could_be: str
    line: int

    @property
    def rate(self) -> float:
        return self.lanes * self.gbit_per_lane

    @property
    def words(self) -> str:
        return f"{self.lanes} x {self.gbit_per_lane:.4g} Gbit/s"


def _is_report(text: Text) -> bool:
    return _START_OF_CABLE in text.raw and any(_CABLE.match(line) for _, line in text.lines(_has_cable))


def _has_cable(line: str) -> bool:
    return _START_OF_CABLE in line


def _short(name: str) -> str:
    return _SUFFIX.sub("", name.strip())


def _cables(text: Text) -> list[_Cable]:
    """Return the cables, each once, although both of its ends are listed."""
    node, found = "", dict[frozenset[tuple[str, str]], _Cable]()
    for number, line in text.lines():
        if (named := _NODE.match(line)) is not None:
            node = f"{'' if named[1] == 'CA' else 'switch '}{_short(named[2])}"
        elif _has_cable(line):
            match = _CABLE.match(line)
            if match is None:
                raise text.error(f"is {line.strip()[:60]!r}, expected a cable of iblinkinfo: the file is cut", number)
            source = f"switch {_short(match['switch'])}" if match["switch"] else node
            if match["width"] is None or match["to_lid"] is None or _AGGREGATION in (source + match["to"]):
                # Ports without a cable are Down on every switch.
                continue
            ends = frozenset(((match["lid"], match["port"]), (match["to_lid"], match["to_port"])))
            found.setdefault(ends, _cable(match, source, number))
    return list(found.values())


def _cable(match: re.Match[str], source: str, number: int) -> _Cable:
    to = match["to"]
    is_of_host = not (source.startswith("switch ") and to.startswith("MF0;"))
    could_be = " ".join(_COULD_BE.findall(match["notes"]))
    name = f"cable of {source or 'LID ' + match['lid']} port {match['port']} to {_short(to)} port {match['to_port']}"
    state = match["state"] if match["physical"] == "LinkUp" else f"{match['state']} ({match['physical']})"
    return _Cable(name, is_of_host, int(match["width"]), float(match["speed"]), state, could_be, number)


def _read(text: Text) -> Iterator[Reading]:
    cables = _cables(text)
    if not cables:
        raise text.error("has no cable whose link works")
    yield Reading([*_notes(text, cables), *_states(text, cables)], line=cables[0].line)


def _notes(text: Text, cables: list[_Cable]) -> Iterator[Fact]:
    """Yield the number of cables of each rate."""
    for is_of_host, where in ((True, "of hosts"), (False, "between switches")):
        rates = Counter(cable.words for cable in cables if cable.is_of_host == is_of_host)
        if rates:
            listed = ", ".join(f"{count} with {words}" for words, count in rates.most_common(4))
            yield text.fact(Quantity.NOTE, f"cables {where}: {listed}", cables[0].line, "iblinkinfo")


def _states(text: Text, cables: list[_Cable]) -> Iterator[Fact]:
    """Yield cables that are slower than their ports, or than most of their kind, and those without a subnet manager."""
    for cable in cables:
        rates = Counter(other.rate for other in cables if other.is_of_host == cable.is_of_host)
        usual = max(rates, key=lambda rate: (rates[rate], rate))
        if cable.state != "Active":
            state = f"is {cable.state}, and not Active"
        elif cable.could_be:
            state = f"runs at {cable.words}, and could run at {cable.could_be.replace('Gbps', 'Gbit/s per lane')}"
        elif cable.rate < usual and rates[usual] > 1:
            state = f"runs at {cable.words}, most others at {usual:.4g} Gbit/s in all"
        else:
            continue
        yield text.fact(Quantity.CARD_STATE, state, cable.line, "iblinkinfo", subject=(cable.name,))


FORMAT = Format(
    "iblinkinfo",
    Content.STATES,
    "sudo iblinkinfo > links.txt",
    '           3    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       1    1[  ] "node1 HCA-1" ( )',
    _is_report,
    _read,
    "iblinkinfo.txt",
    versions="with and without `-l`: cables that could be faster (`Could be`), or are slower than most others",
)
