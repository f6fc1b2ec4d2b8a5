"""Time of a small message between nodes: stated, measured, or composed of the parts of Breaking Band."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fabricast.breakdown.components import read_systems
from fabricast.clusters.machine import ClusterMachine
from fabricast.core.resources import published

_SYSTEM, _SWITCH = "thunderx2", "switch"


@dataclass(frozen=True)
class Latency:
    """Time of a small message between two nodes."""

    #: Time of each copy in s; those within a node have one, too, which is not used, shape (copies,).
    time_s: NDArray[np.float64]
    source: str  # Origin in words
    is_assumed: bool  # Whether no input states it


@cache
def _parts() -> tuple[float, float]:
    """Return the latency of the paper's machine without its switch, and that of a switch, in s."""
    systems = {one.system: one for one in read_systems(published() / "breakdown_components.csv")}
    switch = systems[_SYSTEM].time_ns(_SWITCH)
    return (systems[_SYSTEM].total_ns("latency") - switch) * 1e-9, switch * 1e-9


def message_latency(cluster: ClusterMachine, switches: NDArray[np.int64]) -> Latency:
    """Return the time of a small message of each copy.

    Without a statement, it is the sum of the parts of Zambre et al. ("Breaking Band"), with one switch for each switch
    on the route.

    Shapes: switches (copies,).
    """
    if cluster.latency_s is not None:
        return Latency(np.full(switches.shape, cluster.latency_s), "stated or measured", is_assumed=False)
    rest, switch = _parts()
    time_s = rest + switch * np.maximum(switches, 1)
    text = f"{float(np.median(time_s)) * 1e6:.2f} us, the parts of a host message in Breaking Band"
    return Latency(time_s, text, is_assumed=True)
