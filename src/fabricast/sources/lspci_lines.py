"""Reader of single lines of ``lspci -vv``, which users publish after ``grep``: access control and states of links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "lspci -vv | grep"
#: Corrected errors that a device has noted since they were cleared.
_CORRECTED = re.compile(r"^\s*CESta:\s*(?:\w+[+-] ?){4,8}")
_NOTED = re.compile(r"\b(RxErr|BadTLP|BadDLLP|Rollover|Timeout)\+")
_ACCESS = re.compile(r"(?:^|[\s(`\"])ACSCtl:\s*(?:0x[0-9a-f]{4}\s*[=:(]?\s*)?SrcValid[+-].*?ReqRedir([+-])")
_LINK = re.compile(r"^\s*Lnk(Cap|Sta):.{0,40}?Speed ([\d.]{1,5})GT/s(?:[^,]{0,20}), Width x(\d{1,2})")
#: Mark of lspci at a width.
_MARKED = re.compile(r"Width x\d{1,2} \(downgraded\)")
#: Device that a heading or a command names; its port has a word for it.
_DEVICE = re.compile(
    r"^\s*(?:[#$>]\s*)*(?:sudo\s+)?(?:\S*lspci\b.{0,40}?-s\s+)?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b(?!\s*Lnk)(.{0,200})"
)
_PORT = re.compile(r"\b(?:upstream|bridge|root port)\b", re.IGNORECASE)
#: GPU or card that answers no access, as lspci prints it.
_GONE = re.compile(
    r"^\s*((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.0)\s(?:VGA compatible|3D|Display|Ethernet|Infiniband|Network|"
    r"Processing accelerators|Bridge: NVIDIA).{0,200}\(rev ff\)"
)
#: GPUs of laptops, which the driver switches off while they are idle.
_OF_LAPTOPS = re.compile(r"Mobile|Max-Q|Laptop|\b[A-Z]{2}\d{3}[A-Z]*M\b")
#: First line of a device, which a part of its report lacks.
_LISTED = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ")
#: Lines of a complete report, which the readers of lspci read.
_COMPLETE = ("Bus: primary=", "Capabilities: ")


def _is_lines(text: Text) -> bool:
    if "(rev ff)" in text.raw and any(_GONE.match(line) for _, line in text.lines()):
        return True
    if not any(words in text.raw for words in ("ACSCtl:", "LnkSta:", "CESta:")):
        return False
    if any(words in text.raw for words in _COMPLETE) and any(map(_LISTED.match, text.clean_lines)):
        return False
    return any(_ACCESS.search(line) or _LINK.match(line) or _noted(line) for _, line in text.lines())


def _noted(line: str) -> list[str]:
    """Return the corrected errors of a link that a device has noted."""
    return _NOTED.findall(line) if _CORRECTED.match(line) is not None else []


def _read(text: Text) -> Iterator[Reading]:
    facts = [*_gone(text), *_access(text), *_links(text)]
    facts = facts or list(_marked_links(text))
    if not facts:
        facts = [text.fact(Quantity.NOTE, words, number, _PROGRAM) for number, words in _without_capability(text)]
    for number, line in text.lines(lambda line: "CESta:" in line):
        if errors := _noted(line):
            words = f"a device has noted corrected errors of its link ({', '.join(errors)}): 'dmesg' counts them (AER)"
            facts.append(text.fact(Quantity.NOTE, words, number, _PROGRAM))
    yield Reading(facts)


def _gone(text: Text) -> Iterator[Fact]:
    """Yield devices that do not answer: reads of their registers have all bits set."""
    for number, line in text.lines(lambda line: "(rev ff)" in line):
        if (match := _GONE.match(line)) is not None:
            address = match[1] if match[1].count(":") == 2 else f"0000:{match[1]}"
            if _OF_LAPTOPS.search(line) is not None:
                note = f"{address} does not answer (rev ff): the driver switches it off while it is idle"
                yield text.fact(Quantity.NOTE, note, number, _PROGRAM)
                continue
            state = "does not answer (rev ff): it has fallen off the bus, or is switched off"
            yield text.fact(Quantity.GPU_STATE, state, number, _PROGRAM, subject=(address,))


def _marked_links(text: Text) -> Iterator[Fact]:
    """Yield links that lspci marks as narrower than possible, where the line with what is possible is missing."""
    if "LnkCap:" in text.raw:
        return
    states = [(number, line, match[3]) for number, line in text.lines() if (match := _LINK.match(line)) is not None]
    for (number, line, lanes), following in zip_longest(states, states[1:]):
        # An empty slot has no lanes; a narrow device in a wide port uses all of its own, and is listed after it.
        if lanes == "0" or _MARKED.search(line) is None:
            continue
        if following is not None and following[2] == lanes and _MARKED.search(following[1]) is None:
            yield text.fact(Quantity.NOTE, f"a port has a device of x{lanes}", number, _PROGRAM)
        else:
            words = f"a link uses x{lanes}, fewer lanes than its device has (downgraded): the slot or a riser limits it"
            yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("narrow_link",))


def _without_capability(text: Text) -> Iterator[tuple[int, str]]:
    """Yield states of links without what is possible."""
    is_complete = "LnkCap:" in text.raw
    for number, line in text.lines():
        if (match := _LINK.match(line)) is not None and match[1] == "Sta":
            words = f"a link runs at {match[2]} GT/s with x{match[3]}"
            if is_complete:
                words += ", all that its device can use; cards with an internal switch (AMD Navi) print the link to "
                words += "it, and the port above it that of the slot"
            else:
                words += ": add LnkCap, what is possible, while the GPUs work"
            yield number, words


def _access(text: Text) -> Iterator[Fact]:
    """Yield whether ports redirect requests; ports without names may be root ports, where this changes nothing."""
    states: list[tuple[int, str]] = []
    device = ""
    for number, line in text.lines():
        if (heading := _DEVICE.match(line)) is not None:
            device = heading[1]
        # Requests pass the processor through a root port, which is on bus 0, anyway.
        elif (match := _ACCESS.search(line)) is not None:
            states.append((number, "-" if device.split(":")[-2:-1] == ["00"] else match[1]))
    redirecting = [number for number, state in states if state == "+"]
    if redirecting:
        words = (
            f"access control (ACSCtl ReqRedir+) is on at {len(redirecting)} of {len(states)} ports: if they are ports "
            "of switches, copies between GPUs or with network cards pass through the processor"
        )
        yield text.fact(Quantity.CAUSE, words, redirecting[0], _PROGRAM, subject=("possible_access_control",))
    elif states:
        words = f"access control (ACSCtl) redirects requests at none of {len(states)} ports"
        yield text.fact(Quantity.NOTE, words, states[0][0], _PROGRAM)


def _links(text: Text) -> Iterator[Fact]:
    """Yield links that are narrower or slower than the line of capabilities before them."""
    states = list(_states(text))
    for one, following in zip_longest(states, states[1:]):
        number, (highest, lanes), (speed, used) = one.line, one.possible, one.used
        if 0 < used < lanes:
            # A narrow device in a wide port has all of its lanes in use, and is listed after it; a port may be
            # listed after its device.
            is_narrow = following is not None and used == following.possible[1] == following.used[1]
            if is_narrow and following is not None and not _is_port_of(following, one):
                words = f"a port of x{lanes} has a device of x{used}"
                yield text.fact(Quantity.NOTE, words, number, _PROGRAM)
            else:
                where = "its port has no more lanes" if is_narrow else "the slot or a riser limits it"
                words = f"{one.link} uses x{used} of x{lanes}: {where}"
                yield text.fact(Quantity.CAUSE, words, number, _PROGRAM, subject=("narrow_link",))
        elif used == 0:
            yield text.fact(Quantity.NOTE, f"{one.link} is down (width x0), as that of an empty slot", number, _PROGRAM)
        elif speed < highest:
            words = f"{one.link} runs at {speed:g} of {highest:g} GT/s, which is normal while its device is idle"
            yield text.fact(Quantity.NOTE, words, number, _PROGRAM)


def _is_port_of(port: _State, device: _State) -> bool:
    """Return whether a heading names a port, or its bus is lower than that of another device."""
    return port.is_port or bool(port.device and device.device and port.device < device.device)


@dataclass(frozen=True)
class _State:
    """State of a link."""

    line: int
    possible: tuple[float, int]  # Speed in GT/s and lanes
    used: tuple[float, int]
    device: str  # Address; empty if no line names it
    is_port: bool  # Whether a heading names a port above another device

    @property
    def link(self) -> str:
        """Name of the link."""
        return f"the link of {self.device}" if self.device else "a link"


def _states(text: Text) -> Iterator[_State]:
    """Yield the states of links, with the device of the heading above them."""
    possible: tuple[float, int] | None = None
    device, is_port = "", False
    for number, line in text.lines():
        if (heading := _DEVICE.match(line)) is not None:
            device, is_port = heading[1], _PORT.search(heading[2]) is not None
        if (match := _LINK.match(line)) is None:
            continue
        link = float(match[2]), int(match[3])
        if match[1] == "Cap":
            possible = link
        elif possible is not None:
            yield _State(number, possible, link, device, is_port)
            possible = None


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "sudo lspci -vvv | grep ACSCtl > acs.txt",
    "ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
    _is_lines,
    _read,
    "lspci_lines.txt",
    versions="lines `ACSCtl`, `LnkCap` and `LnkSta` without their devices",
)
