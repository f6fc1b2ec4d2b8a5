"""Readers of ``lspci -vv`` and ``lspci -tv``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.core.units import PCIE_WIDTHS, pcie_bytes_per_s, pcie_generation
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.devices import Device, DeviceForest
from fabricast.sources.text import Format, Reading, Text

_DEVICE = re.compile(r"^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7]) (.*)")
_BUS = re.compile(r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_LINK = re.compile(r"Lnk(Cap|Sta):.*?Speed ([\d.]+)GT/s(?:[^,]*), Width x(\d{1,15})")
#: Transfer rates of PCIe in GT/s.
_SPEEDS = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)
_NODE = re.compile(r"NUMA node: (-?\d{1,15})")
_PAYLOAD = re.compile(r"MaxPayload (\d{1,15}) bytes, MaxReadReq (\d{1,15}) bytes")
_ACCESS = re.compile(r"ACSCtl:.*ReqRedir([+-])")
# Classes and vendors by name, as of -nn, or as of -n. Without its database lspci prints numbers only.
_ACCELERATOR = re.compile(
    r"3D controller|Processing accelerators?|Co-processor|Display controller|\[(0302|1200|0b40|0380)\]|"
    r"^(0302|1200|0b40|0380):"
)
_DISPLAY = re.compile(r"(VGA compatible controller|\[0300\]|^0300:).*(NVIDIA|AMD/ATI|\b(10de|1002):)")
#: Device numbers of NVSwitches.
_SWITCHES = "22a3|1af1|1ac2"
#: GPU of lspci -tv, which prints no classes: a chip of NVIDIA or an Instinct, but no audio, USB or NVSwitch function.
_NAMED_GPU = re.compile(
    rf"NVIDIA Corporation (?:[A-Z]{{2}}[0-9]{{2,3}}[A-Z]{{0,3}}\b|Device (?!{_SWITCHES})[0-9a-f]{{4}}$)|"
    r"Advanced Micro Devices.*Instinct"
)
_NVSWITCH = re.compile(rf"NVIDIA Corporation (?:Device (?:{_SWITCHES})\b|.{{0,20}}NVSwitch)|\b10de:(?:{_SWITCHES})\b")
#: Devices of a processor, and its family as NCCL names it; chipsets of Intel serve several families.
_PROCESSORS = (
    (re.compile(r"Advanced Micro Devices.*(?:Root Complex|PCIe Dummy Host Bridge|Data Fabric)"), "amd"),
    (re.compile(r"Intel Corporation (?:Sky Lake-E|Ice Lake (?:Memory Map|Root Port|RAS))"), "intel_skylake"),
    (re.compile(r"Intel Corporation Xeon E[57] v[34]"), "intel_broadwell"),
)
#: Ports of virtual machines, which say nothing about the slot.
_VIRTUAL_PORT = re.compile(r"QEMU|Red Hat|VMware|Virtual", re.IGNORECASE)
_OTHER_FUNCTION = re.compile(r"Audio|USB|UCSI|NVSwitch|Bridge|Serial")
_UNNAMED_GPU = re.compile(r"Device (10de|1002):[0-9a-f]{4}$")
_VENDOR = re.compile(
    r"NVIDIA|AMD/ATI|Advanced Micro Devices.*Instinct|Intel.*(Max|Gaudi)|Habana|Xilinx|\b(10de|1002|1da3|10ee):"
)
_MODEL = re.compile(r"NVIDIA[^\[]*\[([^\]]+)\]")
_CARD = re.compile(r"(Ethernet|Infiniband|Network) controller|\[02(00|07|80)\]|^02(00|07|80):", re.IGNORECASE)
#: Cards for traffic of GPUs; others, such as those for administration, are left out.
_FAST_CARD = re.compile(
    r"Mellanox|ConnectX|BlueField|Infiniband|Omni-Path|Slingshot|Elastic Fabric|Thor|BCM57[5-9]|\b15b3:", re.IGNORECASE
)
_PORT = re.compile(r"\] Express (?:\(v\d\) )?(Root Port|Upstream Port|Downstream Port|Endpoint|Legacy Endpoint)")
#: Fields that are read, by the name in messages.
_FIELDS = (
    ("Bus", _BUS),
    ("LnkCap", re.compile(r"LnkCap:.*Speed")),
    ("LnkSta", re.compile(r"LnkSta:.*Speed")),
    ("NUMA node", _NODE),
    ("MaxPayload", _PAYLOAD),
    ("ACSCtl", _ACCESS),
    ("Express", _PORT),
)
_MOST_NAMES = 4
#: Ports whose link leads to the devices below them; the link of other devices leads to the bridge above.
_LINK_BELOW = ("Root Port", "Downstream Port")


@dataclass
class _PciDevice:
    """Device of ``lspci``."""

    #: PCI domain and bus.
    domain: int
    bus: int
    address: str  # Address as printed, with domain
    text: str  # Class and name
    line: int  # Line in the file
    secondary: int | None = None  # Bus below a bridge
    #: Transfer rate in GT/s and width of the link: possible, and now.
    capability: tuple[float, int] | None = None
    status: tuple[float, int] | None = None
    numa_node: int | None = None
    #: MaxPayload and MaxReadReq.
    payload_bytes: int | None = None
    read_bytes: int | None = None
    redirects: bool = False  # Whether access control redirects requests between peers to the root complex
    port: str = ""  # Kind of PCI Express device: Root Port, Upstream Port, Downstream Port, Endpoint; empty if unknown
    last_bus: int | None = None  # Last bus below a bridge, if the listing states it
    children: list[_PciDevice] = field(default_factory=list)

    @property
    def is_accelerator(self) -> bool:
        """Whether the device is an accelerator."""
        if _ACCELERATOR.search(self.text) and _VENDOR.search(self.text):
            return True
        # -tv prints no classes, and without its database only numbers: the first function of a device is the GPU.
        is_named = _NAMED_GPU.match(self.text) is not None and _OTHER_FUNCTION.search(self.text) is None
        return (is_named or _UNNAMED_GPU.match(self.text) is not None) and self.address.endswith(".0")

    @property
    def is_display(self) -> bool:
        """Whether the device is a graphics card of NVIDIA or AMD."""
        return _DISPLAY.search(self.text) is not None

    @property
    def is_card(self) -> bool:
        """Whether the device is a network card for traffic of GPUs."""
        return _CARD.search(self.text) is not None and _FAST_CARD.search(self.text) is not None

    def walk(self) -> Iterator[_PciDevice]:
        """Yield the device and all devices below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def _is_verbose(text: Text) -> bool:
    if _BUS.search(text.raw) is None and (_LINK.search(text.raw) is None or "Capabilities:" not in text.raw):
        return False
    return any(map(_DEVICE.match, text.clean_lines))


