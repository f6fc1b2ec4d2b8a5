"""Reader of devices and links in NCCL topology XML."""

from __future__ import annotations

import re
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.units import PROTOCOL_EFFICIENCY, pcie_bytes_per_s, pcie_generation
from fabricast.core.warnings import Warning, WarningCode
from fabricast.pcie.topology.xml_devices import (
    BRIDGE_CLASS,
    NETWORK_CLASSES,
    SWITCH_CLASS,
    Device,
    Element,
    Machine,
    is_accelerator,
)

__all__ = ["read_nccl"]


def read_nccl(root: Element, include_display: bool, network_cards: bool, path: Path) -> Machine:
    """Read one device tree per CPU and the direct links."""
    # NCCL writes max_link_speed of the operating system.
    machine = Machine([], 0, bridges_of_a_switch=1, has_maximum_speeds=True)
    hosts: dict[str, int] = {}
    bus_ids: set[str] = set()
    accelerators: set[str] = set()
    numbers: set[int] = set()

    def visit(element: Element, above: Device) -> None:
        for child in element.children:
            if child.tag != "pci":
                continue
            device = _nccl_device(child, path)
            above.children.append(device)
            gpus = [e for e in child.children if e.tag == "gpu"]
            if len(gpus) > 1:
                raise InputError(
                    f"PCI device '{device.bus_id}' holds {len(gpus)} GPUs, expected one: the file does not specify "
                    "how several GPUs share a link",
                    path=path,
                    line=gpus[1].line,
                )
            if device.bus_id and device.bus_id in bus_ids:
                raise InputError(f"busid '{device.bus_id}' is a duplicate", path=path, line=child.line)
            bus_ids.add(device.bus_id)
            pci_class = child.attributes.get("class", "").removeprefix("0x")[:4].lower()
            vendor = child.attributes.get("vendor", "").removeprefix("0x").lower()
            device.is_accelerator = bool(gpus) or is_accelerator(pci_class, vendor, include_display)
            if device.is_accelerator:
                accelerators.add(device.bus_id.lower())
            cards = [e for nic in child.children if nic.tag == "nic" for e in nic.children if e.tag == "net"]
            if network_cards and (cards or pci_class in NETWORK_CLASSES):
                device.network_card = cards[0].attributes.get("name", "") if cards else ""
                machine.warnings += _ports(device, cards, path)
            machine.others += not device.is_endpoint and pci_class != BRIDGE_CLASS
            if gpus and re.fullmatch("[0-9]{1,6}", gpus[0].attributes.get("dev", "")):
                device.number = int(gpus[0].attributes["dev"])
                if device.number in numbers:
                    raise InputError(
                        f"GPU dev '{device.number}' is a duplicate, expected unique numbers",
                        path=path,
                        line=gpus[0].line,
                    )
                numbers.add(device.number)
            visit(child, device)

    for cpu in (element for element in root.children if element.tag == "cpu"):
        hosts.setdefault(cpu.attributes.get("host_hash", ""), cpu.line)
        number = cpu.attributes.get("numaid", "")
        socket = Device("", None, cpu.line, numa_nodes=(int(number),) if re.fullmatch("[0-9]{1,6}", number) else ())
        visit(cpu, socket)
        machine.sockets.append(socket)
        unplaced = [net.attributes.get("name", "?") for nic in cpu.children if nic.tag == "nic" for net in nic.children]
        if network_cards and unplaced:
            text = f"network cards {', '.join(unplaced)} have no PCI address in the file and are left out"
            machine.warnings.append(Warning(WarningCode.TOPOLOGY_NOTE, text))
    if not machine.sockets:
        raise InputError("has no <cpu> element, expected NCCL topology XML", path=path, line=root.line)
    if len(hosts) > 1:
        raise InputError(
            f"holds {len(hosts)} hosts (host_hash {', '.join(map(repr, hosts))}), expected one: copies between hosts "
            "use a network, which a PCIe tree does not describe",
            path=path,
            line=list(hosts.values())[1],
        )
    machine.peers = [*_nccl_peers(root, accelerators, path)]
    if len(accelerators) > 1 and not any(element.tag == "gpu" for element in root.walk()):
        machine.warnings.append(
            Warning(
                WarningCode.PEER_LINKS_UNKNOWN,
                "the file has no <gpu> element, so NVLink and xGMI are not visible and all copies are predicted over "
                "PCIe. Use the file that NCCL_TOPO_DUMP_FILE writes on the machine",
            )
        )
    return machine


