"""Packet trace of one graph: transmissions as Parquet, and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fabricast.api.machine_inputs import GraphFile
from fabricast.api.simulations import PacketHardware, trace_graph
from fabricast.core.errors import InputError
from fabricast.core.units import time_text
from fabricast.inputs.files import atomic_write
from fabricast.results.connections import connect, report_full_disk

if TYPE_CHECKING:
    from fabricast.pcie.topology.tree import PcieTree


#: Maximum number of transmissions in a trace; figures with more are not readable.
_MOST_TRANSMISSIONS = 100_000


def trace_file(
    tree: PcieTree,
    graph_file: GraphFile,
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
) -> list[str]:
    """Trace the packets of one graph; write a Parquet file and a figure."""
    try:
        from fabricast.figures.pcie.packets import plot_packet_timeline
        from fabricast.figures.style import paper_style, save_figure
    except ModuleNotFoundError as error:
        raise InputError(f"--trace draws a figure and needs {error.name}: pip install 'fabricast[figures]'") from error

    if not 0 < transmissions <= _MOST_TRANSMISSIONS:
        raise InputError(f"--transmissions is {transmissions}, expected 1 to {_MOST_TRANSMISSIONS:,}")
    trace, labels = trace_graph(
        tree,
        graph_file,
        graph,
        hardware,
        size_bytes=size_bytes,
        transmissions=transmissions,
        generation=generation,
        width=width,
        parameters=parameters_file,
        pcie_only=pcie_only,
    )
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
