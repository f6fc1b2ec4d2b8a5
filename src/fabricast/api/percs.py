"""Link loads of communication patterns on two-level direct networks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fabricast.core.arguments import with_checked_types
from fabricast.core.quantities import check_count, check_seed
from fabricast.percs.loads import ROUTINGS, route
from fabricast.percs.mapped_traffic import mapped_traffic
from fabricast.percs.network_files import load_network


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
