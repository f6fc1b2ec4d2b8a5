"""Reader of ``grep . /sys/bus/pci/devices/*/*_link_*``: possible and present speed and width of PCIe links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

_PROGRAM = "link attributes of /sys"
#: Attribute of a device, its value on the same line (grep) or on the next one (tail, head).
_ATTRIBUTE = re.compile(
    r"^(?:==>\s*)?(/sys/[\w/:.-]{1,200})/(current|max)_link_(speed|width)(?:\s*<==)?(?::\s*([\d.]{1,5}).*)?$"
)
_VALUE = re.compile(r"^([\d.]{1,5})(?: GT/s.*)?$")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
#: Widths that the kernel prints for links that are down, or of devices of the processor itself.
_NO_LINK = (0.0, 63.0, 255.0)


def _attributes(text: Text) -> Iterator[tuple[int, str, str, float]]:
    """Yield line, device, name and value of each attribute."""
    titled: tuple[str, str] | None = None
    for number, line in text.lines():
        match = _ATTRIBUTE.match(line.strip())
        if match is not None:
            device, name = match[1], f"{match[2]} {match[3]}"
            titled = (device, name) if match[4] is None else None
            if match[4] is not None and (value := _number(match[4])) is not None:
                yield number, device, name, value
        elif titled is not None and (found := _VALUE.match(line.strip())) is not None:
            if (value := _number(found[1])) is not None:
                yield number, *titled, value
            titled = None


def _number(text: str) -> float | None:
    """Return the number of an attribute; None for a text such as '1.2.3'."""
    return float(text) if text.count(".") <= 1 and text != "." else None


def _is_attributes(text: Text) -> bool:
    return "_link_" in text.raw and "/sys/" in text.raw and next(_attributes(text), None) is not None


def _read(text: Text) -> Iterator[Reading]:
    devices: dict[str, dict[str, tuple[float, int]]] = {}
    for number, device, name, value in _attributes(text):
        devices.setdefault(device, {})[name] = (value, number)
    facts = [fact for device, found in devices.items() for fact in _states(text, device, found, _full(devices))]
    if not facts:
        count = f"{len(devices)} device{'s' if len(devices) > 1 else ''}"
        note = f"the link{'s' if len(devices) > 1 else ''} of {count} run at full speed and width"
        facts = [text.fact(Quantity.NOTE, note, next(_attributes(text))[0], _PROGRAM)]
    yield Reading(facts)


def _full(devices: dict[str, dict[str, tuple[float, int]]]) -> set[float]:
    """Return the widths that some device uses in full: a wider port above it is no fault."""
    widths = ([found.get(f"{when} width", (0.0, 0))[0] for when in ("current", "max")] for found in devices.values())
    return {current for current, possible in widths if current == possible}


def _states(text: Text, device: str, found: dict[str, tuple[float, int]], full: set[float]) -> Iterator[Fact]:
    """Yield a narrow link as a cause, and a slow one as a note: links of idle devices are slow."""
    match = _ADDRESS.search(device)
    name = f"{match[0]}:" if match is not None else f"{device.removesuffix('/device').rpartition('/')[2]}:"
    (width, line), (lanes, _) = (found.get(f"{when} width", (0.0, 0)) for when in ("current", "max"))
    if width not in _NO_LINK and lanes not in _NO_LINK and width < lanes:
        words = f"{name} a link uses x{width:g} of x{lanes:g}"
        if width in full:
            yield text.fact(Quantity.NOTE, f"{words}, maybe since its device has x{width:g}", line, _PROGRAM)
        else:
            words += ": the slot or a riser limits it"
            yield text.fact(Quantity.CAUSE, words, line, _PROGRAM, subject=("narrow_link",))
    (speed, line), (highest, _) = (found.get(f"{when} speed", (0.0, 0)) for when in ("current", "max"))
    if 0 < speed < highest:
        words = f"{name} a link runs at {speed:g} of {highest:g} GT/s, which is normal while its device is idle"
        yield text.fact(Quantity.NOTE, words, line, _PROGRAM)


FORMAT = Format(
    _PROGRAM,
    Content.STATES,
    "grep . /sys/bus/pci/devices/*/*_link_{speed,width} > links.txt",
    "/sys/bus/pci/devices/0000:01:00.0/current_link_speed:16.0 GT/s PCIe",
    _is_attributes,
    _read,
    "sysfs_links.txt",
    versions="also of `tail` and `head`, and of `/sys/class/drm/card*/device`",
    is_per_host=True,
)
