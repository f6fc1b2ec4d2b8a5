"""Time and energy of communication methods between GPUs of different nodes.

Model parameters are passed as a mapping from names to numbers or arrays. Arrays contain the samples
of a sensitivity study and are broadcast against message sizes.
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
    "kernel_time_s",
    "message_time_s",
    "polling_energy_j",
    "powers_w",
    "step_time_s",
    "without_peer_limit",
]

Array = NDArray[np.float64]
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A communication method.

    Parameters
    ----------
    name, title : str
        Identifier and display name.
    path : str
        Path of the data: ``staged`` (through host memory) or ``direct``.
    overlap : str
        Name of the parameter with the fraction of the communication time that the method can hide.
    polls : bool
        Whether the CPU polls all the time.
    stages : bool
        Whether data are copied through host memory.
    sources : bool
        Whether GPU threads send the data by stores.
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
#: Control methods of an iterative solver: the component that synchronises the iterations.
CONTROLS = ("cpu", "stream", "device", "in_kernel")
#: The nine grids on slides 9 and 10, in the order of the slides.
GRIDS = (
    (256, 256, 256),
    (256, 256, 512),
    (256, 256, 1024),
    (512, 512, 256),
    (512, 512, 512),
    (512, 512, 640),
    (640, 640, 128),
    (640, 640, 256),
    (640, 640, 386),
)


def _network_rate(value: Values) -> Any:
    return value["network_rate"] * value["network_efficiency"]


def message_time_s(method: str, value: Values, size_bytes: ArrayLike) -> Array:
    """Return the time of one message between two GPUs.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    value : mapping
        Values of the parameters in config/published/gpucentric_parameters.csv.
    size_bytes : array-like
        Message sizes in bytes.

    Returns
    -------
    ndarray of float64
        Times in s. Staged messages larger than a chunk are pipelined: chunks are copied while earlier chunks
        are sent. Peer-to-peer reads of GPU memory are slower for messages of ``peer_knee`` bytes or more.

    Raises
    ------
    InputError
        If the method is unknown.

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
    """Return the time to copy to the host, send, and copy to the device, pipelined by chunks."""
    network = _network_rate(value)
    first = np.minimum(n, value["chunk"])
    copy = value["copy_start_up"] + first / value["copy_rate"]
    send = latency + first / network
    # The last chunk may be smaller: it counts as the corresponding fraction of a chunk.
    further = np.maximum(n / value["chunk"], 1.0) - 1.0
    return 2 * copy + send + further * np.maximum(copy, send)


def without_peer_limit(value: Values) -> dict[str, Any]:
    """Return the parameters with unlimited peer-to-peer read rates."""
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
        Values of the model parameters.
    communication_s, compute_s : array-like
        Times of communication and computation without overlap in s.
    overlap : array-like
        Fraction of the communication that the application can hide, 0 to 1.

    Returns
    -------
    ndarray of float64
        Times in s: ``compute + communication - min(overlap h communication, compute)``, where h is the fraction
        of the communication that the method can hide.
    """
    communication, compute = (np.asarray(x, dtype=np.float64) for x in (communication_s, compute_s))
    hidden = np.minimum(np.asarray(overlap) * value[METHODS[method].overlap] * communication, compute)
    return np.asarray(compute + communication - hidden)


def allreduce_time_s(method: str, value: Values, size_bytes: ArrayLike, nodes: ArrayLike) -> Array:
    """Return the time of an allreduce of ``ceil(log2(nodes))`` rounds in s.

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
    """Return the messages per node in a halo exchange: 2, or 1 if there are two nodes."""
    return 1 if nodes == 2 else 2


def control_time_s(control: str, value: Values, grid: tuple[int, int, int]) -> Array:
    """Return the time of one iteration of a Himeno stencil for a control method.

    Parameters
    ----------
    control : {'cpu', 'stream', 'device', 'in_kernel'}
        Synchronisation between iterations: by the CPU, by the stream, by a nested launch, or between the
        thread blocks of one kernel.
    value : mapping
        Values of the model parameters.
    grid : tuple of int
        Number of points in each direction.

    Returns
    -------
    ndarray of float64
        Time in s.
    """
    blocks = grid[0] * grid[1] / value["block_points"]
    waits = {
        "cpu": value["context_switch"],
        "stream": value["context_switch"] + value["launch"],
        "device": value["context_switch"] + value["nested_launch"],
        "in_kernel": value["launch"] + blocks * value["atomic"],
    }
    if control not in waits:
        raise unknown_name("control", control, waits)
    return np.asarray(kernel_time_s(control, value, grid) + waits[control])


