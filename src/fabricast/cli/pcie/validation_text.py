"""Error report of a machine, for the terminal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Group
from rich.markup import escape
from rich.table import Column, Table

from fabricast.api.machines import MachineValidation, Reason
from fabricast.core.short_text import listed

_WORST = 5
#: Number of graphs that a line names; further graphs are counted.
_NAMED = 3


def validation_text(name: str, found: MachineValidation, programs: Sequence[str] = ()) -> Group:
    """Return calibration, errors by class, worst graphs, exclusions and warnings."""
    source = f" of {' and '.join(programs)}" if programs else ""
    lines = [f"{escape(name)}: {len(found.rows)} graphs{source}"]
    for key, source in found.calibration.sources.items():
        value = found.calibration.values[key]
        assert value is not None
        lines.append(f"  {key.replace('_', ' ')}: {value / 1e9:.4g} GB/s ({escape(source)})")
    judged = found.rows[found.rows["judged"]]
    parts: list[object] = ["\n".join(lines)]
    if len(judged):
        parts += [_classes(judged), _worst(judged)]
    else:
        parts.append("no graph is left to validate the forecast: all calibrate it or are excluded")
    excluded = found.rows[~found.rows["judged"] & (found.rows["reason_code"] != "calibration")]
    parts += [_excluded(str(reason), rows) for reason, rows in excluded.groupby("reason", sort=False)]
    parts += [f"warning: {escape(warning.text)} \\[{warning.code}]" for warning in found.warnings]
    return Group(*parts)  # type: ignore[arg-type]


def _excluded(reason: str, rows: pd.DataFrame) -> str:
    named = listed(list(map(_with_range, rows.to_dict("records"))), _NAMED)
    return f"excluded: {named}: {escape(reason)}"


def _with_range(row: dict[Hashable, Any]) -> str:
    """Return the name of an excluded graph; if it needs a probe, with measured rate and range of the forecast."""
    name, low, high = f"'{escape(str(row['graph']))}'", row["low_bytes_per_s"], row["high_bytes_per_s"]
    if not (Reason(str(row["reason_code"])).needs_probe and np.isfinite(high)):
        return name
    forecast = f"{low / 1e9:.4g} to {high / 1e9:.4g}" if np.isfinite(low) else f"at most {high / 1e9:.4g}"
    return f"{name} (measured {row['measured_bytes_per_s'] / 1e9:.4g} GB/s, forecast {forecast})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _classes(judged: pd.DataFrame) -> Table:
    table = Table(
        "class",
        *(
            Column(name, justify="right")
            for name in (
                "graphs",
                "median error",
                "within 15 %",
                "worst",
                "median, link sharing only",
                "median, no contention",
            )
        ),
    )
    for name, rows in judged.groupby("graph_class"):
        error = rows["relative_error"].abs()
        baselines = [
            (rows[column] / rows["measured_bytes_per_s"] - 1).abs().median()
            for column in ("sharing_bytes_per_s", "no_contention_bytes_per_s")
        ]
        table.add_row(
            str(name),
            str(len(rows)),
            _percent(error.median()),
            _percent((error <= 0.15).mean()),
            _percent(error.max()),
            *map(_percent, baselines),
        )
    return table


def _worst(judged: pd.DataFrame) -> Table:
    table = Table("worst graphs", *(Column(name, justify="right") for name in ("measured GB/s", "forecast", "error")))
    worst = judged.reindex(judged["relative_error"].abs().sort_values(ascending=False).index)[:_WORST]
    for row in worst.to_dict("records"):
        table.add_row(
            escape(str(row["graph"])),
            f"{row['measured_bytes_per_s'] / 1e9:.4g}",
            f"{row['forecast_bytes_per_s'] / 1e9:.4g}",
            f"{100 * row['relative_error']:+.1f} %",
        )
    return table
