"""XML parser and device classes shared by the readers of hwloc and NCCL XML."""

from __future__ import annotations

import io
import re
import xml.sax
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from fabricast.core.errors import InputError
from fabricast.core.warnings import Warning
from fabricast.inputs.files import read_bytes

__all__ = [
    "ACCELERATOR_CLASSES",
    "BRIDGE_CLASS",
    "NETWORK_CLASSES",
    "SWITCH_CLASS",
    "Device",
    "Element",
    "Machine",
    "is_accelerator",
    "parse",
    "xml_range",
]

#: PCI classes of accelerators: 3D controller, other display, processing accelerator, co-processor.
ACCELERATOR_CLASSES = ("0302", "0380", "1200", "0b40")
#: PCI classes of network cards: Ethernet, InfiniBand, other.
NETWORK_CLASSES = ("0200", "0207", "0280")
_DISPLAY_CLASS = "0300"
_DISPLAY_VENDORS = ("10de", "1002")  # NVIDIA, AMD
BRIDGE_CLASS = "0604"
SWITCH_CLASS = "0680"
_XML = re.compile(r"^[ \t]*(?:<\?xml\b|<!DOCTYPE topology\b|<topology\b|<system\b)", re.MULTILINE)
_FIRST_WORDS = ("<?xml", "<!DOCTYPE topology", "<topology", "<system")
_END = re.compile(r"</(?:topology|system)>")
_MOST_ELEMENTS = 300_000
_DEEPEST = 200


@dataclass
class Element:
    """XML element with its line number."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def walk(self) -> Iterator[Element]:
        """Yield this element and all elements below it, parents first."""
        stack = [self]
        while stack:
            top = stack.pop()
            yield top
            stack.extend(reversed(top.children))


@dataclass
class Device:
    """PCI bridge or device of an XML file, before the topology is built."""

    bus_id: str
    bytes_per_s: float | None
    line: int
    children: list[Device] = field(default_factory=list)
    number: int | None = None
    is_accelerator: bool = False
    #: Name of a network card that becomes an endpoint; None for other devices.
    network_card: str | None = None
    generation: int | None = None
    width: int | None = None
    #: Number of bridges with a single child that were merged into the link to the parent.
    bridges_above: int = 0
    #: NUMA node numbers of a socket, as used by the operating system.
    numa_nodes: tuple[int, ...] = ()
    #: Host bridge above a device at the top of a socket; empty if the file has none. Its NUMA node; None if unknown.
    host_bridge: str = ""
    numa_node: int | None = None

    @property
    def is_endpoint(self) -> bool:
        """True if the device becomes an endpoint of the topology."""
        return self.is_accelerator or self.network_card is not None


@dataclass
class Machine:
    """Content of an XML file, before the topology is built."""

    sockets: list[Device]
    #: Number of other PCI devices.
    others: int
    #: Number of bridges per switch in the file: hwloc lists upstream and downstream ports, NCCL whole switches.
    bridges_of_a_switch: int
    #: Direct links as (kind, bus ids, bandwidth of each direction in bytes/s or None).
    peers: list[tuple[str, tuple[str, ...], float | None]] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    #: Whether the recorded link speeds are those that card and slot can reach, also while the link is idle.
    has_maximum_speeds: bool = False


class _Reader(xml.sax.ContentHandler):
    def __init__(self, lines_before: int) -> None:
        super().__init__()
        self._lines_before = lines_before
        self.root: Element | None = None
        self._stack: list[Element] = []
        self._count = 0
        self._locator: xml.sax.xmlreader.Locator | None = None

    def setDocumentLocator(self, locator: xml.sax.xmlreader.Locator) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: xml.sax.xmlreader.AttributesImpl) -> None:
        line = self._lines_before + ((self._locator.getLineNumber() if self._locator else None) or 0)
        self._count += 1
        problem = None
        if len(self._stack) >= _DEEPEST:
            problem = f"elements nest deeper than {_DEEPEST} levels"
        elif self._count > _MOST_ELEMENTS:
            problem = f"contains more than {_MOST_ELEMENTS:,} elements"
        if problem:
            raise xml.sax.SAXParseException(problem, None, self._locator)  # type: ignore[arg-type]
        element = Element(name, dict(attrs.items()), line)
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


def xml_range(text: str) -> tuple[int, int] | None:
    r"""Return where XML of hwloc or NCCL begins and ends in a text, such as a pasted terminal; None if there is none.

    >>> xml_range("$ cat topo.xml\n<system>\n</system>\n$ exit"), xml_range("GPU0 GPU1")
    ((15, 33), None)
    """
    # Most texts have no XML, and the pattern is slow.
    begin = _XML.search(text) if any(word in text for word in _FIRST_WORDS) else None
    if begin is None:
        return None
    ends = [match.end() for match in _END.finditer(text, begin.end())]
    return begin.start(), ends[-1] if ends else len(text)


def parse(path: Path) -> Element:
    """Parse the XML in a file with limits for untrusted input; other lines before and after it are ignored."""
    content = read_bytes(path)
    # Latin-1 has one character per byte.
    begin, end = xml_range(content.decode("latin-1")) or (0, len(content))
    lines_before = content.count(b"\n", 0, begin)
    reader = _Reader(lines_before)
    try:
        parser = defusedxml.sax.make_parser()
        # hwloc files reference a DTD, which is ignored and never loaded. Entities are still rejected.
        parser.forbid_external = False
        parser.setFeature(xml.sax.handler.feature_external_ges, False)
        parser.setContentHandler(reader)
        parser.parse(io.BytesIO(content[begin:end].lstrip(b" \t")))
    except DefusedXmlException as error:
        raise InputError(
            "declares XML entities, expected hwloc or NCCL XML without entities", path=path, line=1
        ) from error
    except xml.sax.SAXParseException as error:
        line = (error.getLineNumber() or 1) + lines_before
        raise InputError(f"is not XML: {error.getMessage()}", path=path, line=line) from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        # Unknown encodings, or encodings that expat does not support.
        raise InputError(f"is not XML: {error}", path=path, line=1) from error
    if reader.root is None:
        raise InputError("is empty, expected hwloc or NCCL XML", path=path)
    return reader.root


def is_accelerator(pci_class: str, vendor: str, include_display: bool) -> bool:
    """Return whether a PCI device is an accelerator, by its class and vendor."""
    display = include_display and pci_class == _DISPLAY_CLASS and vendor in _DISPLAY_VENDORS
    return pci_class in ACCELERATOR_CLASSES or display
