"""Forecast of an operation on a cluster of unequal nodes: that of the slowest nodes at each size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from fabricast.collectives.clusters.forecast import ClusterForecast
from fabricast.core.warnings import CodedWarning, WarningCode


def slowest_forecast(forecasts: Sequence[ClusterForecast], counts: Sequence[int]) -> ClusterForecast:
    """Return the forecast of a cluster from those of clusters that have only one of its kinds of nodes each.

    The ranks of NCCL agree on the smallest number of channels and the slowest rates of all nodes, and a ring passes
    all nodes, so that all are as slow as the slowest ones. Column `node` names these.
    """
    if len(forecasts) == 1:
        return forecasts[0]
    names = [one.cluster.name for one in forecasts]
    labels = [
        one.cluster.name
        if names.count(one.cluster.name) == 1
        else f"{one.cluster.name} with {one.cluster.cards}x{one.cluster.card_gbit_s:g}"
        for one in forecasts
    ]
    tables = [one.table.assign(node=label) for one, label in zip(forecasts, labels, strict=True)]
    whole = pd.concat(tables, ignore_index=True)
    slowest = whole.groupby("size_bytes", sort=False)["time_us"].transform(lambda time: time.fillna(-1.0).idxmax())
    rows = slowest.drop_duplicates().tolist()
    table = whole.loc[rows].reset_index(drop=True)
    first = forecasts[0]
    # No public machine has several kinds of nodes; above 64 nodes the range is the only statement.
    ranges = [] if any(one.is_range_only for one in forecasts) else ["earliest_us", "latest_us"]
    table = table.drop(columns=[*ranges, "public_us", "public_machines"], errors="ignore")
    kinds = ", ".join(labels)
    text = f"the nodes are unequal ({kinds}): times are those of the slowest kind, and no public machine is like this"
    source = "; ".join(f"{label}: {one.source}" for label, one in zip(labels, forecasts, strict=True))
    kept = [one for forecast in forecasts for one in forecast.warnings if one.code is not WarningCode.EXPECTED_ERROR]
    about_error = "the expected error for unequal nodes is unknown"
    if len({one.cluster.gpus for one in forecasts}) == 1 < len({one.cluster.cards for one in forecasts}):
        about_error += "; a node that lacks a card may halve the rate of all, since two of its GPUs share one"
    unknown = CodedWarning(WarningCode.EXPECTED_ERROR, about_error)
    warnings = dict.fromkeys([unknown, CodedWarning(WarningCode.NOT_VALIDATED, text), *kept])
    title = "; ".join(one.cluster.words_of(count) for one, count in zip(forecasts, counts, strict=True))
    return replace(first, table=table, source=source, reference=None, warnings=tuple(warnings), title=title)
