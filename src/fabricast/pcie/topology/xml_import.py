"""Import PCIe trees from hwloc XML (format 2.x and 3.0) and NCCL topology XML.

Host bridges of one package form one root complex; bridges with one child collapse; sockets
without accelerators are left out. Direct links between GPUs (NVLink, xGMI) are kept beside
the tree.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fabricast.core.errors import InputError, NoAcceleratorError
from fabricast.pcie.topology.hwloc import read_hwloc
from fabricast.pcie.topology.nccl import read_nccl
from fabricast.pcie.topology.parts import MemoryNode, PeerLink, Vertex, pci_address
from fabricast.pcie.topology.tree import PcieTree
from fabricast.pcie.topology.xml_devices import ACCELERATOR_CLASSES, Device, Machine, parse

__all__ = ["import_xml"]

#: At this rate, Gen1 x16, a link is more likely asleep than slow.
_IDLE_BYTES_PER_S = 4.0e9
#: Place of the first network card, above all device numbers.
_AFTER_ACCELERATORS = 1 << 30


#: What a reader should know who compares with a program's numbers.
_NUMBERED = (
    "the file does not number its GPUs; here they have the order of their bus ids, as nvidia-smi counts: see that your "
    "program numbers them alike before you compare rates"
)


def import_xml(path: Path | str, *, include_display: bool = False, network_cards: bool = False) -> PcieTree:
    """Import a tree from hwloc or NCCL XML, told apart by the root element.

    Parameters
    ----------
    path : Path or str
        The file.
    include_display : bool, default False
        Whether NVIDIA and AMD display controllers (class 0300) count as accelerators.
    network_cards : bool, default False
        Whether network cards are endpoints too, under the names that programs know (``mlx5_0``), else ``NIC0``.

    Returns
    -------
    PcieTree
        Endpoints have the numbers that the file gives them (hwloc: devices of CUDA, NVML or
        ROCm SMI; NCCL: `dev`), else those of the order of bus ids, and the notes say so. Link
        capacities are multiples of the commonest accelerator link rate; missing speeds
        count as that rate, and the tree's notes say so.

    Raises
    ------
    InputError
        If the file is not such XML or holds no accelerator.
    """
    path = Path(path)
    root = parse(path)
    if root.tag == "topology":
        machine = read_hwloc(root, include_display, network_cards, path)
        dialect = f"hwloc XML {root.attributes.get('version', '1.x')[:10]}"
    elif root.tag == "system":
        machine = read_nccl(root, include_display, network_cards, path)
        dialect = "NCCL topology XML"
    else:
        raise InputError(
            f"has the root element <{root.tag}>, expected <topology> (hwloc) or <system> (NCCL)",
            path=path,
            line=root.line,
        )
    machine.sockets = [pruned for socket in machine.sockets if (pruned := _prune(socket)) is not None]
    if not any(device.is_accelerator for socket in machine.sockets for device in _devices(socket)):
        classes = ", ".join(ACCELERATOR_CLASSES)
        raise NoAcceleratorError(
            f"holds no accelerator (PCI classes {classes}) but {machine.others} other PCI devices", path=path
        )
    try:
        return _build(path.stem, machine, dialect)
    except InputError as error:
        raise InputError(str(error), path=path) from error


def _prune(device: Device) -> Device | None:
    """Drop what leads to no accelerator and collapse bridges with one child."""
    if device.is_endpoint:
        device.children = []
        return device
    device.children = [kept for child in device.children if (kept := _prune(child)) is not None]
    if not device.children:
        return None
    if len(device.children) == 1 and device.bus_id:
        child = device.children[0]
        # A chain is as fast as its slowest link.
        known = [one for one in (child, device) if one.bytes_per_s is not None]
        slowest = min(known, key=lambda one: one.bytes_per_s or 0.0, default=child)
        child.bytes_per_s, child.generation, child.width = slowest.bytes_per_s, slowest.generation, slowest.width
        child.bridges_above += device.bridges_above + 1
        return child
    return device


def _devices(device: Device) -> Iterator[Device]:
    for child in device.children:
        yield child
        yield from _devices(child)


def _build(name: str, machine: Machine, dialect: str) -> PcieTree:
    sockets = machine.sockets
    below = [device for socket in sockets for device in _devices(socket)]
    endpoints = [device for device in below if device.is_accelerator]
    # Where accelerators record no speed, the links above them stand for theirs.
    rates = Counter(device.bytes_per_s for device in endpoints if device.bytes_per_s) or Counter(
        device.bytes_per_s for device in below if device.bytes_per_s
    )
    reference = max(rates, key=lambda rate: (rates[rate], rate)) if rates else None
    order, told = _numbers(endpoints)
    labels = {device: str(number) for device, number in order.items()}
    taken = set(labels.values())
    cards = [device for device in below if device.network_card is not None]
    for number, device in enumerate(_in_bus_order(cards)):
        # Two functions of one card may have one name.
        card = device.network_card or ""
        labels[id(device)] = f"NIC{number}" if card in taken or not card else card
        order[id(device)] = _AFTER_ACCELERATORS + number
        taken.add(labels[id(device)])

    def vertex(device: Device, name: str, kind: str, parent: str) -> Vertex:
        capacity = device.bytes_per_s / reference if device.bytes_per_s and reference else 1.0
        switches = device.bridges_above // machine.bridges_of_a_switch
        return Vertex(
            name, kind, parent, capacity, device.bus_id, (), device.generation, device.width, switches,
            device.network_card is not None,
        )  # fmt: skip

    inner: list[Vertex] = [Vertex("SYS", "system", None)] if len(sockets) > 1 else []
    leaves: list[tuple[int, Vertex]] = []
    memory: list[MemoryNode] = []
    switch_number = itertools.count()

    def add(device: Device, parent: str) -> None:
        if device.is_endpoint:
            leaves.append((order[id(device)], vertex(device, labels[id(device)], "endpoint", parent)))
            return
        switch = f"S{next(switch_number)}"
        inner.append(vertex(device, switch, "switch", parent))
        for child in device.children:
            add(child, switch)

    for number, socket in enumerate(sockets):
        root_complex = f"RC{number}" if len(sockets) > 1 else "RC"
        parent = "SYS" if len(sockets) > 1 else None
        inner.append(Vertex(root_complex, "root_complex", parent, label=_numa_label(socket)))
        memory += [MemoryNode(f"NUMA{node}", root_complex) for node in socket.numa_nodes]
        for child in socket.children:
            add(child, root_complex)
    vertices = (*inner, *(leaf for _, leaf in sorted(leaves, key=lambda pair: pair[0])))
    clean = "".join(c if c.isalnum() or c in "_.-" else "_" for c in name)[:200] or "imported"
    peers = _peer_links(machine, {device.bus_id.lower(): labels[id(device)] for device in endpoints})
    unnumbered = [] if told or len(endpoints) == 1 else [_NUMBERED]
    return PcieTree(
        clean, vertices, None, f"imported from {dialect}", "measured",
        (*machine.notes, *_notes(below, sockets, reference), *_over_others(peers), *unnumbered),
        reference, peers, memory_nodes=tuple(memory),
    )  # fmt: skip


def _in_bus_order(devices: list[Device]) -> list[Device]:
    """Return devices in the order of their PCI addresses, or of the file where one has none."""
    known = all(pci_address(device.bus_id) for device in devices)
    return sorted(devices, key=lambda device: pci_address(device.bus_id)) if known else devices


def _numbers(endpoints: list[Device]) -> tuple[dict[int, int], bool]:
    """Return the number of each accelerator by its identity, and whether the file tells it."""
    given = [device.number for device in endpoints]
    if None not in given and len(set(given)) == len(given):
        return {id(device): device.number or 0 for device in endpoints}, True
    return {id(device): number for number, device in enumerate(_in_bus_order(endpoints))}, False


def _numa_label(socket: Device) -> str:
    numbers = ", ".join(map(str, socket.numa_nodes))
    return f"NUMA node{'s' if len(socket.numa_nodes) > 1 else ''} {numbers}" if numbers else ""


def _notes(below: list[Device], sockets: list[Device], reference: float | None) -> list[str]:
    missing = sum(device.bytes_per_s is None for device in below)
    notes = []
    if missing:
        assumed = f"assumed {reference / 1e9:.2f} GB/s" if reference else "expected a machine that records them"
        notes.append(f"{missing} of {len(below)} links record no speed; {assumed}")
    if reference is not None and reference <= _IDLE_BYTES_PER_S:
        notes.append(
            f"links were at {reference / 1e9:.2f} GB/s when the file was written; idle GPUs slow their links down, so "
            "compare with a file written under load"
        )
    slow = [
        device
        for device in below
        if device.bytes_per_s and reference and device.bytes_per_s <= reference / 4 and device.network_card is None
    ]
    if slow:
        named = ", ".join(device.bus_id for device in slow[:8])
        notes.append(
            f"{len(slow)} links are four times slower than the others or more ({named}): idle GPUs slow theirs down, "
            "so compare with a file written under load"
        )
    divided = [socket for socket in sockets if len(socket.numa_nodes) > 1]
    if divided:
        notes.append(
            f"a socket has the {_numa_label(divided[0])}; the file does not tell which host bridge is next to which: "
            "copies of 'H' are of any of them; measure copies of each (fabricast probes)"
        )
    if len(sockets) > 1:
        notes.append("the socket interconnect has capacity 1 (assumed); traffic over it is outside the study")
    return notes


def _over_others(peers: Sequence[PeerLink]) -> list[str]:
    """Say which pairs xGMI joins over other GPUs only: it forwards, so that copies may take no link of the tree."""
    joined = [link.endpoints for link in peers if link.kind == "xGMI"]
    links = {frozenset(pair) for ends in joined for pair in itertools.combinations(ends, 2)}
    groups: list[set[str]] = []
    for ends in joined:
        near = [group for group in groups if group & set(ends)]
        groups = [group for group in groups if group not in near] + [set(ends).union(*near)]
    # Numbers in their order, whatever their digits.
    ordered = [sorted(group, key=lambda name: (len(name), name)) for group in groups]
    pairs = [pair for group in ordered for pair in itertools.combinations(group, 2) if frozenset(pair) not in links]
    if not pairs:
        return []
    text = (
        f"xGMI joins {len(pairs)} pair{'s' if len(pairs) > 1 else ''} of GPUs, such as {pairs[0][0]} and "
        f"{pairs[0][1]}, over other GPUs only; the file does not tell whether their copies take it: they are forecast "
        "over PCIe, and one measured alone tells"
    )
    return [text]


def _peer_links(machine: Machine, labels: dict[str, str]) -> tuple[PeerLink, ...]:
    """Return direct links between endpoints of the tree."""
    found = []
    for kind, bus_ids, bytes_per_s in machine.peers:
        ends = tuple(labels[bus_id.lower()] for bus_id in bus_ids if bus_id.lower() in labels)
        if len(ends) > 1:
            found.append(PeerLink(kind, ends, bytes_per_s))
    return tuple(found)