def _is_tree(text: Text) -> bool:
    # Most texts have neither, and the patterns are slow.
    raw = text.raw
    if "-[" not in raw and ("]-" not in raw or re.search(r"\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-", raw) is None):
        return False
    return re.search(r"^[ |]*[-+\\]+-?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-|^-\[", text.clean, re.MULTILINE) is not None


def _devices(text: Text) -> list[_PciDevice]:
    """Return the devices of ``lspci -vv``."""
    devices: list[_PciDevice] = []
    known: list[set[str]] = []
    addresses: set[str] = set()
    for number, line in text.lines():
        match = _DEVICE.match(line)
        if match is not None:
            domain = int(match[1] or "0", 16)
            address = f"{domain:04x}:{match[2].lower()}:{match[3].lower()}.{match[4]}"
            if address in addresses:
                raise text.error(f"device {address} is a duplicate, expected each device once", number)
            addresses.add(address)
            devices.append(_PciDevice(domain, int(match[2], 16), address, match[5], number))
            known.append(set())
        elif line[:1].isspace() and (field_name := _field_name(line)):
            # Each field is once in a device: a second one belongs to a device whose first line is lost.
            if not devices or field_name in known[-1:][0]:
                raise text.error(f"has the field {field_name} of a device whose first line is missing", number)
            known[-1].add(field_name)
            _add_field(devices[-1], line)
    if not devices:
        raise text.error("contains no device, expected output of 'lspci -vv'")
    return _nested(text, devices)


