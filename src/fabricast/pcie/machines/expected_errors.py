"""Expected error of a forecast: that of the model on public measurements of the same class of graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fabricast.core.resources import published
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.pair_rates import link_class
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.measurements.measured_graph import (
    BETWEEN_ROOTS,
    DIRECT_LINKS,
    FEW_COPIES,
    HOST_COPIES,
    MANY_COPIES,
    MOST_OF_FEW,
)
from fabricast.pcie.topology.tree import PcieTree

#: Limits that a machine's probes measure.
HOST_MEMORY, INTER_SOCKET_LINK = "host memory", "link between root complexes"
#: Routes between sockets, which no probe measures: the same copies in the reverse direction have other routes.
SOCKET_ROUTES = "routes between root complexes"
_CLASS_OF_LIMIT = {HOST_MEMORY: HOST_COPIES, INTER_SOCKET_LINK: BETWEEN_ROOTS, SOCKET_ROUTES: BETWEEN_ROOTS}


class ExpectedError(NamedTuple):
    """Relative error of a model on the measured graphs of a class: count, median, share within 15 %, and worst.

    `sharing` is the median error of fair sharing of links with the rates of the model.
    """

    graphs: int
    median: float
    within_band: float
    worst: float
    sharing: float


@lru_cache(maxsize=1)
def expected_errors() -> dict[tuple[str, str], ExpectedError]:
    """Return the errors by class of graphs and name of the model.

    >>> expected_errors()["few copies", "ports_and_engines"].within_band > 0.9
    True
    """
    columns = ("graph_class", "model", "graphs", "median", "within_band", "worst", "sharing_median")
    return {
        (row["graph_class"], row["model"]): ExpectedError(
            int(row["graphs"]), *(row.number(name) for name in ("median", "within_band", "worst", "sharing_median"))
        )
        for row in read_csv(published() / "forecast_errors.csv", columns)
    }


class UnprobedError(NamedTuple):
    """Ratio of measured times to the earliest time of forecasts that lack the probe of a limit.

    For routes between sockets: ratio of the times of the same copies in both directions.
    """

    machines: int
    graphs: int
    lowest: float
    median: float
    highest: float


@lru_cache(maxsize=1)
def unprobed_errors() -> dict[str, UnprobedError]:
    """Return the ratios by the limit that no probe measured.

    >>> unprobed_errors()["host memory"].lowest > 0.9
    True
    """
    columns = ("limit", "machines", "graphs", "in_range", "lowest", "median", "highest")
    return {
        row["limit"]: UnprobedError(
            int(row["machines"]), int(row["graphs"]), *(row.number(name) for name in ("lowest", "median", "highest"))
        )
        for row in read_csv(published() / "unprobed_errors.csv", columns)
    }


def graph_classes(tree: PcieTree, graphs: CongestionGraphs) -> set[str]:
    """Return the classes of some graphs.

    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> graph_classes(tree, fc.all_to_all(tree)), graph_classes(tree, fc.graph([(0, 1), (0, 4)]))
    ({'many copies of a GPU'}, {'few copies'})
    """
    if not len(graphs):
        return set()
    names, endpoints = tree.endpoint_names, len(tree.endpoint_names)
    is_memory = np.array([tree.vertex(name).host_memory for name in names])
    is_direct = np.zeros((endpoints, endpoints), dtype=bool)
    for peers in tree.peer_links:
        numbers = [tree.endpoint_number[name] for name in peers.endpoints]
        is_direct[np.ix_(numbers, numbers)] = True
    of_graph = graphs.graph_of_communication
    over_links = is_direct[graphs.source, graphs.target]

    def of_any(copies: np.ndarray) -> np.ndarray:
        return np.bincount(of_graph, weights=copies, minlength=len(graphs)) > 0

    host = of_any(is_memory[graphs.source] | is_memory[graphs.target])
    direct = of_any(over_links) & ~host
    # Copies over the tree of a graph that also has copies over direct links have their classes, too.
    over_tree = of_any(~over_links) & ~host
    most = np.zeros(len(graphs), dtype=np.int64)
    for ends in (graphs.source, graphs.target):
        places = of_graph[~over_links] * endpoints + ends[~over_links]
        counts = np.bincount(places, minlength=len(graphs) * endpoints)
        most = np.maximum(most, counts.reshape(-1, endpoints).max(axis=1))
    many = (most > MOST_OF_FEW) & over_tree
    between = of_any(_between_sockets(tree)[graphs.source, graphs.target] & ~over_links) & over_tree
    few = over_tree & ~many & ~between
    found = {HOST_COPIES: host, DIRECT_LINKS: direct, MANY_COPIES: many, BETWEEN_ROOTS: between, FEW_COPIES: few}
    return {name for name, members in found.items() if members.any()}


@lru_cache(maxsize=8)
def _between_sockets(tree: PcieTree) -> np.ndarray:
    """Return whether the route of each pair of endpoints connects two sockets."""
    names = tree.endpoint_names
    return np.array([[s != t and tree.vertex(tree.turn(s, t)).kind == "system" for t in names] for s in names])


def expected_error_text(
    model: str,
    classes: set[str],
    unprobed: Collection[str] = (),
    nominal_links: Collection[str] = (),
    *,
    is_measured: bool = True,
) -> str:
    """Return the expected error of a model for some classes of graphs in one line.

    `nominal_links` are the kinds of direct links whose rates were not measured. The errors over the tree are those of
    machines with measured copies; for others, they are unknown.

    >>> expected_error_text("congestion_factor", {"host copies"})
    'expected error of congestion_factor: host copies: unknown, no public measurements'
    >>> expected_error_text("ports_and_engines", {"host copies"}, ["host memory"]).partition(" took")[0]
    'expected error of ports_and_engines: without a probe of the host memory, measured copies'
    """
    parts = [_unprobed_text(limit) for limit in unprobed]
    replaced = {_CLASS_OF_LIMIT[limit] for limit in unprobed}
    if nominal_links:
        errors = default_error_text(map(link_class, nominal_links))
        parts.append(f"without measurements: {errors}; several copies: unknown")
        replaced.add(DIRECT_LINKS)
    for name in sorted(classes - replaced):
        error = expected_errors().get((name, model)) if is_measured or name == DIRECT_LINKS else None
        measured = f"unknown, no {'public measurements' if is_measured else 'copies of this machine are measured'}"
        if error is not None:
            measured = f"median {100 * error.median:.1f} %, {100 * error.within_band:.0f} % of {error.graphs} measured"
            measured += " graphs within 15 %"
        parts.append(f"{_MEASURED_ON.get(name, name) if error is not None else name}: {measured}")
    return f"expected error of {model}: {'; '.join(parts)}"


class DefaultError(NamedTuple):
    """Relative error of default rates on machines left out, and that of the payload share of the link."""

    machines: int
    figures: int
    median: float
    within_band: float
    worst: float
    link_median: float


@lru_cache(maxsize=1)
def default_errors() -> dict[str, DefaultError]:
    """Return the errors of rates that are not measured, by class of copies.

    >>> default_errors()["direct copies"].median < 0.1
    True
    """
    columns = ("copy_class", "machines", "figures", "median", "third_quartile", "within_band", "worst", "inside")
    return {
        row["copy_class"]: DefaultError(
            int(row["machines"]),
            int(row["figures"]),
            *(row.number(name) for name in ("median", "within_band", "worst", "link_median")),
        )
        for row in read_csv(published() / "default_errors.csv", (*columns, "link_median"))
    }


def unmeasured_error_text(
    model: str, classes: set[str], nominal_links: Collection[str] = (), *, has_superchips: bool = False
) -> str:
    """Return the expected error of a machine without measurements: that of single copies on public machines.

    >>> unmeasured_error_text("ports_and_engines", {"few copies"}).partition(" median")[0]
    'expected error of ports_and_engines without measurements: single direct copies:'
    """
    over_tree = classes - {DIRECT_LINKS}
    parts = [default_error_text(map(link_class, nominal_links))] if DIRECT_LINKS in classes else []
    if over_tree:
        of_host = "copies over NVLink-C2C" if has_superchips else "host copies"
        parts.append(default_error_text({of_host if one == HOST_COPIES else "direct copies" for one in over_tree}))
    return f"expected error of {model} without measurements: {'; '.join(parts)}; several copies: unknown"


def default_error_text(classes: Iterable[str]) -> str:
    """Return the errors of default rates for some classes of single copies."""
    found = {name: default_errors()[name] for name in sorted(set(classes))}
    return "; ".join(
        f"single {_MEASURED_ON.get(name, name)}: median {100 * error.median:.0f} %, worst {100 * error.worst:.0f} % on "
        f"{error.machines} machines left out"
        for name, error in found.items()
    )


#: Classes that were measured on some kinds of machines only, in words.
_MEASURED_ON = {
    "direct links": "direct links (measured over NVSwitch only)",
    "copies over xGMI": "copies over xGMI (measured on MI300X and MI350X only)",
    "copies over NVLink-C2C": "copies over NVLink-C2C with the nearest host memory",
}


def _unprobed_text(limit: str) -> str:
    error = unprobed_errors()[limit]
    machines = "1 machine" if error.machines == 1 else f"{error.machines} machines"
    if limit == SOCKET_ROUTES:
        return (
            f"{limit} are unknown: the same copies in the reverse direction took {error.lowest:.2f} to "
            f"{error.highest:.2f} times as long, median {error.median:.2f} ({error.graphs} graphs of {machines})"
        )
    return (
        f"without a probe of the {limit}, measured copies took {error.lowest:.2f} to {error.highest:.2f} times "
        f"earliest_s, median {error.median:.2f} ({error.graphs} graphs of {machines})"
    )
