"""Devices of a machine as files describe them, and the tree of the chosen ones.

Each host bridge is a root complex; NCCL XML does not contain host bridges, so that a socket is one root complex there.
Bridges with one child are merged into a link. Sockets and host bridges without accelerators are omitted. Direct links
between GPUs (NVLink, xGMI) are stored separately from the tree.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fabricast.core.errors import InputError, NoAcceleratorError
from fabricast.core.units import pcie_link_bytes_per_s
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.topology.memory import UNLIMITED
from fabricast.pcie.topology.parts import (
    BRIDGES_ASSUMED,
    INTER_SOCKET_ASSUMED,
    LINK_SPEED_REMEDY,
    MemoryNode,
    PeerLink,
    Vertex,
    imported_name,
    pci_address,
)
from fabricast.pcie.topology.tree import PcieTree

#: PCI classes of accelerators: 3D controller, other display, processing accelerator, co-processor.
ACCELERATOR_CLASSES = ("0302", "0380", "1200", "0b40")
#: PCI classes of network cards: Ethernet, InfiniBand, other.
NETWORK_CLASSES = ("0200", "0207", "0280")
_DISPLAY_CLASS = "0300"
_DISPLAY_VENDORS = ("10de", "1002")  # NVIDIA, AMD
BRIDGE_CLASS = "0604"
SWITCH_CLASS = "0680"
#: Libraries whose GPU numbers a file may have, in order of preference.
_NUMBERING = ("cuda", "nvml", "rsmi", "nccl")
#: Rate of Gen1 x16 in bytes/s. A link of at most this rate is probably in a power-saving state.
_IDLE_BYTES_PER_S = 4.0e9
#: Share of the common rate at which a link is slow: Gen1 x16 is 0.254 of Gen3 x16, whose lines are coded differently.
_SLOW = 0.26
#: Relative tolerance of recorded rates.
_SAME_RATE = 0.02
#: Sort key of the first network card, above all accelerator numbers.
_AFTER_ACCELERATORS = 1 << 30


#: CodedWarning for files without GPU numbers.
_NUMBERED = CodedWarning(
    WarningCode.GPU_NUMBERS_ASSUMED,
    "the file does not number its GPUs: they are numbered in the order of their PCI addresses, as nvidia-smi does. "
    "Check that your program uses the same order before you compare rates",
)


@dataclass
class Device:
    """PCI bridge or device of a file; a socket has no address."""

    bus_id: str
    bytes_per_s: float | None
    line: int
    children: list[Device] = field(default_factory=list)
    #: Number of a GPU in each library that the file names.
    numbers: dict[str, int] = field(default_factory=dict)
    is_accelerator: bool = False
    #: Whether the device is a graphics card of NVIDIA or AMD.
    is_display: bool = False
    #: Name of a network card, which may be empty; None for other devices.
    network_card: str | None = None
    #: Rate of all ports of a network card in bytes/s with the headers of PCIe; None if unknown.
    card_bytes_per_s: float | None = None
    generation: int | None = None
    width: int | None = None
    #: Number of bridges with a single child that were merged into the link to the parent.
    bridges_above: int = 0
    #: Address of the bridge above, whose link is the slowest of the merged ones; empty if it is that of the device.
    slowest_bridge: str = ""
    #: NUMA node numbers of a socket, as used by the operating system.
    numa_nodes: tuple[int, ...] = ()
    #: Host bridge above a device at the top of a socket; empty if the file has none. Its NUMA node; None if unknown.
    host_bridge: str = ""
    numa_node: int | None = None
    #: Warnings about the link of the device, and about its ports if it is a network card.
    warnings: tuple[CodedWarning, ...] = ()
    card_warnings: tuple[CodedWarning, ...] = ()


@dataclass
class DeviceForest:
    """Devices of all sockets that a file describes."""

    program: str  # Program that wrote the file, with its version
    sockets: list[Device]  # One device tree per socket
    others: int  # Number of PCI devices that are neither bridges nor possible endpoints
    #: Number of bridges per switch in the file: hwloc lists upstream and downstream ports, NCCL whole switches.
    bridges_of_a_switch: int
    #: Direct links: kind, bus ids, and bandwidth of each direction in bytes/s.
    peers: list[tuple[str, tuple[str, ...], float | None]] = field(default_factory=list)
    #: Warnings about the machine, and about its network cards.
    warnings: list[CodedWarning] = field(default_factory=list)
    card_warnings: list[CodedWarning] = field(default_factory=list)
    #: Whether the recorded link speeds are those that card and slot can reach, also while the link is idle.
    has_maximum_speeds: bool = False
    has_sockets: bool = True  # Whether the file states which devices are on one socket


def is_accelerator(pci_class: str) -> bool:
    """Return whether a PCI device of a class is an accelerator."""
    return pci_class in ACCELERATOR_CLASSES


def is_display(pci_class: str, vendor: str) -> bool:
    """Return whether a PCI device is a graphics card of NVIDIA or AMD."""
    return pci_class == _DISPLAY_CLASS and vendor in _DISPLAY_VENDORS


def tree_of_devices(
    forest: DeviceForest, path: Path | str, *, include_display: bool = False, network_cards: bool = False
) -> PcieTree:
    """Return the tree of the accelerators in a file, with graphics cards and network cards on request."""
    chosen = [_chosen(socket, include_display, network_cards) for socket in forest.sockets]
    sockets = [socket for socket in chosen if socket is not None]
    if not any(device.is_accelerator for socket in sockets for device in _devices(socket)):
        classes = ", ".join(ACCELERATOR_CLASSES)
        raise NoAcceleratorError(
            f"holds no accelerator (PCI classes {classes}) but {_count_others(forest)} other PCI devices", path=path
        )
    warnings = [*forest.warnings, *(forest.card_warnings if network_cards else ())]
    try:
        return _build(Path(path).stem, forest, sockets, warnings)
    except InputError as error:
        raise InputError(error.reason, path=path, line=error.line) from error


def _count_others(forest: DeviceForest) -> int:
    """Return the number of devices that are no accelerators."""
    every = [device for socket in forest.sockets for device in _devices(socket)]
    return forest.others + sum(device.is_display or device.network_card is not None for device in every)


def _chosen(device: Device, include_display: bool, network_cards: bool) -> Device | None:
    """Return a device with the branches that have endpoints; bridges with one child become part of a link."""
    is_endpoint = device.is_accelerator or (include_display and device.is_display)
    is_card = network_cards and device.network_card is not None and not is_endpoint
    if is_endpoint or is_card:
        limit = device.card_bytes_per_s if is_card else None
        is_limited = limit is not None and device.bytes_per_s is not None and limit < device.bytes_per_s
        endpoint = replace(
            device,
            children=[],
            is_accelerator=is_endpoint,
            network_card=device.network_card if is_card else None,
            warnings=(*device.warnings, *(device.card_warnings if is_card else ())),
        )
        return replace(endpoint, bytes_per_s=limit, generation=None, width=None) if is_limited else endpoint
    below = [_chosen(child, include_display, network_cards) for child in device.children]
    children = [child for child in below if child is not None]
    if not children:
        return None
    if len(children) == 1 and device.bus_id:
        child = children[0]
        # The slowest link determines the rate of a chain.
        links = [one for one in (child, device) if one.bytes_per_s is not None]
        slowest = min(links, key=lambda one: one.bytes_per_s or 0.0, default=child)
        return replace(
            child,
            bytes_per_s=slowest.bytes_per_s,
            generation=slowest.generation,
            width=slowest.width,
            slowest_bridge=child.slowest_bridge if slowest is child else device.bus_id,
            bridges_above=child.bridges_above + device.bridges_above + 1,
            host_bridge=device.host_bridge,
            numa_node=device.numa_node,
            warnings=(*device.warnings, *child.warnings),
        )
    return replace(device, children=children, network_card=None)


def _devices(device: Device) -> Iterator[Device]:
    for child in device.children:
        yield child
        yield from _devices(child)


def _refuse_duplicates(endpoints: Sequence[Device]) -> None:
    """Raise an error if two accelerators have one address: the file is damaged, or holds a machine twice."""
    lines: dict[str, int] = {}
    for device in endpoints:
        first = lines.setdefault(device.bus_id, device.line)
        if device.bus_id and first != device.line:
            raise InputError(
                f"describes {device.bus_id} a second time (first in line {first}), expected each device once",
                line=device.line,
            )


def _build(name: str, forest: DeviceForest, sockets: list[Device], warnings: list[CodedWarning]) -> PcieTree:
    below = [device for socket in sockets for device in _devices(socket)]
    endpoints = [device for device in below if device.is_accelerator]
    _refuse_duplicates(endpoints)
    # Without recorded link speeds of accelerators, the reference rate is that of the links above them.
    rates = Counter(device.bytes_per_s for device in endpoints if device.bytes_per_s) or Counter(
        device.bytes_per_s for device in below if device.bytes_per_s
    )
    reference = max(rates, key=lambda rate: (rates[rate], rate)) if rates else None
    order, numbered = _numbers(endpoints)
    labels = {device: str(number) for device, number in order.items()}
    used_names = set(labels.values())
    cards = [device for device in below if device.network_card is not None]
    for number, device in enumerate(_in_bus_order(cards)):
        # Two functions of one card may have the same name.
        card = device.network_card or ""
        labels[id(device)] = f"NIC{number}" if card in used_names or not card else card
        order[id(device)] = _AFTER_ACCELERATORS + number
        used_names.add(labels[id(device)])

    def vertex(device: Device, name: str, kind: str, parent: str) -> Vertex:
        capacity = device.bytes_per_s / reference if device.bytes_per_s and reference else 1.0
        switches = device.bridges_above // forest.bridges_of_a_switch
        return Vertex(
            name,
            kind,
            parent,
            capacity,
            device.bus_id,
            (),
            device.generation,
            device.width,
            switches,
            device.network_card is not None,
        )

    inner: list[Vertex] = [Vertex("SYS", "system", None)] if len(sockets) > 1 else []
    leaves: list[tuple[int, Vertex]] = []
    memory: list[MemoryNode] = []
    switch_number = itertools.count()

    def add(device: Device, parent: str) -> None:
        if device.is_accelerator or device.network_card is not None:
            leaves.append((order[id(device)], vertex(device, labels[id(device)], "endpoint", parent)))
            return
        switch = f"S{next(switch_number)}"
        inner.append(vertex(device, switch, "switch", parent))
        for child in device.children:
            add(child, switch)

    roots = [_host_bridges(socket) for socket in sockets]
    numbers = (f"RC{number}" if sum(map(len, roots)) > 1 else "RC" for number in itertools.count())
    for number, bridges in enumerate(roots):
        parent, capacity = "SYS" if len(sockets) > 1 else None, 1.0
        if len(bridges) > 1:
            inner.append(Vertex(f"SOCKET{number}", "socket", parent))
            parent, capacity = f"SOCKET{number}", UNLIMITED
        for bridge in bridges:
            root_complex = next(numbers)
            inner.append(Vertex(root_complex, "root_complex", parent, capacity, label=_numa_label(bridge)))
            memory += [MemoryNode(f"NUMA{node}", root_complex) for node in bridge.numa_nodes]
            for child in bridge.children:
                add(child, root_complex)
    vertices = (*inner, *(leaf for _, leaf in sorted(leaves, key=lambda pair: pair[0])))
    peers = _peer_links(forest, {device.bus_id.lower(): labels[id(device)] for device in endpoints})
    unnumbered = [] if numbered or len(endpoints) == 1 else [_NUMBERED]
    return PcieTree(
        imported_name(name),
        vertices,
        None,
        f"imported from {forest.program}",
        "measured",
        (
            *warnings,
            *(warning for device in below for warning in device.warnings),
            *_link_warnings(forest, sockets, below, reference),
            *_over_others(peers),
            *unnumbered,
        ),
        reference,
        peers,
        memory_nodes=tuple(memory),
    )


def _host_bridges(socket: Device) -> list[Device]:
    """Return the host bridges of a socket with their devices and NUMA nodes.

    A NUMA node is that of a host bridge if no other host bridge has it.
    """
    below: dict[str, list[Device]] = {}
    for child in socket.children:
        below.setdefault(child.host_bridge, []).append(child)
    if len(below) < 2:
        return [socket]
    nodes = [children[0].numa_node for children in below.values()]
    return [
        Device(
            "", None, socket.line, children, numa_nodes=(node,) if node is not None and nodes.count(node) == 1 else ()
        )
        for children, node in zip(below.values(), nodes, strict=True)
    ]


def _in_bus_order(devices: list[Device]) -> list[Device]:
    """Return devices in the order of their PCI addresses; file order if one has none."""
    addressed = all(pci_address(device.bus_id) for device in devices)
    return sorted(devices, key=lambda device: pci_address(device.bus_id)) if addressed else devices


def _numbers(endpoints: list[Device]) -> tuple[dict[int, int], bool]:
    """Return the accelerator numbers by ``id``, and whether the file contains them."""
    kind = next((kind for kind in _NUMBERING if all(kind in device.numbers for device in endpoints)), None)
    if kind is not None and len({device.numbers[kind] for device in endpoints}) == len(endpoints):
        return {id(device): device.numbers[kind] for device in endpoints}, True
    return {id(device): number for number, device in enumerate(_in_bus_order(endpoints))}, False


def _numa_label(socket: Device) -> str:
    numbers = ", ".join(map(str, socket.numa_nodes))
    return f"NUMA node{'s' if len(socket.numa_nodes) > 1 else ''} {numbers}" if numbers else ""


def _link_text(device: Device) -> str:
    """Return a link as text: address, rate, and generation with width if they are recorded or follow from the rate."""
    rate = device.bytes_per_s or 0.0
    if device.generation is not None and device.width is not None:
        names = [f"Gen{device.generation} x{device.width}"]
    else:
        names = [
            f"Gen{generation} x{width}"
            for generation, width in itertools.product(range(1, 7), (16, 8, 4, 1))
            if abs(rate / pcie_link_bytes_per_s(generation, width) - 1) < _SAME_RATE
        ]
    place = f"{device.slowest_bridge}, above {device.bus_id}" if device.slowest_bridge else device.bus_id
    return f"{place}: {rate / 1e9:.4g} GB/s" + (f", as {' or '.join(names)}" if names else "")


def _link_warnings(
    forest: DeviceForest, sockets: list[Device], below: list[Device], reference: float | None
) -> list[CodedWarning]:
    """Return warnings about link speeds, NUMA nodes and the inter-socket link."""
    warnings: list[CodedWarning] = []

    def add(code: WarningCode, text: str) -> None:
        warnings.append(CodedWarning(code, text))

    missing = [device.bus_id for device in below if device.bytes_per_s is None]
    if missing:
        assumed = f"assumed {reference / 1e9:.2f} GB/s" if reference else LINK_SPEED_REMEDY
        named = f"{len(missing)} of {len(below)} links have no recorded speed ({', '.join(missing[:4])})"
        add(WarningCode.LINK_SPEED_MISSING, f"{named}; {assumed}")
    if reference is not None and reference <= _IDLE_BYTES_PER_S and not forest.has_maximum_speeds:
        add(
            WarningCode.IDLE_LINKS,
            f"links were at {reference / 1e9:.2f} GB/s when the file was written. Idle GPUs reduce their link speed: "
            "compare with a file written under load",
        )
    slow = [
        device
        for device in below
        if device.bytes_per_s
        and reference
        and device.bytes_per_s <= reference * _SLOW
        and device.network_card is None
        and not device.warnings
    ]
    if slow:
        named = "; ".join(map(_link_text, slow[:8]))
        reason = (
            "this is the most that the bridges above reach, such as a chipset: use a slot of the processor"
            if forest.has_maximum_speeds and all(device.slowest_bridge for device in slow)
            else "this is the most that card and slot can reach: check the slot and the riser"
            if forest.has_maximum_speeds
            else "idle GPUs reduce their link speed: compare with a file written under load, or with 'sudo lspci -vv' "
            "(LnkCap has the maximum)"
        )
        add(
            WarningCode.SLOW_LINKS,
            f"{len(slow)} link{'s are' if len(slow) > 1 else ' is'} about a quarter as fast as the others or slower, "
            f"which have {(reference or 0) / 1e9:.4g} GB/s ({named}): {reason}",
        )
    bridges = [_host_bridges(socket) for socket in sockets]
    divided = [
        socket
        for socket, own in zip(sockets, bridges, strict=True)
        if len(socket.numa_nodes) > 1 and (len(own) == 1 or any(child.numa_node is None for child in socket.children))
    ]
    if divided:
        add(
            WarningCode.NUMA_NODES_MERGED,
            f"a socket has the {_numa_label(divided[0])}, and the file does not specify which host bridge is nearest "
            "to which: copies of 'H' use any of them. Measure copies of each node ('fabricast probes "
            "machine.yaml --run')",
        )
    if any(len(own) > 1 for own in bridges):
        if forest.has_sockets:
            warnings.append(BRIDGES_ASSUMED)
        else:
            add(
                WarningCode.SOCKETS_UNKNOWN,
                f"{forest.program} prints no sockets: the link between host bridges is assumed not to be a bottleneck, "
                "and the range extends to one PCIe link between sockets; 'nvidia-smi topo -m' and 'lspci -vv' name "
                "sockets",
            )
    if len(sockets) > 1:
        warnings.append(INTER_SOCKET_ASSUMED)
    return warnings


def _over_others(peers: Sequence[PeerLink]) -> list[CodedWarning]:
    """Return a warning about GPU pairs that xGMI connects only through other GPUs.

    xGMI can forward traffic, so copies between such GPUs may not use the PCIe tree.
    """
    joined = [link.endpoints for link in peers if link.kind == "xGMI"]
    links = {frozenset(pair) for ends in joined for pair in itertools.combinations(ends, 2)}
    groups: list[set[str]] = []
    for ends in joined:
        near = [group for group in groups if group & set(ends)]
        groups = [group for group in groups if group not in near] + [set(ends).union(*near)]
    # Sorting by length first puts numeric names in numeric order.
    ordered = [sorted(group, key=lambda name: (len(name), name)) for group in groups]
    pairs = [pair for group in ordered for pair in itertools.combinations(group, 2) if frozenset(pair) not in links]
    if not pairs:
        return []
    text = (
        f"xGMI joins {len(pairs)} pair{'s' if len(pairs) > 1 else ''} of GPUs, such as {pairs[0][0]} and "
        f"{pairs[0][1]}, through other GPUs only, and the file does not specify whether their copies are forwarded: "
        "such copies are predicted over PCIe. Measure one of them to determine the route"
    )
    return [CodedWarning(WarningCode.XGMI_FORWARDING, text)]


def _peer_links(forest: DeviceForest, labels: dict[str, str]) -> tuple[PeerLink, ...]:
    """Return the direct links between endpoints of the tree, by endpoint name."""
    links = []
    for kind, bus_ids, bytes_per_s in forest.peers:
        ends = tuple(labels[bus_id.lower()] for bus_id in bus_ids if bus_id.lower() in labels)
        if len(ends) > 1:
            links.append(PeerLink(kind, ends, bytes_per_s))
    return tuple(links)