def _field_name(line: str) -> str:
    """Return the name of a field that is read; empty for others.

    >>> _field_name("		LnkSta:	Speed 16GT/s, Width x16"), _field_name("	Region 0: Memory")
    ('LnkSta', '')
    """
    for name, pattern in _FIELDS:
        if pattern.search(line) is not None:
            return name
    return ""


def _add_field(device: _PciDevice, line: str) -> None:
    if (match := _BUS.search(line)) is not None:
        device.secondary = int(match[2], 16)
    elif (match := _LINK.search(line)) is not None:
        value = float(match[2]), int(match[3])
        if value[0] not in _SPEEDS or value[1] not in (0, *PCIE_WIDTHS):
            return
        if match[1] == "Cap":
            device.capability = value
        else:
            device.status = value
    elif (match := _NODE.search(line)) is not None:
        device.numa_node = int(match[1]) if int(match[1]) >= 0 else None
    elif (match := _PAYLOAD.search(line)) is not None:
        device.payload_bytes, device.read_bytes = int(match[1]), int(match[2])
    elif (match := _ACCESS.search(line)) is not None:
        device.redirects = match[1] == "+"
    elif (match := _PORT.search(line)) is not None:
        device.port = match[1]


def _nested(text: Text, devices: list[_PciDevice]) -> list[_PciDevice]:
    """Return the devices at the top, each with the devices on its secondary bus."""
    bridge_of: dict[tuple[int, int], _PciDevice] = {}
    for device in devices:
        if device.secondary:
            other = bridge_of.setdefault((device.domain, device.secondary), device)
            if other is not device:
                raise text.error(
                    f"bridge {device.address} leads to bus {device.secondary:02x}, as does {other.address}, expected "
                    "one bridge for each bus",
                    device.line,
                )
    top = []
    for device in devices:
        bridge = bridge_of.get((device.domain, device.bus))
        if bridge is None or bridge is device:
            top.append(device)
        else:
            bridge.children.append(device)
    reached = {id(one) for device in top for one in device.walk()}
    for device in devices:
        if id(device) not in reached:
            raise text.error(f"bridge above {device.address} is below it: the bridges form a loop", device.line)
    return top


def _ends_missing(devices: Sequence[_PciDevice]) -> list[CodedWarning]:
    """Return a warning about ports with a link to a device that the listing lacks: the link of an empty slot is x0."""
    ports = [
        one
        for device in devices
        for one in device.walk()
        if one.port in _LINK_BELOW and one.secondary and not one.children and one.status is not None and one.status[1]
    ]
    if not ports:
        return []
    text = (
        f"port {ports[0].address} has a link of x{ports[0].status[1] if ports[0].status else 0} to a device that the "
        f"listing lacks{f', and so do {len(ports) - 1} more' if len(ports) > 1 else ''}: lines may be missing"
    )
    return [CodedWarning(WarningCode.TOPOLOGY_NOTE, text)]


def _bridges_missing(devices: Sequence[_PciDevice]) -> list[CodedWarning]:
    """Return a warning about GPUs and switch ports at the top of the listing that must be below a bridge.

    A bus is a root bus if it has a host bridge or a root port; virtual machines list GPUs without any.
    """
    roots = {
        (one.domain, one.bus) for one in devices if one.port == "Root Port" or "Host bridge" in one.text or one.bus == 0
    }
    orphans = [
        one.address
        for one in devices
        if one.port in ("Upstream Port", "Downstream Port")
        or (one.is_accelerator and roots and (one.domain, one.bus) not in roots)
    ]
    if not orphans:
        return []
    text = (
        f"no bridge of the listing leads to {', '.join(orphans[:4])}: bridges are missing, so that shared links above "
        "are unknown; print all devices with 'sudo lspci -vv'"
    )
    return [CodedWarning(WarningCode.TOPOLOGY_NOTE, text)]


