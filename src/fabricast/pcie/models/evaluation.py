"""Models of concurrent PCIe transfers: the congestion-factor algorithm, its readings, baselines.

Every reading of the slides that they do not settle is an option in words; every
model is a named choice of options or a baseline, on one interface.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import Arc, CongestionGraphs, from_arcs
from fabricast.pcie.graphs.symmetry import canonical_form
from fabricast.pcie.models.catalogue import MODELS, Model
from fabricast.pcie.topology.regular import regular_tree
from fabricast.pcie.topology.tree import PcieTree
from fabricast.runtime.threads import over_blocks

__all__ = ["Evaluation", "Phase", "evaluate", "factors", "trace_phases", "warm_up"]


#: Graphs that a thread takes at a time.
_SMALLEST_BLOCK = 512
_TINY_PAYLOAD = 1e-6


@dataclass(frozen=True)
class Evaluation:
    """What a model says of a set of graphs.

    Parameters
    ----------
    end_s : ndarray of float64, shape (communications,)
        When each communication ends, from time 0.
    initial_rho : ndarray of float64, shape (communications,)
        Congestion factor of each communication in its first phase.
    phases : ndarray of int64, shape (graphs,)
        Number of phases of each graph.
    bottleneck : ndarray of int64, shape (communications,), or None
        Number of the link that limits each communication for the longest time, if asked for: the
        full one of its route where it gets its part, else the link that limits those that hold it back.
    """

    end_s: NDArray[np.float64]
    initial_rho: NDArray[np.float64]
    phases: NDArray[np.int64]
    bottleneck: NDArray[np.int64] | None = None


def piece_payload(tau: float, crossing_cost: float) -> float:
    """Payload of a packet behind the root complex, as a part of a whole packet's, that gives `tau`.

    In a conflict of one local and one crossing set both send equally many packets, so the
    local one gets 1 / (1 + cost * payload) and the crossing one `payload` times that; half
    their difference is tau (slides: 1/2 + tau and 1/2 - tau).
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
    """Predict when every communication of every graph ends.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    graphs : CongestionGraphs
        The graphs, evaluated in parallel and independently of each other.
    model : Model
        The rule for the rates of a phase.
    bandwidth_bytes_per_s : float
        Bandwidth of one communication alone on links of capacity 1.
    tau : float
        Performance reduction for crossing the root complex, in [0, 1).
    crossing_cost : float, default 1.0
        Time on a link behind the root complex per byte, relative to other bytes: smaller
        packets carry more headers. Used by the back-pressure model.
    threads : int, default 1
        Threads to use.
    after : ndarray of int64, shape (communications,), optional
        Number, within its graph, of the communication after whose end each one starts; -1
        for those that start at their own time.
    latency_s : float, default 0
        Pause between a communication and the one that starts after it.
    first_phase_only : bool, default False
        Compute `initial_rho` of those that start first, and nothing else.
    explain : bool, default False
        Find the link that limits each communication, too.

    Returns
    -------
    Evaluation
        End times, first factors and number of phases; identical for any number of threads.

    References
    ----------
    Martinasso et al., "A PCIe congestion-aware performance model for densely populated
    accelerator servers", SC16.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_arcs([[(0, 2), (1, 4), (3, 2), (6, 4)]], size_bytes=300 * 2**20)
    >>> result = evaluate(storm8, graphs, MODELS["congestion_factor"],
    ...                   bandwidth_bytes_per_s=11.6 * 2**30, tau=0.2)
    >>> [round(float(end) * 1e3, 3) for end in result.end_s]
    [64.944, 64.944, 36.08, 36.08]
    """
    from fabricast.pcie.kernels import models as kernel

    routes = tree.routes
    predecessors = np.full(graphs.source.size, -1, dtype=np.int64) if after is None else after
    used_tau = float(tau) if model.uses_tau else 0.0
    end_s = np.empty(graphs.source.size, dtype=np.float64)
    initial_rho = np.empty(graphs.source.size, dtype=np.float64)
    phases = np.zeros(len(graphs), dtype=np.int64)

    bottleneck = np.full(graphs.source.size if explain else 0, -1, dtype=np.int64)
    arrays = kernel.Graphs(
        offset=graphs.offset, source=graphs.source, target=graphs.target, size_bytes=graphs.size_bytes,
        start_s=graphs.start_s, after=predecessors,
    )  # fmt: skip
    network = kernel.Network(
        endpoints=routes.endpoints, route_offset=routes.offset, route_link=routes.link, crossing_pair=routes.crossing,
        capacity=routes.capacity, leaves_root_complex=routes.leaves_root_complex,
        behind_root_complex=routes.behind_root_complex, upstream_links=routes.upstream_links,
    )  # fmt: skip
    rule = kernel.Rule(
        method=int(getattr(kernel, model.method.upper())), options=model.options.vector(), tau=used_tau,
        piece_payload=piece_payload(used_tau, crossing_cost), piece_cost=float(crossing_cost),
        bandwidth_bytes_per_s=float(bandwidth_bytes_per_s), latency_s=float(latency_s),
        first_phase_only=first_phase_only,
    )  # fmt: skip
    results = kernel.Results(end_s=end_s, initial_rho=initial_rho, phases=phases, bottleneck=bottleneck)
    over_blocks(
        lambda first, last: kernel.evaluate_graphs(first, last, arrays, network, rule, results),
        len(graphs), threads=threads, block=_SMALLEST_BLOCK if threads > 1 else max(len(graphs), 1),
    )  # fmt: skip
    return Evaluation(end_s, initial_rho, phases, bottleneck if explain else None)


