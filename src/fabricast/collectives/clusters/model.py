"""Forecast of one operation on a cluster: NCCL's choice, times, what limits them, and calibration by measured rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.clusters.cluster import BRIDGES, EFA, ETHERNET, PCIE, Cluster
from fabricast.collectives.clusters.constants import known_constants
from fabricast.collectives.clusters.times import PCIE_FACTOR, ClusterTimes, Pair
from fabricast.core.errors import InputError
from fabricast.inputs.gpus import gpu_model
from fabricast.nccl.costs import Algorithm, CostTable, Operation, Protocol
from fabricast.nccl.hosts import host_costs

_Array = NDArray[np.float64]
_PCIE_OF_CARDS = "PCIe link of the network cards"
#: Constants by what they limit. The relative change of the time by a change of a group is the share of the group.
_GROUPS = {
    "launch": ("launch", "launch_channel"),
    "start": ("start", "simple_start"),
    "latency within the node": ("nvlink_ll", "nvlink_ll_old", "nvlink_ll128", "nvlink_simple"),
    "latency of the network": (
        "verbs_ll",
        "verbs_ll128",
        "verbs_simple",
        "slingshot_ll",
        "slingshot_simple",
        "efa_ll",
        "efa_simple",
    ),
    "proxy threads": ("slingshot_message",),
    "chunks of NVLS": ("nvls_chunk",),
    "NVLink": ("switch_share", "switch_share_blackwell", "mesh_share", "nvls_share", "pair_share"),
    "network cards": ("verbs_share", "slingshot_share", "card_pair_share"),
    _PCIE_OF_CARDS: (PCIE_FACTOR,),
    "flags of LL": ("ll_share_one", "ll_share"),
    "LL128 in trees": ("tree_ll128_share",),
    "channels of a pair": ("network_channel", "nvlink_channel"),
}
_NVLINK_CHANNELS = "channels over NVLink"
#: Limits that are rates of links and cards.
RATE_LIMITS = ("NVLink", "network cards", _NVLINK_CHANNELS, _PCIE_OF_CARDS)
_STEP = 1.01
#: Constants that are times; the others are rates or shares of rates.
_RATES = (
    "switch_share",
    "switch_share_blackwell",
    "mesh_share",
    "verbs_share",
    "slingshot_share",
    "ll_share_one",
    "ll_share",
    "tree_ll128_share",
    "nvls_share",
    "pair_share",
    "card_pair_share",
    "network_channel",
    "nvlink_channel",
)
#: Ratios of times or of rates, which a faster machine does not change.
_FIXED = ("hidden_ratio", "fill", "nvls_tree_share")
#: Shares of the raw rate of links.
_WIRE_SHARES = (
    "switch_share",
    "switch_share_blackwell",
    "mesh_share",
    "verbs_share",
    "slingshot_share",
    "nvls_share",
    "pair_share",
    "card_pair_share",
)
#: Sizes of rows that calibrate latencies and rates, and bounds of the factors.
_SMALL, _LARGE = 64 << 10, 64 << 20
_LATENCY_BOUNDS, _RATE_BOUNDS = (0.5, 5.0), (0.4, 1.6)
_ROUNDS = 8


def refusal_of(cluster: Cluster) -> str:
    """Return why NCCL is not emulated on a cluster; empty if it is."""
    if gpu_model(cluster.gpu).capability is None:
        return f"{cluster.gpu} uses RCCL, whose choices are not emulated"
    if cluster.fabric == BRIDGES and cluster.gpus > 2:
        return (
            "bridges connect pairs of GPUs only, so that PCIe limits a ring: one node without --nodes and --nic, and "
            "fabricast.collective, are forecast over PCIe"
        )
    if cluster.fabric == PCIE and cluster.gpus > 1:
        return "NCCL between nodes whose GPUs only PCIe connects is not emulated"
    if cluster.fabric not in ("NVSwitch", "mesh") and cluster.gpus > 1:
        return f"unequal direct links ({cluster.fabric}) are not emulated"
    if cluster.nodes > 1 and cluster.network == ETHERNET:
        return f"NCCL over {cluster.network} is not emulated: TCP sockets limit NCCL there"
    if cluster.nodes > 1 and not cluster.has_gpudirect:
        return "NCCL without GPUDirect is not emulated: host memory limits the cards"
    if cluster.settings.version < (2, 18, 0) and (cluster.nodes > 1 or cluster.hosts.generation >= 9):
        return "NCCL before 2.18 is not emulated over NVLink of Hopper or between nodes"
    return ""


class Calibration(NamedTuple):
    """Factors of latencies and of rates from measured rows of a machine."""

    latency: float = 1.0
    rate: float = 1.0

    def known(self, fitted: Mapping[str, float]) -> dict[str, float]:
        """Return the constants of a machine."""
        scaled = {
            name: value * (1.0 if name in _FIXED else self.rate if name in _RATES else self.latency)
            for name, value in fitted.items()
        }
        # No link is faster than its raw rate.
        return {name: min(value, 1.0) if name in _WIRE_SHARES else value for name, value in scaled.items()}


class ClusterModel:
    """Times of one operation on one cluster, with NCCL's choice at each size.

    Arguments: cluster: cluster; `refusal_of` states whether it is emulated; known: constants; by default the fitted
    ones.
    """

    def __init__(self, cluster: Cluster, operation: Operation, known: Mapping[str, float] | None = None) -> None:
        self.cluster, self.operation = cluster, operation
        self.known = known_constants() if known is None else known
        self.times_of = ClusterTimes(cluster, operation, self.known)

    @cached_property
    def costs(self) -> CostTable | None:
        """NCCL's cost table; None for operations that are composed of sends and receives."""
        if self.operation in (Operation.ALLTOALL, Operation.SENDRECV):
            return None
        return host_costs(self.cluster.hosts, self.operation, card_latency_us=self._card_latency_us)

    @property
    def _card_latency_us(self) -> float:
        """Return the latency that the network plugin states: aws-ofi-nccl 2daf7d30, by generation of the node."""
        if self.cluster.nodes == 1 or self.cluster.network != EFA:
            return 0.0
        return 35.0 if self.cluster.hosts.generation >= 9 else 75.0

    @cached_property
    def pairs(self) -> list[Pair]:
        """Algorithms and protocols that NCCL may choose."""
        if self.costs is None:
            return [(Algorithm.DIRECT, Protocol.SIMPLE)]
        settings, nvls = self.cluster.settings, (Algorithm.NVLS, Algorithm.NVLS_TREE)
        pairs = [
            pair
            for pair, cost in self.costs.costs.items()
            if cost.gb_per_s > 0
            and (settings.algorithms is None or pair[0] in settings.algorithms)
            and (settings.protocols is None or pair[1] in settings.protocols)
            and (self.cluster.has_nvls or pair[0] not in nvls)
        ]
        if not pairs:
            raise InputError(f"permits no algorithm of {self.operation} on this cluster", argument="env")
        return pairs

    def choices(self, size: _Array) -> list[Pair]:
        """Return NCCL's choice at each size."""
        if self.costs is None:
            return self.pairs * len(size)
        return self.costs.choices(size, self.pairs)

    def nccl_s(self, choices: Sequence[Pair], size: _Array) -> _Array | None:
        """Return NCCL's estimate at each size; None for operations without one."""
        if self.costs is None:
            return None
        estimates = {pair: self.costs.time_us(*pair, size) * 1e-6 for pair in set(choices)}
        return np.array([estimates[pair][place] for place, pair in enumerate(choices)])

    def chosen_s(self, choices: Sequence[Pair], size: _Array, times: ClusterTimes | None = None) -> _Array:
        """Return the time of the choice at each size."""
        times = self.times_of if times is None else times
        found = {pair: times.times(pair, size) for pair in set(choices)}
        return np.array([found[pair][place] for place, pair in enumerate(choices)])

    def limits(self, choices: Sequence[Pair], size: _Array) -> tuple[list[str], _Array]:
        """Return what limits the time at each size, and its share: the group of constants whose change acts most."""
        base = self.chosen_s(choices, size)
        shares = {}
        for group, names in _GROUPS.items():
            known = {PCIE_FACTOR: 1.0, **self.known}
            changed = {name: value * _STEP if name in names else value for name, value in known.items()}
            times = ClusterTimes(self.cluster, self.operation, changed)
            shares[group] = np.abs(np.log(self.chosen_s(choices, size, times) / base)) / np.log(_STEP)
        groups = list(shares)
        matrix = np.array([shares[group] for group in groups])
        largest = matrix.argmax(axis=0)
        limits = [groups[place] for place in largest.tolist()]
        words = {"network cards": self._card_limit}
        if self.cluster.has_more_cards_than_gpus and self.cluster.has_pcie_gpus:
            words[_PCIE_OF_CARDS] = "PCIe links of the GPUs"
        limits = [words.get(limit, limit) for limit in limits]
        if self.cluster.nodes > 1:
            # Within a node, rings over several nodes use the few channels that the cards permit.
            limits = [
                _NVLINK_CHANNELS if limit == "NVLink" and pair[0] is Algorithm.RING else limit
                for limit, pair in zip(limits, choices, strict=True)
            ]
        found: _Array = matrix.max(axis=0)
        return limits, found

    @cached_property
    def _card_limit(self) -> str:
        """Return what limits the cards: the network above them, fewer cards than GPUs, or their rate."""
        cluster = self.cluster
        if cluster.oversubscription > 1:
            return "oversubscribed network"
        if cluster.cards < cluster.gpus:
            return f"network cards ({cluster.cards} for {cluster.gpus} GPUs)"
        return "network cards"

    def calibrated(self, size: _Array, measured_s: _Array) -> tuple[ClusterModel, Calibration]:
        """Return the model and its factors for a machine with measured rows of the operation.

        The smallest size up to 64 KiB determines one factor of all latencies, the largest from 64 MiB on one of all
        rates; they are solved in turn. The first of several smallest rows is often slow and is not used.
        """
        order = np.argsort(size)
        size, measured_s = np.asarray(size, dtype=np.float64)[order], np.asarray(measured_s)[order]
        small = np.flatnonzero(size <= _SMALL)
        large = np.flatnonzero(size >= _LARGE)
        if not small.size and not large.size:
            raise InputError("has no row up to 64 KiB or from 64 MiB on, which would calibrate", argument="log")
        of_latency = int(small[1]) if small.size > 2 else int(small[0]) if small.size else None
        of_rate = int(large[-1]) if large.size else None
        chosen = self.choices(size)
        factors = Calibration()
        for _ in range(_ROUNDS):
            if of_rate is not None:
                rate = factors.rate * self._ratio(factors, chosen, size, measured_s, of_rate)
                factors = factors._replace(rate=float(np.clip(rate, 0.1, _RATE_BOUNDS[1])))
            if of_latency is not None:
                latency = factors.latency / self._ratio(factors, chosen, size, measured_s, of_latency)
                factors = factors._replace(latency=float(np.clip(latency, _LATENCY_BOUNDS[0], 20.0)))
        # A faster machine is no fault: its factors end at their bounds.
        slower = {"latency": factors.latency > _LATENCY_BOUNDS[1], "rate": factors.rate < _RATE_BOUNDS[0]}
        for name, is_slower in slower.items():
            if is_slower:
                raise InputError(
                    f"has a {name} {getattr(factors, name):.3g} times that of public machines: a fault, or another "
                    "network than stated",
                    argument="log",
                )
        return ClusterModel(self.cluster, self.operation, factors.known(self.known)), factors

    def _ratio(self, factors: Calibration, chosen: Sequence[Pair], size: _Array, measured_s: _Array, row: int) -> float:
        """Return the ratio of the forecast to the measured time of a row."""
        times = ClusterTimes(self.cluster, self.operation, factors.known(self.known))
        return float(times.times(chosen[row], size[row : row + 1])[0] / measured_s[row])
