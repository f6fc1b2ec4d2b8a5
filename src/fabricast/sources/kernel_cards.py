"""Errors of network cards and their ports in the kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.facts import Fact, Quantity
from fabricast.core.short_text import listed
from fabricast.sources.kernel_lines import BOOT, DEVICE, PROGRAM, Lines
from fabricast.sources.text import Text

#: Words of the lines that are read here.
WORDS = (
    BOOT,
    "Cable unplugged",
    "Cable plugged",
    "mlx5_core 0",
    "mlx4_core 0",
    ": Failed to register mr",
    ": async reg mr failed",
    ": Failed to allocate pd",
    ": Failed to process command",
    ": QP ",
    "Link is ",
    "wasn't completed on time",
    "Keep alive watchdog timeout",
    "Reg read32 timeout",
    "Can not reset device",
    "didn't send a completion",
    "tx_timeout: VSI_",
    "Unit Hang",
    "PCIe link lost",
    "Downshift occurred",
    "Device reset completed",
)
#: Errors of network cards of NVIDIA that stop them.
_CARD_HEALTH = re.compile(
    rf"mlx[45]_core {DEVICE}.{{0,80}}?(device's health compromised.{{0,60}}|[Hh]ealth recovery.{{0,40}}fail.{{0,40}}"
    r"|Fatal error.{0,60}|firmware version check failed.{0,40}|timeout\. Will cause a leak of a command resource"
    r"|handle_hca_cap failed|mlx5_load_one failed.{0,40}|probe with driver mlx5_core failed.{0,30}"
    r"|TX timeout detected|ALLOC_UAR.{0,60}limits exceeded|Failed to initialize user access region table)"
)
_NO_PAGES = "too few pages for the processes of the host (UAR)"
#: Command of the driver that the firmware of a card refuses.
_REFUSED = re.compile(
    rf"mlx5_core {DEVICE}: mlx5_cmd\w{{0,20}}:\d{{1,6}}:\(pid \d{{1,9}}\): "
    # Old firmware answers queries and registers that it does not know so, which costs nothing.
    r"((?!QUERY_|ACCESS_REG|DESTROY_|DEALLOC_)\w{2,40})\(0x\w{1,6}\) .{0,40}?failed, "
    r"status ([\w ]{3,40})\(0x\w{1,4}\), (syndrome \(0x\w{1,12}\))"
)
#: Devices that cannot register memory, by the driver of EFA or of mlx5.
_REGISTRATION = re.compile(
    r"infiniband (\w{1,20}): (?:\w{1,40}:\d{1,6}:\(pid \d{1,9}\): )?"
    r"(Failed to (?:register mr|allocate pd|process command).{0,60}|async reg mr failed\. status -?\d{1,6})"
)
#: Connections (QP) that a card ended, by the driver of mlx5.
_CONNECTION = re.compile(r"\b((?:mlx5|rocep|ibp|bond)\w{0,20})/(\d{1,2}): QP \d{1,9} error: ([\w ]{3,60}?) \(0x")
#: Cables that are not plugged in.
_CABLE = re.compile(rf"mlx\w{{1,20}} {DEVICE}(?: \w{{1,20}})?: .{{0,60}}Cable (un)?plugged")
#: Windows 7 to 12 are those of virtual functions.
_NO_FUNCTIONS = re.compile(rf"\bpci {DEVICE}: BAR (?:[789]|1[012]): (?:no space for|failed to assign) \[mem size")
#: States of ports of network cards: an error of the module, and links that go down and up.
_MODULE = re.compile(
    rf"mlx5_core {DEVICE}(?: \w{{1,20}})?: Port module event(?:\[error\])?: (?!(?:module \d+, )?Cable (?:un)?plugged)"
    r"(?:module \d+, )?(.{1,80}?)\s*$"
)
_PORT_LINK = re.compile(rf"mlx5_core {DEVICE}(?: \w{{1,20}})?: (?:Port: (\d+) )?Link (\w{{2,10}})", re.IGNORECASE)
#: Drivers of Ethernet cards: links that go down and up, and cards that do not answer.
_ETHERNET = r"(?:ena|i40e|ice|e1000e?|igb|igc|ixgbe|r8169|tg3|bnxt_en|qede|atlantic|sfc|enic)"
_ETHERNET_LINK = re.compile(
    rf"\b{_ETHERNET} {DEVICE}(?: \w{{1,20}})?: (?:igb: \w{{1,20}} )?(?:NIC )?Link is (up|down)\b", re.IGNORECASE
)
_DOWNSHIFT = re.compile(r"(\S{1,40}): Downshift occurred from negotiated speed (\S{1,10}) to actual speed (\S{1,10}?),")
_WORKS = re.compile(
    rf"\b{_ETHERNET} {DEVICE}(?: \w{{1,20}})?: (?:Device reset completed successfully|.{{0,30}}?Link is Up)"
)
_HANGS = re.compile(
    rf"\b{_ETHERNET}(?: {DEVICE})?(?: \w{{1,20}})?: "
    r"((?:\w{5} a Tx that wasn't completed|Keep alive watchdog timeout|Reg read32 timeout|Can not reset device"
    r"|The ena device didn't send a completion|tx_timeout: VSI_|Detected (?:Hardware|Tx) Unit Hang|PCIe link lost)"
    r"[\w ,]{0,40})"
    r"|(tx_timeout: VSI_\w{1,8}: \d{1,5}, Q \d{1,5})"
)
_POWER = re.compile(rf"mlx5_core {DEVICE}.{{0,40}}Detected insufficient power on the PCIe slot")
#: Number of losses of a link since the start of the kernel that no restart of hosts and switches explains.
_MANY_DOWNS = 3
_UNPLUGGED = "is Down (cable unplugged)"


def card_facts(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the errors of network cards, then the states of their ports."""
    yield from _of_cards(text, lines)
    yield from _hanging(text, lines)
    yield from _slowed(text, lines)
    yield from _ports(text, lines)
    yield from _virtual_functions(text, lines)
    yield from _connections(text, lines)


