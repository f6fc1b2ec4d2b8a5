"""Calibration and validation of machines with measured copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from fabricast.api.machine_inputs import Files, MachineLike, machine_of, paths_of
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, PeerLinkError
from fabricast.core.facts import Content
from fabricast.core.quantities import check_seed
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.pcie.graphs.programs import program_of
from fabricast.pcie.machines.exclusion import Reason
from fabricast.pcie.machines.validation import MachineValidation, check_number, validate_rates
from fabricast.pcie.measurements.files import copy_times
from fabricast.pcie.models.calibration import PARAMETER_UNITS, PROBE_COLUMNS, estimate_frame
from fabricast.pcie.models.calibration import calibrate as estimate

__all__ = ["MachineValidation", "Reason", "calibrate", "other_contents", "validate_machine", "validated"]


@with_checked_types
def validate_machine(
    tree: MachineLike, measured: Files | None = None, *, program: str = "independent", system: str | None = None
) -> MachineValidation:
    """Compare forecasts with copies that were measured concurrently on a machine.

    Isolated copies and other calibration rows determine the parameters of the machine. All other rows validate the
    forecasts.

    Parameters
    ----------
    tree : PcieTree, Machine, str, Path or sequence of these
        Topology or machine, its name, or files that describe and measure it.
    measured : str, Path or sequence of these, optional
        Further files with measured copies: CSV or Parquet, or output of a bandwidth program.
    program : str, default 'independent'
        Copy program of rows that do not specify one: ordered_writes (PyTorch), unordered_reads (p2pmark),
        unordered_writes or independent.
    system : str, optional
        Use only rows of this system.

    Returns
    -------
    MachineValidation
        ``rows``: data frame with forecast, measured rate and error of every graph. ``calibration``: parameters and
        their sources. ``warnings``: contradictions and missing measurements, each with a code.

    Raises
    ------
    InputError
        If the file is invalid, contains an unknown endpoint or lacks isolated copies.

    References
    ----------
    Engines and programs were derived from public measurements (config/published/pcie_concurrent_copies.csv).

    Examples
    --------
    >>> import fabricast as fc
    >>> from fabricast.core.resources import published
    >>> tree = fc.load_topology("crossed_virtual_switches")
    >>> found = fc.validate_machine(tree, published() / "pcie_concurrent_copies.csv", system="WRX90 2VS V1")
    >>> bool(found.rows.loc[found.rows["judged"], "relative_error"].abs().median() < 0.02)
    True
    """
    options = MachineOptions(program=program_of(program).name, system=system)
    is_machine = isinstance(tree, Machine) and measured is None
    return validated(machine_of(tree, measurements=measured, options=None if is_machine else options))


def validated(machine: Machine, progress: Callable[[int], None] | None = None) -> MachineValidation:
    """Compare forecasts with the measured copies of a machine."""
    if not machine.is_measured:
        raise InputError(unmeasured_text(machine), argument="files")
    check_number(machine.graphs)
    return validate_rates(
        machine.with_memory,
        machine.graphs,
        machine.calibration,
        warnings=(*machine.measured.warnings, *_uncompared_graphs(machine)),
        progress=progress,
    )


def _uncompared_graphs(machine: Machine) -> Iterator[CodedWarning]:
    """Yield how many graphs of several pairs pass through host memory, whose forecasts are not compared."""
    count = sum(len({frozenset(flow) for flow in graph.flows}) > 1 for graph in machine.measured.staged_graphs)
    if count:
        text = (
            f"{count} graphs with copies of several pairs through host memory are not compared; 'fabricast predict' "
            "prints such copies as measured"
        )
        yield CodedWarning(WarningCode.LOG_ROWS_EXCLUDED, text)


def other_contents(machine: Machine) -> list[tuple[str, Content]]:
    """Return the files and contents of a machine that a comparison of copies does not use."""
    return [
        (block.place.path, block.content)
        for block in machine.facts.blocks_of(Content.COLLECTIVES, Content.NCCL_LOG)
        if block.facts
    ]


def unmeasured_text(machine: Machine) -> str:
    """Return why the copies of a machine cannot be compared."""
    if machine.facts.blocks_of(Content.COPIES):
        if uncompared := next(_uncompared_graphs(machine), None):
            return f"have no copies that can be compared: {uncompared.text}"
        if machine.measured.staged:
            return (
                "contain only copies of single pairs through host memory: forecasts use these rates as they are, "
                "which leaves nothing to compare; measure several copies at once ('fabricast probes machine.yaml "
                "--run')"
            )
        access = "; no GPU has peer access to another" if machine.tree.staged_pairs else ""
        return f"contain no copies by copy engines between GPUs or of host memory{access}"
    count = len(machine.tree.accelerator_names)
    return (
        f"describe a valid machine of {count} GPUs, but have no measured copies to compare it with: add output of "
        "p2pBandwidthLatencyTest or nvbandwidth, or measure with 'fabricast probes'"
    )


@with_checked_types
def calibrate(
    tree: MachineLike, probes: pd.DataFrame | Files | None = None, *, seed: int = 20161113, pcie_only: bool = False
) -> pd.DataFrame:
    """Estimate bandwidth, crossing cost and tau from probes, with 95 % intervals.

    Probes are copies that were measured on an otherwise idle machine: isolated copies below a switch, isolated copies
    across the root complex, and pairs of a local and a crossing copy to the same endpoint. Missing kinds of probes
    leave parameters undetermined.

    Parameters
    ----------
    tree : PcieTree, Machine, str, Path or sequence of these
        Topology or machine, its name, or files that describe and measure it.
    probes : pandas.DataFrame, str, Path or sequence of these, optional
        Measured copies as for `validate_machine`: benchmark output, or a table. Times of single copies (columns graph,
        repetition, source, target, size_bytes, elapsed_s) also determine tau; copies of the same graph and repetition
        start together. Graphs that are no probe of these parameters are ignored.
    seed : int, default 20161113
        Seed of the bootstrap.
    pcie_only : bool, default False
        Whether copies between directly linked endpoints used the PCIe tree.

    Returns
    -------
    pandas.DataFrame
        One row per determined parameter: study, system, name, value, unit, tag, source, ci_low, ci_high. Written as
        CSV, the table is a valid argument `parameters` of `predict`. ``attrs["probes"]`` contains the number of runs
        for each parameter, ``attrs["not_determined"]`` the names of undetermined parameters.

    Raises
    ------
    InputError
        If no probe is an isolated copy, or a probe contradicts the topology or used a direct link.
    """
    if isinstance(probes, pd.DataFrame):
        machine, path, times = machine_of(tree), None, probes
    else:
        machine = machine_of(tree, measurements=probes)
        path = next(reversed([*machine.facts.paths, *paths_of(probes)]), None)
        times = _probe_times(machine, path)
    tree = machine.tree
    missing = [name for name in PROBE_COLUMNS if name not in times]
    if missing:
        raise InputError(f"lacks the columns {', '.join(missing)}", argument="probes")
    times = times.assign(source=times["source"].astype(str), target=times["target"].astype(str))
    try:
        if not pcie_only:
            for source, target in zip(times["source"], times["target"], strict=True):
                kind = tree.peer_link(source, target)
                if kind is not None:
                    raise PeerLinkError(
                        f"probe copies {source} to {target} over {kind}, expected copies over PCIe (pcie_only)"
                    )
        check_seed(seed)
        estimates = estimate(tree, times, seed=seed)
        limit = tree.link_bytes_per_s
        if limit is not None and estimates[0].value > limit:
            raise InputError(
                f"bandwidth is {estimates[0].value / 1e9:.4g} GB/s, expected at most the {limit / 1e9:.2f} "
                f"GB/s of the links of '{tree.name}'"
            )
    except InputError as error:
        raise type(error)(str(error), path=path) from error
    table = estimate_frame(estimates, system=tree.name, tag="measured", source="" if path is None else Path(path).name)
    table.attrs["probes"] = {entry.name: entry.probes for entry in estimates}
    table.attrs["not_determined"] = [name for name in PARAMETER_UNITS if name not in table.attrs["probes"]]
    return table


def _probe_times(machine: Machine, path: str | None) -> pd.DataFrame:
    """Return the times of the measured copies of a machine."""
    if not machine.is_measured:
        raise InputError(unmeasured_text(machine), argument="files")
    return copy_times(machine.measured.rows, machine.graphs, path or "measurements")