_TOKEN = re.compile(
    r"\[([0-9a-f]{4,8}):([0-9a-f]{2})\]|([0-9a-f]{2})\.([0-7])(?:-\[([0-9a-f]{2})(?:-([0-9a-f]{2}))?\])?"
)
_START_OF_TREE = re.compile(r"-(?:\+-)?\[([0-9a-f]{4,8}:[0-9a-f]{2})\]")


def _devices_of_tree(text: Text, lines: Sequence[tuple[int, str]]) -> list[_PciDevice]:
    """Return the devices of the trees of ``lspci -tv``, which prints no link speeds."""
    roots: list[_PciDevice] = []
    # Device from which the branch of a column descends: '+' and '\\' continue it on later lines.
    branch: dict[int, _PciDevice] = {}
    for number, line in lines:
        if _START_OF_TREE.match(line):
            branch.clear()
        start = re.match(r"^[ |]*", line)
        position = start.end() if start is not None else 0
        current = branch.get(position) if line[position : position + 1] in ("+", "\\") else None
        while position < len(line):
            match = _TOKEN.match(line, position)
            if match is not None:
                device = _tree_device(match, current, number)
                if current is None:
                    roots.append(device)
                else:
                    current.children.append(device)
                current, position = device, match.end()
                continue
            character = line[position]
            # A branch at the start of a line continues; one after a device begins.
            begins = position not in branch or line[:position].strip(" |") != ""
            if character == "+" and current is not None and begins:
                branch[position] = current
            if character not in "-+\\":
                if current is not None and not current.children:
                    current.text = line[position:].strip()
                break
            position += 1
    if not any(root.children for root in roots):
        raise text.error("contains no device, expected output of 'lspci -tv'")
    if not any(device.text not in ("", "PCI bridge", "host bridge") for root in roots for device in root.walk()):
        raise text.error("has no names of devices, as 'lspci -t' prints it, expected output of 'lspci -tv'")
    for root in roots:
        _check_buses(text, root)
    return roots


def _lines_of_tree(text: Text) -> tuple[list[tuple[int, str]], bool]:
    """Return the lines of the trees of a text, one for each PCI domain or one for all, and whether the last is open.

    Each branch ends with a backslash; a branch that is open where its column ends shows that lines are missing. The
    last tree has branches without an end in cut files and with -d of pciutils 3.9.
    """
    lines: list[tuple[int, str]] = []
    branches: set[int] = set()
    first = indentation = 0
    roots: set[str] = set()
    for number, printed in text.lines():
        if not printed.strip():
            continue
        # A tree in a document may be indented.
        line = printed[indentation:] if first else printed.lstrip()
        if first and _START_OF_TREE.match(printed.lstrip()):
            line = printed.lstrip()
        if (match := _START_OF_TREE.match(line)) is not None:
            if branches:
                raise text.error("begins another tree within a tree: lines are missing or changed", number)
            if match[1] in roots:
                # The same machine again.
                break
            roots.add(match[1])
            first, indentation = number, len(printed) - len(line)
        elif first <= 0:
            continue
        start = re.match(r"^[ |]*", line)
        column = start.end() if start is not None else 0
        connector = line[column : column + 1]
        if number != first:
            if connector not in ("+", "\\") and not branches:
                first = -1
                continue
            if connector not in ("+", "\\") or column not in branches or any(one > column for one in branches):
                raise text.error("continues no open branch of the tree: lines are missing or changed", number)
            if any(line[one] != "|" for one in branches if one < column):
                raise text.error("leaves out an open branch of the tree: lines are missing or changed", number)
            branches.discard(column)
            column += connector == "\\"
        branches |= _branches_of(line, column)
        lines.append((number, line))
    return lines, bool(branches)


