"""Validation of forecasts with measured copies of a machine."""

from __future__ import annotations

from pathlib import Path

from fabricast.pcie.graphs.programs import program_of
from fabricast.pcie.machines.validation import MachineValidation
from fabricast.pcie.machines.validation import validate_machine as validate
from fabricast.pcie.measurements.files import copies_of_machine
from fabricast.pcie.topology.tree import PcieTree, one_way_of

__all__ = ["validate_machine"]


def validate_machine(
    tree: PcieTree, measured: str | Path, *, program: str = "independent", system: str | None = None
) -> MachineValidation:
    """Compare forecasts with copies that were measured concurrently on a machine.

    Isolated copies and other calibration rows determine the parameters of the machine. All other rows validate the
    forecasts.

    Parameters
    ----------
    tree : PcieTree
        Topology of the machine.
    measured : str or Path
        CSV or Parquet of measured copies, or output of nvbandwidth, p2pBandwidthLatencyTest, p2pmark,
        rocm_bandwidth_test or TransferBench.
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
    copies = copies_of_machine(tree, measured, program=program_of(program).name, system=system)
    return validate(tree, copies.graphs, one_way_bytes_per_s=one_way_of(tree), warnings=copies.warnings)
