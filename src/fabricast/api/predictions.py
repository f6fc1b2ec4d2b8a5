"""Completion times of copies, predicted by a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.cluster_copies import describes_cluster, names_nodes, predict_cluster, starts_with_node
from fabricast.api.graphs import DEFAULT_SIZE, GraphsLike, graphs_of
from fabricast.api.machine_inputs import Files, MachineLike, machine_of, paths_of
from fabricast.api.methods import DEFAULT_MODEL, Method, Progress, check_question
from fabricast.api.prediction_table import Prediction, communications, makespans
from fabricast.api.predictor import Predictor, check_explanation
from fabricast.clusters.machine import ClusterMachine
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, near_names
from fabricast.core.quantities import to_bytes_per_s
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.machine.machine import Machine
from fabricast.machine.options import MachineOptions
from fabricast.machine.staging import StagedRate, StagedRates
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs
from fabricast.pcie.graphs.staged import TRANSPORTS, chunk_overhead_s, staged_copies, staged_graphs
from fabricast.pcie.machines.engine_model import ENGINE_MODELS
from fabricast.pcie.machines.expected_errors import default_error_text
from fabricast.pcie.models.catalogue import Model
from fabricast.pcie.models.removals import Times, removal_texts, removals
from fabricast.pcie.models.user_model import UserRates
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["TRANSPORTS", "predict", "predict_graphs"]

#: Relative difference above which a copy is slower than in isolation.
_SAME = 1e-9
#: Bottleneck of staged copies of a pair in both directions.
_BOTH_WAYS_OF_PAIR = "host memory, both directions of the pair"


@with_checked_types
def predict(
    tree: MachineLike | ClusterMachine,
    graphs: GraphsLike,
    *,
    size: float | str = DEFAULT_SIZE,
    model: str | Model | UserRates = DEFAULT_MODEL,
    bandwidth: float | str | None = None,
    tau: float | None = None,
    crossing_cost: float | None = None,
    parameters: str | Path | None = None,
    pcie_only: bool = False,
    explain: bool = True,
    limited_by: bool | None = None,
    threads: int = 1,
    program: str | None = None,
    measurements: Files | None = None,
    system: str | None = None,
    gpu: str | None = None,
    link: str | None = None,
    transport: str = "auto",
    **unknown: object,
) -> Prediction:
    """Predict the completion time and bottleneck of each copy of congestion graphs.

    A congestion graph is a set of copies that overlap in time on one machine. The default model arbitrates at the ports
    of switches and executes the copies of each GPU one at a time, in the order of a copy program. The models of the
    SC16 paper only divide the bandwidth of shared links. All models neglect start-up times.

    Parameters
    ----------
    tree : PcieTree, Machine, ClusterMachine, str, Path or sequence of these
        Machine or topology, as returned by `load_machine` and `load_topology`, the name of a built-in topology, or
        files that describe and measure one machine. For a cluster (`load_cluster`, or a YAML file with the key
        ``cluster``), only `size` applies, and the result is the table of `predict_cluster`.
    graphs : CongestionGraphs, str, Path or iterable of (int or str, int or str)
        Graphs, as returned by `graph`, `halo_exchange`, `all_to_all` or `read_graphs`; a file of graphs; or
        copies at the same time: pairs of source and target, or text such as ``"0>2 1>4"``.
    size : float or str, default '300 MiB'
        Size of each copy of pairs, and of a file without sizes, in bytes or as text with a unit.
    model : str, Model or callable, default 'ports_and_engines'
        Model or its name (``fabricast models`` lists the names), or a function ``rates(tree, copies)`` that returns the
        rate in bytes/s of each running copy, a pair of endpoint names. It is called whenever a copy starts or ends.
    bandwidth : float or str, optional
        Bandwidth of an isolated copy in bytes/s, or text such as ``"24 GiB/s"``. By default the bandwidth of the
        machine: calibrated, published, or the share of its links that public machines reach.
    tau : float, optional
        Performance reduction for crossing the root complex, 0 to 1; by default that of the machine, otherwise 0.
    crossing_cost : float, optional
        Relative time per byte across the root complex, used by the models ports_and_engines, back_pressure and
        endpoint_engines; by default that of the machine, otherwise 1.
    parameters : str or Path, optional
        Parameters of this machine, as written by ``fabricast calibrate -o``.
    pcie_only : bool, default False
        Whether copies between directly linked endpoints use the PCIe tree.
    explain : bool, default True
        Whether to add the bottleneck of each copy and its cause.
    limited_by : bool, optional
        Whether to add the copies that limit each copy, by evaluating each graph again without each of its copies. By
        default if `explain` is true and there are at most a million copies (ports_and_engines: 5,000).
    threads : int, default 1
        Number of threads.
    program : str, optional
        Copy program of graphs that do not specify one: listed_order (the default: copies from one GPU run one after the
        other), ordered_writes (PyTorch), default_streams (PyTorch on default streams), unordered_reads (p2pmark),
        unordered_writes (nvbandwidth) or independent (copies of a GPU run at the same time).
    measurements : str, Path or sequence of these, optional
        Further files with measured copies of this machine, which calibrate the forecast. Copies that were measured as
        they are asked for have their measured time if it contradicts the forecast.
    system : str, optional
        Use only measurements of this system.
    gpu, link : str, optional
        GPU model, and link of each GPU such as ``"gen4x16"``, if no file states them.
    transport : {'auto', 'p2p', 'staged'}, default 'auto'
        Direct copies, or copies through host memory. By default, pairs without peer access are staged: those of the
        topology (``PcieTree.staged_pairs``) and those of p2pBandwidthLatencyTest in `measurements`.

    Returns
    -------
    Prediction
        One row per copy: graph, communication (number in its graph), source, target, size_bytes, start_s, elapsed_s
        (completion time minus start time), slowdown (elapsed time relative to the isolated copy). Models with
        engines add earliest_s and latest_s, the range of elapsed_s for random orders, unknown capacities and unmeasured
        staging. If `explain` is true:

        - bottleneck: the directed link of its route at which the copy waits longest.
        - caused_by: the saturated link further on, the shared resource, or the measured rate that causes the wait;
          empty if the copy gets its share of a full bottleneck.
        - limited_by: the copies whose removal shortens the copy, as ``source>target``, largest effect first; copies
          joined by ``+`` shorten it only together.
        - elapsed_without_s: elapsed time without the first of limited_by.

    Raises
    ------
    InputError
        If the model or an endpoint is unknown, a value is out of range, the bandwidth is unknown, or a copy would use
        a direct link.

    References
    ----------
    Martinasso et al., SC16, https://doi.org/10.1109/SC.2016.62

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> times = fc.predict(tree, fc.graph([(0, 1), (2, 1)]), bandwidth="10 GiB/s")
    >>> times["slowdown"].tolist(), times["bottleneck"].tolist()
    ([2.0, 2.0], ['endpoint 1 receives', 'endpoint 1 receives'])
    >>> times["limited_by"].tolist()
    ['2>1', '0>1']

    >>> fc.predict(tree, [(0, 1), (0, 4)])["slowdown"].round(1).tolist()  # one copy after the other
    [1.0, 2.2]
    """
    if unknown:
        names = [parameter for parameter in signature(predict).parameters if parameter != "unknown"]
        raise TypeError(f"predict() has no argument '{min(unknown)}'{near_names(min(unknown), names)}")
    if isinstance(tree, ClusterMachine) or (
        not isinstance(tree, Machine | PcieTree) and _is_of_cluster(paths_of(tree), graphs)
    ):
        others = (bandwidth, tau, crossing_cost, parameters, limited_by, program, measurements, system, gpu, link)
        if model != DEFAULT_MODEL or pcie_only or transport != "auto" or any(one is not None for one in others):
            raise InputError(
                "is a cluster: of the arguments only size applies, and a model of yours needs one machine (see "
                "predict_cluster)",
                argument="tree",
            )
        return _predict_cluster(tree, graphs, size)
    method = Method(model, program, pcie_only)
    options = MachineOptions(
        gpu=gpu,
        link=link,
        system=system,
        bandwidth_bytes_per_s=None if bandwidth is None else to_bytes_per_s(bandwidth),
        tau=tau,
        crossing_cost=crossing_cost,
        parameters=parameters,
        pcie_only=pcie_only,
    )
    check_question(method, options, paths_of(measurements))
    is_machine = isinstance(tree, Machine) and options == MachineOptions(pcie_only=pcie_only)
    machine = machine_of(tree, measurements=measurements, options=None if is_machine else options)
    chosen = graphs_of(machine.tree, graphs, size)
    if limited_by is None:
        limited_by = explain and chosen.source.size <= method.most_explained
    is_staged = staged_copies(machine.tree, chosen, method.transport(transport))
    return predict_graphs(machine, chosen, method, is_staged, explain=explain, limited_by=limited_by, threads=threads)


def _is_of_cluster(files: list[str], graphs: GraphsLike) -> bool:
    """Return whether files describe a cluster, or copies name the node of a built-in one."""
    return describes_cluster(files) or (starts_with_node(files) and names_nodes(graphs))


def _predict_cluster(cluster: ClusterMachine | Files, copies: GraphsLike, size: float | str) -> Prediction:
    """Return the table of copies in a cluster, with the tables of layers and choices in `attrs`."""
    if isinstance(copies, CongestionGraphs | pd.DataFrame):
        raise InputError("are of one machine, expected pairs such as ('node0.gpu3', 'node1.gpu3')", argument="graphs")
    # Several graphs are refused there as pairs that are none.
    found = predict_cluster(cluster, copies, size=None if size == DEFAULT_SIZE else size)  # type: ignore[arg-type]
    table = Prediction(found.table)
    table.attrs["warnings"] = list(found.warnings)
    table.attrs["time_s"], table.attrs["is_lower_bound"] = found.time_s, not found.is_simulated
    table.attrs["layers"] = found.layers.to_dict("records")
    table.attrs["choices"] = found.choices.to_dict("records")
    return table


def predict_graphs(
    machine: Machine,
    graphs: CongestionGraphs,
    method: Method,
    is_staged: NDArray[np.bool_],
    *,
    explain: bool = True,
    limited_by: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Prediction:
    """Predict graphs, of which some copies may pass through host memory; see `predict`.

    Shapes: is_staged (copies,).
    """
    if is_staged.any():
        return _predict_staged(
            machine, graphs, method, is_staged, explain=explain, limited_by=limited_by, threads=threads
        )
    predictor = Predictor(machine, method, explain=explain, limited_by=limited_by, threads=threads)
    found = predictor.predict(graphs, progress)
    found.table.attrs["warnings"] = predictor.warnings(found.notes)
    return found.table


def _predict_staged(
    machine: Machine,
    graphs: CongestionGraphs,
    method: Method,
    is_staged: NDArray[np.bool_],
    *,
    explain: bool,
    limited_by: bool,
    threads: int,
) -> Prediction:
    if not method.is_engine_model:
        count = int(is_staged.sum())
        needed = "1 copy of this machine needs" if count == 1 else f"{count:,} copies of this machine need"
        text = f"has no copies through host memory, and {needed} them"
        raise InputError(f"{text}: choose {' or '.join(ENGINE_MODELS)}, or transport p2p", argument="model")
    check_explanation(explain, limited_by)
    predictor = Predictor(machine, method, explain=explain, threads=threads)
    halves = predictor.predict(staged_graphs(predictor.tree, graphs, is_staged))
    rates = StagedRates(machine)
    table = _folded(halves.table, predictor.tree, graphs, is_staged, rates, predictor.elapsed_s)
    compared = predictor.compare_staged(graphs, table)
    table = predictor.staged_as_measured(graphs, table)
    notes = replace(halves.notes, comparison=halves.notes.comparison + compared)
    warnings = [
        _staged_error(method, rates, table)
        if one.code is WarningCode.EXPECTED_ERROR and "contradict" not in one.text
        else one
        for one in predictor.warnings(notes)
    ]
    if explain and limited_by:
        plain = Predictor(machine, method, explain=False, threads=threads)
        table = _with_limiting_copies(table, plain, graphs, is_staged, rates)
        warnings = [one for one in warnings if one.code is not WarningCode.LIMITING_COPIES_OMITTED]
    table.attrs["warnings"] = warnings
    if explain:
        direct = Predictor(machine, method, explain=False, threads=threads).predict(graphs).table
        table.attrs["warnings"].append(_other_transport(table, direct, is_measured=bool(machine.staged_bytes_per_s)))
    return table


def _staged_error(method: Method, rates: StagedRates, table: Prediction) -> CodedWarning:
    """Return the expected error of staged copies, by whether their rates were measured."""
    staged = table[table["transport"] == "staged"]
    pairs = set(zip(staged["source"].astype(str), staged["target"].astype(str), strict=True))
    if all(rates.one_way(*pair).is_measured or rates.both_ways(*pair).is_measured for pair in pairs):
        text = "staged copies: their pairs were measured; several pairs at once: unknown"
    else:
        classes = {"staged copies, both ways" if pair[::-1] in pairs else "staged copies" for pair in pairs}
        text = f"without measurements: {default_error_text(classes)}; several pairs at once: unknown"
    return CodedWarning(WarningCode.EXPECTED_ERROR, f"expected error of {method.name}: {text}")


def _folded(
    halves: pd.DataFrame,
    tree: PcieTree,
    graphs: CongestionGraphs,
    is_staged: NDArray[np.bool_],
    rates: StagedRates,
    elapsed_s: Times,
) -> Prediction:
    """Return one row per copy from the rows of both halves of staged copies.

    The halves overlap: ``elapsed_s`` is the time of the slower one and the time that the driver needs for its chunks.
    The copies of a pair in both directions share one resource of the driver. Rates that were not measured are those
    of public machines, whose range ``earliest_s`` and ``latest_s`` have.

    Shapes: is_staged (copies,).
    """
    times = halves["elapsed_s"].to_numpy()
    last = np.cumsum(np.where(is_staged, 2, 1)) - 1
    first = last - is_staged
    slower = np.where(times[first] > times[last], first, last)
    rows = halves.iloc[slower].reset_index(drop=True)
    copies = communications(tree, graphs)
    ends = list(zip(copies["source"].astype(str), copies["target"].astype(str), strict=True))
    single = [
        rates.one_way(*pair) if staged else StagedRate(np.nan) for pair, staged in zip(ends, is_staged, strict=True)
    ]
    known_s = graphs.size_bytes / np.array([rate.bytes_per_s for rate in single])
    isolated_s = _isolated_s(tree, graphs, is_staged, elapsed_s)
    chunks_s = np.where(
        np.isfinite(known_s), np.maximum(known_s - isolated_s, 0.0), graphs.size_bytes * chunk_overhead_s()
    )
    chunks_s = np.where(is_staged, chunks_s, 0.0)
    pair_s, pairs = _both_ways_s(graphs, is_staged, tree, rates)
    with_chunks_s = rows["elapsed_s"].to_numpy() + chunks_s
    # Both copies of a pair and no others were measured as they are forecast.
    is_known = (pair_s > 0) & np.array([rate.is_measured for rate in pairs], dtype=np.bool_)
    is_shared = (pair_s > with_chunks_s) | is_known
    staged_s = np.where(is_shared, pair_s, with_chunks_s)
    # The slower of both determines the range.
    chosen = [both if shared else one for both, one, shared in zip(pairs, single, is_shared, strict=True)]
    if "bottleneck" in rows:
        # No link is full: host memory and the driver limit both directions together.
        limited = is_shared & is_staged
        rows["bottleneck"] = np.where(limited, _BOTH_WAYS_OF_PAIR, rows["bottleneck"].astype(str))
        rows["caused_by"] = np.where(limited, "", rows["caused_by"].astype(str))
    shortest = np.array([rate.shortest for rate in chosen])
    longest = np.array([rate.longest for rate in chosen])
    early_s, late_s = (rows[name].to_numpy() + chunks_s for name in ("earliest_s", "latest_s"))
    late_s = np.maximum(late_s, staged_s * _both_ways_factor(graphs, is_staged, ends, rates))
    return Prediction(
        {
            **copies,
            **{name: rows[name] for name in rows.columns if name not in copies},
            "elapsed_s": staged_s,
            "slowdown": staged_s / (isolated_s + chunks_s),
            "earliest_s": np.where(is_staged, staged_s * np.minimum(shortest, 1.0), early_s),
            "latest_s": np.where(
                is_staged, np.where(is_known, staged_s, np.maximum(staged_s * longest, late_s)), late_s
            ),
            "transport": pd.Categorical.from_codes(is_staged.astype(np.int8), pd.Index(["p2p", "staged"])),
        }
    )


def _both_ways_factor(
    graphs: CongestionGraphs, is_staged: NDArray[np.bool_], ends: Sequence[tuple[str, str]], rates: StagedRates
) -> NDArray[np.float64]:
    """Return how much longer staged copies last at most, because a GPU of them sends and receives at the same time.

    Measured both ways, a pair reaches less than twice the rate of one way. Whether this holds for copies with different
    partners was not measured: it is the end of the range.
    """
    factor, of_pair = np.ones(graphs.source.size), dict[tuple[str, str], float]()
    number = graphs.graph_of_communication
    senders = set(zip(number[is_staged].tolist(), graphs.source[is_staged].tolist(), strict=True))
    receivers = set(zip(number[is_staged].tolist(), graphs.target[is_staged].tolist(), strict=True))
    for copy in np.flatnonzero(is_staged).tolist():
        of_graph = int(number[copy])
        if (of_graph, int(graphs.source[copy])) in receivers or (of_graph, int(graphs.target[copy])) in senders:
            if ends[copy] not in of_pair:
                ratio = 2 * rates.one_way(*ends[copy]).bytes_per_s / rates.both_ways(*ends[copy]).bytes_per_s
                of_pair[ends[copy]] = max(ratio, 1.0) if np.isfinite(ratio) else 1.0
            factor[copy] = of_pair[ends[copy]]
    return factor


def _both_ways_s(
    graphs: CongestionGraphs, is_staged: NDArray[np.bool_], tree: PcieTree, rates: StagedRates
) -> tuple[NDArray[np.float64], list[StagedRate]]:
    """Return the time in s of staged copies whose pair also copies in the other direction, with its rate; else 0."""
    names = tree.endpoint_names
    time_s, found = np.zeros(graphs.source.size), [StagedRate(np.nan)] * graphs.source.size
    for number in range(len(graphs)):
        part = range(int(graphs.offset[number]), int(graphs.offset[number + 1]))
        size: dict[tuple[int, int], float] = defaultdict(float)
        for copy in part:
            if is_staged[copy]:
                size[int(graphs.source[copy]), int(graphs.target[copy])] += float(graphs.size_bytes[copy])
        for copy in part:
            ends = int(graphs.source[copy]), int(graphs.target[copy])
            if is_staged[copy] and size.get(ends[::-1]):
                found[copy] = rates.both_ways(names[ends[0]], names[ends[1]])
                found[copy] = replace(found[copy], is_measured=found[copy].is_measured and len(part) == 2)
                # Copies of unequal sizes share the resource until the smaller one is complete.
                both = 2 * min(size[ends], size[ends[::-1]])
                more = max(size[ends] - size[ends[::-1]], 0.0)
                seconds = both / found[copy].bytes_per_s
                if more:
                    seconds += more / rates.one_way(names[ends[0]], names[ends[1]]).bytes_per_s
                time_s[copy] = seconds if np.isfinite(seconds) else 0.0
    return time_s, found


def _isolated_s(
    tree: PcieTree, graphs: CongestionGraphs, is_staged: NDArray[np.bool_], elapsed_s: Times
) -> NDArray[np.float64]:
    """Return the time of each isolated copy, whose halves may slow each other, without the time for chunks."""
    numbers = graphs.source * len(tree.endpoint_names) + graphs.target
    _, first, of_copy = np.unique(numbers, return_index=True, return_inverse=True)
    pairs = [[(int(graphs.source[copy]), int(graphs.target[copy]))] for copy in first]
    flags = is_staged[first]
    times = elapsed_s(staged_graphs(tree, from_pairs(pairs, size_bytes=1e9), flags))
    # All models are linear in the size of an isolated copy.
    return _slower_half_s(times, flags)[of_copy] * graphs.size_bytes / 1e9


def _slower_half_s(times_s: NDArray[np.float64], is_staged: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the time of the slower half of each staged copy, and of each direct copy."""
    last = np.cumsum(np.where(is_staged, 2, 1)) - 1
    slower: NDArray[np.float64] = np.maximum(times_s[last - is_staged], times_s[last])
    return slower


