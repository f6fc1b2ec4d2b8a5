"""When each communication ends: by a model, or packet by packet."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.graphs import check_endpoints
from fabricast.api.model_parameters import engine_model, given_parameters
from fabricast.api.quantities import MOST_THREADS, check_count
from fabricast.core.errors import InputError, unknown_name
from fabricast.pcie.bottlenecks import link_labels, sharers
from fabricast.pcie.engine_model import ENDPOINT_ENGINES, EngineModel
from fabricast.pcie.graphs import CongestionGraphs
from fabricast.pcie.hazards import divided_writes, divided_writes_text
from fabricast.pcie.link_rates import hardware_on
from fabricast.pcie.machine_parameters import refuse_peer_copies
from fabricast.pcie.models import MODELS, Evaluation, Model, evaluate
from fabricast.pcie.packet_graphs import simulate_graphs
from fabricast.pcie.packet_hardware import HARDWARE, PacketHardware
from fabricast.pcie.tree import PcieTree

__all__ = ["Prediction", "Predictor", "predict", "simulate"]

#: A timeline with more bars than this is not read.
_MOST_BARS = 40
_SENSITIVE = 1.01
#: Copies smaller than this take longer to start than the models, which have no start-up time, say in all.
_LATENCY_BYTES = 2.0**20


class Prediction(pd.DataFrame):
    """Times of communications: a data frame that shows its timeline in a notebook.

    What the reader should know of it, such as which numbers were assumed, stands in
    ``attrs["notes"]``.
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return Prediction

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>note: {escape(str(note))}</p>" for note in self.attrs.get("notes", ()))
        return _timeline(self) + str(super()._repr_html_()) + notes  # type: ignore[misc]  # hidden from stubs


def _timeline(table: pd.DataFrame) -> str:
    """Bars from start to end of each communication of the first graph, as SVG."""
    columns = {"graph", "source", "target", "start_s", "elapsed_s"}
    if not columns <= set(table.columns) or table.empty:
        return ""
    rows = table[table["graph"] == table["graph"].iloc[0]].head(_MOST_BARS)
    ends = (rows["start_s"] + rows["elapsed_s"]).to_numpy()
    last = float(ends[np.isfinite(ends)].max(initial=0.0)) or 1.0
    bars = []
    for place, (_, row) in enumerate(rows.iterrows()):
        begin, end = 90 + 420 * row["start_s"] / last, 90 + 420 * min(row["start_s"] + row["elapsed_s"], last) / last
        label = f"{row['source']} → {row['target']}"
        why = f": {row['bottleneck']}" if "bottleneck" in rows else ""
        bars.append(
            f'<text x="84" y="{16 * place + 12}" text-anchor="end" font-size="11">{escape(label)}</text>'
            f'<rect x="{begin:.1f}" y="{16 * place + 2}" width="{max(end - begin, 1):.1f}" height="12" fill="#56B4E9">'
            f"<title>{escape(label)}, {row['elapsed_s'] * 1e3:.4g} ms{escape(why)}</title></rect>"
            f'<text x="{end + 4:.1f}" y="{16 * place + 12}" font-size="10">{row["elapsed_s"] * 1e3:.4g} ms</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="600" height="{16 * len(rows) + 4}" '
        f'font-family="sans-serif"><title>Timeline of graph {escape(str(rows["graph"].iloc[0]))}</title>'
        f"{''.join(bars)}</svg>"
    )


def _communications(tree: PcieTree, graphs: CongestionGraphs) -> dict[str, Any]:
    """Columns that say which communication a row is; names as categories, each held once."""
    names = pd.Index(list(tree.endpoint_names))
    return {
        "graph": pd.Categorical.from_codes(graphs.graph_of_communication, pd.Index(list(graphs.names))),
        "communication": graphs.number_in_graph,
        "source": pd.Categorical.from_codes(graphs.source, names),
        "target": pd.Categorical.from_codes(graphs.target, names),
        "size_bytes": graphs.size_bytes,
        "start_s": graphs.start_s,
    }


def _explanation(tree: PcieTree, graphs: CongestionGraphs, found: Evaluation) -> dict[str, Any]:
    assert found.bottleneck is not None
    return {
        "bottleneck": pd.Categorical.from_codes(found.bottleneck, pd.Index(link_labels(tree))),
        "shared_with": sharers(tree, graphs, found.bottleneck, found.end_s),
    }


