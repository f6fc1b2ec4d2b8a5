"""Import PCIe trees from hwloc XML (format 2.x and 3.0) and NCCL topology XML.

Host bridges of one package form one root complex; bridges with one child collapse; sockets
without accelerators are left out. Direct links between GPUs (NVLink, xGMI) are kept beside
the tree.
"""

from __future__ import annotations

import io
import itertools
import re
import xml.sax
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from fabricast.errors import InputError
from fabricast.files import read_bytes
from fabricast.pcie.tree import FASTEST_BYTES_PER_S, PcieTree, PeerLink, Vertex
from fabricast.units import pcie_bytes_per_s, pcie_generation

__all__ = ["import_xml"]

#: PCI classes of accelerators: 3D controller, other display, processing accelerator, co-processor.
ACCELERATOR_CLASSES = ("0302", "0380", "1200", "0b40")
_DISPLAY_CLASS = "0300"
_DISPLAY_VENDORS = ("10de", "1002")  # NVIDIA, AMD
_BRIDGE_CLASS = "0604"
_SWITCH_CLASS = "0680"
_MOST_ELEMENTS = 300_000
_DEEPEST = 200
#: At this rate, Gen1 x16, a link is more likely asleep than slow.
_IDLE_BYTES_PER_S = 4.0e9


