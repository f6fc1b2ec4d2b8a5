"""Commands for messages between GPUs: select, bandwidth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabricast.cli.options import DISPLAY, FILES, check_output, check_range

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
    from fabricast.gpucentric.parameters import assumed_names, read_measured, read_values
    from fabricast.gpucentric.selector import MODELLED_SYSTEM, systems
    from fabricast.gpucentric.selector import select as choose

    check_range("--compute-us", compute_us, 0, 1e12)
    rates = None
    if gpus > 1 and system in systems()[1:]:
        from fabricast.api.gpucentric import gpu_node_rates

        rates = gpu_node_rates(system)
    known = None if measured is None else read_measured(measured)
    choice = choose(
        system,
        parse_bytes(size, "--size"),
        nodes=nodes,
        overlap=overlap,
        compute_s=compute_us * 1e-6,
        objective=objective,  # type: ignore[arg-type]  # checked there
        gpus=gpus,
        rates=rates,
        measured=known,
    )
    typer.echo(f"{choice.method} ({choice.path} path): {choice.time_s * 1e6:.4g} us")
    typer.echo(f"second: {choice.second}, {choice.margin:.1%} more {objective}{'; a tie' if choice.tie else ''}")
    if system == MODELLED_SYSTEM:
        assumed = [name for name in assumed_names(system) if name not in (known or {})]
        typer.echo(
            f"fabricast: {len(assumed)} of {len(read_values(system))} parameters are assumed, since the paper does not "
            "state them: --measured replaces them",
            err=True,
        )


@app.command(epilog="Example: nvbandwidth -j > nvbandwidth.json && fabricast bandwidth nvbandwidth.json topo.txt")
def bandwidth(
    files: Annotated[list[str], FILES],
    topology: Annotated[
        str | None,
        typer.Option(help="Topology of the machine, to determine the path class of each copy.", show_default=False),
    ] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write all values to this .csv file.")] = None,
) -> None:
    """Read measured bandwidths and print the value for --bandwidth of 'predict'."""
    from fabricast.api.bandwidths import bandwidth_lines, bandwidths
    from fabricast.core.errors import InputError
    from fabricast.inputs.files import write_text

    inputs = [*files, *([] if topology is None else [topology])]
    check_output(output, ".csv", inputs=inputs)
    found = bandwidths(inputs, include_display=include_display)
    if output is not None and found.table.empty:
        raise InputError("contains no matrix and no single copies, expected some for --output", path=files[0])
    for line in bandwidth_lines(found):
        typer.echo(line)
    for problem in found.problems:
        typer.echo(f"fabricast: warning: {problem}; it is left out", err=True)
    if output is not None:
        write_text(output, found.table.drop(columns="line").to_csv(index=False, lineterminator="\n"))
