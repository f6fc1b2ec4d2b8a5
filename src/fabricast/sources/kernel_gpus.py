"""Errors of GPUs in the kernel log, of the drivers of NVIDIA, AMD and Intel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Fact, Quantity
from fabricast.core.number_text import size_text
from fabricast.sources.kernel_lines import BOOT, DEVICE, PROGRAM, Lines, gpu_state, gpus_of
from fabricast.sources.text import Text

#: Words of the lines that are read here.
WORDS = (
    "NVRM: ",
    "nvidia-modeset: ERROR",
    "SMU: I'm not done",
    "ms after ",
    "GPU HANG",
    "vfio-pci 0",
    "qcm fence wait loop",
    "Fence fallback timer",
    "gim error",
    "t reserve [mem",
    BOOT,
    "Initialized nvidia-drm",
    "SXid (",
    "nvidia 0000:",
    "nvidia: probe of",
    "nouveau 0000:",
    "amdgpu 0",
    "amdgpu_job_timedout",
    "amdgpu: probe of",
    "]] *ERROR*",
    "READY_TO_ACCESS_GPU",
    "Unable to change power state from D3cold",
    "i915: probe of",
    "xe: probe of",
    "BAR ",
    "bridge window",
    "kfd kfd: ",
    "i915 0",
    "xe 0",
)
#: Address and number; what a user publishes may lack the address.
_XID = re.compile(
    r"(?:(?<![\"'`])|\[XID found\] \([^)]{1,40}\) \")NVRM: Xid \((PCI:[^)\s]{0,40})\): (\d{1,4}),?\s*(.*)"
)
_WHOLE = re.compile(r"PCI:([0-9a-fA-F]{4,5}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?")
#: GPUs that NVIDIA's driver cannot use: state by words of its message, the worst first. The words may follow on the
#: lines below the GPU.
_UNUSABLE = {
    "fallen off the bus": "has fallen off the bus",
    "Cannot initialize GSP firmware": "its system processor (GSP) cannot be started",
    "HeartbeatTimedOut": "its system processor (GSP) does not answer",
    "GSP RM heartbeat timed out": "its system processor (GSP) does not answer",
    "kflcnCoreDump": "its system processor (GSP) failed, so that the driver prints its registers",
    "WPR2 already up": "needs a reset: its protected memory (WPR2) is in use since an earlier start",
    "GPU lost from the bus": "has fallen off the bus",
    "NV_ERR_RESET_REQUIRED": "needs a reset",
    "RmInitAdapter failed": "cannot be initialised by its driver (RmInitAdapter failed)",
    "not supported by open": "is not supported by the open modules of its driver",
    "is not supported by": "is not supported by this version of its driver",
    "is 0M @ 0x0": "has no place in the address space for its memory (BAR), so that its driver refuses it",
    "probe routine failed": "is refused by its driver (probe routine failed)",
    "nvidia: probe of": "is refused by its driver (probe failed)",
    "probe with driver nvidia failed": "is refused by its driver (probe failed)",
}
#: Place of the dump of registers, and the errors of the same processor.
_DUMP, _OF_GSP = list(_UNUSABLE).index("kflcnCoreDump"), (119, 120)
_NVIDIA_GPU = re.compile(
    r"(?:NVRM: (?:The NVIDIA )?GPU (?:at )?(?:PCI:)?|NVRM: BAR\d is 0M @ 0x0 \(PCI:|nvidia: probe of |"
    r"nvidia (?=\S{12,16}: probe with))([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
)
_PROBES = ("nvidia: probe of", "probe with driver nvidia failed")
#: Another attempt of the driver.
_ATTEMPT = re.compile(rf"nvidia {DEVICE}: enabling device")
_INITIALISED = re.compile(r"Initialized nvidia-drm .{0,80}for ([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
#: Lines after the address of a GPU in which its state may follow.
_LINES_BELOW = 6
#: Name of a GPU whose address a message leaves out.
_SOME_GPU = "a GPU"
#: Devices that stay switched off.
_ASLEEP = re.compile(
    rf"(?:vfio-pci|nvidia|amdgpu) {DEVICE}: Unable to change power state from D3cold to D0, device inaccessible"
)
#: Errors of the drivers of AMD and Intel.
_OTHER_GPU = re.compile(
    rf"(?:amdgpu|i915|xe) {DEVICE}: .{{0,60}}?"
    r"(device lost from bus|GPU reset begin|GPU reset\(\d+\) (?:succeeded|failed)|ring \S{1,40} timeout"
    r"|MES failed to respond|declared device \S{1,20} as wedged|SMC engine is not correctly up"
    r"|SMU: I'm not done with your previous command|GPU HANG|Engine reset|Timedout job|CT: No response for request"
    r"|get invalid ip discovery binary signature)"
)
#: Error of the part of the driver for computing, which names no device, before the reset of the GPU.
_QUEUES = re.compile(r"amdgpu: qcm fence wait loop timeout expired")
#: Hang of a GPU of Intel without its address.
_HANG = re.compile(r"\[drm\] (GPU HANG: ecode \S{1,40})")
_NO_INTERRUPT = re.compile(r"\[drm\] Fence fallback timer expired on ring (\S{1,40})")
#: Memory of a device that another driver uses.
_RESERVED = re.compile(rf"{DEVICE}: BAR (\d): can.{{1,3}}t reserve \[mem")
#: Numbered GPU that does not answer the display driver.
_NO_SCREEN = re.compile(
    r"nvidia-modeset: ERROR: GPU:(\d{1,3}): (Error while waiting for GPU progress|Failed to query display engine)"
)
#: Device that does not come back after a reset, and one that does.
_STUCK = re.compile(
    rf"vfio-pci {DEVICE}: AMD_\w{{2,16}}: (.{{0,40}}?(?:timed out waiting for \w{{2,8}}|reset failed|Could not reset)"
    r"[^:]{0,40})"
)
_SMALL_BAR = re.compile(rf"(?:i915|xe) {DEVICE}: \[drm\] Small BAR device")
_NOT_READY = re.compile(
    rf"(?<![\w-])(?!nvme)[\w-]{{1,20}} {DEVICE}: (not )?ready \d{{1,9}}ms after (?!resume)([\w ]{{2,20}})"
)
_RESET_DONE = re.compile(rf"vfio-pci {DEVICE}: .{{0,40}}?reset result = 0\b")
_LOST = "device lost from bus"
#: GPUs that the drivers of AMD and Intel refuse, with the number of the error.
_REFUSED = re.compile(
    rf"\b(?:amdgpu|i915|xe): probe of {DEVICE} failed with error (-\d{{1,3}})"
    rf"|\b(?:amdgpu|i915|xe) {DEVICE}: probe with driver \w{{2,6}} failed with error (-\d{{1,3}})"
)
_AMD_DEVICE = re.compile(rf"\bamdgpu {DEVICE}:")
#: Errors of parts of the driver that a GPU needs to compute, and of a virtual function whose host does not answer.
_AMD_ERROR = re.compile(
    r"\[drm:(?:psp|gfx|sdma|smu|gmc|amdgpu_(?:ring|device|ib|fill))\w{0,40} \[amdgpu\]\] \*ERROR\* "
    r"(.{0,80}?(?:[Ff]ail|[Tt]ime|hang|turned off)[^!\n]{0,40})"
    r"|(?P<pf>Doesn't get READY_TO_ACCESS_GPU from pf)"
)
#: The same of drivers that do not print the device.
_AMD_TIMEOUT = re.compile(r"amdgpu_job_timedout\b[^\n]{0,40}?\bring (\S{1,40}) timeout")
#: Beginning of a failure that the refusal of the driver explains.
_INIT = "Fatal error during GPU init"
_NO_HOST = "the host of this virtual function (SR-IOV) does not answer"
#: GPUs of AMD below a port that passes no atomic operations of PCIe, by the driver or by ROCm's part of it.
_ATOMICS = re.compile(
    rf"amdgpu {DEVICE}: .{{0,20}}?PCIE atomic ops is not supported"
    r"|kfd kfd: (?:amdgpu: )?skipped device ([0-9a-f]{4}:[0-9a-f]{4}), PCI rejects atomics"
)
_NO_ATOMICS = "gets no atomic operations of PCIe through a port above it, which ROCm uses"
#: Errors of NVSwitches; the driver states whether they are fatal.
_SXID = re.compile(
    r"SXid \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\): (\d{1,6}), "
    r"(Fatal|Non-fatal|(?=Data \{)),? *(.*)"
)
_NO_SEVERITY = "another line states whether it is fatal"
#: Earlier error that a later one names.
_PREVIOUS = re.compile(r"caused by previous Xid (\d{1,4})")
#: Errors of GPUs of AMD.
_AMD = re.compile(
    r"amdgpu (?P<gpu>[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):.{0,60}?"
    r"(?P<words>Fatal error during GPU init|(?:GPU|VRAM) is lost.{0,40}"
    r"|uncorrectable hardware error ?\(.{1,40}?\) detected"
    r"|\d{1,9} (?:new )?(?P<kind>uncorrectable|correctable) hardware errors detected in (?!total).{1,40}? block)"
)
#: Windows of devices into memory for which the kernel finds no addresses, and those that it then places.
_NO_SPACE = re.compile(
    rf"\b(?:nvidia|amdgpu|nouveau|pci) {DEVICE}: BAR (\d)(?:"
    r": (?:no space for|failed to assign) \[mem size (0x[0-9a-f]{1,16})"
    r"| \[mem size (0x[0-9a-f]{1,16})[^\]]*\]: (?:can't assign; no space|failed to assign))"
)
#: Windows of bridges to the memory of devices below them.
#: Old kernels number them as BAR 14 and 15.
_NO_WINDOW = re.compile(
    rf"\b(?:pci|pcieport) {DEVICE}: (?:bridge window \[mem size (0x[0-9a-f]{{1,16}})[^\]]*\]: "
    r"(?:can't assign; no space|failed to assign)"
    r"|BAR 1[45]: (?:no space for|failed to assign) \[mem size (0x[0-9a-f]{1,16}))"
)
_WINDOW = re.compile(
    rf"\b(?:pci|pcieport) {DEVICE}: (?:bridge window \[mem 0x[0-9a-f]+-0x[0-9a-f]+[^\]]*\]: assigned"
    r"|BAR 1[45]: assigned \[mem 0x[0-9a-f]+-0x)"
)
_PLACED = re.compile(rf"{DEVICE}: BAR (\d)(?:: assigned)? \[mem 0x[0-9a-f]+-0x[0-9a-f]+[^\]]*\](?:: assigned)?")
#: Smallest windows of a bridge that may be, and that is, one for the memory of a GPU: slots for hot plug get smaller
#: ones.
_MIB, _LARGE_WINDOW, _WINDOW_OF_GPU = 1 << 20, 1 << 28, 1 << 33
#: Accesses of a program to memory that its GPU does not have.
_AMD_PAGE_FAULT = re.compile(
    rf"amdgpu {DEVICE}: .{{0,60}}?((?:no-)?retry page fault|VMC page fault|VM_L2_PROTECTION_FAULT_STATUS)"
)
_AMD_PROCESS = re.compile(r"for process (\S{1,40}) pid \d")
#: Number of corrected errors of a GPU of AMD from which they are no accident.
_MANY_CORRECTED = 100
#: Numbers (Xid) of a GPU that does not answer, and of one that must be reset.
_OFF_THE_BUS = 79
_RECOVERY = 154
#: Errors of programs, which say nothing about the machine.
_OF_PROGRAMS = (13, 31, 43, 68, 69, 137)
#: Number of the end of the programs of a GPU, after an earlier error or by the user.
_ENDED = 45
_LONGEST_NOTE = 100
#: Errors of GPUs and NVLinks. NVIDIA, "Xid Errors".
_XIDS = {
    8: "the GPU stopped processing",
    32: "corrupted commands arrive over PCIe",
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
    64: "row remapping or page retirement failed",
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


def gpu_facts(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the errors of GPUs, each of a device once."""
    found: dict[tuple[str, str | int], Fact] = {}
    amd = {match[1] for _, line in lines if (match := _AMD_DEVICE.search(line)) is not None}
    # GPU of the messages of amdgpu that name none.
    of_amd = next(iter(amd)) if len(amd) == 1 else _SOME_GPU
    for number, line in lines:
        if (match := _XID.search(line)) is not None:
            device, code = _address(match[1]), int(match[2])
            if (previous := _PREVIOUS.search(match[3])) is not None:
                code = int(previous[1])
            found.setdefault((device, code), _gpu_error(text, device, code, match[3], number))
        elif (match := _AMD_TIMEOUT.search(line)) is not None:
            state = f"error of its driver: ring {match[1]} timeout"
            found.setdefault((of_amd, "driver"), gpu_state(text, of_amd, state, number))
        elif (match := _AMD_ERROR.search(line)) is not None:
            found.setdefault(
                (of_amd, "driver"), gpu_state(text, of_amd, f"error of its driver: {match[1] or _NO_HOST}", number)
            )
        elif (match := _OTHER_GPU.search(line)) is not None:
            before = found.get((match[1], "driver"))
            if "succeeded" in match[2]:
                if before is None or "GPU reset begin" in before.value:
                    found.pop((match[1], "driver"), None)
                    # Without an error before it, a user or a program may have asked for the first reset.
                    count = int(match[2].partition("(")[2].partition(")")[0])
                    fact = gpu_state(text, match[1], f"was reset by its driver {count} times since the start", number)
                    if count == 1:
                        words = f"{match[1]}: its driver reset it, with success"
                        fact = text.fact(Quantity.NOTE, words, number, PROGRAM)
                    found[match[1], "resets"] = fact
                continue
            is_lost = match[2] == _LOST
            state = "has fallen off the bus" if is_lost else f"error of its driver: {match[2]}"
            found.setdefault((match[1], "driver"), gpu_state(text, match[1], state, number))
        elif (match := _REFUSED.search(line)) is not None:
            state = f"is refused by its driver (probe failed with error {match[2] or match[4]})"
            found.setdefault((match[1] or match[3], "driver"), gpu_state(text, match[1] or match[3], state, number))
        elif (match := _ASLEEP.search(line)) is not None:
            state = "does not return from power state D3cold, so that it cannot be reached"
            found.setdefault((match[1], "driver"), gpu_state(text, match[1], state, number))
        elif (match := _NOT_READY.search(line)) is not None:
            words = f"{match[1]}: it came back after a reset"
            found[match[1], "reset"] = text.fact(Quantity.NOTE, words, number, PROGRAM)
            if match[2]:
                state = f"does not come back after a reset ({match[3]})"
                found[match[1], "reset"] = gpu_state(text, match[1], state, number)
        elif BOOT in line:
            # A reset that failed ends with a boot.
            for device, kind in [key for key in found if key[1] == "reset"]:
                words = f"{device}: a reset of it failed before a later start"
                found[device, kind] = text.fact(Quantity.NOTE, words, number, PROGRAM)
        elif (match := _RESET_DONE.search(line)) is not None:
            words = f"{match[1]}: its reset succeeded in the end"
            found[match[1], "reset"] = text.fact(Quantity.NOTE, words, number, PROGRAM)
        elif (match := _STUCK.search(line)) is not None:
            before = found.get((match[1], "reset"))
            if before is None or before.quantity is Quantity.NOTE:
                state = f"does not come back after a reset ({match[2].strip()})"
                found[match[1], "reset"] = gpu_state(text, match[1], state, number)
        elif (match := _SMALL_BAR.search(line)) is not None:
            state = "has a small window into its memory (Small BAR): Resizable BAR is off"
            found.setdefault((match[1], "bar"), gpu_state(text, match[1], state, number))
        elif (match := _ATOMICS.search(line)) is not None:
            device = match[1] or f"a GPU ({match[2]})"
            found.setdefault((device, "atomics"), gpu_state(text, device, _NO_ATOMICS, number))
        elif (match := _HANG.search(line)) is not None:
            found.setdefault(
                (_SOME_GPU, "driver"),
                gpu_state(text, _SOME_GPU, f"error of its driver: {match[1].rstrip(',')}", number),
            )
        elif _QUEUES.search(line) is not None:
            state = "error of its driver: a queue of a program does not stop (qcm fence wait loop timeout)"
            found.setdefault((of_amd, "driver"), gpu_state(text, of_amd, state, number))
        elif (match := _NO_INTERRUPT.search(line)) is not None:
            state = f"its interrupts do not arrive (Fence fallback timer expired on ring {match[1]})"
            found.setdefault((of_amd, "interrupts"), gpu_state(text, of_amd, state, number))
        elif (match := _RESERVED.search(line)) is not None:
            state = f"its memory (BAR {match[2]}) is used by another driver, such as that of the console"
            found.setdefault((match[1], "reserved"), gpu_state(text, match[1], state, number))
        elif (match := _NO_SCREEN.search(line)) is not None:
            state = f"does not answer its display driver ({match[2]})"
            found.setdefault((f"GPU {match[1]}", "screen"), gpu_state(text, match[1], state, number))
        elif (match := _SXID.search(line)) is not None:
            device, code = f"{match[1].lower()}.0", int(match[2])
            known = found.get((device, code))
            if known is None or match[3] == "Fatal" or (match[3] and _NO_SEVERITY in known.value):
                # The line with the severity counts, and of several ones the fatal one.
                found[device, code] = _switch_error(text, device, match, number)
    yield from found.values()
    # What fails at the start of a GPU has its number in the refusal of the driver.
    refused = {device for (device, _), fact in found.items() if "refused by its driver" in fact.value}
    yield from (fact for fact in _of_amd(text, lines) if not (_INIT in fact.value and fact.subject[0] in refused))
    # A reset follows the error of the GPU.
    lost = {device for device, kind in found if kind == _OFF_THE_BUS}
    yield from _unusable_gpus(text, lines, lost, has_gsp_errors=any(kind in _OF_GSP for _, kind in found))
    yield from _unplaced_memory(text, lines)
    yield from _page_faults(text, lines)