def _alone_s(tree: PcieTree, graphs: CongestionGraphs, bandwidth_bytes_per_s: float) -> NDArray[np.float64]:
    """Time of each communication alone, at the bandwidth of its narrowest link."""
    routes = tree.routes
    known = np.flatnonzero(np.diff(routes.offset))
    narrowest = np.ones(routes.endpoints**2)
    narrowest[known] = np.minimum.reduceat(routes.capacity[routes.link], routes.offset[known])
    pair = graphs.source * routes.endpoints + graphs.target
    alone: NDArray[np.float64] = graphs.size_bytes / (bandwidth_bytes_per_s * narrowest[pair])
    return alone


def predict(
    tree: PcieTree,
    graphs: CongestionGraphs,
    *,
    model: str | Model = "congestion_factor",
    bandwidth: float | str | None = None,
    tau: float | None = None,
    crossing_cost: float | None = None,
    parameters: str | Path | None = None,
    pcie_only: bool = False,
    explain: bool = True,
    threads: int = 1,
    program: str | None = None,
    measurements: str | Path | None = None,
    system: str | None = None,
) -> Prediction:
    """Predict when each communication of each congestion graph ends, and what limits it.

    Parameters
    ----------
    tree : PcieTree
        Topology, as `load_topology` gives.
    graphs : CongestionGraphs
        Graphs, as `graph`, `halo_exchange`, `all_to_all` or `read_graphs` give.
    model : str or Model, default 'congestion_factor'
        Name of a model; ``fabricast models`` lists them. ``"endpoint_engines"`` knows that a GPU executes one copy at a
        time, in the order of a program, and takes copies of host memory.
    bandwidth : float or str, optional
        Bandwidth of one copy alone, in bytes/s or such as ``"24 GiB/s"``; by default that of the
        machine: calibrated, published, or the payload share of its links.
    tau : float, optional
        Performance reduction for crossing the root complex; by default that of the machine, else 0.
    crossing_cost : float, optional
        Time per byte behind the root complex, relative, used by the model back_pressure; by
        default that of the machine, else 1.
    parameters : str or Path, optional
        Parameters of this machine, as ``fabricast calibrate -o`` writes them.
    pcie_only : bool, default False
        Whether copies between endpoints with direct links take the tree all the same.
    explain : bool, default True
        Whether to name the bottleneck of each communication and who shares it.
    threads : int, default 1
        Threads to use.
    program : str, optional
        Program of graphs that name none, for endpoint_engines: ordered_writes (PyTorch), unordered_reads (p2pmark),
        unordered_writes (nvbandwidth) or independent.
    measurements : str or Path, optional
        Copies that were measured together on this machine, as for `validate_machine`: endpoint_engines takes its rates
        from them.
    system : str, optional
        Take only measurements of this system.

    Returns
    -------
    Prediction
        One row a communication: graph, communication, source, target, size_bytes, start_s,
        elapsed_s (end minus own start), slowdown (elapsed time by the time alone). Of endpoint_engines, earliest_s and
        latest_s: the range where the order is random. Of other models and if explained,
        bottleneck (the link or endpoint that limits it for the longest time: a full one of its route
        where it gets its part, and not only what others leave; else the one that limits those that hold it back at a
        port that they share) and shared_with.

    Raises
    ------
    InputError
        If the model or an endpoint is unknown, a value is out of range, nothing tells the
        bandwidth, or a copy would take a direct link.

    References
    ----------
    Martinasso et al., "A PCIe congestion-aware performance model for densely populated
    accelerator servers", SC16, https://doi.org/10.1109/SC.2016.62

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> times = fc.predict(tree, fc.graph([(0, 1), (2, 1)]), bandwidth="10 GiB/s")
    >>> times["slowdown"].tolist(), times["bottleneck"].tolist()
    ([2.0, 2.0], ['endpoint 1 receives', 'endpoint 1 receives'])
    >>> times["shared_with"].tolist()
    ['2>1', '0>1']

    One GPU that copies to two others executes one copy after the other:

    >>> engines = fc.predict(tree, fc.graph([(0, 1), (0, 4)]), model="endpoint_engines", program="torch")
    >>> engines["slowdown"].round(1).tolist()
    [1.0, 2.1]
    """
    predictor = Predictor(
        tree, model=model, bandwidth=bandwidth, tau=tau, crossing_cost=crossing_cost, parameters=parameters,
        pcie_only=pcie_only, explain=explain, threads=threads, program=program, measurements=measurements,
        system=system,
    )  # fmt: skip
    table = predictor.predict(graphs)
    table.attrs["notes"] = predictor.notes()
    return table


