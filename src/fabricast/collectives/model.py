"""Time model of one operation on one machine, for each algorithm and protocol."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.communicator import Communicator
from fabricast.collectives.constants import Constants, constants
from fabricast.collectives.plan import Plan
from fabricast.collectives.step_rates import Hop, StepRate, Transport, chain_hops, hop_between, ring_hops, step_rate
from fabricast.collectives.times import StepTimes, operation_times
from fabricast.nccl.costs import Algorithm, CostTable, Operation, Protocol, cost_table
from fabricast.nccl.schedule import channels_in_use

#: Algorithm and protocol of an operation.
Choice = tuple[Algorithm, Protocol]
#: Channels per peer of sends and receives over PCIe, and bytes per channel up to which they use LL.
_CHANNELS_PER_PEER, _LL_BYTES = 2, 16 << 10
#: Operations that are composed of sends and receives.
_DIRECT = (Operation.ALLTOALL, Operation.SENDRECV)


class Limit(StrEnum):
    """Largest part of the time of an operation."""

    START = "start"
    LATENCY = "latency of steps"
    LINK = "rate of a copy"
    SHARED_LINK = "shared link"
    HOST_MEMORY = "copies through host memory"
    FLAGS = "flags of LL"


class CollectiveModel:
    """Times of one operation on one machine.

    Arguments: plan: rings, trees and transports; known: constants of the model; by default the fitted ones.
    """

    def __init__(
        self, communicator: Communicator, operation: Operation, plan: Plan, known: Constants | None = None
    ) -> None:
        self.communicator, self.operation, self.plan = communicator, operation, plan
        self.known = constants() if known is None else known
        self._steps: dict[Algorithm, StepRate] = {}

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.communicator.ranks)

    @cached_property
    def costs(self) -> CostTable | None:
        """NCCL's cost table; None for operations that are composed of sends and receives."""
        if self.operation in _DIRECT:
            return None
        allowed = Protocol.LL128 in (self.communicator.settings.protocols or ())
        return cost_table(
            self.communicator.nccl, self.operation, rings=self.plan.rings, trees=self.plan.trees, ll128=allowed
        )

    @property
    def pairs(self) -> list[Choice]:
        """Algorithms and protocols that the model can forecast and the settings permit."""
        if self.costs is None:
            return [(Algorithm.DIRECT, Protocol.LL), (Algorithm.DIRECT, Protocol.SIMPLE)]
        return [pair for pair in self.costs.costs if pair in self.communicator.settings.pairs]

    def choices(self, size_bytes: NDArray[np.float64]) -> list[Choice]:
        """Return NCCL's choice at each size."""
        size_bytes = np.asarray(size_bytes, dtype=np.float64)
        if self.costs is None:
            per_peer = size_bytes / (self.ranks if self.operation is Operation.ALLTOALL else 1)
            uses_ll = per_peer <= _LL_BYTES * _CHANNELS_PER_PEER
            return [(Algorithm.DIRECT, Protocol.LL if ll else Protocol.SIMPLE) for ll in uses_ll.tolist()]
        return self.costs.choices(size_bytes, self.communicator.settings.pairs)

    def _hops(self, algorithm: Algorithm) -> tuple[Hop, ...]:
        communicator, transports = self.communicator, self.plan.transports
        if self.operation is Operation.ALLTOALL:
            pairs = itertools.permutations(range(self.ranks), 2)
            return tuple(hop_between(communicator, source, target, transports) for source, target in pairs)
        if self.operation is Operation.SENDRECV:
            return ring_hops(communicator, range(self.ranks), transports)
        if self.operation in (Operation.BROADCAST, Operation.REDUCE):
            parts = [chain_hops(communicator, order, transports=transports) for order in self.plan.orders]
        elif algorithm is Algorithm.TREE:
            orders = dict.fromkeys(self.plan.trees.orders)
            parts = [chain_hops(communicator, order, both_ways=True, transports=transports) for order in orders]
        else:
            parts = [ring_hops(communicator, order, transports) for order in self.plan.orders]
        return tuple(hop for part in parts for hop in part)

    def step(self, algorithm: Algorithm) -> StepRate:
        """Return the rate of a step of an algorithm, before the efficiency of NCCL's kernels."""
        if algorithm not in self._steps:
            self._steps[algorithm] = step_rate(self.communicator, self._hops(algorithm))
        return self._steps[algorithm]

    def _orders(self, algorithm: Algorithm) -> int:
        """Return the number of different orders, each of which transfers an equal part of the data."""
        if self.operation in _DIRECT:
            return 1
        return len(dict.fromkeys(self.plan.trees.orders if algorithm is Algorithm.TREE else self.plan.rings.orders))

    def _effective(self, algorithm: Algorithm) -> NDArray[np.float64]:
        return self.step(algorithm).effective(self.known.efficiency(is_gen5=self.communicator.is_gen5))

    def slowest_hop(self, algorithm: Algorithm) -> int:
        """Return the number of the hop that limits a step."""
        return int(np.argmin(self._effective(algorithm)))

    def step_times(self, algorithm: Algorithm) -> StepTimes:
        """Return rate and latency of a step that NCCL's kernels reach."""
        step = self.step(algorithm)
        rate = float(self._effective(algorithm).min()) * self._orders(algorithm)
        latency = float(np.mean([self.communicator.latency_of(hop.source, hop.target) for hop in step.hops]))
        return StepTimes(rate, latency)

    def channels(self, choice: Choice, size_bytes: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the channels in use at each size."""
        size_bytes = np.asarray(size_bytes, dtype=np.float64)
        if self.operation in _DIRECT:
            return np.full(size_bytes.shape, _CHANNELS_PER_PEER, dtype=np.int64)
        return channels_in_use(
            self.operation,
            *choice,
            size_bytes,
            ranks=self.ranks,
            channels=self.plan.channels,
            ring_gb_per_s=self.plan.rings.total_gb_per_s,
        )

    def times(
        self, choice: Choice, size_bytes: NDArray[np.float64], *, step: StepTimes | None = None
    ) -> NDArray[np.float64]:
        """Return the time of an algorithm and protocol at each size in s."""
        size_bytes = np.asarray(size_bytes, dtype=np.float64)
        return operation_times(
            self.operation,
            *choice,
            size_bytes,
            ranks=self.ranks,
            channels=self.channels(choice, size_bytes),
            step=self.step_times(choice[0]) if step is None else step,
            known=self.known,
            buffer_size=self.communicator.settings.buffer_size,
        )

    def nccl_times(self, choices: Sequence[Choice], size_bytes: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return NCCL's estimate at each size in s; None without a cost table, or if its search falls back.

        The cost table of a fallback is that of a graph of 0.1 GB/s: its times are no estimates.
        """
        if self.costs is None or self.plan.rings.is_fallback:
            return None
        estimates = {choice: self.costs.time_us(*choice, size_bytes) for choice in set(choices)}
        return np.array([estimates[choice][place] for place, choice in enumerate(choices)]) * 1e-6

    def chosen_times(self, choices: Sequence[Choice], size_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time of the choice of each size in s."""
        size_bytes = np.asarray(size_bytes, dtype=np.float64)
        times = np.empty(size_bytes.shape)
        for choice in dict.fromkeys(choices):
            is_choice = np.array([one == choice for one in choices])
            times[is_choice] = self.times(choice, size_bytes[is_choice])
        return times

    def limits(self, choices: Sequence[Choice], size_bytes: NDArray[np.float64]) -> list[Limit]:
        """Return the largest part of the time at each size.

        The parts are the start, the latency of steps (time without transfers), the flags of LL, and the transfer.
        """
        size_bytes = np.asarray(size_bytes, dtype=np.float64)
        limits = []
        for number, choice in enumerate(choices):
            size, step = size_bytes[number : number + 1], self.step_times(choice[0])
            total = float(self.times(choice, size)[0])
            instant = StepTimes(1e18, step.latency_s)
            without_transfer = float(self.times(choice, size, step=instant)[0])
            start = max(self.known.start_s, self.known.launch_s)
            parts = {
                Limit.START: min(start, total),
                Limit.LATENCY: max(without_transfer - start, 0.0),
                self.transfer_limit(choice): max(total - without_transfer, 0.0),
            }
            limits.append(max(parts, key=lambda limit: parts[limit]))
        return limits

    def transfer_limit(self, choice: Choice) -> Limit:
        """Return the limit of the transfer of large sizes."""
        step, slowest = self.step(choice[0]), self.slowest_hop(choice[0])
        if choice[1] is Protocol.LL:
            return Limit.FLAGS
        if step.hops[slowest].transport is Transport.SHM:
            return Limit.HOST_MEMORY
        return Limit.SHARED_LINK if len(step.sharers[slowest]) > 1 else Limit.LINK

    def bounds(
        self, choices: Sequence[Choice], size_bytes: NDArray[np.float64], spread: tuple[float, float] = (1.0, 1.0)
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the shortest and longest time at each size in s, if rates of host memory or of copies are unknown.

        The spread is the range of the rate of a copy in relation to its median.
        """
        size_bytes = np.asarray(size_bytes, dtype=np.float64)
        low, high = np.empty(size_bytes.shape), np.empty(size_bytes.shape)
        for choice in dict.fromkeys(choices):
            is_choice = np.array([one == choice for one in choices])
            step, times = self.step(choice[0]), self.step_times(choice[0])
            rate = step.slowest_bytes_per_s
            fastest, slowest = step.high_bytes_per_s * spread[1], step.low_bytes_per_s * spread[0]
            for bound, array in ((fastest, low), (slowest, high)):
                scaled = StepTimes(times.bytes_per_s * bound / rate, times.latency_s)
                array[is_choice] = self.times(choice, size_bytes[is_choice], step=scaled)
        return low, high
