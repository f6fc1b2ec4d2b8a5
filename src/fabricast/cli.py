"""The command line: ``fabricast``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fabricast import __version__
from fabricast.errors import InputError
from fabricast.units import GIB, MIB

__all__ = ["app", "main"]

app = typer.Typer(
    name="fabricast",
    help="Forecast communication on dense accelerator servers and the networks behind them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
topology_app = typer.Typer(help="List, draw and import topologies.", no_args_is_help=True)
app.add_typer(topology_app, name="topology")

_TOPOLOGY = typer.Argument(help="Built-in name, .yaml file, hwloc .xml or NCCL .xml file.", show_default=False)
_DISPLAY = typer.Option("--include-display", help="Count NVIDIA and AMD graphics cards (class 0300) too.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fabricast {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: fabricast predict storm8 graphs.csv --model round_robin_upstream -o elapsed.parquet")
def predict(
    topology: Annotated[str, _TOPOLOGY],
    graphs: Annotated[
        Path,
        typer.Argument(help="CSV with columns graph,source,target[,size_bytes,start_s].", show_default=False),
    ],
    model: Annotated[str, typer.Option(help="Model; 'fabricast models' lists them.")] = "congestion_factor",
    bandwidth_gib: Annotated[float, typer.Option(help="Bandwidth of one copy alone in GiB/s.")] = 11.6,
    tau: Annotated[float, typer.Option(help="Performance reduction for crossing the root complex.")] = 0.1735,
    size_mib: Annotated[float, typer.Option(help="Size in MiB where the file has no size_bytes.")] = 300.0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write .parquet or .csv instead of printing CSV."),
    ] = None,
    include_display: Annotated[bool, _DISPLAY] = False,
) -> None:
    """Predict when each communication of each congestion graph ends."""
    from fabricast.pcie.prediction import predict_file

    _check_positive("--bandwidth-gib", bandwidth_gib)
    _check_positive("--size-mib", size_mib)
    if not 0 <= tau < 1:
        raise InputError(f"--tau is {tau:g}, expected 0 or more and less than 1")
    if output is not None and output.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"--output is '{output}', expected a name that ends in .csv or .parquet")
    notes = predict_file(
        topology,
        graphs,
        model,
        bandwidth_bytes_per_s=bandwidth_gib * GIB,
        tau=tau,
        size_bytes=size_mib * MIB,
        output=output,
        include_display=include_display,
    )
    for note in notes:
        typer.echo(f"fabricast: note: {note}", err=True)


def _check_positive(option: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise InputError(f"{option} is {value:g}, expected a positive number")


@app.command(epilog="Example: fabricast models")
def models() -> None:
    """List the models that 'predict --model' takes."""
    from fabricast.pcie.models import MODELS

    for name, entry in MODELS.items():
        typer.echo(f"{name:24} {entry.title}")


@app.command(epilog="Example: fabricast claims")
def claims(
    database: Annotated[Path, typer.Option(help="Database of a finished run.")] = Path("results/fabricast.duckdb"),
) -> None:
    """Print the claim table of a finished run."""
    from fabricast.claims import claim_table

    Console(width=None if sys.stdout.isatty() else 120).print(claim_table(database))


@topology_app.command("list", epilog="Example: fabricast topology list")
def list_topologies() -> None:
    """List the built-in topologies."""
    from fabricast.pcie.topology_files import builtin_names, load_tree

    for name in builtin_names():
        tree = load_tree(name)
        typer.echo(f"{name:24} {len(tree.endpoint_names):3} endpoints  [{tree.tag}] {tree.source}")


@topology_app.command(epilog="Example: fabricast topology show dgx1")
def show(
    topology: Annotated[str, _TOPOLOGY],
    include_display: Annotated[bool, _DISPLAY] = False,
) -> None:
    """Draw a topology as text, with its path classes."""
    from fabricast.pcie.topology_files import load_tree
    from fabricast.pcie.topology_text import path_matrix, tree_text

    tree = load_tree(topology, include_display=include_display)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(tree_text(tree))
    console.print(path_matrix(tree))
    for note in tree.notes:
        typer.echo(f"fabricast: note: {note}", err=True)


@topology_app.command("import", epilog="Example: lstopo machine.xml && fabricast topology import machine.xml -o m.yaml")
def import_topology(
    file: Annotated[Path, typer.Argument(help="hwloc XML or NCCL topology XML.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write YAML to this file instead of printing it.")
    ] = None,
    include_display: Annotated[bool, _DISPLAY] = False,
) -> None:
    """Turn hwloc or NCCL XML into a topology that all commands read."""
    from fabricast.pcie.topology_files import tree_yaml, write_tree
    from fabricast.pcie.xml_import import import_xml

    tree = import_xml(file, include_display=include_display)
    if output is None:
        typer.echo(tree_yaml(tree), nl=False)
    else:
        write_tree(tree, output)
    for note in tree.notes:
        typer.echo(f"fabricast: note: {note}", err=True)


def main() -> None:
    """Run the command line; bad input ends with one line and exit code 2."""
    try:
        app()
    except InputError as error:
        typer.echo(f"fabricast: error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)


if __name__ == "__main__":
    main()