class Predictor:
    """Predicts graphs of one topology, some at a time, as `predict` does all at once.

    Parameters
    ----------
    tree, model, bandwidth, tau, crossing_cost, parameters, pcie_only, explain, threads, program, measurements, system
        As for `predict`.

    Raises
    ------
    InputError
        If the model is unknown, a value is out of range, or nothing tells the bandwidth.

    Examples
    --------
    >>> import fabricast as fc
    >>> predictor = Predictor(fc.load_topology("storm8"), bandwidth="10 GiB/s")
    >>> predictor.predict(fc.graph([(0, 1), (2, 1)]))["slowdown"].tolist()
    [2.0, 2.0]
    """

    def __init__(
        self,
        tree: PcieTree,
        *,
        model: str | Model = "congestion_factor",
        bandwidth: float | str | None = None,
        tau: float | None = None,
        crossing_cost: float | None = None,
        parameters: str | Path | None = None,
        pcie_only: bool = False,
        explain: bool = True,
        threads: int = 1,
        program: str | None = None,
        measurements: str | Path | None = None,
        system: str | None = None,
    ) -> None:
        check_count("threads", threads, MOST_THREADS)
        self._pcie_only, self._explain, self._threads = pcie_only, explain, threads
        given = {"bandwidth": bandwidth, "tau": tau, "crossing_cost": crossing_cost, "parameters": parameters}
        self._engines: EngineModel | None = None
        if model == ENDPOINT_ENGINES:
            self._engines = engine_model(tree, given, program, measurements, system, pcie_only)
            tree = self._engines.tree
        else:
            for name, value in (("program", program), ("measurements", measurements), ("system", system)):
                if value is not None:
                    raise InputError(f"is given, and only model '{ENDPOINT_ENGINES}' takes it", argument=name)
            if isinstance(model, str) and model not in MODELS:
                raise unknown_name("model", model, [*MODELS, ENDPOINT_ENGINES])
            self._model = MODELS[model] if isinstance(model, str) else model
            self._machine = given_parameters(tree, given)
        self._tree = tree
        names = tree.endpoint_names
        self._is_between_roots = np.array([[s != t and tree.path_class(s, t) == "SYS" for t in names] for s in names])
        self._between_roots, self._divided, self._starves = 0, 0, False
        self._divided_example = ""
        self._smallest_bytes = np.inf
        self._has_programs = False

    @property
    def tree(self) -> PcieTree:
        """Topology of the graphs; of endpoint_engines host memory is among its endpoints."""
        return self._tree

    def predict(self, graphs: CongestionGraphs) -> Prediction:
        """Return times of some graphs, and remember what `notes` says of them.

        Parameters
        ----------
        graphs : CongestionGraphs
            The graphs.

        Raises
        ------
        InputError
            If an endpoint is unknown, or a copy would take a direct link of which nothing tells the rate.
        """
        check_endpoints(self._tree, graphs)
        self._smallest_bytes = min(self._smallest_bytes, float(graphs.size_bytes.min(initial=np.inf)))
        return self._of_model(graphs) if self._engines is None else self._of_engines(self._engines, graphs)

    def _of_engines(self, engines: EngineModel, graphs: CongestionGraphs) -> Prediction:
        found = engines.times(graphs)
        written = graphs.chosen(engines.writes(graphs))
        self._remember_divided(written)
        return Prediction(
            {
                **_communications(self._tree, graphs),
                "elapsed_s": found.end_s - graphs.start_s,
                "slowdown": (found.end_s - graphs.start_s) / engines.alone_s(graphs),
                "earliest_s": found.earliest_s - graphs.start_s,
                "latest_s": found.latest_s - graphs.start_s,
            }
        )

    def _remember_divided(self, graphs: CongestionGraphs) -> None:
        divided = divided_writes(self._tree, graphs.graph_of_communication, graphs.source, graphs.target)
        if divided.size:
            self._divided_example = self._divided_example or graphs.names[divided[0]]
            self._divided += divided.size

    def _of_model(self, graphs: CongestionGraphs) -> Prediction:
        tree, machine = self._tree, self._machine
        if not self._pcie_only:
            refuse_peer_copies(tree, graphs)
        if any(graphs.programs):
            self._has_programs = True
        found = evaluate(
            tree, graphs, self._model, bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s, tau=machine.tau,
            crossing_cost=machine.crossing_cost, threads=self._threads, explain=self._explain,
        )  # fmt: skip
        elapsed_s = found.end_s - graphs.start_s
        self._between_roots += int(self._is_between_roots[graphs.source, graphs.target].sum())
        self._remember_divided(graphs)
        self._starves |= not np.isfinite(elapsed_s).all()
        return Prediction(
            {
                **_communications(tree, graphs),
                "elapsed_s": elapsed_s,
                "slowdown": elapsed_s / _alone_s(tree, graphs, machine.bandwidth_bytes_per_s),
                **(_explanation(tree, graphs, found) if self._explain else {}),
            }
        )

    def notes(self) -> list[str]:
        """Return what the reader of all predictions so far should know, one line each."""
        if self._engines is not None:
            notes = [*self._tree.notes, *self._engines.notes()]
        else:
            notes = [*self._tree.notes, *self._machine.notes(self._model)]
        if self._has_programs:
            notes.append(f"programs of graphs are for model '{ENDPOINT_ENGINES}': here every copy runs by itself")
        if self._between_roots:
            notes.append(
                f"copies between root complexes: {self._between_roots:,}; the study validates those below one only"
            )
        if self._divided:
            notes.append(divided_writes_text(self._divided, self._divided_example))
        if self._smallest_bytes < _LATENCY_BYTES:
            notes.append(
                f"the smallest copy has {self._smallest_bytes:,.0f} bytes: models have no start-up time, which is most "
                "of what copies below about a MiB take"
            )
        if self._starves:
            notes.append(f"model '{self._model.name}' starves some communications: their elapsed_s is infinite")
        return notes


