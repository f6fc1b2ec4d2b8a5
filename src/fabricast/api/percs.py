"""Link loads and mappings of communication patterns on two-level direct networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError
from fabricast.core.quantities import check_count, check_seed
from fabricast.networks.launcher_files import write_rank_files
from fabricast.percs.divisions import divisions_of
from fabricast.percs.loads import ROUTINGS, route
from fabricast.percs.mapped_traffic import mapped_traffic
from fabricast.percs.mapping_search import bottleneck_s, search_mapping
from fabricast.percs.mappings import MAPPING_TITLES
from fabricast.percs.network_files import load_network
from fabricast.percs.packets import Pairs, simulate_packets


@with_checked_types
def link_loads(
    pattern: str | Path,
    *,
    mapping: str = "DEF",
    groups: int | None = None,
    gateway: str = "mod",
    multiplicity: int = 1,
    network: str | Path | None = None,
    tiles: int = 1,
    ranks_per_node: int | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Return the link loads of a mapped pattern for direct and indirect routing.

    The time of the busiest link is a lower bound of the time of the pattern.

    Parameters
    ----------
    pattern : str or Path
        Built-in pattern (2D-64, 4D-64, MChalf-64, ...), or file of bytes between ranks: square .csv, .csv or .parquet
        with the columns source,target,size_bytes, .mtx, or output of Open MPI's monitoring (.prof, or a folder).
    mapping : str, default 'DEF'
        Mapping: DEF, BNM, BDM, BSM, RNM, RDM, RNMu or RDMu. Matrices only support DEF and RNM.
    groups : int, optional
        Number of groups (supernodes); by default that in the name of a built-in pattern.
    gateway : {'mod', 'block', 'rel'}
        Rule that assigns links between groups to routers.
    multiplicity : int, default 1
        Number of parallel links between two groups.
    network : str or Path, optional
        YAML file of network parameters. It excludes `groups`.
    tiles : int, default 1
        Number of instances of a matrix, on separate ranks.
    ranks_per_node : int, optional
        Ranks of a matrix per node; by default the cores of a router.
    seed : int, default 1
        Seed of random mappings.

    Returns
    -------
    pandas.DataFrame
        One row per routing and class: links (LL within a drawer, LR within a group, D between groups), and injection
        and ejection of nodes. Columns: routing, class, links, used, mean_bytes, max_bytes, time_s (of the busiest
        member of the class), bottleneck (whether the class limits the routing).

    Raises
    ------
    InputError
        If a name is unknown or the job does not fit the network.

    References
    ----------
    Bhatele et al., "Avoiding hot-spots on two-level direct networks", SC11,
    https://doi.org/10.1145/2063384.2063486

    Examples
    --------
    >>> import fabricast as fc
    >>> loads = fc.link_loads("2D-64", mapping="RNM").set_index(["routing", "class"])
    >>> int(loads.loc[("direct", "D"), "links"])
    4032
    """
    check_count("tiles", tiles, 100_000)
    check_count("multiplicity", multiplicity, 65_536)
    check_seed(seed)
    machine = load_network(
        str(pattern),
        groups=groups,
        gateway=gateway,
        multiplicity=multiplicity,
        file=None if network is None else Path(network),
        ranks_per_node=ranks_per_node,
    )
    traffic, _, _ = mapped_traffic(str(pattern), mapping, machine, seed, tiles)
    rows = []
    # Indirect routes pass through a third group.
    for routing in ROUTINGS if machine.groups >= 3 else ("direct",):
        loads = route(traffic, machine, routing)
        times = loads.class_times_s()
        for name, load in loads.by_class.items():
            rows.append(
                {
                    "routing": routing,
                    "class": name,
                    "links": load.size,
                    "used": int((load > 0).sum()),
                    "mean_bytes": float(load.mean()) if load.size else 0.0,
                    "max_bytes": loads.busiest_bytes[name],
                    "time_s": times[name],
                    "bottleneck": name == loads.limit[1],
                }
            )
        for name, load in (("injection", loads.injected), ("ejection", loads.ejected)):
            rows.append(
                {
                    "routing": routing,
                    "class": name,
                    "links": load.size,
                    "used": int((load > 0).sum()),
                    "mean_bytes": float(load.mean()),
                    "max_bytes": float(load.max()),
                    "time_s": loads.node_times_s()[name],
                    "bottleneck": name == loads.limit[1],
                }
            )
    return pd.DataFrame(rows)


#: Name of the mapping that a search chooses, beside those of the study.
SEARCHED = "search"


