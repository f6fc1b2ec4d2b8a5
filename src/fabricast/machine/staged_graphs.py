"""Graphs of a table of copies that pass through host memory, and the rates of their single pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fabricast.core.facts import Fact, Place, Quantity
from fabricast.core.warnings import WarningCode
from fabricast.inputs.pair_rates import ONE_WAY, staged_share
from fabricast.pcie.measurements.measured_graph import EXCLUDED_ROLES, MeasuredGraph
from fabricast.pcie.models.parameters import default_share_of, link_generation
from fabricast.pcie.topology.tree import PcieTree

_Pair = tuple[str, str]


def staged_graphs_of(tree: PcieTree, graphs: Sequence[MeasuredGraph]) -> list[MeasuredGraph]:
    """Return the graphs with copies between GPUs without peer access.

    Where the peer access is assumed from the model of the GPU, the rates of single copies decide: they must be nearer
    to those of copies through host memory on public machines than to those of direct copies.
    """
    staged = set(tree.staged_pairs)
    found = [graph for graph in graphs if not staged.isdisjoint(graph.flows)]
    is_assumed = any(one.code is WarningCode.PEER_ACCESS_ASSUMED for one in tree.warnings)
    if not is_assumed or not found:
        return found
    rates = [graph.total_bytes_per_s for graph in found if len(graph.flows) == 1]
    if not rates or tree.link_bytes_per_s is None:
        return []
    through_memory = staged_share(
        link_generation(tree), ONE_WAY, below_switch=False, old_geforce=False, gpus=len(tree.accelerator_names)
    )
    border = np.sqrt(through_memory.median * default_share_of(tree).median) * tree.link_bytes_per_s
    return found if np.median(rates) < border else []


def facts_of_staged(graphs: Sequence[MeasuredGraph], table: Fact) -> list[Fact]:
    """Return the rates of single copies, and of both copies of a pair together, of graphs through host memory."""
    facts = []
    for graph in graphs:
        if graph.role in EXCLUDED_ROLES or not (len(graph.flows) == 1 or graph.is_both_ways):
            continue
        quantity = Quantity.STAGED_RATE_BOTH_WAYS if graph.is_both_ways else Quantity.STAGED_RATE
        place, rate = Place(table.place.path, graph.line), graph.total_bytes_per_s
        facts.append(replace(table, quantity=quantity, value=rate, place=place, subject=graph.flows[0], unit="bytes/s"))
    return facts
