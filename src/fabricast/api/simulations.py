"""Completion times of copies, simulated packet by packet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.api.graphs import GraphsLike, check_endpoints, graphs_of
from fabricast.api.machine_inputs import GraphFile, MachineLike, machine_of
from fabricast.api.prediction_table import Prediction, communications, isolated_times
from fabricast.core.arguments import with_checked_types
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.quantities import MOST_THREADS, check_count
from fabricast.core.warnings import CodedWarning, WarningCode
from fabricast.pcie.graphs.checks import reject_peer_copies
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs
from fabricast.pcie.graphs.files import read_graphs
from fabricast.pcie.graphs.staged import staged_copies
from fabricast.pcie.models.removals import removal_texts, removals
from fabricast.pcie.packets.hardware import HARDWARE, PacketHardware
from fabricast.pcie.packets.link_rates import hardware_on
from fabricast.pcie.packets.programs import simulate_graphs
from fabricast.pcie.packets.trace import PacketTrace, trace_packets
from fabricast.pcie.topology.tree import PcieTree

__all__ = ["HARDWARE", "PacketHardware", "graphs_to_simulate", "simulate", "trace_graph"]

#: Ratio of times above which another order of arbitration, or a copy, has an effect.
_SENSITIVE = 1.01

#: Size in bytes of a copy whose rate is simulated.
_ALONE_BYTES = float(1 << 28)


@with_checked_types
def simulate(
    tree: MachineLike,
    graphs: GraphsLike,
    *,
    size: float | str = "300 MiB",
    hardware: str | PacketHardware = "no_split",
    generation: int | None = None,
    width: int | None = None,
    parameters: str | Path | None = None,
    pcie_only: bool = False,
    limited_by: bool = False,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Prediction:
    """Simulate each congestion graph packet by packet, independently of the models.

    Copies of graphs with a copy program (`CongestionGraphs.programs`, the column ``program`` of a file) are executed
    by one engine per GPU, in the order of the program. Copies of other graphs are independent.

    Parameters
    ----------
    tree : PcieTree, Machine, str, Path or sequence of these
        Topology or machine, its name, or files that describe it.
    graphs : CongestionGraphs, str, Path or iterable of pairs
        Graphs to simulate, as for `fabricast.predict`.
    size : float or str, default '300 MiB'
        Size of each copy for which `graphs` has none.
    hardware : str or PacketHardware, default 'no_split'
        Packets, buffers and root complex, or the name of a preset.
    generation, width : int, optional
        PCIe generation and lanes of a link of capacity 1, for topologies without link speeds.
    parameters : str or Path, optional
        Parameters of this machine, as written by ``fabricast calibrate -o``. The link rate is then chosen such that
        an isolated copy reaches the calibrated bandwidth.
    pcie_only : bool, default False
        Whether copies between directly linked endpoints use the PCIe tree.
    limited_by : bool, default False
        Whether to add the copies that limit each copy, by simulating each graph again without each of its copies.
    threads : int, default 1
        Number of threads.
    progress : callable, optional
        Called with the number of graphs finished since the previous call.

    Returns
    -------
    Prediction
        One row per copy: graph, communication (number in its graph), source, target, size_bytes, start_s, elapsed_s,
        and its range over the initial states of arbiters: earliest_s, latest_s; slowdown (elapsed time relative to the
        isolated copy, simulated too, which compares with that of `fabricast.predict`). `limited_by` adds limited_by and
        elapsed_without_s as in `fabricast.predict`; a removal counts if it shortens the copy by more than 1 %.

    Raises
    ------
    InputError
        If the link rate or the preset is unknown.

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> times = fc.simulate(tree, fc.graph([(0, 1), (2, 1)]), generation=3, width=16)
    >>> times["slowdown"].round(3).tolist()
    [2.0, 2.0]
    >>> fc.simulate(tree, fc.graph([(0, 1), (2, 1), (6, 7)]), limited_by=True)["limited_by"].tolist()
    ['2>1', '0>1', '']
    """
    check_count("threads", threads, MOST_THREADS)
    if isinstance(hardware, str):
        if hardware not in HARDWARE:
            raise unknown_name("hardware", hardware, HARDWARE)
        hardware = HARDWARE[hardware]
    tree = machine_of(tree).tree
    graphs = graphs_of(tree, graphs, size)
    check_endpoints(tree, graphs)
    if not pcie_only:
        reject_peer_copies(tree, graphs)
    chosen, warnings = hardware_on(tree, hardware, generation=generation, width=width, parameters=parameters)
    ends = simulate_graphs(tree, graphs, chosen, threads=threads, progress=progress)
    table = Prediction(
        {
            **communications(tree, graphs),
            "elapsed_s": ends.end_s - graphs.start_s,
            "earliest_s": ends.earliest_s - graphs.start_s,
            "latest_s": ends.latest_s - graphs.start_s,
        }
    )

    def times(some: CongestionGraphs) -> NDArray[np.float64]:
        return simulate_graphs(tree, some, chosen, threads=threads).end_s - some.start_s

    elapsed_s = table["elapsed_s"].to_numpy()
    isolated_s = isolated_times(tree, graphs, times)
    table["slowdown"] = elapsed_s / isolated_s
    if limited_by:
        slow = elapsed_s > isolated_s * _SENSITIVE
        removed = removals(graphs, elapsed_s, slow, times, _SENSITIVE - 1)
        table["limited_by"] = removal_texts(tree, graphs, removed)
        table["elapsed_without_s"] = removed.elapsed_without_s
    sensitive = int((ends.latest_s > ends.earliest_s * _SENSITIVE).sum())
    if sensitive:
        text = (
            f"{sensitive} copies complete more than 1 % earlier or later with another arbitration or engine order: "
            "earliest_s and latest_s are the range, elapsed_s the median (with a program, the mean)"
        )
        warnings.append(CodedWarning(WarningCode.ARBITER_PHASE, text))
    if staged_copies(tree, graphs, "auto").any():
        text = (
            "copies between GPUs without peer access are simulated as direct copies; 'predict' forecasts them through "
            "host memory, which is slower"
        )
        warnings.append(CodedWarning(WarningCode.STAGED_AS_DIRECT, text))
    if graphs.source.size and tree.bandwidth_bytes_per_s is None:
        warnings.append(_isolated_rate(tree, graphs, chosen))
    table.attrs["warnings"] = [*tree.warnings, *warnings]
    return table


def _isolated_rate(tree: PcieTree, graphs: CongestionGraphs, hardware: PacketHardware) -> CodedWarning:
    """Return the simulated rate of the first copy in isolation, which may differ from that of forecasts."""
    alone = from_pairs([[(int(graphs.source[0]), int(graphs.target[0]))]], size_bytes=_ALONE_BYTES)
    rate = _ALONE_BYTES / float(simulate_graphs(tree, alone, hardware, threads=1).end_s[0])
    text = (
        f"a single copy is simulated at {rate / 1e9:.4g} GB/s, the payload share of its links; 'predict' uses a "
        "measured or published rate, so that slowdowns compare, not times"
    )
    return CodedWarning(WarningCode.CALIBRATED_RATE, text)


def graphs_to_simulate(tree: PcieTree, file: GraphFile, size_bytes: float) -> CongestionGraphs:
    """Return the graphs of a file, between the endpoints of a topology."""
    return read_graphs(file.path, tree, size_bytes=size_bytes, programs=True, text=file.text)


def trace_graph(
    tree: PcieTree,
    graph_file: GraphFile,
    graph: str,
    hardware: PacketHardware,
    *,
    size_bytes: float,
    transmissions: int,
    generation: int | None = None,
    width: int | None = None,
    parameters: Path | None = None,
    pcie_only: bool = False,
) -> tuple[PacketTrace, list[str]]:
    """Return the transmissions of one graph of a file, and the name of each copy."""
    graphs = graphs_to_simulate(tree, graph_file, size_bytes)
    if graph not in graphs.names:
        raise InputError(f"is '{graph}', expected a graph of {graph_file.path}", argument="trace")
    if not pcie_only:
        reject_peer_copies(tree, graphs)
    chosen, _ = hardware_on(tree, hardware, generation=generation, width=width, parameters=parameters)
    number = graphs.names.index(graph)
    trace = trace_packets(tree, graphs, number, chosen, transmissions=transmissions)
    return trace, [f"{tree.endpoint_names[s]}→{tree.endpoint_names[t]}" for s, t in graphs.pairs(number)]
