"""States of GPUs and network cards that files state, with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabricast.collectives.clusters.stated_cards import port_rates_of_files
from fabricast.core.facts import Block, Fact, Facts, Quantity
from fabricast.core.findings import Finding
from fabricast.core.short_text import listed
from fabricast.diagnosis.ports import slow_ports
from fabricast.diagnosis.weights import ACCESS, FIRST, LINK

_AFTER_ERRORS = "reset the GPU ('nvidia-smi -r') or reboot; replace it if 'nvidia-smi -q -d ECC' shows new errors"
#: Words of the states that a reset may end, or that wear out, and advice for other states.
_OF_HARDWARE = ("Xid", "ECC", "Remapped", "Retired", "wrong results", "stopped")
_LOOK = "'nvidia-smi -q' and 'sudo dmesg' of the host state more about this GPU"
_LOOK_AMD = "'amd-smi bad-pages', 'rocm-smi --showrasinfo all' and 'sudo dmesg' state more; reset the GPU or reboot"
_AFTER_THROTTLING = "check cooling, power cables and power supply; 'nvidia-smi -q -d PERFORMANCE' while it works"
#: Verbs of states of one device, and of several.
_OF_SEVERAL = {"is": "are", "runs": "run", "has": "have"}
_AFTER_CABLES = "check cable, transceiver and port of the switch ('ibstat', 'mlxlink -d DEVICE')"
#: Advice for network cards by words of their state; that for cables otherwise.
_AFTER_CARDS = {
    **dict.fromkeys(
        ("rx_discards", "tx_discards", "PortXmitDiscards", "port_xmit_discards"),
        "read the counters again after an hour: errors of CRC and symbols are of cable or module, discards are of "
        "congestion (slow hosts behind this port; on Ethernet, flow control by PFC and ECN)",
    ),
    "Disabled": (
        "software switched it off ('ibportstate LID PORT enable', 'ip link set NAME up'; of virtual functions, the "
        "link state that the host or the subnet manager sets), or its cable is missing"
    ),
    "with an error (QP)": (
        "usually an error of a program: a local length error is a message that is longer than the buffer of its "
        "receiver, an access error a wrong address or key; compare the versions of the program on both sides"
    ),
    "lost packets": (
        "on RoCE, PFC or ECN must be set alike on cards and switches, and the MTU; on InfiniBand, cables ('mlxlink'); "
        "adaptive routing changes the order without a loss; read the counters before and after a run"
    ),
    **dict.fromkeys(
        ("no_frags", "no_skb", "no_pbuf", "no_buf", "out_of_buffer"),
        "the host has too few buffers for its packets: larger rings ('ethtool -G'), interrupts on several cores near "
        "the card, and free memory; read the counters again while a job runs",
    ),
    "counted errors": (
        "read the counters again after an hour ('perfquery -R' clears those of InfiniBand): if they grow, replace "
        "cable or module"
    ),
    "supports": "check cable, port of the switch and 'ethtool' on both sides (autonegotiation, forced speeds)",
    "pages for the processes": (
        "fewer processes on a host, or more pages: PF_LOG_BAR_SIZE (mlxconfig, then reboot), for mlx4 "
        "log2_uar_bar_megabytes and the option enable_4k_uar of mlx4_core"
    ),
    "answer its driver": (
        "update its driver and firmware; a virtual machine stops and starts on another host, a card of the host needs "
        "a look at slot, cable and temperature; for 'Unit Hang' test 'ethtool -K NAME tso off gso off'"
    ),
    "lost its PCIe link": (
        "it is gone until a reboot: check slot and riser, power saving of PCIe (pcie_aspm=off), and the BIOS"
    ),
    "aggregator": (
        "set the ports of the switch to LACP (802.3ad) in one group, with the same rate; a job over this bond has only "
        "the links of the active aggregator"
    ),
    "has no GUID": "set the GUIDs of the virtual function before its use ('ip link set IB vf N node_guid')",
    "virtual function without": (
        "set its GUIDs ('ip link set IB vf N node_guid', port_guid) and its state to auto; the subnet manager needs "
        "virtualisation (opensm: virt_enabled 2)"
    ),
    "refuses a command": (
        "a program asks for an attribute that this card or its firmware does not permit (queue sizes, MTU, retries, "
        "atomics): search for the syndrome, and compare firmware and driver with those of a host that works"
    ),
    "firmware or driver": "reset the card ('mlxfwreset') or reboot; update its firmware and driver",
    "of PCIe": "check slot, riser, bifurcation and the PCIe generation in the BIOS ('sudo lspci -vv', LnkSta)",
    "power": "check the power cables of the card, and the power limit of its slot in the BIOS",
    "Initializ": "no subnet manager has configured this port: check that one (opensm, or that of a switch) runs",
    "register memory": "check free memory and 'ulimit -l' of the job (status -12 is a lack of memory), then driver and "
    "firmware",
}
_AFTER = {
    "of PCIe, limited by": "check slot, riser, bifurcation and PCIe generation in the BIOS ('sudo lspci -vv')",
    "ACSViol": (
        "a device below this port sends to an address that it may not reach: update its driver and firmware, check ACS "
        "and IOMMU in the BIOS; slot and power are not the cause"
    ),
    "replays": "reseat the card, riser or cable: the PCIe link repeats packets; compare the count after some minutes",
    "uncorrected errors": "check slot, riser and power; after a completion timeout (CmpltTO) the device itself",
    "IO_PAGE_FAULT": "switch the IOMMU to pass-through (iommu=pt) or off for copies between GPUs",
    "of its PCIe link": "reseat the card, riser or cable: the PCIe link repeats packets",
    "(SR-IOV)": "start the driver of the GPU on the host, which serves its virtual functions; then this machine again",
    "interrupts do not arrive": (
        "update the driver and kernel; in a virtual machine check that the host passes interrupts (MSI); reboot both"
    ),
    "after a reset": (
        "a power cycle of the host brings it back; in a virtual machine, a device that cannot be reset (FLR) needs the "
        "host to do so, or a driver for its reset"
    ),
    "supported by this version": (
        "install a version of the driver that lists this GPU ('Supported Products'), with the open modules for recent "
        "GPUs; in a confidential virtual machine, the version that the guest needs"
    ),
    "link below it": "check the device below this port: seat, riser, power; someone may have switched it off",
    "is used by another driver": (
        "boot so that the console does not use this GPU (video=efifb:off, or initcall_blacklist=sysfb_init), or bind "
        "the device to vfio-pci before other drivers load"
    ),
    "was reset by its driver": "the lines before each reset in the kernel log name what hung; update its driver",
    "error of its driver:": "reset the GPU or reboot; update its driver and firmware if the error returns",
    "error -12": (
        "the kernel finds no addresses or memory for it: 'Above 4G Decoding' and Resizable BAR in the BIOS, or boot "
        "with pci=realloc"
    ),
    "by its driver": "check power cables, slot and riser, and driver against model; a reset or a power cycle",
    "open modules of its driver": (
        "install the proprietary modules of this driver: the open ones support GPUs with a system processor (GSP), "
        "from Turing on"
    ),
    "Small BAR": "enable Resizable BAR (and 'Above 4G Decoding') in the BIOS, which Arc GPUs need for their rate",
    "recovery action": "stop its jobs and reset the GPU ('nvidia-smi -r'); reboot the host if the action is Reboot",
    "Repair Pending": "reset the GPU ('nvidia-smi -r') or reboot: the repair then happens",
    "SRAM Threshold Exceeded": "the vendor replaces the GPU: its memory on the chip had too many errors",
    "infoROM": "the GPU may work, but its counters are lost: the vendor restores it by a tool, or replaces the board",
    "D3cold": (
        "a power cycle of the host brings it back; then without runtime power saving: disable_idle_d3=1 of vfio-pci, "
        "d3cold_allowed of the device and its port (0), pcie_port_pm=off"
    ),
    "needs a reset": "reset the GPUs ('nvidia-smi -r') or reboot",
    "unknown error": (
        "in a container, restart it: systemd may have withdrawn its devices (links in /dev/char); if the host reports "
        "the same, read 'sudo dmesg' (Xid 79), check power and slot, and reboot"
    ),
    "fallen off the bus": "check power supply and cables, riser and temperature; it is gone until a reboot",
    "power limit": "raise it ('nvidia-smi -i NUMBER -pl WATTS'): a job waits for its slowest GPU",
    "(ERR!)": "read 'dmesg' (Xid) and reboot; if it returns, check power cables, riser and slot of this GPU",
    "test 'PCIe'": "check generation and width of its link under load ('nvidia-smi -q', LnkSta), IOMMU and ACS",
    "Power Brake": "check the power supply and its cables, and the power capping of the server, which ask for it",
    "Thermal": "check cooling (fans, dust, airflow of the rack); 'nvidia-smi -q -d TEMPERATURE,PERFORMANCE' under load",
    "atomic operations": (
        "place the GPU in a slot of the processor with PCIe Gen3 or later: ports of a chipset and risers over USB "
        "often pass none"
    ),
    "cannot be assigned": "enable 'Above 4G Decoding' and Resizable BAR in the BIOS, or boot with pci=realloc",
    "no place in the address": "enable 'Above 4G Decoding' in the BIOS, or boot with pci=realloc",
    "Power": "check the power limit, cooling and clocks ('nvidia-smi -q -d POWER,PERFORMANCE') under load",
    "Gflop/s": "compare temperature, clocks and power limit of the GPUs ('nvidia-smi -q -d PERFORMANCE') under load",
    "NVSwitch": "stop all jobs, reset all GPUs together ('nvidia-smi -r') or reboot, restart the fabric manager; if "
    "the error returns, the vendor replaces the board",
    "fabric health": "check the fabric manager, its log and the NVSwitches; reset the GPUs together or reboot",
    "fabric state": "check the fabric manager ('systemctl status nvidia-fabricmanager') and its version",
    "xGMI": "reset the GPUs together ('rocm-smi --gpureset') or reboot; then check 'sudo dmesg' and reseat the module",
    "NVLink": "check 'nvidia-smi nvlink -e', the fabric manager and 'dmesg | grep Xid'; reset or reseat the GPU",
    "under load": "check slot, riser and BIOS (PCIe speed of the slot), then 'lspci -vv' (LnkSta) while the GPU works",
}
#: Most hosts that are named in front of a statement.
_MOST_HOSTS = 3


def gpu_states(facts: Facts) -> Iterator[Finding]:
    """Yield errors and throttling of GPUs that nvidia-smi states, equal ones of several GPUs once."""
    for block in facts.blocks:
        states: dict[str, list[Fact]] = {}
        for fact in block.of(Quantity.GPU_STATE):
            if not _is_implied(block, fact):
                states.setdefault(fact.value, []).append(fact)
        for value, same in states.items():
            yield _gpu_state(block, value, same)


def _is_implied(block: Block, fact: Fact) -> bool:
    """Return whether another state of the GPU says the same, or the state is a choice for all GPUs."""
    same = {other.value for other in block.of(Quantity.GPU_STATE) if other.subject == fact.subject}
    is_repeated = fact.value in ("HW Slowdown is active", "SW Thermal Slowdown is active") and any(
        one.startswith("HW ") for one in same - {fact.value}
    )
    return is_repeated or (fact.value.startswith("power limit") and is_limit_of_all(block))


def _gpu_state(block: Block, value: str, same: list[Fact]) -> Finding:
    """Return the finding about a state of one or several GPUs."""
    names = list(dict.fromkeys(gpu_name(block, fact.subject[0]) for fact in same))
    is_numbered = len(same) > 1 and all(fact.subject[0].isdigit() for fact in same)
    who = f"GPUs {', '.join(fact.subject[0] for fact in same)}" if is_numbered else ", ".join(names)
    who = f"{block.host} {who}".lstrip()
    is_error = "is active" not in value and not value.startswith("power limit")
    is_of_hardware = any(word in value for word in _OF_HARDWARE)
    look = _LOOK_AMD if "(amdgpu)" in value else _LOOK
    remedy = (_AFTER_ERRORS if is_of_hardware else look) if is_error else _AFTER_THROTTLING
    remedy = next((text for word, text in _AFTER.items() if word in value), remedy)
    # Errors, then throttling, then repeated packets; none of them is a measured rate.
    weight = LINK - 0.2 if "replays" in value or "Pending" in value else LINK if is_error else LINK - 0.1
    if "of PCIe, limited by" in value:
        # A slot may have no more lanes; what a driver refuses has another cause.
        weight = LINK - 0.15
    if "fallen off the bus" in value:
        weight = FIRST - 1.5
    elif "under load" in value:
        # It explains measured rates, which corrected errors do not.
        weight = LINK + 0.3
    cause = "gpu_errors" if is_error else "gpu_throttled"
    device = ", ".join(names)
    return Finding(cause, f"{who}: {value}", remedy, weight, origin=str(same[0].place), host=block.host, device=device)


def card_states(facts: Facts) -> Iterator[Finding]:
    """Yield ports of network cards that are down or slow, but not those that all hosts disable."""
    disabled = _disabled_everywhere(facts)
    alike: dict[tuple[str, str, str, str], list[Fact]] = {}
    for fact in (*facts.of(Quantity.CARD_STATE), *slow_ports(facts)):
        if "Disabled" not in fact.value or fact.subject not in disabled:
            # Other states have no words for several cards.
            name = "" if fact.value.partition(" ")[0] in _OF_SEVERAL else fact.subject[0]
            alike.setdefault((fact.place.path, fact.host, fact.value, name), []).append(fact)
    for same in alike.values():
        fact, names = same[0], list(dict.fromkeys(fact.subject[0] for fact in same))
        cards = listed(names, _MOST_HOSTS)
        is_down = fact.value.startswith("is ")
        remedy = next((text for word, text in _AFTER_CARDS.items() if word in fact.value), _AFTER_CABLES)
        if is_down and remedy == _AFTER_CABLES:
            remedy += "; a port that no job should use may stay down"
        verb, _, rest = fact.value.partition(" ")
        state = fact.value if len(names) == 1 else f"{_OF_SEVERAL[verb]} {rest}"
        yield Finding(
            "network_port",
            f"{_start(fact)}{cards} {state}",
            remedy,
            # Someone switched a disabled port off, the others should work.
            ACCESS - 0.1 * ("Disabled" in fact.value) if is_down else LINK,
            origin=str(fact.place),
            host=fact.host,
            device=cards,
        )


def _disabled_everywhere(facts: Facts) -> set[tuple[str, ...]]:
    """Return the ports that all of several hosts disable, if each host has another active port."""
    hosts = {fact.host for fact in facts.of(Quantity.PORT)}
    active = {fact.host for fact in port_rates_of_files(facts)}
    of_port: dict[tuple[str, ...], set[str]] = {}
    for fact in facts.of(Quantity.CARD_STATE):
        if "Disabled" in fact.value:
            of_port.setdefault(fact.subject, set()).add(fact.host)
    return {port for port, found in of_port.items() if len(found) > 1 and found == hosts == active}


def _start(fact: Fact) -> str:
    """Return the host in front of a card: of its name, or of the words about a card without one."""
    divider = ": " if fact.subject[0].startswith("a ") else " "
    return f"{fact.host}{divider}" if fact.host else ""


def gpu_name(block: Block, number: str) -> str:
    """Return a GPU with its number and address, or its address if it has no number."""
    if not number.isdigit():
        return number
    address = block.addresses.get(number)
    return f"GPU {number} ({address})" if address else f"GPU {number}"


def is_limit_of_all(block: Block) -> bool:
    """Return whether all GPUs of a report have a power limit below the default: a choice, no fault of one of them."""
    limited = {fact.subject for fact in block.of(Quantity.GPU_STATE) if fact.value.startswith("power limit")}
    return len(limited) == len({fact.subject for fact in block.of(Quantity.GPU_MODEL)})


def on_hosts(hosts: Sequence[str], every: int = 0) -> str:
    """Return the hosts in front of what is the same on them, if the text names them; `every` is their number in all."""
    if _MOST_HOSTS < len(hosts) == every:
        return f"all {every} hosts: "
    return f"{listed(hosts, _MOST_HOSTS)}: " if hosts else ""
