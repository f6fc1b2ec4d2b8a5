"""The trace of one graph: transmissions as Parquet, and a picture."""

from __future__ import annotations

from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.core.units import time_text
from fabricast.inputs.files import atomic_write
from fabricast.pcie.graphs.checks import refuse_peer_copies
from fabricast.pcie.graphs.files import read_graphs
from fabricast.pcie.packets.hardware import PacketHardware
from fabricast.pcie.packets.link_rates import hardware_on
from fabricast.pcie.packets.trace import trace_packets
from fabricast.pcie.topology.files import load_tree
from fabricast.results.connections import connect

__all__ = ["trace_file"]

#: Longest trace that is drawn; more would be ink without meaning.
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
    """Trace one graph: Parquet with one row a transmission, and a picture beside it.

    Parameters
    ----------
    topology : str
        Built-in name or file.
    graphs_file : Path
        CSV with the columns ``graph,source,target[,size_bytes,start_s]``.
    hardware : PacketHardware
        What is simulated.
    size_bytes : float
        Size where the file has no column ``size_bytes``.
    generation, width, parameters_file
        As for `fabricast.pcie.packets.link_rates.hardware_on`.
    pcie_only, include_display : bool, default False
        As for `fabricast.simulate` and `fabricast.load_topology`.
    graph : str
        Name of the graph.
    transmissions : int
        How many transmissions to trace.
    output : Path
        Parquet file; the picture has the same name and ends in .png.

    Returns
    -------
    list of str
        When each communication ends, and what was written.

    Raises
    ------
    InputError
        If there is no such graph.
    """
    from fabricast.figures.packets import plot_packet_timeline
    from fabricast.figures.style import paper_style, save_figure

    if not 0 < transmissions <= _MOST_TRANSMISSIONS:
        raise InputError(f"--transmissions is {transmissions}, expected 1 to {_MOST_TRANSMISSIONS:,}")
    tree = load_tree(topology, include_display=include_display)
    graphs = read_graphs(graphs_file, tree, size_bytes=size_bytes)
    if graph not in graphs.names:
        raise InputError(f"--trace is '{graph}', expected a graph of {graphs_file}")
    if not pcie_only:
        refuse_peer_copies(tree, graphs)
    chosen, _ = hardware_on(tree, hardware, generation=generation, width=width, parameters=parameters_file)
    number = graphs.names.index(graph)
    trace = trace_packets(tree, graphs, number, chosen, transmissions=transmissions)
    labels = [f"{tree.endpoint_names[s]}→{tree.endpoint_names[t]}" for s, t in graphs.arcs(number)]
    with atomic_write(output) as temporary, connect() as connection:
        connection.from_df(trace.transmissions).write_parquet(str(temporary))
    picture = output.with_suffix(".png")
    with paper_style():
        save_figure(plot_packet_timeline(trace.transmissions, trace.rates, labels), picture)
    last_s = float(trace.transmissions["end_s"].max())
    return [
        *(f"{label} ends after {time_text(end)}" for label, end in zip(labels, trace.end_s, strict=True)),
        f"{output}: {len(trace.transmissions):,} transmissions, the first {last_s * 1e6:.2f} us",
        f"{picture}: the first packets on links, and the rates of the whole run",
    ]