def simulate(
    tree: PcieTree,
    graphs: CongestionGraphs,
    *,
    hardware: str | PacketHardware = "no_split",
    generation: int | None = None,
    width: int | None = None,
    parameters: str | Path | None = None,
    pcie_only: bool = False,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Prediction:
    """Simulate each congestion graph packet by packet, independently of the models.

    Graphs with a program (`CongestionGraphs.programs`, the column ``program`` of a file) are executed by one engine a
    GPU in its order; others start all copies by themselves.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs.
    hardware : str or PacketHardware, default 'no_split'
        Packets, buffers and root complex, or the name of a setting.
    generation, width : int, optional
        PCIe link of capacity 1, for topologies that record no speed.
    parameters : str or Path, optional
        Parameters of this machine, as ``fabricast calibrate -o`` writes them: links are then as
        fast as the bandwidth of one copy alone asks for.
    pcie_only : bool, default False
        Whether copies between endpoints with direct links take the tree all the same.
    threads : int, default 1
        Threads to use.
    progress : callable, optional
        Called with the number of graphs that were finished since its last call.

    Returns
    -------
    Prediction
        One row a communication: graph, communication, source, target, size_bytes, start_s,
        elapsed_s, and its range over where the turns of arbiters begin: earliest_s, latest_s.

    Raises
    ------
    InputError
        If nothing tells the rate of the links, or the setting is unknown.

    Examples
    --------
    >>> import fabricast as fc
    >>> tree = fc.load_topology("storm8")
    >>> times = fc.simulate(tree, fc.graph([(0, 1), (2, 1)]), generation=3, width=16)
    >>> alone = fc.simulate(tree, fc.graph([(0, 1)]))
    >>> (times["elapsed_s"] / alone["elapsed_s"].iloc[0]).round(3).tolist()
    [2.0, 2.0]
    """
    check_count("threads", threads, MOST_THREADS)
    if isinstance(hardware, str):
        if hardware not in HARDWARE:
            raise unknown_name("hardware", hardware, HARDWARE)
        hardware = HARDWARE[hardware]
    check_endpoints(tree, graphs)
    if not pcie_only:
        refuse_peer_copies(tree, graphs)
    chosen, notes = hardware_on(tree, hardware, generation=generation, width=width, parameters=parameters)
    ends = simulate_graphs(tree, graphs, chosen, threads=threads, progress=progress)
    table = Prediction(
        {
            **_communications(tree, graphs),
            "elapsed_s": ends.end_s - graphs.start_s,
            "earliest_s": ends.earliest_s - graphs.start_s,
            "latest_s": ends.latest_s - graphs.start_s,
        }
    )
    sensitive = int((ends.latest_s > ends.earliest_s * _SENSITIVE).sum())
    if sensitive:
        notes.append(
            f"{sensitive} communications end more than 1 % earlier or later with other turns of the arbiters or of "
            "engines: earliest_s and latest_s hold the range, elapsed_s the median (with a program, the mean)"
        )
    table.attrs["notes"] = [*tree.notes, *notes]
    return table
