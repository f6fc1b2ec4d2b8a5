"""Errors of memory and processors, and options of the kernel, in the kernel log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from fabricast.core.facts import Fact, Quantity
from fabricast.sources.kernel_lines import BOOT, PROGRAM, Lines
from fabricast.sources.text import Text

#: Words of these errors, which other programs may print: a text needs lines of the kernel, too.
WORDS_OF_HOST = (
    "[Hardware Error]",
    "EDAC ",
    "Machine Check",
    "ut of memory: Killed",
    "soft lockup",
    "hard LOCKUP",
    "RIP: ",
    "disagrees about version of symbol",
    "Unknown symbol",
    "module using GPL-only symbols",
    "AMD-Vi: Unknown option",
    "nvidia_p2p_get_pages",
    "segfault at",
    "blocked for more than",
    "NETDEV WATCHDOG",
    "LNet: ",
    "Lustre: ",
    "LustreError: ",
    "Firmware not responding",
    "Abandoning msg",
    "DPC: containment",
    "ink down, DPC",
    "Automatic recovery failed",
    "frozen state error",
    "Device is NOT usable",
    "cpu clock throttled",
    "cpu clock is throttled",
    "gdrdrv:",
    "state:D",
    "dxgk: ",
    "invalid context, skipping",
    "sq_intr: error",
    "API mismatch",
    "not supported in kfd",
    "kfd not supported on this ASIC",
)
#: Words of the lines that are read here.
WORDS = ("BOOT_IMAGE=", "GRUB_CMDLINE_LINUX", "Default domain type", *WORDS_OF_HOST)
_OF_SYSLOG = re.compile(r"(?<!\S)(\S{1,200}) kernel:")
#: Words of a crash: the place where it happened stands below warnings, too, after which the kernel goes on.
_CRASH = re.compile(r"\bBUG: |\bOops: |general protection fault|[Kk]ernel panic|invalid opcode")


class _Error(NamedTuple):
    """Error of the host."""

    pattern: re.Pattern[str]
    meaning: str
    remedy: str
    #: Whether a boot ends it; errors of memory and processors are often the reason of a boot.
    ends_with_boot: bool = False
    needs: re.Pattern[str] | None = None  # Words without which it is none
    unless: re.Pattern[str] | None = None  # Words of the error from which it follows
    ends_with: re.Pattern[str] | None = None  # Words of a later line that end it


_NOT_ALIGNED = re.compile(r"NVRM: Invalid argument in nv_p2p_get_pages.{0,60}")
_OF_HOST = (
    _Error(
        re.compile(
            r"(?<!\S)\S{1,40}: segfault at .{1,120}? in lib(?:nccl|rccl|mpi|ucp|uct|ucs|fabric|ibverbs|mlx5)"
            r"(?:-\w{1,20})?(?:\.so|\[)\S{0,40}"
        ),
        "a program crashed in a library of communication",
        "compare the versions of this library and of the driver on all hosts; NCCL_DEBUG=INFO or UCX_LOG_LEVEL=info "
        "shows the operation, and 'coredumpctl gdb' the backtrace",
    ),
    _Error(
        re.compile(r"EDAC .{0,20}?\b[1-9]\d{0,8} UE .{0,80}"),
        "an uncorrected error of memory",
        "replace the memory module that the message names ('ras-mc-ctl --errors')",
    ),
    _Error(
        # The status of an uncorrected error has bit 61 (UC); Linux prints the same line for corrected ones.
        re.compile(r"Machine Check: \d{1,2} Bank \d{1,3}: [2367abef][0-9a-f]{15}\b|Machine Check Exception: .{0,60}"),
        "a machine check of a processor that was not corrected",
        "'ras-mc-ctl --errors' or 'mcelog' decode it; ask the vendor of the host",
    ),
    _Error(
        re.compile(r"(?:Memory cgroup out of memory|Out of memory): Killed process.{0,40}"),
        "a process was ended for lack of memory",
        "more memory for the job or container, or fewer processes on the host",
        ends_with_boot=True,
    ),
    _Error(
        re.compile(r"task \S{1,60} blocked for more than \d{1,6} seconds"),
        "a process hangs in the kernel",
        "the lines below this message name the driver (nvidia, nvidia_uvm, mlx5): reboot, then update it",
        ends_with_boot=True,
    ),
    _Error(
        re.compile(r"\w{1,30}: (?:disagrees about version of symbol \w{1,60}|Unknown symbol \w{1,60} \(err -22\))"),
        "a module of the kernel cannot be loaded, since it was built for another driver or kernel",
        "build and install it again for the driver that is loaded (dkms), then modprobe it",
    ),
    _Error(
        re.compile(r"\w{1,30}: module using GPL-only symbols uses symbols \w{1,60} from proprietary module nvidia"),
        "a module of the kernel cannot be loaded with the proprietary modules of NVIDIA",
        "install NVIDIA's open kernel modules (nvidia-open), or a version of the module that permits proprietary ones",
    ),
    _Error(
        re.compile(r"RIP: \w{1,8}:\S{1,80} \[(?:amdgpu|nvidia\w{0,12}|mlx[45]_\w{2,8}|i915|xe)\]"),
        "the kernel crashed in a driver",
        "reboot; use another version of this driver, or of the kernel",
        ends_with_boot=True,
        needs=_CRASH,
    ),
    _Error(
        re.compile(r"AMD-Vi: Unknown option - '\w{1,20}'"),
        "the kernel ignores an option of the IOMMU, which then translates addresses",
        "iommu=pt (not amd_iommu=pt) on the kernel command line; 'cat /proc/cmdline' prints it",
    ),
    _Error(
        re.compile(
            r"Error ret -\d{1,3} invoking nvidia_p2p_get_pages"
            r"|nvidia_p2p_get_pages\(.{1,60}?p2p_token=0 va_space=0[^)]{0,60}\) failed \[ret = -22\]"
        ),
        "the driver refuses other devices access to the memory of a GPU (GPUDirect RDMA or Storage)",
        "GeForce cards have none: use a card for data centres or workstations; on those, check BAR1, the IOMMU and the "
        "version of the module that asks (gdrdrv, nvidia-fs)",
        unless=_NOT_ALIGNED,
    ),
    _Error(
        _NOT_ALIGNED,
        "the driver refuses to pin memory of a GPU whose address is not aligned",
        "gdrdrv (or another module that asks) does not fit this driver: install its newest version, or another driver",
    ),
    _Error(
        re.compile(r"NVRM: API mismatch: .{1,160}"),
        "the libraries of the driver have another version than its module in the kernel",
        "reboot, or load the module again (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia); a "
        "container needs the libraries of its host",
        ends_with_boot=True,
    ),
    _Error(
        re.compile(
            r"bnxt_en \S{1,20}(?: \S{1,20})?: Firmware not responding.{0,40}|bnxt_en .{0,40}?Abandoning msg.{0,60}"
        ),
        "the firmware of a network card does not answer",
        "a cold boot of the host; update the firmware of the card and its driver",
        ends_with=re.compile(r"[Rr]eset done|recovered"),
    ),
    _Error(
        re.compile(r"\S{1,20}: DPC: containment event.{0,60}|\S{1,20}: (?:PCIe )?[Ll]ink (?:is )?down, DPC.{0,40}"),
        "a port of PCIe was switched off after an error that is not corrected (DPC)",
        "the device below it may be gone: check slot, riser, cable and power; 'sudo lspci -vv' names the port",
        ends_with=re.compile(r"recovery successful"),
    ),
    _Error(
        re.compile(r"zpci: \S{1,20}: (?:Automatic recovery failed.{0,60}|.{0,40}frozen state error.{0,40})"),
        "a device on PCIe is in an error state, from which it did not recover",
        "remove the device, and ask its vendor",
    ),
    _Error(
        re.compile(r"habanalabs \S{1,20}: .{0,40}?Device is NOT usable.{0,60}"),
        "an accelerator (Gaudi) is not usable for its driver",
        "reset it ('hl-smi'), or reboot; update firmware and driver together",
    ),
    _Error(
        re.compile(r"(?:\b[a-z]\w{1,15}: )?NETDEV WATCHDOG: .{0,50}?transmit queue \d{1,5} timed out.{0,20}"),
        "a network interface stopped sending: its card or driver does not answer",
        "update its driver and firmware, and look at its slot, cable and temperature",
        unless=re.compile(r"PCIe link lost"),
    ),
    _Error(
        re.compile(r"NVRM: No NVIDIA (?:GPU|graphics adapter) \w{5}"),
        "the driver of NVIDIA finds no GPU",
        "'lspci -nnk -d 10de:' lists the GPUs and their drivers: another driver (nouveau, vfio-pci) may use them; if "
        "none is listed, check seat, riser, power cables and the passthrough of a virtual machine",
        ends_with_boot=True,
        unless=re.compile(r"is not supported by"),
        ends_with=re.compile(r"Initialized nvidia-drm"),
    ),
    _Error(
        re.compile(r"soft lockup.{0,60}|hard LOCKUP.{0,60}"),
        "a processor hangs",
        "the lines below this message name what it does; update kernel and drivers",
        ends_with_boot=True,
    ),
)
#: Task that waits in the kernel, the driver in a line below it, the beginning of the next task, and the most lines.
_WAITING, _NEXT_TASK, _MOST_FRAMES = re.compile(r"task:(\S{1,60})\s{1,20}state:D"), "task:", 80
_IN_MODULE, _DRIVER = re.compile(r"\[(\w{2,20})\]\s*$"), re.compile(r"nvidia\w*|amdgpu|mlx[45]_\w+")
#: Servers of Lustre that a host loses, and those that it reaches again.
_LUSTRE = re.compile(
    r"LNet: .{0,90}?Timed out tx for (\S{1,60}@\w{2,10})|LustreError: .{0,120}?to node (\S{1,60}) failed: rc = -\d{1,4}"
)
_LUSTRE_BACK = re.compile(r"Lustre: .{0,120}Connection restored to (?:\S{1,60} \(at )?(\S{1,60}@\w{2,10})")
#: Interfaces of USB, such as that of a service processor.
_OF_USB = re.compile(
    r"NETDEV WATCHDOG.{0,60}\(?(?:cdc_|rndis|r8152|ax88)"
    r"|\b(?:usb\d|cdc_\w+|rndis\w*|r8152|ax88\w+)\b.{0,60}NETDEV WATCHDOG"
)
#: Processor that was throttled, and the number of times since the start.
_THROTTLED = re.compile(
    r"(CPU\d{1,5}): (?:Core|Package) temperature (?:is )?above threshold, cpu clock (?:is )?throttled "
    r"\(total events = (\d{1,12})\)"
)
#: Corrected errors of memory: count and module; the number from which the module is faulty.
_CORRECTED_MEMORY = re.compile(r"EDAC \S{1,20}: (\d{1,9}) CE .{0,80}? on (.{1,60}?) ?\(")
_MANY_IN_MEMORY = 10
#: Words of an IOMMU that translates addresses.
#: Linux prints the first also on machines without IOMMU, and one of the others only where it uses one.
_TRANSLATED = "Default domain type: Translated"
_HAS_IOMMU = re.compile(
    r"Adding to iommu group|DMAR: (?:IOMMU enabled|Intel\(R\) Virtualization)|smmu"
    r"|AMD-Vi: (?!AMD IOMMUv2 functionality not available)"
)
_IOMMU_NOTE = (
    "the IOMMU translates the addresses of devices, which slows direct copies on some boards: iommu=pt avoids it"
)
#: Lines that are printed by machines that work, too, or are of a program, and what they mean.
_NOTES = (
    (
        re.compile(r"dxgk: dxgk\w{1,40}:\s{1,8}Ioctl failed: -(?:2|22)\b"),
        "the driver for GPUs of WSL (dxgk) does not know a request: machines print this whose GPUs work, too",
    ),
    (
        re.compile(r"nvidia-peermem .{0,60}?invalid context, skipping"),
        "nvidia-peermem skips memory of a program that has ended, which is harmless",
    ),
    (
        re.compile(r"kfd kfd: .{0,40}?not supported in kfd|amdgpu \S{1,20} kfd not supported on this ASIC"),
        "the driver for computing (kfd) does not support a GPU, which ROCm then does not use",
    ),
    (
        re.compile(r"amdgpu.{0,40}?sq_intr: error"),
        "a GPU reports an error of an instruction (sq_intr), usually of a program or its compiler",
    ),
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


def host_facts(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield errors of the host, and what the kernel states about the IOMMU."""
    yield from _of_host(text, lines)
    yield from _options(text, lines)
    for pattern, words in _NOTES:
        number = next((number for number, line in lines if pattern.search(line) is not None), None)
        if number is not None:
            yield text.fact(Quantity.NOTE, words, number, PROGRAM)
    translated = next((number for number, line in lines if _TRANSLATED in line), None)
    if translated is not None and _HAS_IOMMU.search(text.raw) is not None:
        yield text.fact(Quantity.NOTE, _IOMMU_NOTE, translated, PROGRAM)


