"""Reader of ``ibstat``, ``ibv_devinfo``, ``rdma link`` and others: states and rates of ports of network cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.text import Format, Reading, Text

_CARD = re.compile(r"^CA '([\w.-]{1,40})'")
_PORT = re.compile(r"^\s*Port (\d{1,3}):")
_FIELD = re.compile(r"^\s*(State|Physical state|Rate|Link layer|Base lid): (.{1,60}?)\s*$")
_FIRMWARE = re.compile(r"^\s*(?:Firmware version|fw_ver):\s+(\S{1,40})")
#: Number of a card, which all its ports have; before the fields of its port.
_IMAGE = re.compile(r"^\s*System image GUID: (0x[0-9a-f]{1,16})")
#: Ports and fields of ibstatus, whose states have a number: "state:  4: ACTIVE".
_STATUS_PORT = re.compile(r"^Infiniband device '([\w.-]{1,40})' port (\d{1,3}) status:")
_STATUS_FIELD = re.compile(r"^\s+(state|phys state|rate|link_layer):\s+(?:\d{1,2}: )?(\S{1,20})")
_NAMES = {"state": "State", "phys state": "Physical state", "rate": "Rate", "link_layer": "Link layer"}
#: Cards, ports and fields of ibv_devinfo, which prints the rate only with -v; copies may lack the indentation.
DEVINFO_CARD = re.compile(r"^\s*hca_id:\s+([\w.-]{1,40})")
DEVINFO_PORT = re.compile(r"^\s*port:\s+(\d{1,3})\s*$")
_DEVINFO_FIELD = re.compile(
    r"^\s*(state|phys_state|link_layer|active_width|active_speed|sys_image_guid|max_mtu|active_mtu):\s+(\S{1,20})"
)
#: Ports of 'rdma link'.
_RDMA_LINK = re.compile(
    r"^(?:link |\d{1,3}/\d{1,3}: )([\w.-]{1,40})/(\d{1,3}):? (?:.{1,200} )?state (\w{1,20}) "
    r"physical_state (\w{1,20})(.*)"
)
#: Model of a card, which ibv_devinfo prints as a number only.
_KIND = re.compile(r"^\s*(?:CA type:\s+MT|vendor_part_id:\s+)(\d{3,6})\b")
_NODE_GUID = re.compile(r"^\s*node_guid:\s+(\S{1,20})")
_NO_GUID, _NO_LID = "0000:0000:0000:0000", "65535"
#: Ports of 'ibdev2netdev'.
_NETDEV = re.compile(r"^\s*([a-z][\w.-]{1,40})\s+port\s+(\d{1,3})\s+==>\s+(\S{1,40})\s+\((Up|Down)\)")
_MOST_LISTED = 8
_STATES = {"ACTIVE": "Active", "DOWN": "Down", "INIT": "Initializing", "ARMED": "Armed"}
_PHYSICAL = {"LINK_UP": "LinkUp", "DISABLED": "Disabled", "POLLING": "Polling", "SLEEP": "Sleep"}


@dataclass
class _Port:
    """Port of a card with its fields."""

    name: str
    line: int
    fields: dict[str, str]
    has_rate: bool = True

    @property
    def is_active(self) -> bool:
        return self.fields.get("State") == "Active"

    @property
    def rate(self) -> float:
        lanes = re.fullmatch(r"(\d{1,2})X", self.fields.get("active_width", "1X"))
        # A name of the speed may follow, as in "10 (FDR10)".
        text = (self.fields.get("active_speed") or self.fields.get("Rate", "")).partition(" (")[0]
        is_known = lanes is not None and text.replace(".", "", 1).isdigit()
        return int(lanes[1]) * float(text) if lanes is not None and is_known else 0.0


def _is_report(text: Text) -> bool:
    if not any(
        word in text.raw for word in ("CA type:", "Infiniband device '", "hca_id:", " physical_state ", " ==> ")
    ):
        return False
    starts = (_CARD, _STATUS_PORT, DEVINFO_CARD, _RDMA_LINK, _NETDEV)
    return any(start.match(line) for _, line in text.lines() for start in starts)


def _ports(text: Text) -> list[_Port]:
    ports, listed = list[_Port](), list[tuple[str, int]]()
    card = kind = image = guid = ""
    last: _Port | None = None
    for number, line in text.lines():
        if (match := _CARD.match(line)) is not None:
            card, kind, image = match[1], "", ""
        elif (match := _KIND.match(line)) is not None:
            kind = f"MT{match[1]}"
        elif (match := _IMAGE.match(line)) is not None:
            image = match[1]
        elif (match := _NODE_GUID.match(line)) is not None:
            guid = match[1]
        elif (match := _STATUS_PORT.match(line)) is not None:
            last = _Port(f"{match[1]} port {match[2]}", number, {})
            ports.append(last)
        elif (match := DEVINFO_CARD.match(line)) is not None:
            card, kind, image, guid, last = match[1], "", "", "", None
            listed.append((card, number))
        elif (match := _RDMA_LINK.match(line)) is not None:
            fields = {
                "State": _STATES.get(match[3], ""),
                "Physical state": _PHYSICAL.get(match[4], match[4].capitalize()),
            }
            fields["Link layer"] = "Ethernet" if " netdev " in match[5] else ""
            # A port without state (NOP) has no link of its own.
            if fields["State"]:
                ports.append(_Port(f"{match[1]} port {match[2]}", number, fields, has_rate=False))
        elif card and (match := _PORT.match(line) or DEVINFO_PORT.match(line)) is not None:
            fields = {"System image GUID": image} if image else {}
            fields |= {"node GUID": guid} if guid else {}
            fields |= {"CA type": kind} if kind else {}
            last = _Port(f"{card} port {match[1]}", number, fields, has_rate=match.re is _PORT)
            ports.append(last)
        elif (match := _DEVINFO_FIELD.match(line)) is not None and match[1] == "sys_image_guid":
            image = match[2]
        elif match is not None and last is not None and not last.has_rate:
            _add_devinfo(last, match[1], match[2])
        elif last is not None and (match := _STATUS_FIELD.match(line)) is not None:
            last.fields.setdefault(_NAMES[match[1]], match[2].capitalize() if match[2].isupper() else match[2])
        elif last is not None and (match := _FIELD.match(line)) is not None:
            last.fields.setdefault(match[1], match[2])
    for name, number in listed:
        if not any(port.name.startswith(f"{name} port ") for port in ports):
            # The file ends within the card.
            ports.append(_Port(f"{name} port 1", number, {}, has_rate=False))
    return ports


def _add_devinfo(port: _Port, name: str, value: str) -> None:
    """Add a field of ibv_devinfo to its port."""
    if name == "state":
        port.fields.setdefault("State", _STATES.get(value.removeprefix("PORT_"), value))
    else:
        port.fields.setdefault({"phys_state": "Physical state", "link_layer": "Link layer"}.get(name, name), value)


def _read(text: Text) -> Iterator[Reading]:
    ports = _ports(text)
    if not ports and (interfaces := list(_interfaces(text))):
        yield Reading(interfaces)
        return
    if not ports:
        raise text.error("has no port, expected the output of 'ibstat' or 'ibstatus'")
    cut = [port for port in ports if "State" not in port.fields and not port.has_rate]
    ports = [port for port in ports if port not in cut] or ports
    for port in ports:
        lacks_rate = port.has_rate and port.is_active and "Rate" not in port.fields
        if "State" not in port.fields or lacks_rate:
            raise text.error(f"{port.name} lacks its state or rate: the file is cut", port.line)
    named: list[_Port] = []
    changes: dict[str, list[str]] = {}
    for port in ports:
        # A port of several programs is one, with the rate that one of them prints.
        known = next((one for one in named if one.name == port.name and not _is_of_other_host(one, port)), None)
        if known is None:
            named.append(port)
            continue
        # Of several readings of 'rdma link', the last one counts.
        is_again = not (known.has_rate or port.has_rate) and known.fields.keys() == port.fields.keys()
        if is_again and port.fields["State"] != known.fields["State"]:
            changes.setdefault(port.name, [known.fields["State"]]).append(port.fields["State"])
        known.fields = {**known.fields, **port.fields} if is_again else {**port.fields, **known.fields}
    ports = named
    rates = [
        text.fact(
            Quantity.PORT_RATE,
            port.rate,
            port.line,
            "ibstat",
            subject=(port.name, port.fields.get("Link layer", ""), port.fields.get("CA type", "")),
            unit="Gbit/s",
        )
        for port in ports
        if port.is_active and port.rate
    ]
    rates += [text.fact(Quantity.PORT, True, port.line, "ibstat", subject=(port.name,)) for port in ports]
    rates += _firmware(text)
    problems = [text.error(f"{port.name} lacks its state: the file is cut", port.line) for port in cut]
    words = _words(ports) + (", of those before the cut" if cut else "")
    notes = [text.fact(Quantity.NOTE, words, ports[0].line, "ibstat"), *_small_packets(text, ports)]
    for name, states in changes.items():
        words = f"{name} is printed as {', then '.join(states)}: its link changes, or these are two hosts"
        notes.append(text.fact(Quantity.NOTE, words, ports[0].line, "rdma link"))
    program = "" if any(port.has_rate for port in ports) else "rdma link"
    yield Reading([*notes, *_states(text, ports), *rates], problems, program)


def _interfaces(text: Text) -> Iterator[Fact]:
    """Yield the ports of ibdev2netdev; an interface without an IP address is down although its port is active."""
    down = []
    for number, line in text.lines():
        if (match := _NETDEV.match(line)) is not None:
            port = f"{match[1]} port {match[2]}"
            is_infiniband = match[3].startswith("ib")
            down += [(f"{match[3]} of {port}", number)] if match[4] == "Down" and is_infiniband else []
            if match[4] == "Down" and not is_infiniband:
                # The port of RoCE is that of the interface.
                yield text.fact(Quantity.CARD_STATE, "is Down", number, "ibdev2netdev", subject=(port,))
            yield text.fact(Quantity.PORT, True, number, "ibdev2netdev", subject=(port,))
    if down:
        names = listed([name for name, _ in down], _MOST_LISTED)
        words = f"interfaces that are down: {names}; InfiniBand needs none, 'ibstat' prints the state of the ports"
        yield text.fact(Quantity.NOTE, words, down[0][1], "ibdev2netdev")


def _small_packets(text: Text, ports: list[_Port]) -> Iterator[Fact]:
    """Yield active ports whose packets are smaller than those that the card can send."""
    for port in ports:
        now, most = port.fields.get("active_mtu", ""), port.fields.get("max_mtu", "")
        if port.is_active and now.isdigit() and most.isdigit() and int(now) < int(most):
            how = "the subnet manager decides (ibv_devinfo: active_mtu)"
            if port.fields.get("Link layer") == "Ethernet":
                how = "with the MTU of its interface they grow (9000 on all hosts and switches)"
            words = f"{port.name} sends packets of {now} bytes, and could send {most}: {how}"
            yield text.fact(Quantity.NOTE, words, port.line, "ibv_devinfo")


def _states(text: Text, ports: list[_Port]) -> Iterator[Fact]:
    """Yield ports that are down; of those that are off, only a note if they are unused."""
    unused = list[_Port]()
    for port in ports:
        if port.is_active:
            continue
        layer, physical = port.fields.get("Link layer", ""), port.fields.get("Physical state", "")
        # Nodes with InfiniBand have Ethernet for other purposes; 'rdma link' states Ethernet only.
        is_unused = physical == "Disabled" and layer == "Ethernet" and any(_is_main(one, port) for one in ports)
        if is_unused:
            unused.append(port)
        elif physical == "Disabled" and _has_active_sibling(port, ports):
            note = f"{port.name} is Down and disabled, another port of this card is active"
            yield text.fact(Quantity.NOTE, note, port.line, "ibstat")
        else:
            state = f"is {port.fields['State']}{f' ({physical})' if physical else ''}"
            if port.fields.get("node GUID") == _NO_GUID:
                state += ", and has no GUID"
            elif physical == "LinkUp" and port.fields.get("Base lid") == _NO_LID:
                state += ": a virtual function without an address (LID)"
            yield text.fact(Quantity.CARD_STATE, state, port.line, "ibstat", subject=(port.name,))
    if unused:
        names = listed([port.name for port in unused], _MOST_LISTED)
        note = f"{names} {'is' if len(unused) == 1 else 'are'} Down and disabled, as unused ports of Ethernet are"
        yield text.fact(Quantity.NOTE, note, unused[0].line, "ibstat")


def _is_of_other_host(one: _Port, other: _Port) -> bool:
    """Return whether ports of one name, in outputs of one program, have cards with different numbers."""
    images = [port.fields.get("System image GUID") for port in (one, other)]
    return one.has_rate == other.has_rate and None not in images and images[0] != images[1]


def _is_main(one: _Port, port: _Port) -> bool:
    """Return whether an active port shows that a disabled port of Ethernet is not the one of the jobs."""
    return one.is_active and (not port.has_rate or one.fields.get("Link layer") == "InfiniBand")


def _firmware(text: Text) -> Iterator[Fact]:
    """Yield the version of the firmware of each card."""
    card = ""
    for number, line in text.lines():
        if (match := _CARD.match(line) or DEVINFO_CARD.match(line)) is not None:
            card = match[1]
        elif card and (match := _FIRMWARE.match(line)) is not None:
            yield text.fact(Quantity.OF_HOST, (f"firmware of {card}", match[1]), number, "ibstat")
            card = ""


def _has_active_sibling(port: _Port, ports: list[_Port]) -> bool:
    """Return whether another port of the same card is active."""
    image = port.fields.get("System image GUID")
    return image is not None and any(one.is_active and one.fields.get("System image GUID") == image for one in ports)


def _words(ports: list[_Port]) -> str:
    rates = Counter(port.rate for port in ports if port.is_active)
    listed = ", ".join(
        f"{count} x {rate:g} Gbit/s" if rate else f"{count} of unknown rate" for rate, count in rates.most_common()
    )
    return f"active ports of network cards: {listed or 'none'}"


FORMAT = Format(
    "ibstat",
    Content.STATES,
    "ibstat > ibstat.txt",
    "CA 'mlx5_0'",
    _is_report,
    _read,
    "ibstat.txt",
    versions="also `ibstatus`, `ibv_devinfo`, `rdma link`, `ibdev2netdev`, and hosts: ports that are down or slow",
    is_per_host=True,
)
