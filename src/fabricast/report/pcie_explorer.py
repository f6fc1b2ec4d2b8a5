"""Data of the PCIe explorer: trees, models and parameters for the JavaScript kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np

from fabricast.api.machine_inputs import load_topology
from fabricast.core.errors import InputError, UnknownSpeedError
from fabricast.pcie.graphs.programs import PROGRAMS
from fabricast.pcie.machines.calibrate import DUPLEX_COST
from fabricast.pcie.machines.engine_model import PORTS_AND_ENGINES
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.parameters import machine_parameters
from fabricast.pcie.topology.paths import reverse_links
from fabricast.pcie.topology.tree import PcieTree

#: Models that can be chosen in addition to the recommended one, which is the default.
_MODELS = ("congestion_factor", "back_pressure", "round_robin_upstream", "max_min", "busiest_link", "no_contention")
#: Largest number of endpoints of a tree that fits on the page.
_MOST_ENDPOINTS = 16
#: Copies of the worked example, which are the initial graph of trees with these GPUs.
_FIRST = ((0, 2), (1, 4), (3, 2), (6, 4))


def _explored_tree(tree: PcieTree) -> dict[str, Any]:
    """Return the positions, links and routes of a tree for drawing and for the kernels.

    >>> from fabricast.pcie.topology.builtin import load_tree
    >>> _explored_tree(load_tree("storm8"))["endpoints"][:3]
    ['0', '1', '2']
    """
    routes = tree.routes
    place: dict[str, float] = {}

    def stand(name: str) -> None:
        """Assign endpoint positions in depth-first order, so that no two links cross."""
        if tree.vertex(name).kind == "endpoint":
            place[name] = float(len(place))
        for child in sorted(tree.children(name), key=lambda child: _first_below(tree, child)):
            stand(child)

    stand(tree.root)
    for vertex in sorted(tree.vertices, key=lambda vertex: -tree.depth[vertex.name]):
        if vertex.kind != "endpoint":
            place[vertex.name] = float(np.mean([place[child] for child in tree.children(vertex.name)]))
    return {
        "name": tree.name,
        "endpoints": list(tree.endpoint_names),
        "vertices": [
            {"name": v.name, "kind": v.kind, "x": place[v.name], "y": tree.depth[v.name]} for v in tree.vertices
        ],
        "links": [
            {"source": s, "target": t, "up": direction == "pcie_up", "port": p}
            for s, t, direction, p in tree.link_names
        ],
        "gpus": [name in tree.accelerator_names for name in tree.endpoint_names],
        "opposite": reverse_links(tree).tolist(),
        "staged": bool(tree.staged_pairs),
        "peers": [list(link.endpoints) for link in tree.peer_links],
        "routes": {
            "endpoints": routes.endpoints,
            "route_offset": routes.offset.tolist(),
            "route_link": routes.link.tolist(),
            "crossing_pair": routes.crossing.astype(int).tolist(),
            "capacity": routes.capacity.tolist(),
            "leaves_root_complex": routes.leaves_root_complex.astype(int).tolist(),
            "behind_root_complex": routes.behind_root_complex.astype(int).tolist(),
            "upstream_links": routes.upstream_links,
        },
    }


def _first_below(tree: PcieTree, name: str) -> int:
    """Return the smallest number of an endpoint at or below a vertex."""
    if tree.vertex(name).kind == "endpoint":
        return tree.endpoint_number[name]
    return min((_first_below(tree, child) for child in tree.children(name)), default=len(tree.endpoint_names))


def _default_parameters(tree: PcieTree) -> dict[str, tuple[float, str]]:
    """Return the parameters that `fabricast predict` uses for a tree, with their tags; empty if unknown."""
    try:
        rows = machine_parameters(tree).rows
    except UnknownSpeedError:
        return {}
    return {row.name: (row.value, row.tag) for row in rows}


def pcie_explorer(connection: duckdb.DuckDBPyConnection, sets: Mapping[str, str]) -> dict[str, Any]:
    """Return models, and trees with the parameters of this run, for the explorer."""
    values: dict[str, dict[str, tuple[float, str]]] = {}
    for system, name, value, tag in connection.sql(
        "SELECT system, name, value, tag::VARCHAR FROM parameter WHERE study = 'pcie' "
        "AND name IN ('bandwidth', 'tau', 'crossing_cost')"
    ).fetchall():
        values.setdefault(system, {})[name] = (value, tag)
    built_in = [name for (name,) in connection.sql("SELECT topology FROM topology ORDER BY topology").fetchall()]
    set_values = {topology: values.get(f"graph_set.{name}", {}) for name, topology in sets.items()}
    trees = []
    for topology in dict.fromkeys([*set_values, *built_in]):
        try:
            tree = load_topology(topology)
        except InputError:
            # The topology file of this run is not available where the report is written.
            continue
        if not 2 <= len(tree.endpoint_names) <= _MOST_ENDPOINTS:
            continue
        parameters = set_values.get(topology) or _default_parameters(tree)
        trees.append(
            _explored_tree(tree)
            | {name: value for name, (value, _) in parameters.items()}
            | {"tag": parameters["bandwidth"][1] if "bandwidth" in parameters else None}
        )
    recommended = {
        "name": PORTS_AND_ENGINES,
        "title": "ports, engines and program (recommended)",
        "method": "ENGINES",
        "options": [],
        "uses_tau": True,
    }
    models = [
        {
            "name": name,
            "title": MODELS[name].title,
            "method": MODELS[name].method.upper(),
            "options": MODELS[name].options.vector().tolist(),
            "uses_tau": MODELS[name].uses_tau,
        }
        for name in _MODELS
    ]
    engines = {"duplex_cost": DUPLEX_COST, "pause": PROGRAMS["listed_order"].switch_share}
    return {"models": [recommended, *models], "trees": trees, "engines": engines, "first": _FIRST}
