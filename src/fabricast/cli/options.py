"""Options and arguments shared by several commands, and checks of their values."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from fabricast.core.errors import InputError
from fabricast.core.warnings import CodedWarning, WarningCode

#: Warnings that are named without -v, and the length in characters to which each is cut.
_NAMED, _SHORTEST, _LONGEST = 2, 30, 110
#: Columns below which lines are not wrapped.
_NARROWEST = 40

#: Group of options in the help that most users do not need.
EXPERTS = "Options for experts"
FILES = typer.Argument(
    help="Built-in topology, and files in any order: descriptions of the machine (YAML, hwloc or NCCL XML, nvidia-smi, "
    "rocm-smi, lspci, NCCL) and measured copies; - is standard input.",
    show_default=False,
)
MEASUREMENTS = typer.Option(
    "--measurements", help="Further file with measured copies of this machine; may be repeated.", show_default=False
)
SYSTEM = typer.Option(
    "--system", help="Use only rows of this machine in tables of several.", show_default=False, rich_help_panel=EXPERTS
)
GPU = typer.Option("--gpu", help="GPU model such as 'RTX 4090', if no file names it.", show_default=False)
LINK = typer.Option("--link", help="Link of each GPU such as gen4x16, if no file states it.", show_default=False)
SIZE = typer.Option("--size", help="Size of each copy, such as 64MiB, if the file has no column size_bytes.")
FORMAT = typer.Option(
    "--format", help="Format of printed results: table (on a terminal), csv (on a pipe) or json.", show_default=False
)
OUTPUT = typer.Option("--output", "-o", help="Write to this .parquet or .csv file instead of printing CSV.")
FILES_WITH_GRAPHS = typer.Argument(
    help="Built-in topology, and files in any order: descriptions of the machine, measured copies, and a CSV or "
    "Parquet table of graphs (graph,source,target[,size_bytes,start_s,program]); - is standard input.",
    show_default=False,
)


def of_several_nodes(*names: str, **options: Any) -> Any:
    """Return an option of the panel about clusters."""
    return typer.Option(*names, show_default=False, rich_help_panel="Several nodes", **options)


NIC = of_several_nodes(help="Network cards of a node and Gbit/s of each, such as 8x400.")
NETWORK = of_several_nodes(help="Kind of network: InfiniBand, RoCE, Slingshot, EFA or Ethernet.")
OVERSUBSCRIPTION = of_several_nodes(
    help="Ratio of the rate of the cards to that of the network above them; by default 1."
)


def _check_all_to_all(value: str | None) -> str | None:
    """Refuse another option as the size of an all-to-all."""
    if value is not None and value.startswith("-"):
        text = f"is '{value}', expected the size of each copy, for example --all-to-all 64MiB"
        raise InputError(text, argument="all-to-all")
    return value


ALL_TO_ALL = typer.Option(
    callback=_check_all_to_all, help="All GPUs copy this size to all others, such as 64MiB.", metavar="SIZE"
)
HALO = typer.Option(
    help="Halo exchange on a process grid such as 4x2: open, the first side fastest; on several nodes periodic, the "
    "last side fastest, as in 'fabricast map'.",
    metavar="GRID",
)
RING = typer.Option("--ring", help="Every GPU copies to the next one.")
COPIES = typer.Option(help="Copies that start together, such as '0>3 1>3'; H is host memory.", metavar="LIST")
THREADS = typer.Option(
    help="Number of threads; by default one per core available to the process.",
    show_default=False,
    rich_help_panel=EXPERTS,
)
BANDWIDTH = typer.Option(
    "--bandwidth",
    help="Bandwidth of an isolated copy, such as 24GiB/s; by default that of the machine: calibrated, published, or "
    "the share of its links that public machines reach.",
    show_default=False,
)
TAU = typer.Option(
    help="Performance reduction for crossing the root complex, 0 to 1; by default that of the machine, otherwise 0.",
    show_default=False,
    rich_help_panel=EXPERTS,
)
CROSSING_COST = typer.Option(
    help="Relative time per byte across the root complex, used by models with ports or engines; by default that "
    "of the machine, otherwise 1.",
    show_default=False,
    rich_help_panel=EXPERTS,
)
PARAMETERS = typer.Option(
    "--parameters",
    help="Parameters of this machine, as written by 'calibrate -o'.",
    show_default=False,
    rich_help_panel=EXPERTS,
)
PCIE_ONLY = typer.Option(
    "--pcie-only",
    help="Route copies between directly linked GPUs (NVLink, NVSwitch, xGMI) over PCIe.",
    rich_help_panel=EXPERTS,
)
VERBOSE = typer.Option("--verbose", "-v", help="Print all assumptions in full.")
DISPLAY = typer.Option(
    "--include-display", help="Include NVIDIA and AMD graphics cards (class 0300).", rich_help_panel=EXPERTS
)


def check_output(
    output: Path | None,
    *endings: str,
    option: str = "--output",
    inputs: Iterable[Path | str | None] = (),
    outputs: Iterable[Path | None] = (),
) -> None:
    """Check before a long computation that a file can be written, and is neither an input nor another output."""
    if output is None:
        return
    for other in outputs:
        if other is not None and os.path.realpath(output) == os.path.realpath(other):
            raise InputError(f"{option} is '{output}', which another option writes, expected another name")
    for path in inputs:
        # Path.resolve raises RuntimeError for symbolic links that form a loop.
        if path is not None and os.path.realpath(output) == os.path.realpath(path):
            raise InputError(f"{option} is '{output}', which is also an input file, expected another name")
    if output.suffix.lower() not in endings:
        raise InputError(f"{option} is '{output}', expected a name that ends in {' or '.join(endings)}")
    if output.is_dir():
        raise InputError(f"{option} is '{output}', which is a folder, expected the name of a file")


def check_model_parameters(tau: float | None, crossing_cost: float | None) -> None:
    """Check the ranges of model parameters."""
    if tau is not None and not 0 <= tau < 1:
        raise InputError(f"--tau is {tau:g}, expected 0 or more and less than 1")
    if crossing_cost is not None and not 1 <= crossing_cost < 100:
        raise InputError(f"--crossing-cost is {crossing_cost:g}, expected at least 1 and less than 100")


def size_of(text: str, option: str = "--size") -> float:
    """Return the size of a copy in bytes."""
    from fabricast.core.quantities import LARGEST_BYTES, SMALLEST_BYTES
    from fabricast.core.units import parse_bytes

    size_bytes = parse_bytes(text, option)
    check_range(f"{option} in bytes", size_bytes, SMALLEST_BYTES, LARGEST_BYTES)
    return size_bytes


def rate_of(text: str | None, option: str = "--bandwidth") -> float | None:
    """Return a rate in bytes/s; None if unspecified."""
    from fabricast.core.quantities import to_bytes_per_s

    if text is None:
        return None
    bytes_per_s = to_bytes_per_s(text, option.removeprefix("--"))
    check_range(f"{option} in bytes/s", bytes_per_s, 1e6, 1e13)
    return bytes_per_s


def check_range(option: str, value: float, low: float, high: float) -> None:
    """Check the range of an option value."""
    if not low <= value <= high:
        raise InputError(f"{option} is {value:g}, expected {low:.4g} to {high:.4g}")


def check_name(option: str, name: str) -> None:
    """Check that a name is valid for a file or a system."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise InputError(f"{option} is '{name}', expected letters, digits, '.', '-' and '_'")


