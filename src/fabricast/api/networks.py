"""Mappings of ranks to hosts of a network of switches, with the loads of its links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import check_count, check_seed, to_bytes
from fabricast.inputs.files import exists
from fabricast.inputs.host_names import is_host_name
from fabricast.networks.descriptions import default_network, switch_network
from fabricast.networks.launcher_files import read_hosts, write_rank_files
from fabricast.networks.loads import ROUTINGS, end_point_pairs, link_loads
from fabricast.networks.mapping import HostSearch, fastest_hosts, has_equal_ports, search_hosts
from fabricast.networks.network import SwitchNetwork
from fabricast.networks.patterns import compact_block, grid_of, in_blocks, node_pairs, rank_pairs, slots_of_blocks
from fabricast.percs.cases import WORKLOADS
from fabricast.percs.packets import PacketRun, Routes, simulate_routes

#: Random orders of hosts whose median is a baseline.
_RANDOM_ORDERS = 5
_RANKS_PER_NODE = 8


@dataclass(frozen=True, repr=False)
class RankMapping:
    """Hosts of the nodes of a job, and the times of the busiest links.

    Parameters
    ----------
    pattern, network : str
        What was mapped, and on what, in words.
    table : pandas.DataFrame
        One row per node: node, host, first_rank, last_rank; with blocks, those of its first and last corner.
    times : pandas.DataFrame
        One row per order of hosts (listed, random, searched; blocks: the listed hosts with a block of the grid on each
        node) and routing: time_s of the busiest link, its name in busiest_link, and the bytes on it.
    host_s : float
        Time of the busiest port of a host in s in the searched order.
    same_ports : bool
        Whether all ports of hosts have one rate, so that no order changes `host_s`.
    ranks_per_node : int
        Ranks of a node.
    assumptions : tuple of str
        What neither the arguments nor a file state.
    node_of_rank : ndarray of int64, shape (ranks,)
        Node of each rank.
    block : tuple of int or None
        Block of the grid that a node holds, or could hold; None for other patterns and grids without such a block.
    slow_hosts : tuple of str
        Hosts with a slower port than the fastest of those that may be used.
    """

    pattern: str
    network: str
    table: pd.DataFrame
    times: pd.DataFrame
    host_s: float
    same_ports: bool
    ranks_per_node: int
    assumptions: tuple[str, ...]
    node_of_rank: NDArray[np.int64]
    block: tuple[int, ...] | None
    slow_hosts: tuple[str, ...] = ()

    def write(self, stem: str | Path) -> list[Path]:
        """Write ``stem.rankfile`` (Open MPI) and ``stem.hosts`` (one host per rank, for ``srun -m arbitrary``)."""
        return write_rank_files(self.node_of_rank, self.ranks_per_node, self.table["host"].tolist(), Path(stem))

    def __repr__(self) -> str:
        return f"{self.pattern}, {self.network}\n{self.times.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return str(self.times.to_html(index=False))


@with_checked_types
def map_ranks(
    pattern: str | Path,
    *,
    network: str | Path | None = None,
    hosts: str | Path | Sequence[str] | None = None,
    ranks_per_node: int = _RANKS_PER_NODE,
    blocks: bool = False,
    gbit_s: float | None = None,
    oversubscription: float = 1.0,
    proposals: int = 200_000,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> RankMapping:
    """Return the order of hosts in which a pattern has no hot link, with the times of the listed order and random ones.

    Consecutive ranks are on one node, or a block of the grid of a halo exchange, which usually sends fewer bytes. The
    time is that of the busiest link: a lower bound of the time of the pattern, without latencies and without what a
    node does inside.

    Parameters
    ----------
    pattern : str or Path
        ``halo:4x8x2``, ``all_to_all:64`` or ``ring:64`` with ``,SIZE`` (1 MiB), or a file of bytes between ranks:
        square .csv, .csv or .parquet with the columns source,target,size_bytes, .mtx, or output of Open MPI's
        monitoring.
    network : str or Path, optional
        ``fat_tree:LEVELS,PORTS,UP[,PLANES]``, ``dragonfly:GROUPS,ROUTERS,HOSTS,GLOBAL``, both with ``@GBIT_S``; or a
        ``topology.conf`` of Slurm, or the output of ``ibnetdiscover`` or ``ibnetdiscover -p``. By default the smallest
        non-blocking fat tree of 40-port switches.
    hosts : str, Path or sequence of str, optional
        Hosts of the job, in the order of the launcher: a file, a node list of Slurm, or names. By default all hosts of
        the network with the usual number of cards; the listed order uses the first ones.
    ranks_per_node : int, default 8
        Ranks (GPUs) of a node.
    blocks : bool, default False
        Whether each node holds a block of the grid of a halo exchange in place of consecutive ranks.
    gbit_s : float, optional
        Rate of each port in Gbit/s, if the network has none.
    oversubscription : float, default 1.0
        For files of Slurm: rate of the hosts below a switch, divided by that of its links upwards.
    proposals : int, default 200000
        Number of swaps to try.
    seed : int, default 1
        Seed of the search and of the random orders.
    progress : callable, optional
        Called with the number of swaps tried since the previous call.

    Returns
    -------
    RankMapping
        Hosts of the nodes, and times of the busiest link.

    Raises
    ------
    InputError
        If the network has too few hosts, or a name is unknown.

    Examples
    --------
    >>> import fabricast as fc
    >>> found = fc.map_ranks("halo:8x8x8", network="fat_tree:2,16,4@200", proposals=50_000)
    >>> found.times.query("routing == 'static'").set_index("order")["time_s"].map("{:.2e}".format).to_dict()
    {'listed': '1.68e-03', 'random': '4.03e-03', 'searched': '1.34e-03', 'blocks': '1.68e-03'}
    """
    check_count("ranks_per_node", ranks_per_node, 65_536)
    check_count("proposals", proposals, 1_000_000_000, least=0)
    check_seed(seed)
    if network is None and str(pattern) in WORKLOADS:
        raise InputError(
            f"is '{pattern}', a pattern of two-level direct networks: map_tasks maps it", argument="pattern"
        )
    pairs = rank_pairs(pattern)
    nodes = -(-pairs.ranks // ranks_per_node)
    grid = grid_of(pattern)
    block = None if grid is None or ranks_per_node == 1 else compact_block(grid, ranks_per_node)
    if blocks and block is None:
        raise InputError(
            f"is for halo exchanges whose grid has blocks of {ranks_per_node} ranks, not for '{pattern}'",
            argument="blocks",
        )
    slots = np.arange(pairs.ranks) if grid is None or block is None else slots_of_blocks(grid, block)
    places_of_ranks = slots if blocks else np.arange(pairs.ranks)
    flows = node_pairs(in_blocks(pairs, places_of_ranks), ranks_per_node)
    if not flows[0].size:
        raise InputError(
            f"'{pattern}' has no bytes between nodes of {ranks_per_node} ranks: all mappings are equal",
            argument="pattern",
        )
    built, names, places = _hosts(network, hosts, nodes, gbit_s, oversubscription, ranks_per_node)
    search = _search(built, flows, nodes, places, proposals=proposals, seed=seed, progress=progress)
    same_ports = has_equal_ports(built, places)
    slower = sorted(set(places.tolist()) - set(fastest_hosts(built, places).tolist()))
    slow_hosts = tuple(name for name, place in zip(names, places.tolist(), strict=True) if place in slower)
    generator = np.random.default_rng(seed)
    random = [generator.permutation(places)[:nodes] for _ in range(_RANDOM_ORDERS)]
    listed = [places[:nodes]]
    times, host_s = _times(built, flows, {"listed": listed, "random": random, "searched": [search.host]}, places)
    if block is not None and not blocks:
        in_block = node_pairs(in_blocks(pairs, slots), ranks_per_node)
        times = pd.concat([times, _times(built, in_block, {"blocks": listed}, places)[0]], ignore_index=True)
    name_of = dict(zip(places.tolist(), names, strict=True))
    rank_at = np.argsort(places_of_ranks)
    first = np.arange(nodes) * ranks_per_node
    table = pd.DataFrame(
        {
            "node": np.arange(nodes),
            "host": [name_of[host] for host in search.host.tolist()],
            "first_rank": rank_at[first],
            "last_rank": rank_at[np.minimum(first + ranks_per_node, pairs.ranks) - 1],
        }
    )
    title = f"{pairs.title} on {nodes:,} nodes of {ranks_per_node} ranks"
    if blocks and block is not None:
        title += f", a block of {'x'.join(map(str, block))} on each"
    owner = places_of_ranks // ranks_per_node
    return RankMapping(
        title,
        built.title,
        table,
        times,
        host_s,
        same_ports,
        ranks_per_node,
        built.assumptions,
        owner,
        block,
        slow_hosts,
    )


def _search(
    network: SwitchNetwork,
    flows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    nodes: int,
    hosts: NDArray[np.int64],
    *,
    proposals: int,
    seed: int,
    progress: Callable[[int], None] | None,
) -> HostSearch:
    """Return the best order of hosts: among those with the fastest ports, if they are enough, and among all."""
    fast = fastest_hosts(network, hosts)
    search = partial(search_hosts, network, flows, nodes, seed=seed, progress=progress)
    if not nodes <= fast.size < hosts.size:
        return search(hosts, proposals=proposals)
    every, found = search(hosts, proposals=proposals // 2), search(fast, proposals=proposals - proposals // 2)
    best = min(found, every, key=lambda one: one.time_s)
    return replace(best, start_s=every.start_s, proposals=found.proposals + every.proposals)


@with_checked_types
def network_loads(
    pattern: str | Path,
    *,
    network: str | Path | None = None,
    hosts: str | Path | Sequence[str] | None = None,
    ranks_per_node: int = _RANKS_PER_NODE,
    routing: str = "static",
    gbit_s: float | None = None,
    oversubscription: float = 1.0,
) -> pd.DataFrame:
    """Return the load of each link of a network of switches under a pattern, busiest links first.

    Parameters
    ----------
    pattern, network, hosts, ranks_per_node, gbit_s, oversubscription
        See `map_ranks`.
    routing : {'static', 'adaptive', 'indirect'}, default 'static'
        Routes by destination (InfiniBand's default for fat trees), split evenly over minimal routes (which adaptive
        routing approaches), or over a random leaf switch (Valiant).

    Returns
    -------
    pandas.DataFrame
        One row per link with bytes: link, bytes, capacity_bytes_per_s, time_s. ``attrs["network"]`` has the network in
        words, ``attrs["assumptions"]`` what was assumed.

    Examples
    --------
    >>> import fabricast as fc
    >>> fc.network_loads("ring:32,1 GB", network="fat_tree:2,4,2@80", ranks_per_node=4).iloc[0].to_dict()
    {'link': 'host0 to leaf0', 'bytes': 1000000000.0, 'capacity_bytes_per_s': 10000000000.0, 'time_s': 0.1}
    """
    check_count("ranks_per_node", ranks_per_node, 65_536)
    if routing not in ROUTINGS:
        raise unknown_name("routing", routing, ROUTINGS)
    pairs = rank_pairs(pattern)
    nodes = -(-pairs.ranks // ranks_per_node)
    source, target, size = node_pairs(pairs, ranks_per_node)
    built, _, places = _hosts(network, hosts, nodes, gbit_s, oversubscription, ranks_per_node)
    load = link_loads(built, places[source], places[target], size, routing, built.rails(places[:nodes])).bytes
    used = np.flatnonzero(load)
    time_s = load[used] / built.capacity[used]
    # Host ports of equal load come first, because their numbers are the highest.
    order = np.lexsort((used < built.neighbour.size, -time_s))
    table = pd.DataFrame(
        {
            "link": [built.link_name(int(link)) for link in used[order]],
            "bytes": load[used][order],
            "capacity_bytes_per_s": built.capacity[used][order],
            "time_s": time_s[order],
        }
    )
    table.attrs["network"], table.attrs["assumptions"] = built.title, built.assumptions
    return table


@dataclass(frozen=True)
class NetworkPackets:
    """Packet-level time of a pattern on a network of switches, and the time of its busiest link.

    Parameters
    ----------
    pattern, network : str
        What was simulated, and on what, in words.
    elapsed_s, busiest_s : float
        Arrival time of the last packet, and time of the busiest link in s, a lower bound.
    busiest_link : str
        That link.
    packets, hops : int
        Number of packets, and of links that all packets passed.
    packet_bytes : float
        Size of a packet in bytes.
    assumptions : tuple of str
        What neither the arguments nor a file state.
    """

    pattern: str
    network: str
    elapsed_s: float
    busiest_s: float
    busiest_link: str
    packets: int
    hops: int
    packet_bytes: float
    assumptions: tuple[str, ...]


@with_checked_types
def simulate_network(
    pattern: str | Path,
    *,
    network: str | Path | None = None,
    hosts: str | Path | Sequence[str] | None = None,
    ranks_per_node: int = _RANKS_PER_NODE,
    packet: float | str | None = None,
    window: int = 256,
    gbit_s: float | None = None,
    oversubscription: float = 1.0,
) -> NetworkPackets:
    """Simulate a pattern on a network of switches packet by packet, with static routes by destination.

    Links are FIFO queues with unlimited buffers. A port injects the packets of its messages in turn, with at most
    `window` packets in flight.

    Parameters
    ----------
    pattern, network, hosts, ranks_per_node, gbit_s, oversubscription
        See `map_ranks`.
    packet : float or str, optional
        Packet size in bytes or as text; by default the largest power of two up to 64 KiB with at most two million
        packets and little padding.
    window : int, default 256
        Largest number of packets in flight of a port.

    Returns
    -------
    NetworkPackets
        Time of the last packet and of the busiest link.

    Raises
    ------
    InputError
        If routes have more than five links after the port of the sender, or ports have several rates.

    Examples
    --------
    >>> import fabricast as fc
    >>> found = fc.simulate_network("ring:32,16 MiB", network="fat_tree:2,4,2@80", ranks_per_node=4)
    >>> bool(found.busiest_s <= found.elapsed_s < 1.05 * found.busiest_s)
    True
    """
    check_count("ranks_per_node", ranks_per_node, 65_536)
    check_count("window", window, 1 << 20)
    pairs = rank_pairs(pattern)
    nodes = -(-pairs.ranks // ranks_per_node)
    source, target, size = node_pairs(pairs, ranks_per_node)
    if not source.size:
        raise InputError(f"'{pattern}' has no bytes between nodes of {ranks_per_node} ranks", argument="pattern")
    built, _, places = _hosts(network, hosts, nodes, gbit_s, oversubscription, ranks_per_node)
    rails = built.rails(places[:nodes])
    one, other, part = end_point_pairs(built, places[source], places[target], size, rails)
    order = np.argsort(one, kind="stable")
    one, other, part = one[order], other[order], part[order]
    packet_bytes = _packet_bytes(part) if packet is None else to_bytes(packet)
    loads = link_loads(built, places[source], places[target], size, "static", rails)
    run = _run_packets(built, one, other, part, packet_bytes, window)
    title = f"{pairs.title} on {nodes:,} nodes of {ranks_per_node} ranks"
    name = built.link_name(loads.busiest)
    assumptions = (*built.assumptions, f"each switch delays a packet by {_SWITCH_S * 1e9:g} ns")
    return NetworkPackets(
        title, built.title, run.elapsed_s, loads.time_s, name, run.packets, run.hops, packet_bytes, assumptions
    )


#: Delay of a switch in s, about that of Breaking Band (108 ns). [assumed]
_SWITCH_S = 1e-7
_LARGEST_PACKET, _SMALLEST_PACKET, _MOST_PACKETS = 65_536, 256, 2_000_000


def _packet_bytes(size: NDArray[np.float64]) -> float:
    """Return the largest packet size with less than 5 % padding; a larger one if there were too many packets."""
    packet = _LARGEST_PACKET
    while packet > _SMALLEST_PACKET and (np.ceil(size / packet) * packet).sum() > 1.05 * size.sum():
        packet //= 2
    while np.ceil(size / packet).sum() > _MOST_PACKETS:
        packet *= 2
    return float(packet)


def _run_packets(
    network: SwitchNetwork,
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    size: NDArray[np.float64],
    packet_bytes: float,
    window: int,
) -> PacketRun:
    """Simulate messages between end points; the port of the sender injects the packets."""
    from fabricast.networks.kernels.routes import static_routes

    ports = network.capacity[network.neighbour.size + 2 * np.unique(one)]
    if np.ptp(ports) > 0:
        raise InputError("has ports of several rates, expected one for a simulation", argument="network")
    offset, route = static_routes(one, other, *network.tables)
    # The port is no queue of the simulation: it injects.
    kept = np.ones(route.size, dtype=bool)
    kept[offset[:-1]] = False
    routes = Routes(offset - np.arange(offset.size), route[kept])
    return simulate_routes(
        (one, other, size),
        routes,
        network.capacity,
        sources=network.end_points,
        injection_bytes_per_s=float(ports[0]),
        hop_latency_s=_SWITCH_S,
        packet_bytes=packet_bytes,
        window=window,
    )


def _hosts(
    network: str | Path | None,
    hosts: str | Path | Sequence[str] | None,
    nodes: int,
    gbit_s: float | None,
    oversubscription: float,
    ranks_per_node: int,
) -> tuple[SwitchNetwork, list[str], NDArray[np.int64]]:
    """Return the network, the names of the hosts that may be used, and their numbers."""
    if gbit_s is not None and not 0.01 <= gbit_s <= 1e5:
        raise InputError(f"is {gbit_s:g}, expected 0.01 to 100,000", argument="gbit_s")
    if not 1 <= oversubscription <= 1000:
        raise InputError(f"is {oversubscription:g}, expected 1 to 1,000", argument="oversubscription")
    rate = None if gbit_s is None else gbit_s * 1e9 / 8
    listed: list[str] | None = None
    if isinstance(hosts, str | Path):
        listed = read_hosts(hosts, ranks_per_node=ranks_per_node)
    elif hosts is not None:
        listed = list(hosts)
    for name in listed or ():
        if not is_host_name(name):
            raise InputError(f"has {name!r}, expected names of letters, digits, '.', '-' and '_'", argument="hosts")
    if network is None:
        built = default_network(max(nodes, len(listed or ())), rate)
    else:
        built = switch_network(str(network), bytes_per_s=rate, oversubscription=oversubscription)
    if listed is None:
        places = _usual_hosts(built)
        names = [built.hosts[place] for place in places.tolist()]
    elif network is None or not exists(network):
        # Generated networks have no names of their own: the hosts have the first places, in their order.
        if len(listed) > len(built.hosts):
            raise InputError(f"has {len(listed):,} hosts, expected at most {len(built.hosts):,}", argument="hosts")
        places, names = np.arange(len(listed), dtype=np.int64), listed
        if network is not None and set(listed) <= set(built.hosts):
            places = built.host_numbers(listed)
        elif network is not None:
            last = built.hosts[len(listed) - 1]
            text = (
                f"{listed[0]} to {listed[-1]} are the hosts {built.hosts[0]} to {last}, in their order: a network in "
            )
            built = replace(built, assumptions=(*built.assumptions, f"{text}words does not name your hosts"))
    else:
        places, names = built.host_numbers(listed), listed
    if len(set(names)) < len(names):
        raise InputError("has a host twice, expected each host once", argument="hosts")
    if places.size < nodes:
        raise InputError(
            f"has {places.size:,} hosts, expected at least {nodes:,} for the pattern",
            argument="network" if listed is None else "hosts",
        )
    built = replace(built, assumptions=(*built.assumptions, *_rails_assumed(built, places)))
    return built, names, places


def _usual_hosts(network: SwitchNetwork) -> NDArray[np.int64]:
    """Return the hosts with the usual number of end points: others, such as those of storage, run no ranks."""
    rails = np.diff(network.host_begin)
    counts = np.bincount(rails)
    return np.flatnonzero(rails == int(counts.argmax())).astype(np.int64)


def _rails_assumed(network: SwitchNetwork, hosts: NDArray[np.int64]) -> Iterator[str]:
    """Yield what is assumed about hosts with other numbers of end points."""
    rails = np.diff(network.host_begin)
    if np.ptp(rails[hosts]):
        text = f"hosts have {rails[hosts].min()} to {rails[hosts].max()} cards: each uses {rails[hosts].min()} of them"
        yield text
    elif np.ptp(rails) and hosts.size == int((rails == rails[hosts[0]]).sum()):
        yield f"{rails.size - hosts.size} hosts with another number of cards than {rails[hosts[0]]} run no ranks"


def _times(
    network: SwitchNetwork,
    flows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    orders: dict[str, list[NDArray[np.int64]]],
    places: NDArray[np.int64],
) -> tuple[pd.DataFrame, float]:
    """Return the median times of orders of hosts, and the time of the busiest port of a host in the last one."""
    source, target, size = flows
    rows, host_s, rails = [], 0.0, network.rails(places)
    for name, chosen in orders.items():
        for routing in ROUTINGS:
            loads = [link_loads(network, host[source], host[target], size, routing, rails) for host in chosen]
            loads.sort(key=lambda one: one.time_s)
            middle = loads[len(loads) // 2]
            host_s = middle.host_s
            busiest = network.link_name(middle.busiest)
            rows.append((name, routing, middle.time_s, busiest, float(middle.bytes[middle.busiest])))
    return pd.DataFrame(rows, columns=["order", "routing", "time_s", "busiest_link", "bytes"]), host_s
