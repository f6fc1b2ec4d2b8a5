"""XML parser of the readers of hwloc, NCCL and nvidia-smi XML."""

from __future__ import annotations

import io
import re
import xml.sax
from collections.abc import Iterator
from dataclasses import dataclass, field

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from fabricast.core.errors import InputError
from fabricast.sources.text import Text

_XML = re.compile(r"^[ \t]*(?:<\?xml\b|<!DOCTYPE topology\b|<topology\b|<system\b|<nvidia_smi_log\b)", re.MULTILINE)
_FIRST_WORDS = ("<?xml", "<!DOCTYPE topology", "<topology", "<system", "<nvidia_smi_log")
_END = re.compile(r"</(?:topology|system|nvidia_smi_log)>")
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


class _Reader(xml.sax.ContentHandler):
    def __init__(self, lines_before: int) -> None:
        super().__init__()
        self._lines_before = lines_before
        self.root: Element | None = None
        self._stack: list[Element] = []
        # Parts of the text of each open element; the text of elements with others below them is of no use.
        self._parts: list[list[str]] = []
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
        self._parts.append([])

    def characters(self, content: str) -> None:
        if self._parts:
            self._parts[-1].append(content)

    def endElement(self, name: str) -> None:
        element, parts = self._stack.pop(), self._parts.pop()
        if not element.children:
            element.text = "".join(parts)


def _xml_range(text: str) -> tuple[int, int] | None:
    r"""Return where XML begins and ends in a text, such as a pasted terminal; None if there is none.

    >>> _xml_range("$ cat topo.xml\n<system>\n</system>\n$ exit"), _xml_range("GPU0 GPU1")
    ((15, 33), None)
    """
    # Most texts have no XML, and the pattern is slow.
    begin = _XML.search(text) if any(word in text for word in _FIRST_WORDS) else None
    if begin is None:
        return None
    ends = [match.end() for match in _END.finditer(text, begin.end())]
    return begin.start(), ends[-1] if ends else len(text)


_ROOT = re.compile(r"<(topology|system|nvidia_smi_log)\b")


def xml_root(text: Text) -> str:
    """Return the root element of the XML in a text, one of those of `_ROOT`; empty if there is none."""
    span = _xml_range(text.raw)
    match = None if span is None else _ROOT.search(text.raw, *span)
    return "" if match is None else match[1]


def parse_xml(text: Text) -> Element:
    """Parse the XML in a text with limits for untrusted input; other lines before and after it are ignored."""
    root, problem = parse_part(text)
    if problem is not None:
        raise problem
    return root


def parse_part(text: Text) -> tuple[Element, InputError | None]:
    """Parse the XML in a text up to its first error, for example its end; return the error as well."""
    # A part of a file, such as the lines of a host, has no content.
    content, path = text.content or text.raw.encode(), text.path
    # Latin-1 has one character per byte.
    begin, end = _xml_range(content.decode("latin-1")) or (0, len(content))
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
        raise InputError("declares XML entities, expected XML without entities", path=path, line=1) from error
    except xml.sax.SAXParseException as error:
        line = (error.getLineNumber() or 1) + lines_before
        problem = InputError(f"is not XML: {error.getMessage()}", path=path, line=line)
        if reader.root is None:
            raise problem from error
        return reader.root, problem
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        # Unknown encodings, or encodings that expat does not support.
        raise InputError(f"is not XML: {error}", path=path, line=1) from error
    if reader.root is None:
        raise InputError("is empty, expected XML of hwloc, NCCL or nvidia-smi", path=path)
    return reader.root, None
