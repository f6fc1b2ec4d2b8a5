"""Forecast of a collective operation on NVLink nodes and clusters: by emulation of NCCL, or between public rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.collectives.clusters.bounds import LEAST_BYTES, SENDS, bounds, has_bounds, least_s
from fabricast.collectives.clusters.cluster import EFA, SLINGSHOT, Cluster
from fabricast.collectives.clusters.errors import (
    UNMEASURED,
    ClusterError,
    at_sizes,
    cluster_error,
    interpolation_error_text,
    many_nodes_range,
    median_errors,
    most_public_nodes,
)
from fabricast.collectives.clusters.evidence import MANY_NODES
from fabricast.collectives.clusters.model import RATE_LIMITS, Calibration, ClusterModel, refusal_of
from fabricast.collectives.clusters.times import Pair
from fabricast.collectives.forecast import LEAST_GAIN
from fabricast.collectives.reference import Reference, class_medians_s, fitted, gpu_family, is_of_network, reference_of
from fabricast.collectives.short_tables import short_table
from fabricast.core.errors import InputError
from fabricast.core.number_text import size_text
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.inputs.gpus import gpu_model, is_known_gpu
from fabricast.nccl.costs import Algorithm, Operation, bus_factor
from fabricast.nccl.records import NcclTestsTable
from fabricast.nccl.system import PathType

_Array = NDArray[np.float64]
#: Ratio of NCCL's estimates up to which two choices are nearly equal, and ratio of their times from which it matters.
_TIE, _OTHER_TIME = 1.02, 1.05
#: Most GPUs of a node of the public machines, and of one host.
_MOST_GPUS, _MOST_OF_HOST = 8, 16
#: Factor beyond known sizes up to which an interpolation has a time; relative error of a row that calibrates.
_BEYOND, _REACHED = 1.5, 0.05
#: Size in bytes of large rows, and their median error above which a calibrated forecast misses them.
_LARGE, _MISSES = 1 << 20, 0.1
#: Oldest version of NCCL of the public machines, but for a few.
_USUAL_VERSION = (2, 18, 0)
#: Smallest fitted size in bytes of sends and receives.
_SMALLEST_SEND = 1 << 20
#: Rows from which the own table of a machine determines an interpolation.
_FEW_ROWS = 4
#: Factor of measured rates below which a machine is slower than all public ones.
_SLOW_MACHINE = 0.75
#: Data in the rate of the bus that trees and NVLS move in fewer bytes.
_ABOVE_WIRE = 1.02


@dataclass(frozen=True, repr=False)
class ClusterForecast:
    """Forecast of an operation on NVLink nodes or a cluster.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per size: size_bytes, time_us, algorithm_gb_per_s, bus_gb_per_s, algorithm, protocol, channels, limit,
        limit_share, best_algorithm, best_protocol, best_time_us, gain, nccl_time_us; earliest_us and latest_us if the
        error is known; ring_earliest_us and ring_most_gb_per_s where only bounds are known; measured_us and
        measured_over_forecast with a log; public_us, public_machines if public machines of the class have the size. An
        interpolation has no choices, channels and limits.
    operation : Operation
        Operation.
    cluster : Cluster
        Cluster.
    source : str
        Origin of the times in one line: the emulated version of NCCL, or the machines of an interpolation.
    calibration : Calibration or None
        Factors of latencies and rates by measured rows.
    reference : Reference or None
        Public machines of the class.
    warnings : tuple of CodedWarning
        Assumptions.
    title : str
        All kinds of nodes in words, if they are unequal; column `node` of the table names the slowest kind.
    """

    table: pd.DataFrame
    operation: Operation
    cluster: Cluster
    source: str
    calibration: Calibration | None
    reference: Reference | None
    warnings: tuple[CodedWarning, ...]
    title: str = ""

    def __post_init__(self) -> None:
        self.table.attrs["warnings"] = [str(one) for one in self.warnings]

    @property
    def words(self) -> str:
        """The cluster in words; unequal nodes one after the other."""
        return self.title or self.cluster.words

    @property
    def is_range_only(self) -> bool:
        """Whether only bounds are a statement: above 64 nodes, without public runs of the class, or of a new kind."""
        return "earliest_us" in self.table and (self.cluster.nodes > MANY_NODES or self.is_bound_only)

    @property
    def is_bound_only(self) -> bool:
        """Whether only the least time of a ring is known, since no public cluster is like this one."""
        return "ring_earliest_us" in self.table

    def __repr__(self) -> str:
        return f"{self.operation}, {self.words}\n{short_table(self.table)}"

    def _repr_html_(self) -> str:
        return str(self.table._repr_html_())  # type: ignore[operator]  # hidden from stubs


def forecast_cluster(
    cluster: Cluster,
    operation: Operation,
    sizes: Sequence[float],
    *,
    log: NcclTestsTable | None = None,
    own: NcclTestsTable | None = None,
    stated: Mapping[int, Pair] | None = None,
) -> ClusterForecast:
    """Forecast an operation on a cluster."""
    for table in (log, own):
        _check_gpus(table, cluster)
    _check(log, cluster)
    rows = [] if log is None else [row for row in log.rows if row.size_bytes > 0]
    size = np.array([row.size_bytes for row in rows] if log is not None else sizes, dtype=np.float64)
    refusal = refusal_of(cluster)
    public = _reference(cluster, operation, size, of_sisters=bool(refusal))
    if refusal:
        found = _interpolated(cluster, operation, size, refusal, public, own)
    else:
        found = _emulated(cluster, operation, size, public, own, stated or {})
    if log is not None:
        measured = np.array([row.time_s for row in rows]) * 1e6
        found.table["measured_us"] = measured
        found.table["measured_over_forecast"] = measured / found.table["time_us"]
    elif own is not None and own.operation in (operation, None) and own.ranks == cluster.ranks:
        # Sizes that the own log has; its rows calibrate the others.
        known = {row.size_bytes: row.time_s * 1e6 for row in own.rows}
        measured = np.array([known.get(int(one), np.nan) for one in size.tolist()])
        if np.isfinite(measured).any():
            # They are no test of a forecast that they calibrate.
            found.table["measured_us"] = measured
    if public is not None:
        found.table["public_us"] = public.table["median_us"].to_numpy()
        found.table["public_machines"] = public.table["machines"].to_numpy()
    return found


def _is_same_gpu(one: str, other: str) -> bool:
    """Return whether two product names are of one family or model."""
    if gpu_family(one) == gpu_family(other):
        return True
    return is_known_gpu(one) and is_known_gpu(other) and gpu_model(one) == gpu_model(other)


def _check_gpus(table: NcclTestsTable | None, cluster: Cluster) -> None:
    """Raise an error if a measured table names other GPUs."""
    if table is not None and table.gpus and not _is_same_gpu(table.gpus[0], cluster.gpu):
        raise InputError(f"is of {table.gpus[0]}, expected {cluster.gpu} as in the node", argument="log")


def _check(table: NcclTestsTable | None, cluster: Cluster) -> None:
    """Raise an error if a measured table is of another machine."""
    if table is None:
        return
    if table.ranks is not None and table.ranks != cluster.ranks:
        raise InputError(f"has {table.ranks} ranks, expected {cluster.ranks} of {cluster.words}", argument="log")
    # Hosts of one NVLink domain are one node.
    if table.hosts > 1 and table.hosts != cluster.nodes and cluster.gpus <= _MOST_OF_HOST:
        raise InputError(f"is of {table.hosts} hosts, expected {cluster.nodes} nodes", argument="log")
    if not table.rows:
        raise InputError("has no valid row, expected at least one size", argument="log")


def _has_limits(cluster: Cluster) -> bool:
    """Return whether settings limit algorithms, protocols or channels, as on no public machine."""
    settings = cluster.settings
    channels = (settings.least_channels, settings.most_channels, settings.buffer_size)
    return any((settings.algorithms, settings.protocols, *channels))


def _reference(cluster: Cluster, operation: Operation, size: _Array, *, of_sisters: bool) -> Reference | None:
    """Return the public machines of the class of a cluster; None if there are none of the same class and network.

    With `of_sisters`, it is a class of other GPUs with the same links if there is none of the same GPU.
    """
    several = cluster.nodes > 1
    if _has_limits(cluster) or (several and not cluster.has_gpudirect):
        # Public clusters have GPUDirect.
        return None
    rate = cluster.cards * cluster.card_gbit_s / cluster.gpus if several else None
    network = cluster.network or None if several else None
    of_others: Reference | None = None
    # Where the sources of some machines do not state the rate, those that state it may be of another model.
    for speed in dict.fromkeys((rate, None)):
        try:
            found = reference_of(
                cluster.gpu,
                cluster.gpus,
                cluster.nodes,
                operation,
                size.tolist(),
                network=network,
                gbit_s=speed,
                shares_process=cluster.process_gpus > 1,
            )
        except InputError:
            return None
        if not is_of_network(found.machines, network, rate):
            continue
        if not found.is_neighbour:
            return found
        if of_sisters and (found.nodes, found.ranks) == (cluster.nodes, cluster.ranks):
            of_others = found
    return of_others


def _bus_columns(operation: Operation, cluster: Cluster, size: _Array, time_s: _Array) -> dict[str, object]:
    return {
        "size_bytes": size.astype(np.int64),
        "time_us": time_s * 1e6,
        "algorithm_gb_per_s": size / time_s / 1e9,
        "bus_gb_per_s": size / time_s * bus_factor(operation, cluster.ranks) / 1e9,
    }


def _emulated(
    cluster: Cluster,
    operation: Operation,
    size: _Array,
    public: Reference | None,
    own: NcclTestsTable | None,
    stated: Mapping[int, Pair],
) -> ClusterForecast:
    """Return the forecast with NCCL's emulated choices, or those of a log."""
    model, calibration = ClusterModel(cluster, operation), None
    if own is not None:
        tuned, calibration = _calibrated(model, own)
        model = tuned
    known_pairs = {int(one): stated[int(one)] for one in size.tolist() if stated.get(int(one)) in model.pairs}
    chosen = [known_pairs.get(int(one), pair) for one, pair in zip(size.tolist(), model.choices(size), strict=True)]
    time_s = model.chosen_s(chosen, size)
    limits, shares = model.limits(chosen, size)
    if calibration is not None and calibration.rate < _SLOW_MACHINE:
        # What makes it slower than all public machines is not known.
        limits = ["measured rate" if limit in RATE_LIMITS else limit for limit in limits]
    errors = [cluster_error(cluster, operation, one) for one in size.tolist()]
    best, best_s = _best(model, chosen, time_s, size, errors)
    columns = _bus_columns(operation, cluster, size, time_s)
    channels = [int(model.times_of.channels(pair, size)[place]) for place, pair in enumerate(chosen)]
    table = pd.DataFrame(
        {
            **columns,
            "algorithm": [str(pair[0]) for pair in chosen],
            "protocol": [str(pair[1]) for pair in chosen],
            "channels": channels,
            "limit": limits,
            "limit_share": shares,
            "best_algorithm": [str(pair[0]) for pair in best],
            "best_protocol": [str(pair[1]) for pair in best],
            "best_time_us": best_s * 1e6,
            "gain": time_s / best_s,
        }
    )
    ratio = np.full(size.size, np.nan)
    if public is not None and _is_usual(cluster) and own is None and not known_pairs and operation not in SENDS:
        ratio = class_medians_s(public) / time_s
    is_median = np.isfinite(ratio)
    table = _scaled(table, np.where(is_median, ratio, 1.0))
    nccl = model.nccl_s(chosen, size)
    if nccl is not None:
        table["nccl_time_us"] = nccl * 1e6
    ranges = [many_nodes_range(cluster, operation, one) for one in size.tolist()]
    # Above 64 nodes, the range replaces the number, so that all sizes need one.
    is_bounded = [error is not None for error in ranges]
    if all(is_bounded) if cluster.nodes > MANY_NODES else calibration is None and any(is_bounded):
        lowest = [np.nan if error is None else min(error.shortest, 1.0) for error in ranges]
        highest = [np.nan if error is None else max(error.longest, 1.0) for error in ranges]
        # No machine is faster than its links.
        wire_us = np.minimum(_wire_s(cluster, operation, chosen, size) * 1e6, table["time_us"])
        table["earliest_us"] = np.maximum(table["time_us"] * lowest, wire_us)
        table["latest_us"] = table["time_us"] * highest
        if public is not None and _is_usual(cluster):
            # A machine of the same class is within the range, too.
            low, high = (public.table[f"{end}_us"].to_numpy() for end in ("shortest", "longest"))
            table["earliest_us"] = table["earliest_us"].where(~(low < table["earliest_us"]), low)
            table["latest_us"] = table["latest_us"].where(~(high > table["latest_us"]), high)
    if operation in SENDS and calibration is None:
        # Only large sends and receives are fitted.
        table = _without_small(table)
    version = ".".join(map(str, cluster.settings.version))
    graph = model.times_of.graphs.rings
    source = f"emulated choices of NCCL {version}: {graph.channels} x {graph.intra:g} GB/s within a node"
    if cluster.nodes > 1:
        source += f", {graph.inter:g} GB/s between nodes"
    if known_pairs:
        source += f"; {len(known_pairs)} of {size.size} choices are those of the log"
    notes = _notes(model, errors, calibration, size[is_median], _of_class(table, public))
    missed = _unreached(model, own)
    if missed:
        # Its rows refute the error of other machines.
        notes = [one for one in notes if one.code is not WarningCode.EXPECTED_ERROR]
    # A log states its choices.
    ties = _near_ties(model, size) if not known_pairs else []
    warnings = (*missed, *notes, *_above_wire(model, table), *ties)
    return ClusterForecast(table, operation, cluster, source, calibration, public, warnings)


