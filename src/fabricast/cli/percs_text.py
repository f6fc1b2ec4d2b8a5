"""Output of `fabricast network` and `fabricast map`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fabricast.api.percs import SEARCHED, TaskMapping
from fabricast.core.errors import InputError, unknown_name
from fabricast.percs.loads import ROUTINGS, Routing, route
from fabricast.percs.mapped_traffic import mapped_traffic
from fabricast.percs.network import LINK_CLASSES, TwoLevelNetwork
from fabricast.percs.packets import simulate_packets


def rates_line(network: TwoLevelNetwork) -> str:
    """Return the rates of the link classes and of the nodes in one direction, in one line."""
    links = zip(LINK_CLASSES, network.capacities / 1e9, strict=True)
    named = ", ".join(f"{name} {rate:.4g}" for name, rate in links)
    return f"{named}, injection {network.injection_bytes_per_s / 1e9:.4g} GB/s"


def loads_lines(pattern: str, mapping: str, network: TwoLevelNetwork, seed: int, *, tiles: int = 1) -> Iterator[str]:
    """Yield the link loads of a pattern for both routings, by link class."""
    traffic, _, title = mapped_traffic(pattern, mapping, network, seed, tiles)
    yield f"{title}; {mapping} on {network.groups} groups, {network.routers:,} routers"
    for routing in ROUTINGS:
        if routing == "indirect" and network.groups < 3:
            continue
        loads = route(traffic, network, routing)
        time, worst = loads.bottleneck
        even = loads.floor_s() * 1e3
        yield f"  {routing}: busiest link {time * 1e3:.4g} ms ({worst}); {even:.4g} ms with even loads"
        nodes = loads.node_times_s()
        rate = network.injection_bytes_per_s / 1e9
        yield (
            f"    nodes: injection {nodes['injection'] * 1e3:.4g} ms, ejection {nodes['ejection'] * 1e3:.4g} ms at "
            f"{rate:.4g} GB/s; limit: {loads.limit[1]}, {loads.limit[0] * 1e3:.4g} ms"
        )
        for name, load in loads.by_class.items():
            used = int((load > 0).sum())
            mean = load.mean() if load.size else 0.0
            yield (
                f"    {name:2} {load.size:9,} links, {used:9,} used, mean {mean / 2**20:10.3f} MiB, "
                f"max {loads.busiest_bytes[name] / 2**20:10.3f} MiB"
            )


def simulate_lines(
    pattern: str,
    mapping: str,
    network: TwoLevelNetwork,
    routing: Routing,
    *,
    packet_bytes: float | None,
    window: int,
    seed: int,
    tiles: int = 1,
) -> Iterator[str]:
    """Yield the packet-level time of a pattern and that of its busiest link."""
    if routing not in ROUTINGS:
        raise unknown_name("routing", routing, ROUTINGS)
    traffic, pairs, title = mapped_traffic(pattern, mapping, network, seed, tiles)
    if pairs is None or pairs[0].size == 0:
        raise InputError(f"'{pattern}' has no messages between pairs of routers, expected a pattern with neighbours")
    bound, worst = route(traffic, network, routing).limit
    if packet_bytes is None:
        packet_bytes = _fitting_packet(pairs[2])
    run = simulate_packets(pairs, network, routing, packet_bytes=packet_bytes, window=window, seed=seed)
    yield f"{title}; {mapping}, {routing} routes"
    padding = _padding(pairs[2], packet_bytes)
    if padding > _MOST_PADDING:
        yield f"  whole packets have {padding:.0%} more than the bytes sent: times are too long by up to this share"
    yield f"  {run.packets:,} packets of {packet_bytes:,.0f} bytes, {run.hops:,} hops"
    # Indirect routes are random: a single run can load every link less than expected.
    kind = "busiest resource" if routing == "direct" else "busiest resource of expected loads"
    yield f"  last packet arrives after {run.elapsed_s * 1e3:.5g} ms; {kind} ({worst}) {bound * 1e3:.5g} ms"


#: Maximum packet size in bytes, and maximum padding of whole packets without a warning.
_LARGEST_PACKET, _MOST_PADDING = 524288.0, 0.05
_SMALLEST_PACKET, _MOST_PACKETS = 256.0, 4_000_000


def _padding(size: NDArray[np.float64], packet_bytes: float) -> float:
    """Return the padding of whole packets relative to the bytes of all pairs."""
    return float((np.ceil(size / packet_bytes) * packet_bytes).sum() / size.sum() - 1)


def _fitting_packet(size: NDArray[np.float64]) -> float:
    """Return the largest packet size in bytes with little padding.

    The size is 512 KiB, halved until the padding is small. Halving stops at 256 bytes, or if the number of packets
    would exceed the maximum for a simulation.
    """
    packet = _LARGEST_PACKET
    while (
        _padding(size, packet) > _MOST_PADDING
        and packet > _SMALLEST_PACKET
        and np.ceil(size * 2 / packet).sum() < _MOST_PACKETS
    ):
        packet /= 2
    return packet


#: Relative difference of times that are equal.
_SAME = 1e-9


def map_lines(found: TaskMapping) -> Iterator[str]:
    """Yield the times of the named mappings and of the search."""
    times = dict(zip(found.times["mapping"], found.times["time_s"], strict=True))
    titles = dict(zip(found.times["mapping"], found.times["title"], strict=True))
    searched = times.pop(SEARCHED)
    best = min(times, key=lambda name: times[name])
    yield f"{found.pattern}: {found.nodes:,} nodes on {found.routers:,} routers, direct routes, busiest link"
    for name, time_s in times.items():
        yield f"  {name:6} {time_s * 1e3:10.4g} ms  {titles[name]}"
    if searched < times[best] * (1 - _SAME):
        yield f"  search {searched * 1e3:10.4g} ms, {titles[SEARCHED]}"
    else:
        yield f"  search     no improvement over {best}, {found.proposals:,} swaps tried"
    limit = "; nodes limit the step, not links" if max(found.injection_s, found.ejection_s) > found.time_s else ""
    of_node = f"injection {found.injection_s * 1e3:.4g} ms, ejection {found.ejection_s * 1e3:.4g} ms"
    yield f"  busiest node: {of_node} with any mapping{limit}"
    yield f"  packet level: {found.packets_s * 1e3:.4g} ms, packets of 1/16 of the largest message"
