"""Options and arguments that several commands share, and the checks of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import typer

from fabricast.core.errors import InputError

TOPOLOGY = typer.Argument(help="Built-in name, .yaml file, hwloc .xml or NCCL .xml file.", show_default=False)
SIZE = typer.Option(help="Size in MiB where the file has no size_bytes.")
OUTPUT = typer.Option("--output", "-o", help="Write .parquet or .csv instead of printing CSV.")
GRAPHS = typer.Argument(
    help="CSV or Parquet with columns graph,source,target[,size_bytes,start_s,program].", show_default=False
)
THREADS = typer.Option(help="Threads to use; by default one on each core that the process may use.", show_default=False)
BANDWIDTH = typer.Option(
    help="Bandwidth of one copy alone in GiB/s; by default that of the machine: calibrated, published, or the payload "
    "share of its links.",
    show_default=False,
)
TAU = typer.Option(
    help="Performance reduction for crossing the root complex; by default that of the machine, else 0.",
    show_default=False,
)
CROSSING_COST = typer.Option(
    help="Time per byte behind the root complex, relative, used by back_pressure; by default that of the machine, "
    "else 1.",
    show_default=False,
)
PARAMETERS = typer.Option(
    "--parameters", help="Parameters of this machine, as 'calibrate -o' writes them.", show_default=False
)
PCIE_ONLY = typer.Option(
    "--pcie-only", help="Let copies between GPUs that NVLink, NVSwitch or xGMI joins take the PCIe tree all the same."
)
DISPLAY = typer.Option("--include-display", help="Count NVIDIA and AMD graphics cards (class 0300) too.")


def check_output(
    output: Path | None, *endings: str, option: str = "--output", inputs: Iterable[Path | str | None] = ()
) -> None:
    """Refuse, before long work, a file that could not be written after it, or that is read itself."""
    if output is None:
        return
    for path in inputs:
        if path is not None and output.resolve() == Path(path).resolve():
            raise InputError(f"{option} is '{output}', which is read too, expected another name")
    if output.suffix.lower() not in endings:
        raise InputError(f"{option} is '{output}', expected a name that ends in {' or '.join(endings)}")
    if output.is_dir():
        raise InputError(f"{option} is '{output}', a folder, expected the name of a file")


def check_model_parameters(bandwidth_gib: float | None, tau: float | None, crossing_cost: float | None) -> None:
    """Refuse parameters of models that are out of range."""
    if bandwidth_gib is not None:
        check_range("--bandwidth-gib", bandwidth_gib, 1e-3, 9e3)
    if tau is not None and not 0 <= tau < 1:
        raise InputError(f"--tau is {tau:g}, expected 0 or more and less than 1")
    if crossing_cost is not None and not 1 <= crossing_cost < 100:
        raise InputError(f"--crossing-cost is {crossing_cost:g}, expected at least 1 and less than 100")


def check_size(option: str, value: float, unit_bytes: float) -> None:
    """Refuse a size of communications that is out of range."""
    from fabricast.pcie.graphs.files import LARGEST_BYTES, SMALLEST_BYTES

    check_range(option, value, SMALLEST_BYTES / unit_bytes, LARGEST_BYTES / unit_bytes)


def check_range(option: str, value: float, low: float, high: float) -> None:
    """Refuse a value of an option that is out of range."""
    if not low <= value <= high:
        raise InputError(f"{option} is {value:g}, expected {low:.4g} to {high:.4g}")


def check_name(option: str, name: str) -> None:
    """Refuse a name that could not be one of a file or of a system."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise InputError(f"{option} is '{name}', expected letters, digits, '.', '-' and '_'")


def check_threads(threads: int | None) -> int:
    """Refuse a number of threads that no machine has; return it, or the cores of this process."""
    from fabricast.runtime.machine import available_cores

    if threads is None:
        return available_cores()
    check_range("--threads", threads, 1, 4096)
    return threads


def check_seed(seed: int) -> None:
    """Refuse a seed that is no whole number of 63 bits."""
    check_range("--seed", seed, 0, 2**63 - 1)


def check_processes(processes: int | None) -> None:
    """Refuse a number of processes that no node has."""
    if processes is not None:
        check_range("--processes", processes, 1, 1_000_000)


def print_notes(notes: Iterable[str]) -> None:
    """Tell what stands behind a result, apart from it."""
    for note in notes:
        typer.echo(f"fabricast: note: {note}", err=True)
