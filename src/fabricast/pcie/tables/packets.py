"""Packet-level simulations as table rows: references of kind ``simulated``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from fabricast.core.seeds import random_generator
from fabricast.pcie.models.calibration import calibrate, estimate_frame
from fabricast.pcie.packets.arbiter_phases import simulate
from fabricast.pcie.packets.equivalent_runs import share_of_runs
from fabricast.pcie.packets.hardware import HARDWARE
from fabricast.pcie.packets.probes import simulate_probes
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.pcie.topology.tree import PcieTree


def _origin_of(hardware: str) -> str:
    """Return the origin of references that were simulated with a hardware setting."""
    return f"packets.{hardware}"


def _choose_graphs(graph: pd.DataFrame, count: int | None, *, seed: int) -> pd.DataFrame:
    """Choose the graphs to simulate: all graphs or a stratified sample."""
    if count is None or count >= len(graph):
        return graph
    generator = random_generator(seed, "pcie.simulated_sample")
    strata = graph.groupby(["subset", "family", "communications"], sort=True).indices
    chosen = []
    for positions in strata.values():
        size = max(1, round(count * len(positions) / len(graph)))
        chosen.append(generator.choice(positions, size=min(size, len(positions)), replace=False))
    return graph.iloc[np.sort(np.concatenate(chosen))]


def chosen_graphs(
    graph: pd.DataFrame, count: int | None, hardware: Mapping[str, int | None], *, seed: int
) -> dict[str, list[str]]:
    """Return the graphs to simulate with each hardware setting."""
    candidates = _choose_graphs(graph, count, seed=seed)
    return {name: _choose_graphs(candidates, sample, seed=seed)["graph"].tolist() for name, sample in hardware.items()}


def graphs_of_job(
    tree: PcieTree, communication: pd.DataFrame, chosen: Mapping[str, list[str]], *, shard: int, shards: int
) -> dict[str, list[str]]:
    """Return the graphs that one of several jobs simulates with each setting."""
    if shards == 1:
        return dict(chosen)
    names_of_setting = {}
    for name, names in chosen.items():
        graphs = graphs_from_rows(tree, _rows_of_graphs(communication, names))
        share = share_of_runs(tree, graphs, HARDWARE[name].on(tree), shard=shard, shards=shards)
        names_of_setting[name] = [graphs.names[number] for number in share]
    return names_of_setting


def _rows_of_graphs(communication: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return communication[communication["graph"].isin(set(names))].reset_index(drop=True)


def simulated_rows(
    tree: PcieTree,
    communication: pd.DataFrame,
    chosen: Mapping[str, list[str]],
    *,
    threads: int,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Simulate graphs and return the elapsed times as references."""
    frames = []
    every = communication
    for name, names in chosen.items():
        communication = _rows_of_graphs(every, names)
        graphs = graphs_from_rows(tree, communication)
        ends = simulate(tree, graphs, HARDWARE[name].on(tree), threads=threads, progress=progress)
        frames.append(
            pd.DataFrame(
                {
                    "study": "pcie",
                    "case_id": communication["graph"],
                    "item": communication["communication"].astype(str),
                    "quantity": "elapsed",
                    "kind": "simulated",
                    "origin": _origin_of(name),
                    "value": ends.end_s - graphs.start_s,
                    "unit": "s",
                    "spread": (ends.latest_s - ends.earliest_s) / 2,
                    "low": ends.earliest_s - graphs.start_s,
                    "high": ends.latest_s - graphs.start_s,
                    "tag": "derived",
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def calibration_rows(tree: PcieTree, hardware: list[str], *, size_bytes: float, seed: int) -> pd.DataFrame:
    """Calibrate the models on simulated probes of each hardware setting."""
    frames = []
    for name in hardware:
        times = simulate_probes(tree, HARDWARE[name].on(tree), size_bytes=size_bytes)
        frames.append(
            estimate_frame(
                calibrate(tree, times, seed=seed),
                system=f"{tree.name}.{_origin_of(name)}",
                tag="derived",
                source="calibrated on simulated probes: isolated local copy, isolated crossing copy, conflict of both",
            )
        )
    return pd.concat(frames, ignore_index=True)
