"""Table rows, model parameters and PCIe probes from measurements on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.gpucentric.measured.runs import CELL_COLUMNS, PATTERNS
from fabricast.gpucentric.parameters import read_all
from fabricast.gpucentric.path_fits import two_parameter_fit
from fabricast.inputs.csv_files import read_csv
from fabricast.inputs.files import read_text, write_text
from fabricast.inputs.parameters import PARAMETER_COLUMNS, Parameter, parameter_table

#: Name of the measured system in all tables.
SYSTEM = "this_gpu"
_COLUMNS = ["gpu", "quantity", "item", "memory", "clock", "size_bytes", "copies", "value", "spread", "bursts", "unit"]
_PROBE_COLUMNS = [
    "system",
    "topology",
    "pattern",
    "communications",
    "statistic",
    "measured_gb_per_s",
    "solo_gb_per_s",
    "source",
]
_NUMBERS = ("size_bytes", "copies", "burst", "samples", "p05", "p50", "p95")


@dataclass(frozen=True)
class GpuTables:
    """Rows that a measured GPU adds to the results tables."""

    #: Rows as in schema.sql.
    gpucentric_measurement: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame


def read_cells(path: Path | str) -> pd.DataFrame:
    """Read the measurements of a run and select the best burst of each cell."""
    rows = []
    for row in read_csv(path, ("gpu", *CELL_COLUMNS)):
        numbers = {name: row.number(name) for name in _NUMBERS}
        if row["quantity"] not in ("time", "rate", "power") or not numbers["p50"] > 0:
            raise row.error(
                f"quantity is '{row['quantity']}' with median {numbers['p50']:g}, expected time, rate or power and a "
                "positive number"
            )
        rows.append({**row.fields, **numbers})
    frame = pd.DataFrame(rows)
    cells = frame.groupby(["gpu", "quantity", "item", "memory", "clock", "size_bytes", "copies", "unit"], sort=True)
    table = cells["p50"].agg(low="min", high="max", bursts="count").reset_index()
    table["value"] = np.where(table["quantity"] == "rate", table["high"], table["low"])
    table["spread"] = table["high"] / table["low"] - 1
    return table[_COLUMNS]


def _cell(cells: pd.DataFrame, item: str, **place: str) -> pd.DataFrame:
    selected = cells[cells["item"] == item]
    for name, value in place.items():
        selected = selected[selected[name] == value]
    return selected


def gpu_parameters(cells: pd.DataFrame) -> list[Parameter]:
    """Return the parameters of the GPU-centric models that a run determines."""
    units = {row.name: row.unit for row in read_all()}
    values: dict[str, tuple[float, str]] = {}

    def time_of(item: str) -> float:
        return float(_cell(cells, item, clock="host")["value"].iloc[0])

    call, launch = time_of("call"), time_of("launch")
    values["launch"] = launch - call, "time per consecutive launch minus an empty call"
    values["context_switch"] = (
        time_of("launch and wait") - launch - call,
        "launch and wait minus a launch and an empty call",
    )
    values["query_time"] = time_of("query") - call, "query of a completed event minus an empty call"
    copies = pd.concat(
        [_cell(cells, way, memory="pinned", clock="host") for way in ("host_to_device", "device_to_host")]
    )
    start_up, per_byte = two_parameter_fit(
        copies["size_bytes"].to_numpy(np.float64), copies["value"].to_numpy(np.float64)
    )
    values["copy_start_up"] = start_up, "fit to copies of pinned memory in both directions, start-up"
    values["copy_rate"] = (
        (1 / per_byte if per_byte > 0 else 0.0),
        "fit to copies of pinned memory in both directions, rate",
    )

    def power(state: str, component: str) -> float | None:
        selected = _cell(cells, state, memory=component)
        return float(selected["value"].iloc[0]) if len(selected) else None

    idle = power("idle", "gpu")
    if idle is not None:
        values["gpu_idle_power"] = idle, "mean power of the idle GPU with a context"
        for name, state in (("copy", "copies"), ("store", "stores"), ("compute", "computes")):
            busy = power(state, "gpu")
            if busy is not None:
                values[f"gpu_{name}_power"] = busy - idle, f"mean power while the GPU {state}, minus idle power"
    polls, sleeps = (power(f"GPU polls, CPU {does}", "processors") for does in ("polls", "sleeps"))
    if polls is not None and sleeps is not None:
        values["cpu_poll_power"] = polls - sleeps, "power of the processors while the CPU polls minus while it sleeps"
    gpu = str(cells["gpu"].iloc[0])
    return [
        Parameter("gpucentric", SYSTEM, name, value, units[name], "measured", f"{how}; {gpu}")
        for name, (value, how) in values.items()
        # Negative differences are noise, and a negative fit parameter indicates a failed fit.
        if value > 0
    ]


def gpu_probes(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the concurrent copies of a run as probes of the PCIe study."""
    rates = cells[cells["quantity"] == "rate"].set_index("item")["value"]
    rows = []
    for name, pairs in PATTERNS.items():
        if name in rates:
            alone = float(np.mean([rates["single to the GPU"], rates["single to the host"]]))
            rows.append(
                {
                    "system": cells["gpu"].iloc[0],
                    "topology": "host_gpu",
                    "pattern": name,
                    "communications": " ".join(f"{s}>{t}" for s, t in pairs),
                    "statistic": "total",
                    "measured_gb_per_s": rates[name] / 1e9,
                    "solo_gb_per_s": alone / 1e9,
                    "source": "this_machine",
                }
            )
    return pd.DataFrame(rows, columns=_PROBE_COLUMNS)


def write_derived(cells: Path | str, parameters: Path | str, probes: Path | str) -> None:
    """Write the parameters and probes of a run; files without rows if nothing was measured."""
    note = read_text(cells).partition("\n")[0]
    if note.startswith("# nothing measured"):
        write_text(parameters, f"{note}\n{','.join(PARAMETER_COLUMNS)}\n")
        write_text(probes, f"{note}\n{','.join(_PROBE_COLUMNS)}\n")
        return
    measured = read_cells(cells)
    rows = parameter_table(gpu_parameters(measured))[PARAMETER_COLUMNS]
    write_text(parameters, f"{note}\n{rows.to_csv(index=False, lineterminator=chr(10))}")
    write_text(probes, f"{note}\n{gpu_probes(measured).to_csv(index=False, lineterminator=chr(10))}")


def gpu_tables(path: Path | str) -> GpuTables:
    """Return the measurements of a run as table rows."""
    cells = read_cells(path)
    references, predictions = [], []
    copies = cells[(cells["quantity"] == "time") & (cells["size_bytes"] > 0) & (cells["clock"] == "host")]
    for (item, memory), part in copies.groupby(["item", "memory"], sort=True):
        size, time_s = (part[name].to_numpy(np.float64) for name in ("size_bytes", "value"))
        start_up, per_byte = two_parameter_fit(size, time_s)
        common = {
            "study": "gpucentric",
            "case_id": [f"{SYSTEM}/{int(n)}" for n in size],
            "item": f"{item}.{memory}".strip("."),
            "quantity": "time",
            "unit": "s",
        }
        gpu = str(part["gpu"].iloc[0])
        references.append(
            pd.DataFrame({**common, "kind": "measured", "origin": gpu, "value": time_s, "tag": "measured"})
        )
        predictions.append(pd.DataFrame({**common, "model": "two_parameters", "value": start_up + per_byte * size}))
    return GpuTables(
        cells.assign(system=SYSTEM),
        pd.concat(predictions, ignore_index=True),
        pd.concat(references, ignore_index=True),
        parameter_table(gpu_parameters(cells)),
    )
