"""Reader of the messages of the Linux kernel: errors of PCIe links and of GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from fabricast.core.facts import Content, Fact, Quantity
from fabricast.core.number_text import size_text
from fabricast.sources.text import Format, Reading, Text

_DEVICE = r"([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_PCIE_ERROR = re.compile(rf"{_DEVICE}: (?:AER: )?PCIe Bus Error: severity=([A-Za-z]+)")
_AER = re.compile(
    rf"AER: (?:Multiple )?Uncorrect\w+ .{{0,40}}?received(?: from)?:? {_DEVICE}|{_DEVICE}: AER: can't recover"
)
_KIND = re.compile(rf"{_DEVICE}:(?: AER:)?\s+\[\s*\d+\]\s+(\w+)")
#: Address and number; what a user publishes may lack the address.
_XID = re.compile(r"(?<![\"'`])NVRM: Xid \((PCI:[^)\s]{0,40})\): (\d{1,4}),?\s*(.*)")
_WHOLE = re.compile(r"PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?")
#: GPUs that NVIDIA's driver cannot use: state by words of its message, the worst first. The words may follow on the
#: lines below the GPU.
_UNUSABLE = {
    "fallen off the bus": "has fallen off the bus",
    "GPU lost from the bus": "has fallen off the bus",
    "NV_ERR_RESET_REQUIRED": "needs a reset",
    "RmInitAdapter failed": "cannot be initialised by its driver (RmInitAdapter failed)",
    "is 0M @ 0x0": "has no place in the address space for its memory (BAR), so that its driver refuses it",
    "probe routine failed": "is refused by its driver (probe routine failed)",
    "nvidia: probe of": "is refused by its driver (probe failed)",
    "probe with driver nvidia failed": "is refused by its driver (probe failed)",
}
_NVIDIA_GPU = re.compile(
    r"(?:NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?|NVRM: BAR\d is 0M @ 0x0 \(PCI:|nvidia: probe of |"
    r"nvidia (?=\S{12,16}: probe with))([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
)
_PROBES = ("nvidia: probe of", "probe with driver nvidia failed")
#: Another attempt of the driver.
_ATTEMPT = re.compile(rf"nvidia {_DEVICE}: enabling device")
_INITIALISED = re.compile(r"Initialized nvidia-drm .{0,80}for ([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
#: Lines after the address of a GPU in which its state may follow.
_LINES_BELOW = 6
#: Name of a GPU whose address a message leaves out.
_SOME_GPU = "a GPU"
#: Errors of the drivers of AMD and Intel.
_OTHER_GPU = re.compile(
    rf"(?:amdgpu|i915|xe) {_DEVICE}: .{{0,60}}?"
    r"(device lost from bus|GPU reset begin|GPU reset\(\d+\) (?:succeeded|failed)|ring \S{1,40} timeout"
    r"|MES failed to respond|GPU HANG|Engine reset)"
)
_LOST = "device lost from bus"
#: GPUs of AMD below a port that passes no atomic operations of PCIe, by the driver or by ROCm's part of it.
_ATOMICS = re.compile(
    rf"amdgpu {_DEVICE}: .{{0,20}}?PCIE atomic ops is not supported"
    r"|kfd kfd: (?:amdgpu: )?skipped device ([0-9a-f]{4}:[0-9a-f]{4}), PCI rejects atomics"
)
_NO_ATOMICS = "gets no atomic operations of PCIe through a port above it, which ROCm uses"
#: Atomic operation (FetchAdd, Swap, CAS) that a port does not know.
_ATOMIC_TLP = re.compile(rf"{_DEVICE}:\s+TLP Header: [46][cde][0-9a-f]{{6}} ")
#: Errors of NVSwitches; the driver states whether they are fatal.
_SXID = re.compile(
    r"SXid \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\): (\d{1,6}), (Fatal|Non-fatal),? *(.*)"
)
#: Earlier error that a later one names.
_PREVIOUS = re.compile(r"caused by previous Xid (\d{1,4})")
#: Links that are narrower or slower than their device, as the kernel states them when it finds the device.
_NARROW = re.compile(
    rf"(\w{{1,20}}) {_DEVICE}: ([\d.]{{1,12}}) Gb/s available PCIe bandwidth, limited by ([\d.]+) GT/s PCIe x(\d+) link"
    r".{0,60}capable of ([\d.]+) Gb/s with ([\d.]+) GT/s PCIe x(\d+)"
)
_IOMMU = re.compile(
    r"(?:(?P<one>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): AMD-Vi: .{0,80})?IO_PAGE_FAULT"
    r"(?: device=\[?(?P<other>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]))?"
)
#: Faults of the IOMMU of Intel: "DMAR: [DMA Write NO_PASID] Request device [41:00.0] fault addr 0x... ".
_DMAR = re.compile(
    r"DMAR: \[DMA [^\]]{4,30}\] Request device "
    r"\[?(?P<one>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\]? .{0,30}fault addr"
)
#: Errors of the host: message, meaning, and what to do.
_OF_HOST = (
    (
        re.compile(r"EDAC .{0,20}?\bUE\b.{0,80}"),
        "an uncorrected error of memory",
        "replace the memory module that the message names ('ras-mc-ctl --errors')",
    ),
    (
        # The status of an uncorrected error has bit 61 (UC); Linux prints the same line for corrected ones.
        re.compile(r"Machine Check: \d{1,2} Bank \d{1,3}: [2367abef][0-9a-f]{15}\b|Machine Check Exception: .{0,60}"),
        "a machine check of a processor that was not corrected",
        "'ras-mc-ctl --errors' or 'mcelog' decode it; ask the vendor of the host",
    ),
    (
        re.compile(r"(?:Memory cgroup out of memory|Out of memory): Killed process.{0,40}"),
        "a process was ended for lack of memory",
        "more memory for the job or container, or fewer processes on the host",
    ),
    (
        re.compile(r"task \S{1,60} blocked for more than \d{1,6} seconds"),
        "a process hangs in the kernel",
        "the lines below this message name the driver (nvidia, nvidia_uvm, mlx5): reboot, then update it",
    ),
    (
        re.compile(r"RIP: \w{1,8}:\S{1,80} \[(?:amdgpu|nvidia\w{0,12}|mlx[45]_\w{2,8}|i915|xe)\]"),
        "the kernel crashed in a driver",
        "reboot; use another version of this driver, or of the kernel",
    ),
    (
        re.compile(r"AMD-Vi: Unknown option - '\w{1,20}'"),
        "the kernel ignores an option of the IOMMU, which then translates addresses",
        "iommu=pt (not amd_iommu=pt) on the kernel command line; 'cat /proc/cmdline' prints it",
    ),
    (
        re.compile(r"Error ret -\d{1,3} invoking nvidia_p2p_get_pages"),
        "the driver refuses other devices access to the memory of a GPU (GPUDirect RDMA or Storage)",
        "GeForce cards have none: use a card for data centres or workstations; on those, check BAR1 and the IOMMU",
    ),
    (
        re.compile(r"soft lockup.{0,60}|hard LOCKUP.{0,60}"),
        "a processor hangs",
        "the lines below this message name what it does; update kernel and drivers",
    ),
)
#: Corrected errors of memory: count and module; the number from which the module is faulty.
_CORRECTED_MEMORY = re.compile(r"EDAC \S{1,20}: (\d{1,9}) CE .{0,80}? on (.{1,60}?) ?\(")
_MANY_IN_MEMORY = 10
#: Events of the firmware (APEI): their number, which counts since the start, the severity, and the device on PCIe.
_EVENT = re.compile(
    r"\{(\d{1,9})\}\[Hardware Error\]:\s+(?:event severity: (\w{1,20})|device_id: (" + _DEVICE[1:-1] + r"))"
)
#: Words of these errors, which other programs may print: a text needs lines of the kernel, too.
_WORDS_OF_HOST = (
    "[Hardware Error]",
    "EDAC ",
    "Machine Check",
    "ut of memory: Killed",
    "soft lockup",
    "hard LOCKUP",
    "RIP: ",
    "AMD-Vi: Unknown option",
    "nvidia_p2p_get_pages",
    "blocked for more than",
)
#: Errors of network cards of NVIDIA that stop them.
_CARD_HEALTH = re.compile(
    rf"mlx[45]_core {_DEVICE}.{{0,80}}?(device's health compromised.{{0,60}}|[Hh]ealth recovery.{{0,40}}fail.{{0,40}}"
    r"|Fatal error.{0,60}|firmware version check failed.{0,40}|timeout\. Will cause a leak of a command resource"
    r"|handle_hca_cap failed|mlx5_load_one failed.{0,40}|probe with driver mlx5_core failed.{0,30}"
    r"|ALLOC_UAR.{0,60}limits exceeded|Failed to initialize user access region table)"
)
_NO_PAGES = "too few pages for the processes of the host (UAR)"
#: Errors of GPUs of AMD.
_AMD = re.compile(
    r"amdgpu (?P<gpu>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):.{0,60}?"
    r"(?P<words>Fatal error during GPU init|(?:GPU|VRAM) is lost.{0,40}"
    r"|uncorrectable hardware error ?\(.{1,40}?\) detected"
    r"|\d{1,9} (?:new )?(?P<kind>uncorrectable|correctable) hardware errors detected in (?!total).{1,40}? block)"
)
#: Windows of devices into memory for which the kernel finds no addresses, and those that it then places.
_NO_SPACE = re.compile(
    rf"\b(?:nvidia|amdgpu|nouveau|pci) {_DEVICE}: BAR (\d)(?:"
    r": (?:no space for|failed to assign) \[mem size (0x[0-9a-f]{1,16})"
    r"| \[mem size (0x[0-9a-f]{1,16})[^\]]*\]: (?:can't assign; no space|failed to assign))"
)
#: Windows of bridges to the memory of devices below them.
_NO_WINDOW = re.compile(
    rf"\bpci {_DEVICE}: bridge window \[mem size (0x[0-9a-f]{{1,16}})[^\]]*\]: "
    r"(?:can't assign; no space|failed to assign)"
)
_WINDOW = re.compile(rf"\bpci {_DEVICE}: bridge window \[mem 0x[0-9a-f]+-0x[0-9a-f]+[^\]]*\]: assigned")
_PLACED = re.compile(rf"{_DEVICE}: BAR (\d)(?:: assigned)? \[mem 0x[0-9a-f]+-0x[0-9a-f]+[^\]]*\](?:: assigned)?")
#: Smallest window of a bridge that is one for the memory of a GPU.
_MIB, _LARGE_WINDOW = 1 << 20, 1 << 28
#: Accesses of a program to memory that its GPU does not have.
_AMD_PAGE_FAULT = re.compile(rf"amdgpu {_DEVICE}: .{{0,60}}?((?:no-)?retry page fault|VM_L2_PROTECTION_FAULT_STATUS)")
_AMD_PROCESS = re.compile(r"for process (\S{1,40}) pid \d")
#: Addresses of devices that the IOMMU translates.
#: Linux prints the first also on machines without IOMMU, and one of the others only where it uses one.
_TRANSLATED = "Default domain type: Translated"
_HAS_IOMMU = re.compile(
    r"Adding to iommu group|DMAR: (?:IOMMU enabled|Intel\(R\) Virtualization)|smmu"
    r"|AMD-Vi: (?!AMD IOMMUv2 functionality not available)"
)
_IOMMU_NOTE = (
    "the IOMMU translates the addresses of devices, which slows direct copies on some boards: iommu=pt avoids it"
)
#: Options with which the kernel was started, and what they mean for copies between GPUs.
_COMMAND_LINE = re.compile(r"(?:Command line: |^)(BOOT_IMAGE=.*)|^GRUB_CMDLINE_LINUX\w{0,20}=[\"'](.*)[\"']")
_OPTIONS = (
    (r"(?:intel_|amd_)?iommu=off", "the IOMMU is off"),
    (r"iommu=pt|iommu=passthrough|iommu\.passthrough=1", "the IOMMU leaves the addresses of devices as they are"),
    (r"(?:intel_|amd_)iommu=on", _IOMMU_NOTE),
    (r"pcie_acs_override=\S{1,80}", "it divides the groups of the IOMMU, and switches no access control (ACS) off"),
    (r"pci=(?:\S{1,80},)?noaer\S{0,80}", "errors of PCIe are not reported"),
)
#: Devices that cannot register memory, by the driver of EFA or of mlx5.
_REGISTRATION = re.compile(
    r"infiniband (\w{1,20}): (?:\w{1,40}:\d{1,6}:\(pid \d{1,9}\): )?"
    r"(Failed to (?:register mr|allocate pd|process command).{0,60}|async reg mr failed\. status -?\d{1,6})"
)
#: Cables that are not plugged in.
_CABLE = re.compile(rf"mlx\w{{1,20}} {_DEVICE}(?: \w{{1,20}})?: .{{0,60}}Cable (un)?plugged")
#: States of ports of network cards: an error of the module, and links that go down and up.
_MODULE = re.compile(
    rf"mlx5_core {_DEVICE}(?: \w{{1,20}})?: Port module event(?:\[error\])?: (?!(?:module \d+, )?Cable (?:un)?plugged)"
    r"(?:module \d+, )?(.{1,80}?)\s*$"
)
_PORT_LINK = re.compile(rf"mlx5_core {_DEVICE}(?: \w{{1,20}})?: (?:Port: (\d+) )?Link (\w{{2,10}})", re.IGNORECASE)
_POWER = re.compile(rf"mlx5_core {_DEVICE}.{{0,40}}Detected insufficient power on the PCIe slot")
#: Lines of all kernel logs.
_KERNEL = re.compile(
    r"^\W{0,8}(?:\[\s*\d+\.\d{1,6}\]|\[?\w{3} \w{3}\s+\d+ [\d:]{8} \d{4}\]?|\w{3}\s+\d+ [\d:]{8} \S+ kernel:"
    r"|\d{4}-\d\d-\d\dT[\d:.+Z-]{8,30} (?:\S+ kernel:|(?:amdgpu|nvidia|pci\w*|mlx\w+) )"
    r"|(?:NVRM|nvidia|nouveau|amdgpu|pcieport|mlx\w{1,12}):? \S)"
)
#: Words that other texts have, too: only a line of a kernel log counts.
_WEAK = (": [", "Linux version ", "BAR ", "Default domain type", "kfd kfd: ", *_WORDS_OF_HOST)
_WORDS = (
    "BOOT_IMAGE=",
    "GRUB_CMDLINE_LINUX",
    *_WORDS_OF_HOST,
    "PCIe Bus Error",
    "AER: Uncorrect",
    "AER: Multiple Uncorrect",
    "AER: can't recover",
    "NVRM: ",
    "Linux version ",
    "Initialized nvidia-drm",
    "SXid (",
    ": [",
    "available PCIe bandwidth",
    "nvidia 0000:",
    "nvidia: probe of",
    "nouveau 0000:",
    "Cable unplugged",
    "Cable plugged",
    "Default domain type",
    "IO_PAGE_FAULT",
    "DMAR: [DMA",
    "mlx5_core 0",
    "mlx4_core 0",
    ": Failed to register mr",
    ": async reg mr failed",
    ": Failed to allocate pd",
    ": Failed to process command",
    "amdgpu 0",
    "BAR ",
    "bridge window",
    "kfd kfd: ",
    "TLP Header: ",
    "AER: Multiple Correct",
    "i915 0",
    "xe 0",
)
#: Drivers of GPUs with the device that they use.
_GPU_DRIVER = re.compile(rf"\b(?:nvidia|nouveau|amdgpu) {_DEVICE}:")
#: GPU of NVIDIA or AMD by vendor and class, as the kernel states them when it finds the device.
_GPU_CLASS = re.compile(rf"\bpci {_DEVICE}: \[(?:10de|1002):[0-9a-f]{{4}}\] type 00 class 0x030[02]")
_CARD_DRIVER = re.compile(r"mlx\w+|bnxt_\w+|ice|irdma|efa|ionic")
_OF_GPUS = 16
_UNCORRECTED = "uncorrected errors of its PCIe link"
#: Number of corrected errors of a link from which they are no accident.
_MANY = 5
#: Number of corrected errors of a GPU of AMD from which they are no accident.
_MANY_CORRECTED = 100
#: Errors of programs, which say nothing about the machine.
_OFF_THE_BUS = 79
_RECOVERY = 154
_OF_PROGRAMS = (13, 31, 32, 43, 45, 68, 69, 137)
_LONGEST_NOTE = 100
#: Number of losses of a link since the start of the kernel that no restart of hosts and switches explains.
_MANY_DOWNS = 3
#: Errors of GPUs and NVLinks. NVIDIA, "Xid Errors".
_XIDS = {
    8: "the GPU stopped processing",
    38: "error of the firmware of its driver",
    54: "auxiliary power is not connected",
    57: "error of its memory interface",
    58: "error of its memory interface",
    109: "a change of context timed out",
    110: "security fault",
    143: "its initialisation failed",
    46: "the GPU stopped processing",
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
    140: "uncorrectable ECC error",
    **dict.fromkeys((*range(144, 151), 155), "NVLink error"),
}


#: Lines of NVIDIA's driver about failures, and the words of the note about them.
DRIVER_FAILURES = "failures whose meaning is not known here"
_NVRM_FAILS = re.compile(r"NVRM: .*(?:[Ff]ail|[Ee]rror|[Aa]ssert|left-over|[Tt]imeout)")


def _is_log(text: Text) -> bool:
    found = [word for word in _WORDS if word in text.raw]
    if not found:
        return False
    if any(word not in _WEAK for word in found) and any(_KERNEL.match(line) for line in text.raw.splitlines()):
        return True
    # Without lines of a kernel log, an error that is known.
    is_listed = any(_KERNEL.match(line) for line in text.raw.splitlines() if any(word in line for word in found))
    return is_listed or bool(_facts_of(text, _lines(text)))


def _read(text: Text) -> Iterator[Reading]:
    facts = _facts_of(text, _lines(text))
    unknown = [number for number, line in text.lines(lambda line: "NVRM: " in line) if _NVRM_FAILS.search(line)]
    if not facts and unknown:
        count = "a line" if len(unknown) == 1 else f"{len(unknown)} lines"
        note = f"{count} of NVIDIA's driver: {DRIVER_FAILURES}"
        facts = [text.fact(Quantity.NOTE, note, unknown[0], "dmesg")]
    note = "no repeated PCIe errors and no errors of GPUs in the kernel log"
    yield Reading(facts or [text.fact(Quantity.NOTE, note, 0, "dmesg")])


def _lines(text: Text) -> list[tuple[int, str]]:
    return list(text.lines(lambda line: any(word in line for word in _WORDS)))


def _facts_of(text: Text, lines_read: list[tuple[int, str]]) -> list[Fact]:
    """Return the states of devices."""
    patterns = (_GPU_DRIVER, _GPU_CLASS)
    gpus = {match[1] for _, line in lines_read for one in patterns if (match := one.search(line)) is not None}
    corrected: Counter[str] = Counter()
    lines: dict[str, int] = {}
    kinds: dict[str, dict[str, None]] = {}
    #: Devices whose line stands for several errors.
    several: set[str] = set()
    are_several = False
    #: First fact of each device and kind of state, or of the code of an error.
    found: dict[tuple[str, str | int], Fact] = {}
    for number, line in lines_read:
        if (match := _PCIE_ERROR.search(line)) is not None:
            device = match[1]
            # "Corrected" or, since Linux 6.10, "Correctable".
            is_corrected = match[2].startswith("Correct")
            corrected[device] += is_corrected
            if are_several and is_corrected:
                several.add(device)
            are_several = False
            lines.setdefault(device, number)
            if not is_corrected:
                found.setdefault((device, "link"), _fact(text, device, _UNCORRECTED, number))
        elif "AER: Multiple Correct" in line:
            # The line below states one of them.
            are_several = True
        elif (match := _ATOMIC_TLP.search(line)) is not None:
            state = "refuses atomic operations of PCIe, which ROCm sends (malformed TLP)"
            found[match[1], "link"] = _fact(text, match[1], state, number)
        elif (match := _AER.search(line)) is not None:
            device = match[1] or match[2]
            found.setdefault((device, "link"), _fact(text, device, _UNCORRECTED, number))
        elif (match := _NARROW.search(line)) is not None:
            if int(match[5]) < int(match[8]) or float(match[4]) < float(match[7]):
                used, lanes = int(match[5]), int(match[8])
                # Devices of 16 lanes with x1 or x2 are GPUs or switches above them.
                is_gpu = used < lanes and (match[2] in gpus or (lanes >= _OF_GPUS and 8 * used <= lanes))
                found.setdefault((match[2], "narrow"), _narrow_link(text, match, number, is_gpu=is_gpu))
        elif (match := _IOMMU.search(line)) is not None and (device := match["one"] or match["other"]):
            device = device if device.count(":") == 2 else f"0000:{device}"
            state = "the IOMMU refuses accesses (IO_PAGE_FAULT)"
            found.setdefault((device, "iommu"), _fact(text, device, state, number))
        elif (match := _DMAR.search(line)) is not None:
            device = match["one"] if match["one"].count(":") == 2 else f"0000:{match['one']}"
            state = "the IOMMU refuses accesses (DMAR fault, as IO_PAGE_FAULT of AMD)"
            found.setdefault((device, "iommu"), _fact(text, device, state, number))
        elif _TRANSLATED in line and _HAS_IOMMU.search(text.raw) is not None:
            found.setdefault(("", "iommu"), text.fact(Quantity.NOTE, _IOMMU_NOTE, number, "dmesg"))
        elif (match := _KIND.search(line)) is not None:
            kinds.setdefault(match[1], {})[match[2]] = None
        elif (match := _XID.search(line)) is not None:
            device, code = _address(match[1]), int(match[2])
            if (previous := _PREVIOUS.search(match[3])) is not None:
                code = int(previous[1])
            found.setdefault((device, code), _gpu_error(text, device, code, match[3], number))
        elif (match := _OTHER_GPU.search(line)) is not None:
            is_lost = match[2] == _LOST
            state = "has fallen off the bus" if is_lost else f"error of its driver: {match[2]}"
            found.setdefault((match[1], "driver"), _fact(text, match[1], state, number))
        elif (match := _ATOMICS.search(line)) is not None:
            device = match[1] or f"a GPU ({match[2]})"
            found.setdefault((device, "atomics"), _fact(text, device, _NO_ATOMICS, number))
        elif (match := _SXID.search(line)) is not None:
            device, code = f"{match[1].lower()}.0", int(match[2])
            found.setdefault((device, code), _switch_error(text, device, match, number))
    for device, (event, is_corrected, number) in _events(lines_read).items():
        if is_corrected and event < _MANY:
            note = f"{device}: corrected PCIe errors, event {event} of the firmware, which is no fault by itself"
            found.setdefault((device, "link"), text.fact(Quantity.NOTE, note, number, "dmesg"))
        else:
            words = f"corrected errors of its PCIe link (event {event} of the firmware)"
            state = words if is_corrected else _UNCORRECTED
            found.setdefault((device, "link"), _fact(text, device, state, number))
    lost = {device for device, kind in found if kind == _OFF_THE_BUS}
    # A reset follows the error of the GPU.
    facts = [
        *_of_amd(text, lines_read),
        *found.values(),
        *_unusable_gpus(text, lines_read, lost),
        *_ports(text, lines_read),
    ]
    facts += [*_of_cards(text, lines_read), *_of_host(text, lines_read)]
    facts += [*_unplaced_memory(text, lines_read, gpus), *_page_faults(text, lines_read), *_options(text, lines_read)]
    for device, count in corrected.items():
        if 0 < count < _MANY and device not in several:
            note = f"{device}: {count} corrected PCIe errors, fewer than {_MANY}, which is no fault by itself"
            facts.append(text.fact(Quantity.NOTE, note, lines[device], "dmesg"))
        elif count:
            named = f" ({', '.join(list(kinds.get(device, {}))[:3])})" if device in kinds else ""
            words = "several" if device in several and count < _MANY else str(count)
            facts.append(_fact(text, device, f"{words} corrected errors of its PCIe link{named}", lines[device]))
    return facts


def _events(lines_read: list[tuple[int, str]]) -> dict[str, tuple[int, bool, int]]:
    """Return the last event of the firmware about each device on PCIe: number, whether all are corrected, line."""
    found: dict[str, tuple[int, bool, int]] = {}
    severity, event = "", 0
    for number, line in lines_read:
        if (match := _EVENT.search(line)) is None:
            continue
        if match[2] is not None:
            severity, event = match[2], int(match[1])
        elif severity:
            _, is_corrected, first = found.get(match[3], (0, True, number))
            found[match[3]] = event, is_corrected and severity in ("corrected", "info"), first
    return found


def _of_amd(text: Text, lines_read: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the largest error of each kind of each GPU of AMD; few corrected errors are a note."""
    found: dict[tuple[str, str], tuple[int, re.Match[str], int]] = {}
    for number, line in lines_read:
        if (match := _AMD.search(line)) is not None:
            count = int(match["words"].split()[0]) if match["kind"] else 1
            error = match["gpu"], match["kind"] or match["words"]
            if count > found.get(error, (0, match, 0))[0]:
                found[error] = count, match, number
    for (gpu, kind), (count, match, number) in found.items():
        if kind == "correctable" and count < _MANY_CORRECTED:
            yield text.fact(Quantity.NOTE, f"{gpu}: {match['words']}", number, "dmesg")
        elif count:
            yield _fact(text, gpu, f"error of the GPU: {match['words']} (amdgpu)", number)


