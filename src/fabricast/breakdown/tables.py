"""Result tables of the breakdown study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fabricast.breakdown.components import COMPONENTS, METRICS, System, form, form_names
from fabricast.breakdown.whatif import reduce_components, sample_totals
from fabricast.core.errors import InputError
from fabricast.inputs.csv_files import read_csv

QUANTITY = {
    "injection": "injection_overhead",
    "injection_llp": "injection_overhead_llp",
    "latency": "latency",
    "latency_llp": "latency_llp",
}
#: Reductions of the charts in the slides; the last is the Amdahl limit.
REDUCTIONS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
#: Components and groups of the charts in the slides, in legend order.
CHARTS = {
    "injection": ("hlp", "llp", "llp_post", "pio_copy", "hlp_tx_prog", "hlp_post", "llp_prog"),
    "latency": (
        "hlp",
        "llp",
        "hlp_rx_prog",
        "llp_post",
        "pio_copy",
        "hlp_post",
        "llp_prog",
        "integrated_nic",
        "pcie",
        "rc_to_mem",
        "wire",
        "switch",
    ),
}


@dataclass(frozen=True)
class Percentage:
    """Percentage printed on a slide."""

    #: Slide and bar.
    figure: str
    label: str
    published_share: float  # Printed percentage as a fraction
    digits: int  # Number of decimals of the printed percentage
    #: Names of the linear forms of numerator and denominator.
    part: str
    whole: str


def read_percentages(path: Path | str) -> list[Percentage]:
    """Read the percentages printed on the slides."""
    percentages = []
    for row in read_csv(path, ["figure", "label", "published_percent", "part", "whole"]):
        percent = row["published_percent"]
        for name in (row["part"], row["whole"]):
            if name not in form_names():
                raise row.error(f"'{name}' is not a linear form of the model")
        percentages.append(
            Percentage(
                row["figure"],
                row["label"],
                row.number("published_percent") / 100,
                len(percent.partition(".")[2]),
                row["part"],
                row["whole"],
            )
        )
    return percentages


def read_observed(path: Path | str) -> pd.DataFrame:
    """Read observed totals."""
    columns = ["system", "metric", "observed_ns", "tag", "source"]
    observed = []
    for row in read_csv(path, columns):
        value = row.number("observed_ns")
        if row["metric"] not in METRICS or not value > 0:
            raise row.error(
                f"metric is '{row['metric']}' with {value:g} ns, expected one of {', '.join(METRICS)} and a time "
                "above 0"
            )
        observed.append((row["system"], row["metric"], value, row["tag"], row["source"]))
    return pd.DataFrame(observed, columns=columns)


@dataclass(frozen=True)
class BreakdownTables:
    """Result tables of the breakdown study."""

    #: Rows as defined in schema.sql.
    breakdown_component: pd.DataFrame
    breakdown_share: pd.DataFrame
    breakdown_total: pd.DataFrame
    what_if: pd.DataFrame
    prediction: pd.DataFrame
    reference: pd.DataFrame
    parameter: pd.DataFrame


def _agreement(share: float, published: float, digits: int) -> str:
    """Return ``rounded``, ``truncated`` or ``differs`` for a printed percentage."""
    scale = 10**digits
    printed = round(published * 100 * scale)
    if round(share * 100 * scale) == printed:
        return "rounded"
    if int(share * 100 * scale) == printed:
        return "truncated"
    return "differs"


def _component_rows(system: System) -> list[dict[str, object]]:
    return [
        {
            "system": system.system,
            "component": name,
            "parent": kind.parent,
            "layer": kind.layer,
            "side": kind.side,
            "time_ns": component.time_ns,
            "tag": component.tag,
            "source": component.source or "no source",
            "spread_ns": component.spread_ns,
        }
        for name, kind in COMPONENTS.items()
        if (component := system.components.get(name)) is not None
    ]


def _posts_row(system: System, *, published: bool) -> dict[str, object]:
    return {
        "study": "breakdown",
        "system": system.system,
        "name": "posts_per_completion",
        "value": float(system.posts_per_completion),
        "unit": "1",
        "tag": "recalled" if published else "assumed",
        "source": "attributed to arXiv 2002.02563" if published else "system file",
    }


def breakdown_tables(
    systems: Sequence[System],
    percentages: Sequence[Percentage],
    observed: pd.DataFrame,
    *,
    published_system: str,
    tolerance: float,
    samples: int,
    seed: int,
) -> BreakdownTables:
    """Compute totals, shares, what-if results and uncertainties of every system."""
    known = [system.system for system in systems]
    repeated = next((name for name in known if known.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"system '{repeated}' is a duplicate: choose another name in its file (key 'system')")
    parts: dict[str, list[dict[str, object]]] = {name: [] for name in BreakdownTables.__dataclass_fields__}
    for system in systems:
        parts["breakdown_component"] += _component_rows(system)
        parts["parameter"].append(_posts_row(system, published=system.system == published_system))
        for percentage in percentages:
            share = system.total_ns(percentage.part) / system.total_ns(percentage.whole)
            printed = system.system == published_system
            parts["breakdown_share"].append(
                {
                    "system": system.system,
                    "figure": percentage.figure,
                    "component": percentage.label,
                    "share": share,
                    "published_share": percentage.published_share if printed else None,
                    "difference": share - percentage.published_share if printed else None,
                    "agreement": _agreement(share, percentage.published_share, percentage.digits) if printed else None,
                }
            )
        draws = sample_totals(system, samples=samples, seed=seed)
        seen = observed[observed["system"] == system.system].set_index("metric")
        for metric in METRICS:
            if metric == "injection_llp" and "measurement_update" not in system.components:
                continue
            model_ns = system.total_ns(metric)
            low, high = np.percentile(draws[metric], [2.5, 97.5])
            row: dict[str, object] = {
                "system": system.system,
                "metric": metric,
                "model_ns": model_ns,
                "model_low_ns": float(low),
                "model_high_ns": float(high),
            }
            common = {
                "study": "breakdown",
                "case_id": system.system,
                "item": "",
                "quantity": QUANTITY[metric],
                "unit": "s",
            }
            parts["prediction"].append(common | {"model": "breakdown", "value": model_ns * 1e-9})
            if metric in seen.index:
                value = float(seen["observed_ns"].to_dict()[metric])
                row |= {
                    "observed_ns": value,
                    "relative_error": model_ns / value - 1,
                    "share_within_tolerance": float((np.abs(draws[metric] / value - 1) <= tolerance).mean()),
                }
                tag = str(seen.loc[metric, "tag"])
                parts["reference"].append(
                    common
                    | {
                        "kind": "measured" if tag == "measured" else "published",
                        "origin": tag,
                        "tag": tag,
                        "value": value * 1e-9,
                    }
                )
            parts["breakdown_total"].append(row)
        for metric, names in CHARTS.items():
            weights = form(metric, system.posts_per_completion)
            for name in (*names, *(c for c in weights if c not in names)):
                for reduction in REDUCTIONS:
                    outcome = reduce_components(system, metric, {name: reduction})
                    parts["what_if"].append(
                        {
                            "system": system.system,
                            "metric": metric,
                            "component": name,
                            "reduction": reduction,
                            "share_removed": outcome.share_removed,
                            "speedup_ratio": outcome.speedup_ratio,
                        }
                    )
    return BreakdownTables(**{name: pd.DataFrame(rows) for name, rows in parts.items()})