def _with_limiting_copies(
    table: Prediction, predictor: Predictor, graphs: CongestionGraphs, is_staged: NDArray[np.bool_], rates: StagedRates
) -> Prediction:
    """Return the result of `_folded` with the columns limited_by and elapsed_without_s.

    Shapes: is_staged (copies,).
    """
    tree = predictor.tree
    numbers = (graphs.source * len(tree.endpoint_names) + graphs.target).tolist()
    staged = dict(zip(numbers, is_staged.tolist(), strict=True))

    def times(some: CongestionGraphs) -> NDArray[np.float64]:
        pairs = (some.source * len(tree.endpoint_names) + some.target).tolist()
        flags = np.array([staged[pair] for pair in pairs], dtype=np.bool_)
        # Parts of a graph have its name, and the names of a table are unique.
        named = replace(some, names=tuple(map(str, range(len(some)))))
        halves = predictor.predict(staged_graphs(tree, named, flags)).table
        folded = _folded(halves, tree, named, flags, rates, predictor.elapsed_s)
        elapsed: NDArray[np.float64] = folded["elapsed_s"].to_numpy(dtype=float)
        return elapsed

    total_s = table["elapsed_s"].to_numpy(dtype=float)
    found = removals(graphs, total_s, table["slowdown"].to_numpy() > 1 + _SAME, times)
    texts = removal_texts(tree, graphs, found)
    return Prediction({**table, "limited_by": texts, "elapsed_without_s": found.elapsed_without_s})


def _other_transport(staged: pd.DataFrame, direct: pd.DataFrame, *, is_measured: bool) -> CodedWarning:
    """Return a sentence that compares staged copies with direct ones."""
    ends = makespans(staged), makespans(direct)
    if len(ends[0]) == 1:
        times = f"complete after {ends[1].iloc[0] * 1e3:.3g} ms, staged ones after {ends[0].iloc[0] * 1e3:.3g} ms"
    else:
        times = (
            f"need {(ends[1] / ends[0]).median():.3g} times as long as staged ones (median of {len(ends[0]):,} graphs)"
        )
    bound = "; the rates of staged copies are those of public machines: measure them (p2pBandwidthLatencyTest)"
    bound = "" if is_measured else bound
    return CodedWarning(
        WarningCode.OTHER_TRANSPORT, f"with peer access (transport p2p), all copies would {times}{bound}"
    )