def _branches_of(line: str, column: int) -> set[int]:
    r"""Return the columns of a line at which branches begin or continue.

    >>> sorted(_branches_of("-[0000:00]-+-00.0  AMD", 0)), sorted(_branches_of("             +-01.1-[01]--+-00.0", 13))
    ([11], [13, 26])
    """
    found = set()
    while column < len(line):
        match = _TOKEN.match(line, column)
        if match is not None:
            column = match.end()
        elif line[column] == "+":
            found.add(column)
            column += 1
        elif line[column] in "-\\":
            column += 1
        else:
            break
    return found


def _check_buses(text: Text, device: _PciDevice) -> None:
    """Raise an error if a bus below a bridge is none of its buses."""
    for child in device.children:
        if device.last_bus is not None and child.secondary is not None and child.secondary > device.last_bus:
            raise text.error(
                f"bridge {child.address} leads to bus {child.secondary:02x}, expected one of the buses "
                f"{device.secondary or 0:02x} to {device.last_bus:02x} of the bridge above: lines are missing",
                child.line,
            )
        _check_buses(text, child)


def _tree_device(match: re.Match[str], parent: _PciDevice | None, line: int) -> _PciDevice:
    if match[1] is not None:
        return _PciDevice(int(match[1], 16), int(match[2], 16), "", "host bridge", line, secondary=int(match[2], 16))
    domain, bus = (parent.domain, parent.secondary or 0) if parent is not None else (0, 0)
    secondary = int(match[5], 16) if match[5] else None
    text = "PCI bridge" if secondary is not None else ""
    device = _PciDevice(domain, bus, f"{domain:04x}:{bus:02x}:{match[3]}.{match[4]}", text, line, secondary)
    device.last_bus = int(match[6], 16) if match[6] else secondary
    return device


def _forest(devices: Sequence[_PciDevice], program: str) -> DeviceForest:
    """Return the devices for a topology.

    GPUs of one NUMA node are below one socket; without NUMA nodes, all are below one. The speed of a link is what both
    of its ends can do, and its width is that in use: idle GPUs reduce the speed of their link, never its width.
    """
    sockets: dict[int | None, Device] = {}
    every = [one for device in devices for one in device.walk()]
    for device in devices:
        converted = _converted(device)
        nodes = [one.numa_node for one in device.walk() if one.numa_node is not None]
        node = nodes[0] if nodes else None
        socket = sockets.setdefault(node, Device("", None, 0, numa_nodes=() if node is None else (node,)))
        # Host bridges of `lspci -tv` are no devices of their own. Each root bus is a host bridge.
        for child in converted.children if device.text == "host bridge" else [converted]:
            child.host_bridge, child.numa_node = f"{device.domain:04x}:{device.bus:02x}", node
            socket.children.append(child)
    return DeviceForest(
        program,
        [sockets[key] for key in sorted(sockets, key=str)],
        sum(not (one.is_accelerator or one.is_display or one.is_card) for one in every),
        2,
        warnings=[*_access_control(devices), *_bridges_missing(devices), *_ends_missing(devices)],
        # Speeds are those of LnkCap.
        has_maximum_speeds=True,
        has_sockets=any(one.numa_node is not None for one in every),
    )


def _has_several_ends(device: _PciDevice) -> bool:
    """Return whether copies between GPUs and network cards can stay below a device."""
    return sum(one.is_accelerator or one.is_display or one.is_card for one in device.walk()) > 1


