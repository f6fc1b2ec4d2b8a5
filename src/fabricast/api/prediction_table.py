"""Table of copy times, with a timeline for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.core.warnings import Warning, WarningCode
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_arcs
from fabricast.pcie.graphs.rates import CopyTimes
from fabricast.pcie.graphs.staged import chunk_overhead_s
from fabricast.pcie.models.evaluation import Evaluation
from fabricast.pcie.models.removals import Times
from fabricast.pcie.topology.paths import link_labels
from fabricast.pcie.topology.tree import PcieTree

__all__ = [
    "Prediction",
    "communications",
    "folded",
    "link_columns",
    "makespans",
    "other_transport",
    "text_columns",
]

#: Maximum number of bars in a timeline.
_MOST_BARS = 40


class Prediction(pd.DataFrame):
    """Data frame of copy times that notebooks display with a timeline.

    ``attrs["warnings"]`` lists warnings, for example about assumed parameters.
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return Prediction

    def _repr_html_(self) -> str:
        warnings = "".join(f"<p>warning: {escape(str(one))}</p>" for one in self.attrs.get("warnings", ()))
        return _timeline(self) + str(super()._repr_html_()) + warnings  # type: ignore[misc]  # hidden from stubs


def _timeline(table: pd.DataFrame) -> str:
    """Return an SVG with a bar from start to end of each copy of the first graph."""
    columns = {"graph", "source", "target", "start_s", "elapsed_s"}
    if not columns <= set(table.columns) or table.empty:
        return ""
    rows = table[table["graph"] == table["graph"].iloc[0]].head(_MOST_BARS)
    ends = (rows["start_s"] + rows["elapsed_s"]).to_numpy()
    last = float(ends[np.isfinite(ends)].max(initial=0.0)) or 1.0
    bars = []
    for bar, (_, row) in enumerate(rows.iterrows()):
        begin, end = 90 + 420 * row["start_s"] / last, 90 + 420 * min(row["start_s"] + row["elapsed_s"], last) / last
        label = f"{row['source']} → {row['target']}"
        why = f": {row['bottleneck']}" if "bottleneck" in rows else ""
        bars.append(
            f'<text x="84" y="{16 * bar + 12}" text-anchor="end" font-size="11">{escape(label)}</text>'
            f'<rect x="{begin:.1f}" y="{16 * bar + 2}" width="{max(end - begin, 1):.1f}" height="12" fill="#56B4E9">'
            f"<title>{escape(label)}, {row['elapsed_s'] * 1e3:.4g} ms{escape(why)}</title></rect>"
            f'<text x="{end + 4:.1f}" y="{16 * bar + 12}" font-size="10">{row["elapsed_s"] * 1e3:.4g} ms</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="600" height="{16 * len(rows) + 4}" '
        f'font-family="sans-serif"><title>Timeline of graph {escape(str(rows["graph"].iloc[0]))}</title>'
        f"{''.join(bars)}</svg>"
    )


def communications(tree: PcieTree, graphs: CongestionGraphs) -> dict[str, Any]:
    """Return the columns that identify the copy of each row.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        Graphs with one row per copy.

    Returns
    -------
    dict
        Columns by name: graph, communication, source, target, size_bytes, start_s. Names are categoricals.

    Examples
    --------
    >>> import fabricast as fc
    >>> list(communications(fc.load_topology("storm8"), fc.graph([(0, 1), (2, 1)]))["target"])
    ['1', '1']
    """
    names = pd.Index(list(tree.endpoint_names))
    return {
        "graph": pd.Categorical.from_codes(graphs.graph_of_communication, pd.Index(list(graphs.names))),
        "communication": graphs.number_in_graph,
        "source": pd.Categorical.from_codes(graphs.source, names),
        "target": pd.Categorical.from_codes(graphs.target, names),
        "size_bytes": graphs.size_bytes,
        "start_s": graphs.start_s,
    }


