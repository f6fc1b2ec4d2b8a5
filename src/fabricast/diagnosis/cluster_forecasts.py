"""Tables of NVLink nodes and clusters without public machines of their class, compared with a forecast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fabricast.collectives.clusters.cluster import cards_of
from fabricast.collectives.clusters.errors import cluster_error
from fabricast.collectives.clusters.forecast import ClusterForecast, forecast_cluster
from fabricast.collectives.clusters.of_machine import cluster_of_machine
from fabricast.collectives.clusters.question import ClusterOptions, cluster_of, lacks_gpudirect
from fabricast.collectives.clusters.stated_cards import cards_of_gpus, port_rates_of_files, stated_cards
from fabricast.collectives.clusters.statement import kinds_of, node_of_tables
from fabricast.collectives.diagnosis import Cause
from fabricast.core.errors import InputError
from fabricast.core.facts import Block, Content, Fact, Facts, Kind, Place, Quantity, SourceFile
from fabricast.core.findings import Finding
from fabricast.core.number_text import duration_text, size_text
from fabricast.diagnosis.clusters import FEW_MACHINES, LARGE, LATE, LATENCY_REMEDY, OF_RATES, ComparedTable, log_of
from fabricast.diagnosis.ports import slow_ports
from fabricast.diagnosis.settings import FORECAST_SETTINGS
from fabricast.diagnosis.verdict import FASTER, FASTER_THAN_RANGE
from fabricast.diagnosis.weights import ACCESS, SYMPTOM
from fabricast.machine.machine import Machine
from fabricast.nccl.costs import Operation
from fabricast.nccl.records import NcclLog, NcclTestsTable

#: Ratio to the longest time of the range above which a finding is printed, and ratio of large sizes to the forecast
#: above which their times are doubtful, though a public machine was as slow.
_SLOWER, _DOUBTFUL = 1.15, 1.2
#: Ratio below which sizes up to 64 MiB say nothing, if no log states the version and the choices of NCCL.
_UNKNOWN_CHOICE = 1.6
#: Ratio to the longest expected time up to which a time is just beyond its range.
_JUST = 1.02
#: Range of the ratio of large sizes to the forecast that half the cards explain.
_HALF = (1.7, 2.3)
#: Share of the channels of the forecast below which a run has few, what limits them, and what a log states.
_FEW_CHANNELS = 0.6
_LIMITS_OF_CHANNELS = "look for NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS in the job and in /etc/nccl.conf"
_ASK_FOR_LOG = "a log with NCCL_DEBUG=INFO states the network and the cards (NET/IB : Using)"
#: Share of the rate of a card below which data pass through TCP, and from which they pass through one card.
_OVER_TCP, _ONE_CARD = 0.15, 0.85
#: Operations whose bus bandwidth is not that of a ring between nodes.
_OF_PAIRS = (Operation.ALLTOALL, Operation.SENDRECV)
#: Ratio of bus bandwidth to the rate of the cards that no ring or tree reaches.
_ABOVE_CARDS = 1.02
#: Ratio to the longest time that no cards of half the assumed rate explain; slower ones are of older nodes.
_HALF_RATE = 2.0
#: Ratio of large sizes to the shortest forecast below which a log is of another machine.
_IMPOSSIBLE = 0.7


def compare_with_forecast(fact: Fact, facts: Facts, machine: Machine | None = None) -> ComparedTable | None:
    """Compare a table with the forecast of the cluster of a file, a machine, or the built-in node that has its GPUs.

    None if there is no range.

    Raises
    ------
    InputError
        If a file describes a cluster that the table contradicts.
    """
    run = log_of(fact, facts)
    # NCCL without GPUDirect is not emulated: the forecast of a run that uses it shows what its lack costs.
    without_gpudirect = lacks_gpudirect(run)
    forecast = cluster_forecast(fact, facts, run, machine, with_gpudirect=without_gpudirect)
    if forecast is not None and "latest_us" not in forecast.table and facts.values(Quantity.CLUSTER):
        row = forecast.table.iloc[-1]
        text = (
            f"{forecast.operation} of {size_text(float(row['size_bytes']))} lasts "
            f"{duration_text(row['measured_us'] * 1e-6)}, forecast {duration_text(row['time_us'] * 1e-6)}, whose error "
            "is unknown"
        )
        return ComparedTable(text, is_neighbour=True)
    if forecast is None or "latest_us" not in forecast.table or forecast.is_range_only:
        return None
    if forecast.table["latest_us"].isna().all():
        return None
    if without_gpudirect:
        return _without_gpudirect(forecast, "" if facts.values(Quantity.CLUSTER) else _assumed(forecast))
    is_described = bool(facts.values(Quantity.CLUSTER)) or _is_of_machine(fact, machine)
    has_cards = is_described or (fact.value.hosts > 1 and stated_cards(facts) is not None)
    assumed, table = "" if has_cards else _assumed(forecast), fact.value
    fast = _ratio_of_large(forecast, "earliest_us")
    if fast < _IMPOSSIBLE:
        text = f"{_text(forecast, -1)}{assumed}: {1 / fast:.3g} {FASTER}"
        if is_described:
            raise InputError(f"{text}: the cluster of the file has other cards or nodes")
        if not assumed:
            return ComparedTable(f"{text}, so that it used more or faster cards than the files state")
        if forecast.operation is Operation.SENDRECV:
            return ComparedTable(f"{text}, since the number of channels of a pair differs by version and network")
        if run is not None and not run.environment.keys().isdisjoint(FORECAST_SETTINGS):
            return ComparedTable(f"{text}, which has the settings of the log")
        what = "cards" if forecast.cluster.nodes > 1 else "direct links"
        return ComparedTable(f"{text}, so that its {what} are faster than assumed")
    ratios = (forecast.table["measured_us"] / forecast.table["latest_us"]).to_numpy(dtype=float)
    worst = _shown(forecast, ratios)
    # Small sizes scatter by some percent, and without its version the choice of NCCL is unknown.
    knows_choice = run is not None or table.library is not None
    limit = 1.0 if forecast.table["size_bytes"].iloc[worst] >= LARGE else _SLOWER if knows_choice else _UNKNOWN_CHOICE
    if ratios[worst] <= limit:
        text = f"{_text(forecast, int(np.flatnonzero(np.isfinite(ratios))[-1]))}{assumed}"
        late = _late(forecast)
        if late is None:
            return ComparedTable(text, notes=(*_above_cards(forecast, table), *_below_forecast(forecast)))
        asked = _asked(forecast, assumed, has_log=run is not None)
        return ComparedTable(f"{text}: {late}", notes=(*_usual_reasons(forecast, facts, run), *asked), is_doubtful=True)
    beyond = (
        f"{ratios[worst]:.2f} times the longest expected time" if ratios[worst] > _JUST else "just beyond its range"
    )
    text = f"{_text(forecast, worst)}{assumed}: {beyond}"
    if forecast.table["size_bytes"].iloc[worst] < OF_RATES and ratios[worst] > LATE:
        # The rates of cards do not explain late small sizes.
        finding = Finding("late_small_sizes", text, LATENCY_REMEDY, SYMPTOM - 0.1, origin=str(fact.place))
        return ComparedTable(text, is_slower=True, findings=(finding,))
    if assumed and forecast.cluster.nodes > 1 and not _is_beyond_half_rate(forecast, run, ratios[worst]):
        # Slower cards than the assumed ones would explain it: only a setting is named as a cause.
        setting = [_cause(forecast, fact, facts, text)] if _lacks_pxn(forecast, fact, facts) else []
        notes = (*_usual_reasons(forecast, facts, run), *_asked(forecast, assumed, has_log=run is not None))
        return ComparedTable(f"{text}, if these are its cards", findings=tuple(setting), notes=notes, is_doubtful=True)
    is_just = np.nanmax(ratios[forecast.table["size_bytes"].to_numpy() >= LARGE], initial=ratios[worst]) <= _JUST
    if is_just or (ratios[worst] <= _SLOWER and (assumed or _is_of_few(forecast, worst))):
        return ComparedTable(text, is_doubtful=True)
    notes = _usual_reasons(forecast, facts, run)
    return ComparedTable(text, is_slower=True, findings=(_cause(forecast, fact, facts, text),), notes=notes)


def _without_gpudirect(forecast: ClusterForecast, assumed: str) -> ComparedTable | None:
    """Compare large sizes of a run without GPUDirect with the forecast of one that uses it; None without such."""
    sizes = forecast.table["size_bytes"].to_numpy()
    if sizes.max() < LARGE:
        return None
    text = f"{_text(forecast, -1)}{assumed} with GPUDirect RDMA, which this run does not use"
    late = (forecast.table["measured_us"] / forecast.table["latest_us"]).to_numpy(dtype=float)[sizes >= LARGE]
    is_slower = bool(np.nanmedian(late) > 1)
    return ComparedTable(text, is_slower=is_slower, notes=(text,) if is_slower else ())


def _is_beyond_half_rate(forecast: ClusterForecast, run: NcclLog | None, ratio: float) -> bool:
    """Return whether cards of half the assumed rate would not explain a time: a log lists them, and the ratio is 2.

    Forecasts of sendrecv are themselves off by up to such a factor.
    """
    lists_cards = run is not None and bool(run.hosts) and all(one.cards is not None for one in run.hosts.values())
    return lists_cards and ratio > _HALF_RATE and forecast.operation is not Operation.SENDRECV


def _is_of_few(forecast: ClusterForecast, place: int) -> bool:
    """Return whether the range of a size rests on few public machines, so that a time beyond it proves little."""
    error = cluster_error(forecast.cluster, forecast.operation, float(forecast.table["size_bytes"].iloc[place]))
    return error is not None and error.machines < FEW_MACHINES


def _shown(forecast: ClusterForecast, ratios: np.ndarray) -> int:
    """Return the position of the largest size beyond its range, of large sizes if there is one, else the worst size."""
    is_large = forecast.table["size_bytes"].to_numpy() >= LARGE
    late = np.flatnonzero(is_large & (ratios > 1))
    return int(late[-1]) if late.size else int(np.nanargmax(ratios))


def _cause(forecast: ClusterForecast, fact: Fact, facts: Facts, text: str) -> Finding:
    """Return the finding of a slow table: a setting that explains it, or where to look."""
    if _lacks_pxn(forecast, fact, facts):
        what = "NCCL_PXN_DISABLE=1 is set, so that each GPU sends over the card next to it, across the rails of the "
        what += "network, instead of NVLink"
        run = log_of(fact, facts)
        line = None if run is None else run.lines.get("NCCL_PXN_DISABLE")
        origin = f"{fact.place.path}:{line}" if line else str(fact.place)
        return Finding("pxn_disabled", what, "unset NCCL_PXN_DISABLE", ACCESS, origin=origin)
    asked = "" if log_of(fact, facts) is not None else "a log with NCCL_DEBUG=INFO states transports and settings; "
    remedy = f"{asked}'nvidia-smi nvlink -s', 'ibstat' and 'dmesg' of each host state faults of links and cards"
    return Finding(Cause.SLOWER_THAN_FORECAST, text, remedy, SYMPTOM, origin=str(fact.place))


def _lacks_pxn(forecast: ClusterForecast, fact: Fact, facts: Facts) -> bool:
    """Return whether a setting switches off that GPUs send over the cards of others, which serves alltoall."""
    run = log_of(fact, facts)
    is_off = run is not None and run.environment.get("NCCL_PXN_DISABLE") == "1"
    return is_off and forecast.operation is Operation.ALLTOALL and forecast.cluster.nodes > 1


def _is_of_machine(fact: Fact, machine: Machine | None) -> bool:
    """Return whether a table is of one node whose direct links the files describe."""
    return fact.value.hosts <= 1 and machine is not None and bool(machine.tree.peer_links)


def cluster_forecast(
    fact: Fact, facts: Facts, run: NcclLog | None, machine: Machine | None = None, *, with_gpudirect: bool = False
) -> ClusterForecast | None:
    """Return the forecast of a table with the settings of a run; None if no node is known, or its nodes are unequal."""
    try:
        return _forecast(fact, facts, run, machine, with_gpudirect=with_gpudirect)
    except InputError:
        if facts.values(Quantity.CLUSTER):
            raise
        return None


def why_no_forecast(fact: Fact, facts: Facts) -> str:
    """Return why a table of several hosts has no forecast; empty if it has one, or its nodes are unequal."""
    try:
        _forecast(fact, facts, log_of(fact, facts), None)
    except InputError as error:
        return error.reason
    return ""


def _forecast(
    fact: Fact, facts: Facts, run: NcclLog | None, machine: Machine | None, *, with_gpudirect: bool = False
) -> ClusterForecast | None:
    """Return the forecast of `cluster_forecast`; raise an error where it returns None for an unknown node."""
    table: NcclTestsTable = fact.value
    statement = next(iter(facts.values(Quantity.CLUSTER)), None)
    if statement is not None:
        kinds = kinds_of(statement, ClusterOptions())
    elif machine is not None and _is_of_machine(fact, machine):
        kinds = [(cluster_of_machine(machine, next(iter(table.gpus), None)), ClusterOptions(), 1)]
    else:
        nic = stated_cards(facts)
        if nic is not None and table.ranks and table.hosts > 1:
            nic = cards_of_gpus(nic, table.ranks // table.hosts, None if run is None else run.usual_cards)
        kinds = [(node_of_tables([table]), ClusterOptions(nic=nic), 1)]
    if len(kinds) > 1 or table.operation is None:
        return None
    node, options, _ = kinds[0]
    # The log states how many nodes took part.
    options = replace(options, nodes=None)
    if table.hosts <= 1:
        options = replace(options, nic=None, network=None, oversubscription=None)
    cluster = cluster_of(node, options, fact, run)
    if with_gpudirect:
        cluster = replace(cluster, has_gpudirect=True)
    stated = None if run is None else run.choices_of(table.operation)
    return forecast_cluster(cluster, table.operation, [], log=table, stated=stated)


def with_cards(facts: Facts, nic: str) -> Facts:
    """Return facts with the network cards of a node that the user states, such as '8x400'; files keep their ports."""
    count, rate = cards_of(nic)
    place = Place("--nic")
    ports = tuple(
        Fact(Quantity.PORT_RATE, rate, place, "--nic", (f"card {number} port 1",), "Gbit/s", Kind.OPTION)
        for number in range(count)
    )
    note = Fact(Quantity.NOTE, f"network cards of a node: {nic}", place, "--nic", kind=Kind.OPTION)
    stated = SourceFile(place.path, (Block("--nic", Content.STATES, place, (*ports, note)),))
    return Facts((*facts.files, stated))


def _above_cards(forecast: ClusterForecast, table: NcclTestsTable) -> Iterator[str]:
    """Explain a bus bandwidth of several nodes that is above the rate of their cards."""
    cluster = forecast.cluster
    wire = cluster.cards * cluster.card_gbit_s / 8
    reached = max(row.bus_bytes_per_s for row in table.rows) / 1e9
    if cluster.nodes > 2 and reached > _ABOVE_CARDS * wire and table.operation is Operation.ALL_REDUCE:
        yield (
            f"{reached:.3g} GB/s of bus bandwidth are above the {wire:.3g} GB/s of {cluster.cards} x "
            f"{cluster.card_gbit_s:g} Gbit/s: the switches reduce (InfiniBand SHARP), or the cards are faster"
        )


def _below_forecast(forecast: ClusterForecast) -> Iterator[str]:
    """Explain a largest size that is much slower than the forecast, though a public machine was as slow."""
    row, cluster = forecast.table.iloc[-1], forecast.cluster
    share = float(row["time_us"] / row["measured_us"])
    if cluster.nodes > 1 and row["size_bytes"] >= LARGE and share < 1 / _DOUBTFUL:
        yield (
            f"the largest size has {100 * share:.0f} % of the forecast rate: runs of fewer nodes and of pairs of hosts "
            "show whether one of them, or the network between them, is slow"
        )


def _usual_reasons(forecast: ClusterForecast, facts: Facts, run: NcclLog | None) -> tuple[str, ...]:
    """Return what makes a ring so slow: half a card, one card, TCP, or few channels; nothing if a file names a port."""
    cluster, (low, high) = forecast.cluster, _HALF
    if cluster.nodes == 1 or any(slow_ports(facts)):
        return ()
    row = forecast.table.iloc[-1]
    stated = None if run is None else run.coll_channels
    if stated is not None and stated < _FEW_CHANNELS * row["channels"]:
        return (f"the log states {stated} channels, the forecast uses {row['channels']:.0f}: {_LIMITS_OF_CHANNELS}",)
    of_card = cluster.card_gbit_s * 1e9 / 8
    share = 1e9 * row["bus_gb_per_s"] / _ratio_of_large(forecast, "time_us") / of_card
    if row["size_bytes"] < LARGE or forecast.operation in _OF_PAIRS:
        return ()
    if share < _OVER_TCP and (run is None or not run.network):
        return (f"large sizes reach {100 * share:.2g} % of the rate of one card, as over TCP: {_ASK_FOR_LOG}",)
    if cluster.cards > 2 and _ONE_CARD < share <= 1.0 and (run is None or run.cards is None):
        return (f"large sizes reach the rate of one of the {cluster.cards} cards: {_ASK_FOR_LOG}",)
    if not low < _ratio_of_large(forecast, "time_us") < high:
        return ()
    text = (
        "large sizes have about half the forecast rate, as with one card (or its port) at half rate or missing on one "
    )
    text += "host, or an oversubscription of 2" + ("" if port_rates_of_files(facts) else ": 'ibstat' of all hosts")
    return (text,)


def _ratio_of_large(forecast: ClusterForecast, column: str) -> float:
    """Return the median ratio of the measured times of large sizes to a column of the forecast; 1 without such."""
    size = forecast.table["size_bytes"].to_numpy()
    if size.max() < LARGE:
        return 1.0
    ratio = (forecast.table["measured_us"] / forecast.table[column]).to_numpy(dtype=float)
    return float(np.nanmedian(ratio[size >= LARGE]))


def _late(forecast: ClusterForecast) -> str | None:
    """Return by how much large sizes exceed the forecast; None if they do not."""
    median = _ratio_of_large(forecast, "time_us")
    if not median > _DOUBTFUL:
        return None
    return f"large sizes last {median:.2f} times as long as the forecast; only the slowest public machines were so late"


def _assumed(forecast: ClusterForecast) -> str:
    """Return what is assumed about the machine."""
    cluster = forecast.cluster
    cards = f" with {cluster.cards} x {cluster.card_gbit_s:g} Gbit/s" if cluster.nodes > 1 else ""
    return f" (node {cluster.name}{cards} assumed)"


def _asked(forecast: ClusterForecast, assumed: str, *, has_log: bool) -> tuple[str, ...]:
    """Return what would decide a doubtful answer."""
    cluster = forecast.cluster
    if cluster.nodes == 1:
        return ()
    cards = f"{cluster.cards}x{cluster.card_gbit_s:g}"
    missing = [f"--nic {cards} if these are your cards, or the output of 'ibstat' of a node"] if assumed else []
    missing += [] if has_log else ["a log of all hosts with NCCL_DEBUG=INFO"]
    return (f"what decides: {'; '.join([*missing, 'runs of pairs of hosts'])}",)


def _text(forecast: ClusterForecast, place: int) -> str:
    """Return measured and expected times of one size."""
    row, cluster = forecast.table.iloc[place], forecast.cluster
    count = "one node" if cluster.nodes == 1 else f"{cluster.nodes} nodes"
    measured = row["bus_gb_per_s"] * row["time_us"] / row["measured_us"]
    low, high = (row["bus_gb_per_s"] * row["time_us"] / row[name] for name in ("latest_us", "earliest_us"))
    what = f"{forecast.operation} of {size_text(float(row['size_bytes']))} on {cluster.ranks} GPUs of {count}"
    relation = FASTER_THAN_RANGE if row["measured_us"] < row["earliest_us"] else "forecast"
    if row["size_bytes"] < OF_RATES:
        return (
            f"{what} lasts {duration_text(row['measured_us'] * 1e-6)}, {relation} "
            f"{duration_text(row['earliest_us'] * 1e-6)} to {duration_text(row['latest_us'] * 1e-6)}"
        )
    time = duration_text(row["measured_us"] * 1e-6)
    return (
        f"{what} reaches {measured:.3g} GB/s of bus bandwidth in {time}, {relation} "
        f"{row['bus_gb_per_s']:.3g} GB/s ({low:.3g} to {high:.3g})"
    )