def check_threads(threads: int | None) -> int:
    """Return the number of threads, by default the cores available to this process."""
    from fabricast.runtime.machine import available_cores

    if threads is None:
        return available_cores()
    check_range("--threads", threads, 1, 4096)
    return threads


def check_seed(seed: int) -> None:
    """Check that a seed is a non-negative 63-bit integer."""
    check_range("--seed", seed, 0, 2**63 - 1)


def check_processes(processes: int | None) -> None:
    """Check the range of a number of processes."""
    if processes is not None:
        check_range("--processes", processes, 1, 1_000_000)


def print_wrapped(text: str) -> None:
    """Print a line, wrapped at the width of a terminal with an indent; on a pipe it stays one line."""
    if not sys.stdout.isatty():
        typer.echo(text)
        return
    indent = " " * (len(text) - len(text.lstrip()) + 3)
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    typer.echo(textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def print_warnings(warnings: Iterable[CodedWarning], *, verbose: bool = False) -> None:
    """Print the expected error and the assumptions of a result to stderr.

    Unless all are wanted, two lines follow: one for the accuracy, and one that counts the assumptions and names two.
    The first contradiction is printed in full before them.
    """
    listed = list(dict.fromkeys(warnings))
    if verbose:
        for warning in listed:
            kind = "" if warning.code.is_note else "warning: "
            typer.echo(f"fabricast: {kind}{warning.text} [{warning.code}]", err=True)
        return
    for warning in listed:
        if warning.code is WarningCode.EXPECTED_ERROR:
            typer.echo(f"fabricast: {warning.text}", err=True)
    others = sorted((one for one in listed if not one.code.is_note), key=lambda one: not _is_grave(one))
    if others and _is_grave(others[0]):
        typer.echo(f"fabricast: warning: {others.pop(0).text}", err=True)
    if others:
        named = "; ".join(_shortened(one.text) for one in others[:_NAMED])
        count = "1 assumption" if len(others) == 1 else f"{len(others)} assumptions"
        typer.echo(f"fabricast: warning: {count}, -v explains: {named}", err=True)


def _is_grave(warning: CodedWarning) -> bool:
    """Return whether measurements or files contradict a result, or another one is as probable, or no model has it."""
    code = warning.code
    is_either = code in (WarningCode.MEASUREMENT_CONTRADICTED, WarningCode.NEAR_TIE, WarningCode.SMALL_COPIES)
    return is_either or code.is_contradiction or code.is_about_files


def _shortened(text: str) -> str:
    """Return the beginning of a warning, up to the end of a clause."""
    if len(text) <= _LONGEST:
        return text
    ends = [match.start() for match in re.finditer(r"[;:,] ", text) if _SHORTEST <= match.start() <= _LONGEST]
    return text[: ends[-1]] if ends else f"{text[:_LONGEST].rsplit(' ', 1)[0]}..."


def refuse_options(options: Mapping[str, object], where: str) -> None:
    """Raise an error about the first option that has no effect."""
    used = next((name for name, value in options.items() if value is not None), None)
    if used is not None:
        raise InputError(f"{used} has no effect on {where}")
