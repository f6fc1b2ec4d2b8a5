"""Which method and path serve a message between GPUs best."""

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
    """Choose method and path of a message between GPUs, with its lead over the second.

    Parameters
    ----------
    system : str
        k20_extoll, lassen_mvapich, lassen_spectrum or summit_spectrum.
    size : float or str
        Message size, in bytes or such as ``"512 KiB"``.
    nodes : int, default 2
        Nodes; each exchanges with two neighbours, or one if there are two.
    overlap : float, default 0
        Share of communication that could be hidden, 0 to 1.
    compute_s : float, default 0
        Computation of a step in s.
    objective : {'time', 'energy', 'edp'}
        What is to be small; edp is the product of energy and time.
    gpus : int, default 1
        GPUs of a node that send at the same time; at most as many as were measured together. The rates of the
        node are fitted to public measurements.
    measured : str or Path, optional
        Parameters of a measured GPU (this_gpu.parameters.csv), in place of assumed values.

    Returns
    -------
    Choice
        The winner, its lead over the second and whether that is a tie.

    Raises
    ------
    InputError
        If an argument is out of range, or the system's power is not known.

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
