"""Selection of the communication method and path for messages between GPUs."""

from __future__ import annotations

from pathlib import Path

from fabricast.api.node_rates import gpu_node_rates
from fabricast.api.quantities import to_bytes
from fabricast.gpucentric.parameters import read_measured
from fabricast.gpucentric.selector import Choice, select, systems

__all__ = ["select_method"]


def select_method(
    system: str,
    size: float | str,
    *,
    nodes: int = 2,
    overlap: float = 0.0,
    compute_s: float = 0.0,
    objective: str = "time",
    gpus: int = 1,
    measured: str | Path | None = None,
) -> Choice:
    """Select the best communication method and path for a message between GPUs.

    Parameters
    ----------
    system : str
        System: k20_extoll, lassen_mvapich, lassen_spectrum or summit_spectrum.
    size : float or str
        Message size in bytes, or text with a unit such as ``"512 KiB"``.
    nodes : int, default 2
        Number of nodes. Each node has two neighbours, or one if there are two nodes.
    overlap : float, default 0
        Fraction of communication that can overlap with computation, 0 to 1.
    compute_s : float, default 0
        Computation time per step in s.
    objective : {'time', 'energy', 'edp'}
        Minimised quantity. edp is the product of energy and time.
    gpus : int, default 1
        GPUs per node that send at the same time, at most as many as were measured concurrently. The rates of the node
        are fitted to public measurements.
    measured : str or Path, optional
        Parameters of a measured GPU (this_gpu.parameters.csv) that replace assumed values.

    Returns
    -------
    Choice
        Best method, its margin over the second-best method, and whether the two are tied.

    Raises
    ------
    InputError
        If an argument is out of range or the power of the system is unknown.

    References
    ----------
    Froening, "Towards efficient communication methods and models for scalable GPU-centric
    computing systems", GTC 2016 (S6357).

    Examples
    --------
    >>> import fabricast as fc
    >>> fc.select_method("summit_spectrum", "4 B").path
    'direct'
    """
    rates = gpu_node_rates(system) if gpus > 1 and system in systems()[1:] else None
    return select(
        system, to_bytes(size), nodes=nodes, overlap=overlap, compute_s=compute_s,
        objective=objective,  # type: ignore[arg-type]  # checked there
        gpus=gpus, rates=rates, measured=None if measured is None else read_measured(Path(measured)),
    )  # fmt: skip
