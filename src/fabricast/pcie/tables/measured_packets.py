"""Packet simulation of measured copies with the calibration of their machine."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.unknown_limits import with_inter_socket_limit
from fabricast.pcie.machines.validation import MachineValidation
from fabricast.pcie.measurements.measured_graph import BETWEEN_ROOTS, DIRECT_LINKS, MeasuredGraph, flows_of
from fabricast.pcie.packets.programs import simulate_program
from fabricast.pcie.topology.memory import with_host_memory
from fabricast.pcie.topology.tree import PcieTree


def simulate_machine(
    tree: PcieTree, graphs: Sequence[MeasuredGraph], validation: MachineValidation, *, seed: int = 0
) -> pd.DataFrame:
    """Simulate the validated copies between GPUs of a machine."""
    whole = with_host_memory(tree)
    calibration = validation.calibration
    rows: list[tuple[float | None, ...]] = []
    for graph, judged, kind in zip(graphs, validation.rows["judged"], validation.rows["graph_class"], strict=True):
        # The simulator has no limit for single copies between sockets that are slower than their links.
        is_slow_class = kind == BETWEEN_ROOTS and calibration.of_class("between_roots") is not None
        if not judged or is_slow_class or kind in ("host copies", DIRECT_LINKS):
            rows.append((None, None, None))
            continue
        limited = with_inter_socket_limit(calibration, whole, graph.flows)
        simulation = simulate_program(
            limited,
            flows_of(limited, graph),
            PROGRAMS[graph.program],
            calibration,
            seed=seed,
            statistic=graph.statistic,
        )
        rows.append((simulation.bytes_per_s, simulation.low_bytes_per_s, simulation.high_bytes_per_s))
    names = ["packets_bytes_per_s", "packets_low_bytes_per_s", "packets_high_bytes_per_s"]
    return pd.DataFrame(rows, columns=names, dtype="float64")