def folded(
    halves: pd.DataFrame, tree: PcieTree, graphs: CongestionGraphs, is_staged: NDArray[np.bool_],
    rates: Mapping[tuple[str, str], float],
) -> Prediction:  # fmt: skip
    """Return one row per copy from the rows of both halves of staged copies.

    The halves overlap: ``elapsed_s`` is the time of the slower one and the time that the driver needs for its chunks.
    Unless that time was measured, ``earliest_s`` is without it, and ``latest_s`` with one half after the other.

    Parameters
    ----------
    halves : pandas.DataFrame
        Prediction of `fabricast.pcie.graphs.staged.staged_graphs`.
    tree : PcieTree
        Topology with host memory.
    graphs : CongestionGraphs
        Copies before staging.
    is_staged : ndarray of bool, shape (copies,)
        Which copies have two halves.
    rates : mapping of (str, str) to float
        Measured rates of single staged copies in bytes/s, by source and target.
    """
    times = halves["elapsed_s"].to_numpy()
    last = np.cumsum(np.where(is_staged, 2, 1)) - 1
    first = last - is_staged
    slower = np.where(times[first] > times[last], first, last)
    rows = halves.iloc[slower].reset_index(drop=True)
    copies = communications(tree, graphs)
    ends = zip(copies["source"].astype(str), copies["target"].astype(str), strict=True)
    measured_s = graphs.size_bytes / np.array([rates.get(pair, np.nan) for pair in ends])
    is_measured = np.isfinite(measured_s)
    isolated_s = (rows["elapsed_s"] / rows["slowdown"]).to_numpy()
    chunks_s = np.where(is_measured, np.maximum(measured_s - isolated_s, 0.0), graphs.size_bytes * chunk_overhead_s())
    chunks_s = np.where(is_staged, chunks_s, 0.0)
    unknown = is_staged & ~is_measured
    columns = {name: rows[name] for name in rows.columns if name not in copies}
    columns["elapsed_s"] = rows["elapsed_s"] + chunks_s
    columns["earliest_s"] = rows["earliest_s"] + np.where(unknown, 0.0, chunks_s)
    other_s = halves["latest_s"].to_numpy()[first + last - slower]
    columns["latest_s"] = rows["latest_s"] + chunks_s + np.where(unknown, other_s, 0.0)
    columns["slowdown"] = columns["elapsed_s"] / (isolated_s + chunks_s)
    transports = pd.Categorical.from_codes(is_staged.astype(np.int8), pd.Index(["p2p", "staged"]))
    return Prediction({**copies, **columns, "transport": transports})


def makespans(table: pd.DataFrame) -> pd.Series[float]:
    """Return the time at which all copies of each graph are complete, in seconds."""
    return (table["start_s"] + table["elapsed_s"]).groupby(table["graph"], observed=True, sort=False).max()


def other_transport(staged: pd.DataFrame, direct: pd.DataFrame, *, is_measured: bool) -> Warning:
    """Return a sentence that compares staged copies with direct ones.

    Parameters
    ----------
    staged, direct : pandas.DataFrame
        Predictions of the same graphs.
    is_measured : bool
        Whether measured staged copies bound the prediction.
    """
    ends = makespans(staged), makespans(direct)
    if len(ends[0]) == 1:
        times = f"complete after {ends[1].iloc[0] * 1e3:.3g} ms, staged ones after {ends[0].iloc[0] * 1e3:.3g} ms"
    else:
        times = (
            f"need {(ends[1] / ends[0]).median():.3g} times as long as staged ones (median of {len(ends[0]):,} graphs)"
        )
    share = f"{chunk_overhead_s() * 1e12:.3g} µs per MB for the chunks of the driver, as on public machines"
    bound = f"; staged times include {share}: measure staged copies (--measurements)"
    bound = "" if is_measured else bound
    return Warning(WarningCode.OTHER_TRANSPORT, f"with peer access (transport p2p), all copies would {times}{bound}")


def isolated_times(tree: PcieTree, graphs: CongestionGraphs, times: Times) -> NDArray[np.float64]:
    """Return the time of each copy in isolation, by the same model."""
    endpoints = len(tree.endpoint_names)
    pairs, of_copy = np.unique(graphs.source * endpoints + graphs.target, return_inverse=True)
    arcs = [[divmod(pair, endpoints)] for pair in pairs.tolist()]
    # All models are linear in the size of an isolated copy.
    isolated_s: NDArray[np.float64] = times(from_arcs(arcs, size_bytes=1e9))[of_copy] * (graphs.size_bytes / 1e9)
    return isolated_s


def link_columns(tree: PcieTree, found: Evaluation) -> dict[str, Any]:
    """Return the columns bottleneck and caused_by."""
    assert found.bottleneck is not None and found.caused_by is not None
    labels = link_labels(tree)
    return {
        "bottleneck": pd.Categorical.from_codes(found.bottleneck, pd.Index(labels)),
        "caused_by": pd.Categorical.from_codes(found.caused_by + 1, pd.Index(["", *labels])),
    }


def text_columns(found: CopyTimes) -> dict[str, Any]:
    """Return the columns bottleneck and caused_by of a model with engines."""
    return {"bottleneck": pd.Categorical(found.bottleneck), "caused_by": pd.Categorical(found.caused_by)}
