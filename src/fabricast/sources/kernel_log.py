"""Reader of the messages of the Linux kernel: errors of PCIe links and of GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.sources.text import Format, Reading, Text

__all__ = ["FORMAT"]

_DEVICE = r"([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_PCIE_ERROR = re.compile(rf"{_DEVICE}: (?:AER: )?PCIe Bus Error: severity=([A-Za-z]+)")
_KIND = re.compile(rf"{_DEVICE}:(?: AER:)?\s+\[\s*\d+\]\s+(\w+)")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\): (\d{1,4}),?\s*(.*)")
#: Lines of all kernel logs.
_KERNEL = re.compile(r"^(?:\[\s*\d+\.\d{6}\]|\w{3}\s+\d+ [\d:]{8} \S+ kernel:) ")
#: Number of corrected errors of a link from which they are no accident.
_MANY = 5
#: Errors of GPUs and NVLinks; others, such as 13 and 31, are faults of a program. NVIDIA, "Xid Errors".
_XIDS = {
    48: "uncorrectable ECC error",
    61: "error of its microcontroller",
    62: "error of its microcontroller",
    63: "row remapping",
    64: "row remapping failed",
    74: "NVLink error",
    79: "has fallen off the bus",
    92: "many correctable ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "its system processor (GSP) does not answer",
    120: "error of its system processor (GSP)",
}


def _is_log(text: Text) -> bool:
    if "NVRM: Xid" in text.raw or "PCIe Bus Error: severity=" in text.raw:
        return True
    return "Linux version " in text.raw and any(_KERNEL.match(line) for line in text.raw[:4000].splitlines())


def _read(text: Text) -> Iterator[Reading]:
    corrected: Counter[str] = Counter()
    lines: dict[str, int] = {}
    kinds: dict[str, dict[str, None]] = {}
    facts: list[Fact] = []
    known: set[tuple[str, int]] = set()
    for number, line in text.lines(lambda line: "PCIe Bus Error" in line or "NVRM: Xid" in line or ": [" in line):
        if (match := _PCIE_ERROR.search(line)) is not None:
            device = match[1]
            # "Corrected" or, since Linux 6.10, "Correctable".
            is_corrected = match[2].startswith("Correct")
            corrected[device] += is_corrected
            lines.setdefault(device, number)
            if not is_corrected and (device, 0) not in known:
                known.add((device, 0))
                facts.append(_fact(text, device, "uncorrected errors of its PCIe link", number))
        elif (match := _KIND.search(line)) is not None:
            kinds.setdefault(match[1], {})[match[2]] = None
        elif (match := _XID.search(line)) is not None:
            device, code = f"{match[1].lower()}.0", int(match[2])
            if code in _XIDS and (device, code) not in known:
                known.add((device, code))
                facts.append(_fact(text, device, f"{_XIDS[code]} (Xid {code})", number))
    for device, count in corrected.items():
        if count >= _MANY:
            named = f" ({', '.join(list(kinds.get(device, {}))[:3])})" if device in kinds else ""
            facts.append(_fact(text, device, f"{count} corrected errors of its PCIe link{named}", lines[device]))
    note = "no repeated PCIe errors and no errors of GPUs in the kernel log"
    yield Reading(facts or [text.fact(Quantity.NOTE, note, 0, "dmesg")])


def _fact(text: Text, device: str, state: str, line: int) -> Fact:
    return text.fact(Quantity.GPU_STATE, state, line, "dmesg", subject=(device,))


FORMAT = Format(
    "dmesg",
    Content.STATES,
    "sudo dmesg > dmesg.txt",
    "[  812.104512] NVRM: Xid (PCI:0000:21:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    _is_log,
    _read,
    "dmesg.txt",
    versions="also 'journalctl -k': corrected and uncorrected PCIe errors (AER), errors of GPUs and NVLinks (Xid)",
)
