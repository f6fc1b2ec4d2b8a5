"""Command that predicts the times of concurrent copies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import (
    ALL_TO_ALL,
    BANDWIDTH,
    COPIES,
    CROSSING_COST,
    DISPLAY,
    FILES_WITH_GRAPHS,
    GPU,
    HALO,
    LINK,
    MEASUREMENTS,
    OUTPUT,
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
    print_warnings,
    rate_of,
    size_of,
)
from fabricast.core.errors import InputError

if TYPE_CHECKING:
    from fabricast.api.prediction_table import Prediction
    from fabricast.pcie.topology.tree import PcieTree

__all__ = ["app"]

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
DRAW = typer.Option(help="Draw the tree with the links at which copies wait to this .svg file.", show_default=False)
FORMAT = typer.Option(
    "--format", help="Format of printed results: table (on a terminal), csv (on a pipe) or json.", show_default=False
)


@app.command(
    epilog="Example: fabricast predict storm8 --halo 4x2 --size 64MiB | fabricast predict topo.txt p2p.txt --copies "
    "'0>3 1>3' | fabricast predict machine.xml graphs.csv -o elapsed.parquet"
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
) -> None:
    """Predict the completion time of each of several concurrent copies, and why it waits."""
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.methods import Method, check_question
    from fabricast.api.prediction_files import graphs_of_file, predict_file, predict_with_progress, staged_beside
    from fabricast.cli.output import print_elapsed, printed_format, write_elapsed
    from fabricast.cli.pcie.patterns import Patterns

    check_model_parameters(tau, crossing_cost)
    size_bytes = _size_bytes(size, all_to_all)
    measured = measurements or []
    inputs = [*files, *measured, parameters]
    check_output(output, ".csv", ".parquet", inputs=inputs)
    check_output(draw, ".svg", option="--draw", inputs=inputs)
    shown = printed_format(format_, output)
    threads = check_threads(threads)
    check_transport(transport)
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
    is_direct = transport == "p2p" or (transport == "auto" and not machine.tree.staged_pairs)
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


def check_transport(transport: str) -> None:
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
