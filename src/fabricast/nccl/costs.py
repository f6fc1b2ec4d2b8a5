"""NCCL's cost table: latency and bandwidth of each algorithm and protocol, and the choice at each size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name
from fabricast.nccl.search import SearchGraph, search_rings, search_trees
from fabricast.nccl.system import NcclSystem, Version


class Operation(StrEnum):
    """Collective operations of nccl-tests."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALLTOALL = "alltoall"
    SENDRECV = "sendrecv"

    @classmethod
    def of(cls, name: str) -> Operation:
        """Return the operation of a name."""
        try:
            return cls(name.lower().removesuffix("_perf"))
        except ValueError:
            raise unknown_name("operation", name, list(cls)) from None


class Algorithm(StrEnum):
    """Algorithms of NCCL."""

    RING = "ring"
    TREE = "tree"
    #: Reductions and multicasts within NVSwitch: on one host, and with trees between hosts.
    NVLS = "nvls"
    NVLS_TREE = "nvlstree"
    #: Send and receive operations; no algorithm of the cost table.
    DIRECT = "direct"


class Protocol(StrEnum):
    """Protocols of NCCL: `LL` and `LL128` send flags with the data, `SIMPLE` signals whole chunks."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"


#: Operations with entries in the cost table; others are composed of sends and receives.
COST_OPERATIONS = (
    Operation.BROADCAST, Operation.REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.ALL_REDUCE,
)  # fmt: skip
_PROTOCOLS = (Protocol.LL, Protocol.LL128, Protocol.SIMPLE)

# Constants of NVIDIA/nccl 5067397c (v2.30.7), src/graph/tuning.cc: times in us, rates in GB/s.
_BASE_US = {Algorithm.TREE: (6.8, 14.0, 8.4), Algorithm.RING: (6.6, 14.0, 8.4)}
_STEP_US = {Algorithm.TREE: (1.0, 1.9, 4.0), Algorithm.RING: (1.0, 2.5, 5.7)}
#: Limits on one host for compute capability 7 (and lower), 8, 9 and 10 (and higher).
_LL_MOST = (39.0, 87.7, 141.0, 282.0)
_RING_LL128_MOST = (20.0, 20.0, 36.7, 40.0)
_TREE_LL128_MOST = (20.0, 20.0, 36.7, 55.6)
_TREE_MOST = (26.5, 24.0, 38.7, 70.0)
#: Factor on the bandwidth of trees by protocol and binary logarithm of the size in units of 64 bytes.
_TREE_CORRECTION = {
    Protocol.LL: (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    Protocol.LL128: (
        1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1,
    ),
    Protocol.SIMPLE: (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9,
        0.9,
    ),
}  # fmt: skip


def steps_of(operation: Operation, ranks: int) -> int:
    """Return the number of steps of a ring, as the cost table counts them."""
    if operation is Operation.ALL_REDUCE:
        return 2 * (ranks - 1)
    return ranks - 1 if operation in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER) else ranks


def bus_factor(operation: Operation, ranks: int) -> float:
    """Return the ratio of bus bandwidth to algorithm bandwidth in nccl-tests.

    >>> bus_factor(Operation.ALL_REDUCE, 4), bus_factor(Operation.ALL_GATHER, 4), bus_factor(Operation.BROADCAST, 4)
    (1.5, 0.75, 1.0)
    """
    if operation is Operation.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    parts = (Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.ALLTOALL)
    return (ranks - 1) / ranks if operation in parts else 1.0


class Cost(NamedTuple):
    """Latency in us and algorithm bandwidth in GB/s of an algorithm and protocol; bandwidth 0 if it is not used.

    From a size on, NCCL multiplies the latency of rings over several hosts by a factor.
    """

    latency_us: float
    gb_per_s: float
    slow_factor: float = 1.0
    slow_from_bytes: float = np.inf


@dataclass(frozen=True)
class CostTable:
    """NCCL's estimate of each algorithm and protocol of one operation."""

    operation: Operation
    ranks: int  # Number of GPUs
    costs: dict[tuple[Algorithm, Protocol], Cost]  # Entries of the table, also those that are not used

    def time_us(self, algorithm: Algorithm, protocol: Protocol, size_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return NCCL's estimate of the time in us (`ncclTopoGetAlgoTime`); infinite if the pair is not used."""
        size_bytes = np.asarray(size_bytes, dtype=np.float64)
        cost = self.costs[algorithm, protocol]
        if cost.gb_per_s == 0:
            return np.full(size_bytes.shape, np.inf)
        rate: NDArray[np.float64] = np.full(size_bytes.shape, cost.gb_per_s)
        latency = np.full(size_bytes.shape, cost.latency_us)
        latency[size_bytes >= cost.slow_from_bytes] *= cost.slow_factor
        if algorithm is Algorithm.TREE:
            factors = np.array(_TREE_CORRECTION[protocol])
            place = np.floor(np.log2(np.maximum(size_bytes // 64, 1))).astype(np.int64)
            is_corrected = (size_bytes >= 64) & (place < factors.size)
            rate[is_corrected] *= factors[place[is_corrected]]
        time_us: NDArray[np.float64] = latency + size_bytes / (1000 * rate)
        return time_us

    def choices(
        self, size_bytes: NDArray[np.float64], allowed: Collection[tuple[Algorithm, Protocol]] | None = None
    ) -> list[tuple[Algorithm, Protocol]]:
        """Return the algorithm and protocol of the least estimated time at each size."""
        pairs = [pair for pair in self.costs if allowed is None or pair in allowed]
        times = np.array([self.time_us(*pair, size_bytes) for pair in pairs])
        return [pairs[place] for place in times.argmin(axis=0).tolist()]


def _generation(capability: float) -> int:
    return int(np.clip(int(capability), 7, 10)) - 7


def _tree_step_us(version: Version) -> tuple[float, float, float]:
    """Return the latencies of a tree step over PCI: that of Simple changed between versions."""
    ll, ll128, simple = _STEP_US[Algorithm.TREE]
    if version < (2, 23, 0):
        simple = 6.0 if (2, 18, 0) <= version < (2, 19, 0) else 28.0
    return ll, ll128, simple


def cost_table(
    system: NcclSystem,
    operation: Operation,
    *,
    rings: SearchGraph | None = None,
    trees: SearchGraph | None = None,
    ll128: bool = False,
) -> CostTable:
    """Return NCCL's cost table of an operation on one host.

    NVIDIA/nccl 5067397c (v2.30.7), src/graph/tuning.cc, `ncclTopoTuneModel`.

    >>> from fabricast.nccl.system import Cpu, PathType
    >>> system = NcclSystem(((0,),) * 2 + ((1,),) * 2, (-1, -1), (24.0,) * 4, (24.0,) * 2, (0, 0, 1, 1), Cpu.AMD, 8.9)
    >>> table = cost_table(system, Operation.ALL_REDUCE)
    >>> cost = table.costs[Algorithm.RING, Protocol.SIMPLE]
    >>> round(cost.latency_us, 1), cost.gb_per_s
    (42.6, 10.0)
    """
    rings = search_rings(system) if rings is None else rings
    trees = search_trees(system) if trees is None else trees
    ranks, generation = system.gpus, _generation(system.capability)
    steps = steps_of(operation, ranks)
    costs = {}
    if operation is Operation.ALL_REDUCE:
        tree = min(trees.total_gb_per_s * 0.92, trees.channels * _TREE_MOST[generation])
        rates = (
            min(tree / 3.8, _LL_MOST[generation]),
            min(tree * 7 / 9, trees.channels * _TREE_LL128_MOST[generation]) if ll128 else 0.0,
            tree,
        )
        base = list(_BASE_US[Algorithm.TREE])
        if system.version < (2, 23, 0):
            base[2] = 0.0
        for protocol, start, step, rate in zip(_PROTOCOLS, base, _tree_step_us(system.version), rates, strict=True):
            costs[Algorithm.TREE, protocol] = Cost(start + 2 * (ranks - 1) * step, rate * 0.5)
    total = rings.total_gb_per_s
    rates = (
        min(_LL_MOST[generation], total * 0.5),
        min(total * 0.92, rings.channels * _RING_LL128_MOST[generation]) if ll128 else 0.0,
        total,
    )
    is_chain = operation in (Operation.BROADCAST, Operation.REDUCE)
    for place, (protocol, rate) in enumerate(zip(_PROTOCOLS, rates, strict=True)):
        step = _STEP_US[Algorithm.RING][place]
        if is_chain and not rings.same_channels:
            step = _tree_step_us(system.version)[place] if protocol is Protocol.SIMPLE else step
            latency = steps * step
        else:
            latency = step if is_chain else steps * step
        costs[Algorithm.RING, protocol] = Cost(_BASE_US[Algorithm.RING][place] + latency, rate * ranks / steps)
    return CostTable(operation, ranks, costs)
