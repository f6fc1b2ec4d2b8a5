"""Modelled workloads of slide 24.

All profiles are [assumed] because the bars of the slide are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fabricast.gpucentric.methods import (
    CONTROLS,
    GRIDS,
    Values,
    allreduce_time_s,
    control_ratios,
    energy_j,
    message_time_s,
    step_time_s,
)

NODES = (2, 4, 6, 8, 10, 12)
METHODS_SHOWN = ("mpi", "ggas", "rma")
_STENCIL_POINT_BYTES = 4.0
_RANDOM_ACCESSES = 1000


@dataclass(frozen=True)
class _Workload:
    name: str
    overlap: float
    size: float


WORKLOADS = (
    _Workload("nbody_small", 0.9, 8192.0),
    _Workload("nbody_large", 0.9, 65536.0),
    _Workload("sum_small", 0.0, 8.0),
    _Workload("sum_large", 0.0, 2.0**20),
    _Workload("himeno", 0.8, 256.0),
    _Workload("random_access", 0.0, 8.0),
)


def _parts(workload: _Workload, method: str, value: Values, nodes: int) -> tuple[Any, Any]:
    """Return the communication time and the computation time of a step in s."""
    size = workload.size
    if workload.name.startswith("nbody"):
        message = message_time_s(method, value, size / nodes * value["body_bytes"])
        return (nodes - 1) * message, size**2 / nodes / value["body_rate"]
    if workload.name.startswith("sum"):
        return allreduce_time_s(method, value, size, nodes), 0.0
    if workload.name == "himeno":
        faces = 2 * message_time_s(method, value, size**2 * _STENCIL_POINT_BYTES)
        return faces, size**3 / nodes / value["stencil_rate"]
    return _RANDOM_ACCESSES * message_time_s(method, value, size), 0.0


def workload_rows(value: Values) -> pd.DataFrame:
    """Return time and energy of each workload, method and number of nodes."""
    rows = []
    for workload in WORKLOADS:
        for nodes in NODES:
            results = {}
            for method in METHODS_SHOWN:
                communication, compute = _parts(workload, method, value, nodes)
                total = float(step_time_s(method, value, communication, compute, workload.overlap))
                results[method] = (total, float(energy_j(method, value, total, communication, compute)))
            for method, (time, energy) in results.items():
                rows.append(
                    {
                        "workload": workload.name,
                        "nodes": nodes,
                        "method": method,
                        "time_s": time,
                        "energy_j": energy,
                        "performance_ratio": results["mpi"][0] / time,
                        "energy_ratio": energy / results["mpi"][1],
                    }
                )
    return pd.DataFrame(rows)


def control_rows(value: Values, drawn: Values) -> pd.DataFrame:
    """Return performance and energy of each control method relative to control by the CPU."""
    rows = []
    for grid in GRIDS:
        for control in CONTROLS:
            row: dict[str, Any] = {"control": control, "grid": "x".join(map(str, grid)), "points": int(np.prod(grid))}
            for name, parameters in (("", value), ("drawn", drawn)):
                ratios = control_ratios(control, parameters, grid)
                for quantity, ratio in zip(("performance", "energy"), ratios, strict=True):
                    if not name:
                        row[quantity] = float(ratio)
                    else:
                        row[f"{quantity}_low"], row[f"{quantity}_high"] = np.percentile(ratio, [5, 95]).tolist()
            rows.append(row)
    return pd.DataFrame(rows)
