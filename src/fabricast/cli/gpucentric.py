"""Commands for messages between GPUs: select, bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import DISPLAY, check_output, check_range
from fabricast.core.units import GIB

if TYPE_CHECKING:
    from fabricast.pcie.measurements.benchmark_output import BenchmarkOutput
    from fabricast.pcie.topology.tree import PcieTree

__all__ = ["app"]

app = typer.Typer()


@app.command(
    epilog="Examples: fabricast select --system lassen_spectrum --size 512KiB | "
    "fabricast select --system k20_extoll --size 64 --nodes 12 --objective energy"
)
def select(
    system: Annotated[
        str, typer.Option(help="System: k20_extoll, lassen_mvapich, lassen_spectrum or summit_spectrum.")
    ],
    size: Annotated[str, typer.Option(help="Message size such as 512KiB, 4MB or 64 (bytes).")],
    nodes: Annotated[int, typer.Option(help="Number of nodes; each has two neighbours, or one if there are two.")] = 2,
    overlap: Annotated[
        float, typer.Option(help="Fraction of communication that can overlap with computation, 0 to 1.")
    ] = 0.0,
    compute_us: Annotated[float, typer.Option(help="Computation time per step in microseconds.")] = 0.0,
    objective: Annotated[str, typer.Option(help="Minimised quantity: time, energy or edp (their product).")] = "time",
    gpus: Annotated[int, typer.Option(help="GPUs per node that send at the same time.")] = 1,
    measured: Annotated[
        Path | None, typer.Option(help="this_gpu.parameters.csv from 'make measured', to replace assumed values.")
    ] = None,
) -> None:
    """Select the best communication method and path for a message between GPUs."""
    from fabricast.core.units import parse_bytes
    from fabricast.gpucentric.parameters import read_measured
    from fabricast.gpucentric.selector import select as choose
    from fabricast.gpucentric.selector import systems

    check_range("--compute-us", compute_us, 0, 1e12)
    rates = None
    if gpus > 1 and system in systems()[1:]:
        from fabricast.api.gpucentric import gpu_node_rates

        rates = gpu_node_rates(system)
    choice = choose(
        system,
        parse_bytes(size, "--size"),
        nodes=nodes,
        overlap=overlap,
        compute_s=compute_us * 1e-6,
        objective=objective,  # type: ignore[arg-type]  # checked there
        gpus=gpus,
        rates=rates,
        measured=None if measured is None else read_measured(measured),
    )
    typer.echo(f"{choice.method} ({choice.path} path): {choice.time_s * 1e6:.2f} us")
    typer.echo(f"second: {choice.second}, {choice.margin:.1%} more {objective}{'; a tie' if choice.tie else ''}")


#: Relative difference of the rates of one path class above which something is wrong with some copies.
_SAME_CLASS = 0.15
#: Number of sets of concurrent copies that are printed.
_MOST_LISTED = 12


@app.command(epilog="Example: nvbandwidth -j > nvbandwidth.json && fabricast bandwidth nvbandwidth.json")
def bandwidth(
    file: Annotated[
        Path,
        typer.Argument(
            help="Output of nvbandwidth (text or -j), p2pBandwidthLatencyTest, p2pmark, rocm_bandwidth_test or "
            "TransferBench.",
            show_default=False,
        ),
    ],
    topology: Annotated[
        str | None,
        typer.Option(help="Topology of the machine, to determine the path class of each copy.", show_default=False),
    ] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write all values to this .csv file.")] = None,
) -> None:
    """Read measured bandwidths and print the value for --bandwidth of 'predict'."""
    from fabricast.core.errors import InputError
    from fabricast.inputs.files import write_text
    from fabricast.pcie.measurements.benchmark_output import bandwidth_table, isolated_copies, read_benchmark_output
    from fabricast.pcie.topology.files import load_tree

    check_output(output, ".csv", inputs=(file, topology))
    tree = None if topology is None else load_tree(topology, include_display=include_display)
    printed = read_benchmark_output(file)
    table = bandwidth_table(printed)
    if output is not None and table.empty:
        raise InputError("contains no matrix and no single copies, expected some for --output", path=file)
    typer.echo(f"output of {' and '.join(printed.programs)}")
    for (test, unit), part in table.groupby(["test", "unit"], sort=False):
        # Copies within the memory of one GPU use no link.
        if (part["row"] != part["column"]).any():
            part = part[part["row"] != part["column"]]
        scale, shown = (1e-9, "GB/s") if unit == "bytes/s" else (1e6, "us")
        low, middle, high = (part["value"].quantile([0, 0.5, 1]) * scale).tolist()
        typer.echo(f"{test}: {len(part)} values, {low:.4g} to {high:.4g}, median {middle:.4g} {shown}")
    for line in [*_concurrent_lines(printed), *_copy_lines(isolated_copies(table), tree)]:
        typer.echo(line)
    if output is not None:
        write_text(output, table.drop(columns="line").to_csv(index=False, lineterminator="\n"))


def _concurrent_lines(printed: BenchmarkOutput) -> Iterator[str]:
    """Yield the total rates of several copies at a time, which determine no rate of a single copy."""
    from fabricast.pcie.measurements.benchmark_output import concurrent_copies

    graphs = concurrent_copies(printed)
    for graph in graphs[:_MOST_LISTED]:
        rate = graph.total_bytes_per_s / 1e9
        yield f"{graph.name}: {len(graph.flows)} concurrent copies, {rate:.4g} GB/s in total"
    if graphs:
        more = f"{len(graphs) - _MOST_LISTED} more; " if len(graphs) > _MOST_LISTED else ""
        yield f"{more}'fabricast validate' compares concurrent copies with their forecast"


def _copy_lines(copies: list[tuple[str, str, float]], tree: PcieTree | None) -> Iterator[str]:
    """Yield the rates of GPU-to-GPU copies by path class, and the value for predict."""
    from fabricast.core.units import pcie_link_bytes_per_s
    from fabricast.gpucentric.bandwidth_matrices import copy_classes

    def way(source: str, target: str) -> str | None:
        assert tree is not None
        if not {source, target} <= set(tree.endpoint_names):
            return None
        return tree.peer_link(source, target) or tree.path_class(source, target)

    def narrowest(source: str, target: str) -> float:
        assert tree is not None
        is_routed = source != target and {source, target} <= set(tree.endpoint_names)
        return float(tree.routes.capacity[tree.route(source, target)].min()) if is_routed else 1.0

    classes = copy_classes(copies, *(() if tree is None else (way, narrowest)))
    if not classes:
        yield "no single copies between GPUs: the file does not determine a bandwidth for the PCIe models"
        return
    for rate_class in classes:
        pairs = ", ".join(f"{source}>{target}" for source, target in rate_class.pairs[:6])
        more = ", ..." if len(rate_class.pairs) > 6 else ""
        yield (
            f"{rate_class.name}: median {rate_class.median / 1e9:.4g} GB/s "
            f"({rate_class.low / 1e9:.4g} to {rate_class.high / 1e9:.4g}), {len(rate_class.pairs)} pairs: {pairs}{more}"
        )
        if rate_class.low < rate_class.high * (1 - _SAME_CLASS):
            yield f"  the rates of {rate_class.name} differ: 'fabricast diagnose' names slow GPUs, directions and links"
    if tree is None:
        if classes[-1].median > pcie_link_bytes_per_s(6, 16):
            yield "faster than any PCIe link: these copies use direct links, so no PCIe bandwidth is determined"
        elif len(classes) == 1:
            yield (
                f"if these copies use PCIe: --bandwidth {classes[0].median / GIB:.6g}GiB/s for predict; "
                "specify --topology to check their path class"
            )
        else:
            yield "the file does not contain the path class of each rate: specify --topology"
        return
    over_pcie = [rate_class for rate_class in classes if rate_class.name in ("PIX", "PXB", "PHB")]
    limit = tree.link_bytes_per_s
    if not over_pcie:
        yield "all copies use direct links or cross sockets: no bandwidth for the PCIe models is determined"
    elif limit is not None and over_pcie[0].reference > limit:
        yield (
            f"{over_pcie[0].name} copies are faster than their links ({limit / 1e9:.2f} GB/s): the GPU "
            "numbers or the topology do not match this file"
        )
    else:
        yield f"for predict on {tree.name}: --bandwidth {over_pcie[0].reference / GIB:.6g}GiB/s ({over_pcie[0].name})"
