"""Public measurements of collective operations of a class of machines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricast.collectives.forecast import DEFAULT_SIZES
from fabricast.collectives.reference import NETWORKS, Reference, network_of, reference_of
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import sizes_of

__all__ = ["Reference", "reference"]

_MOST_RANKS = 100_000


@with_checked_types
def reference(
    gpu: str,
    operation: str = "all_reduce",
    *,
    gpus: int = 8,
    nodes: int = 1,
    sizes: Sequence[float | str] | str | None = None,
    network: str | None = None,
    gbit_s: float | None = None,
) -> Reference:
    """Return what public machines of the same class reach in a collective operation.

    No model is involved: the values are measurements of NVLink and xGMI nodes, of clusters, and of GPUs that only PCIe
    connects, with their sources.

    Parameters
    ----------
    gpu : str
        Product name such as ``"H100"``.
    operation : str, default 'all_reduce'
        all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall or sendrecv.
    gpus : int, default 8
        GPUs of each node.
    nodes : int, default 1
        Number of nodes.
    sizes : sequence of float or str, or str, optional
        Sizes in bytes or as text, as nccl-tests counts them; by default 256 B to 256 MiB.
    network : {'InfiniBand or RoCE', 'EFA', 'Slingshot', 'Ethernet'}, optional
        Kind of network between nodes, or words that name it, such as ``"roce"``: machines with it are preferred.
    gbit_s : float, optional
        Network rate of a GPU in Gbit/s: machines with such a rate are preferred.

    Returns
    -------
    Reference
        ``table``: number of machines, median and range of time and bus bandwidth by size. ``words``: the class;
        ``is_neighbour`` is true if it is another one than asked for. ``fit``: interpolation over all sizes.

    Raises
    ------
    InputError
        If no public machine has such a GPU and operation, or an argument is invalid.

    References
    ----------
    config/published/collectives/cluster_machines.csv.

    Examples
    --------
    >>> import fabricast as fc
    >>> found = fc.reference("H200", sizes=["8 GiB"])
    >>> found.words, bool(470 < found.table["bus_gb_per_s"][0] < 490)
    ('8 x H100/H200', True)
    """
    if not (gpus >= 1 and nodes >= 1 and 2 <= gpus * nodes <= _MOST_RANKS):
        raise InputError(f"is {gpus} on {nodes} nodes, expected 2 to {_MOST_RANKS:,} in total", argument="gpus")
    if gbit_s is not None and not 0 < gbit_s < np.inf:
        raise InputError(f"is {gbit_s:g}, expected a positive rate", argument="gbit_s")
    if sizes is not None and not len(sizes):
        raise InputError("is empty, expected at least one size", argument="sizes")
    if network is not None and network not in NETWORKS:
        named = network_of(network) or network_of(f"net/{network}")
        if not named:
            raise unknown_name("network", network, list(NETWORKS))
        network = named
    wanted = DEFAULT_SIZES if sizes is None else sizes_of(sizes)
    try:
        return reference_of(gpu, gpus, nodes, operation, list(wanted), network=network, gbit_s=gbit_s)
    except InputError as error:
        if nodes > 1 or error.argument != "gpu":
            raise
        return _over_pcie(gpu, gpus, operation, list(wanted), error)


def _over_pcie(gpu: str, gpus: int, operation: str, sizes: Sequence[float], error: InputError) -> Reference:
    """Return the measurements over PCIe; raise the error about nodes with NVLink if there are none."""
    from fabricast.collectives.evidence.pcie_reference import pcie_reference

    try:
        return pcie_reference(gpu, gpus, operation, sizes)
    except InputError as other:
        raise InputError(f"{error.reason}, and {other.reason}", argument="gpu") from error
