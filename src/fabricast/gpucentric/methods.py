"""Time and energy of the methods by which GPUs of different nodes communicate.

All functions take parameters by name, each a number or an array; arrays are draws of a
sensitivity study and broadcast with sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabricast.core.errors import unknown_name

__all__ = [
    "CONTROLS",
    "GRIDS",
    "METHODS",
    "Method",
    "allreduce_time_s",
    "control_ratios",
    "control_time_s",
    "energy_j",
    "halo_messages",
    "message_time_s",
    "polling_energy_j",
    "powers_w",
    "stencil_time_s",
    "step_time_s",
    "without_peer_limit",
]

Array = NDArray[np.float64]
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A method of communication.

    Parameters
    ----------
    name, title : str
        Identifier and name in figures.
    path : str
        How data travel: staged through host memory, or direct.
    overlap : str or None
        Parameter with the share of communication that it can hide; None if nothing is hidden.
    polls : bool
        Whether the CPU polls all the time.
    stages : bool
        Whether data are copied through host memory.
    sources : bool
        Whether the GPU itself sources the traffic.
    """

    name: str
    title: str
    path: str
    overlap: str
    polls: bool
    stages: bool
    sources: bool


METHODS = {
    method.name: method
    for method in (
        Method("mpi", "MPI, staged by the CPU", "staged", "overlap_mpi", True, True, False),
        Method("ggas", "GGAS: stores into remote memory", "direct", "overlap_ggas", False, False, True),
        Method("rma", "RMA from GPU memory", "direct", "overlap_rma", False, False, True),
        Method("rma_host", "RMA from host memory", "staged", "overlap_rma", False, True, False),
        Method("verbs", "verbs driven by the GPU", "direct", "overlap_rma", False, False, True),
        Method("ggas_rma", "the better of GGAS and RMA", "direct", "overlap_rma", False, False, True),
    )
}
#: Forms of control of an iterative solver, slowest synchronisation last on large grids.
CONTROLS = ("cpu", "stream", "device", "in_kernel")
#: The nine grids that slides 9 and 10 print, in their order.
GRIDS = (
    (256, 256, 256), (256, 256, 512), (256, 256, 1024), (512, 512, 256), (512, 512, 512), (512, 512, 640),
    (640, 640, 128), (640, 640, 256), (640, 640, 386),
)  # fmt: skip


def _network_rate(value: Values) -> Any:
    return value["network_rate"] * value["network_efficiency"]


def message_time_s(method: str, value: Values, size_bytes: ArrayLike) -> Array:
    """Return the time of one message between two GPUs.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    value : mapping
        Parameters of config/published/gpucentric_parameters.csv.
    size_bytes : array-like
        Message sizes.

    Returns
    -------
    ndarray of float64
        Times in s. MPI copies messages larger than a chunk piece by piece while earlier pieces
        travel; peer-to-peer reads of GPU memory slow down from ``peer_knee`` bytes.

    Raises
    ------
    InputError
        If there is no such method.

    References
    ----------
    Slides 5, 15 to 17 of the talk; the staging pipeline is [assumed].
    """
    n = np.asarray(size_bytes, dtype=np.float64)
    network = _network_rate(value)
    if method == "mpi":
        return np.asarray(value["context_switch"] + _staged(value, n, value["mpi_latency"]))
    if method == "ggas":
        return np.asarray(value["ggas_latency"] + n / np.minimum(value["store_rate"], network))
    if method in ("rma", "verbs"):
        start = value["verbs_gpu"] if method == "verbs" else value["descriptor_time"] + value["rma_latency"]
        rate = np.where(n < value["peer_knee"], value["peer_rate_small"], value["peer_rate_large"])
        return np.asarray(start + n / np.minimum(rate, network))
    if method == "rma_host":
        return np.asarray(value["descriptor_time"] + _staged(value, n, value["rma_latency"]))
    if method == "ggas_rma":
        return np.minimum(message_time_s("ggas", value, n), message_time_s("rma", value, n))
    raise unknown_name("method", method, METHODS)


def _staged(value: Values, n: Array, latency: Any) -> Any:
    """Copy to host, send, copy to device; in chunks that overlap if there are several."""
    network = _network_rate(value)
    first = np.minimum(n, value["chunk"])
    copy = value["copy_start_up"] + first / value["copy_rate"]
    send = latency + first / network
    # The last piece may be smaller: it takes its share of a piece's time.
    further = np.maximum(n / value["chunk"], 1.0) - 1.0
    return 2 * copy + send + further * np.maximum(copy, send)


def without_peer_limit(value: Values) -> dict[str, Any]:
    """Return the parameters without the limit of peer-to-peer reads."""
    return {**value, "peer_rate_small": np.inf, "peer_rate_large": np.inf}


def step_time_s(
    method: str, value: Values, communication_s: ArrayLike, compute_s: ArrayLike, overlap: ArrayLike
) -> Array:
    """Return the time of one step of computation and communication.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    value : mapping
        Parameters.
    communication_s, compute_s : array-like
        Times of the parts alone.
    overlap : array-like
        Share of the communication that the application could hide, 0 to 1.

    Returns
    -------
    ndarray of float64
        ``compute + communication - min(overlap h communication, compute)`` with the method's
        capability h.
    """
    communication, compute = (np.asarray(x, dtype=np.float64) for x in (communication_s, compute_s))
    hidden = np.minimum(np.asarray(overlap) * value[METHODS[method].overlap] * communication, compute)
    return np.asarray(compute + communication - hidden)


