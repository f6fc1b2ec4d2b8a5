"""Links of PCIe in the kernel log: errors (AER), narrow links, and accesses that the IOMMU refuses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from fabricast.core.facts import Fact, Quantity
from fabricast.sources.kernel_lines import DEVICE, PROGRAM, Lines, gpu_state, gpus_of
from fabricast.sources.text import Text

#: Words of the lines that are read here.
WORDS = (
    "PCIe Bus Error",
    "AER: Uncorrect",
    "AER: Multiple Uncorrect",
    "AER: Multiple Correct",
    "AER: can't recover",
    ": [",
    "TLP Header: ",
    "available PCIe bandwidth",
    "IO_PAGE_FAULT",
    "DMAR: [DMA",
    "[Hardware Error]",
    "pciehp",
)
_PCIE_ERROR = re.compile(rf"{DEVICE}: (?:AER: )?PCIe Bus Error: severity=([A-Za-z]+)")
_AER = re.compile(
    rf"AER: (?:Multiple )?Uncorrect\w+ .{{0,40}}?received(?: from)?:? {DEVICE}"
    rf"|{DEVICE}: AER: can't recover(?! \(no error_detected)"
)
#: Device whose driver handles no errors of the port above it.
_UNHANDLED = re.compile(rf"{DEVICE}: AER: can't recover \(no error_detected")
_KIND = re.compile(rf"{DEVICE}:(?: AER:)?\s+\[\s*\d+\]\s+(\w+(?: [A-Z]\w+){{0,3}})")
#: Atomic operation (FetchAdd, Swap, CAS) that a port does not know.
_ATOMIC_TLP = re.compile(rf"{DEVICE}:\s+TLP Header: [46][cde][0-9a-f]{{6}} ")
#: Links that are narrower or slower than their device, as the kernel states them when it finds the device.
_NARROW = re.compile(
    rf"(\w{{1,20}}) {DEVICE}: ([\d.]{{1,12}}) Gb/s available PCIe bandwidth, limited by ([\d.]+) GT/s PCIe x(\d+) link"
    r".{0,60}capable of ([\d.]+) Gb/s with ([\d.]+) GT/s PCIe x(\d+)"
)
#: Device behind a tunnel.
_TUNNEL = re.compile(r"thunderbolt \d-\d{1,4}: new device found|\beGPU\b.{0,80}\b(?:Thunderbolt|USB4)\b", re.IGNORECASE)
_IOMMU = re.compile(
    r"(?:(?P<one>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): AMD-Vi: .{0,80})?IO_PAGE_FAULT"
    r"(?: device=\[?(?P<other>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]))?"
)
#: Faults of the IOMMU of Intel: "DMAR: [DMA Write NO_PASID] Request device [41:00.0] fault addr 0x... ".
_DMAR = re.compile(
    r"DMAR: \[DMA [^\]]{4,30}\] Request device "
    r"\[?(?P<one>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\]? .{0,30}fault addr"
)
#: Events of the firmware (APEI): their number, which counts since the start, the severity, and the device on PCIe.
_EVENT = re.compile(
    r"\{(\d{1,9})\}\[Hardware Error\]:\s+(?:event severity: (\w{1,20})|device_id: (" + DEVICE[1:-1] + r"))"
)
#: Slots for hot plug whose link goes down and up.
_SLOT = re.compile(rf"(?:pcieport {DEVICE}: pciehp|pciehp {DEVICE}:pcie\d{{1,4}}): [Ss]lot\(\S{{1,20}}\): (.{{4,40}})")
#: Address of graphics that are part of a processor of Intel.
_INTEGRATED = "0000:00:02.0"
#: Time since the start of the kernel, in whose first minutes empty slots are reported.
_SECONDS = re.compile(r"\[\s{0,8}(\d{1,9})\.\d{1,6}\]")
_STARTS_S = 120
#: Words of a slot whose link or card goes, and of one where it comes back.
_GOES, _COMES = ("Link Down", "not present"), ("Link Up", "Card present")
_CARD_DRIVER = re.compile(r"mlx\w+|bnxt_\w+|ice|irdma|efa|ionic")
_OF_GPUS = 16
_UNCORRECTED = "uncorrected errors of its PCIe link"
#: Number of corrected errors of a link from which they are no accident.
_MANY = 5


def link_facts(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the states of links, each of a device once."""
    gpus = gpus_of(lines)
    #: First fact of each device and kind of state.
    found: dict[tuple[str, str], Fact] = {}
    for number, line in lines:
        if (match := _ATOMIC_TLP.search(line)) is not None:
            state = "refuses atomic operations of PCIe, which ROCm sends (malformed TLP)"
            found[match[1], "link"] = gpu_state(text, match[1], state, number)
        elif (device := _uncorrected(line)) is not None:
            found.setdefault((device, "link"), gpu_state(text, device, _UNCORRECTED, number))
        elif (match := _NARROW.search(line)) is not None:
            used, lanes = int(match[5]), int(match[8])
            if used < lanes or float(match[4]) < float(match[7]):
                # Devices of 16 lanes with x1 or x2 are GPUs or switches above them.
                is_gpu = used < lanes and (match[2] in gpus or (lanes >= _OF_GPUS and 8 * used <= lanes))
                found.setdefault((match[2], "narrow"), _narrow_link(text, match, number, is_gpu=is_gpu))
        elif (match := _SLOT.search(line)) is not None:
            words, device = match[3].strip(), match[1] or match[2]
            if any(word in words for word in _COMES):
                found.pop((device, "slot"), None)
            elif any(word in words for word in _GOES) and (fact := _lost_slot(text, device, words, number, line)):
                found.setdefault((device, "slot"), fact)
        elif (refused := _refused(line)) is not None:
            device, fault = refused
            device = device if device.count(":") == 2 else f"0000:{device}"
            state = f"the IOMMU refuses accesses ({fault})"
            fact = gpu_state(text, device, state, number)
            if device == _INTEGRATED:
                words = f"{device}: {state}, usually of integrated graphics, which have no copies between GPUs"
                fact = text.fact(Quantity.NOTE, words, number, PROGRAM)
            found.setdefault((device, "iommu"), fact)
    if not any(kind == "link" for _, kind in found):
        # Without the line of the port, the device below it is what is known.
        for number, line in lines:
            if (match := _UNHANDLED.search(line)) is not None:
                found.setdefault((match[1], "link"), gpu_state(text, match[1], _UNCORRECTED, number))
    for device, (event, is_corrected, number) in _events(lines).items():
        if is_corrected and event < _MANY:
            note = f"{device}: corrected PCIe errors, event {event} of the firmware, which is no fault by itself"
            found.setdefault((device, "link"), text.fact(Quantity.NOTE, note, number, PROGRAM))
        else:
            words = f"corrected errors of its PCIe link (event {event} of the firmware)"
            state = words if is_corrected else _UNCORRECTED
            found.setdefault((device, "link"), gpu_state(text, device, state, number))
    blocked = _blocked(lines)
    for (device, kind), fact in found.items():
        is_blocked = kind == "link" and device in blocked
        yield replace(fact, value="a request that access control (ACS) blocks (ACSViol)") if is_blocked else fact
    yield from _corrected(text, lines)