def kernel_time_s(control: str, value: Values, grid: tuple[int, int, int]) -> Any:
    """Return the time in s that the GPU computes in one iteration.

    With synchronisation in the kernel, a share of all its instructions is replayed (slide 9), not of the atomics only.
    """
    compute = float(np.prod(np.array(grid, dtype=np.float64))) / value["stencil_rate"]
    return compute / (1 - value["replay_share"]) if control == "in_kernel" else compute


def control_ratios(control: str, value: Values, grid: tuple[int, int, int]) -> tuple[Any, Any]:
    """Return performance and energy of a control method relative to control by the CPU.

    The CPU polls only if it controls the iterations.

    Parameters
    ----------
    control : str
        One of `CONTROLS`.
    value : mapping
        Values of the model parameters.
    grid : tuple of int
        Number of points in each direction.

    Returns
    -------
    (ndarray of float64, ndarray of float64)
        Relative performance and relative energy; their product is the relative power.

    Examples
    --------
    >>> from fabricast.gpucentric.parameters import read_values
    >>> performance, energy = control_ratios("stream", read_values("k20_extoll"), GRIDS[0])
    >>> bool(performance < 1 and energy < 1)
    True
    """
    controlled, hybrid = (control_time_s(name, value, grid) for name in (control, "cpu"))
    computes, of_hybrid = (kernel_time_s(name, value, grid) for name in (control, "cpu"))
    # The power model of MPI includes a polling CPU, that of GGAS does not; the communication time is 0.
    energy = energy_j("mpi" if control == "cpu" else "ggas", value, controlled, 0.0, computes)
    return hybrid / controlled, energy / energy_j("mpi", value, hybrid, 0.0, of_hybrid)


def powers_w(method: str, value: Values) -> dict[str, tuple[Any, Any, Any]]:
    """Return the power of each component of a node in W.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    value : mapping
        Values of the model parameters.

    Returns
    -------
    dict
        Three powers per component (cpu, dram, gpu, nic): idle power, additional power all the time, and additional
        power during communication. Computation adds ``gpu_compute_power``, which is not included.
    """
    properties = METHODS[method]
    stages = 1.0 if properties.stages else 0.0
    return {
        "cpu": (
            value["cpu_idle_power"],
            value["cpu_poll_power"] if properties.polls else 0.0,
            stages * value["cpu_copy_power"],
        ),
        "dram": (value["dram_idle_power"], 0.0, stages * value["dram_copy_power"]),
        "gpu": (
            value["gpu_idle_power"],
            0.0,
            stages * value["gpu_copy_power"] + (value["gpu_store_power"] if properties.sources else 0.0),
        ),
        "nic": (value["nic_power"], 0.0, 0.0),
    }


def energy_j(method: str, value: Values, total_s: ArrayLike, communication_s: ArrayLike, compute_s: ArrayLike) -> Array:
    """Return the energy that one node uses for a step.

    Parameters
    ----------
    method : str
        Key of `METHODS`.
    value : mapping
        Values of the model parameters.
    total_s, communication_s, compute_s : array-like
        Times of the step, of its communication and of its computation in s.

    Returns
    -------
    ndarray of float64
        Energy in J: idle power during the whole step, plus the additional power of communication and computation
        for their durations.
    """
    powers = powers_w(method, value).values()
    always = sum(idle + more for idle, more, _ in powers)
    busy = sum(more for _, _, more in powers)
    total, communication, compute = (np.asarray(x, dtype=np.float64) for x in (total_s, communication_s, compute_s))
    return np.asarray(total * always + communication * busy + compute * value["gpu_compute_power"])


def polling_energy_j(value: Values, wait_s: float, sleep_s: ArrayLike) -> Array:
    """Return the energy of a node while the CPU polls a flag at intervals.

    Parameters
    ----------
    value : mapping
        Values of the model parameters.
    wait_s : float
        Time until the flag is set in s.
    sleep_s : array-like
        Time that the CPU sleeps between two polls in s.

    Returns
    -------
    ndarray of float64
        Energy in J. Sleeping saves polling power, but extends the wait by half a sleep on average.
    """
    sleep = np.asarray(sleep_s, dtype=np.float64)
    duty = value["query_time"] / (value["query_time"] + sleep)
    idle = sum(value[f"{part}_idle_power"] for part in ("cpu", "dram", "gpu")) + value["nic_power"]
    return np.asarray((wait_s + sleep / 2) * (idle + duty * value["cpu_poll_power"]))