def _unplaced_memory(text: Text, lines_read: list[tuple[int, str]], gpus: set[str]) -> Iterator[Fact]:
    """Yield GPUs and bridges with a window for which the kernel finds no addresses, at the end of its log."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for number, line in lines_read:
        if (match := _PLACED.search(line)) is not None:
            found.pop((match[1], match[2]), None)
        elif (match := _NO_SPACE.search(line)) is not None and match[1] in gpus:
            found[match[1], match[2]] = int(match[3] or match[4], 16), number
    windows: dict[str, tuple[int, int]] = {}
    for number, line in lines_read:
        if (match := _WINDOW.search(line)) is not None:
            windows.pop(match[1], None)
        elif (match := _NO_WINDOW.search(line)) is not None:
            windows[match[1]] = int(match[2], 16), number
    for device, (size, number) in windows.items():
        if size >= _LARGE_WINDOW:
            state = (
                f"a window of {size_text(size)} cannot be assigned: no space for the addresses of the memory below it"
            )
            yield _fact(text, device, state, number)
    for (device, bar), (size, number) in found.items():
        if size >= _MIB:
            state = f"BAR {bar} of {size_text(size)} cannot be assigned: no space for the addresses of its memory"
            yield _fact(text, device, state, number)


def _page_faults(text: Text, lines_read: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the first fault of each GPU of AMD by accesses of a program."""
    seen: set[str] = set()
    for place, (number, line) in enumerate(lines_read):
        if (match := _AMD_PAGE_FAULT.search(line)) is None or match[1] in seen:
            continue
        seen.add(match[1])
        below = (_AMD_PROCESS.search(other) for _, other in lines_read[place : place + _LINES_BELOW])
        process = next((f" of the process {found[1]}" for found in below if found is not None), "")
        note = f"{match[1]}: page fault{process}, an error of a program or of its driver (amdgpu)"
        yield text.fact(Quantity.NOTE, note, number, "dmesg")


