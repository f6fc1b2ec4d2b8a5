"""Table of copy times, with a timeline for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, from_pairs
from fabricast.pcie.graphs.rates import CopyTimes
from fabricast.pcie.models.evaluation import Evaluation
from fabricast.pcie.models.removals import Times
from fabricast.pcie.topology.paths import link_labels
from fabricast.pcie.topology.tree import PcieTree

#: Maximum number of bars in a timeline.
_MOST_BARS = 40
#: Columns that are shown first, because wide tables are cut.
_FIRST_COLUMNS = ("source", "target", "elapsed_s", "slowdown", "bottleneck", "caused_by", "limited_by")


class Prediction(pd.DataFrame):
    """Data frame of copy times that notebooks display with a timeline, explained columns first.

    ``attrs["warnings"]`` lists warnings, for example about assumed parameters.
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return Prediction

    def _explained_first(self) -> pd.DataFrame:
        """Return the table with the columns first that explain a time."""
        first = [name for name in _FIRST_COLUMNS if name in self.columns]
        return pd.DataFrame(self[first + [name for name in self.columns if name not in first]])

    def __repr__(self) -> str:
        names = [name for name in (*_FIRST_COLUMNS, "graph") if name in self.columns]
        others = [str(name) for name in self.columns if name not in names]
        if len(names) < len(_FIRST_COLUMNS) // 2:
            return repr(pd.DataFrame(self))
        more = f"; also {', '.join(others)}" if others else ""
        return f"{pd.DataFrame(self[names]).to_string(max_rows=60)}\n[{len(self)} rows{more}]"

    def _repr_html_(self) -> str:
        warnings = "".join(f"<p>warning: {escape(str(one))}</p>" for one in self.attrs.get("warnings", ()))
        return f"{_timeline(self)}{self._explained_first().to_html(max_rows=60, border=1)}{warnings}"


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


def makespans(table: pd.DataFrame) -> pd.Series[float]:
    """Return the time at which all copies of each graph are complete, in seconds."""
    return (table["start_s"] + table["elapsed_s"]).groupby(table["graph"], observed=True, sort=False).max()


def isolated_times(tree: PcieTree, graphs: CongestionGraphs, times: Times) -> NDArray[np.float64]:
    """Return the time of each copy in isolation, by the same model."""
    endpoints = len(tree.endpoint_names)
    numbers, of_copy = np.unique(graphs.source * endpoints + graphs.target, return_inverse=True)
    pairs = [[divmod(number, endpoints)] for number in numbers.tolist()]
    # All models are linear in the size of an isolated copy; for simulated packets the result is a lower bound.
    isolated_s: NDArray[np.float64] = times(from_pairs(pairs, size_bytes=1e9))[of_copy] * (graphs.size_bytes / 1e9)
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