@dataclass
class _Element:
    """An XML element with the line it starts on."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[_Element] = field(default_factory=list)
    text: str = ""

    def walk(self) -> Iterator[_Element]:
        stack = [self]
        while stack:
            top = stack.pop()
            yield top
            stack.extend(reversed(top.children))


@dataclass
class _Device:
    """A bridge or accelerator while the tree is being read."""

    bus_id: str
    bytes_per_s: float | None
    line: int
    children: list[_Device] = field(default_factory=list)
    number: int | None = None
    is_accelerator: bool = False
    generation: int | None = None
    width: int | None = None
    #: Bridges without a branch that were collapsed into the link above.
    bridges_above: int = 0


@dataclass
class _Machine:
    """What a file tells before the tree is built."""

    sockets: list[_Device]
    #: Other PCI devices.
    others: int
    #: Bridges of a file that make one switch: hwloc lists ports, NCCL whole switches.
    bridges_of_a_switch: int
    #: Direct links as (kind, bus ids).
    peers: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _Reader(xml.sax.ContentHandler):
    def __init__(self) -> None:
        super().__init__()
        self.root: _Element | None = None
        self._stack: list[_Element] = []
        self._count = 0
        self._locator: xml.sax.xmlreader.Locator | None = None

    def setDocumentLocator(self, locator: xml.sax.xmlreader.Locator) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: xml.sax.xmlreader.AttributesImpl) -> None:
        line = (self._locator.getLineNumber() if self._locator else None) or 0
        self._count += 1
        problem = None
        if len(self._stack) >= _DEEPEST:
            problem = f"elements nest deeper than {_DEEPEST}"
        elif self._count > _MOST_ELEMENTS:
            problem = f"holds more than {_MOST_ELEMENTS:,} elements"
        if problem:
            raise xml.sax.SAXParseException(problem, None, self._locator)  # type: ignore[arg-type]
        element = _Element(name, dict(attrs.items()), line)
        if self._stack:
            self._stack[-1].children.append(element)
        else:
            self.root = element
        self._stack.append(element)

    def characters(self, content: str) -> None:
        if self._stack and self._stack[-1].tag in ("indexes", "u64values"):
            self._stack[-1].text += content

    def endElement(self, name: str) -> None:
        self._stack.pop()


def _parse(path: Path) -> _Element:
    reader = _Reader()
    content = read_bytes(path)
    try:
        parser = defusedxml.sax.make_parser()
        # hwloc files name a DTD: it is passed over, never loaded; entities stay refused.
        parser.forbid_external = False
        parser.setFeature(xml.sax.handler.feature_external_ges, False)
        parser.setContentHandler(reader)
        parser.parse(io.BytesIO(content))
    except DefusedXmlException as error:
        raise InputError(
            "declares XML entities, which are refused; expected hwloc or NCCL XML without them",
            path=path,
            line=1,
        ) from error
    except xml.sax.SAXParseException as error:
        raise InputError(f"is not XML: {error.getMessage()}", path=path, line=error.getLineNumber()) from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        # Encodings that Python does not know or expat cannot take.
        raise InputError(f"is not XML: {error}", path=path, line=1) from error
    if reader.root is None:
        raise InputError("is empty, expected hwloc or NCCL XML", path=path)
    return reader.root


def import_xml(path: Path | str, *, include_display: bool = False) -> PcieTree:
    """Import a tree from hwloc or NCCL XML, told apart by the root element.

    Parameters
    ----------
    path : Path or str
        The file.
    include_display : bool, default False
        Whether NVIDIA and AMD display controllers (class 0300) count as accelerators.

    Returns
    -------
    PcieTree
        Endpoints numbered in document order (hwloc) or by device number (NCCL). Link
        capacities are multiples of the commonest accelerator link rate; missing speeds
        count as that rate, and the tree's notes say so.

    Raises
    ------
    InputError
        If the file is not such XML or holds no accelerator.
    """
    path = Path(path)
    root = _parse(path)
    if root.tag == "topology":
        machine = _read_hwloc(root, include_display, path)
        dialect = f"hwloc XML {root.attributes.get('version', '1.x')[:10]}"
    elif root.tag == "system":
        machine = _read_nccl(root, include_display, path)
        dialect = "NCCL topology XML"
    else:
        raise InputError(
            f"has the root element <{root.tag}>, expected <topology> (hwloc) or <system> (NCCL)",
            path=path,
            line=root.line,
        )
    machine.sockets = [pruned for socket in machine.sockets if (pruned := _prune(socket)) is not None]
    if not machine.sockets:
        classes = ", ".join(ACCELERATOR_CLASSES)
        display = "" if include_display else "; --include-display also takes graphics cards (0300)"
        raise InputError(
            f"holds no accelerator (PCI classes {classes}) but {machine.others} other PCI devices{display}", path=path
        )
    try:
        return _build(path.stem, machine, dialect)
    except InputError as error:
        raise InputError(str(error), path=path) from error


def _is_accelerator(pci_class: str, vendor: str, include_display: bool) -> bool:
    display = include_display and pci_class == _DISPLAY_CLASS and vendor in _DISPLAY_VENDORS
    return pci_class in ACCELERATOR_CLASSES or display


def _read_hwloc(root: _Element, include_display: bool, path: Path) -> _Machine:
    """Return one device tree per package, and the direct links."""
    packages: dict[int, _Device] = {}
    others = 0
    # Bus id of every PCI device by the number that distances use, own or of an OS device below it.
    bus_ids: dict[str, str] = {}
    accelerators: list[tuple[str, str]] = []
    switches: list[str] = []

    def socket_of(above: list[_Element]) -> _Device:
        owner = above[0]
        for element in above:
            kind = element.attributes.get("type")
            inside = [e for e in element.walk() if e.attributes.get("type") in ("Package", "Socket")]
            if kind in ("Package", "Socket"):
                owner = element
                break
            if len(inside) == 1:
                owner = inside[0]
        return packages.setdefault(id(owner), _Device("", None, owner.line))

    def visit(element: _Element, above: list[_Element], bridge: _Device | None, bus_id: str) -> None:
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
            device.is_accelerator = kind == "PCIDev" and _is_accelerator(pci_class, vendor, include_display)
            others += kind == "PCIDev" and not device.is_accelerator
            if device.is_accelerator:
                accelerators.append((bus_id, vendor))
            if element.attributes.get("subtype") == "NVSwitch" or (pci_class, vendor) == (_SWITCH_CLASS, "10de"):
                switches.append(bus_id)
            bridge.children.append(device)
            bridge = device
        for child in element.children:
            visit(child, [*above, element], bridge, bus_id)

    visit(root, [], None, "")
    machine = _Machine(list(packages.values()), others, bridges_of_a_switch=2)
    machine.peers = _hwloc_peers(root, bus_ids, {bus_id for bus_id, _ in accelerators}, set(switches), path)
    if switches and not machine.peers:
        # The switches are there, who is joined is not said: all GPUs that could be.
        joined = tuple(bus_id for bus_id, vendor in accelerators if vendor == "10de")
        machine.peers = [("NVSwitch", joined)] if len(joined) > 1 else []
        machine.notes.append(
            f"the file shows {len(switches)} NVSwitches, not which GPUs they join; all {len(joined)} assumed"
        )
    return machine


_PEER_DISTANCES = {"NVLinkBandwidth": "NVLink", "XGMIBandwidth": "xGMI"}


def _hwloc_peers(
    root: _Element, bus_ids: dict[str, str], accelerators: set[str], switches: set[str], path: Path
) -> list[tuple[str, tuple[str, ...]]]:
    """Return direct links from hwloc's matrices of link bandwidths."""
    peers: list[tuple[str, tuple[str, ...]]] = []
    for matrix in (e for e in root.children if e.attributes.get("name") in _PEER_DISTANCES):
        kind = _PEER_DISTANCES[matrix.attributes["name"]]
        indexes = " ".join(e.text for e in matrix.children if e.tag == "indexes").split()
        values = " ".join(e.text for e in matrix.children if e.tag == "u64values").split()
        ends = [bus_ids.get(index.rpartition(":")[2], "") for index in indexes]
        if len(values) != len(ends) ** 2 or not all(re.fullmatch("[0-9]{1,20}", value) for value in values):
            raise InputError(
                f"{matrix.attributes['name']} holds {len(values)} values for {len(ends)} devices, expected "
                f"{len(ends) ** 2} whole numbers",
                path=path,
                line=matrix.line,
            )
        through_switch = []
        for i, one in enumerate(ends):
            row = values[i * len(ends) : (i + 1) * len(ends)]
            joined = [other for other, value in zip(ends, row, strict=True) if int(value) and other != one]
            if one in accelerators and switches.intersection(joined):
                through_switch.append(one)
            peers += [
                (kind, (one, other))
                for other in joined
                if one in accelerators and other in accelerators and one < other
            ]
        if len(through_switch) > 1:
            peers.append(("NVSwitch", tuple(dict.fromkeys(through_switch))))
    return list(dict.fromkeys(peers))


