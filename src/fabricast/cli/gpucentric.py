"""Commands on messages between GPUs: select, bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import DISPLAY, check_output, check_range
from fabricast.core.units import GIB

if TYPE_CHECKING:
    import pandas as pd

    from fabricast.pcie.topology.tree import PcieTree

__all__ = ["app"]

app = typer.Typer()


@app.command(
    epilog="Examples: fabricast select --system lassen_spectrum --size 512KiB | "
    "fabricast select --system k20_extoll --size 64 --nodes 12 --objective energy"
)
def select(
    system: Annotated[str, typer.Option(help="k20_extoll, lassen_mvapich, lassen_spectrum or summit_spectrum.")],
    size: Annotated[str, typer.Option(help="Message size such as 512KiB, 4MB or 64.")],
    nodes: Annotated[int, typer.Option(help="Nodes; each exchanges with two neighbours, or one if there are two.")] = 2,
    overlap: Annotated[float, typer.Option(help="Share of communication that could be hidden, 0 to 1.")] = 0.0,
    compute_us: Annotated[float, typer.Option(help="Computation of a step in microseconds.")] = 0.0,
    objective: Annotated[str, typer.Option(help="time, energy or edp (their product).")] = "time",
    gpus: Annotated[int, typer.Option(help="GPUs of a node that send at the same time.")] = 1,
    measured: Annotated[
        Path | None, typer.Option(help="this_gpu.parameters.csv of 'make measured', in place of assumed values.")
    ] = None,
) -> None:
    """Choose method and path of a message between GPUs, with its lead over the second."""
    from fabricast.core.units import parse_bytes
    from fabricast.gpucentric.parameters import read_measured
    from fabricast.gpucentric.selector import select as choose
    from fabricast.gpucentric.selector import systems

    check_range("--compute-us", compute_us, 0, 1e12)
    rates = None
    if gpus > 1 and system in systems()[1:]:
        from fabricast.api.node_rates import gpu_node_rates

        rates = gpu_node_rates(system)
    choice = choose(
        system, parse_bytes(size, "--size"), nodes=nodes, overlap=overlap, compute_s=compute_us * 1e-6,
        objective=objective,  # type: ignore[arg-type]  # checked there
        gpus=gpus, rates=rates, measured=None if measured is None else read_measured(measured),
    )  # fmt: skip
    typer.echo(f"{choice.method} ({choice.path} path): {choice.time_s * 1e6:.2f} us")
    typer.echo(f"second: {choice.second}, {choice.margin:.1%} more {objective}{'; a tie' if choice.tie else ''}")


@app.command(epilog="Example: nvbandwidth -j > nvbandwidth.json && fabricast bandwidth nvbandwidth.json")
def bandwidth(
    file: Annotated[
        Path,
        typer.Argument(help="What nvbandwidth (text or -j) or p2pBandwidthLatencyTest printed.", show_default=False),
    ],
    topology: Annotated[
        str | None,
        typer.Option(help="Topology of the machine, which tells the way of each copy.", show_default=False),
    ] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write all matrices as .csv.")] = None,
) -> None:
    """Read bandwidths between GPUs and host, and what they tell the PCIe models."""
    from fabricast.inputs.bandwidth_matrices import read_bandwidths
    from fabricast.inputs.files import write_text
    from fabricast.pcie.topology.files import load_tree

    check_output(output, ".csv", inputs=(file, topology))
    tree = None if topology is None else load_tree(topology, include_display=include_display)
    table = read_bandwidths(file)
    for (test, unit), part in table.groupby(["test", "unit"], sort=False):
        scale, shown = (1e-9, "GB/s") if unit == "bytes/s" else (1e6, "us")
        low, middle, high = (part["value"].quantile([0, 0.5, 1]) * scale).tolist()
        typer.echo(f"{test}: {len(part)} values, {low:.4g} to {high:.4g}, median {middle:.4g} {shown}")
    for line in _copy_lines(table, tree):
        typer.echo(line)
    if output is not None:
        write_text(output, table.to_csv(index=False, lineterminator="\n"))


def _copy_lines(table: pd.DataFrame, tree: PcieTree | None) -> Iterator[str]:
    """Yield the rates of copies between GPUs by class, and which of them the PCIe models can use."""
    from fabricast.core.units import pcie_link_bytes_per_s
    from fabricast.gpucentric.bandwidth_matrices import copy_classes

    def way(source: str, target: str) -> str | None:
        assert tree is not None
        if not {source, target} <= set(tree.endpoint_names):
            return None
        return tree.peer_link(source, target) or tree.path_class(source, target)

    def narrowest(source: str, target: str) -> float:
        assert tree is not None
        known = source != target and {source, target} <= set(tree.endpoint_names)
        return float(tree.routes.capacity[tree.route(source, target)].min()) if known else 1.0

    classes = copy_classes(table, *(() if tree is None else (way, narrowest)))
    if not classes:
        yield "no copies between GPUs: nothing for the PCIe models"
        return
    for one in classes:
        pairs = ", ".join(f"{source}>{target}" for source, target in one.pairs[:6])
        more = ", ..." if len(one.pairs) > 6 else ""
        yield (
            f"{one.name}: median {one.median / 1e9:.4g} GB/s ({one.low / 1e9:.4g} to {one.high / 1e9:.4g}), "
            f"{len(one.pairs)} pairs: {pairs}{more}"
        )
    if tree is None:
        if classes[-1].median > pcie_link_bytes_per_s(6, 16):
            yield "faster than any PCIe link: direct links between GPUs, nothing for the PCIe models"
        elif len(classes) == 1:
            yield (
                f"if these copies take PCIe: --bandwidth-gib {classes[0].median / GIB:.6g} for predict; "
                "--topology tells whether they do"
            )
        else:
            yield "which rate belongs to which way the file does not tell: give --topology"
        return
    over_pcie = [one for one in classes if one.name in ("PIX", "PXB", "PHB")]
    limit = tree.link_bytes_per_s
    if not over_pcie:
        yield "all copies take direct links or cross sockets: nothing for the PCIe models"
    elif limit is not None and over_pcie[0].reference > limit:
        yield (
            f"{over_pcie[0].name} copies are faster than their links ({limit / 1e9:.2f} GB/s): numbers of "
            "GPUs or the topology do not fit this file"
        )
    else:
        yield f"for predict on {tree.name}: --bandwidth-gib {over_pcie[0].reference / GIB:.6g} ({over_pcie[0].name})"
