"""Evaluation of the PCIe models: congestion factors, their interpretations, and baselines.

Each point that the slides leave open is a named option of `CongestionOptions`. Each model is a named set of options or
a baseline, and all models have the same interface.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs, Pair, from_pairs
from fabricast.pcie.graphs.symmetry import canonical_form
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import over_blocks

__all__ = ["Evaluation", "Phase", "evaluate", "factors", "trace_phases", "warm_up"]


#: Number of graphs in each block of work of a thread.
_SMALLEST_BLOCK = 512
_TINY_PAYLOAD = 1e-6


@dataclass(frozen=True)
class Evaluation:
    """Prediction of a model for a set of graphs.

    Parameters
    ----------
    end_s : ndarray of float64, shape (copies,)
        Completion time of each copy in s.
    initial_rho : ndarray of float64, shape (copies,)
        Congestion factor of each copy in its first phase.
    phases : ndarray of int64, shape (graphs,)
        Number of phases of each graph.
    bottleneck : ndarray of int64, shape (copies,), or None
        Number of the link of its route at which each copy waits longest; None unless requested.
    caused_by : ndarray of int64, shape (copies,), or None
        Number of the saturated link further on that causes the wait at the bottleneck, if the copy is blocked by other
        copies (head-of-line blocking); -1 otherwise; None unless requested.
    """

    end_s: NDArray[np.float64]
    initial_rho: NDArray[np.float64]
    phases: NDArray[np.int64]
    bottleneck: NDArray[np.int64] | None = None
    caused_by: NDArray[np.int64] | None = None


def piece_payload(tau: float, crossing_cost: float) -> float:
    """Return the payload of packets behind the root complex that reproduces `tau`.

    The payload is relative to that of a whole packet. In a conflict of a local and a crossing set, both send the same
    number of packets. The local set gets the share 1 / (1 + cost * payload), and the crossing set `payload` times this
    share. Half the difference of the shares is tau (slides: 1/2 + tau and 1/2 - tau).
    """
    return (1 - 2 * tau) / (1 + 2 * tau * crossing_cost) if tau < 0.5 else _TINY_PAYLOAD


def evaluate(
    tree: PcieTree,
    graphs: CongestionGraphs,
    model: Model,
    *,
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float = 1.0,
    threads: int = 1,
    after: NDArray[np.int64] | None = None,
    latency_s: float = 0.0,
    first_phase_only: bool = False,
    explain: bool = False,
) -> Evaluation:
    """Predict the completion time of each copy of each graph.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs, evaluated in parallel and independently of each other.
    model : Model
        Model of the rates within a phase.
    bandwidth_bytes_per_s : float
        Bandwidth of an isolated copy on links of capacity 1, in bytes/s.
    tau : float
        Performance reduction for crossing the root complex, in [0, 1).
    crossing_cost : float, default 1.0
        Time per byte on links behind the root complex, relative to other links; it exceeds 1 because smaller packets
        have more headers. Used by the back-pressure model only.
    threads : int, default 1
        Number of threads.
    after : ndarray of int64, shape (copies,), optional
        Predecessor of each copy, as a number within its graph: the copy starts when its predecessor ends. -1 for a
        copy that starts at its start time.
    latency_s : float, default 0
        Pause between the end of a predecessor and the start of its successor, in s.
    first_phase_only : bool, default False
        Whether to compute only `initial_rho` of the copies that start first.
    explain : bool, default False
        Whether to determine the bottleneck of each copy and its cause.

    Returns
    -------
    Evaluation
        Completion times, initial congestion factors and numbers of phases; independent of the number of threads.

    References
    ----------
    Martinasso et al., "A PCIe congestion-aware performance model for densely populated
    accelerator servers", SC16.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_pairs([[(0, 2), (1, 4), (3, 2), (6, 4)]], size_bytes=300 * 2**20)
    >>> result = evaluate(storm8, graphs, MODELS["congestion_factor"],
    ...                   bandwidth_bytes_per_s=11.6 * 2**30, tau=0.2)
    >>> [round(float(end) * 1e3, 3) for end in result.end_s]
    [64.944, 64.944, 36.08, 36.08]
    """
    from fabricast.pcie.models.kernels import models as kernel

    routes = tree.routes
    predecessors = np.full(graphs.source.size, -1, dtype=np.int64) if after is None else after
    used_tau = float(tau) if model.uses_tau else 0.0
    end_s = np.empty(graphs.source.size, dtype=np.float64)
    initial_rho = np.empty(graphs.source.size, dtype=np.float64)
    phases = np.zeros(len(graphs), dtype=np.int64)

    bottleneck = np.full(graphs.source.size if explain else 0, -1, dtype=np.int64)
    caused_by = bottleneck.copy()
    arrays = kernel.Graphs(
        offset=graphs.offset,
        source=graphs.source,
        target=graphs.target,
        size_bytes=graphs.size_bytes,
        start_s=graphs.start_s,
        after=predecessors,
    )
    network = kernel.Network(
        endpoints=routes.endpoints,
        route_offset=routes.offset,
        route_link=routes.link,
        crossing_pair=routes.crossing,
        capacity=routes.capacity,
        leaves_root_complex=routes.leaves_root_complex,
        behind_root_complex=routes.behind_root_complex,
        upstream_links=routes.upstream_links,
    )
    rule = kernel.Rule(
        method=int(getattr(kernel, model.method.upper())),
        options=model.options.vector(),
        tau=used_tau,
        piece_payload=piece_payload(used_tau, crossing_cost),
        piece_cost=float(crossing_cost),
        bandwidth_bytes_per_s=float(bandwidth_bytes_per_s),
        latency_s=float(latency_s),
        first_phase_only=first_phase_only,
    )
    results = kernel.Results(
        end_s=end_s, initial_rho=initial_rho, phases=phases, bottleneck=bottleneck, caused_by=caused_by
    )
    over_blocks(
        lambda first, last: kernel.evaluate_graphs(first, last, arrays, network, rule, results),
        len(graphs),
        threads=threads,
        block=_SMALLEST_BLOCK if threads > 1 else max(len(graphs), 1),
    )
    explanation = (bottleneck, caused_by) if explain else (None, None)
    return Evaluation(end_s, initial_rho, phases, *explanation)


def factors(
    tree: PcieTree, pairs: list[Pair], model: Model, *, tau: float, crossing_cost: float = 1.0
) -> NDArray[np.float64]:
    """Return the congestion factors of copies that are all active.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    pairs : list of (int, int)
        (source, target) pairs of endpoint numbers.
    model : Model
        Model of the rates.
    tau : float
        Performance reduction for crossing the root complex.
    crossing_cost : float, default 1.0
        See `evaluate`.

    Returns
    -------
    ndarray of float64, shape (copies,)
        Rates in units of the reference bandwidth.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> [float(rho) for rho in factors(storm8, [(0, 1), (2, 1)], MODELS["max_min"], tau=0.2)]
    [0.5, 0.5]
    """
    # All copies start together and are therefore active in the first phase.
    graphs = from_pairs([pairs], size_bytes=1.0)
    return evaluate(tree, graphs, model, bandwidth_bytes_per_s=1.0, tau=tau, crossing_cost=crossing_cost).initial_rho


def warm_up() -> None:
    """Compile the model kernels or load them from the cache."""
    tree = regular_tree("pair", (2,))
    graphs = from_pairs([[(0, 1)]], size_bytes=1.0)
    evaluate(tree, graphs, MODELS["congestion_factor"], bandwidth_bytes_per_s=1.0, tau=0.0)
    canonical_form(tree, [(0, 1)])


@dataclass(frozen=True)
class Phase:
    """Phase of a graph: a time interval with a constant set of active copies.

    Parameters
    ----------
    start_s, duration_s : float
        Start and duration in s.
    active : tuple of int
        Numbers of the active copies.
    rho : tuple of float
        Congestion factor of each active copy.
    transferred_bytes : tuple of float
        Bytes that each active copy transfers in this phase.
    """

    start_s: float
    duration_s: float
    active: tuple[int, ...]
    rho: tuple[float, ...]
    transferred_bytes: tuple[float, ...]


def trace_phases(
    tree: PcieTree,
    graphs: CongestionGraphs,
    graph: int,
    model: Model,
    *,
    bandwidth_bytes_per_s: float,
    tau: float,
    crossing_cost: float = 1.0,
) -> list[Phase]:
    """Return the phases of one graph.

    Parameters
    ----------
    tree, graphs, model, bandwidth_bytes_per_s, tau, crossing_cost
        See `evaluate`.
    graph : int
        Number of the graph.

    Returns
    -------
    list of Phase
        Phases in chronological order.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_pairs([[(0, 1), (2, 1)]], size_bytes=1e9)
    >>> phases = trace_phases(storm8, graphs, 0, MODELS["max_min"], bandwidth_bytes_per_s=1e9, tau=0)
    >>> [(phase.duration_s, phase.rho) for phase in phases]
    [(2.0, (0.5, 0.5))]
    """
    part = slice(int(graphs.offset[graph]), int(graphs.offset[graph + 1]))
    pairs, size, start = graphs.pairs(graph), graphs.size_bytes[part], graphs.start_s[part]
    end = evaluate(
        tree, graphs, model, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=tau, crossing_cost=crossing_cost
    ).end_s[part]
    times = sorted({*start.tolist(), *end[np.isfinite(end)].tolist()})
    phases = []
    for begin, stop in itertools.pairwise(times):
        active = [c for c in range(len(pairs)) if start[c] <= begin and end[c] > begin]
        if active:
            rho = factors(tree, [pairs[c] for c in active], model, tau=tau, crossing_cost=crossing_cost)
            moved = rho * bandwidth_bytes_per_s * (stop - begin)
            phases.append(
                Phase(
                    begin,
                    stop - begin,
                    tuple(active),
                    tuple(rho.tolist()),
                    tuple(np.minimum(moved, size[active]).tolist()),
                )
            )
    return phases