def _lustre(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the first server of Lustre that a host does not reach at the end of its log."""
    lost: dict[str, tuple[int, str]] = {}
    for number, line in lines:
        if BOOT in line:
            lost.clear()
        elif (match := _LUSTRE_BACK.search(line)) is not None:
            lost.pop(match[1], None)
        elif (match := _LUSTRE.search(line)) is not None:
            lost.setdefault(match[1] or match[2], (number, match[0].strip()))
    for number, words in list(lost.values())[:1]:
        cause = f'the host does not reach a server of its file system (Lustre): "{words}"'
        remedy = "'lctl ping' with the address of the server; check the port of this host ('ibstat') and the server"
        yield text.fact(Quantity.CAUSE, cause, number, PROGRAM, subject=("host_error", remedy))


def _of_host(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the first error of each kind of the host: memory, processors, lack of memory."""
    yield from _corrected_memory(text, lines)
    yield from _throttled(text, lines)
    yield from _waiting(text, lines)
    yield from _lustre(text, lines)
    boots = [(place, _host_of(line)) for place, (_, line) in enumerate(lines) if BOOT in line]
    for error in _OF_HOST:
        if error.needs is not None and error.needs.search(text.raw) is None:
            continue
        if error.unless is not None and error.unless.search(text.raw) is not None:
            continue
        for place, (number, line) in enumerate(lines):
            if (match := error.pattern.search(line)) is None:
                continue
            if error.ends_with is not None and any(map(error.ends_with.search, text.after(number))):
                break
            if _OF_USB.search(line) is not None:
                continue
            if error.ends_with_boot and any(boot > place and on == _host_of(line) for boot, on in boots):
                continue
            words = f'{error.meaning}: "{match[0].strip()}"'
            yield text.fact(Quantity.CAUSE, words, number, PROGRAM, subject=("host_error", error.remedy))
            break


def _waiting(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the first task that waits in the kernel within a driver of GPUs or network cards."""
    for number, line in lines:
        if (task := _WAITING.search(line)) is None:
            continue
        for frame in islice(text.after(number), _MOST_FRAMES):
            if _NEXT_TASK in frame:
                break
            if (module := _IN_MODULE.search(frame)) is None:
                continue
            if _DRIVER.fullmatch(module[1]) is not None:
                words = f"the process {task[1]} waits in the kernel (state D) within the driver {module[1]}"
                remedy = "if it stays, reboot; update this driver, and read the lines before for its first error"
                yield text.fact(Quantity.CAUSE, words, number, PROGRAM, subject=("host_error", remedy))
                return
            # The innermost module is where it waits.
            break


def _throttled(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the note about the processor that was throttled most often since the start."""
    found = [
        (int(match[2]), match[1], number) for number, line in lines if (match := _THROTTLED.search(line)) is not None
    ]
    if found:
        count, name, number = max(found, key=lambda one: one[0])
        words = (
            f"processors were too hot and slower, {name} {count:,} times since the start of the host: check its cooling"
        )
        yield text.fact(Quantity.NOTE, words, number, PROGRAM)


def _host_of(line: str) -> str:
    """Return the host of a line of syslog; empty for lines of dmesg."""
    match = _OF_SYSLOG.search(line)
    return "" if match is None else match[1]


def _corrected_memory(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield memory modules with corrected errors: many of one module are a fault, few a note."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for number, line in lines:
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
            yield text.fact(Quantity.CAUSE, words, first[module], PROGRAM, subject=subject)
        else:
            yield text.fact(Quantity.NOTE, f"{words}: if they grow, it is faulty", first[module], PROGRAM)


def _options(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the options of the kernel that concern copies between GPUs; the first about the IOMMU decides."""
    for number, line in lines:
        if (match := _COMMAND_LINE.search(line)) is None:
            continue
        found = [
            (one[0].strip(), words)
            for option, words in _OPTIONS
            if (one := re.search(rf"(?:^|\s)(?:{option})(?=\s|$)", match[1] or match[2]))
        ]
        about = [one for one in found if "iommu" in one[0]][:1] + [one for one in found if "iommu" not in one[0]]
        for option, words in about:
            yield text.fact(Quantity.NOTE, f"option of the kernel {option}: {words}", number, PROGRAM)
        return
