"""Parameters of the models from probes of a machine."""

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
    """Estimate bandwidth, crossing cost and tau from probes of a machine, with 95 % intervals.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    probes : pandas.DataFrame or path
        Columns probe, repeat, source, target, size_bytes, elapsed_s: one copy alone below a
        switch, one alone across the root complex, one local and one crossing copy to the
        same endpoint.
    seed : int, default 20161113
        Seed of the bootstrap.
    pcie_only : bool, default False
        Whether copies between endpoints with direct links took the tree all the same.

    Returns
    -------
    pandas.DataFrame
        One row for each parameter that the probes tell: study, system, name, value, unit, tag,
        source, ci_low, ci_high; written as CSV it is what `predict` takes as `parameters`. The
        numbers of runs stand in ``attrs["probes"]``, what they do not determine in ``attrs["not_determined"]``.

    Raises
    ------
    InputError
        If a probe is none of the three kinds, contradicts the topology, or took a direct link.
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
                    raise PeerLinkError(f"copies {source} to {target}, which {kind} joins: no probe of the PCIe tree")
        estimates = estimate(tree, times, seed=seed)
        limit = tree.link_bytes_per_s
        if limit is not None and estimates[0].value > limit:
            raise InputError(
                f"gives a bandwidth of {estimates[0].value / 1e9:.4g} GB/s, expected at most the {limit / 1e9:.2f} "
                f"GB/s of the links of '{tree.name}'"
            )
    except InputError as error:
        raise type(error)(str(error), path=path) from error
    table = estimate_frame(estimates, system=tree.name, tag="measured", source="" if path is None else path.name)
    table.attrs["probes"] = {entry.name: entry.probes for entry in estimates}
    table.attrs["not_determined"] = [name for name in PARAMETER_UNITS if name not in table.attrs["probes"]]
    return table
