"""Reader of hwloc XML (``lstopo --of xml``, versions 1 to 3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Quantity
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.checks import FASTEST_BYTES_PER_S
from fabricast.pcie.topology.devices import (
    NETWORK_CLASSES,
    SWITCH_CLASS,
    Device,
    DeviceForest,
    is_accelerator,
    is_display,
)
from fabricast.sources.text import Format, Reading, Text
from fabricast.sources.xml_elements import Element, parse_xml, xml_root


def _forest(root: Element, path: str) -> DeviceForest:
    """Read one device tree per package and the direct links."""
    packages: dict[int, Device] = {}
    others = 0
    # Bus id of every PCI device, keyed by the `gp_index` of the device and of the OS devices below it. Distance
    # matrices identify devices by `gp_index`.
    bus_ids: dict[str, str] = {}
    accelerators: list[tuple[str, str]] = []
    switches: list[str] = []
    gpus: dict[str, _Place] = {}

    def socket_of(above: list[Element]) -> Device:
        owner = above[0]
        for element in above:
            kind = element.attributes.get("type")
            inside = [e for e in element.walk() if e.attributes.get("type") in ("Package", "Socket")]
            if kind in ("Package", "Socket"):
                owner = element
                break
            if len(inside) == 1:
                owner = inside[0]
        if id(owner) not in packages:
            packages[id(owner)] = Device("", None, owner.line, numa_nodes=_numa_nodes(owner))
        return packages[id(owner)]

    def visit(element: Element, above: list[Element], bridge: Device | None, bus_id: str, host: _Host) -> None:
        nonlocal others
        kind = element.attributes.get("type")
        if kind == "PCIDev":
            bus_id = element.attributes.get("pci_busid", "")
        if bus_id:
            bus_ids[element.attributes.get("gp_index", "")] = bus_id
        if kind == "Bridge" and element.attributes.get("bridge_type", "").startswith("0-"):
            bridge = socket_of(above)
            host = _Host(element.attributes.get("bridge_pci", "") or str(element.line), _nearest_node(above))
        elif kind in ("Bridge", "PCIDev") and bridge is not None:
            device = _hwloc_device(element, path)
            fields = element.attributes.get("pci_type", "").replace("[", " ").replace(":", " ").split()
            pci_class, vendor = (*fields, "", "")[:2]
            if kind == "PCIDev":
                device.is_accelerator, device.is_display = is_accelerator(pci_class), is_display(pci_class, vendor)
                is_card = pci_class in NETWORK_CLASSES
                device.network_card = _card_name(element) if is_card else None
                others += not (device.is_accelerator or device.is_display or is_card)
            if device.is_accelerator or device.is_display:
                device.numbers = _device_numbers(element)
                gpus[bus_id] = _Place(device, bridge, socket_of(above))
            if device.is_accelerator:
                accelerators.append((bus_id, vendor))
            if element.attributes.get("subtype") == "NVSwitch" or (pci_class, vendor) == (SWITCH_CLASS, "10de"):
                switches.append(bus_id)
            if not bridge.bus_id:
                device.host_bridge, device.numa_node = host
            bridge.children.append(device)
            bridge = device
        for child in element.children:
            visit(child, [*above, element], bridge, bus_id, host)

    visit(root, [], None, "", _Host("", None))
    version = root.attributes.get("version", "1.x")[:10]
    forest = DeviceForest(f"hwloc XML {version}", list(packages.values()), others, bridges_of_a_switch=2)
    matrices = _matrices(root, bus_ids, path)
    forest.peers = _hwloc_peers(matrices, set(gpus), set(switches))
    forest.warnings += _links_to_sockets(matrices, gpus)
    if not matrices and not switches:
        forest.warnings += _links_missing(root)
    if switches and not forest.peers:
        # The file lists NVSwitches without their links: all NVIDIA GPUs are assumed to be connected.
        joined = tuple(bus_id for bus_id, vendor in accelerators if vendor == "10de")
        forest.peers = [("NVSwitch", joined, None)] if len(joined) > 1 else []
        forest.warnings.append(
            CodedWarning(
                WarningCode.NVSWITCH_MEMBERS_ASSUMED,
                f"the file has {len(switches)} NVSwitches and does not specify which GPUs they join: all {len(joined)} "
                "GPUs are assumed to be joined",
            )
        )
    return forest


#: PCI identifiers of NVIDIA boards with NVLink, from the PCI ID Repository: SXM2 of P100 and V100, SXM3, SXM4, SXM5.
_SXM_BOARDS = ("15f9", "1db1", "1db5", "1db8", "20b0", "20b2", "2330", "2335", "2901")
#: Words in the name of processors that connect GPUs by NVLink.
_NVLINK_PROCESSORS = ("POWER8NVL", "POWER9")


def _links_missing(root: Element) -> list[CodedWarning]:
    """Return a warning about NVLink that the boards or the processor have, in a file without direct links."""
    types = [e.attributes.get("pci_type", "") for e in root.walk() if e.attributes.get("type") == "PCIDev"]
    boards = [text for text in types if re.search(rf"\[10de:(?:{'|'.join(_SXM_BOARDS)})\]", text)]
    infos = [e.attributes for e in root.walk() if e.tag == "info" and e.attributes.get("name") == "CPUModel"]
    names = " ".join(info.get("value", "").upper() for info in infos)
    processor = next((word for word in _NVLINK_PROCESSORS if word in names), None)
    if not boards or (len(boards) < 2 and processor is None):
        return []
    ends = f"each other and to the {processor} processors" if processor else "each other"
    text = (
        f"{len(boards)} GPUs are SXM boards, which NVLink connects to {ends}, but the file has no NVLink: all copies "
        "are forecast over PCIe, several times slower. Import the file that NCCL_TOPO_DUMP_FILE writes, or "
        "'nvidia-smi topo -m'"
    )
    return [CodedWarning(WarningCode.PEER_LINKS_UNKNOWN, text)]


class _Host(NamedTuple):
    """Host bridge with the nearest NUMA node."""

    name: str
    numa_node: int | None


def _nearest_node(above: list[Element]) -> int | None:
    """Return the NUMA node of the innermost object that has one; None if it has several."""
    for element in reversed(above):
        nodes = [child for child in element.children if child.attributes.get("type") == "NUMANode"]
        if element.attributes.get("type") == "NUMANode":
            nodes = [element]
        if nodes:
            number = nodes[0].attributes.get("os_index", "")
            return int(number) if len(nodes) == 1 and re.fullmatch("[0-9]{1,6}", number) else None
    return None


def _numa_nodes(socket: Element) -> tuple[int, ...]:
    """Return the numbers of the NUMA nodes of a package."""
    numbers = [e.attributes.get("os_index", "") for e in socket.walk() if e.attributes.get("type") == "NUMANode"]
    return tuple(sorted({int(number) for number in numbers if re.fullmatch("[0-9]{1,6}", number)}))


#: Prefixes of OS device names that contain the GPU numbers of a library.
_NUMBERING = ("cuda", "nvml", "rsmi")


def _device_numbers(element: Element) -> dict[str, int]:
    """Return the number of a GPU in each library, keyed by the prefix of the library."""
    names = [e.attributes.get("name", "") for e in element.walk() if e.attributes.get("type") == "OSDev"]
    found = [re.fullmatch(f"({'|'.join(_NUMBERING)})([0-9]{{1,6}})", name) for name in names]
    return {match[1]: int(match[2]) for match in found if match is not None}


def _card_name(element: Element) -> str:
    """Return the name of a card: its OpenFabrics device or its network interface."""
    named = [e.attributes for e in element.walk() if e.attributes.get("type") == "OSDev" and e.attributes.get("name")]
    for kinds in (("3", "OpenFabrics"), ("2", "Network")):
        for attributes in named:
            if any(kind in attributes.get("osdev_type", "").split("|") for kind in kinds):
                return attributes["name"]
    return ""


_PEER_DISTANCES = {"NVLinkBandwidth": "NVLink", "XGMIBandwidth": "xGMI"}


#: Name for a processor as the endpoint of a link (POWER systems), and the object types that hwloc uses for it.
_SOCKET, _SOCKET_TYPES = "socket", ("Package", "NUMANode", "Group", "Machine")


def _matrices(root: Element, bus_ids: dict[str, str], path: str) -> list[tuple[str, dict[tuple[str, str], int]]]:
    """Return the bandwidth matrices of the file.

    Each element consists of the kind of link and the bandwidth of each ordered pair of endpoints in MB/s.
    """
    matrices = []
    for matrix in (e for e in root.children if e.attributes.get("name") in _PEER_DISTANCES):
        kind = _PEER_DISTANCES[matrix.attributes["name"]]
        indexes = " ".join(e.text for e in matrix.children if e.tag == "indexes").split()
        values = " ".join(e.text for e in matrix.children if e.tag == "u64values").split()
        ends = [
            _SOCKET if index.partition(":")[0] in _SOCKET_TYPES else bus_ids.get(index.rpartition(":")[2], "")
            for index in indexes
        ]
        stated = matrix.attributes.get("nbobjs", "")
        if re.fullmatch("[0-9]{1,6}", stated) and len(ends) != int(stated):
            raise InputError(
                f"{matrix.attributes['name']} names {len(ends)} devices, expected {stated} (nbobjs)",
                path=path,
                line=matrix.line,
            )
        if len(values) != len(ends) ** 2 or not all(re.fullmatch("[0-9]{1,20}", value) for value in values):
            raise InputError(
                f"{matrix.attributes['name']} holds {len(values)} values for {len(ends)} devices, expected "
                f"{len(ends) ** 2} whole numbers",
                path=path,
                line=matrix.line,
            )
        # A GPU may have several OS devices with one row each, some of them without values: keep the maximum.
        bandwidths: dict[tuple[str, str], int] = {}
        for position, value in enumerate(map(int, values)):
            pair = ends[position // len(ends)], ends[position % len(ends)]
            bandwidths[pair] = max(bandwidths.get(pair, 0), value)
        matrices.append((kind, bandwidths))
    return matrices


@dataclass(frozen=True)
class _Place:
    """Position of a GPU in the device tree: its bridge and its socket."""

    device: Device
    bridge: Device
    socket: Device


def _links_to_sockets(
    matrices: list[tuple[str, dict[tuple[str, str], int]]], gpus: dict[str, _Place]
) -> list[CodedWarning]:
    """Move GPUs with NVLink to the processor to a link of that rate.

    Copies through the processor use NVLink instead of PCIe on such machines. The returned warnings name these links.
    """
    warnings = []
    for kind, carried in matrices:
        joined = {
            bus_id: value * 1e6
            for (bus_id, end), value in carried.items()
            if end == _SOCKET and bus_id in gpus and value * 1e6 > (gpus[bus_id].device.bytes_per_s or 0.0)
        }
        for bus_id, bytes_per_s in joined.items():
            position = gpus[bus_id]
            position.device.bytes_per_s = bytes_per_s
            # The route to the processor does not pass the PCIe switches above the GPU.
            position.bridge.children = [child for child in position.bridge.children if child is not position.device]
            position.socket.children.append(position.device)
        if joined:
            warnings.append(
                CodedWarning(
                    WarningCode.NVLINK_TO_PROCESSOR,
                    f"{kind} joins {len(joined)} GPUs to their processor at {min(joined.values()) / 1e9:.4g} GB/s or "
                    f"more: copies through the processor use {kind} instead of PCIe",
                )
            )
    return warnings


def _hwloc_peers(
    matrices: list[tuple[str, dict[tuple[str, str], int]]], accelerators: set[str], switches: set[str]
) -> list[tuple[str, tuple[str, ...], float | None]]:
    """Return the direct links between GPUs, from the bandwidth matrices of the file."""
    peers: list[tuple[str, tuple[str, ...], float | None]] = []
    for kind, carried in matrices:
        to_switches: dict[str, int] = {}
        for (source, target), value in carried.items():
            if not value or source == target or source not in accelerators:
                continue
            if target in switches:
                to_switches[source] = to_switches.get(source, 0) + value
            elif target in accelerators and source < target:
                peers.append((kind, (source, target), min(value, carried[target, source] or value) * 1e6))
        if len(to_switches) > 1:
            peers.append(("NVSwitch", tuple(to_switches), min(to_switches.values()) * 1e6))
    return list(dict.fromkeys(peers))


def _hwloc_device(element: Element, path: str) -> Device:
    text = element.attributes.get("pci_link_speed", "0")
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 <= speed * 1e9 <= FASTEST_BYTES_PER_S:
        raise InputError(f"pci_link_speed is '{text}', expected a number in GB/s", path=path, line=element.line)
    return Device(element.attributes.get("pci_busid", ""), speed * 1e9 or None, element.line)


def _read(text: Text) -> Iterator[Reading]:
    root = parse_xml(text)
    forest = _forest(root, text.path)
    yield Reading([text.fact(Quantity.TOPOLOGY, forest, root.line, forest.program)], program=forest.program)


FORMAT = Format(
    "hwloc XML",
    Content.TOPOLOGY,
    "lstopo --of xml --whole-io machine.xml",
    '<object type="PCIDev" os_index="36864" gp_index="9" pci_busid="0000:09:00.0" pci_type="0302 [10de:20b5]">',
    lambda text: xml_root(text) == "topology",
    _read,
    "hwloc.xml",
    versions="2.x, 3.0",
)
