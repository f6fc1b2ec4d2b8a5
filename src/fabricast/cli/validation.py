"""Commands that hold forecasts against copies of a machine: probes, validate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fabricast.cli.options import DISPLAY, check_output

__all__ = ["app"]

app = typer.Typer()


@app.command(epilog="Example: fabricast probes machine.xml -o probes.csv")
def probes(
    topology: Annotated[str, typer.Argument(help="Built-in topology, or a .yaml, hwloc or NCCL .xml file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file for the probes.")] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Propose the fewest copies that tell the parameters of a machine and test its tree."""
    from fabricast.inputs.files import write_text
    from fabricast.pcie.machine_probes import probe_csv, proposed_probes
    from fabricast.pcie.topology_files import load_tree

    check_output(output, ".csv", inputs=[topology])
    tree = load_tree(topology, include_display=include_display)
    found = proposed_probes(tree)
    for probe in found:
        typer.echo(f"{probe.graph}: {' '.join(f'{s}>{t}' for s, t in probe.flows)}", err=output is None)
        typer.echo(f"  {probe.purpose}", err=output is None)
    if output is None:
        typer.echo(probe_csv(found), nl=False)
    else:
        write_text(output, probe_csv(found))
        typer.echo(
            f"{len(found)} probes in {output}: fill in total_gb_per_s, then 'fabricast validate {topology} {output}'"
        )


@app.command(epilog="Example: fabricast validate machine.xml measured.csv")
def validate(
    topology: Annotated[str, typer.Argument(help="Built-in topology, or a .yaml, hwloc or NCCL .xml file.")],
    measured: Annotated[Path, typer.Argument(help="CSV or Parquet of copies that were measured together.")],
    program: Annotated[
        str, typer.Option(help="How rows were measured that do not say: ordered_writes (PyTorch), unordered_reads "
                               "(p2pmark), unordered_writes or independent."),
    ] = "independent",
    system: Annotated[str | None, typer.Option(help="Take only rows of this system.")] = None,
    bandwidth_gb: Annotated[
        float | None, typer.Option(help="Rate of a copy alone in GB/s, where the file holds none.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file for the rows.")] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:  # fmt: skip
    """Print the error report of a machine: forecasts with parameters from its copies alone against all others."""
    from rich.console import Console

    from fabricast.cli.options import check_range
    from fabricast.cli.validation_text import validation_text
    from fabricast.pcie.machine_validation import validate_machine
    from fabricast.pcie.measured_copies import read_measured_copies
    from fabricast.pcie.programs import program_of
    from fabricast.pcie.tables.measured_copies import one_way_of
    from fabricast.pcie.topology_files import load_tree

    if bandwidth_gb is not None:
        check_range("--bandwidth-gb", bandwidth_gb, 1e-3, 9e3)
    check_output(output, ".csv", inputs=[topology, measured])
    tree = load_tree(topology, include_display=include_display)
    graphs = read_measured_copies(measured, program=program_of(program).name, system=system)
    one_way = one_way_of(tree) if bandwidth_gb is None else bandwidth_gb * 1e9
    found = validate_machine(tree, graphs, one_way_bytes_per_s=one_way)
    if output is not None:
        from fabricast.inputs.files import write_text

        write_text(output, found.rows.to_csv(index=False))
    Console(width=140, soft_wrap=True, highlight=False).print(validation_text(tree.name, found))
