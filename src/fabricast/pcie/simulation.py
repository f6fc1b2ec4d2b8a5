"""Simulation of the user's own graphs, for the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabricast.errors import InputError, PeerLinkError, UnknownSpeedError
from fabricast.files import whole_file
from fabricast.jobs import progress_of
from fabricast.pcie.calibration import Estimate, calibrate, estimate_frame, read_probe_times
from fabricast.pcie.graphs import read_graphs
from fabricast.pcie.machine_parameters import read_machine_parameters, refuse_peer_copies
from fabricast.pcie.packet_phases import simulate
from fabricast.pcie.packets import PacketHardware, trace_packets
from fabricast.pcie.prediction import elapsed_table, write_elapsed
from fabricast.pcie.topology_files import load_tree
from fabricast.pcie.tree import PcieTree
from fabricast.tables import connect

__all__ = ["calibrate_file", "chosen_hardware", "simulate_file", "trace_file"]

#: Longest trace that is drawn; more would be ink without meaning.
_MOST_TRANSMISSIONS = 100_000


#: Rates of links are rounded in files.
_RATE_TOLERANCE = 0.02


def chosen_hardware(
    topology: str,
    tree: PcieTree,
    hardware: PacketHardware,
    *,
    generation: int | None,
    width: int | None,
    parameters_file: Path | None,
) -> tuple[PacketHardware, list[str]]:
    """Return hardware with the rate of the topology's links, or of what was measured on them.

    Parameters
    ----------
    topology : str
        Built-in name or file.
    tree : PcieTree
        The topology.
    hardware : PacketHardware
        Packets, buffers and root complex.
    generation, width : int or None
        Link of capacity 1, for topologies that record no speed.
    parameters_file : Path or None
        What `calibrate` wrote of this machine: links are then as fast as the bandwidth of one
        copy alone asks for.

    Returns
    -------
    (PacketHardware, list of str)
        Hardware, and what the user should know of it.

    Raises
    ------
    InputError
        If nothing tells the rate, or generation and width contradict the topology.
    """
    if parameters_file is not None:
        if generation is not None or width is not None:
            raise InputError("--parameters excludes --generation and --width: both tell the rate of links")
        measured = read_machine_parameters(parameters_file, tree.name)
        if "bandwidth" not in measured:
            raise InputError("holds no bandwidth, which the simulator needs", path=parameters_file)
        bandwidth = measured["bandwidth"].value
        rate = bandwidth * hardware.packet_bytes[0] / hardware.payload_bytes
        if tree.link_bytes_per_s is not None and rate > tree.link_bytes_per_s * (1 + _RATE_TOLERANCE):
            raise InputError(
                f"bandwidth {bandwidth / 1e9:.2f} GB/s asks for links of {rate / 1e9:.2f} GB/s with packets of "
                f"{hardware.payload_bytes} bytes, expected at most {tree.link_bytes_per_s / 1e9:.2f} on '{tree.name}'",
                path=parameters_file,
            )
        notes = [f"links of {rate / 1e9:.2f} GB/s: one copy alone then reaches the bandwidth of {parameters_file}"]
        unused = [name for name in ("tau", "crossing_cost") if name in measured]
        if unused:
            notes.append(f"{' and '.join(unused)} belong to the models; here the hardware setting decides")
        return replace(hardware, link_bytes_per_s=rate), notes
    given = replace(hardware, generation=generation or hardware.generation, width=width or hardware.width)
    known = tree.link_bytes_per_s
    if generation is None and width is None:
        if known is None:
            raise UnknownSpeedError(f"topology '{tree.name}' records no speed of its links")
        chosen = hardware.on(tree)
        alone = chosen.raw_bytes_per_s * chosen.payload_bytes / chosen.packet_bytes[0]
        told = tree.bandwidth_bytes_per_s
        if told is not None and abs(alone / told - 1) > _RATE_TOLERANCE:
            note = (
                f"one copy alone reaches {alone / 1e9:.2f} GB/s on these links, {told / 1e9:.2f} GB/s were measured on "
                f"'{tree.name}': the simulator knows packets, not what else held that machine back"
            )
            return chosen, [note]
        return chosen, []
    if known is not None and abs(given.raw_bytes_per_s / known - 1) > _RATE_TOLERANCE:
        raise InputError(
            f"--generation and --width give {given.raw_bytes_per_s / 1e9:.2f} GB/s, expected the {known / 1e9:.2f} "
            f"GB/s of the links of '{tree.name}'"
        )
    return given, []


def simulate_file(
    topology: str,
    graphs_file: Path,
    hardware: PacketHardware,
    *,
    size_bytes: float,
    output: Path | None,
    threads: int,
    generation: int | None = None,
    width: int | None = None,
    parameters_file: Path | None = None,
    pcie_only: bool = False,
    include_display: bool = False,
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
    generation, width, parameters_file
        As for `chosen_hardware`.
    pcie_only : bool, default False
        Whether copies between endpoints with direct links take the tree all the same.
    include_display : bool, default False
        Whether graphics cards count as accelerators.

    Returns
    -------
    list of str
        What the user should know of the result.
    """
    tree = load_tree(topology, include_display=include_display)
    graphs = read_graphs(graphs_file, tree, size_bytes=size_bytes)
    if not pcie_only:
        refuse_peer_copies(tree, graphs)
    chosen, notes = chosen_hardware(
        topology, tree, hardware, generation=generation, width=width, parameters_file=parameters_file
    )
    with progress_of("simulating", len(graphs)) as advance:
        ends = simulate(tree, graphs, chosen, threads=threads, progress=advance)
    table = elapsed_table(tree, graphs, ends.end_s).assign(
        earliest_s=ends.earliest_s - graphs.start_s, latest_s=ends.latest_s - graphs.start_s
    )
    write_elapsed(table, output)
    sensitive = int((ends.latest_s > ends.earliest_s * _SENSITIVE).sum())
    if sensitive:
        notes.append(
            f"{sensitive} communications end more than 1 % earlier or later with other turns of the arbiters: "
            "earliest_s and latest_s hold the range, elapsed_s the median"
        )
    return [*tree.notes, *notes]


