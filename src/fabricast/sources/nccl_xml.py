"""Reader of NCCL topology XML (NCCL_TOPO_DUMP_FILE)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabricast.core.errors import InputError
from fabricast.core.facts import Content, Fact, Kind, Quantity
from fabricast.core.units import PROTOCOL_EFFICIENCY, pcie_bytes_per_s, pcie_generation
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.gpus import gpu_of_device
from fabricast.nccl.system import Cpu
from fabricast.pcie.topology.devices import (
    BRIDGE_CLASS,
    NETWORK_CLASSES,
    SWITCH_CLASS,
    Device,
    DeviceForest,
    is_accelerator,
    is_display,
)
from fabricast.sources.text import Format, Reading, Text
from fabricast.sources.xml_elements import Element, parse_xml, xml_root

#: Commands that write XML with other root elements.
_OTHER_ROOTS = {"graphs": "NCCL_GRAPH_DUMP_FILE"}
#: First model number of Intel's families, from which NCCL counts a processor as one of them.
_INTEL = ((0xCF, Cpu.INTEL_EMERALD_RAPIDS), (0x8F, Cpu.INTEL_SAPPHIRE_RAPIDS), (0x55, Cpu.INTEL_SKYLAKE))
#: Note about links whose speed the machine hides.
VIRTUAL = (
    "the links of GPUs have no speed, as in virtual machines, which hide switches and sockets from NCCL: "
    "NCCL_TOPO_FILE with the file of the provider"
)


def _forest(root: Element, path: str) -> DeviceForest:
    """Read one device tree per CPU and the direct links."""
    # NCCL writes max_link_speed of the operating system.
    forest = DeviceForest("NCCL topology XML", [], 0, bridges_of_a_switch=1, has_maximum_speeds=True)
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
            device.is_accelerator = bool(gpus) or is_accelerator(pci_class)
            device.is_display = is_display(pci_class, vendor)
            if device.is_accelerator:
                accelerators.add(device.bus_id.lower())
            cards = [e for nic in child.children if nic.tag == "nic" for e in nic.children if e.tag == "net"]
            is_card = bool(cards) or pci_class in NETWORK_CLASSES
            if is_card:
                device.network_card = cards[0].attributes.get("name", "") if cards else ""
                device.card_bytes_per_s, device.card_warnings = _ports(device, cards, path)
            is_other = not (device.is_accelerator or device.is_display or is_card)
            forest.others += is_other and pci_class != BRIDGE_CLASS
            if gpus and re.fullmatch("[0-9]{1,6}", gpus[0].attributes.get("dev", "")):
                number = int(gpus[0].attributes["dev"])
                if number in numbers:
                    raise InputError(
                        f"GPU dev '{number}' is a duplicate, expected unique numbers", path=path, line=gpus[0].line
                    )
                device.numbers = {"nccl": number}
                numbers.add(number)
            visit(child, device)

    for cpu in (element for element in root.children if element.tag == "cpu"):
        hosts.setdefault(cpu.attributes.get("host_hash", ""), cpu.line)
        number = cpu.attributes.get("numaid", "")
        socket = Device("", None, cpu.line, numa_nodes=(int(number),) if re.fullmatch("[0-9]{1,6}", number) else ())
        visit(cpu, socket)
        forest.sockets.append(socket)
        unplaced = [net.attributes.get("name", "?") for nic in cpu.children if nic.tag == "nic" for net in nic.children]
        if unplaced:
            text = f"network cards {', '.join(unplaced)} have no PCI address in the file and are left out"
            forest.card_warnings.append(CodedWarning(WarningCode.TOPOLOGY_NOTE, text))
    if not forest.sockets:
        raise InputError("has no <cpu> element, expected NCCL topology XML", path=path, line=root.line)
    if len(hosts) > 1:
        raise InputError(
            f"holds {len(hosts)} hosts (host_hash {', '.join(map(repr, hosts))}), expected one: copies between hosts "
            "use a network, which a PCIe tree does not describe",
            path=path,
            line=list(hosts.values())[1],
        )
    forest.peers = [*_nccl_peers(root, accelerators, path, forest.warnings)]
    if len(accelerators) > 1 and not any(element.tag == "gpu" for element in root.walk()):
        forest.warnings.append(
            CodedWarning(
                WarningCode.PEER_LINKS_UNKNOWN,
                "the file has no <gpu> element, so NVLink and xGMI are not visible and all copies are predicted over "
                "PCIe. Use the file that NCCL_TOPO_DUMP_FILE writes on the machine",
            )
        )
    return forest


def _ports(device: Device, cards: list[Element], path: str) -> tuple[float | None, tuple[CodedWarning, ...]]:
    """Return the rate of the ports of a network card in bytes/s with the headers of PCIe, and warnings.

    The rate is None unless it limits the card, whose PCIe link then is faster than its ports.
    """
    speeds = [card.attributes.get("speed", "") for card in cards]
    for speed, card in zip(speeds, cards, strict=True):
        if not re.fullmatch("[0-9]{0,8}", speed):
            raise InputError(f"speed is '{speed}', expected Mbit/s as a whole number", path=path, line=card.line)
    names = [card.attributes.get("name", "") for card in cards]
    warnings: tuple[CodedWarning, ...] = ()
    if len(names) > 1:
        text = f"network card {names[0]} has {len(names)} ports ({', '.join(names)}); modelled as one endpoint"
        warnings = (CodedWarning(WarningCode.NETWORK_PORTS_MERGED, text),)
    # The speed of the card is unknown unless every port has a positive speed; ports that are down have speed 0.
    if not speeds or not all(map(_is_specified, speeds)):
        return None, warnings
    port_rate = sum(int(speed) for speed in speeds) * 1e6 / 8
    link = port_rate / PROTOCOL_EFFICIENCY
    if device.bytes_per_s is None or link >= device.bytes_per_s:
        return None, warnings
    text = (
        f"network card {names[0]} carries {port_rate / 1e9:.4g} GB/s to the network, less than its PCIe link: "
        "copies to and from it are limited to that rate"
    )
    return link, (*warnings, CodedWarning(WarningCode.NETWORK_CARD_LIMITS, text))


def _is_specified(speed: str) -> bool:
    return speed != "" and int(speed) > 0


_NCCL_PEERS = {"nvlink": "NVLink", "xgmi": "xGMI"}


def _nccl_peers(
    root: Element, accelerators: set[str], path: str, warnings: list[CodedWarning]
) -> list[tuple[str, tuple[str, ...], None]]:
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
            elif target == bus_id:
                text = (
                    f"{path}:{link.line}: a {_NCCL_PEERS[link.tag]} of GPU {bus_id} ends at the same GPU, so that its "
                    "other end is unknown: the link is left out; 'nvidia-smi topo -m' prints it"
                )
                warnings.append(CodedWarning(WarningCode.PEER_LINKS_UNKNOWN, text))
            elif link.attributes.get("tclass", "").lower().removeprefix("0x") == f"{SWITCH_CLASS}00":
                switched.append(bus_id)
    if len(set(switched)) > 1:
        peers.append(("NVSwitch", tuple(dict.fromkeys(switched)), None))
    return list(dict.fromkeys(peers))


def _nccl_device(element: Element, path: str) -> Device:
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


def _read(text: Text) -> Iterator[Reading]:
    root = parse_xml(text)
    if root.tag != "system":
        written = f", which '{_OTHER_ROOTS[root.tag]}' writes" if root.tag in _OTHER_ROOTS else ""
        raise text.error(
            f"has the root element <{root.tag}>{written}, expected <topology> (hwloc: 'lstopo --of xml') or <system> "
            "(NCCL_TOPO_DUMP_FILE)",
            root.line,
        )
    forest = _forest(root, text.path)
    gpus = [one for one in root.walk() if one.tag == "pci" and any(child.tag == "gpu" for child in one.walk())]
    if gpus and all(one.attributes.get("link_speed") == "" for one in gpus):
        yield Reading([text.fact(Quantity.NOTE, VIRTUAL, gpus[0].line, forest.program)])
    yield Reading(
        [
            text.fact(Quantity.TOPOLOGY, forest, root.line, forest.program),
            *_capabilities(root, text),
            *_models(root, text),
            *_processors(root, text),
        ]
    )


def _processors(root: Element, text: Text) -> Iterator[Fact]:
    """Yield the family of the processors if all are of one, by the rule of NCCL for their vendor and model."""
    cpus = [element for element in root.children if element.tag == "cpu"]
    families = {_family(cpu) for cpu in cpus}
    if len(families) == 1 and (family := families.pop()) is not None:
        yield text.fact(Quantity.PROCESSOR, family.value, cpus[0].line, "NCCL topology XML")


def _family(cpu: Element) -> Cpu | None:
    """Return the family of a processor; None if NCCL distinguishes none, or the file lacks its model."""
    vendor, family, model = (cpu.attributes.get(name, "") for name in ("vendor", "familyid", "modelid"))
    if vendor == "AuthenticAMD":
        return Cpu.AMD
    if vendor != "GenuineIntel" or family != "6" or not re.fullmatch("[0-9]{1,3}", model):
        return None
    return next((one for first, one in _INTEL if int(model) >= first), Cpu.INTEL_BROADWELL)


def _capabilities(root: Element, text: Text) -> Iterator[Fact]:
    """Yield the compute capability of each GPU, which NCCL writes as `sm`."""
    for gpu in (element for element in root.walk() if element.tag == "gpu"):
        number = gpu.attributes.get("sm", "")
        if re.fullmatch("[0-9]{2,3}", number):
            subject = (gpu.attributes.get("dev", ""),)
            yield text.fact(Quantity.GPU_CAPABILITY, int(number) / 10, gpu.line, "NCCL topology XML", subject=subject)


def _models(root: Element, text: Text) -> Iterator[Fact]:
    """Yield the model of each GPU by its PCI device, which several products may share."""
    for pci in (element for element in root.walk() if element.tag == "pci"):
        model = gpu_of_device(pci.attributes.get("vendor", ""), pci.attributes.get("device", ""))
        for gpu in (element for element in pci.children if element.tag == "gpu"):
            if model is not None:
                subject = (gpu.attributes.get("dev", ""),)
                kind = Kind.DATA_SHEET
                yield text.fact(Quantity.GPU_MODEL, model, pci.line, "NCCL topology XML", subject=subject, kind=kind)


FORMAT = Format(
    "NCCL topology XML",
    Content.TOPOLOGY,
    "NCCL_TOPO_DUMP_FILE=machine.xml all_reduce_perf -g 8",
    '<pci busid="0000:16:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">',
    lambda text: xml_root(text) == "system" or (text.path.lower().endswith(".xml") and not xml_root(text)),
    _read,
    "nccl.xml",
    versions="NCCL 2.4 to 2.30",
)
