"""Measured copies of a machine: GPUs whose PCI address a program prints are told by it, whatever their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.files import is_table, read_text
from fabricast.pcie.measurements.measured_graph import MeasuredGraph
from fabricast.pcie.topology.parts import pci_address
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["address_doubts", "by_address", "printed_addresses"]

#: Lines of p2pBandwidthLatencyTest, whose numbers are hexadecimal, and of rocm_bandwidth_test, which numbers GPUs in
#: the order of its lines.
_P2P = re.compile(
    r"^Device: (\d+), .*pciBusID: ([0-9a-f]+), pciDeviceID: ([0-9a-f]+), pciDomainID: ?([0-9a-f]+)", re.MULTILINE
)
_ROCM = re.compile(r"^\s*Device:\s+\d+,.*,\s*([0-9a-fA-F]{1,4}:[0-9a-fA-F.:]+)\s*$", re.MULTILINE)


def printed_addresses(text: str) -> dict[str, str]:
    """Return the PCI address of each GPU that an output numbers.

    Parameters
    ----------
    text : str
        Output of a measuring program; those that print no addresses give none.

    Examples
    --------
    >>> printed_addresses("Device: 0, NVIDIA A100, pciBusID: 3b, pciDeviceID: 0, pciDomainID:1")
    {'0': '1:3b:0.0'}
    """
    found = {number: f"{domain}:{bus}:{device}.0" for number, bus, device, domain in _P2P.findall(text)}
    return found or {str(number): bus_id for number, bus_id in enumerate(_ROCM.findall(text))}


def by_address(tree: PcieTree, graphs: Sequence[MeasuredGraph], addresses: Mapping[str, str]) -> list[MeasuredGraph]:
    """Return measured copies with the names that the topology has for their GPUs.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    graphs : sequence of MeasuredGraph
        Copies between the numbers of a program.
    addresses : mapping of str to str
        PCI address of each number, as `printed_addresses` gives.

    Returns
    -------
    list of MeasuredGraph
        The same graphs where no address is one of the topology: it may describe another machine of that build.

    Raises
    ------
    InputError
        If the topology has some of the addresses and not all.
    """
    places = _places(tree)
    found = {number: places.get(pci_address(bus_id)) for number, bus_id in addresses.items()}
    known = {number: name for number, name in found.items() if name is not None}
    if not known or () in places:
        return list(graphs)
    if len(known) < len(found):
        missing = next(number for number, name in found.items() if name is None)
        raise InputError(
            f"GPU {missing} of the measurements is at {addresses[missing]}, where '{tree.name}' has none, and others "
            "are where it has them: expected the topology of the same machine"
        )
    return [
        replace(
            graph, flows=tuple((known.get(source, source), known.get(target, target)) for source, target in graph.flows)
        )
        for graph in graphs
    ]


def address_doubts(tree: PcieTree, path: Path | str) -> tuple[str, ...]:
    """Say that measurements print PCI addresses of which the topology has none; nothing if it has, or none are printed.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    path : Path or str
        As for `copies_of_machine`.
    """
    addresses, places = _addresses_of(path), _places(tree)
    if not addresses or () in places or any(pci_address(bus_id) in places for bus_id in addresses.values()):
        return ()
    text = (
        f"no GPU of the measurements ({next(iter(addresses.values()))}, ...) is at a PCI address of '{tree.name}': "
        "GPUs are told by their numbers, and rates mean something only if it is a machine of the same build"
    )
    return (text,)


def _addresses_of(path: Path | str) -> dict[str, str]:
    """Return the PCI address of each GPU that a file prints; tables and JSON print none."""
    silent = is_table(path) or Path(path).suffix.lower() == ".json"
    return {} if silent else printed_addresses(read_text(path))


def _places(tree: PcieTree) -> dict[tuple[int, ...], str]:
    """Return the accelerators of a tree by PCI address; an empty one is not known."""
    return {pci_address(tree.vertex(name).label): name for name in tree.accelerator_names}
