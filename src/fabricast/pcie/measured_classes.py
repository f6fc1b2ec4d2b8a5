"""Classes of measured graphs, whose errors have different causes, and what links carry of them at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricast.pcie.host_memory import is_between_roots, is_host
from fabricast.pcie.machine_calibration import links_carry
from fabricast.pcie.machine_rates import Calibration
from fabricast.pcie.measured_graph import MeasuredGraph
from fabricast.pcie.tree import PcieTree
from fabricast.pcie.tree_parts import direct_rates

__all__ = ["BETWEEN_ROOTS", "DIRECT_LINKS", "HOST_COPIES", "MANY_COPIES", "graph_class", "most_carried"]

BETWEEN_ROOTS = "between root complexes"
HOST_COPIES = "host copies"
#: Class of graphs with copies over NVLink, NVSwitch or xGMI.
DIRECT_LINKS = "direct links"
#: Class of graphs in which the engine of a GPU decides.
MANY_COPIES = "many copies of a GPU"
#: Copies of one GPU from which on its engine, and not the links, decides.
_MANY = 3


def graph_class(tree: PcieTree, graph: MeasuredGraph) -> str:
    """Return what kind of graph it is: its errors have another cause."""
    if is_host(tree, graph.flows):
        return HOST_COPIES
    if any(tree.peer_link(*flow) is not None for flow in graph.flows):
        return DIRECT_LINKS
    ends = [end for flow in graph.flows for end in {f"{flow[0]}>", f">{flow[1]}"}]
    if len(graph.flows) > 1 and max(ends.count(end) for end in set(ends)) >= _MANY:
        return MANY_COPIES
    if any(is_between_roots(tree, flow) for flow in graph.flows):
        return BETWEEN_ROOTS
    return "few copies"


def most_carried(tree: PcieTree, flows: Sequence[tuple[int, int]], calibration: Calibration) -> float:
    """Return the most that the links can carry, each at the fastest rate that is known.

    Copies over direct links add what these carry; where nothing tells it, there is no most.
    """
    rates, names = calibration.rates, tree.endpoint_names
    told = direct_rates(calibration.direct_links or tree.peer_links)
    direct = [flow for flow in flows if tree.peer_link(names[flow[0]], names[flow[1]]) is not None]
    most = sum(told.get((names[source], names[target]), np.inf) for source, target in direct)
    on_tree = [flow for flow in flows if flow not in direct]
    if on_tree:
        most += links_carry(tree, on_tree, max(rates.one_way_bytes_per_s, rates.crossing_bytes_per_s or 0.0))
    return most