def _access_control(devices: Sequence[_PciDevice]) -> list[CodedWarning]:
    """Return a warning about ports of switches that redirect; redirection at a root port changes nothing."""
    redirecting = [
        one.address
        for device in devices
        for above in device.walk()
        for one in above.children
        if one.redirects and one.port != "Root Port" and _has_several_ends(above)
    ]
    if not redirecting:
        return []
    text = (
        f"access control (ACSCtl ReqRedir+) of {len(redirecting)} ports ({', '.join(redirecting[:8])}) sends "
        "copies between devices below a switch (GPUs, network cards) through the root complex; switch it off for them"
    )
    return [CodedWarning(WarningCode.ACCESS_CONTROL, text)]


def _converted(device: _PciDevice) -> Device:
    """Return a device of a topology, with the devices below it."""
    result = Device(
        device.address,
        None,
        device.line,
        is_accelerator=device.is_accelerator,
        is_display=device.is_display,
        network_card="" if device.is_card else None,
    )
    if device.capability is not None and device.port not in _LINK_BELOW:
        speed, width = device.capability
        if device.status is not None and 0 < device.status[1] < width:
            text = (
                f"the link of {device.address} uses x{device.status[1]} of x{width}: the slot or a riser limits it; "
                "the forecast uses the smaller width"
            )
            result.warnings = (CodedWarning(WarningCode.DOWNGRADED_LINK, text),)
            width = device.status[1]
        _set_link(result, speed, width)
    result.children = [_converted(child) for child in device.children]
    if device.capability is not None and device.port in _LINK_BELOW:
        # Both ends of a link bound its speed.
        for below in result.children:
            if below.generation and below.generation > pcie_generation(device.capability[0]):
                _set_link(below, device.capability[0], below.width or device.capability[1])
        for below, child in zip(result.children, device.children, strict=True):
            if below.warnings and child.capability is not None and device.capability[1] == below.width:
                text = (
                    f"the link of {child.address} uses x{below.width} of x{child.capability[1]}: the port above it "
                    f"({device.address}) has no more lanes; the forecast uses the smaller width"
                )
                below.warnings = (CodedWarning(WarningCode.DOWNGRADED_LINK, text),)
    return result


def _set_link(device: Device, speed_gt_per_s: float, width: int) -> None:
    device.bytes_per_s = pcie_bytes_per_s(speed_gt_per_s, width)
    device.generation, device.width = pcie_generation(speed_gt_per_s), width


def _gpu_facts(text: Text, devices: Sequence[_PciDevice], program: str) -> Iterator[Fact]:
    """Yield address, model and payload of the GPUs: the accelerators, or else the graphics cards."""
    every = [one for device in devices for one in device.walk()]
    gpus = [one for one in every if one.is_accelerator] or [one for one in every if one.is_display]
    for number, gpu in enumerate(gpus):
        subject = (str(number),)
        yield text.fact(Quantity.GPU_ADDRESS, gpu.address, gpu.line, program, subject=subject)
        if (model := _MODEL.search(gpu.text)) is not None:
            yield text.fact(Quantity.GPU_MODEL, model[1], gpu.line, program, subject=subject)
        if gpu.payload_bytes:
            yield text.fact(Quantity.PAYLOAD, gpu.payload_bytes, gpu.line, program, subject=subject, unit="bytes")


def _gpus_at_ports(devices: Sequence[_PciDevice]) -> Iterator[tuple[_PciDevice, _PciDevice]]:
    """Yield each port with a GPU below it."""
    for port in (one for top in devices for one in top.walk()):
        for below in port.children if port.port in _LINK_BELOW else ():
            if below.is_accelerator or below.is_display:
                yield port, below


def _older_ports(text: Text, devices: Sequence[_PciDevice], program: str) -> Iterator[Fact]:
    """Yield the note about GPUs below ports of an older generation, which bounds the rate of their links."""
    kinds: dict[tuple[int, int], list[_PciDevice]] = {}
    for port, gpu in _gpus_at_ports(devices):
        if port.capability is not None and gpu.capability is not None:
            generations = pcie_generation(gpu.capability[0]), pcie_generation(port.capability[0])
            if generations[1] < generations[0]:
                kinds.setdefault(generations, []).append(gpu)
    for (own, above), gpus in kinds.items():
        who = f"{len(gpus)} GPUs" if len(gpus) > 1 else gpus[0].address
        verb = "are" if len(gpus) > 1 else "is"
        words = f"{who} of PCIe Gen{own} {verb} below a port of Gen{above} (LnkCap): slot, or setting of the BIOS"
        yield text.fact(Quantity.NOTE, words, gpus[0].line, program)


