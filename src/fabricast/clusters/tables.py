"""Result tables of application patterns on clusters, from GPU to network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from fabricast.clusters.build import build_cluster
from fabricast.clusters.evidence import measured_patterns
from fabricast.clusters.forecast import ClusterCopies, forecast_copies
from fabricast.inputs.cluster_files import ClusterStatement, NodeKind
from fabricast.networks.patterns import grid_of, rank_pairs

#: Nodes of the study.
_NODES, _NODE, _RANKS = 64, "hgx_h100", 512
#: Hosts of a job on a tree of 24 leaves with 16 hosts each, consecutive nodes at different leaves.
_SCATTERED = ",".join(f"host{16 * (node % 24) + node // 24}" for node in range(_NODES))
#: Clusters of the study: cards of a node, network, and hosts of the job in it.
_CLUSTERS = {
    "eight cards, full tree": ("8x400", "fat_tree:2,32,16@400", None),
    "four cards, full tree": ("4x400", "fat_tree:2,32,16@400", None),
    "eight cards, half of the links, scattered hosts": ("8x400", "fat_tree:2,24,8@400", _SCATTERED),
}
_PATTERNS = {"4D stencil": "halo:4x4x4x8,8 MiB", "all-to-all": f"all_to_all:{_RANKS},256 KiB"}


_LAYER_COLUMNS = (
    "cluster", "pattern", "layer", "share_of_copies", "time_without_s", "gain", "copies", "time_s", "is_lower_bound",
    "limits_last", "user_supplied",
)  # fmt: skip
_CHOICE_COLUMNS = ("cluster", "pattern", "choice", "time_s", "gain", "user_supplied")


class PatternRun(NamedTuple):
    """Forecast of one pattern on one cluster."""

    cluster: str
    pattern: str
    found: ClusterCopies
    user_supplied: bool


@dataclass(frozen=True)
class ClusterTables:
    """Result tables; rows as defined in schema.sql."""

    #: Layers and choices of each pattern, and measured copies with their forecasts.
    cluster_layer: pd.DataFrame
    cluster_choice: pd.DataFrame
    cluster_copy: pd.DataFrame


def study_runs() -> list[PatternRun]:
    """Return the patterns of 512 GPUs on 64 nodes, by network cards and network."""
    runs = []
    for name, (cards, switches, hosts) in _CLUSTERS.items():
        kind = NodeKind(_NODE, _NODES, cards)
        statement = ClusterStatement(name, (kind,), network="InfiniBand", switches=switches, hosts=hosts)
        cluster = build_cluster(statement)
        for pattern, words in _PATTERNS.items():
            pairs = rank_pairs(words)
            found = forecast_copies(cluster, pairs.source, pairs.target, pairs.size_bytes, grid=grid_of(words))
            runs.append(PatternRun(name, pattern, found, user_supplied=False))
    return runs


def cluster_tables(runs: Iterable[PatternRun]) -> ClusterTables:
    """Return the tables of patterns, and of public measurements of copies between nodes."""
    layers, choices = [], []
    for run in runs:
        of_run = run.found.layers.assign(cluster=run.cluster, pattern=run.pattern, user_supplied=run.user_supplied)
        of_run["copies"], of_run["time_s"] = len(run.found.table), run.found.time_s
        of_run["is_lower_bound"] = not run.found.is_simulated
        of_run["limits_last"] = of_run["layer"] == run.found.layer
        layers.append(of_run[list(_LAYER_COLUMNS)])
        given = pd.DataFrame([{"choice": "unchanged", "time_s": run.found.time_s, "gain": 1.0}])
        tried = pd.concat([given, run.found.choices], ignore_index=True) if len(run.found.choices) else given
        tried = tried.assign(cluster=run.cluster, pattern=run.pattern, user_supplied=run.user_supplied)
        choices.append(tried[list(_CHOICE_COLUMNS)])
    of_layers, of_choices = pd.concat(layers, ignore_index=True), pd.concat(choices, ignore_index=True)
    measured = pd.DataFrame(measured_patterns()).rename(columns={"machine": "system"})
    measured.insert(2, "row", measured.groupby(["pattern", "system"]).cumcount())
    return ClusterTables(of_layers, of_choices, measured)
