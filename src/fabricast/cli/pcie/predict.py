"""Command that predicts the times of concurrent copies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import (
    ALL_TO_ALL,
    BANDWIDTH,
    COPIES,
    CROSSING_COST,
    DISPLAY,
    GRAPHS,
    HALO,
    OUTPUT,
    PARAMETERS,
    PCIE_ONLY,
    RING,
    TAU,
    THREADS,
    TOPOLOGY,
    check_model_parameters,
    check_output,
    check_threads,
    print_warnings,
    rate_of,
    size_of,
)
from fabricast.core.errors import InputError
from fabricast.core.warnings import Warning

if TYPE_CHECKING:
    from fabricast.api.model_parameters import ModelInputs
    from fabricast.api.prediction_table import Prediction
    from fabricast.api.predictor import Predictor
    from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
    from fabricast.pcie.topology.tree import PcieTree

__all__ = ["app"]

app = typer.Typer()

#: Typical size of a row of a file of graphs in bytes.
_ROW_BYTES = 16
#: Number of copies with a random order from which the search for limiting copies shows its progress.
_SLOW_REMOVALS = 24


HOST_TO_ALL = typer.Option("--host-to-all", help="Every GPU reads from its nearest host memory.")
MODEL = typer.Option(help="Name of the model, see 'fabricast models'.")
PROGRAM = typer.Option(
    help="Copy program of graphs that specify none: listed_order (the default: copies from one GPU run one after the "
    "other), independent, ordered_writes or default_streams (PyTorch), unordered_reads (p2pmark), unordered_writes.",
    show_default=False,
)
MEASUREMENTS = typer.Option(
    help="Measured copies of this machine that calibrate the forecast, in a format of 'fabricast validate'.",
    show_default=False,
)
SYSTEM = typer.Option(help="Use only measurements of this system.")
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
    epilog="Example: fabricast predict storm8 --halo 4x2 --size 64MiB | fabricast predict machine.xml --copies "
    "'0>3 1>3' | fabricast predict machine.xml graphs.csv -o elapsed.parquet"
)
def predict(
    topology: Annotated[str, TOPOLOGY],
    graphs: Annotated[Path | None, GRAPHS] = None,
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
    measurements: Annotated[Path | None, MEASUREMENTS] = None,
    system: Annotated[str | None, SYSTEM] = None,
    explain: Annotated[bool, EXPLAIN] = True,
    limited_by: Annotated[bool | None, LIMITED_BY] = None,
    pcie_only: Annotated[bool, PCIE_ONLY] = False,
    output: Annotated[Path | None, OUTPUT] = None,
    format_: Annotated[str | None, FORMAT] = None,
    draw: Annotated[Path | None, DRAW] = None,
    transport: Annotated[str, TRANSPORT] = "auto",
    threads: Annotated[int | None, THREADS] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Predict the completion time of each of several concurrent copies, and why it waits."""
    from fabricast.api.model_parameters import ModelInputs
    from fabricast.api.predictions import predict_staged
    from fabricast.api.predictor import Predictor
    from fabricast.cli.output import print_elapsed, printed_format, write_elapsed
    from fabricast.cli.pcie.patterns import Patterns
    from fabricast.pcie.graphs.files import ScatteredGraphError, read_graphs
    from fabricast.pcie.graphs.staged import staged_copies
    from fabricast.pcie.topology.files import load_tree
    from fabricast.pcie.topology.memory import with_host_memory

    check_model_parameters(tau, crossing_cost)
    size_bytes = _size_bytes(size, all_to_all)
    check_output(output, ".csv", ".parquet", inputs=(graphs, parameters, measurements, topology))
    check_output(draw, ".svg", option="--draw", inputs=(graphs, parameters, measurements, topology))
    shown = printed_format(format_, output)
    threads = check_threads(threads)
    check_transport(transport)
    patterns = Patterns(graphs, all_to_all, halo, ring, host_to_all, copies)
    tree = load_tree(topology, include_display=include_display)
    inputs = ModelInputs(
        model, rate_of(bandwidth), tau, crossing_cost, parameters, pcie_only, program, measurements, system
    )
    tree = inputs.with_measured_access(tree)
    predictor = partial(Predictor, tree, inputs, explain=explain, threads=threads)
    is_direct = transport == "p2p" or (transport == "auto" and not tree.staged_pairs)
    if output is not None and graphs is not None and draw is None and is_direct:
        if limited_by is None:
            limited_by = explain and _has_few_rows(graphs, inputs)
        with suppress(ScatteredGraphError):
            print_warnings(_predict_blocks(predictor(limited_by=limited_by), graphs, size_bytes, output, threads))
            return
    if graphs is not None:
        read = read_graphs(graphs, predictor().tree, size_bytes=size_bytes, programs=True)
    else:
        read = patterns.graphs(with_host_memory(tree), size_bytes)
    if limited_by is None:
        limited_by = explain and read.source.size <= inputs.most_explained
    is_staged = staged_copies(predictor().tree, read, "p2p" if transport == "both" else transport)
    if is_staged.any():
        table = predict_staged(tree, read, inputs, is_staged, explain=explain, limited_by=limited_by, threads=threads)
    else:
        table = _with_progress(predictor(limited_by=limited_by), read)
    warnings = table.attrs["warnings"]
    if transport == "both":
        warnings = [*warnings, *_add_staged(table, tree, read, inputs, threads, warnings)]
    if draw is not None:
        _draw(tree, table, draw)
    if output is None:
        print_elapsed(table, shown)
    else:
        write_elapsed(table, output)
    print_warnings(warnings)