def _ports(device: Device, cards: list[Element], path: Path) -> list[Warning]:
    """Limit a network card to the total speed of its ports, and return warnings.

    The limit applies if the PCIe link of the card is faster than its ports.
    """
    speeds = [card.attributes.get("speed", "") for card in cards]
    for speed, card in zip(speeds, cards, strict=True):
        if not re.fullmatch("[0-9]{0,8}", speed):
            raise InputError(f"speed is '{speed}', expected Mbit/s as a whole number", path=path, line=card.line)
    names = [card.attributes.get("name", "") for card in cards]
    warnings = []
    if len(names) > 1:
        warnings.append(
            Warning(
                WarningCode.NETWORK_PORTS_MERGED,
                f"network card {names[0]} has {len(names)} ports ({', '.join(names)}); modelled as one endpoint",
            )
        )
    # The speed of the card is unknown unless every port has a positive speed; ports that are down have speed 0.
    port_rate = sum(int(speed) for speed in speeds) * 1e6 / 8 if speeds and all(map(_is_specified, speeds)) else None
    if port_rate is None:
        return warnings
    link = port_rate / PROTOCOL_EFFICIENCY
    if device.bytes_per_s is not None and link < device.bytes_per_s:
        warnings.append(
            Warning(
                WarningCode.NETWORK_CARD_LIMITS,
                f"network card {names[0]} carries {port_rate / 1e9:.4g} GB/s to the network, less than its PCIe link: "
                "copies to and from it are limited to that rate",
            )
        )
        device.bytes_per_s, device.generation, device.width = link, None, None
    return warnings


def _is_specified(speed: str) -> bool:
    return speed != "" and int(speed) > 0


_NCCL_PEERS = {"nvlink": "NVLink", "xgmi": "xGMI"}


def _nccl_peers(root: Element, accelerators: set[str], path: Path) -> list[tuple[str, tuple[str, ...], None]]:
    """Return the direct links that GPUs list; their rates are unknown.

    All GPUs with a link to an NVSwitch are connected with each other.
    """
    bus_id_of_gpu: dict[int, str] = {}
    for pci in (e for e in root.walk() if e.tag == "pci"):
        for gpu in (e for e in pci.children if e.tag == "gpu"):
            bus_id_of_gpu[id(gpu)] = pci.attributes.get("busid", "").lower()
    peers: list[tuple[str, tuple[str, ...], None]] = []
    switched: list[str] = []
    for gpu in (e for e in root.walk() if id(e) in bus_id_of_gpu):
        bus_id = bus_id_of_gpu[id(gpu)]
        for link in (e for e in gpu.children if e.tag in _NCCL_PEERS):
            target, count = link.attributes.get("target", "").lower(), link.attributes.get("count", "1")
            if not re.fullmatch("[0-9]{1,3}", count):
                raise InputError(f"count is '{count}', expected a number of links", path=path, line=link.line)
            if int(count) == 0:
                continue
            if target in accelerators and target != bus_id:
                peers.append((_NCCL_PEERS[link.tag], (min(bus_id, target), max(bus_id, target)), None))
            elif link.attributes.get("tclass", "").lower().removeprefix("0x") == f"{SWITCH_CLASS}00":
                switched.append(bus_id)
    if len(set(switched)) > 1:
        peers.append(("NVSwitch", tuple(dict.fromkeys(switched)), None))
    return list(dict.fromkeys(peers))


def _nccl_device(element: Element, path: Path) -> Device:
    """Return a device with generation, width and rate of its link; None if missing."""
    speed, width = element.attributes.get("link_speed", ""), element.attributes.get("link_width", "")
    device = Device(element.attributes.get("busid", ""), None, element.line)
    if not speed or speed.lower().startswith("unknown") or width in ("", "0"):
        return device
    try:
        # NCCL writes a number, the kernel a number with a unit.
        if not re.fullmatch("[0-9]{1,3}", width) or not re.fullmatch(r"[0-9.]+(\s*GT/s.*)?", speed.strip()):
            raise ValueError
        rate = float(speed.split("GT/s")[0])
        device.bytes_per_s = pcie_bytes_per_s(rate, int(width))
        device.generation, device.width = pcie_generation(rate), int(width)
    except (ValueError, IndexError) as error:
        raise InputError(
            f"link_speed is '{speed}' and link_width '{width}', expected values such as '16 GT/s' and '16'",
            path=path,
            line=element.line,
        ) from error
    return device
