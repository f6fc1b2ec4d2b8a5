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

#: Ratio to the longest time of the range above which a finding is printed.
_SLOWER = 1.15


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
    ratios = (forecast.table["measured_us"] / forecast.table["latest_us"]).to_numpy(dtype=float)
    worst = int(np.argmax(ratios))
    if ratios[worst] <= 1:
        return ComparedTable(_text(forecast, -1), is_slower=False, is_neighbour=False, findings=(), notes=())
    text = f"{_text(forecast, worst)}: {ratios[worst]:.2f} times the longest expected time"
    if cluster.nodes > 1:
        # Slower cards than the assumed ones would explain it: no cause is named.
        asked = f"{text} if these are its cards; 'fabricast collective --node {cluster.name} --nic CARDS --log FILE'"
        return ComparedTable(f"{asked} compares with yours", is_slower=False, is_neighbour=True, findings=(), notes=())
    if ratios[worst] <= _SLOWER:
        return ComparedTable(text, is_slower=False, is_neighbour=False, findings=(), notes=())
    remedy = "a log with NCCL_DEBUG=INFO states transports and settings; 'nvidia-smi topo -m' and "
    remedy += "'nvidia-smi nvlink -s' state the direct links"
    finding = Finding(Cause.SLOWER_THAN_FORECAST, text, remedy, SYMPTOM, origin=str(fact.place))
    return ComparedTable(text, is_slower=True, is_neighbour=False, findings=(finding,), notes=())


def _text(forecast: ClusterForecast, place: int) -> str:
    """Return measured and expected times of one size, and what is assumed about the machine."""
    row, cluster = forecast.table.iloc[place], forecast.cluster
    count = "one node" if cluster.nodes == 1 else f"{cluster.nodes} nodes"
    cards = f" with {cluster.cards} x {cluster.card_gbit_s:g} Gbit/s" if cluster.nodes > 1 else ""
    return (
        f"{forecast.operation} of {size_text(float(row['size_bytes']))} on {cluster.ranks} GPUs of {count} "
        f"lasts {row['measured_us']:,.0f} us, forecast {row['earliest_us']:,.0f} to {row['latest_us']:,.0f} us "
        f"(node {cluster.name}{cards} assumed)"
    )
