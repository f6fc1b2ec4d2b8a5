"""Reader of ``iblinkinfo``: rates of the cables of an InfiniBand network, and ports that are not active."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_NODE = re.compile(r"^(CA|Switch|Router): (?:0x[0-9a-f]{1,16} )?(.{1,200}?):?\s*$")
#: Port, state and other end of a cable: 'lid port[ ] ==( 4X 25.78125 Gbps Active/ LinkUp)==> lid port[ ] "name" ( )'.
_CABLE = re.compile(
    r"^\s*(?:0x[0-9a-f]{1,16}\s+\"(?P<source>[^\"]{1,200})\"\s+|0x[0-9a-f]{1,16}\s+)?(?P<lid>\d{1,10})"
    r"\s+(?P<port>\d{1,5})\[[^\]]{0,10}\]\s+==\(\s*(?:(?P<width>\d{1,2})X\s+(?P<speed>[\d.]{1,12}) Gbps"
    r"(?: \(\w{1,10}\))?\s+)?(?P<state>\w{1,20})/\s*(?P<physical>\w{1,20})\)[^=]{0,60}==>\s+"
    r"(?:(?:0x[0-9a-f]{1,16}\s+)?(?P<to_lid>\d{1,10})\s+(?P<to_port>\d{1,5}))?\s*\[[^\]]{0,10}\]\s+"
    r"\"(?P<to>[^\"]{0,200})\"\s*\((?P<notes>[^)]{0,200})\)"
)
_START_OF_CABLE = "==("
_COULD_BE = re.compile(r"Could be (\S+(?: Gbps)?)")
#: Ends that are parts of a switch, with another rate by design.
_AGGREGATION = "Aggregation Node"
_MOST_RATES = 4
_SUFFIX = re.compile(r"^MF0;|:[\w-]{1,40}/U\d{1,3}$")


@dataclass(frozen=True)
class _Cable:
    """Cable, or port of a host without a working link."""

    name: str
    ends: tuple[str, str]
    lanes: int
    gbit_per_lane: float
    state: str
    could_be: str
    line: int

    @property
    def words(self) -> str:
        return f"{self.lanes} x {self.gbit_per_lane:.4g} Gbit/s"


def _is_report(text: Text) -> bool:
    return _START_OF_CABLE in text.raw and any(_CABLE.match(line) for _, line in text.lines(_has_cable))


def _has_cable(line: str) -> bool:
    return _START_OF_CABLE in line


def _short(name: str) -> str:
    return _SUFFIX.sub("", name.strip())


def _cables(text: Text) -> tuple[list[_Cable], set[str], list[InputError]]:
    """Return the cables, each once, although both of its ends are listed, the names of switches, and cut lines."""
    kind, node, switches, cut = "", "", set[str](), list[InputError]()
    found = dict[frozenset[tuple[str, str]], _Cable]()
    for number, line in text.lines():
        if (named := _NODE.match(line)) is not None:
            kind, node = named[1], named[2]
            if kind == "Switch":
                switches.add(_short(node))
        elif _has_cable(line):
            match = _CABLE.match(line)
            if match is None and not line.rstrip().endswith(")"):
                reason = f"is {line.strip()[:60]!r}, expected a cable of iblinkinfo: the file is cut"
                cut.append(text.error(reason, number))
            if match is None or _AGGREGATION in (node + match["to"]):
                # A port that the subnet manager could not read, or an end that is a part of a switch.
                continue
            source, to = match["source"] or node, match["to"]
            switches.update(_short(name) for name in (source, to) if name.startswith("MF0;"))
            if match["width"] is not None and match["to_lid"] is not None:
                ends = frozenset(((match["lid"], match["port"]), (match["to_lid"], match["to_port"])))
                found.setdefault(ends, _cable(match, source, number))
            elif kind == "CA":
                # Ports without a cable are Down on every switch, and a port of a host should be up.
                found[frozenset(((match["lid"], match["port"]),))] = _cable(match, source, number)
    return list(found.values()), switches, cut


def _cable(match: re.Match[str], source: str, number: int) -> _Cable:
    name = f"{_short(source) or 'LID ' + match['lid']} port {match['port']}"
    if match["to"]:
        name = f"cable of {name} to {_short(match['to'])} port {match['to_port']}"
    state = match["state"] if match["physical"] == "LinkUp" else f"{match['state']} ({match['physical']})"
    return _Cable(
        name,
        (_short(source), _short(match["to"])),
        int(match["width"] or 0),
        float(match["speed"] or 0),
        state,
        " ".join(_COULD_BE.findall(match["notes"])),
        number,
    )


def _read(text: Text) -> Iterator[Reading]:
    cables, switches, cut = _cables(text)
    if not cables:
        raise cut[0] if cut else text.error("has no cable whose link works")
    yield Reading([*_notes(text, cables, switches), *_states(text, cables)], cut, line=cables[0].line)


def _notes(text: Text, cables: list[_Cable], switches: set[str]) -> Iterator[Fact]:
    """Yield the number of cables of each rate."""
    groups: dict[str, Counter[str]] = {"of hosts": Counter(), "between switches": Counter()}
    for cable in cables:
        if cable.lanes:
            groups["between switches" if switches.issuperset(cable.ends) else "of hosts"][cable.words] += 1
    for where, rates in groups.items():
        if rates:
            listed = ", ".join(f"{count} with {words}" for words, count in rates.most_common(_MOST_RATES))
            yield text.fact(Quantity.NOTE, f"cables {where}: {listed}", cables[0].line, "iblinkinfo")


def _states(text: Text, cables: list[_Cable]) -> Iterator[Fact]:
    """Yield cables that are slower than both of their ends, and ports that are not active."""
    for cable in cables:
        if cable.state != "Active":
            state = f"is {cable.state}"
        elif cable.could_be:
            state = f"runs at {cable.words}, and could run at {cable.could_be.replace('Gbps', 'Gbit/s per lane')}"
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
    versions="also `-l` and `-p`: cables that could be faster (`Could be`), ports that are not active, rates",
)
