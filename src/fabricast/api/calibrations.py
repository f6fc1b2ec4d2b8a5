"""Calibration of model parameters with probes of a machine."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fabricast.core.errors import InputError, PeerLinkError
from fabricast.pcie.models.calibration import PARAMETER_UNITS, estimate_frame, read_probe_times
from fabricast.pcie.models.calibration import calibrate as estimate
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["calibrate"]

_COLUMNS = ("probe", "repeat", "source", "target", "size_bytes", "elapsed_s")


def calibrate(
    tree: PcieTree, probes: pd.DataFrame | str | Path, *, seed: int = 20161113, pcie_only: bool = False
) -> pd.DataFrame:
    """Estimate bandwidth, crossing cost and tau from probes, with 95 % intervals.

    Probes are copies that were measured on an otherwise idle machine: isolated copies below a switch, isolated copies
    across the root complex, and pairs of a local and a crossing copy to the same endpoint. Missing kinds of probes
    leave parameters undetermined.

    Parameters
    ----------
    tree : PcieTree
        Topology of the machine.
    probes : pandas.DataFrame or path
        One row per copy, with columns probe, repeat, source, target, size_bytes, elapsed_s. Copies of the same probe
        and repeat start together.
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
        If a probe is not of one of the three kinds, contradicts the topology, or used a direct link.
    """
    path = None if isinstance(probes, pd.DataFrame) else Path(probes)
    times = probes if isinstance(probes, pd.DataFrame) else read_probe_times(probes)
    missing = [name for name in _COLUMNS if name not in times]
    if missing:
        raise InputError(f"lacks the columns {', '.join(missing)}", argument="probes")
    try:
        if not pcie_only:
            for source, target in zip(times["source"], times["target"], strict=True):
                kind = tree.peer_link(source, target)
                if kind is not None:
                    raise PeerLinkError(f"probe copies {source} to {target} over {kind}, expected copies over PCIe")
        estimates = estimate(tree, times, seed=seed)
        limit = tree.link_bytes_per_s
        if limit is not None and estimates[0].value > limit:
            raise InputError(
                f"bandwidth is {estimates[0].value / 1e9:.4g} GB/s, expected at most the {limit / 1e9:.2f} "
                f"GB/s of the links of '{tree.name}'"
            )
    except InputError as error:
        raise type(error)(str(error), path=path) from error
    table = estimate_frame(estimates, system=tree.name, tag="measured", source="" if path is None else path.name)
    table.attrs["probes"] = {entry.name: entry.probes for entry in estimates}
    table.attrs["not_determined"] = [name for name in PARAMETER_UNITS if name not in table.attrs["probes"]]
    return table
