"""Packet trace of a single graph: transmissions on each link and payload rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.packets.simulator import Simulation, run_packets
from fabricast.pcie.topology.tree import PcieTree


@dataclass(frozen=True)
class PacketTrace:
    """Trace of one graph, simulated in one arbitration order.

    Arbiters serve copies round-robin in the order of rows.
    """

    #: First transmissions, with the columns communication, link, number (on that link), start_s, end_s.
    transmissions: pd.DataFrame
    #: Mean payload rate of each copy between milestones, with the columns communication, start_s, end_s, bytes_per_s.
    rates: pd.DataFrame
    end_s: NDArray[np.float64]  # Completion time of each copy in s, shape (copies,)


def trace_packets(
    tree: PcieTree, graphs: CongestionGraphs, graph: int, hardware: PacketHardware, *, transmissions: int
) -> PacketTrace:
    """Trace the first transmissions and the payload rates of one graph.

    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.packets.hardware import HARDWARE
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> pair = regular_tree("pair", (2,))
    >>> graphs = from_pairs([[(0, 1)]], size_bytes=1024)
    >>> trace = trace_packets(pair, graphs, 0, HARDWARE["no_split"], transmissions=99)
    >>> trace.transmissions["link"].value_counts().to_dict()
    {'0>RC': 4, 'RC>1': 4}
    """
    single = graphs.chosen(np.array([graph]))
    run = run_packets(tree, single, hardware, trace_rows=transmissions)
    simulation, trace, milestones = run.simulation, run.trace, run.milestones
    rows = trace[trace[:, 0] >= 0]
    names = np.array([f"{source}>{target}" for source, target, _, _ in tree.link_names], dtype=object)
    shown = pd.DataFrame(
        {
            "communication": rows[:, 0],
            "link": names[rows[:, 1]],
            "number": rows[:, 2],
            "start_s": rows[:, 3] * simulation.tick_s,
            "end_s": rows[:, 4] * simulation.tick_s,
        }
    )
    return PacketTrace(shown, _rates(single, milestones, simulation), simulation.end_s)


def _rates(graphs: CongestionGraphs, milestones: NDArray[np.int64], simulation: Simulation) -> pd.DataFrame:
    """Return the mean payload rate of each copy between milestones in bytes/s."""
    reached = milestones[milestones[:, 0] >= 0]
    time_s = reached[:, 0] * simulation.tick_s
    left = reached[:, 1 : 1 + graphs.source.size].astype(np.float64)
    parts = []
    for c in range(graphs.source.size):
        # A copy has all packets left at the first milestone, and none at the last.
        bytes_of_a_packet = graphs.size_bytes[c] / max(left[0, c], 1.0)
        for k in range(len(reached) - 1):
            moved, duration = left[k, c] - left[k + 1, c], time_s[k + 1] - time_s[k]
            if duration > 0 and moved > 0:
                parts.append((c, time_s[k], time_s[k + 1], moved * bytes_of_a_packet / duration))
    return pd.DataFrame(parts, columns=["communication", "start_s", "end_s", "bytes_per_s"])