@dataclass(frozen=True, repr=False)
class TaskMapping:
    """Routers of the ranks of a pattern, and the times of the busiest link with each mapping.

    Parameters
    ----------
    pattern : str
        What was mapped.
    times : pandas.DataFrame
        One row per mapping: mapping (DEF, RNM, ..., search), title (in words), time_s (of the busiest link).
    router_of_rank : ndarray of int64, shape (ranks,)
        Router of each rank with the searched mapping.
    time_s : float
        Time of the busiest link in s with the searched mapping.
    injection_s, ejection_s : float
        Time of the busiest node in s, which no mapping changes.
    packets_s : float
        Arrival of the last packet in s, simulated with the searched mapping.
    nodes, routers : int
        Number of nodes with ranks, and of routers of the network.
    ranks_per_node : int
        Ranks of a node.
    proposals : int
        Number of swaps that were tried.
    """

    pattern: str
    times: pd.DataFrame
    router_of_rank: NDArray[np.int64]
    time_s: float
    injection_s: float
    ejection_s: float
    packets_s: float
    nodes: int
    routers: int
    ranks_per_node: int
    proposals: int

    def write(self, stem: str | Path, hosts: Sequence[str]) -> list[Path]:
        """Write ``stem.rankfile`` (Open MPI) and ``stem.hosts`` (``srun -m arbitrary``); hosts name the routers."""
        if len(hosts) != self.routers:
            raise InputError(
                f"has {len(hosts):,} names, expected one for each of the {self.routers:,} routers, in their order",
                argument="hosts",
            )
        return write_rank_files(self.router_of_rank, self.ranks_per_node, list(hosts), Path(stem))

    def __repr__(self) -> str:
        return f"{self.pattern}, {self.nodes:,} nodes on {self.routers:,} routers\n{self.times.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return str(self.times.to_html(index=False))


@with_checked_types
def map_tasks(
    pattern: str | Path,
    *,
    groups: int | None = None,
    gateway: str = "mod",
    multiplicity: int = 1,
    network: str | Path | None = None,
    tiles: int = 1,
    ranks_per_node: int | None = None,
    proposals: int = 4_000_000,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> TaskMapping:
    """Compare the mappings of the SC11 study on a two-level direct network, and search a better one.

    The search minimises the load of the busiest link with direct routes. It starts from the best named mapping, so
    that it is never worse. `fabricast.map_ranks` is for networks of switches.

    Parameters
    ----------
    pattern, groups, gateway, multiplicity, network, tiles, ranks_per_node
        See `link_loads`.
    proposals : int, default 4000000
        Number of swaps to try.
    seed : int, default 1
        Seed of the search and of random mappings.
    progress : callable, optional
        Called with the number of swaps tried since the previous call.

    Returns
    -------
    TaskMapping
        Times of all mappings, and the router of each rank.

    Raises
    ------
    InputError
        If a name is unknown, the job does not fit the network, or nodes exchange nothing.

    References
    ----------
    Bhatele et al., "Avoiding hot-spots on two-level direct networks", SC11,
    https://doi.org/10.1145/2063384.2063486

    Examples
    --------
    >>> import fabricast as fc
    >>> found = fc.map_tasks("2D-64", proposals=20_000)
    >>> bool(found.times.set_index("mapping").loc["DEF", "time_s"] > found.time_s)
    True
    """
    check_count("tiles", tiles, 100_000)
    check_count("multiplicity", multiplicity, 65_536)
    check_count("proposals", proposals, 10_000_000_000)
    check_seed(seed)
    machine = load_network(
        str(pattern),
        groups=groups,
        gateway=gateway,
        multiplicity=multiplicity,
        file=None if network is None else Path(network),
        ranks_per_node=ranks_per_node,
    )
    divisions = divisions_of(str(pattern), machine, seed, tiles)
    times = {
        name: bottleneck_s(division.pairs, position, machine)
        for division in divisions
        for name, position in division.positions.items()
    }
    best = min(times, key=lambda name: times[name])
    chosen = next(division for division in divisions if best in division.positions)
    pairs, block = chosen.pairs, chosen.block
    blocks = int(block.max()) + 1
    if blocks > machine.routers:
        raise InputError(f"'{pattern}' needs {blocks:,} routers, the network has {machine.routers:,}")
    if pairs[0].size == 0:
        raise InputError(
            f"'{pattern}' has no messages between nodes of {machine.cores_per_router} ranks: all mappings are equal"
        )
    search = search_mapping(pairs, chosen.positions[best], machine, proposals=proposals, seed=seed, progress=progress)
    moved = (search.position[pairs[0]], search.position[pairs[1]], pairs[2])
    order = np.lexsort((moved[1], moved[0]))
    ordered: Pairs = (moved[0][order], moved[1][order], moved[2][order])
    run = simulate_packets(ordered, machine, "direct", packet_bytes=max(float(pairs[2].max()) / 16, 1.0))
    searched_s = min(search.bottleneck_s, times[best])
    injection_s, ejection_s = (
        float(np.bincount(end, weights=pairs[2]).max()) / machine.injection_bytes_per_s for end in pairs[:2]
    )
    names = [*times, SEARCHED]
    titles = [*(MAPPING_TITLES[name] for name in times), f"{search.proposals:,} swaps tried from {best}"]
    return TaskMapping(
        str(pattern),
        pd.DataFrame({"mapping": names, "title": titles, "time_s": [*times.values(), searched_s]}),
        search.position[block],
        searched_s,
        injection_s,
        ejection_s,
        run.elapsed_s,
        blocks,
        machine.routers,
        machine.cores_per_router,
        search.proposals,
    )
