"""Import PCIe trees from hwloc XML (format 2.x and 3.0) and NCCL topology XML.

Rules of studies/pcie.md 1.1: host bridges of one package form one root complex;
bridges with one child collapse; sockets without accelerators are left out.
"""

from __future__ import annotations

import itertools
import xml.sax
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from fabricast.errors import InputError
from fabricast.pcie.tree import PcieTree, Vertex
from fabricast.units import pcie_bytes_per_s

__all__ = ["import_xml"]

#: PCI classes of accelerators: 3D controller, other display, processing accelerator, co-processor.
ACCELERATOR_CLASSES = ("0302", "0380", "1200", "0b40")
_DISPLAY_CLASS = "0300"
_DISPLAY_VENDORS = ("10de", "1002")  # NVIDIA, AMD
_BRIDGE_CLASS = "0604"
_LARGEST_FILE_BYTES = 256 << 20
_DEEPEST = 200


@dataclass
class _Element:
    """An XML element with the line it starts on."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[_Element] = field(default_factory=list)

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


class _Reader(xml.sax.ContentHandler):
    def __init__(self) -> None:
        super().__init__()
        self.root: _Element | None = None
        self._stack: list[_Element] = []
        self._locator: xml.sax.xmlreader.Locator | None = None

    def setDocumentLocator(self, locator: xml.sax.xmlreader.Locator) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: xml.sax.xmlreader.AttributesImpl) -> None:
        line = (self._locator.getLineNumber() if self._locator else None) or 0
        if len(self._stack) >= _DEEPEST:
            raise xml.sax.SAXParseException(
                f"elements nest deeper than {_DEEPEST}",
                None,
                self._locator,  # type: ignore[arg-type]
            )
        element = _Element(name, dict(attrs.items()), line)
        if self._stack:
            self._stack[-1].children.append(element)
        else:
            self.root = element
        self._stack.append(element)

    def endElement(self, name: str) -> None:
        self._stack.pop()


def _parse(path: Path) -> _Element:
    reader = _Reader()
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise InputError("is larger than 256 MiB, expected a topology", path=path)
        parser = defusedxml.sax.make_parser()
        # hwloc files name a DTD: it is passed over, never loaded; entities stay refused.
        parser.forbid_external = False
        parser.setFeature(xml.sax.handler.feature_external_ges, False)
        parser.setContentHandler(reader)
        with path.open("rb") as stream:
            parser.parse(stream)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except DefusedXmlException as error:
        raise InputError(
            "declares XML entities, which are refused; expected hwloc or NCCL XML without them",
            path=path,
            line=1,
        ) from error
    except xml.sax.SAXParseException as error:
        raise InputError(f"is not XML: {error.getMessage()}", path=path, line=error.getLineNumber()) from error
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
        sockets, others = _read_hwloc(root, include_display, path)
        dialect = f"hwloc XML {root.attributes.get('version', '1.x')}"
    elif root.tag == "system":
        sockets, others = _read_nccl(root, include_display, path)
        dialect = "NCCL topology XML"
    else:
        raise InputError(
            f"has the root element <{root.tag}>, expected <topology> (hwloc) or <system> (NCCL)",
            path=path,
            line=root.line,
        )
    sockets = [pruned for socket in sockets if (pruned := _prune(socket)) is not None]
    if not sockets:
        classes = ", ".join(ACCELERATOR_CLASSES)
        display = "" if include_display else "; --include-display also takes graphics cards (0300)"
        raise InputError(
            f"holds no accelerator (PCI classes {classes}) but {others} other PCI devices{display}", path=path
        )
    return _build(path.stem, sockets, dialect)


def _is_accelerator(pci_class: str, vendor: str, include_display: bool) -> bool:
    display = include_display and pci_class == _DISPLAY_CLASS and vendor in _DISPLAY_VENDORS
    return pci_class in ACCELERATOR_CLASSES or display


def _read_hwloc(root: _Element, include_display: bool, path: Path) -> tuple[list[_Device], int]:
    """Return one device tree per package and the number of other PCI devices."""
    packages: dict[int, _Device] = {}
    others = 0

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

    def visit(element: _Element, above: list[_Element], bridge: _Device | None) -> None:
        nonlocal others
        kind = element.attributes.get("type")
        if kind == "Bridge" and element.attributes.get("bridge_type", "").startswith("0-"):
            bridge = socket_of(above)
        elif kind in ("Bridge", "PCIDev") and bridge is not None:
            device = _hwloc_device(element, path)
            fields = element.attributes.get("pci_type", "").replace("[", " ").replace(":", " ").split()
            pci_class, vendor = (*fields, "", "")[:2]
            device.is_accelerator = kind == "PCIDev" and _is_accelerator(pci_class, vendor, include_display)
            others += kind == "PCIDev" and not device.is_accelerator
            bridge.children.append(device)
            bridge = device
        for child in element.children:
            visit(child, [*above, element], bridge)

    visit(root, [], None)
    return list(packages.values()), others


def _hwloc_device(element: _Element, path: Path) -> _Device:
    text = element.attributes.get("pci_link_speed", "0")
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 <= speed < 1e6:
        raise InputError(f"pci_link_speed is '{text}', expected GB/s as a number", path=path, line=element.line)
    return _Device(element.attributes.get("pci_busid", ""), speed * 1e9 or None, element.line)


def _read_nccl(root: _Element, include_display: bool, path: Path) -> tuple[list[_Device], int]:
    """Return one device tree per CPU and the number of other PCI devices."""
    others = 0

    def visit(element: _Element, above: _Device) -> None:
        nonlocal others
        for child in element.children:
            if child.tag != "pci":
                continue
            device = _Device(child.attributes.get("busid", ""), _nccl_rate(child, path), child.line)
            above.children.append(device)
            gpus = [e for e in child.children if e.tag == "gpu"]
            pci_class = child.attributes.get("class", "").removeprefix("0x")[:4].lower()
            vendor = child.attributes.get("vendor", "").removeprefix("0x").lower()
            device.is_accelerator = bool(gpus) or _is_accelerator(pci_class, vendor, include_display)
            others += not device.is_accelerator and pci_class != _BRIDGE_CLASS
            if gpus and gpus[0].attributes.get("dev", "").isdecimal():
                device.number = int(gpus[0].attributes["dev"])
            visit(child, device)

    sockets = []
    for cpu in (element for element in root.children if element.tag == "cpu"):
        socket = _Device("", None, cpu.line)
        visit(cpu, socket)
        sockets.append(socket)
    if not sockets:
        raise InputError("has no <cpu> element, expected NCCL topology XML", path=path, line=root.line)
    return sockets, others


def _nccl_rate(element: _Element, path: Path) -> float | None:
    """Return the link rate; None where it is missing."""
    speed, width = element.attributes.get("link_speed", ""), element.attributes.get("link_width", "")
    if not speed or speed.lower().startswith("unknown") or width in ("", "0"):
        return None
    try:
        return pcie_bytes_per_s(float(speed.split()[0]), int(width))
    except (ValueError, IndexError) as error:
        raise InputError(
            f"link_speed is '{speed}' and link_width '{width}', expected such as '16 GT/s' and '16'",
            path=path,
            line=element.line,
        ) from error


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
        known = [rate for rate in (device.bytes_per_s, child.bytes_per_s) if rate is not None]
        child.bytes_per_s = min(known, default=None)
        return child
    return device


def _devices(device: _Device) -> Iterator[_Device]:
    for child in device.children:
        yield child
        yield from _devices(child)


def _build(name: str, sockets: list[_Device], dialect: str) -> PcieTree:
    below = [device for socket in sockets for device in _devices(socket)]
    endpoints = [device for device in below if device.is_accelerator]
    rates = Counter(device.bytes_per_s for device in endpoints if device.bytes_per_s)
    reference = max(rates, key=lambda rate: (rates[rate], rate)) if rates else None
    numbers = [device.number for device in endpoints]
    if None not in numbers and len(set(numbers)) == len(numbers):
        labels = {id(device): str(device.number) for device in endpoints}
        order = {id(device): device.number or 0 for device in endpoints}
    else:
        labels = {id(device): str(number) for number, device in enumerate(endpoints)}
        order = {id(device): number for number, device in enumerate(endpoints)}

    def capacity(device: _Device) -> float:
        return device.bytes_per_s / reference if device.bytes_per_s and reference else 1.0

    inner: list[Vertex] = [Vertex("SYS", "system", None)] if len(sockets) > 1 else []
    leaves: list[tuple[int, Vertex]] = []
    switch_number = itertools.count()

    def add(device: _Device, parent: str) -> None:
        if device.is_accelerator:
            leaf = Vertex(labels[id(device)], "endpoint", parent, capacity(device), device.bus_id)
            leaves.append((order[id(device)], leaf))
            return
        switch = f"S{next(switch_number)}"
        inner.append(Vertex(switch, "switch", parent, capacity(device), device.bus_id))
        for child in device.children:
            add(child, switch)

    for number, socket in enumerate(sockets):
        root_complex = f"RC{number}" if len(sockets) > 1 else "RC"
        inner.append(Vertex(root_complex, "root_complex", "SYS" if len(sockets) > 1 else None))
        for child in socket.children:
            add(child, root_complex)
    missing = sum(device.bytes_per_s is None for device in below)
    notes = []
    if missing:
        assumed = f"{reference / 1e9:.2f} GB/s" if reference else "one equal, unknown rate"
        notes.append(f"{missing} of {len(below)} links record no speed; assumed {assumed}")
    if len(sockets) > 1:
        notes.append("the socket interconnect has capacity 1 (assumed); traffic over it is outside the study")
    vertices = (*inner, *(leaf for _, leaf in sorted(leaves, key=lambda pair: pair[0])))
    clean = "".join(c if c.isalnum() or c in "_.-" else "_" for c in name) or "imported"
    return PcieTree(clean, vertices, reference, f"imported from {dialect}", "measured", tuple(notes))
