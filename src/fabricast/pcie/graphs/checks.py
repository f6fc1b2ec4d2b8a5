"""Checks of congestion graphs against a topology."""

from __future__ import annotations

from fabricast.core.errors import PeerLinkError
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["refuse_peer_copies"]


def refuse_peer_copies(tree: PcieTree, graphs: CongestionGraphs) -> None:
    """Refuse copies between endpoints with a direct link, which do not take the tree.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs.

    Raises
    ------
    PeerLinkError
        On the first such copy.
    """
    if not tree.peer_links:
        return
    names = tree.endpoint_names
    for communication, (source, target) in enumerate(zip(graphs.source.tolist(), graphs.target.tolist(), strict=True)):
        kind = tree.peer_link(names[source], names[target])
        if kind is not None:
            graph = graphs.names[int(graphs.graph_of_communication[communication])]
            raise PeerLinkError(
                f"graph '{graph}' copies {names[source]} to {names[target]}, which {kind} joins: such copies do not "
                "take the PCIe tree and are not modelled"
            )
