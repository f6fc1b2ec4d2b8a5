"""Predictor of graphs of one topology, block by block, with warnings about its assumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricast.api.graphs import check_endpoints
from fabricast.api.model_parameters import ModelInputs
from fabricast.api.prediction_table import Prediction, communications, isolated_times, link_columns, text_columns
from fabricast.core.errors import InputError
from fabricast.core.quantities import MOST_THREADS, check_count
from fabricast.core.warnings import Warning, WarningCode
from fabricast.pcie.graphs.checks import reject_peer_copies
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.divided_writes import divided_writes, divided_writes_warning
from fabricast.pcie.machines.engine_model import ENGINE_MODELS, EngineModel
from fabricast.pcie.machines.expected_errors import expected_error_text, graph_classes
from fabricast.pcie.models.evaluation import Evaluation, evaluate
from fabricast.pcie.models.removals import MOST_IN_GRAPH, MOST_OF_RANDOM, Times, removal_texts, removals
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import prefetched_map

__all__ = ["Predictor", "check_explanation"]

#: Maximum number of blocks of graphs that are evaluated concurrently; limits memory for blocks that wait to be written.
_MOST_PARTS = 4
#: Relative difference below which times are equal.
_SAME = 1e-9
#: Size in bytes below which the neglected start-up time adds several percent: config/published/host_copy_rates.csv.
_LATENCY_BYTES = 4 * 2.0**20


def check_explanation(explain: bool, limited_by: bool) -> None:
    """Refuse limiting copies without an explanation."""
    if limited_by and not explain:
        raise InputError("is requested without explain, which it extends", argument="limited_by")


class Predictor:
    """Predictor of graphs of one topology, block by block.

    `predict` evaluates all graphs in one block.

    Parameters
    ----------
    tree, explain, limited_by, threads
        See `predict`.
    inputs : ModelInputs
        Model and parameters.

    Raises
    ------
    InputError
        If the model is unknown, a value is out of range, or the bandwidth is unknown.

    Examples
    --------
    >>> import fabricast as fc
    >>> predictor = Predictor(fc.load_topology("storm8"), ModelInputs(bandwidth="10 GiB/s"))
    >>> predictor.predict(fc.graph([(0, 1), (2, 1)]))["slowdown"].tolist()
    [2.0, 2.0]
    """

    def __init__(
        self, tree: PcieTree, inputs: ModelInputs, *, explain: bool = True, limited_by: bool = False, threads: int = 1
    ) -> None:
        check_count("threads", threads, MOST_THREADS)
        self._pcie_only, self._explain, self._threads = inputs.pcie_only, explain, threads
        check_explanation(explain, limited_by)
        self._limited_by, self._name = limited_by, inputs.name
        self._engines: EngineModel | None = None
        if inputs.is_engine_model:
            self._engines = inputs.engine_model(tree)
            tree = self._engines.tree
        else:
            self._model, self._machine = inputs.chosen_model(), inputs.machine_parameters(tree)
        self._tree = tree
        names = tree.endpoint_names
        self._is_between_roots = np.array([[s != t and tree.path_class(s, t) == "SYS" for t in names] for s in names])
        self._between_roots, self._divided, self._divided_example, self._starves = 0, 0, "", False
        self._smallest_bytes, self._large_graphs, self._has_programs = np.inf, 0, False
        self._classes: set[str] = set()

    @property
    def tree(self) -> PcieTree:
        """Topology of the graphs. With engines, it contains host memory as endpoints."""
        return self._tree

    def predict(self, graphs: CongestionGraphs, progress: Callable[[int], None] | None = None) -> Prediction:
        """Return the times of one block of graphs, and record its warnings."""
        _, table = self._of_part(graphs, threads=self._threads, progress=progress)
        self._remember(graphs, table)
        return table

    def elapsed_s(self, graphs: CongestionGraphs, progress: Callable[[int], None] | None = None) -> NDArray[np.float64]:
        """Return the elapsed time of each copy in s (models with engines), without recording warnings."""
        assert self._engines is not None
        return self._engines.times(graphs, warn=False, progress=progress).end_s - graphs.start_s

    def slow_removals(self, graphs: CongestionGraphs) -> int:
        """Return the number of copies without which a graph is evaluated with many draws of a random order."""
        return self._engines.explained_slowly(graphs) if self._engines is not None and self._limited_by else 0

    def compare_staged(self, table: Prediction, known: Mapping[tuple[str, str], float]) -> None:
        """Compare staged copies of unmeasured transport with the measured rates of their pairs, for `warnings`.

        Only pairs without peer access are compared: for others, the measurements are of direct copies.
        """
        for _, row in table[table["transport"] == "staged"].drop_duplicates(["source", "target"]).iterrows():
            if self._engines is not None and (flow := (str(row["source"]), str(row["target"]))) not in known:
                if flow not in self._tree.staged_pairs:
                    continue
                self._engines.measured.compare_isolated(
                    flow, float(row["size_bytes"] / row["elapsed_s"] * row["slowdown"])
                )

    def compare_staged_graphs(self, graphs: CongestionGraphs, table: Prediction) -> None:
        """Compare graphs of pairs without peer access with the measured rates of the same copies, for `warnings`."""
        names, elapsed_s = self._tree.endpoint_names, table["elapsed_s"].to_numpy()
        for number in range(len(graphs)):
            part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
            pairs, sizes, starts = graphs.pairs(number), graphs.size_bytes[part], graphs.start_s[part]
            are_staged = all((names[one], names[other]) in self._tree.staged_pairs for one, other in pairs)
            if self._engines is not None and are_staged and np.ptp(sizes) == 0 and np.ptp(starts) == 0:
                self._engines.measured.compare_staged(pairs, float(sizes.sum() / elapsed_s[part].max()))

    def predict_parts(self, parts: Iterable[CongestionGraphs]) -> Iterator[Prediction]:
        """Yield the times of blocks of graphs, in their order.

        Several threads evaluate one block each, except for models with engines.
        """
        # Warnings of models with engines depend on the previous graphs, and they do not release the interpreter lock.
        several = min(self._threads, _MOST_PARTS) if self._engines is None else 1
        for graphs, table in prefetched_map(partial(self._of_part, threads=1), parts, threads=several):
            self._remember(graphs, table)
            yield table

    def _of_part(
        self, graphs: CongestionGraphs, *, threads: int, progress: Callable[[int], None] | None = None
    ) -> tuple[CongestionGraphs, Prediction]:
        check_endpoints(self._tree, graphs)
        if self._engines is not None:
            return graphs, self._of_engines(self._engines, graphs, progress)
        return graphs, self._of_model(graphs, threads)

    def _remember(self, graphs: CongestionGraphs, table: Prediction) -> None:
        self._smallest_bytes = min(self._smallest_bytes, float(graphs.size_bytes.min(initial=np.inf)))
        self._classes |= graph_classes(self._tree, graphs)
        if self._limited_by:
            self._large_graphs += int((np.diff(graphs.offset) > self._most_copies(graphs)).sum())
        if self._engines is not None:
            self._remember_divided(graphs.chosen(self._engines.writes(graphs)))
            return
        self._remember_divided(graphs)
        # Models with engines support programs and inter-socket links, and no copy starves.
        self._has_programs |= any(graphs.programs)
        self._between_roots += int(self._is_between_roots[graphs.source, graphs.target].sum())
        self._starves |= not np.isfinite(table["elapsed_s"].to_numpy()).all()

    def _remember_divided(self, graphs: CongestionGraphs) -> None:
        divided = divided_writes(self._tree, graphs.graph_of_communication, graphs.source, graphs.target)
        if divided.size:
            self._divided_example = self._divided_example or graphs.names[divided[0]]
            self._divided += divided.size

    def _of_engines(
        self, engines: EngineModel, graphs: CongestionGraphs, progress: Callable[[int], None] | None
    ) -> Prediction:
        found = engines.times(graphs, explain=self._explain)
        elapsed_s = found.end_s - graphs.start_s
        isolated_s = engines.isolated_s(graphs)
        return Prediction(
            {
                **communications(self._tree, graphs),
                "elapsed_s": elapsed_s,
                "slowdown": elapsed_s / isolated_s,
                "earliest_s": found.earliest_s - graphs.start_s,
                "latest_s": found.latest_s - graphs.start_s,
                **(text_columns(found) if self._explain else {}),
                **self._limiting(graphs, elapsed_s, isolated_s, partial(self.elapsed_s, progress=progress)),
            }
        )

    def _of_model(self, graphs: CongestionGraphs, threads: int) -> Prediction:
        tree, machine = self._tree, self._machine
        if not self._pcie_only:
            reject_peer_copies(tree, graphs)

        def evaluation(some: CongestionGraphs, *, explain: bool) -> Evaluation:
            return evaluate(
                tree,
                some,
                self._model,
                bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s,
                tau=machine.tau,
                crossing_cost=machine.crossing_cost,
                threads=threads,
                explain=explain,
            )

        def times(some: CongestionGraphs) -> NDArray[np.float64]:
            return evaluation(some, explain=False).end_s - some.start_s

        found = evaluation(graphs, explain=self._explain)
        elapsed_s = found.end_s - graphs.start_s
        isolated_s = isolated_times(tree, graphs, times)
        return Prediction(
            {
                **communications(tree, graphs),
                "elapsed_s": elapsed_s,
                "slowdown": elapsed_s / isolated_s,
                **(link_columns(tree, found) if self._explain else {}),
                **self._limiting(graphs, elapsed_s, isolated_s, times),
            }
        )

    def _limiting(
        self, graphs: CongestionGraphs, elapsed_s: NDArray[np.float64], isolated_s: NDArray[np.float64], times: Times
    ) -> dict[str, Any]:
        """Return the columns limited_by and elapsed_without_s."""
        if not self._limited_by:
            return {}
        slow = elapsed_s > isolated_s * (1 + _SAME)
        found = removals(graphs, elapsed_s, slow, times, most_copies=self._most_copies(graphs))
        return {"limited_by": removal_texts(self._tree, graphs, found), "elapsed_without_s": found.elapsed_without_s}

    def _most_copies(self, graphs: CongestionGraphs) -> NDArray[np.int64]:
        """Return the number of copies of each graph up to which limiting copies are determined."""
        return np.full(len(graphs), MOST_IN_GRAPH) if self._engines is None else self._engines.most_explained(graphs)

    def warnings(self, *, is_contradicted: bool = False) -> list[Warning]:
        """Return the assumptions that affect the predictions so far."""
        if self._engines is not None:
            warnings = [*self._tree.warnings, *self._engines.warnings()]
        else:
            warnings = [*self._tree.warnings, *self._machine.warnings(self._model)]

        def add(code: WarningCode, text: str) -> None:
            warnings.append(Warning(code, text))

        if is_contradicted or any(one.code is WarningCode.MEASUREMENT_CONTRADICTED for one in warnings):
            add(WarningCode.EXPECTED_ERROR, "expected error: unknown, the measurements contradict the forecast")
        elif self._classes:
            unprobed = self._engines.unprobed if self._engines is not None else []
            add(WarningCode.EXPECTED_ERROR, expected_error_text(self._name, self._classes, unprobed))
        if self._has_programs:
            add(
                WarningCode.PROGRAMS_IGNORED,
                f"the programs of the graphs are ignored: only {' and '.join(ENGINE_MODELS)} use them",
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
                "adds 10 to 35 % at 1 MiB (copies of host memory on H100 and H200) and dominates smaller copies",
            )
        if self._large_graphs:
            limits = f"{MOST_IN_GRAPH} copies, or {MOST_OF_RANDOM} with a random order"
            text = f"{self._large_graphs:,} graphs have more than {limits}: their limited_by is empty"
            add(WarningCode.LIMITING_COPIES_OMITTED, text)
        if self._explain and not self._limited_by:
            text = "limited_by and elapsed_without_s are omitted; request them with limited_by (--limited-by)"
            add(WarningCode.LIMITING_COPIES_OMITTED, text)
        if self._starves:
            add(WarningCode.STARVATION, f"model '{self._model.name}' starves some copies: their elapsed_s is infinite")
        return warnings