def _slow_links(text: Text, devices: Sequence[_PciDevice], program: str) -> Iterator[Fact]:
    """Yield the note about GPUs whose links run at an older generation than both ends can, above that of idle GPUs."""
    slow: dict[tuple[int, int], list[_PciDevice]] = {}
    for port, gpu in _gpus_at_ports(devices):
        ends = [one.capability[0] for one in (port, gpu) if one.capability is not None]
        if len(ends) == 2 and gpu.status is not None and _SPEEDS[0] < gpu.status[0] < min(ends):
            kind = pcie_generation(gpu.status[0]), pcie_generation(min(ends))
            slow.setdefault(kind, []).append(gpu)
    for (now, possible), gpus in slow.items():
        names = listed([gpu.address for gpu in gpus], _MOST_NAMES)
        verb = "runs" if len(gpus) == 1 else "run"
        # Idle GPUs mostly use Gen1.
        words = (
            f"the link of {names} {verb} at Gen{now} of Gen{possible} (LnkSta), as with a setting of the BIOS or a "
            "riser, and sometimes of idle GPUs: read it under load"
        )
        yield text.fact(Quantity.NOTE, words, gpus[0].line, program)


def _network_cards(text: Text, devices: Sequence[_PciDevice], program: str) -> Iterator[Fact]:
    """Yield network cards of hosts without GPUs whose link is narrower or slower than card and port can be.

    The topology of GPUs states it in warnings.
    """
    if any(one.is_accelerator or one.is_display for device in devices for one in device.walk()):
        return
    good = 0
    for port, card in _below_ports(devices):
        if not card.is_card or not card.address.endswith(".0") or card.capability is None:
            continue
        if card.status is None or card.status[1] == 0:
            continue
        # Without its physical port, as in a virtual machine, the slot is unknown.
        is_whole = port is not None and port.capability is not None and _VIRTUAL_PORT.search(port.text) is None
        ends = [card.capability, *([port.capability] if port is not None and port.capability is not None else [])]
        speed, width = (min(end[place] for end in ends) for place in (0, 1))
        slower = [f"x{card.status[1]} of x{width}"] if is_whole and card.status[1] < width else []
        slower += [f"{card.status[0]:g} of {speed:g} GT/s"] if is_whole and card.status[0] < speed else []
        if slower:
            words = f"the link of the network card {card.address} uses {' and '.join(slower)}"
            yield text.fact(Quantity.CAUSE, words, card.line, program, subject=("narrow_link",))
        elif card.status[1] < card.capability[1] or card.status[0] < card.capability[0]:
            words = (
                f"the network card {card.address} uses x{card.status[1]} at {card.status[0]:g} GT/s, and could use "
                f"x{card.capability[1]} at {card.capability[0]:g} GT/s in another slot"
            )
            yield text.fact(Quantity.NOTE, words, card.line, program)
        else:
            good += 1
    if good:
        words = f"the link of {good} network card{'s' if good > 1 else ''} has its full width and speed"
        yield text.fact(Quantity.NOTE, words, 0, program)


def _below_ports(devices: Sequence[_PciDevice]) -> Iterator[tuple[_PciDevice | None, _PciDevice]]:
    """Yield each device with the port above it; None at the top."""
    for top in devices:
        yield None, top
        for port in top.walk():
            for below in port.children:
                yield port if port.port in _LINK_BELOW else None, below