def allreduce_time_s(method: str, value: Values, size_bytes: ArrayLike, nodes: ArrayLike) -> Array:
    """Return the time of an allreduce: as many rounds as the logarithm of the nodes.

    Examples
    --------
    >>> from fabricast.gpucentric.parameters import read_values
    >>> round(float(allreduce_time_s("ggas", read_values("k20_extoll"), 8, 12)) * 1e6, 2)
    11.63
    """
    rounds = np.ceil(np.log2(np.asarray(nodes, dtype=np.float64)))
    barrier = value["ggas_barrier"] if method in ("ggas", "ggas_rma") else 0.0
    return np.asarray(rounds * (message_time_s(method, value, size_bytes) + barrier))


def halo_messages(nodes: int) -> int:
    """Return the messages of a node in a halo exchange: to both neighbours, or to the only other node."""
    return 1 if nodes == 2 else 2


def stencil_time_s(value: Values, grid: tuple[int, int, int]) -> Any:
    """Return the computation of one iteration of a stencil in s."""
    return float(np.prod(np.array(grid, dtype=np.float64))) / value["stencil_rate"]


def control_time_s(control: str, value: Values, grid: tuple[int, int, int]) -> Array:
    """Return the time of one iteration of a Himeno stencil under a form of control.

    Parameters
    ----------
    control : {'cpu', 'stream', 'device', 'in_kernel'}
        Who synchronises: the CPU, the stream, a nested launch, or the blocks of one kernel.
    value : mapping
        Parameters.
    grid : tuple of int
        Points in each direction.

    Returns
    -------
    ndarray of float64
        Time in s.
    """
    compute = stencil_time_s(value, grid)
    blocks = grid[0] * grid[1] / value["block_points"]
    waits = {
        "cpu": value["context_switch"],
        "stream": value["context_switch"] + value["launch"],
        "device": value["context_switch"] + value["nested_launch"],
        "in_kernel": value["launch"] + blocks * value["atomic"] / (1 - value["replay_share"]),
    }
    if control not in waits:
        raise unknown_name("control", control, waits)
    return np.asarray(compute + waits[control])


def control_ratios(control: str, value: Values, grid: tuple[int, int, int]) -> tuple[Any, Any]:
    """Return performance and energy of a form of control by those of control by the CPU, which alone polls.

    Parameters
    ----------
    control : str
        One of `CONTROLS`.
    value : mapping
        Parameters.
    grid : tuple of int
        Points in each direction.

    Returns
    -------
    (ndarray of float64, ndarray of float64)
        Performance and energy; the power is their product.

    Examples
    --------
    >>> from fabricast.gpucentric.parameters import read_values
    >>> performance, energy = control_ratios("stream", read_values("k20_extoll"), GRIDS[0])
    >>> bool(performance < 1 and energy < 1)
    True
    """
    compute = stencil_time_s(value, grid)
    own, hybrid = (control_time_s(name, value, grid) for name in (control, "cpu"))
    # Of the methods MPI is the one whose CPU polls; nothing is sent here.
    energy = energy_j("mpi" if control == "cpu" else "ggas", value, own, 0.0, compute)
    return hybrid / own, energy / energy_j("mpi", value, hybrid, 0.0, compute)


def powers_w(method: str, value: Values) -> dict[str, tuple[Any, Any, Any]]:
    """Return the power of each component in W: idle, more all the time, more while communicating.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    value : mapping
        Parameters.

    Returns
    -------
    dict
        By component (cpu, dram, gpu, nic) three powers. Computing adds ``gpu_compute_power``.
    """
    own = METHODS[method]
    stages = 1.0 if own.stages else 0.0
    return {
        "cpu": (value["cpu_idle_power"], value["cpu_poll_power"] if own.polls else 0.0,
                stages * value["cpu_copy_power"]),
        "dram": (value["dram_idle_power"], 0.0, stages * value["dram_copy_power"]),
        "gpu": (value["gpu_idle_power"], 0.0,
                stages * value["gpu_copy_power"] + (value["gpu_store_power"] if own.sources else 0.0)),
        "nic": (value["nic_power"], 0.0, 0.0),
    }  # fmt: skip


def energy_j(method: str, value: Values, total_s: ArrayLike, communication_s: ArrayLike, compute_s: ArrayLike) -> Array:
    """Return the energy of one node for a step.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    value : mapping
        Parameters.
    total_s, communication_s, compute_s : array-like
        Time of the step and of its parts.

    Returns
    -------
    ndarray of float64
        Energy in J: idle power all the time, and what each state adds while it lasts.
    """
    powers = powers_w(method, value).values()
    always = sum(idle + more for idle, more, _ in powers)
    busy = sum(more for _, _, more in powers)
    total, communication, compute = (np.asarray(x, dtype=np.float64) for x in (total_s, communication_s, compute_s))
    return np.asarray(total * always + communication * busy + compute * value["gpu_compute_power"])


def polling_energy_j(value: Values, wait_s: float, sleep_s: ArrayLike) -> Array:
    """Return the energy of a wait during which the CPU looks at a flag now and then.

    Parameters
    ----------
    value : mapping
        Parameters.
    wait_s : float
        Time until the flag is set.
    sleep_s : array-like
        Pause between two looks.

    Returns
    -------
    ndarray of float64
        Energy in J: pauses save the power of polling and add half their length on average.
    """
    sleep = np.asarray(sleep_s, dtype=np.float64)
    duty = value["query_time"] / (value["query_time"] + sleep)
    idle = sum(value[f"{part}_idle_power"] for part in ("cpu", "dram", "gpu")) + value["nic_power"]
    return np.asarray((wait_s + sleep / 2) * (idle + duty * value["cpu_poll_power"]))