def _of_amd(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the largest error of each kind of each GPU of AMD; few corrected errors are a note."""
    found: dict[tuple[str, str], tuple[int, re.Match[str], int]] = {}
    for number, line in lines:
        if (match := _AMD.search(line)) is not None:
            count = int(match["words"].split()[0]) if match["kind"] else 1
            error = match["gpu"], match["kind"] or match["words"]
            if count > found.get(error, (0, match, 0))[0]:
                found[error] = count, match, number
    for (gpu, kind), (count, match, number) in found.items():
        if kind == "correctable" and count < _MANY_CORRECTED:
            yield text.fact(Quantity.NOTE, f"{gpu}: {match['words']}", number, PROGRAM)
        elif count:
            yield gpu_state(text, gpu, f"error of the GPU: {match['words']} (amdgpu)", number)


def _unplaced_memory(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield GPUs and bridges with a window for which the kernel finds no addresses, at the end of its log."""
    gpus = gpus_of(lines)
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for number, line in lines:
        if (match := _PLACED.search(line)) is not None:
            found.pop((match[1], match[2]), None)
        elif (match := _NO_SPACE.search(line)) is not None and match[1] in gpus:
            found[match[1], match[2]] = int(match[3] or match[4], 16), number
    windows: dict[str, tuple[int, int]] = {}
    for number, line in lines:
        if (match := _WINDOW.search(line)) is not None:
            windows.pop(match[1], None)
        elif (match := _NO_WINDOW.search(line)) is not None:
            windows[match[1]] = int(match[2] or match[3], 16), number
    for device, (size, number) in windows.items():
        state = f"a window of {size_text(size)} cannot be assigned: no space for the addresses of the memory below it"
        if size >= _LARGE_WINDOW and (found or size >= _WINDOW_OF_GPU):
            yield gpu_state(text, device, state, number)
        elif size >= _LARGE_WINDOW:
            yield text.fact(Quantity.NOTE, f"{device}: {state}; an empty slot needs none", number, PROGRAM)
    for (device, bar), (size, number) in found.items():
        # BAR 5 of AMD has the registers, that of NVIDIA ports; BAR 6 is a ROM, which no program needs.
        if size >= _MIB or bar == "5":
            state = f"BAR {bar} of {size_text(size)} cannot be assigned: no space for the addresses of its memory"
            yield gpu_state(text, device, state, number)


def _page_faults(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the first fault of each GPU of AMD by accesses of a program."""
    seen: set[str] = set()
    for place, (number, line) in enumerate(lines):
        if (match := _AMD_PAGE_FAULT.search(line)) is None or match[1] in seen:
            continue
        seen.add(match[1])
        if any("vmid:0 pasid:0" in other for _, other in lines[place : place + _LINES_BELOW]):
            note = f"{match[1]}: page fault in the context of the driver (vmid:0), an error of the driver or firmware"
            yield text.fact(Quantity.NOTE, note, number, PROGRAM)
            continue
        below = (_AMD_PROCESS.search(other) for _, other in lines[place : place + _LINES_BELOW])
        process = next((f" of the process {found[1]}" for found in below if found is not None), "")
        note = f"{match[1]}: page fault{process}, an error of a program or of its driver (amdgpu)"
        yield text.fact(Quantity.NOTE, note, number, PROGRAM)


def _unusable_gpus(text: Text, lines: Lines, lost: set[str], *, has_gsp_errors: bool) -> Iterator[Fact]:
    """Yield GPUs that the driver cannot use, except those whose Xid says so (`lost`): each once, with its worst state.

    A message without an address is about one of the others, if there are any, or about the one with an error of its
    system processor (`has_gsp_errors`).
    """
    found: dict[str, tuple[int, int]] = {}
    device, since = _SOME_GPU, 0
    is_ignored = any("this GPU" in line and "ignor" in line for _, line in lines)
    for number, line in lines:
        if BOOT in line:
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
    if len(found) > 1 or lost or (has_gsp_errors and found.get(_SOME_GPU, (0, 0))[0] == _DUMP):
        found.pop(_SOME_GPU, None)
    for device, (rank, number) in found.items():
        if device not in lost:
            yield gpu_state(text, device, list(_UNUSABLE.values())[rank], number)


def _address(printed: str) -> str:
    """Return the address of a GPU with its function; as printed, if it is no whole one."""
    match = _WHOLE.fullmatch(printed)
    return printed if match is None else f"{match[1].lower()}.0"


def _gpu_error(text: Text, device: str, code: int, words: str, line: int) -> Fact:
    """Return an error of a GPU as its state; an error of a program, or of unknown meaning, as a note."""
    if code in _XIDS:
        return gpu_state(text, device, f"{_XIDS[code]} (Xid {code})", line)
    kind = "usually an error of a program" if code in _OF_PROGRAMS else "whose meaning is not known here"
    kind = "its programs were ended, as after an earlier error" if code == _ENDED else kind
    kind = "the recovery that the GPU needs after its error" if code == _RECOVERY else kind
    note = f"{device}: Xid {code}, {kind}: {words[:_LONGEST_NOTE]}"
    return text.fact(Quantity.NOTE, note, line, PROGRAM)


def _switch_error(text: Text, device: str, match: re.Match[str], line: int) -> Fact:
    """Return a fatal error of an NVSwitch as its state, another one as a note."""
    if match[3] == "Fatal":
        return gpu_state(text, device, f"fatal error of an NVSwitch or its NVLinks (SXid {match[2]})", line)
    severity = "not fatal" if match[3] else _NO_SEVERITY
    note = f"{device}: SXid {match[2]} of an NVSwitch, {severity}: {match[4][:_LONGEST_NOTE]}"
    return text.fact(Quantity.NOTE, note, line, PROGRAM)
