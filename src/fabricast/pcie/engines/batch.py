"""Completion times of many graphs on one tree whose links are its only limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.programs import CopyProgram
from fabricast.pcie.graphs.rates import CopyTimes, Rates
from fabricast.pcie.models.evaluation import piece_payload
from fabricast.pcie.topology.paths import link_labels, reverse_links
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import over_blocks

if TYPE_CHECKING:
    from fabricast.pcie.models.kernels.known_sets import KnownSets

#: Maximum number of sets of copies that each thread keeps, and of the copies of such a set.
_MOST_SETS, _MOST_COPIES = 1 << 18, 8


def new_sets() -> KnownSets:
    """Return memory for known sets of copies."""
    from fabricast.pcie.models.kernels.known_sets import new_known_sets

    return new_known_sets(_MOST_SETS, _MOST_COPIES)  # type: ignore[no-any-return]


def graph_times(
    tree: PcieTree,
    graphs: CongestionGraphs,
    program: CopyProgram,
    rates: Rates,
    *,
    explain: bool = False,
    sets: Sequence[KnownSets] = (),
) -> CopyTimes:
    """Predict the completion times of all copies with ports and engines.

    It is `fabricast.pcie.engines.forecast.copy_times` for many graphs with one deterministic program, rates without
    path classes, and no shared limits. Each of `sets` (see `new_sets`) belongs to one thread: it has the known sets of
    copies of former calls with the same tree and rates.

    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.graphs.programs import PROGRAMS
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> graphs = from_pairs([[(0, 1), (2, 1)], [(0, 1)]], size_bytes=50e9)
    >>> tree = regular_tree("flat4x2", (2, 4))
    >>> graph_times(tree, graphs, PROGRAMS["independent"], Rates(50e9, 50e9)).end_s.tolist()
    [2.0, 2.0, 1.0]
    """
    from fabricast.pcie.engines.kernels.batch import Graphs, Rules, run_graphs

    routes = tree.routes
    pairs = np.stack([graphs.source, graphs.target], axis=1)
    others = ~np.isin(tree.endpoint_names, tree.accelerator_names)
    arrays = Graphs(
        graphs.offset,
        graphs.source,
        graphs.target,
        program.engines(pairs, others),
        program.barriers(pairs, others),
        graphs.size_bytes,
        graphs.start_s,
    )
    rules = Rules(
        routes.endpoints,
        routes.offset,
        routes.link,
        routes.capacity * rates.one_way_bytes_per_s,
        reverse_links(tree),
        routes.behind_root_complex,
        routes.upstream_links,
        rates.duplex_cost,
        rates.one_way_bytes_per_s,
        piece_payload(rates.tau, rates.crossing_cost),
        rates.crossing_cost,
        program.switch_share,
        program.overlaps,
        program.executor == "source",
    )
    end_s = np.empty(graphs.source.size)
    bottleneck = np.zeros(graphs.source.size if explain else 0, dtype=np.int64)
    caused_by = bottleneck.copy()
    of_threads = sets or [new_sets()]
    block = max(-(-len(graphs) // len(of_threads)), 1)
    over_blocks(
        lambda first, last: run_graphs(
            first, last, arrays, rules, of_threads[first // block], end_s, bottleneck, caused_by
        ),
        len(graphs),
        threads=len(of_threads),
        block=block,
    )
    labels = np.array([*link_labels(tree), ""], dtype=object)
    return CopyTimes(end_s, end_s, end_s, _texts(labels, bottleneck), _texts(labels, caused_by))


def _texts(labels: NDArray[np.object_], numbers: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the label of each link; -1 is the last label, which is empty."""
    return tuple(labels[numbers].tolist())