def _wire_s(cluster: Cluster, operation: Operation, chosen: Sequence[Pair] | None, size: _Array) -> _Array:
    """Return the least time of each choice; without choices, of the algorithm that moves the fewest bytes."""
    is_ring = np.array([chosen is not None and chosen[place][0] is Algorithm.RING for place in range(size.size)])
    return least_s(cluster, operation, is_ring, size)


def _without_small(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without times below the smallest fitted size of sends and receives."""
    is_small = table["size_bytes"] < _SMALLEST_SEND
    names = [str(name) for name in table.columns]
    columns = [name for name in names if name.endswith(("_us", "_gb_per_s")) or name in ("limit_share", "gain")]
    return table.assign(**{name: table[name].where(~is_small) for name in columns})


def _calibrated(model: ClusterModel, own: NcclTestsTable) -> tuple[ClusterModel, Calibration]:
    """Return the model that a table of the machine calibrates, which may be of another operation and number of nodes.

    One node and several nodes have different latencies and rates.
    """
    operation = model.operation if own.operation is None else own.operation
    cluster = _measured_cluster(model.cluster, own)
    size = np.array([row.size_bytes for row in own.rows if row.size_bytes > 0], dtype=np.float64)
    time_s = np.array([row.time_s for row in own.rows if row.size_bytes > 0])
    _, factors = ClusterModel(cluster, operation).calibrated(size, time_s)
    return ClusterModel(model.cluster, model.operation, factors.known(model.known)), factors


def _measured_cluster(cluster: Cluster, own: NcclTestsTable) -> Cluster:
    """Return the cluster on which a table was measured: equal nodes, perhaps another number of them."""
    if (own.hosts > 1) != (cluster.nodes > 1):
        measured = "one node" if own.hosts == 1 else f"{own.hosts} nodes"
        raise InputError(
            f"is of {measured}, expected {'one node' if cluster.nodes == 1 else 'several nodes'}, whose rates it "
            "calibrates",
            argument="log",
        )
    nodes = max(own.hosts, 1)
    if own.ranks is not None and own.ranks != nodes * cluster.gpus:
        raise InputError(
            f"has {own.ranks} ranks on {nodes} nodes, expected {cluster.gpus} of each node", argument="log"
        )
    return replace(cluster, nodes=nodes)


def _best(
    model: ClusterModel, chosen: Sequence[Pair], time_s: _Array, size: _Array, errors: Sequence[ClusterError | None]
) -> tuple[list[Pair], _Array]:
    """Return the fastest permitted choice at each size; that of NCCL unless another gains more than the usual error."""
    best, best_s = list(chosen), time_s.copy()
    # An unknown error exceeds any gain.
    least = np.array([np.inf if error is None else max(LEAST_GAIN, 1 + error.median) for error in errors])
    for pair in model.pairs:
        other_s = model.times_of.times(pair, size)
        for place in np.flatnonzero((other_s < best_s) & (other_s * least < time_s)).tolist():
            best[place], best_s[place] = pair, other_s[place]
    return best, best_s


def _is_usual(cluster: Cluster) -> bool:
    """Return whether a cluster has the version, settings and processes of public machines."""
    has_processes = cluster.process_gpus in (1, cluster.gpus)
    return cluster.settings.version >= _USUAL_VERSION and cluster.has_nvls and has_processes


def _scaled(table: pd.DataFrame, ratio: _Array) -> pd.DataFrame:
    """Return a table whose times are scaled; the relative gains of other choices stay those of the model."""
    longer = {name: table[name] * ratio for name in ("time_us", "best_time_us")}
    return table.assign(**longer, **{name: table[name] / ratio for name in ("algorithm_gb_per_s", "bus_gb_per_s")})


def _median_words(medians: _Array) -> str:
    """Return the statement about sizes whose time is the median of public machines of the class, with its errors."""
    known = median_errors(medians.tolist())
    errors = ", ".join(f"{100 * one.median:.2g} % {at_sizes(one.band)} ({one.machines} machines)" for one in known)
    sizes = f"{medians.size} sizes are medians" if medians.size > 1 else "1 size is the median"
    return f"{sizes} of public machines of this class, each left out: {errors}"


def _of_class(table: pd.DataFrame, public: Reference | None) -> str:
    """Return how public machines of this very class differ from a forecast; empty if there are none."""
    if public is None or public.is_neighbour:
        return ""
    ratio = public.table["median_us"].to_numpy() / table["time_us"].to_numpy()
    large = ratio[np.isfinite(ratio) & (table["size_bytes"].to_numpy() >= _LARGE)]
    if not large.size:
        return ""
    return f"{', '.join(public.machines)} of this class: {np.median(large):.2f} times the forecast (median from 1 MiB)"


def _notes(
    model: ClusterModel,
    errors: Sequence[ClusterError | None],
    calibration: Calibration | None,
    medians: _Array,
    of_class: str,
) -> list[CodedWarning]:
    """Return the expected error and the assumptions of a forecast.

    The sizes `medians` have a median of their class, whose machines `of_class` compares.
    """
    notes = []
    cluster = model.cluster
    known = list(dict.fromkeys(error for error in errors if error is not None))
    if known:
        words = [error.words(is_calibrated=calibration is not None) for error in known]
        parts = ", ".join(dict.fromkeys(words))
        state = "with two rows of the machine" if calibration is not None else "without measurements"
        text = f"expected error {state}, each public machine left out of the fit (median): {parts}"
        if calibration is None:
            text += "; the range is that of their fastest and slowest rows"
            text += ", and of this class" if of_class and _is_usual(cluster) else ""
        most = most_public_nodes(cluster, model.operation)
        if cluster.nodes > most:
            text = (
                f"the expected error on {cluster.nodes} nodes is unknown: public machines of this class have up to "
                f"{most} nodes, with these errors: {parts}"
            )
    else:
        text = (
            f"the expected error of {model.operation} on {cluster.words} is unknown: no public machine of such a class "
            "tests the model"
        )
    if medians.size == len(errors):
        text = f"expected error without measurements: {_median_words(medians)}"
    elif medians.size:
        text += f"; {_median_words(medians)}"
    if calibration is not None:
        factors = f"latencies {calibration.latency:.3g}, rates {calibration.rate:.3g} times those of public machines"
        text = f"{text}; by the measured rows: {factors}"
    notes.append(CodedWarning(WarningCode.EXPECTED_ERROR, text))
    if calibration is not None and calibration.rate < _SLOW_MACHINE:
        text = (
            f"the measured rows reach {calibration.rate:.2f} times the rates of public machines, and the forecast is "
            "that of such a slow machine: the limits by link do not name its cause; 'fabricast diagnose' looks for it"
        )
        notes.append(CodedWarning(WarningCode.CALIBRATION_CONTRADICTED, text))
    if cluster.is_node_assumed:
        text = f"no file describes the node: the built-in node {cluster.name} is assumed"
        text += f", with {cluster.cards} x {cluster.card_gbit_s:g} Gbit/s" if cluster.nodes > 1 else ""
        notes.append(CodedWarning(WarningCode.NCCL_SETTING_ASSUMED, f"{text}; specify node or nic"))
    if cluster.is_network_assumed:
        text = f"no input names the network between nodes: {cluster.network} is assumed; specify network"
        notes.append(CodedWarning(WarningCode.NCCL_SETTING_ASSUMED, text))
    if cluster.nodes > 1 and cluster.network == EFA:
        text = (
            "over EFA a tuner plugin of AWS chooses algorithm and protocol, which is not emulated: NCCL's default is "
            "assumed; measured rows calibrate the forecast"
        )
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if cluster.nodes > MANY_NODES:
        text = (
            f"more than {MANY_NODES} nodes: other jobs congest such networks; the range is that of public runs on "
            "Slingshot, and the number within it is no forecast"
        )
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if cluster.nodes > 1 and cluster.attach > PathType.PXB and cluster.network != SLINGSHOT:
        text = "GPUs and cards meet at a processor: such nodes are 10 to 30 % slower than the forecast for large sizes"
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if cluster.oversubscription > 1:
        text = "no public machine has an oversubscribed network: the rate of its cards is divided by the factor"
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if model.operation in SENDS and calibration is None:
        text = f"{model.operation} below 1 MiB has no forecast without measured rows of the machine"
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if cluster.gpus > _MOST_GPUS:
        text = f"the expected error is that of public machines with up to {_MOST_GPUS} GPUs in one NVLink domain"
        text += f"; {of_class}" if of_class else ""
        if cluster.nodes > 1:
            text += "; several racks are not validated, and public ones are slower than the forecast"
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if model.operation in UNMEASURED and cluster.nodes > 1:
        text = f"{model.operation} over several nodes is not validated: no public measurements"
        notes.append(CodedWarning(WarningCode.NOT_VALIDATED, text))
    if cluster.settings.ignored:
        text = f"no effect on the forecast: {', '.join(cluster.settings.ignored)}"
        notes.append(CodedWarning(WarningCode.SETTING_IGNORED, text))
    return notes


def _unreached(model: ClusterModel, own: NcclTestsTable | None) -> list[CodedWarning]:
    """Return a warning if the calibrated forecast does not reach the largest measured row."""
    if own is None:
        return []
    operation = model.operation if own.operation is None else own.operation
    row = max(own.rows, key=lambda one: one.size_bytes)
    calibrated = ClusterModel(_measured_cluster(model.cluster, own), operation, model.known)
    size = np.array([float(row.size_bytes)])
    ratio = float(calibrated.chosen_s(calibrated.choices(size), size)[0] / row.time_s)
    large = [row for row in own.rows if row.size_bytes >= _LARGE]
    if abs(ratio - 1) <= _REACHED and large:
        sizes = np.array([float(one.size_bytes) for one in large])
        forecast_s = calibrated.chosen_s(calibrated.choices(sizes), sizes)
        error = float(np.median(np.abs(forecast_s / np.array([one.time_s for one in large]) - 1)))
        if error > _MISSES:
            text = (
                f"the forecast, calibrated with two rows of the log, misses its rows from 1 MiB by {100 * error:.0f} % "
                "(median), which is its error here"
            )
            return [CodedWarning(WarningCode.EXPECTED_ERROR, text)]
    if abs(ratio - 1) <= _REACHED:
        return []
    text = (
        f"the calibrated forecast of {size_text(float(row.size_bytes))} is {ratio:.2f} times the measured time, which "
        "is its error here: NCCL probably makes another choice there, or the log was measured with other cards"
    )
    return [CodedWarning(WarningCode.EXPECTED_ERROR, text)]


def _near_ties(model: ClusterModel, size: NDArray[np.float64]) -> list[CodedWarning]:
    """Return a note about the largest size where NCCL's estimates of two choices are nearly equal, and their times not.

    Small differences between versions and machines then decide.
    """
    if model.costs is None or not size.size:
        return []
    candidates = np.unique(np.append(size[size >= _LARGE], size.max()))[::-1]
    found = next((tie for one in candidates.tolist() if (tie := _near_tie(model, one)) is not None), None)
    return [] if found is None else [found]


def _near_tie(model: ClusterModel, size: float) -> CodedWarning | None:
    """Return the note about a size; None if one choice is clearly the best, or both last as long."""
    assert model.costs is not None
    largest = np.array([size])
    chosen = model.choices(largest)[0]
    estimates = {pair: float(model.costs.time_us(*pair, largest)[0]) for pair in model.pairs}
    times = {pair: float(model.times_of.times(pair, largest)[0]) for pair in model.pairs}
    other = min((pair for pair in model.pairs if pair != chosen), key=estimates.__getitem__, default=None)
    if other is None or estimates[other] > _TIE * estimates[chosen]:
        return None
    if abs(np.log(times[other] / times[chosen])) < np.log(_OTHER_TIME):
        return None
    factor = bus_factor(model.operation, model.cluster.ranks) / 1e9
    rates = [
        f"{largest[0] / times[pair] * factor:.3g} GB/s with {' '.join(map(str, pair))}" for pair in (chosen, other)
    ]
    text = (
        f"at {size_text(largest[0])}, NCCL's estimates of two choices differ by "
        f"{100 * (estimates[other] / estimates[chosen] - 1):.1f} %, so that either is possible: {' or '.join(rates)}"
    )
    return CodedWarning(WarningCode.NEAR_TIE, text)


def _above_wire(model: ClusterModel, table: pd.DataFrame) -> list[CodedWarning]:
    """Return a note if the bus bandwidth is above the rate of the links."""
    cluster = model.cluster
    if table["bus_gb_per_s"].isna().all():
        return []
    row = table.iloc[int(np.nanargmax(table["bus_gb_per_s"].to_numpy()))]
    wire = cluster.cards * cluster.card_gbit_s / 8 if cluster.nodes > 1 else cluster.nvlink_bytes_per_s / 1e9
    if row["bus_gb_per_s"] <= _ABOVE_WIRE * wire:
        return []
    kind = "the network cards" if cluster.nodes > 1 else "the NVLinks of a GPU"
    algorithm = "NVLS" if str(row["algorithm"]).startswith(Algorithm.NVLS) else "a tree"
    text = (
        f"{row['bus_gb_per_s']:.3g} GB/s of bus bandwidth are above the {wire:.3g} GB/s of {kind}: {algorithm} moves "
        "fewer bytes than nccl-tests assumes"
    )
    return [CodedWarning(WarningCode.TOPOLOGY_NOTE, text)]


def _interpolated(
    cluster: Cluster,
    operation: Operation,
    size: _Array,
    refusal: str,
    public: Reference | None,
    own: NcclTestsTable | None,
) -> ClusterForecast:
    """Return times between measured rows or public rows, where NCCL is not emulated."""
    factor = bus_factor(operation, cluster.ranks)
    if own is not None and own.ranks not in (cluster.ranks, None):
        raise InputError(
            f"{refusal}, and the log is of {own.ranks} GPUs, expected {cluster.ranks} as in the forecast: its rows are "
            "interpolated between sizes, not scaled to other numbers"
        )
    if own is not None and len(own.rows) >= _FEW_ROWS and own.operation in (operation, None):
        rows = [row for row in own.rows if row.size_bytes > 0]
        known = np.array([row.size_bytes for row in rows], dtype=np.float64)
        times_s = fitted(factor * known, np.array([row.time_s for row in rows])).times_s(factor * size)
        is_known = (size >= known.min() / _BEYOND) & (size <= known.max() * _BEYOND)
        source = "the measured rows of this machine"
    elif public is not None:
        count = len(public.machines)
        of_class = f"with the same links ({public.words})" if public.is_neighbour else "of this class"
        source = f"{count} public machine{'s' if count > 1 else ''} {of_class}"
        # Public machines may have a faster network.
        times_s = np.maximum(public.table["median_us"].to_numpy() * 1e-6, _wire_s(cluster, operation, None, size))
        is_known = np.isfinite(times_s)
    elif _has_limits(cluster):
        raise InputError(
            f"{refusal}, and public machines have no limits of algorithms, protocols and channels: leave out these "
            f"settings, or specify a log of {operation} of this machine with them, whose rows are interpolated"
        )
    elif own is None and has_bounds(cluster, operation) and size.max(initial=0) >= LEAST_BYTES:
        return _bounded(cluster, operation, size, refusal)
    else:
        raise InputError(
            f"{refusal}, and no public machine is {cluster.words}: specify a log of {operation} of this machine, whose "
            "rows are interpolated, or see 'fabricast reference' for other classes"
        )
    if not is_known.any():
        raise InputError(f"{refusal}, and {source} have none of these sizes", argument="sizes")
    table = pd.DataFrame(_bus_columns(operation, cluster, size, np.where(is_known, times_s, np.nan)))
    error = interpolation_error_text(cluster, size.tolist())
    if own is not None:
        error = "the expected error of an interpolation between measured rows of the machine is unknown"
    notes = [
        CodedWarning(WarningCode.NOT_VALIDATED, f"times are an interpolation between {source}: {refusal}"),
        CodedWarning(WarningCode.EXPECTED_ERROR, error),
    ]
    return ClusterForecast(table, operation, cluster, f"interpolation between {source}", None, public, tuple(notes))


def _bounded(cluster: Cluster, operation: Operation, size: _Array, refusal: str) -> ClusterForecast:
    """Return the least times of a cluster that no model or public machine describes."""
    text = (
        f"no time is forecast: {refusal}, and no public cluster is like this one; the rates are those of a ring at the "
        "full rate of its links or the fast end of its forecast over PCIe: a machine is slower, unless NCCL chooses a "
        "tree"
    )
    warning = CodedWarning(WarningCode.NOT_VALIDATED, text)
    source = "bounds by the rates of the links, without latencies"
    return ClusterForecast(bounds(cluster, operation, size), operation, cluster, source, None, None, (warning,))