def _lost_slot(text: Text, device: str, words: str, number: int, line: str) -> Fact | None:
    """Return the state of a slot whose link is lost; a note without a time; None while the kernel starts."""
    since = _SECONDS.search(line)
    if since is None:
        note = f"{device}: {words} of a slot for hot plug, as empty slots print at the start, too"
        return text.fact(Quantity.NOTE, note, number, PROGRAM)
    if int(since[1]) < _STARTS_S:
        return None
    return gpu_state(text, device, f"lost the link below it ({words})", number)


def _blocked(lines: Lines) -> set[str]:
    """Return the devices all of whose errors are requests that access control blocks."""
    kinds: dict[str, set[str]] = {}
    for _, line in lines:
        if (match := _KIND.search(line)) is not None:
            kinds.setdefault(match[1], set()).add(match[2])
    return {device for device, every in kinds.items() if every == {"ACSViol"}}


def _uncorrected(line: str) -> str | None:
    """Return the device with an uncorrected error."""
    if (match := _PCIE_ERROR.search(line)) is not None:
        # "Corrected" or, since Linux 6.10, "Correctable".
        return None if match[2].startswith("Correct") else match[1]
    match = _AER.search(line)
    return None if match is None else match[1] or match[2]


def _refused(line: str) -> tuple[str, str] | None:
    """Return the device whose access the IOMMU refuses, and the name of the fault."""
    if (match := _IOMMU.search(line)) is not None and (device := match["one"] or match["other"]):
        return device, "IO_PAGE_FAULT"
    match = _DMAR.search(line)
    return None if match is None else (match["one"], "DMAR fault, as IO_PAGE_FAULT of AMD")