def _redirecting_ports(text: Text, devices: Sequence[_PciDevice], program: str) -> Iterator[Fact]:
    """Yield the note about root ports above GPUs with access control."""
    ports = [port for port, _ in _gpus_at_ports(devices) if port.redirects and port.port == "Root Port"]
    if len(ports) > 1:
        names = listed([port.address for port in ports], _MOST_NAMES)
        words = (
            f"access control (ACSCtl ReqRedir+) is on at the root ports {names} of GPUs, and sends direct copies "
            "through the IOMMU where it is on: switch both off if direct copies hang or are slow"
        )
        yield text.fact(Quantity.NOTE, words, ports[0].line, program)


def _processor(text: Text, program: str) -> Iterator[Fact]:
    """Yield the family of the processor, which the names of its host bridges and ports state."""
    for number, line in text.lines(lambda line: "Advanced Micro Devices" in line or "Intel Corporation" in line):
        for words, family in _PROCESSORS:
            if words.search(line) is not None:
                yield text.fact(Quantity.PROCESSOR, family, number, program)
                return


def _switched_links(devices: Sequence[_PciDevice]) -> Iterator[CodedWarning]:
    """Yield that NVSwitches connect the GPUs, whose links the program does not print."""
    count = sum(_NVSWITCH.search(device.text) is not None for top in devices for device in top.walk())
    if count:
        switches = "an NVSwitch connects" if count == 1 else f"{count} NVSwitches connect"
        text = f"{switches} the GPUs by NVLink, which lspci does not print: add 'nvidia-smi topo -m'"
        yield CodedWarning(WarningCode.PEER_LINKS_UNKNOWN, text)


def _reading(text: Text, devices: Sequence[_PciDevice], program: str, notes: Sequence[CodedWarning] = ()) -> Reading:
    forest = _forest(devices, program)
    forest.warnings += [*notes, *_switched_links(devices)]
    tree = text.fact(Quantity.TOPOLOGY, forest, devices[0].line, program)
    facts = [tree, *_gpu_facts(text, devices, program)]
    for device in (one for top in devices for one in top.walk()):
        if "(rev ff)" in device.text and (device.is_accelerator or device.is_display):
            state = "has fallen off the bus: it answers no more (rev ff)"
            facts.append(text.fact(Quantity.GPU_STATE, state, device.line, program, subject=(device.address,)))
    facts += _processor(text, program)
    for notes_of in (_older_ports, _slow_links, _redirecting_ports, _network_cards):
        facts += notes_of(text, devices, program)
    if "<access denied>" in text.raw:
        note = "lspci ran without root, so that it lacks links and access control: repeat it as 'sudo lspci -vv'"
        facts.append(text.fact(Quantity.NOTE, note, 0, program))
    return Reading(facts)


def _read_verbose(text: Text) -> Iterator[Reading]:
    yield _reading(text, _devices(text), "lspci -vv")


def _read_tree(text: Text) -> Iterator[Reading]:
    notes = []
    lines, is_open = _lines_of_tree(text)
    if is_open:
        note = "the last branches of the tree have no end: lines may be missing"
        notes.append(CodedWarning(WarningCode.TOPOLOGY_NOTE, note))
    yield _reading(text, _devices_of_tree(text, lines), "lspci -tv", notes)


FORMATS = (
    Format(
        "lspci -vv",
        Content.TOPOLOGY,
        "sudo lspci -vv > lspci.txt",
        "41:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)",
        _is_verbose,
        _read_verbose,
        "lspci_vv.txt",
        versions="pciutils 3.x: switches, NUMA nodes, link speeds and widths, MaxPayload, access control",
    ),
    Format(
        "lspci -tv",
        Content.TOPOLOGY,
        "lspci -tv > tree.txt",
        "-[0000:40]-+-01.1-[41-43]----00.0-[42-43]--+-00.0",
        lambda text: not _is_verbose(text) and _is_tree(text),
        _read_tree,
        "lspci_tv.txt",
        versions="pciutils 3.x: switches",
    ),
)
