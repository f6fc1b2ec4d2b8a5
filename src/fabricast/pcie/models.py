"""Models of concurrent PCIe transfers: the congestion-factor algorithm, its readings, baselines.

Every reading of the slides that they do not settle is an option in words; every
model is a named choice of options or a baseline, on one interface.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name
from fabricast.pcie.graph_symmetry import canonical_form
from fabricast.pcie.graphs import Arc, CongestionGraphs, from_arcs
from fabricast.pcie.regular_tree import regular_tree
from fabricast.pcie.tree import PcieTree
from fabricast.runtime.threads import over_blocks

__all__ = [
    "ABLATIONS",
    "MODELS",
    "VALIDATED",
    "CongestionOptions",
    "Evaluation",
    "Model",
    "Phase",
    "evaluate",
    "factors",
    "named_model",
    "trace_phases",
    "warm_up",
]


@dataclass(frozen=True)
class CongestionOptions:
    """Readings of the congestion-factor algorithm; defaults follow the slides.

    Parameters
    ----------
    upstream_sharing : {'proportional', 'round_robin'}
        Share a saturated upstream port in proportion to demands, or max-min over input ports.
    solo_crossing_penalty : bool
        Whether a communication that crosses the root complex alone runs at ``1 - tau``.
    coupling : {'ratio', 'minimum'}
        Whether communications that share a saturated upstream port keep their ratio or
        all fall to the slowest.
    group_demand : {'sum', 'maximum'}
        Congestion factor of a grouped communication set.
    group_split : {'proportional', 'equal'}
        How a set passes its share on to its members.
    crossing_bonus : {'conserving', 'literal'}
        Whether sets that do not cross gain what crossing ones lose, or ``tau`` each.
    all_crossing : {'equal', 'penalised'}
        What happens where every set crosses the root complex.
    root_complex_conflict : {'arbitrated', 'ignored'}
        Whether the root complex's own downstream ports arbitrate.
    work_conserving : bool
        Whether bandwidth that one set cannot use goes to the others.
    head_of_line : {'freeze', 'two_rounds', 'off'}
        How communications merged at a saturated upstream port hold each other back.
    """

    upstream_sharing: Literal["proportional", "round_robin"] = "proportional"
    solo_crossing_penalty: bool = False
    coupling: Literal["ratio", "minimum"] = "ratio"
    group_demand: Literal["sum", "maximum"] = "sum"
    group_split: Literal["proportional", "equal"] = "proportional"
    crossing_bonus: Literal["conserving", "literal"] = "conserving"
    all_crossing: Literal["equal", "penalised"] = "equal"
    root_complex_conflict: Literal["arbitrated", "ignored"] = "arbitrated"
    work_conserving: bool = True
    head_of_line: Literal["freeze", "two_rounds", "off"] = "freeze"

    def vector(self) -> NDArray[np.int64]:
        """Return the options in the order in which kernels read them."""
        return np.array(
            [
                self.upstream_sharing == "round_robin",
                self.solo_crossing_penalty,
                self.coupling == "minimum",
                self.group_demand == "maximum",
                self.group_split == "equal",
                self.crossing_bonus == "literal",
                self.all_crossing == "penalised",
                self.root_complex_conflict == "ignored",
                not self.work_conserving,
                ("freeze", "two_rounds", "off").index(self.head_of_line),
            ],
            dtype=np.int64,
        )


@dataclass(frozen=True)
class Model:
    """A named model of concurrent transfers.

    Parameters
    ----------
    name : str
        Identifier in tables.
    title : str
        Name in figures.
    method : {'congestion_factor', 'no_contention', 'busiest_link', 'max_min', 'back_pressure'}
        Which rule gives the rates of a phase.
    options : CongestionOptions
        Readings of the congestion-factor algorithm.
    uses_tau : bool, default True
        Whether the root-complex penalty is applied.
    """

    name: str
    title: str
    method: Literal["congestion_factor", "no_contention", "busiest_link", "max_min", "back_pressure"]
    options: CongestionOptions = field(default_factory=CongestionOptions)
    uses_tau: bool = True


#: Graphs that a thread takes at a time.
_SMALLEST_BLOCK = 512
_TINY_PAYLOAD = 1e-6

_SLIDES = CongestionOptions()


def _reading(name: str, title: str, **changes: object) -> Model:
    return Model(name, title, "congestion_factor", replace(_SLIDES, **changes))  # type: ignore[arg-type]


_MAIN = (
    Model("congestion_factor", "congestion factors (slides)", "congestion_factor"),
    _reading("round_robin_upstream", "round-robin upstream", upstream_sharing="round_robin"),
    _reading("without_head_of_line", "no head-of-line coupling", head_of_line="off"),
    replace(_reading("without_tau", "no root-complex penalty"), uses_tau=False),
    _reading("literal", "literal formulas", head_of_line="off", work_conserving=False, crossing_bonus="literal"),
    Model("back_pressure", "back-pressure", "back_pressure"),
    Model("max_min", "per-flow max-min", "max_min"),
    Model("busiest_link", "1/k on the busiest link", "busiest_link"),
    Model("no_contention", "no contention", "no_contention"),
)
_SINGLE_OPTIONS = (
    _reading("solo_crossing_penalty", "solo crossing penalty", solo_crossing_penalty=True),
    _reading("coupling_minimum", "coupled to the minimum", coupling="minimum"),
    _reading("group_demand_maximum", "set demand = maximum", group_demand="maximum"),
    _reading("group_split_equal", "sets split equally", group_split="equal"),
    _reading("crossing_bonus_literal", "literal bonus", crossing_bonus="literal"),
    _reading("all_crossing_penalised", "all-crossing penalised", all_crossing="penalised"),
    _reading("root_complex_ignored", "root complex ignored", root_complex_conflict="ignored"),
    _reading("not_work_conserving", "not work-conserving", work_conserving=False),
    _reading("two_rounds", "two coupling rounds", head_of_line="two_rounds"),
)

#: Models by name: the slides' reading, variants that matter, baselines.
MODELS = {model.name: model for model in (*_MAIN, *_SINGLE_OPTIONS)}


def named_model(name: str) -> Model:
    """Return a model by its name.

    Raises
    ------
    InputError
        If there is none of that name.

    Examples
    --------
    >>> named_model("max_min").name
    'max_min'
    """
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]


#: Names of the models that change one option of the slides' reading.
ABLATIONS = ("round_robin_upstream", "without_head_of_line", *(model.name for model in _SINGLE_OPTIONS))
#: The slides' reading, its best-supported variant, and the rule that goes beyond the paper.
VALIDATED = ("congestion_factor", "round_robin_upstream", "back_pressure")


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
    >>> from fabricast.pcie.graphs import from_arcs
    >>> from fabricast.pcie.regular_tree import regular_tree
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
    >>> from fabricast.pcie.regular_tree import regular_tree
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
    >>> from fabricast.pcie.graphs import from_arcs
    >>> from fabricast.pcie.regular_tree import regular_tree
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
