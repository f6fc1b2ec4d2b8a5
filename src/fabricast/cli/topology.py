"""Commands that list, draw and import topologies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fabricast.cli.options import DISPLAY, TOPOLOGY, check_output, print_notes

__all__ = ["app"]

NETWORK_CARDS = typer.Option("--network-cards", help="Take network cards of XML as endpoints too, such as mlx5_0.")

app = typer.Typer(help="List, draw and import topologies.", no_args_is_help=True)


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
) -> None:
    """Draw a topology as text, with its path classes."""
    from fabricast.cli.topology_text import path_matrix, tree_text
    from fabricast.pcie.topology.files import load_tree

    tree = load_tree(topology, include_display=include_display, network_cards=network_cards)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(tree_text(tree))
    console.print(path_matrix(tree))
    print_notes(tree.notes)


@app.command(epilog="Example: fabricast topology check machine.xml measured.csv")
def check(
    topology: Annotated[str, TOPOLOGY],
    measured: Annotated[Path, typer.Argument(help="Copies that were measured together, as for 'fabricast validate'.")],
    program: Annotated[str, typer.Option(help="How rows were measured that do not say.")] = "independent",
    system: Annotated[str | None, typer.Option(help="Take only rows of this system.")] = None,
    include_display: Annotated[bool, DISPLAY] = False,
) -> None:
    """Say what measured copies say against a topology; exit code 1 if anything does."""
    from fabricast.api.machines import validate_machine
    from fabricast.pcie.graphs.hazards import DIVIDED_WRITES
    from fabricast.pcie.machines.warnings import AS_FAST_AS_OTHERS, MISSING_PROBES, UNLIMITED_ROOT_COMPLEX
    from fabricast.pcie.topology.files import load_tree

    found = validate_machine(
        load_tree(topology, include_display=include_display), measured, program=program, system=system
    )
    for remark in found.remarks:
        typer.echo(remark)
    # A pattern that collapsed on some host says nothing of this tree, nor does what was not measured.
    harmless = (AS_FAST_AS_OTHERS, DIVIDED_WRITES, MISSING_PROBES, UNLIMITED_ROOT_COMPLEX)
    contradicting = [remark for remark in found.remarks if not any(text in remark for text in harmless)]
    judged = int(found.rows["judged"].sum())
    if not contradicting:
        against = "says anything against the tree" if judged else "can be judged: all are calibration or set aside"
        typer.echo(f"none of {judged or len(found.rows)} graphs {against}")
    raise typer.Exit(code=1 if contradicting else 0)


@app.command("import", epilog="Example: lstopo machine.xml && fabricast topology import machine.xml -o m.yaml")
def import_topology(
    file: Annotated[Path, typer.Argument(help="hwloc XML or NCCL topology XML.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write YAML to this file instead of printing it.")
    ] = None,
    include_display: Annotated[bool, DISPLAY] = False,
    network_cards: Annotated[bool, NETWORK_CARDS] = False,
) -> None:
    """Turn hwloc or NCCL XML into a topology that all commands read."""
    from fabricast.pcie.topology.files import tree_yaml, write_tree
    from fabricast.pcie.topology.xml_import import import_xml

    check_output(output, ".yaml", ".yml", inputs=(file,))
    tree = import_xml(file, include_display=include_display, network_cards=network_cards)
    if output is None:
        typer.echo(tree_yaml(tree), nl=False)
    else:
        write_tree(tree, output)
    print_notes(tree.notes)
