"""Measured latency breakdown of an MPI message through shared memory.

The measurement needs neither NIC nor PCIe analyser. It therefore has no I/O or network components: the
difference between CPU timers and observed latency is not broken down.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.breakdown.traces import read_timers
from fabricast.core.errors import InputError
from fabricast.inputs.files import atomic_write
from fabricast.runtime.machine import processor_name
from fabricast.runtime.mpi_launch import launch

_TIMEOUT_S = 300
#: Component, parent group, side and title of each timed region.
_COMPONENTS = {
    "mpi_isend": ("hlp_and_llp_post", "post", "initiator", "MPI_Isend"),
    "send_progress": ("tx_progress", "progress", "initiator", "MPI_Wait of the sender"),
    "receive_progress": ("rx_progress", "progress", "target", "MPI_Recv of a message that has arrived"),
}


@dataclass(frozen=True)
class MeasuredTables:
    """Result tables of a measurement."""

    #: Rows as defined in schema.sql; empty if nothing was measured.
    breakdown_component: pd.DataFrame
    breakdown_total: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame


def measure_message(path: Path | str, *, iterations: int) -> None:
    """Measure an MPI message between two processes of the local machine."""
    with atomic_write(path) as temporary:
        launch(
            "fabricast.breakdown.measured.mpi_timers", [str(temporary), str(iterations)], ranks=2, timeout_s=_TIMEOUT_S
        )


def measured_tables(timers_file: Path | str | None) -> MeasuredTables:
    """Convert measured timers to result tables."""
    if timers_file is None:
        return MeasuredTables(
            pd.DataFrame(columns=["system", "component"]),
            pd.DataFrame(columns=["system", "metric"]),
            pd.DataFrame(columns=["study", "case_id", "item", "quantity", "model"]),
            pd.DataFrame(columns=["study", "case_id", "item", "quantity", "kind", "origin"]),
        )
    timers = read_timers(timers_file)
    net = timers.assign(net_ns=timers["raw_ns"] - timers["overhead_ns"])
    values = {str(region): part["net_ns"].to_numpy() for region, part in net.groupby("region")}
    missing = [region for region in (*_COMPONENTS, "ping_pong") if region not in values]
    if missing:
        raise InputError(f"lacks the regions {', '.join(missing)}", path=Path(timers_file))
    system = "this_machine.shared_memory"
    overhead = float(timers["overhead_ns"].median())
    source = f"measured on {processor_name()}; clock overhead of {overhead:.0f} ns subtracted; mpi4py call included"
    components = pd.DataFrame(
        [
            {
                "system": system,
                "component": name,
                "parent": parent,
                "layer": "CPU",
                "side": side,
                "time_ns": float(np.median(values[region])),
                "tag": "measured",
                "source": f"{title}; {source}",
                "spread_ns": float(np.subtract(*np.percentile(values[region], [75, 25])) / 1.349),
            }
            for region, (name, parent, side, title) in _COMPONENTS.items()
        ]
    )
    on_path = ("mpi_isend", "receive_progress")
    model_ns = float(sum(np.median(values[region]) for region in on_path))
    observed_ns = float(np.median(values["ping_pong"]) / 2)
    spread = values["ping_pong"] / 2
    common = {"study": "breakdown", "case_id": system, "item": "", "quantity": "latency_cpu_part", "unit": "s"}
    low, high = (float(sum(np.percentile(values[region], q) for region in on_path)) for q in (2.5, 97.5))
    total = {
        "system": system,
        "metric": "latency",
        "model_ns": model_ns,
        "model_low_ns": low,
        "model_high_ns": high,
        "observed_ns": observed_ns,
        "relative_error": model_ns / observed_ns - 1,
        "share_within_tolerance": float((np.abs(model_ns / spread - 1) <= 0.05).mean()),
    }
    return MeasuredTables(
        components,
        pd.DataFrame([total]),
        pd.DataFrame([common | {"model": "cpu_parts_only", "value": model_ns * 1e-9}]),
        pd.DataFrame(
            [
                common
                | {
                    "kind": "measured",
                    "origin": "ping-pong, this machine",
                    "tag": "measured",
                    "value": observed_ns * 1e-9,
                }
            ]
        ),
    )
