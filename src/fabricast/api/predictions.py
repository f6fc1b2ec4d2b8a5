"""When each communication ends, by a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.api.graphs import check_endpoints
from fabricast.api.model_parameters import engine_model, given_parameters
from fabricast.api.prediction_table import Prediction, communications
from fabricast.api.quantities import MOST_THREADS, check_count
from fabricast.core.errors import InputError, unknown_name
from fabricast.core.warnings import Warning, WarningCode
from fabricast.pcie.graphs.checks import refuse_peer_copies
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.divided_writes import divided_writes, divided_writes_warning
from fabricast.pcie.machines.engine_model import ENDPOINT_ENGINES, EngineModel
from fabricast.pcie.models.bottlenecks import link_labels, sharers
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.models.evaluation import Evaluation, evaluate
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import mapped_ahead

__all__ = ["Predictor", "predict"]

#: Parts of graphs that are worked on at once: with more, those that wait to be written take the memory.
_MOST_PARTS = 4
#: Copies smaller than this take longer to start than the models, which have no start-up time, say in all.
_LATENCY_BYTES = 2.0**20


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
    table.attrs["warnings"] = predictor.warnings()
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
        _, table = self._of_part(graphs, threads=self._threads)
        self._remember(graphs, table)
        return table

    def predict_parts(self, parts: Iterable[CongestionGraphs]) -> Iterator[Prediction]:
        """Give times of graphs part by part, as `predict` does; models work on a part a thread.

        Parameters
        ----------
        parts : iterable of CongestionGraphs
            The graphs.

        Raises
        ------
        InputError
            As of `predict`.
        """
        # What endpoint_engines finds depends on the graphs before, and it holds the lock of the interpreter.
        several = min(self._threads, _MOST_PARTS) if self._engines is None else 1
        for graphs, table in mapped_ahead(partial(self._of_part, threads=1), parts, threads=several):
            self._remember(graphs, table)
            yield table

    def _of_part(self, graphs: CongestionGraphs, *, threads: int) -> tuple[CongestionGraphs, Prediction]:
        check_endpoints(self._tree, graphs)
        if self._engines is not None:
            return graphs, self._of_engines(self._engines, graphs)
        return graphs, self._of_model(graphs, threads)

    def _remember(self, graphs: CongestionGraphs, table: Prediction) -> None:
        self._smallest_bytes = min(self._smallest_bytes, float(graphs.size_bytes.min(initial=np.inf)))
        if self._engines is not None:
            self._remember_divided(graphs.chosen(self._engines.writes(graphs)))
            return
        self._remember_divided(graphs)
        # Engines know programs and links between root complexes, and let nobody starve.
        self._has_programs |= any(graphs.programs)
        self._between_roots += int(self._is_between_roots[graphs.source, graphs.target].sum())
        self._starves |= not np.isfinite(table["elapsed_s"].to_numpy()).all()

    def _remember_divided(self, graphs: CongestionGraphs) -> None:
        divided = divided_writes(self._tree, graphs.graph_of_communication, graphs.source, graphs.target)
        if divided.size:
            self._divided_example = self._divided_example or graphs.names[divided[0]]
            self._divided += divided.size

    def _of_engines(self, engines: EngineModel, graphs: CongestionGraphs) -> Prediction:
        found = engines.times(graphs)
        return Prediction(
            {
                **communications(self._tree, graphs),
                "elapsed_s": found.end_s - graphs.start_s,
                "slowdown": (found.end_s - graphs.start_s) / engines.alone_s(graphs),
                "earliest_s": found.earliest_s - graphs.start_s,
                "latest_s": found.latest_s - graphs.start_s,
            }
        )

    def _of_model(self, graphs: CongestionGraphs, threads: int) -> Prediction:
        tree, machine = self._tree, self._machine
        if not self._pcie_only:
            refuse_peer_copies(tree, graphs)
        found = evaluate(
            tree, graphs, self._model, bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s, tau=machine.tau,
            crossing_cost=machine.crossing_cost, threads=threads, explain=self._explain,
        )  # fmt: skip
        elapsed_s = found.end_s - graphs.start_s
        return Prediction(
            {
                **communications(tree, graphs),
                "elapsed_s": elapsed_s,
                "slowdown": elapsed_s / _alone_s(tree, graphs, machine.bandwidth_bytes_per_s),
                **(_explanation(tree, graphs, found) if self._explain else {}),
            }
        )

    def warnings(self) -> list[Warning]:
        """Return the assumptions that affect the predictions so far."""
        if self._engines is not None:
            warnings = [*self._tree.warnings, *self._engines.warnings()]
        else:
            warnings = [*self._tree.warnings, *self._machine.warnings(self._model)]

        def add(code: WarningCode, text: str) -> None:
            warnings.append(Warning(code, text))

        if self._has_programs:
            add(
                WarningCode.PROGRAMS_IGNORED,
                f"the programs of the graphs are ignored: only model '{ENDPOINT_ENGINES}' uses them",
            )
        if self._between_roots:
            add(
                WarningCode.INTER_SOCKET_COPIES,
                f"{self._between_roots:,} copies are between root complexes; the study validates only copies below one "
                "root complex",
            )
        if self._divided:
            warnings.append(divided_writes_warning(self._divided, self._divided_example))
        if self._smallest_bytes < _LATENCY_BYTES:
            add(
                WarningCode.SMALL_COPIES,
                f"the smallest copy has {self._smallest_bytes:,.0f} bytes: models have no start-up time, which "
                "dominates copies below about 1 MiB",
            )
        if self._starves:
            add(
                WarningCode.STARVATION,
                f"model '{self._model.name}' starves some copies: their elapsed_s is infinite",
            )
        return warnings
