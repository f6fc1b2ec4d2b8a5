"""Reader of ``ip link``, ``ip addr``, ``ifconfig`` and ``ethtool``: states, packet sizes and errors of interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "ip link"
#: Headings of an interface: of ip, of ifconfig, and of ethtool.
_IP = re.compile(r"^\s*(?:\d{1,5}: )?([\w.-]{1,40})(?:@[\w.-]{1,40})?: <([A-Z0-9_,-]{2,200})> mtu (\d{2,5})\b")
_IFCONFIG = re.compile(r"^\s*([a-z][\w.-]{0,40}): flags=\d{1,6}<([A-Z0-9_,-]{0,200})>\s+mtu (\d{2,5})\b")
_ETHTOOL = re.compile(r"^\s*Settings for ([\w.-]{1,40}):")
#: Command for the counters of an interface, whose heading a filter leaves out.
_FILTERED = re.compile(
    r"^(?:.{0,80}[#$>%]|\W{0,4})\s*(?:sudo |grep \S{1,40} )?(?:\S{0,80}/)?ethtool[ _]-S[ _]([\w.-]{1,40}?)"
    r"[`'\"]?\s*(?:\|.*)?$"
)
_COUNTED = re.compile(r"^\s+[\w\[\]. -]{1,60}: \d+\s*$")
_ADDRESS = re.compile(r"^\s*(?:link/)?(?:ether|infiniband) ([0-9a-f]{2}(?::[0-9a-f]{2}){5,19})\b")
_SPEED = re.compile(r"^\s*Speed: (\d{1,7})Mb/s")
_SUPPORTED = re.compile(r"^\s*(Supported link modes|Advertised link modes|Link partner advertised link modes):(.*)")
_MODE = re.compile(r"\b(\d{2,7})base\w{1,12}(?:/(?:Full|Half))?")
#: Interface without a port and modes, as of containers and virtual machines, whose stated rate is nominal.
_NO_PORT = re.compile(r"^\s*Supported ports:\s*\[\s*\]")
_NO_MODES = re.compile(r"^\s*Supported link modes:\s*Not reported")
_LINK = re.compile(r"^\s*Link detected: (yes|no)\b")
_HALF = re.compile(r"^\s*Duplex: Half\b")
#: Row of 'ifconfig -s' and 'netstat -i': name, packet size, received packets, errors and drops, flags.
_STATISTICS_ROW = re.compile(
    r"^([\w.-]{1,40})\s+(\d{2,5})\s+\d{1,20}\s+(\d{1,20})\s+(\d{1,20})\s+\d{1,20}\s+\d{1,20}\s+(\d{1,20})\s+(\d{1,20})\s+"
    r"\d{1,20}\s+([A-Za-z]{1,8})\s*$"
)
_STATISTICS = "NIC statistics:"
#: Counters of 'ethtool -S' that stay 0 where nothing is lost or waits.
_COUNTER = re.compile(
    r"^\s*(?:\w{1,12}: )?(\w{0,40}(?:crc|symbol_err|fcs|err|drop|discard|pause|pfc|missed|overflow|no_buf|"
    r"out_of_buffer|link_down)\w{0,40}): ([1-9]\d{0,20})\s*$"
)
#: Interfaces that are no network cards.
_VIRTUAL = re.compile(r"lo|docker\d|veth|br-|virbr|cali|flannel|cni|dummy|tun|tap|kube-|cilium|vxlan|nodelocaldns|wg\d")
_MOST_LISTED = 8
_NO_LINK = "is without a link (Link detected: no)"
#: Counters of errors, with the count from which they are no accident.
_MOST_COUNTS = (
    (re.compile("crc|symbol_err|fcs|discards_phy"), 1000),
    # Without a buffer of the host, packets are lost.
    (re.compile("no_frags|no_skb|no_pbuf|no_buf|out_of_buffer|rx_discards$"), 100_000),
    (re.compile("pause_storm"), 1),
    (re.compile("link_down"), 3),
)


@dataclass
class _Interface:
    """Interface with what the lines below its heading state; no packet size and flags from ethtool."""

    name: str
    line: int
    mtu: int = 0
    flags: frozenset[str] = frozenset()
    address: str = ""
    mbit_s: int = 0
    speed_line: int = 0
    supported: set[int] = field(default_factory=set)
    is_down: bool = False
    is_half: bool = False
    is_virtual: bool = False

    @property
    def is_up(self) -> bool:
        return "UP" in self.flags and bool({"LOWER_UP", "RUNNING"} & self.flags)


def _filtered(text: Text) -> Iterator[tuple[int, str]]:
    """Yield the line and the interface of commands that print some counters, which follow them directly."""
    if "ethtool" not in text.raw:
        return
    lines = [(number, line) for number, line in text.lines() if line.strip("` \t")]
    for (number, line), (_, following) in pairwise(lines):
        if (match := _FILTERED.match(line)) is not None and _COUNTED.match(following) is not None:
            yield number, match[1]


def _is_report(text: Text) -> bool:
    if _STATISTICS in text.raw or any(_filtered(text)):
        return True
    if not any(word in text.raw for word in ("mtu ", "Settings for ", "RX-ERR")):
        return False
    return any(start.match(line) for _, line in text.lines() for start in (_IP, _IFCONFIG, _ETHTOOL, _STATISTICS_ROW))


def _interfaces(text: Text) -> tuple[list[_Interface], list[tuple[int, str, str]]]:
    """Return the interfaces, and number, name and value of the counters."""
    found, counters = list[_Interface](), list[tuple[int, str, str]]()
    modes, is_counted, lacks_port = "", False, False
    filtered = dict(_filtered(text))
    for number, line in text.lines():
        is_filtered = number in filtered
        if is_filtered and not any(one.name == filtered[number] for one in found):
            found.append(_Interface(filtered[number], number))
        is_counted = is_filtered or _STATISTICS in line or (is_counted and (":" in line or line.startswith("```")))
        if (match := _IP.match(line) or _IFCONFIG.match(line)) is not None:
            found.append(_Interface(match[1], number, int(match[3]), frozenset(match[2].split(","))))
        elif (match := _ETHTOOL.match(line)) is not None:
            found.append(_Interface(match[1], number))
        elif (match := _STATISTICS_ROW.match(line)) is not None:
            flags = {"UP": "U" in match[7], "RUNNING": "R" in match[7]}
            found.append(_Interface(match[1], number, int(match[2]), frozenset(one for one in flags if flags[one])))
            named = zip(("RX-ERR", "RX-DRP", "TX-ERR", "TX-DRP"), match.groups()[2:6], strict=True)
            counters += [(number, f"{name} of {match[1]}", value) for name, value in named if int(value)]
        elif is_counted and (match := _COUNTER.match(line)) is not None:
            counters.append((number, match[1], match[2]))
        if not found:
            continue
        one = found[-1]
        if (match := _SUPPORTED.match(line)) is not None:
            modes = match[1]
        elif ":" in line:
            modes = ""
        if modes == "Supported link modes":
            one.supported |= {int(mode) for mode in _MODE.findall(line)}
        if (match := _ADDRESS.match(line)) is not None:
            one.address = one.address or match[1]
        elif (match := _SPEED.match(line)) is not None:
            one.mbit_s, one.speed_line = int(match[1]), number
        elif (match := _LINK.match(line)) is not None:
            one.is_down = match[1] == "no"
        elif _HALF.match(line):
            one.is_half = True
        elif _NO_PORT.match(line):
            lacks_port = True
        elif lacks_port and _NO_MODES.match(line):
            one.is_virtual = not one.name.startswith(("bond", "team"))
    return found, counters


def _read(text: Text) -> Iterator[Reading]:
    interfaces, counters = _interfaces(text)
    facts = [fact for one in interfaces for fact in _facts(text, one)]
    if any(fact.quantity is Quantity.INTERFACE_RATE for fact in facts):
        # Of several interfaces, one without a link may be one that nobody uses.
        facts = [_as_note(text, fact) if fact.value == _NO_LINK else fact for fact in facts]
    cards = [one for one in interfaces if one.mtu and not _VIRTUAL.match(one.name)]
    if cards:
        facts.append(text.fact(Quantity.NOTE, _words(cards), cards[0].line, _PROGRAM))
    if counters:
        facts += _high(text, counters, interfaces)
        words = listed([f"{name} {value}" for _, name, value in counters], _MOST_LISTED)
        note = f"counters of network cards since their start that are not 0: {words}"
        facts.append(text.fact(Quantity.NOTE, note, counters[0][0], _PROGRAM))
    elif not facts:
        line = interfaces[0].line if interfaces else 0
        facts.append(
            text.fact(Quantity.NOTE, "no counter of an error or a pause, and no rate of a card", line, _PROGRAM)
        )
    yield Reading(facts, program=_PROGRAM if any(one.mtu for one in interfaces) else "ethtool")


def _high(text: Text, counters: list[tuple[int, str, str]], interfaces: list[_Interface]) -> Iterator[Fact]:
    """Yield the card whose counters of errors are high."""
    high = [
        (number, f"{name} {int(value):,}")
        for number, name, value in counters
        for words, count in _MOST_COUNTS
        if words.search(name) and int(value) >= count
    ]
    if high:
        state = f"has counted errors since its start: {listed([words for _, words in high], _MOST_LISTED)}"
        subject = (interfaces[0].name if len(interfaces) == 1 else "a network card",)
        yield text.fact(Quantity.CARD_STATE, state, high[0][0], "ethtool", subject=subject)


def _facts(text: Text, one: _Interface) -> Iterator[Fact]:
    """Yield the packet size, the rate and the faults of an interface."""
    if one.is_up and not _VIRTUAL.match(one.name):
        yield text.fact(Quantity.PACKET_SIZE, one.mtu, one.line, _PROGRAM, subject=(one.name, one.address), unit="byte")
    if one.mbit_s:
        nominal = ", the nominal rate of an interface without a port (virtual)" if one.is_virtual else ""
        words = f"{one.name} runs at {one.mbit_s / 1e3:g} Gbit/s{nominal}"
        yield text.fact(Quantity.NOTE, words, one.speed_line, _PROGRAM)
        if not (one.is_down or one.is_virtual):
            gbit_s = one.mbit_s / 1e3
            yield text.fact(
                Quantity.INTERFACE_RATE, gbit_s, one.speed_line, "ethtool", subject=(one.name,), unit="Gbit/s"
            )
    fastest = max(one.supported, default=0)
    state = ""
    if one.is_down:
        state = _NO_LINK
    elif 0 < one.mbit_s < fastest:
        state = f"runs at {one.mbit_s / 1e3:g} Gbit/s, its card supports {fastest / 1e3:g} Gbit/s"
    elif one.is_half:
        state = "sends and receives in turn (Duplex: Half)"
    if state:
        yield text.fact(Quantity.CARD_STATE, state, one.speed_line or one.line, "ethtool", subject=(one.name,))


def _as_note(text: Text, fact: Fact) -> Fact:
    return replace(fact, quantity=Quantity.NOTE, value=f"{fact.subject[0]} {fact.value}, another interface has one")


def _words(cards: list[_Interface]) -> str:
    up = [f"{one.name} (MTU {one.mtu})" for one in cards if one.is_up]
    down = [one.name for one in cards if not one.is_up]
    words = f"interfaces that are up: {listed(up, _MOST_LISTED) or 'none'}"
    return words + (f"; down: {listed(down, _MOST_LISTED)}" if down else "")


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "ip addr > interfaces.txt; ethtool eth0 >> interfaces.txt",
    "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP",
    _is_report,
    _read,
    "interfaces.txt",
    versions="also `ifconfig`, `ethtool`, `ethtool -S`: slow links, packet sizes (MTU) that differ, counters",
    is_per_host=True,
)
