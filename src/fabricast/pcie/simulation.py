"""Simulation of the user's own graphs, for the command line."""

from __future__ import annotations

from pathlib import Path

from fabricast.errors import InputError
from fabricast.files import whole_file
from fabricast.jobs import progress_of
from fabricast.pcie.calibration import Estimate, calibrate, estimate_frame, read_probe_times
from fabricast.pcie.graphs import read_graphs
from fabricast.pcie.packets import PacketHardware, simulate, trace_packets
from fabricast.pcie.prediction import elapsed_table, write_elapsed
from fabricast.pcie.topology_files import load_tree
from fabricast.tables import connect

__all__ = ["calibrate_file", "simulate_file", "trace_file"]

#: Longest trace that is drawn; more would be ink without meaning.
_MOST_TRANSMISSIONS = 100_000


def simulate_file(
    topology: str,
    graphs_file: Path,
    hardware: PacketHardware,
    *,
    size_bytes: float,
    output: Path | None,
    threads: int,
) -> list[str]:
    """Simulate the graphs of a CSV file and write or print the result.

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
    output : Path or None
        Parquet or CSV file; None prints CSV.
    threads : int
        Threads to use.

    Returns
    -------
    list of str
        What the user should know of the result.
    """
    tree = load_tree(topology)
    graphs = read_graphs(graphs_file, tree, size_bytes=size_bytes)
    with progress_of("simulating", len(graphs)) as advance:
        simulation = simulate(tree, graphs, hardware, threads=threads, progress=advance)
    write_elapsed(elapsed_table(tree, graphs, simulation.end_s), output)
    return list(tree.notes)


def trace_file(
    topology: str,
    graphs_file: Path,
    hardware: PacketHardware,
    *,
    size_bytes: float,
    graph: str,
    transmissions: int,
    output: Path,
) -> Path:
    """Trace one graph: Parquet with one row a transmission, and a picture beside it.

    Parameters
    ----------
    topology, graphs_file, hardware, size_bytes
        As for `simulate_file`.
    graph : str
        Name of the graph.
    transmissions : int
        How many transmissions to trace.
    output : Path
        Parquet file; the picture has the same name and ends in .png.

    Returns
    -------
    Path
        The picture.

    Raises
    ------
    InputError
        If there is no such graph.
    """
    from fabricast.figures.packets import plot_packet_timeline
    from fabricast.figures.style import paper_style, save_figure

    if not 0 < transmissions <= _MOST_TRANSMISSIONS:
        raise InputError(f"--transmissions is {transmissions}, expected 1 to {_MOST_TRANSMISSIONS:,}")
    tree = load_tree(topology)
    graphs = read_graphs(graphs_file, tree, size_bytes=size_bytes)
    if graph not in graphs.names:
        raise InputError(f"--trace is '{graph}', expected a graph of {graphs_file}")
    number = graphs.names.index(graph)
    table = trace_packets(tree, graphs, number, hardware, transmissions=transmissions)
    labels = [f"{tree.endpoint_names[s]}→{tree.endpoint_names[t]}" for s, t in graphs.arcs(number)]
    with whole_file(output) as temporary, connect() as connection:
        connection.from_df(table).write_parquet(str(temporary))
    picture = output.with_suffix(".png")
    with paper_style():
        save_figure(plot_packet_timeline(table, labels), picture)
    return picture


def calibrate_file(topology: str, probes_file: Path, *, seed: int, output: Path | None) -> list[Estimate]:
    """Calibrate the models on probe times of a CSV file.

    Parameters
    ----------
    topology : str
        Built-in name or file.
    probes_file : Path
        CSV as `fabricast.pcie.calibration.read_probe_times` takes it.
    seed : int
        Root seed of the bootstrap.
    output : Path or None
        CSV with rows of the table parameter.

    Returns
    -------
    list of Estimate
        What the probes tell.
    """
    tree = load_tree(topology)
    times = read_probe_times(probes_file)
    try:
        estimates = calibrate(tree, times, seed=seed)
    except InputError as error:
        raise InputError(str(error), path=probes_file) from error
    if output is not None:
        frame = estimate_frame(estimates, system=tree.name, tag="measured", source=probes_file.name)
        with whole_file(output) as temporary:
            frame.to_csv(temporary, index=False, lineterminator="\n")
    return estimates
