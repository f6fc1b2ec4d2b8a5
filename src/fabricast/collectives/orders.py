"""Ring orders: all orders of a few GPUs, their step rates, and the best one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from fabricast.collectives.communicator import Communicator
from fabricast.collectives.step_rates import Transport, copies_of, hop_between, ring_hops, step_rate

#: Number of GPUs up to which all orders are evaluated: 5,040 orders of 8 GPUs.
_MOST_EXHAUSTIVE = 8
#: Random orders of more GPUs, for the worst and the median rate.
_SAMPLES = 5040
#: Relative difference of rates below which orders are equally good: measured rates of pairs differ by less.
_NEAR = 0.01


@dataclass(frozen=True)
class OrderSearch:
    """Step rates of ring orders, before the efficiency of NCCL's kernels."""

    orders: NDArray[np.int64]  # Orders, each with rank 0 first, shape (orders, ranks)
    bytes_per_s: NDArray[np.float64]  # Rate of the slowest hop of each order in bytes/s, shape (orders,)
    is_exhaustive: bool  # Whether `orders` contains all orders; otherwise a random sample and the order of the topology

    @property
    def best(self) -> tuple[int, ...]:
        """First order whose rate is within 1 % of the highest one."""
        return tuple(self.orders[int(np.argmax(self.is_best))].tolist())

    @property
    def is_best(self) -> NDArray[np.bool_]:
        """Whether the rate of each order is within 1 % of the highest one."""
        return np.asarray(self.bytes_per_s > self.best_bytes_per_s * (1 - _NEAR))

    @property
    def best_bytes_per_s(self) -> float:
        """Highest rate in bytes/s."""
        return float(self.bytes_per_s.max())

    @property
    def worst_bytes_per_s(self) -> float:
        """Lowest rate in bytes/s."""
        return float(self.bytes_per_s.min())

    @property
    def best_count(self) -> int:
        """Number of orders whose rate is within 1 % of the highest one."""
        return int(self.is_best.sum())

    def rate_of(self, order: Sequence[int]) -> float:
        """Return the rate of an order in bytes/s; an order and its rotations have the same rate."""
        place = np.flatnonzero((self.orders == np.array(_rotated(order))).all(axis=1))
        return float(self.bytes_per_s[place[0]]) if place.size else float("nan")


def ring_orders(ranks: int, *, seed: int = 0) -> tuple[NDArray[np.int64], bool]:
    """Return ring orders with rank 0 first, and whether they are all orders.

    >>> ring_orders(4)[0].tolist()[:3], len(ring_orders(8)[0])
    ([[0, 1, 2, 3], [0, 1, 3, 2], [0, 2, 1, 3]], 5040)
    """
    if ranks <= _MOST_EXHAUSTIVE:
        rest = np.array(list(itertools.permutations(range(1, ranks))), dtype=np.int64)
        rest = rest.reshape(factorial(ranks - 1), ranks - 1)
        return np.hstack([np.zeros((len(rest), 1), dtype=np.int64), rest]), True
    generator = np.random.default_rng(seed)
    rest = np.array([np.arange(1, ranks), *(generator.permutation(ranks - 1) + 1 for _ in range(_SAMPLES - 1))])
    return np.hstack([np.zeros((len(rest), 1), dtype=np.int64), rest]), False


def search_orders(
    communicator: Communicator,
    *,
    transports: Mapping[tuple[int, int], Transport] | None = None,
    orders: Sequence[Sequence[int]] = (),
) -> OrderSearch:
    """Evaluate ring orders with the recommended PCIe model.

    Orders with the same number of copies on each link and the same slowest pair have the same rate, so that one of
    them is evaluated.

    In a tree, the depth-first order of the GPUs uses each link once in each direction, which no order improves: it is
    evaluated for any number of GPUs.
    """
    every, exhaustive = ring_orders(len(communicator.ranks))
    extra = [_rotated(order) for order in (*orders, _depth_first(communicator)) if not exhaustive]
    if extra:
        every = np.vstack([np.array(extra, dtype=np.int64), every])
    slowest = communicator.slow_shares[every, np.roll(every, -1, axis=1)].min(axis=1)
    signature = np.column_stack([_signatures(communicator, every, transports), (1e6 * slowest).astype(np.int64)])
    _, first, of_order = np.unique(signature, axis=0, return_index=True, return_inverse=True)
    rates = np.array(
        [_rate(communicator, every[number].tolist(), transports) for number in first.tolist()], dtype=np.float64
    )
    return OrderSearch(every, rates[of_order.reshape(-1)], exhaustive)


def _rate(
    communicator: Communicator, order: list[int], transports: Mapping[tuple[int, int], Transport] | None
) -> float:
    return step_rate(communicator, ring_hops(communicator, order, transports)).slowest_bytes_per_s


def _rotated(order: Sequence[int]) -> list[int]:
    """Return an order with rank 0 first."""
    start = list(order).index(0)
    return [*order[start:], *order[:start]]


def _depth_first(communicator: Communicator) -> list[int]:
    """Return the ranks in depth-first order of the topology, in which virtual switches are together."""
    tree = communicator.tree
    place = {name: number for number, name in enumerate(tree.preorder(tree.root))}

    def key(rank: int) -> list[tuple[int, int]]:
        name = communicator.ranks[rank]
        above = [*reversed(tree.ancestors(name))]
        return [(place[vertex], tree.port(vertex, name)) for vertex in above] + [(place[name], 0)]

    return _rotated(sorted(range(len(communicator.ranks)), key=key))


def _signatures(
    communicator: Communicator, orders: NDArray[np.int64], transports: Mapping[tuple[int, int], Transport] | None
) -> NDArray[np.int64]:
    """Return the number of copies on each directed link of each order, and its slowest measured pair."""
    tree, ranks = communicator.tree, len(communicator.ranks)
    uses = np.zeros((ranks, ranks, len(tree.link_names) + 1), dtype=np.int64)
    for source, target in itertools.permutations(range(ranks), 2):
        for copy in copies_of(communicator, hop_between(communicator, source, target, transports)):
            np.add.at(uses[source, target], tree.route(*copy), 1)
        # Pairs of different measured rates are different, to 0.1 %.
        measured = communicator.machine.both_ways_bytes_per_s.get(
            (communicator.ranks[source], communicator.ranks[target])
        )
        uses[source, target, -1] = 0 if measured is None else -round(1000 * np.log(measured))
    following = np.roll(orders, -1, axis=1)
    counts = uses[orders, following]
    total: NDArray[np.int64] = counts.sum(axis=1)
    total[:, -1] = counts[:, :, -1].max(axis=1)
    return total
