"""Map GPU numbers in benchmark output to topology endpoints by PCI address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabricast.core.errors import InputError
from fabricast.core.warnings import Warning, WarningCode
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.parts import pci_address
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["address_warnings", "by_address", "common_model", "known_gpus", "printed_addresses"]

#: Lines of p2pBandwidthLatencyTest, with hexadecimal numbers, and of rocm_bandwidth_test, which numbers GPUs in the
#: order of its lines.
_P2P = re.compile(
    r"^Device: (\d+), .*pciBusID: ([0-9a-f]+), pciDeviceID: ([0-9a-f]+), pciDomainID: ?([0-9a-f]+)", re.MULTILINE
)
_ROCM = re.compile(r"^\s*Device:\s+\d+,.*,\s*([0-9a-fA-F]{1,4}:[0-9a-fA-F.:]+)\s*$", re.MULTILINE)


def printed_addresses(text: str) -> dict[str, str]:
    """Return the PCI address of each GPU number in benchmark output.

    >>> printed_addresses("Device: 0, NVIDIA A100, pciBusID: 3b, pciDeviceID: 0, pciDomainID:1")
    {'0': '1:3b:0.0'}
    """
    addresses = {number: f"{domain}:{bus}:{device}.0" for number, bus, device, domain in _P2P.findall(text)}
    return addresses or {str(number): bus_id for number, bus_id in enumerate(_ROCM.findall(text))}


#: Lines of p2pBandwidthLatencyTest and of nvbandwidth.
_NAMES = re.compile(
    r"^Device: \d+, ([^,]{1,80}), pciBusID|^Device \d+: ([^(\n]{1,80}?)(?: \([0-9a-fA-F:.]+\))?\s*$", re.MULTILINE
)


def known_gpus(text: str) -> list[str]:
    """Return the different product names of the GPUs in benchmark output, without models that are not listed.

    >>> known_gpus("Device: 0, NVIDIA A100-PCIE-40GB, pciBusID: 3b, pciDeviceID: 0, pciDomainID:1")
    ['NVIDIA A100-PCIE-40GB']
    """
    names = dict.fromkeys((one or other).strip() for one, other in _NAMES.findall(text))
    return list(filter(is_known_gpu, names))


def common_model(names: Sequence[str]) -> str | None:
    """Return a product name if all names are of one GPU model; None without names.

    >>> common_model(["NVIDIA L40S", "NVIDIA H100"]) is None
    True
    """
    models = {gpu_model(name): name for name in names}
    return next(iter(models.values())) if len(models) == 1 else None


def by_address(tree: PcieTree, graphs: Sequence[MeasuredGraph], addresses: Mapping[str, str]) -> list[MeasuredGraph]:
    """Rename the GPUs of measured copies to the endpoints of a topology by PCI address."""
    names = endpoints_of_numbers(tree, addresses)
    return [
        replace(
            graph, flows=tuple((names.get(source, source), names.get(target, target)) for source, target in graph.flows)
        )
        for graph in graphs
    ]


def endpoints_of_numbers(tree: PcieTree, addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the endpoint of each GPU number of a program; empty if numbers are the names of endpoints."""
    places = _places(tree)
    endpoints = {number: places.get(pci_address(bus_id)) for number, bus_id in addresses.items()}
    names = {number: name for number, name in endpoints.items() if name is not None}
    if not names or () in places:
        return {}
    if len(names) < len(endpoints):
        missing = next(number for number, name in endpoints.items() if name is None)
        raise InputError(
            f"GPU {missing} of the measurements has the PCI address {addresses[missing]}, which '{tree.name}' does not "
            "have, while other addresses match: expected the topology of the same machine"
        )
    return names


def address_warnings(
    tree: PcieTree, addresses: Mapping[str, str], *, of: str = "the measurements"
) -> tuple[Warning, ...]:
    """Return a warning if the topology has none of the printed PCI addresses."""
    places = _places(tree)
    if not addresses or () in places or any(pci_address(bus_id) in places for bus_id in addresses.values()):
        return ()
    text = (
        f"no GPU of {of} ({next(iter(addresses.values()))}, ...) has a PCI address of '{tree.name}': GPUs "
        "are matched by number, which is valid only for a machine of the same build. Use the topology of this machine"
    )
    return (Warning(WarningCode.ADDRESSES_DIFFER, text),)


def _places(tree: PcieTree) -> dict[tuple[int, ...], str]:
    """Return the accelerators of a tree by PCI address; unknown addresses have an empty key."""
    return {pci_address(tree.vertex(name).label): name for name in tree.accelerator_names}
