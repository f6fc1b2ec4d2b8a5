"""Command that prints public measurements of collective operations on nodes and clusters."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabricast.cli.options import check_output

if TYPE_CHECKING:
    from fabricast.api.references import Reference


app = typer.Typer()

GPU = typer.Option("--gpu", help="GPU model such as H100, A100-SXM4, MI300X or GH200.")
OPERATION = typer.Option(help="all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall or sendrecv.")
GPUS = typer.Option(help="GPUs of each node.")
NODES = typer.Option(help="Number of nodes.")
SIZES = typer.Option(help="Sizes such as '64KiB 1GiB'; by default powers of 8 from 8 B to 8 GiB.", show_default=False)
NETWORK = typer.Option(
    help="Kind of network: 'InfiniBand or RoCE', EFA, Slingshot or Ethernet; such machines are preferred.",
    show_default=False,
)
RATE = typer.Option("--gbit-s", help="Network rate of a GPU in Gbit/s.", show_default=False)
FORMAT = typer.Option("--format", help="Format of the printed table: table, csv or json.")
OUTPUT = typer.Option("--output", "-o", help="Write the table to this .csv file.", show_default=False)
#: Sizes in bytes without the option; those of the machines themselves if most of these are not measured.
_SIZES = [float(8 << (3 * power)) for power in range(11)]


@app.command(epilog="Example: fabricast reference --gpu H200 --nodes 2 --sizes '1MiB 8GiB'")
def reference(
    gpu: Annotated[str, GPU],
    operation: Annotated[str, OPERATION] = "all_reduce",
    gpus: Annotated[int, GPUS] = 8,
    nodes: Annotated[int, NODES] = 1,
    sizes: Annotated[str | None, SIZES] = None,
    network: Annotated[str | None, NETWORK] = None,
    gbit_s: Annotated[float | None, RATE] = None,
    format_: Annotated[str, FORMAT] = "table",
    output: Annotated[Path | None, OUTPUT] = None,
) -> None:
    """Print what public NVLink nodes and clusters reach in a collective operation, with sources."""
    from fabricast.api.references import reference as public_reference
    from fabricast.cli.output import printed_format

    check_output(output, ".csv")
    shown = printed_format(format_, None)
    wanted = _SIZES if sizes is None else sizes
    of_class = partial(public_reference, gpu, operation, gpus=gpus, nodes=nodes, network=network, gbit_s=gbit_s)
    found = of_class(sizes=wanted)
    if sizes is None and found.measured_sizes and (found.table["machines"] == 0).mean() > 0.5:
        found = of_class(sizes=found.measured_sizes)
    if output is not None:
        from fabricast.inputs.files import write_text

        write_text(output, found.table.to_csv(index=False))
        return
    if shown == "csv":
        typer.echo(found.table.to_csv(index=False), nl=False)
        return
    if shown == "json":
        typer.echo(found.table.to_json(orient="records", indent=1))
        return
    typer.echo(
        "\n".join([*_reference_lines(found), *_about_two_nodes(found, nodes), *_network_lines(found, network, gbit_s)])
    )


def _about_two_nodes(found: Reference, nodes: int) -> list[str]:
    """Return that two nodes are no expectation for more of them."""
    if found.nodes != 2 or nodes <= 2 or found.operation != "all_reduce":
        return []
    why = "two nodes reach more than larger clusters: their trees send half as many bytes over the network"
    return [f"{why}; 'fabricast collective --nodes {nodes}' forecasts yours"]


def _network_lines(found: Reference, network: str | None, gbit_s: float | None) -> list[str]:
    """Return that machines with several nodes have another network than the one that was asked for."""
    from fabricast.collectives.reference import is_of_network, network_of

    if found.nodes == 1:
        return []
    kind = None if network is None else network_of(network) or network_of(f"net/{network}") or network
    if is_of_network(found.machines, kind, gbit_s):
        return []
    return ["no public machine of this class has the network that you state: these have another one"]


def _reference_lines(found: Reference) -> list[str]:
    """Return the measurements as readable lines."""
    import pandas as pd

    from fabricast.collectives.reference import words_of_machine
    from fabricast.core.number_text import size_text

    near = "no public machine of this class; the nearest one: " if found.is_neighbour else ""
    table = found.table
    known = table["machines"] > 0

    def text(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    def cell(row: pd.Series, middle: str, low: str, high: str) -> str:
        # The mean of two machines is measured by none of them.
        if row["machines"] == 2:
            return f"{text(row[low])} to {text(row[high])}"
        if row["machines"] > 2:
            return f"{text(row[middle])} ({text(row[low])} to {text(row[high])})"
        return text(row[middle]) if row["machines"] else "-"

    def cells(middle: str, low: str, high: str) -> list[str]:
        return [cell(row, middle, low, high) for _, row in table.iterrows()]

    shown = pd.DataFrame(
        {
            "size": [size_text(size) for size in table["size_bytes"]],
            "machines": table["machines"],
            "us": cells("median_us", "shortest_us", "longest_us"),
            "bus GB/s": cells("bus_gb_per_s", "lowest_gb_per_s", "highest_gb_per_s"),
        }
    )
    count = len(found.machines)
    of = {1: "1 public machine", 2: "2 public machines"}.get(count, f"median of {count} public machines (range)")
    lines = [f"{found.operation}, {near}{found.words}: {of}"]
    lines += shown.to_string(index=False).split("\n")
    if not known.all():
        lines.append("-: no public machine has this size")
    lines += found.notes
    names = [words_of_machine(name) if found.nodes > 1 else name for name in found.machines]
    return [*lines, *(f"{name}, source: {source}" for name, source in zip(names, found.sources, strict=True))]