def factors(
    tree: PcieTree, arcs: list[Arc], model: Model, *, tau: float, crossing_cost: float = 1.0
) -> NDArray[np.float64]:
    """Return the congestion factors of communications that are all active.

    Parameters
    ----------
    tree : PcieTree
        Topology.
    arcs : list of (int, int)
        (source, target) pairs.
    model : Model
        The rule.
    tau : float
        Performance reduction for crossing the root complex.
    crossing_cost : float, default 1.0
        As for `evaluate`.

    Returns
    -------
    ndarray of float64, shape (communications,)
        Factors as a multiple of the reference bandwidth.

    Examples
    --------
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> [float(rho) for rho in factors(storm8, [(0, 1), (2, 1)], MODELS["max_min"], tau=0.2)]
    [0.5, 0.5]
    """
    # All start together, so the factors of the first phase are those asked for.
    graphs = from_arcs([arcs], size_bytes=1.0)
    return evaluate(tree, graphs, model, bandwidth_bytes_per_s=1.0, tau=tau, crossing_cost=crossing_cost).initial_rho


def warm_up() -> None:
    """Compile all kernels, or load them from the cache."""
    tree = regular_tree("pair", (2,))
    graphs = from_arcs([[(0, 1)]], size_bytes=1.0)
    evaluate(tree, graphs, MODELS["congestion_factor"], bandwidth_bytes_per_s=1.0, tau=0.0)
    canonical_form(tree, [(0, 1)])


@dataclass(frozen=True)
class Phase:
    """One phase of one graph: a time in which the set of active communications is constant.

    Parameters
    ----------
    start_s, duration_s : float
        When it starts and how long it lasts.
    active : tuple of int
        Numbers of the active communications.
    rho : tuple of float
        Their congestion factors.
    transferred_bytes : tuple of float
        What they move in this phase.
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
    """Return the phases of one graph, for drawing and for reading.

    Parameters
    ----------
    tree, graphs, model, bandwidth_bytes_per_s, tau, crossing_cost
        As for `evaluate`.
    graph : int
        Number of the graph.

    Returns
    -------
    list of Phase
        In order of time.

    Examples
    --------
    >>> from fabricast.pcie.graphs.congestion_graphs import from_arcs
    >>> from fabricast.pcie.topology.regular import regular_tree
    >>> storm8 = regular_tree("storm8", (2, 2, 2))
    >>> graphs = from_arcs([[(0, 1), (2, 1)]], size_bytes=1e9)
    >>> phases = trace_phases(storm8, graphs, 0, MODELS["max_min"], bandwidth_bytes_per_s=1e9, tau=0)
    >>> [(phase.duration_s, phase.rho) for phase in phases]
    [(2.0, (0.5, 0.5))]
    """
    part = slice(int(graphs.offset[graph]), int(graphs.offset[graph + 1]))
    arcs, size, start = graphs.arcs(graph), graphs.size_bytes[part], graphs.start_s[part]
    end = evaluate(
        tree, graphs, model, bandwidth_bytes_per_s=bandwidth_bytes_per_s, tau=tau, crossing_cost=crossing_cost
    ).end_s[part]
    times = sorted({*start.tolist(), *end[np.isfinite(end)].tolist()})
    phases = []
    for begin, stop in itertools.pairwise(times):
        active = [c for c in range(len(arcs)) if start[c] <= begin and end[c] > begin]
        if active:
            rho = factors(tree, [arcs[c] for c in active], model, tau=tau, crossing_cost=crossing_cost)
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
