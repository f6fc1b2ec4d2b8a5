"""Command that predicts the times of concurrent copies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabricast.cli.cluster_copies import print_cluster_copies
from fabricast.cli.options import (
    ALL_TO_ALL,
    BANDWIDTH,
    COPIES,
    CROSSING_COST,
    DISPLAY,
    FILES_WITH_GRAPHS,
    FORMAT,
    GPU,
    HALO,
    LINK,
    MEASUREMENTS,
    NETWORK,
    NIC,
    OUTPUT,
    OVERSUBSCRIPTION,
    PARAMETERS,
    PCIE_ONLY,
    RING,
    SYSTEM,
    TAU,
    THREADS,
    VERBOSE,
    check_model_parameters,
    check_output,
    check_threads,
    of_several_nodes,
    print_warnings,
    rate_of,
    refuse_options,
    size_of,
)
from fabricast.core.errors import InputError

if TYPE_CHECKING:
    from fabricast.api.prediction_table import Prediction
    from fabricast.pcie.topology.tree import PcieTree


app = typer.Typer()

HOST_TO_ALL = typer.Option("--host-to-all", help="Every GPU reads from its nearest host memory.")
MODEL = typer.Option(help="Name of the model, see 'fabricast models'.")
PROGRAM = typer.Option(
    help="Copy program of graphs that specify none: listed_order (the default: copies from one GPU run one after the "
    "other), independent, ordered_writes or default_streams (PyTorch), unordered_reads (p2pmark), unordered_writes.",
    show_default=False,
)
EXPLAIN = typer.Option("--explain/--no-explain", help="Add the bottleneck of each copy and its cause.")
LIMITED_BY = typer.Option(
    "--limited-by/--no-limited-by",
    help="Add the copies whose removal shortens each copy; by default up to 5,000 rows, a million without engines.",
    show_default=False,
)
SIZE_OF_COPIES = typer.Option(
    "--size",
    help="Size of each copy, such as 64MiB, if the file has no column size_bytes; by default 300MiB.",
    show_default=False,
)
TRANSPORT = typer.Option(
    help="auto (staged through host memory for pairs without peer access), p2p, staged, or both side by side."
)
NODES = of_several_nodes(help="Number of equal nodes.")
SWITCHES = of_several_nodes(help="Switches, as 'fabricast map --network' reads them; by default none limits a copy.")
HOSTS = of_several_nodes(help="Host of each node in the network of switches: a node list of Slurm, or a file.")
GPUDIRECT = of_several_nodes(help="Whether cards use GPUDirect RDMA; otherwise copies pass through host memory.")
LATENCY = of_several_nodes(
    "--latency-us", help="Time of a small message between nodes; by default that of a file of osu_latency."
)
PROCESS = of_several_nodes(
    "--process-gbyte-s", help="Largest rate of one process over the network in GB/s (max-rate model)."
)
ROUTING = of_several_nodes(help="static (by destination, the default) or adaptive.")
PATTERN = of_several_nodes(help="halo:4x4x8, all_to_all:64 or ring:64 of ranks, or a file of bytes between ranks.")
WRITE_RANKS = of_several_nodes(
    help="Write NAME.rankfile (Open MPI) and NAME.hosts (srun -m arbitrary) with a block of the grid of --halo on each "
    "node.",
    metavar="NAME",
)
DRAW = typer.Option(help="Draw the tree with the links at which copies wait to this .svg file.", show_default=False)


@app.command(
    epilog="Example: fabricast predict storm8 --halo 4x2 --size 64MiB | fabricast predict topo.txt p2p.txt --copies "
    "'0>3 1>3' | fabricast predict machine.xml graphs.csv -o elapsed.parquet | fabricast predict hgx_h100 "
    "--nodes 4 --nic 8x400 --halo 4x8"
)
def predict(
    files: Annotated[list[str], FILES_WITH_GRAPHS],
    all_to_all: Annotated[str | None, ALL_TO_ALL] = None,
    halo: Annotated[str | None, HALO] = None,
    ring: Annotated[bool, RING] = False,
    host_to_all: Annotated[bool, HOST_TO_ALL] = False,
    copies: Annotated[str | None, COPIES] = None,
    size: Annotated[str | None, SIZE_OF_COPIES] = None,
    model: Annotated[str, MODEL] = "ports_and_engines",
    parameters: Annotated[Path | None, PARAMETERS] = None,
    bandwidth: Annotated[str | None, BANDWIDTH] = None,
    tau: Annotated[float | None, TAU] = None,
    crossing_cost: Annotated[float | None, CROSSING_COST] = None,
    program: Annotated[str | None, PROGRAM] = None,
    measurements: Annotated[list[str] | None, MEASUREMENTS] = None,
    system: Annotated[str | None, SYSTEM] = None,
    gpu: Annotated[str | None, GPU] = None,
    link: Annotated[str | None, LINK] = None,
    explain: Annotated[bool, EXPLAIN] = True,
    limited_by: Annotated[bool | None, LIMITED_BY] = None,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    output: Annotated[Path | None, OUTPUT] = None,
    format_: Annotated[str | None, FORMAT] = None,
    draw: Annotated[Path | None, DRAW] = None,
    transport: Annotated[str, TRANSPORT] = "auto",
    threads: Annotated[int | None, THREADS] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    verbose: Annotated[bool, VERBOSE] = False,
    nodes: Annotated[int | None, NODES] = None,
    nic: Annotated[str | None, NIC] = None,
    network: Annotated[str | None, NETWORK] = None,
    switches: Annotated[str | None, SWITCHES] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    oversubscription: Annotated[float | None, OVERSUBSCRIPTION] = None,
    gpudirect: Annotated[bool | None, GPUDIRECT] = None,
    latency_us: Annotated[float | None, LATENCY] = None,
    process_gbyte_s: Annotated[float | None, PROCESS] = None,
    routing: Annotated[str | None, ROUTING] = None,
    pattern: Annotated[str | None, PATTERN] = None,
    write_ranks: Annotated[str | None, WRITE_RANKS] = None,
) -> None:
    """Predict the completion time of each of several concurrent copies, and why it waits."""
    from fabricast.api.cluster_copies import describes_cluster, names_nodes, starts_with_node
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.methods import Method, check_question
    from fabricast.api.prediction_files import graphs_of_file, predict_file, predict_with_progress, staged_beside
    from fabricast.cli.output import print_elapsed, printed_format, write_elapsed
    from fabricast.cli.pcie.patterns import Patterns

    of_cluster: dict[str, Any] = {
        "nodes": nodes,
        "nic": nic,
        "network": network,
        "switches": switches,
        "hosts": hosts,
        "oversubscription": oversubscription,
        "gpudirect": gpudirect,
        "latency_us": latency_us,
        "process_gbyte_s": process_gbyte_s,
    }
    every = [*files, *(measurements or [])]
    if nodes is not None or describes_cluster(every) or (starts_with_node(every) and names_nodes(copies)):
        check_output(output, ".csv", ".parquet", inputs=every)
        of_node = {
            "--model": None if model == "ports_and_engines" else model,
            "--parameters": parameters,
            "--bandwidth": bandwidth,
            "--tau": tau,
            "--crossing-cost": crossing_cost,
            "--program": program,
            "--system": system,
            "--draw": draw,
            "--transport": None if transport == "auto" else transport,
            "--no-explain": None if explain else True,
            "--threads": threads,
            "--include-display": include_display or None,
            "--limited-by": limited_by,
            "--host-to-all": host_to_all or None,
            "--pcie-only": pcie_only or None,
        }
        refuse_options(of_node, "copies in clusters")
        print_cluster_copies(
            every,
            {**of_cluster, "gpu": gpu, "link": link},
            {"pattern": pattern, "all_to_all": all_to_all, "halo": halo, "ring": ring, "copies": copies},
            size=size,
            routing=routing or "static",
            write_ranks=write_ranks,
            output=output,
            shown=printed_format(format_, output),
            verbose=verbose,
        )
        return
    refuse_options(
        {
            **{f"--{name.replace('_', '-')}": value for name, value in of_cluster.items()},
            "--routing": routing,
            "--write-ranks": write_ranks,
            "--pattern": pattern,
        },
        "one machine; add --nodes or a file with the key 'cluster'",
    )
    check_model_parameters(tau, crossing_cost)
    size_bytes = _size_bytes(size, all_to_all)
    measured = measurements or []
    inputs = [*files, *measured, parameters]
    check_output(output, ".csv", ".parquet", inputs=inputs)
    check_output(draw, ".svg", option="--draw", inputs=inputs)
    shown = printed_format(format_, output)
    threads = check_threads(threads)
    _check_transport(transport)
    method = Method(model, program, pcie_only)
    machine, graph_file = open_files(
        [*files, *measured],
        with_graphs=True,
        gpu=gpu,
        link=link,
        include_display=include_display,
        system=system,
        bandwidth_bytes_per_s=rate_of(bandwidth),
        tau=tau,
        crossing_cost=crossing_cost,
        parameters=parameters,
        pcie_only=pcie_only,
    )
    check_question(method, machine.options, [*machine.graphs, *machine.measured.staged])
    path = None if graph_file is None else Path(graph_file.path)
    patterns = Patterns(path, all_to_all, halo, ring, host_to_all, copies)
    used = method.transport(transport)
    is_direct = used == "p2p" or (used == "auto" and not machine.tree.staged_pairs)
    if output is not None and graph_file is not None and draw is None and is_direct:
        warnings = predict_file(
            machine,
            method,
            graph_file,
            output,
            size_bytes=size_bytes,
            explain=explain,
            limited_by=limited_by,
            threads=threads,
        )
        if warnings is not None:
            print_warnings(warnings, verbose=verbose)
            return
    if graph_file is not None:
        graphs = graphs_of_file(machine, method, graph_file, size_bytes)
    else:
        graphs = patterns.graphs(machine.with_memory, size_bytes)
    one = "p2p" if transport == "both" else transport
    table = predict_with_progress(machine, method, graphs, one, explain=explain, limited_by=limited_by, threads=threads)
    if transport == "both":
        staged_beside(table, machine, method, graphs, threads)
    if draw is not None:
        _draw(machine.tree, table, draw)
    if output is None:
        print_elapsed(table, shown)
    else:
        write_elapsed(table, output)
    print_warnings(table.attrs["warnings"], verbose=verbose)


def _size_bytes(size: str | None, all_to_all: str | None) -> float:
    if size is not None and all_to_all is not None:
        raise InputError("cannot be combined with --all-to-all SIZE", argument="size")
    return size_of("300MiB" if size is None else size)


def _check_transport(transport: str) -> None:
    """Check the name of a transport."""
    from fabricast.api.predictions import TRANSPORTS
    from fabricast.core.errors import unknown_name

    if transport not in (*TRANSPORTS, "both"):
        raise unknown_name("--transport", transport, (*TRANSPORTS, "both"))


def _draw(tree: PcieTree, table: Prediction, path: Path) -> None:
    """Draw the tree with the links at which copies wait, and the links that cause their waits."""
    from fabricast.api.topologies import drawing_of
    from fabricast.inputs.files import write_text

    if "bottleneck" not in table:
        raise InputError("--draw and --no-explain exclude each other")
    waiting = table[table["slowdown"] > 1.001]
    labels = [*waiting["bottleneck"].astype(str), *waiting["caused_by"].astype(str)]
    write_text(path, drawing_of(tree, labels))
