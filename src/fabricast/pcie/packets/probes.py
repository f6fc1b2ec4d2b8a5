"""Probes of the models' parameters, simulated packet by packet."""

from __future__ import annotations

import pandas as pd

from fabricast.pcie.graphs.congestion_graphs import from_arcs
from fabricast.pcie.models.calibration import _COLUMNS
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["simulate_probes"]


def simulate_probes(tree: PcieTree, hardware: PacketHardware, *, size_bytes: float) -> pd.DataFrame:
    """Run the three probes in the packet-level simulator.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    hardware : PacketHardware
        What is simulated.
    size_bytes : float
        Size of each copy.

    Returns
    -------
    pandas.DataFrame
        Columns as `read_probe_times` gives; probes that the topology has no room for are left out.
    """
    names = tree.endpoint_names
    pairs = [(s, t) for s in range(len(names)) for t in range(len(names)) if s != t]
    crosses = {pair: tree.is_crossing(names[pair[0]], names[pair[1]]) for pair in pairs}
    # The local copy of the conflict and the one alone are the same, as far apart as stays local.
    local = [pair for pair in pairs if not crosses[pair]]
    local.sort(key=lambda pair: -len(tree.route(names[pair[0]], names[pair[1]])))
    crossing = [pair for pair in pairs if crosses[pair]]
    probes: dict[str, list[tuple[int, int]]] = {}
    if local:
        probes["alone_local"] = [local[0]]
    if crossing:
        probes["alone_crossing"] = [crossing[0]]
    if local and crossing:
        target = local[0][1]
        others = [pair for pair in crossing if pair[1] == target]
        if others:
            probes["conflict"] = [local[0], others[0]]
    graphs = from_arcs(list(probes.values()), size_bytes=size_bytes)
    end_s = simulate(tree, graphs, hardware).end_s
    rows = [(probe, "0", names[s], names[t], size_bytes) for probe, arcs in probes.items() for s, t in arcs]
    return pd.DataFrame(rows, columns=list(_COLUMNS[:-1])).assign(elapsed_s=end_s)
