"""Devices and links from hwloc XML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.pcie.topology.checks import FASTEST_BYTES_PER_S
from fabricast.pcie.topology.xml_devices import NETWORK_CLASSES, SWITCH_CLASS, Device, Element, Machine, is_accelerator

__all__ = ["read_hwloc"]


def read_hwloc(root: Element, include_display: bool, network_cards: bool, path: Path) -> Machine:
    """Return one device tree per package, and the direct links."""
    packages: dict[int, Device] = {}
    others = 0
    # Bus id of every PCI device by the number that distances use, own or of an OS device below it.
    bus_ids: dict[str, str] = {}
    accelerators: list[tuple[str, str]] = []
    switches: list[str] = []
    gpus: dict[str, _Place] = {}
    numbers: list[tuple[Device, dict[str, int]]] = []

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

    def visit(element: Element, above: list[Element], bridge: Device | None, bus_id: str) -> None:
        nonlocal others
        kind = element.attributes.get("type")
        if kind == "PCIDev":
            bus_id = element.attributes.get("pci_busid", "")
        if bus_id:
            bus_ids[element.attributes.get("gp_index", "")] = bus_id
        if kind == "Bridge" and element.attributes.get("bridge_type", "").startswith("0-"):
            bridge = socket_of(above)
        elif kind in ("Bridge", "PCIDev") and bridge is not None:
            device = _hwloc_device(element, path)
            fields = element.attributes.get("pci_type", "").replace("[", " ").replace(":", " ").split()
            pci_class, vendor = (*fields, "", "")[:2]
            device.is_accelerator = kind == "PCIDev" and is_accelerator(pci_class, vendor, include_display)
            if network_cards and kind == "PCIDev" and pci_class in NETWORK_CLASSES:
                device.network_card = _card_name(element)
            others += kind == "PCIDev" and not device.is_endpoint
            if device.is_accelerator:
                accelerators.append((bus_id, vendor))
                gpus[bus_id] = _Place(device, bridge, socket_of(above))
                numbers.append((device, _device_numbers(element)))
            if element.attributes.get("subtype") == "NVSwitch" or (pci_class, vendor) == (SWITCH_CLASS, "10de"):
                switches.append(bus_id)
            bridge.children.append(device)
            bridge = device
        for child in element.children:
            visit(child, [*above, element], bridge, bus_id)

    visit(root, [], None, "")
    kind = next((kind for kind in _NUMBERING if all(kind in own for _, own in numbers)), None)
    for device, own in numbers:
        device.number = own[kind] if kind is not None else None
    machine = Machine(list(packages.values()), others, bridges_of_a_switch=2)
    matrices = _matrices(root, bus_ids, path)
    machine.peers = _hwloc_peers(matrices, set(gpus), set(switches))
    machine.notes += _links_to_sockets(matrices, gpus)
    if switches and not machine.peers:
        # The switches are there, who is joined is not said: all GPUs that could be.
        joined = tuple(bus_id for bus_id, vendor in accelerators if vendor == "10de")
        machine.peers = [("NVSwitch", joined, None)] if len(joined) > 1 else []
        machine.notes.append(
            f"the file shows {len(switches)} NVSwitches, not which GPUs they join; all {len(joined)} assumed"
        )
    return machine


def _numa_nodes(socket: Element) -> tuple[int, ...]:
    """Return the numbers of the NUMA nodes of a package."""
    numbers = [e.attributes.get("os_index", "") for e in socket.walk() if e.attributes.get("type") == "NUMANode"]
    return tuple(sorted({int(number) for number in numbers if re.fullmatch("[0-9]{1,6}", number)}))


#: Devices of the operating system that tell how programs number GPUs, the best first.
_NUMBERING = ("cuda", "nvml", "rsmi")


def _device_numbers(element: Element) -> dict[str, int]:
    """Return the number of a GPU by the library that gives it."""
    names = [e.attributes.get("name", "") for e in element.walk() if e.attributes.get("type") == "OSDev"]
    found = [re.fullmatch(f"({'|'.join(_NUMBERING)})([0-9]{{1,6}})", name) for name in names]
    return {match[1]: int(match[2]) for match in found if match is not None}


def _card_name(element: Element) -> str:
    """Return how programs name a network card: its OpenFabrics device, else its network interface."""
    named = [e.attributes for e in element.walk() if e.attributes.get("type") == "OSDev" and e.attributes.get("name")]
    for kinds in (("3", "OpenFabrics"), ("2", "Network")):
        for attributes in named:
            if any(kind in attributes.get("osdev_type", "").split("|") for kind in kinds):
                return attributes["name"]
    return ""


_PEER_DISTANCES = {"NVLinkBandwidth": "NVLink", "XGMIBandwidth": "xGMI"}


#: End of a link that is the processor, as on machines with POWER, and what hwloc calls it.
_SOCKET, _SOCKET_TYPES = "socket", ("Package", "NUMANode", "Group", "Machine")


def _matrices(root: Element, bus_ids: dict[str, str], path: Path) -> list[tuple[str, dict[tuple[str, str], int]]]:
    """Return the kind of hwloc's matrices of link bandwidths, and what each pair of ends carries in MB/s each way."""
    found = []
    for matrix in (e for e in root.children if e.attributes.get("name") in _PEER_DISTANCES):
        kind = _PEER_DISTANCES[matrix.attributes["name"]]
        indexes = " ".join(e.text for e in matrix.children if e.tag == "indexes").split()
        values = " ".join(e.text for e in matrix.children if e.tag == "u64values").split()
        ends = [
            _SOCKET if index.partition(":")[0] in _SOCKET_TYPES else bus_ids.get(index.rpartition(":")[2], "")
            for index in indexes
        ]
        if len(values) != len(ends) ** 2 or not all(re.fullmatch("[0-9]{1,20}", value) for value in values):
            raise InputError(
                f"{matrix.attributes['name']} holds {len(values)} values for {len(ends)} devices, expected "
                f"{len(ends) ** 2} whole numbers",
                path=path,
                line=matrix.line,
            )
        # Several devices of a GPU may have a row each: what one of them lacks, another tells.
        carried: dict[tuple[str, str], int] = {}
        for place, value in enumerate(map(int, values)):
            pair = ends[place // len(ends)], ends[place % len(ends)]
            carried[pair] = max(carried.get(pair, 0), value)
        found.append((kind, carried))
    return found


@dataclass(frozen=True)
class _Place:
    """Where a GPU is: its bridge, and its socket."""

    device: Device
    bridge: Device
    socket: Device


def _links_to_sockets(matrices: list[tuple[str, dict[tuple[str, str], int]]], gpus: dict[str, _Place]) -> list[str]:
    """Put GPUs that NVLink joins to their processor on a link of that rate, and say so: copies take it, not PCIe."""
    notes = []
    for kind, carried in matrices:
        joined = {
            bus_id: value * 1e6
            for (bus_id, end), value in carried.items()
            if end == _SOCKET and bus_id in gpus and value * 1e6 > (gpus[bus_id].device.bytes_per_s or 0.0)
        }
        for bus_id, bytes_per_s in joined.items():
            place = gpus[bus_id]
            place.device.bytes_per_s = bytes_per_s
            # Switches of PCIe above it are not on the way.
            place.bridge.children = [child for child in place.bridge.children if child is not place.device]
            place.socket.children.append(place.device)
        if joined:
            notes.append(
                f"{kind} joins {len(joined)} GPUs to their processor at {min(joined.values()) / 1e9:.4g} GB/s or more: "
                "copies over the processor take it here, not PCIe"
            )
    return notes


def _hwloc_peers(
    matrices: list[tuple[str, dict[tuple[str, str], int]]], accelerators: set[str], switches: set[str]
) -> list[tuple[str, tuple[str, ...], float | None]]:
    """Return direct links between GPUs from matrices of link bandwidths."""
    peers: list[tuple[str, tuple[str, ...], float | None]] = []
    for kind, carried in matrices:
        to_switches: dict[str, int] = {}
        for (one, other), value in carried.items():
            if not value or one == other or one not in accelerators:
                continue
            if other in switches:
                to_switches[one] = to_switches.get(one, 0) + value
            elif other in accelerators and one < other:
                peers.append((kind, (one, other), min(value, carried[other, one] or value) * 1e6))
        if len(to_switches) > 1:
            peers.append(("NVSwitch", tuple(to_switches), min(to_switches.values()) * 1e6))
    return list(dict.fromkeys(peers))


def _hwloc_device(element: Element, path: Path) -> Device:
    text = element.attributes.get("pci_link_speed", "0")
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 <= speed * 1e9 <= FASTEST_BYTES_PER_S:
        raise InputError(f"pci_link_speed is '{text}', expected GB/s as a number", path=path, line=element.line)
    return Device(element.attributes.get("pci_busid", ""), speed * 1e9 or None, element.line)
