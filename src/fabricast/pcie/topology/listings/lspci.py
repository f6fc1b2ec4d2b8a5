"""Readers of ``lspci -vv`` and ``lspci -tv``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.units import PCIE_WIDTHS, pcie_bytes_per_s, pcie_generation
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.gpus import is_known_gpu
from fabricast.inputs.log_lines import clean_lines, clean_text
from fabricast.pcie.topology.xml_devices import Device, Machine

__all__ = [
    "PciDevice",
    "is_lspci_tree",
    "is_verbose_lspci",
    "lspci_machine",
    "printed_gpu",
    "read_lspci",
    "read_lspci_tree",
]

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
#: GPU of lspci -tv, which prints no classes: a chip of NVIDIA or an Instinct, but no audio, USB or NVSwitch function.
_NAMED_GPU = re.compile(
    r"NVIDIA Corporation (?:[A-Z]{2}[0-9]{2,3}[A-Z]{0,3}\b|Device (?!22a3|1af1)[0-9a-f]{4}$)|"
    r"Advanced Micro Devices.*Instinct"
)
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
_PORT = re.compile(r"Express (?:\(v\d\) )?(Root Port|Upstream Port|Downstream Port|Endpoint|Legacy Endpoint)")
#: Ports whose link leads to the devices below them; the link of other devices leads to the bridge above.
_LINK_BELOW = ("Root Port", "Downstream Port")


@dataclass
class PciDevice:
    """Device of ``lspci``.

    Parameters
    ----------
    domain, bus : int
        PCI domain and bus.
    address : str
        Address as printed, with domain.
    text : str
        Class and name.
    line : int
        Line in the file.
    secondary : int or None
        Bus below a bridge.
    capability, status : (float, int) or None
        Transfer rate in GT/s and width of the link: possible, and now.
    numa_node : int or None
        NUMA node.
    payload_bytes, read_bytes : int or None
        MaxPayload and MaxReadReq.
    redirects : bool
        Whether access control redirects requests between peers to the root complex.
    port : str
        Kind of PCI Express device: Root Port, Upstream Port, Downstream Port, Endpoint; empty if unknown.
    """

    domain: int
    bus: int
    address: str
    text: str
    line: int
    secondary: int | None = None
    capability: tuple[float, int] | None = None
    status: tuple[float, int] | None = None
    numa_node: int | None = None
    payload_bytes: int | None = None
    read_bytes: int | None = None
    redirects: bool = False
    port: str = ""
    children: list[PciDevice] = field(default_factory=list)

    def is_accelerator(self, include_display: bool) -> bool:
        """Return whether the device is an accelerator."""
        if _ACCELERATOR.search(self.text) and _VENDOR.search(self.text):
            return True
        # -tv prints no classes, and without its database only numbers: the first function of a device is the GPU.
        is_named = _NAMED_GPU.match(self.text) is not None and _OTHER_FUNCTION.search(self.text) is None
        if (is_named or _UNNAMED_GPU.match(self.text)) and self.address.endswith(".0"):
            return True
        return include_display and _DISPLAY.search(self.text) is not None


def is_verbose_lspci(text: str) -> bool:
    """Return whether a text is output of ``lspci -vv``."""
    return _BUS.search(text) is not None or (_LINK.search(text) is not None and "Capabilities:" in text)


def is_lspci_tree(text: str) -> bool:
    """Return whether a text is output of ``lspci -tv``."""
    # Most texts have neither, and the patterns are slow.
    if "-[" not in text and ("]-" not in text or re.search(r"\[[0-9a-f]{4}:[0-9a-f]{2}\]-", text) is None):
        return False
    return re.search(r"^[ |]*[-+\\]+-?\[[0-9a-f]{4}:[0-9a-f]{2}\]-|^-\[", clean_text(text), re.MULTILINE) is not None


def read_lspci(text: str, path: Path) -> list[PciDevice]:
    """Read the devices of ``lspci -vv``."""
    devices: list[PciDevice] = []
    addresses: set[str] = set()
    for number, line in clean_lines(text):
        match = _DEVICE.match(line)
        if match is not None:
            domain = int(match[1] or "0", 16)
            address = f"{domain:04x}:{match[2].lower()}:{match[3].lower()}.{match[4]}"
            if address in addresses:
                raise InputError(f"device {address} is a duplicate, expected each device once", path=path, line=number)
            addresses.add(address)
            devices.append(PciDevice(domain, int(match[2], 16), address, match[5], number))
        elif devices and line[:1].isspace():
            _add_field(devices[-1], line)
    if not devices:
        raise InputError("contains no device, expected output of 'lspci -vv'", path=path)
    return _nested(devices)


def _add_field(device: PciDevice, line: str) -> None:
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


def _nested(devices: list[PciDevice]) -> list[PciDevice]:
    """Return the devices at the top, each with the devices on its secondary bus."""
    bridge_of = {(device.domain, device.secondary): device for device in devices if device.secondary not in (None, 0)}
    top = []
    for device in devices:
        bridge = bridge_of.get((device.domain, device.bus))
        if bridge is None or bridge is device:
            top.append(device)
        else:
            bridge.children.append(device)
    return top


_TOKEN = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{2})\]|([0-9a-f]{2})\.([0-7])(?:-\[([0-9a-f]{2})(?:-[0-9a-f]{2})?\])?")


def read_lspci_tree(text: str, path: Path) -> list[PciDevice]:
    """Read the devices of ``lspci -tv``, which prints no link speeds."""
    roots: list[PciDevice] = []
    # Device from which the branch of a column descends: '+' and '\\' continue it on later lines.
    branch: dict[int, PciDevice] = {}
    for number, line in clean_lines(text):
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
        raise InputError("contains no device, expected output of 'lspci -tv'", path=path)
    return roots


def _tree_device(match: re.Match[str], parent: PciDevice | None, line: int) -> PciDevice:
    if match[1] is not None:
        return PciDevice(int(match[1], 16), int(match[2], 16), "", "host bridge", line, secondary=int(match[2], 16))
    domain, bus = (parent.domain, parent.secondary or 0) if parent is not None else (0, 0)
    secondary = int(match[5], 16) if match[5] else None
    text = "PCI bridge" if secondary is not None else ""
    return PciDevice(domain, bus, f"{domain:04x}:{bus:02x}:{match[3]}.{match[4]}", text, line, secondary)


def lspci_machine(
    devices: list[PciDevice], path: Path, *, include_display: bool = False, network_cards: bool = False
) -> Machine:
    """Return the content of ``lspci`` for a topology.

    GPUs of one NUMA node are below one socket; without NUMA nodes, all are below one. The speed of a link is what both
    of its ends can do, and its width is that in use: idle GPUs reduce the speed of their link, never its width.
    """
    warnings: list[Warning] = []
    sockets: dict[int | None, Device] = {}
    others = 0
    for device in devices:
        converted = _converted(device, include_display, network_cards, warnings)
        others += sum(not one.is_accelerator(include_display) for one in _walk(device))
        nodes = [one.numa_node for one in _walk(device) if one.numa_node is not None]
        node = nodes[0] if nodes else None
        socket = sockets.setdefault(node, Device("", None, 0, numa_nodes=() if node is None else (node,)))
        # Host bridges of `lspci -tv` are no devices of their own. Each root bus is a host bridge.
        for child in converted.children if device.text == "host bridge" else [converted]:
            child.host_bridge, child.numa_node = f"{device.domain:04x}:{device.bus:02x}", node
            socket.children.append(child)
    # Ports of switches: redirection at a root port changes nothing.
    redirecting = [
        one.address
        for device in devices
        for one in _walk(device)
        if one.redirects and one.port != "Root Port" and (one is not device or one.port == "Downstream Port")
    ]
    if redirecting:
        warnings.append(
            Warning(
                WarningCode.ACCESS_CONTROL,
                f"access control (ACSCtl ReqRedir+) of {len(redirecting)} ports ({', '.join(redirecting[:8])}) sends "
                "copies between GPUs below a switch through the root complex; switch it off for peer copies",
            )
        )
    # Speeds are those of LnkCap.
    return Machine([sockets[key] for key in sorted(sockets, key=str)], others, 2, [], warnings, has_maximum_speeds=True)


def printed_gpu(devices: Sequence[PciDevice]) -> str | None:
    """Return the model of all GPUs, such as ``GeForce RTX 4090``; None if it is unknown or differs."""
    gpus = {
        match[1] if (match := _MODEL.search(one.text)) else ""
        for device in devices
        for one in _walk(device)
        if one.is_accelerator(include_display=True)
    }
    name = next(iter(gpus), "")
    return name if len(gpus) == 1 and is_known_gpu(name) else None


def payload_of_gpus(devices: Sequence[PciDevice]) -> int | None:
    """Return the smallest MaxPayload of the GPUs in bytes; None if it was not printed."""
    every = [one for device in devices for one in _walk(device)]
    gpus = [one for one in every if one.is_accelerator(include_display=False)]
    gpus = gpus or [one for one in every if one.is_accelerator(include_display=True)]
    sizes = [one.payload_bytes for one in gpus if one.payload_bytes]
    return min(sizes, default=None)


def _walk(device: PciDevice) -> Iterator[PciDevice]:
    yield device
    for child in device.children:
        yield from _walk(child)


def _converted(device: PciDevice, include_display: bool, network_cards: bool, warnings: list[Warning]) -> Device:
    """Return a device of a topology, with the devices below it."""
    is_accelerator = device.is_accelerator(include_display)
    is_card = network_cards and _CARD.search(device.text) is not None and _FAST_CARD.search(device.text) is not None
    result = Device(
        device.address, None, device.line, is_accelerator=is_accelerator, network_card="" if is_card else None
    )
    if device.capability is not None and device.port not in _LINK_BELOW:
        speed, width = device.capability
        if device.status is not None and 0 < device.status[1] < width:
            warnings.append(
                Warning(
                    WarningCode.DOWNGRADED_LINK,
                    f"the link of {device.address} uses x{device.status[1]} of x{width}: the slot or a riser limits "
                    "it; the forecast uses the smaller width",
                )
            )
            width = device.status[1]
        _set_link(result, speed, width)
    result.children = [_converted(child, include_display, network_cards, warnings) for child in device.children]
    if device.capability is not None and device.port in _LINK_BELOW:
        # Both ends of a link bound its speed.
        for below in result.children:
            if below.generation and below.generation > pcie_generation(device.capability[0]):
                _set_link(below, device.capability[0], below.width or device.capability[1])
    return result


def _set_link(device: Device, speed_gt_per_s: float, width: int) -> None:
    device.bytes_per_s = pcie_bytes_per_s(speed_gt_per_s, width)
    device.generation, device.width = pcie_generation(speed_gt_per_s), width