_SENSITIVE = 1.01


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
    topology, graphs_file, hardware, size_bytes, generation, width, parameters_file, pcie_only, include_display
        As for `simulate_file`.
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
    chosen, _ = chosen_hardware(
        topology, tree, hardware, generation=generation, width=width, parameters_file=parameters_file
    )
    number = graphs.names.index(graph)
    trace = trace_packets(tree, graphs, number, chosen, transmissions=transmissions)
    labels = [f"{tree.endpoint_names[s]}→{tree.endpoint_names[t]}" for s, t in graphs.arcs(number)]
    with whole_file(output) as temporary, connect() as connection:
        connection.from_df(trace.transmissions).write_parquet(str(temporary))
    picture = output.with_suffix(".png")
    with paper_style():
        save_figure(plot_packet_timeline(trace.transmissions, trace.rates, labels), picture)
    last_s = float(trace.transmissions["end_s"].max())
    return [
        *(f"{label} ends after {end * 1e3:.4f} ms" for label, end in zip(labels, trace.end_s, strict=True)),
        f"{output}: {len(trace.transmissions):,} transmissions, the first {last_s * 1e6:.2f} us",
        f"{picture}: the first packets on links, and the rates of the whole run",
    ]


def calibrate_file(
    topology: str,
    probes_file: Path,
    *,
    seed: int,
    output: Path | None,
    pcie_only: bool = False,
    include_display: bool = False,
) -> list[Estimate]:
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
    pcie_only : bool, default False
        Whether copies between endpoints with direct links took the tree all the same.
    include_display : bool, default False
        Whether graphics cards count as accelerators.

    Returns
    -------
    list of Estimate
        What the probes tell.
    """
    tree = load_tree(topology, include_display=include_display)
    times = read_probe_times(probes_file)
    try:
        if not pcie_only:
            for source, target in zip(times["source"], times["target"], strict=True):
                kind = tree.peer_link(source, target)
                if kind is not None:
                    raise PeerLinkError(f"copies {source} to {target}, which {kind} joins: no probe of the PCIe tree")
        estimates = calibrate(tree, times, seed=seed)
        limit = tree.link_bytes_per_s
        if limit is not None and estimates[0].value > limit:
            raise InputError(
                f"gives a bandwidth of {estimates[0].value / 1e9:.4g} GB/s, expected at most the {limit / 1e9:.2f} "
                f"GB/s of the links of '{tree.name}'"
            )
    except InputError as error:
        raise type(error)(str(error), path=probes_file) from error
    if output is not None:
        frame = estimate_frame(estimates, system=tree.name, tag="measured", source=probes_file.name)
        with whole_file(output) as temporary:
            frame.to_csv(temporary, index=False, lineterminator="\n")
    return estimates
