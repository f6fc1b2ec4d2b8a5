"""Commands that list, draw, check and import topologies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fabricast.cli.options import DISPLAY, FILES, GPU, LINK, MEASUREMENTS, SYSTEM, check_output, print_warnings

if TYPE_CHECKING:
    from fabricast.pcie.topology.tree import PcieTree


NETWORK_CARDS = typer.Option("--network-cards", help="Include network cards as endpoints, such as mlx5_0.")
YAML_OUTPUT = typer.Option("--output", "-o", help="Write to this .yaml file instead of printing YAML.")
PROGRAM = typer.Option(help="Copy program of rows that do not specify one.")

app = typer.Typer(help="List, draw, check and import topologies.", no_args_is_help=True)


@app.command("list", epilog="Example: fabricast topology list")
def list_topologies() -> None:
    """List the built-in topologies."""
    from fabricast.api.topologies import builtin_topologies

    for tree in builtin_topologies():
        gpus = len(tree.accelerator_names)
        others = len(tree.endpoint_names) - gpus
        parts = f"{gpus:3} GPU{'' if gpus == 1 else 's'}" + (f" and {others} other endpoints" if others else "")
        typer.echo(f"{tree.name:24} {parts}  [{tree.tag}] {tree.source}")


@app.command(epilog="Example: fabricast topology show dgx1")
def show(
    files: Annotated[list[str], FILES],
    include_display: Annotated[bool, DISPLAY] = False,
    network_cards: Annotated[bool, NETWORK_CARDS] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw the tree to this .svg file.")] = None,
) -> None:
    """Print a topology as a text tree, with the path class of each pair, or draw it."""
    from fabricast.api.cluster_copies import describes_cluster, load_cluster
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.topologies import drawing_of
    from fabricast.cli.pcie.topology_text import path_matrix, tree_text
    from fabricast.inputs.files import write_text

    check_output(output, ".svg", inputs=files)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if output is None and describes_cluster(files):
        cluster = load_cluster(files)
        console.print(cluster.words)
        for kind in cluster.kinds:
            console.print(tree_text(kind.machine.tree))
        print_warnings(cluster.warnings, verbose=True)
        return
    machine, _ = open_files(files, include_display=include_display, network_cards=network_cards)
    if output is not None:
        write_text(output, drawing_of(machine.tree))
        return
    console.print(tree_text(machine.tree))
    console.print(path_matrix(machine.tree))
    print_warnings(machine.warnings, verbose=True)


@app.command(epilog="Example: fabricast topology check machine.xml measured.csv")
def check(
    files: Annotated[list[str], FILES],
    measurements: Annotated[list[str] | None, MEASUREMENTS] = None,
    program: Annotated[str, PROGRAM] = "independent",
    system: Annotated[str | None, SYSTEM] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Check a topology against measured copies; exit code 1 if they contradict it or cannot be compared."""
    from fabricast.api.machine_inputs import open_files
    from fabricast.api.machines import validated

    machine, _ = open_files(
        [*files, *(measurements or [])], program=program, system=system, include_display=include_display
    )
    validation = validated(machine)
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
def export(files: Annotated[list[str], FILES], output: Annotated[Path | None, YAML_OUTPUT] = None) -> None:
    """Write a topology as YAML, to start a description of another machine from it."""
    from fabricast.api.machine_inputs import open_files

    check_output(output, ".yaml", ".yml", inputs=files)
    machine, _ = open_files(files)
    _write_yaml(machine.tree, output)


@app.command("import", epilog="Example: fabricast topology import topo.txt lspci.txt -o machine.yaml")
def import_topology(
    files: Annotated[list[str], FILES],
    output: Annotated[Path | None, YAML_OUTPUT] = None,
    link: Annotated[str | None, LINK] = None,
    gpu: Annotated[str | None, GPU] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    network_cards: Annotated[bool, NETWORK_CARDS] = False,
) -> None:
    """Convert descriptions of a machine to a YAML topology; they are compared with each other."""
    from fabricast.api.machine_inputs import open_files

    check_output(output, ".yaml", ".yml", inputs=files)
    machine, _ = open_files(files, link=link, gpu=gpu, include_display=include_display, network_cards=network_cards)
    _write_yaml(machine.tree, output)
    print_warnings(machine.tree.warnings, verbose=True)


def _write_yaml(tree: PcieTree, output: Path | None) -> None:
    """Write a topology to a file, or print it."""
    from fabricast.api.topologies import tree_yaml, write_tree

    if output is None:
        typer.echo(tree_yaml(tree), nl=False)
    else:
        write_tree(tree, output)