def _options(text: Text, lines_read: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the options of the kernel that concern copies between GPUs; the first about the IOMMU decides."""
    for number, line in lines_read:
        if (match := _COMMAND_LINE.search(line)) is None:
            continue
        found = [
            (one[0].strip(), words)
            for option, words in _OPTIONS
            if (one := re.search(rf"(?:^|\s)(?:{option})(?=\s|$)", match[1] or match[2]))
        ]
        about = [one for one in found if "iommu" in one[0]][:1] + [one for one in found if "iommu" not in one[0]]
        for option, words in about:
            yield text.fact(Quantity.NOTE, f"option of the kernel {option}: {words}", number, "dmesg")
        return


def _of_cards(text: Text, lines_read: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the first error of each network card that stops it."""
    found: dict[str, tuple[str, int]] = {}
    for number, line in lines_read:
        if (match := _CARD_HEALTH.search(line)) is not None:
            found.setdefault(match[1], (match[2].strip(), number))
    for device, (words, number) in found.items():
        is_of_pages = "ALLOC_UAR" in words or "user access region" in words
        state = f"has {_NO_PAGES if is_of_pages else 'a failure of its firmware or driver'}: {words}"
        yield text.fact(Quantity.CARD_STATE, state, number, "dmesg", subject=(f"network card {device}",))


def _corrected_memory(text: Text, lines_read: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield memory modules with corrected errors: many of one module are a fault, few a note."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for number, line in lines_read:
        if (match := _CORRECTED_MEMORY.search(line)) is not None:
            counts[match[2]] += int(match[1])
            first.setdefault(match[2], number)
    for module, count in counts.items():
        words = (
            f"{count} corrected errors of the memory module {module}"
            if count > 1
            else (f"a corrected error of the memory module {module}")
        )
        if count >= _MANY_IN_MEMORY:
            subject = (
                "host_error",
                "reseat or replace this module: corrected errors cost time, and wrong data may follow",
            )
            yield text.fact(Quantity.CAUSE, words, first[module], "dmesg", subject=subject)
        else:
            yield text.fact(Quantity.NOTE, f"{words}: if they grow, it is faulty", first[module], "dmesg")


def _of_host(text: Text, lines_read: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the first error of each kind of the host: memory, processors, lack of memory."""
    yield from _corrected_memory(text, lines_read)
    for pattern, meaning, remedy in _OF_HOST:
        for number, line in lines_read:
            if (match := pattern.search(line)) is not None:
                words = f'{meaning}: "{match[0].strip()}"'
                yield text.fact(Quantity.CAUSE, words, number, "dmesg", subject=("host_error", remedy))
                break


def _unusable_gpus(text: Text, lines_read: list[tuple[int, str]], lost: set[str]) -> Iterator[Fact]:
    """Yield GPUs that the driver cannot use, except those whose Xid says so (`lost`): each once, with its worst state.

    A message without an address is about one of the others, if there are any.
    """
    found: dict[str, tuple[int, int]] = {}
    device, since = _SOME_GPU, 0
    is_ignored = any("this GPU" in line and "ignor" in line for _, line in lines_read)
    for number, line in lines_read:
        if "Linux version " in line:
            # Another boot.
            found.clear()
        elif (match := _INITIALISED.search(line) or _ATTEMPT.search(line)) is not None:
            found.pop(match[1].lower(), None)
        if not any(words in line for words in ("NVRM: ", *_PROBES)) or "Xid" in line:
            continue
        if (match := _NVIDIA_GPU.search(line)) is not None:
            device, since = f"{match[1].lower()[-10:]}.0", number
        elif number > since + _LINES_BELOW:
            device = _SOME_GPU
        rank = next((rank for rank, words in enumerate(_UNUSABLE) if words in line), None)
        if rank is not None and not (is_ignored and "probe routine" in line):
            found[device] = min(found.get(device, (rank, number)), (rank, number))
    if len(found) > 1 or lost:
        found.pop(_SOME_GPU, None)
    for device, (rank, number) in found.items():
        if device not in lost:
            yield _fact(text, device, list(_UNUSABLE.values())[rank], number)


def _ports(text: Text, lines_read: list[tuple[int, str]]) -> Iterator[Fact]:
    """Yield network cards with too little power, those whose last state is a fault, and those that lose their link."""
    found: dict[tuple[str, str], tuple[str, int]] = {}
    downs: dict[str, list[int]] = {}
    modules: dict[str, list[str]] = {}
    for number, line in lines_read:
        if "Linux version " in line:
            downs.clear()
        elif (match := _CABLE.search(line)) is not None:
            found.pop((match[1], "module"), None)
            if match[2]:
                found[match[1], "module"] = ("is Down (cable unplugged)", number)
        elif (match := _MODULE.search(line)) is not None:
            found.setdefault((match[1], "module"), (f"has an error of its module: {match[2]}", number))
            modules.setdefault(match[1], []).append(match[2])
        elif (match := _REGISTRATION.search(line)) is not None:
            found.setdefault((match[1], "memory"), (f"cannot register memory: {match[2]}", number))
        elif (match := _POWER.search(line)) is not None:
            found.setdefault((match[1], "power"), ("detects insufficient power on its PCIe slot", number))
        elif (match := _PORT_LINK.search(line)) is not None:
            # "up", "ACTIVE", "INIT" and "ARMED" end a state; an error of the module before it is over.
            found.pop((match[1], f"link {match[2]}"), None)
            if match[3].lower() != "down":
                found.pop((match[1], "module"), None)
            else:
                found[match[1], f"link {match[2]}"] = ("is Down (its link went down and not up again)", number)
                downs.setdefault(match[1], []).append(number)
    faulty = {device for device, _ in found}
    for device, numbers in downs.items():
        if len(numbers) >= _MANY_DOWNS and device not in faulty:
            reasons = f" ({', '.join(dict.fromkeys(modules[device]))})" if device in modules else ""
            found[device, "flaps"] = (f"lost its link {len(numbers)} times{reasons}", numbers[0])
    for (device, _), (state, number) in found.items():
        yield text.fact(Quantity.CARD_STATE, state, number, "dmesg", subject=(f"network card {device}",))


def _narrow_link(text: Text, match: re.Match[str], line: int, *, is_gpu: bool) -> Fact:
    """Return a slow or narrow link: the state of a card or GPU; of another device a note, since its kind is unknown.

    Devices of a chipset have more lanes than the link above it.
    """
    now, possible = (f"{speed} GT/s x{width}" for speed, width in ((match[4], match[5]), (match[7], match[8])))
    state = f"has {match[3]} of {match[6]} Gbit/s of PCIe, limited by a link of {now} where {possible} is possible"
    if _CARD_DRIVER.fullmatch(match[1]):
        return text.fact(Quantity.CARD_STATE, state, line, "dmesg", subject=(f"network card {match[2]}",))
    if is_gpu:
        return _fact(text, match[2], state, line)
    return text.fact(Quantity.NOTE, f"{match[2]}: {state}", line, "dmesg")


def _address(printed: str) -> str:
    """Return the address of a GPU with its function; as printed, if it is no whole one."""
    match = _WHOLE.fullmatch(printed)
    return printed if match is None else f"{match[1].lower()}.0"


def _gpu_error(text: Text, device: str, code: int, words: str, line: int) -> Fact:
    """Return an error of a GPU as its state; an error of a program, or of unknown meaning, as a note."""
    if code in _XIDS:
        return _fact(text, device, f"{_XIDS[code]} (Xid {code})", line)
    kind = "an error of a program" if code in _OF_PROGRAMS else "whose meaning is not known here"
    kind = "the recovery that the GPU needs after its error" if code == _RECOVERY else kind
    note = f"{device}: Xid {code}, {kind}: {words[:_LONGEST_NOTE]}"
    return text.fact(Quantity.NOTE, note, line, "dmesg")


def _switch_error(text: Text, device: str, match: re.Match[str], line: int) -> Fact:
    """Return a fatal error of an NVSwitch as its state, another one as a note."""
    if match[3] == "Fatal":
        return _fact(text, device, f"fatal error of an NVSwitch or its NVLinks (SXid {match[2]})", line)
    note = f"{device}: SXid {match[2]} of an NVSwitch, not fatal: {match[4][:_LONGEST_NOTE]}"
    return text.fact(Quantity.NOTE, note, line, "dmesg")


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
    versions="also 'journalctl -k' and `/proc/cmdline`: PCIe errors (AER), errors of GPUs, NVLinks and NVSwitches "
    "(Xid, SXid), of network cards, memory and processors",
    is_per_host=True,
)
