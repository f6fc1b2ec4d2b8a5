"""Tables of NVLink nodes and clusters without public machines of their class, compared with a forecast."""

from __future__ import annotations

import numpy as np

from fabricast.collectives.clusters.forecast import ClusterForecast, forecast_cluster
from fabricast.collectives.clusters.question import ClusterOptions, cluster_of
from fabricast.collectives.clusters.statement import node_of_tables
from fabricast.collectives.diagnosis import Cause
from fabricast.core.errors import InputError
from fabricast.core.facts import Fact, Facts
from fabricast.core.findings import Finding
from fabricast.core.number_text import size_text
from fabricast.diagnosis.clusters import ComparedTable, log_of
from fabricast.diagnosis.weights import SYMPTOM
from fabricast.nccl.records import NcclTestsTable

__all__ = ["compare_with_forecast"]

#: Ratio to the longest time of the range above which a table is slower.
_SLOWER = 1.15
_LARGE = 2.0**20


def compare_with_forecast(fact: Fact, facts: Facts) -> ComparedTable | None:
    """Compare a table with the forecast of the built-in node that has its GPUs; None if there is no range."""
    table: NcclTestsTable = fact.value
    run = log_of(fact, facts)
    try:
        cluster = cluster_of(node_of_tables([table]), ClusterOptions(), fact, run)
        assert table.operation is not None
        stated = None if run is None else run.choices_of(table.operation)
        forecast = forecast_cluster(cluster, table.operation, [], log=table, stated=stated)
    except InputError:
        return None
    if "latest_us" not in forecast.table or forecast.is_range_only:
        return None
    text = _text(forecast)
    rows = forecast.table[forecast.table["size_bytes"] >= min(_LARGE, forecast.table["size_bytes"].max())]
    ratio = float(np.median(rows["measured_us"] / rows["latest_us"]))
    findings = []
    if ratio > _SLOWER and cluster.nodes > 1:
        # Slower cards than the assumed ones would explain it: no cause is named.
        slower = f"{text}: {ratio:.2f} times the slowest expected time if the cards are these"
        return ComparedTable(slower, is_slower=False, is_neighbour=True, findings=(), notes=())
    if ratio > _SLOWER:
        remedy = "a log with NCCL_DEBUG=INFO states transports and settings; 'nvidia-smi topo -m' and "
        remedy += "'nvidia-smi nvlink -s' state the direct links"
        text_ = f"{text}: large sizes last {ratio:.2f} times as long as the slowest expected"
        findings = [Finding(Cause.SLOWER_THAN_FORECAST, text_, remedy, SYMPTOM, origin=str(fact.place))]
    return ComparedTable(text, is_slower=bool(findings), is_neighbour=False, findings=tuple(findings), notes=())


def _text(forecast: ClusterForecast) -> str:
    """Return measured and expected times of the largest size, and what is assumed about the machine."""
    row, cluster = forecast.table.iloc[-1], forecast.cluster
    count = "one node" if cluster.nodes == 1 else f"{cluster.nodes} nodes"
    cards = f" with {cluster.cards} x {cluster.card_gbit_s:g} Gbit/s" if cluster.nodes > 1 else ""
    return (
        f"{forecast.operation} of {size_text(float(row['size_bytes']))} on {cluster.ranks} GPUs of {count} "
        f"lasts {row['measured_us']:,.0f} us, forecast {row['earliest_us']:,.0f} to {row['latest_us']:,.0f} us "
        f"(node {cluster.name}{cards} assumed)"
    )
