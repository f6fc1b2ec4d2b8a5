"""Simulated probes for calibrating the model parameters."""

from __future__ import annotations

import pandas as pd

from fabricast.pcie.graphs.congestion_graphs import from_pairs
from fabricast.pcie.models.calibration import PROBE_COLUMNS
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.topology.tree import PcieTree


def simulate_probes(tree: PcieTree, hardware: PacketHardware, *, size_bytes: float) -> pd.DataFrame:
    """Simulate the three calibration probes at packet level.

    The probes are an isolated local copy, an isolated crossing copy, and a conflict of a local and a crossing copy with
    one target. The result is input for `fabricast.pcie.models.calibration.calibrate`.
    """
    names = tree.endpoint_names
    pairs = [(s, t) for s in range(len(names)) for t in range(len(names)) if s != t]
    crosses = {pair: tree.is_crossing(names[pair[0]], names[pair[1]]) for pair in pairs}
    # The isolated copy and the local copy of the conflict are the same: the local pair with the longest route.
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
        crossing_to_target = [pair for pair in crossing if pair[1] == target]
        if crossing_to_target:
            probes["conflict"] = [local[0], crossing_to_target[0]]
    graphs = from_pairs(list(probes.values()), size_bytes=size_bytes)
    end_s = simulate(tree, graphs, hardware).end_s
    rows = [(probe, "0", names[s], names[t], size_bytes) for probe, pairs in probes.items() for s, t in pairs]
    return pd.DataFrame(rows, columns=list(PROBE_COLUMNS[:-1])).assign(elapsed_s=end_s)
