"""Expected performance of NCCL's collective operations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path

from fabricast.api.graphs import load_topology
from fabricast.collectives.diagnosis import diagnose_collective
from fabricast.collectives.forecast import DEFAULT_SIZES, CollectiveForecast, forecast_prepared
from fabricast.collectives.inputs import CollectiveInputs, prepare
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError
from fabricast.core.quantities import to_bytes
from fabricast.diagnosis.bundle import diagnose
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["collective", "diagnose", "diagnose_collective"]

_MOST_SIZES = 10_000


@with_checked_types
def collective(
    tree: PcieTree | str | Path,
    operation: str | None = None,
    *,
    sizes: Sequence[float | str] | None = None,
    measurements: str | Path | None = None,
    system: str | None = None,
    log: str | Path | None = None,
    ranks: Sequence[int | str] | None = None,
    cpu: str | None = None,
    gpu: str | None = None,
    numa: Sequence[int] | int | None = None,
    nccl_version: str | None = None,
    transport: str | None = None,
    env: Mapping[str, str] | None = None,
    graph_file: str | Path | None = None,
    table: int | None = None,
) -> CollectiveForecast:
    """Forecast the times of a collective operation of NCCL on GPUs that are connected by PCIe.

    NCCL's choice of rings, transports, algorithm and protocol is emulated or read from a log. The rate of each step is
    that of a congestion graph in the recommended PCIe model.

    Parameters
    ----------
    tree : PcieTree, str or Path
        Topology, or its name or file.
    operation : str, optional
        all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall or sendrecv; by default that of the log,
        otherwise all_reduce.
    sizes : sequence of float or str, optional
        Sizes in bytes or as text, as nccl-tests counts them; by default 256 B to 256 MiB, or those of the log.
    measurements : str or Path, optional
        Measured copies of this machine: output of p2pBandwidthLatencyTest or another format of `validate_machine`.
    system : str, optional
        Use only measurements of this machine.
    log : str or Path, optional
        Log of nccl-tests, with or without lines of NCCL_DEBUG=INFO, to compare.
    ranks : sequence of int or str, optional
        Endpoint of each rank in the order of PCI bus ids; by default all GPUs.
    cpu, gpu : str, optional
        Processor and GPU, such as ``"AMD EPYC"`` and ``"RTX 4090"``.
    numa : int or sequence of int, optional
        NUMA node of each rank; by default one per socket.
    nccl_version : str, optional
        Version of NCCL, such as ``"2.27.5"``; by default that of the log, otherwise 2.30.7.
    transport : {'p2p', 'shm'}, optional
        Transport of all hops: direct copies or host memory; by default NCCL's rule.
    env : mapping of str to str, optional
        Environment variables of NCCL.
    graph_file : str or Path, optional
        Rings as in NCCL_GRAPH_FILE.
    table : int, optional
        Number of the table in the log, counted from 1.

    Returns
    -------
    CollectiveForecast
        ``table``: one row per size with time, bandwidths, NCCL's choice, what limits it and the best choice.
        ``bottleneck``, ``shared_by``, ``transports``, ``orders``: the step of the ring. ``warnings``: assumptions.
        `fabricast.diagnose_collective` lists causes of lost time with settings to try.

    Raises
    ------
    InputError
        If an input is invalid, ranks differ between topology and log, or GPUs are connected by NVLink.

    References
    ----------
    NVIDIA/nccl 5067397c (v2.30.7); NVIDIA/nccl-tests a0b82b2. Constants of the time model are fitted on public
    measurements (config/published/collectives).

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("crossed_virtual_switches")
    >>> forecast = fc.collective(tree, sizes=["64 MiB"], gpu="RTX PRO 6000", cpu="amd", transport="p2p")
    >>> row = forecast.table.iloc[0]
    >>> row["algorithm"], row["protocol"], bool(row["bus_gb_per_s"] < 57)
    ('ring', 'simple', True)
    """
    tree = tree if isinstance(tree, PcieTree) else load_topology(tree)
    if sizes is not None and log is not None:
        raise InputError("excludes log, which has sizes", argument="sizes")
    names = tree.accelerator_names
    endpoints = None if ranks is None else [_rank(rank, names) for rank in ranks]
    nodes = (int(numa),) if isinstance(numa, int | Integral) else None if numa is None else [*numa]
    inputs = CollectiveInputs(
        measurements, system, log, endpoints, cpu, gpu, nodes, nccl_version, transport, env, graph_file, table
    )
    return forecast_prepared(prepare(tree, operation, inputs), DEFAULT_SIZES if sizes is None else _sizes(sizes))


def _rank(rank: int | str, names: Sequence[str]) -> str:
    """Return the endpoint of a rank: a name, or a number in the order of the topology."""
    if isinstance(rank, str) and rank in names:
        return rank
    text = str(rank).lower().removeprefix("gpu")
    if text in names:
        return text
    if text.isascii() and text.isdigit() and int(text) < len(names):
        return names[int(text)]
    raise InputError(f"contains '{rank}', expected GPUs such as {', '.join(names[:8])}", argument="ranks")


def _sizes(sizes: Sequence[float | str]) -> tuple[float, ...]:
    """Return increasing sizes in bytes."""
    found = tuple(to_bytes(size, "sizes") for size in sizes)
    if not 0 < len(found) <= _MOST_SIZES:
        raise InputError(f"has {len(found)} elements, expected 1 to {_MOST_SIZES:,}", argument="sizes")
    if any(not 1 <= size <= 2.0**50 for size in found) or any(a >= b for a, b in itertools.pairwise(found)):
        raise InputError("is not increasing between 1 B and 1 PiB, expected increasing sizes", argument="sizes")
    return found
