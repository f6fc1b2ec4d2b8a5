"""Measured copies of a machine simulated packet by packet, with the parameters and engines of its forecast."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.validation import MachineValidation
from fabricast.pcie.measurements.measured_graph import BETWEEN_ROOTS, DIRECT_LINKS, MeasuredGraph, flows_of
from fabricast.pcie.packets.programs import simulate_program
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["simulate_machine"]


def simulate_machine(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], validation: MachineValidation, *, seed: int = 0
) -> pd.DataFrame:
    """Simulate the judged copies between GPUs of a machine.

    Parameters
    ----------
    tree : PcieTree
        The machine.
    graphs : sequence of MeasuredGraph
        Its measurements.
    validation : MachineValidation
        What `validate_machine` returned for them.
    seed : int, default 0
        Of programs with a random order.

    Returns
    -------
    pandas.DataFrame
        ``packets_bytes_per_s``, ``packets_low_bytes_per_s`` and ``packets_high_bytes_per_s``, a row a graph in their
        order: median and range over draws; missing for graphs that are not judged, and for copies of host memory,
        over direct links, and to another socket where they are slower alone, which are no part of the simulator.
    """
    whole = with_host_memory(tree)
    calibration = validation.calibration
    rows: list[tuple[float | None, ...]] = []
    for graph, judged, kind in zip(
        graphs, validation.rows["judged"], validation.rows["graph_class"], strict=True
    ):  # fmt: skip
        # A copy that its way to another socket alone holds back is no matter of packets on links.
        apart = kind == BETWEEN_ROOTS and calibration.rates.of_way("between_roots") is not None
        if not judged or apart or kind in ("host copies", DIRECT_LINKS):
            rows.append((None, None, None))
            continue
        limited = calibration.with_inter_socket_limit(whole, graph.flows)
        found = simulate_program(
            limited, flows_of(limited, graph), PROGRAMS[graph.program], calibration.rates, seed=seed
        )
        rows.append((found.bytes_per_s, found.low_bytes_per_s, found.high_bytes_per_s))
    names = ["packets_bytes_per_s", "packets_low_bytes_per_s", "packets_high_bytes_per_s"]
    return pd.DataFrame(rows, columns=names, dtype="float64")
