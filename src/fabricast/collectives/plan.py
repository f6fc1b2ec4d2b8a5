"""NCCL's plan for a communicator: rings, trees and transports, from its emulated search or from a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabricast.collectives.communicator import Communicator
from fabricast.collectives.step_rates import Transport
from fabricast.core.errors import InputError
from fabricast.nccl.search import SearchGraph, search_rings, search_trees

_EMULATED = "emulated search"


@dataclass(frozen=True)
class Plan:
    """Rings, trees and transports of a communicator."""

    #: Channels of NCCL's search.
    rings: SearchGraph
    trees: SearchGraph
    channels: int  # Channels in use
    #: Transports that a log states; other hops follow NCCL's rule.
    transports: Mapping[tuple[int, int], Transport] = field(default_factory=dict)
    source: str = _EMULATED  # Origin of the rings: the emulated search, a log or a graph file

    @property
    def is_stated(self) -> bool:
        """Whether a log or a file states the rings."""
        return self.source != _EMULATED

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """Different orders of the rings."""
        return tuple(dict.fromkeys(self.rings.orders))


def nccl_plan(
    communicator: Communicator,
    *,
    rings: SearchGraph | None = None,
    channels: int | None = None,
    transports: Mapping[tuple[int, int], Transport] | None = None,
    source: str = _EMULATED,
) -> Plan:
    """Return the plan of NCCL on a machine."""
    found = search_rings(communicator.nccl) if rings is None else rings
    for order in found.orders:
        if sorted(order) != list(range(len(communicator.ranks))):
            named = " ".join(map(str, order))
            raise InputError(f"is {named}, expected each of {len(communicator.ranks)} ranks once", argument="order")
    if channels is None:
        least, most = communicator.settings.least_channels or 1, communicator.settings.most_channels or 32
        channels = min(max(2 * found.channels, least), most)
    # Trees follow the order of the rings and have as many channels.
    trees = search_trees(communicator.nccl) if rings is None else rings
    return Plan(found, trees, channels, transports or {}, source)


def with_order(plan: Plan, order: tuple[int, ...]) -> Plan:
    """Return a plan whose channels all have another order."""
    rings = SearchGraph((order,) * plan.rings.channels, plan.rings.gb_per_s, plan.rings.type)
    return Plan(rings, rings, plan.channels, plan.transports, "specified order")
