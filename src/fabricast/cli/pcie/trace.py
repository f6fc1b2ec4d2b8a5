"""Packet trace of one graph: transmissions as Parquet, and a figure."""

from __future__ import annotations

from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.units import time_text
from fabricast.inputs.files import atomic_write
from fabricast.pcie.graphs.checks import reject_peer_copies
from fabricast.pcie.graphs.files import read_graphs
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.packets.link_rates import hardware_on
from fabricast.pcie.packets.trace import trace_packets
from fabricast.pcie.topology.files import load_tree
from fabricast.results.connections import connect, report_full_disk

__all__ = ["trace_file"]

#: Maximum number of transmissions in a trace; figures with more are not readable.
_MOST_TRANSMISSIONS = 100_000


def trace_file(
    topology: str,
    graphs_file: Path,
    hardware: PacketHardware,
    *,
    size_bytes: float,
    graph: str,
    transmissions: int,
    output: Path,
    generation: int | None = None,
    width: int | None = None,
    parameters_file: Path | None = None,
    pcie_only: bool = False,
    include_display: bool = False,
) -> list[str]:
    """Trace the packets of one graph; write a Parquet file and a figure."""
    try:
        from fabricast.figures.pcie.packets import plot_packet_timeline
        from fabricast.figures.style import paper_style, save_figure
    except ModuleNotFoundError as error:
        raise InputError(f"--trace draws a figure and needs {error.name}: pip install 'fabricast[figures]'") from error

    if not 0 < transmissions <= _MOST_TRANSMISSIONS:
        raise InputError(f"--transmissions is {transmissions}, expected 1 to {_MOST_TRANSMISSIONS:,}")
    tree = load_tree(topology, include_display=include_display)
    graphs = read_graphs(graphs_file, tree, size_bytes=size_bytes)
    if graph not in graphs.names:
        raise InputError(f"--trace is '{graph}', expected a graph of {graphs_file}")
    if not pcie_only:
        reject_peer_copies(tree, graphs)
    chosen, _ = hardware_on(tree, hardware, generation=generation, width=width, parameters=parameters_file)
    number = graphs.names.index(graph)
    trace = trace_packets(tree, graphs, number, chosen, transmissions=transmissions)
    labels = [f"{tree.endpoint_names[s]}→{tree.endpoint_names[t]}" for s, t in graphs.pairs(number)]
    with atomic_write(output) as temporary, connect() as connection, report_full_disk(output):
        connection.from_df(trace.transmissions).write_parquet(str(temporary))
    figure_path = output.with_suffix(".png")
    with paper_style():
        save_figure(plot_packet_timeline(trace.transmissions, trace.rates, labels), figure_path)
    last_s = float(trace.transmissions["end_s"].max())
    return [
        *(f"{label} ends after {time_text(end)}" for label, end in zip(labels, trace.end_s, strict=True)),
        f"{output}: {len(trace.transmissions):,} transmissions in the first {last_s * 1e6:.2f} us",
        f"{figure_path}: first packets on each link, and rates over the whole run",
    ]
