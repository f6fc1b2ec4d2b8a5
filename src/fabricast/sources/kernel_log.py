"""Reader of the messages of the Linux kernel: errors of PCIe links, GPUs, network cards and the host."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.short_text import shortened
from fabricast.sources import kernel_cards, kernel_gpus, kernel_host, kernel_links
from fabricast.sources.kernel_lines import BOOT, PROGRAM, Lines
from fabricast.sources.text import Format, Reading, Text

#: Lines of all kernel logs.
_KERNEL = re.compile(
    r"^\W{0,8}(?:\[\s*\d+\.\d{1,6}\](?! \[(?:ERROR|WARN|INFO|DEBUG))"
    r"|\[?\w{1,3} \w{2,5}\s+\d+ [\d:]{8} \d{4}\]?(?!\[\d+,\d+\]<std)"
    r"|\w{3,5}\.?\s+\d+ [\d:]{8} \S+ kernel:|kern\s{1,4}:\w{2,8}\s{0,6}: "
    r"|\S{1,80}: kern:\s{1,8}\w{2,8}: \[\d{4}-\d\d-\d\dT"
    r"|\d{4}-\d\d-\d\dT[\d:.+Z-]{8,30} (?:\S+ kernel:|(?:amdgpu|nvidia|pci\w*|mlx\w+) )"
    r"|(?:NVRM|nvidia|nouveau|amdgpu|pcieport|mlx\w{1,12}):? \S)"
)
#: Words that other texts have, too: only a line of a kernel log counts.
_WEAK = (": [", "Link is ", "ms after ", BOOT, "BAR ", "Default domain type", "kfd kfd: ", *kernel_host.WORDS_OF_HOST)
_WORDS = (*kernel_links.WORDS, *kernel_gpus.WORDS, *kernel_cards.WORDS, *kernel_host.WORDS)
#: Command that selects lines of the log.
_SELECTS = re.compile(r"\b(?:dmesg|journalctl)\b[^\n]{0,120}?\|\s{0,3}(?:e?grep|tail|head|awk|sed)\b")
#: Lines of drivers of GPUs, network cards and ports about failures, and the words of the note about them; and those
#: that healthy machines print.
DRIVER_FAILURES = "failures whose meaning is not known here"
_DRIVER = re.compile(
    r"(?:\bNVRM: |\[drm|\bgim (?=error)|\bena: "
    # Drivers of other devices say nothing about copies between GPUs and nodes.
    r"|(?<![\w-])(?:nvidia|nouveau|amdgpu|i915|xe|habanalabs|mlx[45]_\w{2,8}|bnxt_en|irdma|ice|hfi1|cxi_\w{2,8}|ionic"
    r"|efa|ena|i40e|e1000e?|igb|igc|ixgbe|tg3|be2net|qed[er]?|atlantic|sfc|enic|pcieport|vfio-pci|kfd) "
    r"(?:hl\d|[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|kfd: )).{0,300}?"
    r"(?:[Ff]ail|[Ee]rror|\*ERROR\*|mismatch|[Aa]ssert|left-over|[Tt]ime[ds]?[ -]?out|[Ff]atal|\b[Hh]ang\b|not respond"
    r"|No response|unusable|[Oo]verflow|giving up|No NVIDIA|is not supported by)"
)
_HARMLESS = re.compile(
    r"module verification failed|failed to assign|can't assign|no space|[Ff]irmware.{0,60}failed|AER: enabled"
    r"|ACCESS_REG|containment capabilities|Error [Rr]ecovery|NOT_SUPPORTED|not supported"
    r"|QUERY_|[Nn]o error|errors? (?:count|0)\b|error (?:handler|recovery|reporting)"
    r"|failed to (?:read|get) .{0,20}(?:VPD|vpd)"
)
#: Characters of a quoted line, and those up to which a line may be one of the kernel.
_LONGEST, _LONGEST_LINE = 120, 10_000


def _is_log(text: Text) -> bool:
    found = [word for word in _WORDS if word in text.raw]
    if not found:
        return False
    if any(word not in _WEAK for word in found) and any(_KERNEL.match(line) for line in text.raw.splitlines()):
        return True
    # Without lines of a kernel log, an error that is known.
    is_listed = any(_KERNEL.match(line) for line in text.raw.splitlines() if any(word in line for word in found))
    lines = _lines(text)
    return is_listed or (bool(lines) and bool(_facts_of(text, lines)))


def _read(text: Text) -> Iterator[Reading]:
    facts = _facts_of(text, _lines(text))
    unknown = [] if facts else [(number, line) for number, line in text.lines() if _is_failure(line)]
    if unknown:
        count = "a line" if len(unknown) == 1 else f"{len(unknown)} lines"
        note = f'{count} of drivers about {DRIVER_FAILURES}: "{shortened(unknown[0][1].strip(), _LONGEST)}"'
        facts = [text.fact(Quantity.NOTE, note, unknown[0][0], PROGRAM)]
    note = "no repeated PCIe errors and no errors of GPUs in the kernel log"
    if _SELECTS.search(text.raw) is not None:
        note = "the lines that a command selects from the kernel log state no errors; others are not known"
    yield Reading(facts or [text.fact(Quantity.NOTE, note, 0, PROGRAM)])


def _is_failure(line: str) -> bool:
    return _DRIVER.search(line) is not None and _HARMLESS.search(line) is None


def _lines(text: Text) -> Lines:
    return list(text.lines(lambda line: len(line) <= _LONGEST_LINE and any(word in line for word in _WORDS)))


def _facts_of(text: Text, lines: Lines) -> list[Fact]:
    """Return the states of devices and of the host in the order of the log."""
    parts = (kernel_links.link_facts, kernel_gpus.gpu_facts, kernel_cards.card_facts, kernel_host.host_facts)
    return sorted((fact for part in parts for fact in part(text, lines)), key=lambda fact: fact.place.line)


FORMAT = Format(
    PROGRAM,
    Content.STATES,
    "sudo dmesg > dmesg.txt",
    "[  812.104512] NVRM: Xid (PCI:0000:21:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    _is_log,
    _read,
    "dmesg.txt",
    versions="also 'journalctl -k' and `/proc/cmdline`: PCIe errors (AER), errors of GPUs, NVLinks and NVSwitches "
    "(Xid, SXid), of network cards, memory and processors",
    is_per_host=True,
)