def _hwloc_device(element: _Element, path: Path) -> _Device:
    text = element.attributes.get("pci_link_speed", "0")
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 <= speed * 1e9 <= FASTEST_BYTES_PER_S:
        raise InputError(f"pci_link_speed is '{text}', expected GB/s as a number", path=path, line=element.line)
    return _Device(element.attributes.get("pci_busid", ""), speed * 1e9 or None, element.line)


def _read_nccl(root: _Element, include_display: bool, path: Path) -> _Machine:
    """Return one device tree per CPU, and the direct links."""
    machine = _Machine([], 0, bridges_of_a_switch=1)
    hosts: dict[str, int] = {}
    known: set[str] = set()
    accelerators: set[str] = set()

    def visit(element: _Element, above: _Device) -> None:
        for child in element.children:
            if child.tag != "pci":
                continue
            device = _nccl_device(child, path)
            above.children.append(device)
            gpus = [e for e in child.children if e.tag == "gpu"]
            if len(gpus) > 1:
                raise InputError(
                    f"PCI device '{device.bus_id}' holds {len(gpus)} GPUs, expected one; how they share the link, the "
                    "file does not tell",
                    path=path,
                    line=gpus[1].line,
                )
            if device.bus_id and device.bus_id in known:
                raise InputError(f"busid '{device.bus_id}' is a duplicate", path=path, line=child.line)
            known.add(device.bus_id)
            pci_class = child.attributes.get("class", "").removeprefix("0x")[:4].lower()
            vendor = child.attributes.get("vendor", "").removeprefix("0x").lower()
            device.is_accelerator = bool(gpus) or _is_accelerator(pci_class, vendor, include_display)
            if device.is_accelerator:
                accelerators.add(device.bus_id.lower())
            machine.others += not device.is_accelerator and pci_class != _BRIDGE_CLASS
            if gpus and re.fullmatch("[0-9]{1,6}", gpus[0].attributes.get("dev", "")):
                device.number = int(gpus[0].attributes["dev"])
            visit(child, device)

    for cpu in (element for element in root.children if element.tag == "cpu"):
        hosts.setdefault(cpu.attributes.get("host_hash", ""), cpu.line)
        socket = _Device("", None, cpu.line)
        visit(cpu, socket)
        machine.sockets.append(socket)
    if not machine.sockets:
        raise InputError("has no <cpu> element, expected NCCL topology XML", path=path, line=root.line)
    if len(hosts) > 1:
        raise InputError(
            f"holds {len(hosts)} hosts (host_hash {', '.join(map(repr, hosts))}), expected one: copies between hosts "
            "take a network, not this tree",
            path=path,
            line=list(hosts.values())[1],
        )
    machine.peers = _nccl_peers(root, accelerators, path)
    return machine