def _with_progress(predictor: Predictor, graphs: CongestionGraphs) -> Prediction:
    """Predict graphs, and show the progress of the search for limiting copies if it lasts seconds."""
    from fabricast.runtime.jobs import progress_of

    removals = predictor.slow_removals(graphs)
    if removals < _SLOW_REMOVALS:
        table = predictor.predict(graphs)
    else:
        with progress_of("evaluating without each copy", removals) as advance:
            table = predictor.predict(graphs, progress=advance)
    table.attrs["warnings"] = predictor.warnings()
    return table


def _has_few_rows(graphs: Path, inputs: ModelInputs) -> bool:
    """Return whether limiting copies are determined by default, by the size of a file of graphs."""
    return not graphs.is_file() or graphs.stat().st_size <= inputs.most_explained * _ROW_BYTES


def _size_bytes(size: str | None, all_to_all: str | None) -> float:
    if size is not None and all_to_all is not None:
        raise InputError("cannot be combined with --all-to-all SIZE", argument="size")
    return size_of("300MiB" if size is None else size)


def _add_staged(
    table: Prediction, tree: PcieTree, graphs: CongestionGraphs, inputs: ModelInputs, threads: int, known: list[Warning]
) -> list[Warning]:
    """Add the times of copies that all pass through host memory; return the warnings that concern only these."""
    from fabricast.api.predictions import predict_staged
    from fabricast.pcie.graphs.staged import staged_copies

    every = staged_copies(tree, graphs, "staged")
    staged = predict_staged(tree, graphs, inputs, every, explain=False, threads=threads)
    table["staged_s"] = staged["elapsed_s"]
    texts = {warning.text for warning in known}
    return [
        Warning(one.code, f"staged copies: {one.text}") for one in staged.attrs["warnings"] if one.text not in texts
    ]


def check_transport(transport: str) -> None:
    """Check the name of a transport."""
    from fabricast.core.errors import unknown_name
    from fabricast.pcie.graphs.staged import TRANSPORTS

    if transport not in (*TRANSPORTS, "both"):
        raise unknown_name("--transport", transport, (*TRANSPORTS, "both"))


def _draw(tree: PcieTree, table: Prediction, path: Path) -> None:
    """Draw the tree with the links at which copies wait, and the links that cause their waits."""
    from fabricast.inputs.files import write_text
    from fabricast.pcie.topology.drawing import saturated_vertices, tree_svg

    if "bottleneck" not in table:
        raise InputError("--draw and --no-explain exclude each other")
    waiting = table[table["slowdown"] > 1.001]
    labels = [*waiting["bottleneck"].astype(str), *waiting["caused_by"].astype(str)]
    drawing = tree_svg(tree, saturated_vertices(tree, labels))
    write_text(path, drawing[drawing.index("<svg") : drawing.index("</svg>")] + "</svg>\n")


def _predict_blocks(
    predictor: Predictor, graphs_file: Path, size_bytes: float, output: Path, threads: int
) -> list[Warning]:
    """Predict the graphs of a file block by block, and return the warnings."""
    from fabricast.cli.output import write_elapsed_parts
    from fabricast.pcie.graphs.files import graph_blocks
    from fabricast.runtime.jobs import progress_of
    from fabricast.runtime.threads import prefetched

    reader = graph_blocks(graphs_file, predictor.tree, size_bytes=size_bytes, programs=True)
    sizes: deque[int] = deque()

    def parts() -> Iterator[CongestionGraphs]:
        for graphs, size in prefetched(reader.blocks) if threads > 1 else reader.blocks:
            sizes.append(size)
            yield graphs

    with progress_of(f"predicting, {reader.unit}", reader.total) as advance:

        def tables() -> Iterator[Prediction]:
            for table in predictor.predict_parts(parts()):
                yield table
                size = sizes.popleft()
                # A file that is read as a single block has no progress to report.
                if size < reader.total:
                    advance(size)

        write_elapsed_parts(tables(), output)
    return predictor.warnings()
