"""Commands that list, draw, check and import topologies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fabricast.cli.options import DISPLAY, TOPOLOGY, check_output, print_warnings

__all__ = ["app"]

NETWORK_CARDS = typer.Option("--network-cards", help="Include network cards of XML files as endpoints, such as mlx5_0.")

app = typer.Typer(help="List, draw, check and import topologies.", no_args_is_help=True)


@app.command("list", epilog="Example: fabricast topology list")
def list_topologies() -> None:
    """List the built-in topologies."""
    from fabricast.pcie.topology.files import builtin_names, load_tree

    for name in builtin_names():
        tree = load_tree(name)
        typer.echo(f"{name:24} {len(tree.endpoint_names):3} endpoints  [{tree.tag}] {tree.source}")


@app.command(epilog="Example: fabricast topology show dgx1")
def show(
    topology: Annotated[str, TOPOLOGY],
    include_display: Annotated[bool, DISPLAY] = False,
    network_cards: Annotated[bool, NETWORK_CARDS] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw the tree to this .svg file.")] = None,
) -> None:
    """Print a topology as a text tree, with the path class of each pair, or draw it."""
    from fabricast.cli.pcie.topology_text import path_matrix, tree_text
    from fabricast.inputs.files import write_text
    from fabricast.pcie.topology.drawing import tree_svg
    from fabricast.pcie.topology.files import load_tree

    check_output(output, ".svg", inputs=(topology,))
    tree = load_tree(topology, include_display=include_display, network_cards=network_cards)
    if output is not None:
        drawing = tree_svg(tree)
        write_text(output, drawing[drawing.index("<svg") :] + "\n")
        return
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(tree_text(tree))
    console.print(path_matrix(tree))
    print_warnings(tree.warnings)


@app.command(epilog="Example: fabricast topology check machine.xml measured.csv")
def check(
    topology: Annotated[str, TOPOLOGY],
    measured: Annotated[Path, typer.Argument(help="Measured copies, in a format of 'fabricast validate'.")],
    program: Annotated[str, typer.Option(help="Copy program of rows that do not specify one.")] = "independent",
    system: Annotated[str | None, typer.Option(help="Use only rows of this system.")] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Check a topology against measured copies; exit code 1 if they contradict it or cannot be compared."""
    from fabricast.api.machines import validate_machine
    from fabricast.pcie.topology.files import load_tree

    validation = validate_machine(
        load_tree(topology, include_display=include_display), measured, program=program, system=system
    )
    for warning in validation.warnings:
        typer.echo(f"{warning.text} [{warning.code}]")
    contradicted = any(warning.code.is_contradiction for warning in validation.warnings)
    # Calibration graphs are compared with the calibrated model and with each other.
    compared = validation.rows["judged"] | (validation.rows["reason_code"] == "calibration")
    if not contradicted:
        text = (
            f"none of {int(compared.sum())} graphs contradicts the topology"
            if compared.any()
            else f"none of {len(validation.rows)} graphs can be compared with the topology: all are excluded"
        )
        typer.echo(text)
    raise typer.Exit(code=1 if contradicted or not compared.any() else 0)


@app.command(epilog="Example: fabricast topology export dgx1 -o mine.yaml")
def export(
    topology: Annotated[str, TOPOLOGY],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this .yaml file instead of printing YAML.")
    ] = None,
) -> None:
    """Write a topology as YAML, to start a description of another machine from it."""
    from fabricast.pcie.topology.files import load_tree, tree_yaml, write_tree

    check_output(output, ".yaml", ".yml", inputs=(topology,))
    tree = load_tree(topology)
    if output is None:
        typer.echo(tree_yaml(tree), nl=False)
    else:
        write_tree(tree, output)


FILES = typer.Argument(
    help="hwloc XML, NCCL topology XML, or output of nvidia-smi topo -m, rocm-smi --showtopo, lspci -vv, lspci -tv or "
    "NCCL_DEBUG_SUBSYS=GRAPH; several files describe one machine, nvidia-smi -q and topo -p2p r among them.",
    show_default=False,
)
LINK = typer.Option(help="Link of each GPU such as gen4x16, if no file has link speeds.", show_default=False)
GPU = typer.Option(help="GPU model such as 'RTX 4090', for its link and peer access.", show_default=False)


@app.command("import", epilog="Example: fabricast topology import topo.txt lspci.txt -o machine.yaml")
def import_topology(
    files: Annotated[list[Path], FILES],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this .yaml file instead of printing YAML.")
    ] = None,
    link: Annotated[str | None, LINK] = None,
    gpu: Annotated[str | None, GPU] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    network_cards: Annotated[bool, NETWORK_CARDS] = False,
) -> None:
    """Convert descriptions of a machine to a YAML topology; they are compared with each other."""
    from fabricast.pcie.topology.files import tree_yaml, write_tree
    from fabricast.pcie.topology.listings.importing import import_machine

    check_output(output, ".yaml", ".yml", inputs=files)
    tree = import_machine(files, link=link, gpu=gpu, include_display=include_display, network_cards=network_cards)
    if output is None:
        typer.echo(tree_yaml(tree), nl=False)
    else:
        write_tree(tree, output)
    print_warnings(tree.warnings)