_NCCL_PEERS = {"nvlink": "NVLink", "xgmi": "xGMI"}


def _nccl_peers(root: _Element, accelerators: set[str], path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Return direct links from what GPUs list; links to a switch join all that have one."""
    owner: dict[int, str] = {}
    for pci in (e for e in root.walk() if e.tag == "pci"):
        for gpu in (e for e in pci.children if e.tag == "gpu"):
            owner[id(gpu)] = pci.attributes.get("busid", "").lower()
    peers: list[tuple[str, tuple[str, ...]]] = []
    switched: list[str] = []
    for gpu in (e for e in root.walk() if id(e) in owner):
        own = owner[id(gpu)]
        for link in (e for e in gpu.children if e.tag in _NCCL_PEERS):
            target, count = link.attributes.get("target", "").lower(), link.attributes.get("count", "1")
            if not re.fullmatch("[0-9]{1,3}", count):
                raise InputError(f"count is '{count}', expected a number of links", path=path, line=link.line)
            if int(count) == 0:
                continue
            if target in accelerators and target != own:
                peers.append((_NCCL_PEERS[link.tag], (min(own, target), max(own, target))))
            elif link.attributes.get("tclass", "").lower().removeprefix("0x") == f"{_SWITCH_CLASS}00":
                switched.append(own)
    if len(set(switched)) > 1:
        peers.append(("NVSwitch", tuple(dict.fromkeys(switched))))
    return list(dict.fromkeys(peers))


def _nccl_device(element: _Element, path: Path) -> _Device:
    """Return a device with the generation, width and rate of its link; None where they are missing."""
    speed, width = element.attributes.get("link_speed", ""), element.attributes.get("link_width", "")
    device = _Device(element.attributes.get("busid", ""), None, element.line)
    if not speed or speed.lower().startswith("unknown") or width in ("", "0"):
        return device
    try:
        if not re.fullmatch("[0-9]{1,3}", width):
            raise ValueError
        rate = float(speed.split()[0])
        device.bytes_per_s = pcie_bytes_per_s(rate, int(width))
        device.generation, device.width = pcie_generation(rate), int(width)
    except (ValueError, IndexError) as error:
        raise InputError(
            f"link_speed is '{speed}' and link_width '{width}', expected such as '16 GT/s' and '16'",
            path=path,
            line=element.line,
        ) from error
    return device


def _prune(device: _Device) -> _Device | None:
    """Drop what leads to no accelerator and collapse bridges with one child."""
    if device.is_accelerator:
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


def _devices(device: _Device) -> Iterator[_Device]:
    for child in device.children:
        yield child
        yield from _devices(child)


def _build(name: str, machine: _Machine, dialect: str) -> PcieTree:
    sockets = machine.sockets
    below = [device for socket in sockets for device in _devices(socket)]
    endpoints = [device for device in below if device.is_accelerator]
    # Where accelerators record no speed, the links above them stand for theirs.
    rates = Counter(device.bytes_per_s for device in endpoints if device.bytes_per_s) or Counter(
        device.bytes_per_s for device in below if device.bytes_per_s
    )
    reference = max(rates, key=lambda rate: (rates[rate], rate)) if rates else None
    numbers = [device.number for device in endpoints]
    if None not in numbers and len(set(numbers)) == len(numbers):
        labels = {id(device): str(device.number) for device in endpoints}
        order = {id(device): device.number or 0 for device in endpoints}
    else:
        labels = {id(device): str(number) for number, device in enumerate(endpoints)}
        order = {id(device): number for number, device in enumerate(endpoints)}

    def vertex(device: _Device, name: str, kind: str, parent: str) -> Vertex:
        capacity = device.bytes_per_s / reference if device.bytes_per_s and reference else 1.0
        switches = device.bridges_above // machine.bridges_of_a_switch
        return Vertex(
            name, kind, parent, capacity, device.bus_id, (), device.generation, device.width, switches
        )  # fmt: skip

    inner: list[Vertex] = [Vertex("SYS", "system", None)] if len(sockets) > 1 else []
    leaves: list[tuple[int, Vertex]] = []
    switch_number = itertools.count()

    def add(device: _Device, parent: str) -> None:
        if device.is_accelerator:
            leaves.append((order[id(device)], vertex(device, labels[id(device)], "endpoint", parent)))
            return
        switch = f"S{next(switch_number)}"
        inner.append(vertex(device, switch, "switch", parent))
        for child in device.children:
            add(child, switch)

    for number, socket in enumerate(sockets):
        root_complex = f"RC{number}" if len(sockets) > 1 else "RC"
        inner.append(Vertex(root_complex, "root_complex", "SYS" if len(sockets) > 1 else None))
        for child in socket.children:
            add(child, root_complex)
    vertices = (*inner, *(leaf for _, leaf in sorted(leaves, key=lambda pair: pair[0])))
    clean = "".join(c if c.isalnum() or c in "_.-" else "_" for c in name)[:200] or "imported"
    return PcieTree(
        clean, vertices, None, f"imported from {dialect}", "measured",
        (*machine.notes, *_notes(below, sockets, reference)),
        reference, _peer_links(machine, {device.bus_id.lower(): labels[id(device)] for device in endpoints}),
    )  # fmt: skip


def _notes(below: list[_Device], sockets: list[_Device], reference: float | None) -> list[str]:
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
    slow = [device for device in below if device.bytes_per_s and reference and device.bytes_per_s <= reference / 4]
    if slow:
        named = ", ".join(device.bus_id for device in slow[:8])
        notes.append(
            f"{len(slow)} links are four times slower than the others or more ({named}): idle GPUs slow theirs down, "
            "so compare with a file written under load"
        )
    if len(sockets) > 1:
        notes.append("the socket interconnect has capacity 1 (assumed); traffic over it is outside the study")
    return notes


def _peer_links(machine: _Machine, labels: dict[str, str]) -> tuple[PeerLink, ...]:
    """Return direct links between endpoints of the tree."""
    found = []
    for kind, bus_ids in machine.peers:
        ends = tuple(labels[bus_id.lower()] for bus_id in bus_ids if bus_id.lower() in labels)
        if len(ends) > 1:
            found.append(PeerLink(kind, ends))
    return tuple(found)