def _connections(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the connections of each port that ended with an error, whose reason is usually in a program."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, line in lines:
        if (match := _CONNECTION.search(line)) is not None:
            found.setdefault((f"{match[1]} port {match[2]}", match[3]), []).append(number)
    for (port, error), numbers in found.items():
        count = "a connection" if len(numbers) == 1 else f"{len(numbers)} connections"
        state = f"ended {count} with an error (QP): {error}"
        yield text.fact(Quantity.CARD_STATE, state, numbers[0], PROGRAM, subject=(port,))


def _hanging(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the first line of each Ethernet card that does not answer its driver."""
    found: dict[str, tuple[str, int]] = {}
    for number, line in lines:
        if BOOT in line:
            over = list(found)
        else:
            match = _WORKS.search(line)
            # The driver reset it, or its link came back.
            over = [] if match is None else [name for name in found if name == f"network card {match[1]}"]
        for name in over:
            words, _ = found.pop(name)
            yield text.fact(
                Quantity.NOTE, f"{name} did not answer its driver ({words}), and works again", number, PROGRAM
            )
        if over:
            continue
        if (match := _HANGS.search(line)) is not None:
            name = f"network card {match[1]}" if match[1] else "a network card"
            found.setdefault(name, ((match[2] or match[3]).strip(), number))
    for name, (words, number) in found.items():
        state = "has lost its PCIe link" if "PCIe link lost" in words else f"does not answer its driver: {words}"
        if name != "a network card" or len(found) == 1:
            yield text.fact(Quantity.CARD_STATE, state, number, PROGRAM, subject=(name,))


def _slowed(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the last port that came up at a lower rate than it negotiated."""
    slow: tuple[int, re.Match[str]] | None = None
    for number, line in lines:
        match = _DOWNSHIFT.search(line)
        slow = (number, match) if match is not None else None if BOOT in line or "Link is Up" in line else slow
    if slow is not None:
        number, match = slow
        state = f"runs at {match[3]}, its ends negotiated {match[2]}"
        yield text.fact(Quantity.CARD_STATE, state, number, PROGRAM, subject=(f"network port {match[1]}",))


def _of_cards(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the first error of each network card that stops it."""
    found: dict[str, tuple[str, int]] = {}
    refused: dict[str, tuple[str, int]] = {}
    for number, line in lines:
        if (match := _CARD_HEALTH.search(line)) is not None:
            found.setdefault(match[1], (match[2].strip(), number))
        elif (match := _REFUSED.search(line)) is not None:
            refused.setdefault(match[1], (f"{match[2]} failed, {match[3]}, {match[4]}", number))
    for device, (words, number) in found.items():
        is_of_pages = "ALLOC_UAR" in words or "user access region" in words
        state = f"has {_NO_PAGES if is_of_pages else 'a failure of its firmware or driver'}: {words}"
        yield text.fact(Quantity.CARD_STATE, state, number, PROGRAM, subject=(f"network card {device}",))
    for device, (words, number) in refused.items():
        if device not in found:
            state = f"refuses a command of its driver: {words}"
            yield text.fact(Quantity.CARD_STATE, state, number, PROGRAM, subject=(f"network card {device}",))


def _ethernet_links(lines: Lines) -> Iterator[tuple[str, list[int], bool]]:
    """Yield each Ethernet card whose link went down after it was up: the lines, and whether it stays down."""
    is_up: dict[str, bool] = {}
    downs: dict[str, list[int]] = {}
    for number, line in lines:
        if BOOT in line:
            is_up.clear()
            downs.clear()
        elif (match := _ETHERNET_LINK.search(line)) is not None:
            device, up = match[1], match[2].lower() == "up"
            if not up and is_up.get(device):
                downs.setdefault(device, []).append(number)
            is_up[device] = up
    for device, numbers in downs.items():
        yield device, numbers, not is_up[device]


def _virtual_functions(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield the devices whose virtual functions (SR-IOV) get no addresses, which the device itself does not need."""
    devices = {
        match[1]: number for number, line in reversed(lines) if (match := _NO_FUNCTIONS.search(line)) is not None
    }
    if devices:
        words = (
            f"{listed(sorted(devices), 4)}: no space for the addresses of virtual functions (SR-IOV): 'Above 4G "
            "Decoding' in the BIOS or pci=realloc makes space; the device itself works without"
        )
        yield text.fact(Quantity.NOTE, words, min(devices.values()), PROGRAM)


def _ports(text: Text, lines: Lines) -> Iterator[Fact]:
    """Yield network cards with too little power, those whose last state is a fault, and those that lose their link."""
    found: dict[tuple[str, str], tuple[str, int]] = {}
    downs: dict[str, list[int]] = {}
    modules: dict[str, list[str]] = {}
    #: Cards one of whose ports has a cable.
    plugged: set[str] = set()
    for number, line in lines:
        if BOOT in line:
            downs.clear()
        elif (match := _CABLE.search(line)) is not None:
            found.pop((match[1], "module"), None)
            if match[2]:
                found[match[1], "module"] = (_UNPLUGGED, number)
            else:
                plugged.add(match[1].rpartition(".")[0])
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
    for device, numbers, is_down in _ethernet_links(lines):
        downs[device] = numbers
        if is_down and len(numbers) < _MANY_DOWNS:
            words = f"network card {device}: its link went down, and not up again in this log"
            yield text.fact(Quantity.NOTE, words, numbers[-1], PROGRAM)
            del downs[device]
    faulty = {device for device, _ in found}
    for device, numbers in downs.items():
        if len(numbers) >= _MANY_DOWNS and device not in faulty:
            reasons = f" ({', '.join(dict.fromkeys(modules[device]))})" if device in modules else ""
            found[device, "flaps"] = (f"lost its link {len(numbers)} times{reasons}", numbers[0])
    for device, numbers in downs.items():
        if len(numbers) < _MANY_DOWNS and device not in faulty:
            words = f"network card {device} lost its link {'once' if len(numbers) == 1 else f'{len(numbers)} times'}"
            yield text.fact(Quantity.NOTE, f"{words}, and has it again", numbers[0], PROGRAM)
    for (device, _), (state, number) in found.items():
        if state == _UNPLUGGED and device.rpartition(".")[0] in plugged:
            words = f"network card {device} has no cable, and another port of this card has one"
            yield text.fact(Quantity.NOTE, words, number, PROGRAM)
            continue
        yield text.fact(Quantity.CARD_STATE, state, number, PROGRAM, subject=(f"network card {device}",))