def _corrected(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield devices with corrected errors: many are a fault, few a note."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    kinds: dict[str, dict[str, None]] = {}
    #: Devices whose line stands for several errors, as the line above it states.
    several: set[str] = set()
    are_several = is_corrected = False
    for number, line in lines:
        if (match := _PCIE_ERROR.search(line)) is not None:
            # The names of errors below it are of the same kind.
            is_corrected = match[2].startswith("Correct")
            if is_corrected:
                counts[match[1]] += 1
                first.setdefault(match[1], number)
                several |= {match[1]} if are_several else set()
            are_several = False
        elif "AER: Multiple Correct" in line:
            are_several = True
        elif is_corrected and (match := _KIND.search(line)) is not None:
            kinds.setdefault(match[1], {})[match[2]] = None
    for device, count in counts.items():
        named = f" ({', '.join(list(kinds.get(device, {}))[:3])})" if device in kinds else ""
        if count < _MANY and device not in several:
            errors = "error" if count == 1 else "errors"
            note = f"{device}: {count} corrected PCIe {errors}{named}, fewer than {_MANY}, which is no fault by itself"
            yield text.fact(Quantity.NOTE, note, first[device], PROGRAM)
        else:
            words = str(count) if count >= _MANY else "several"
            yield gpu_state(text, device, f"{words} corrected errors of its PCIe link{named}", first[device])


def _events(lines: Lines) -> dict[str, tuple[int, bool, int]]:
    """Return the last event of the firmware about each device on PCIe: number, whether all are corrected, line."""
    found: dict[str, tuple[int, bool, int]] = {}
    severity, event = "", 0
    for number, line in lines:
        if (match := _EVENT.search(line)) is None:
            continue
        if match[2] is not None:
            severity, event = match[2], int(match[1])
        elif severity:
            _, is_corrected, first = found.get(match[3], (0, True, number))
            found[match[3]] = event, is_corrected and severity in ("corrected", "info"), first
    return found


def _narrow_link(text: Text, match: re.Match[str], line: int, *, is_gpu: bool) -> Fact:
    """Return a slow or narrow link: the state of a card or GPU; of another device a note, since its kind is unknown.

    Devices of a chipset have more lanes than the link above it.
    """
    if match[4] == "2.5" and _TUNNEL.search(text.raw) is not None:
        words = "ports of Thunderbolt and USB4 state 2.5 GT/s whatever their rate: measured copies show it"
        return text.fact(Quantity.NOTE, f"{match[2]}: {words}", line, PROGRAM)
    now, possible = (f"{speed} GT/s x{width}" for speed, width in ((match[4], match[5]), (match[7], match[8])))
    state = f"has {match[3]} of {match[6]} Gbit/s of PCIe, limited by a link of {now} where {possible} is possible"
    if _CARD_DRIVER.fullmatch(match[1]):
        return text.fact(Quantity.CARD_STATE, state, line, PROGRAM, subject=(f"network card {match[2]}",))
    if is_gpu:
        return gpu_state(text, match[2], state, line)
    return text.fact(Quantity.NOTE, f"{match[2]}: {state}", line, PROGRAM)
