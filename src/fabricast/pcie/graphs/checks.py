"""Checks of congestion graphs against a topology."""

from __future__ import annotations

from fabricast.core.errors import PeerLinkError
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree


def reject_peer_copies(tree: PcieTree, graphs: CongestionGraphs) -> None:
    """Raise an error if a graph copies between endpoints with a direct link.

    CUDA and HIP use a direct link (NVLink, NVSwitch, xGMI) instead of PCIe, so the models of the PCIe tree do not apply
    to such copies.
    """
    if not tree.peer_links:
        return
    names = tree.endpoint_names
    for communication, (source, target) in enumerate(zip(graphs.source.tolist(), graphs.target.tolist(), strict=True)):
        kind = tree.peer_link(names[source], names[target])
        if kind is not None:
            graph = graphs.names[int(graphs.graph_of_communication[communication])]
            raise PeerLinkError(
                f"graph '{graph}' copies {names[source]} to {names[target]} over {kind}, which this model does not "
                "support; set pcie_only to route such copies over PCIe"
            )
