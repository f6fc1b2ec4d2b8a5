"""Catalogue of the figures of the study of two-level networks."""

from __future__ import annotations

from collections.abc import Sequence

from fabricast.figures.catalogue import Entry, lazy_module, readings_entry
from fabricast.percs.workloads import EXAMPLE_GRID

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.percs")

#: Patterns of the talk.
_PATTERNS = ("2D", "4D", "MChalf")


def _of_talk(workloads: Sequence[str], supernodes: int) -> list[str]:
    """Return the workloads of a run that the talk shows."""
    return [f"{pattern}-{supernodes}" for pattern in _PATTERNS if f"{pattern}-{supernodes}" in workloads]


FIGURES = (
    Entry(
        "card",
        "Time of the busiest link by mapping",
        lambda read, values: cards.percs_card(read("network_case"), read("network_search")),
        "Time of the busiest link by mapping of tasks; the mapping of the search is green, the default mapping red.",
    ),
    Entry(
        "times_small",
        "Times on 64 supernodes",
        lambda read, values: plots.plot_times(read("network_case"), _of_talk(values["workloads"], 64)),
        "Time of communication on 64 supernodes; points are means over random mappings, lines their range, bars the "
        "lower bound. With direct routes, random nodes are fastest for the 4D stencil and the multicast, blocks on "
        "supernodes for the 2D stencil.",
    ),
    Entry(
        "usage_4d",
        "Link usage, 4D stencil",
        lambda read, values: plots.plot_link_usage(read("network_case"), read("network_link_class"), "4D-64"),
        "Link loads for the 4D stencil on 64 supernodes, with one random mapping each; below 1 MiB (grey) the axis is "
        "linear. On D links with direct routes, random nodes raise the mean and lower the largest load.",
    ),
    Entry(
        "two_supernodes",
        "The talk's example: two supernodes",
        lambda read, values: plots.plot_two_supernodes(read("network_example"), EXAMPLE_GRID),
        "A two-dimensional stencil of 16 x 4 nodes on two supernodes in rank order. All messages between the "
        "supernodes (thick lines) share one link per direction; messages around the torus are counted on the right but "
        "not drawn.",
    ),
    Entry(
        "mapping_search",
        "Mappings of the search",
        lambda read, values: plots.plot_search(read("network_search"), read("network_case"), read("comparison")),
        "Time of the busiest link and packet-level time of mappings optimised by swapping nodes, and of the talk's "
        "mappings. Regular blocks on drawers and supernodes with indirect routes are faster than the mappings "
        "optimised for direct routes, with a smaller difference at packet level.",
    ),
    Entry(
        "link_counts",
        "Links by number of supernodes",
        lambda read, values: plots.plot_counts(read("network_count")),
        "Directed links of PERCS by class. The number of links between supernodes grows with the square of the number "
        "of supernodes, so small jobs have few of them.",
    ),
    Entry(
        "usage_mchalf",
        "Link usage, multicast",
        lambda read, values: plots.plot_link_usage(read("network_case"), read("network_link_class"), "MChalf-64"),
        "Link loads for the multicast to 14 targets on 64 supernodes; below 1 MiB (grey) the axis is linear. With "
        "rank order, the largest load of D links is many times the mean for direct routes and near it for indirect "
        "routes.",
        wanted=lambda settings: "MChalf-64" in settings.percs.workloads,
    ),
    Entry(
        "usage_2d",
        "Link usage, 2D stencil",
        lambda read, values: plots.plot_link_usage(read("network_case"), read("network_link_class"), "2D-64"),
        "Link loads for the 2D stencil on 64 supernodes, with one random mapping each; below 1 MiB (grey) the axis is "
        "linear. With direct routes, blocks on supernodes have the lowest largest load of D links.",
        wanted=lambda settings: "2D-64" in settings.percs.workloads,
    ),
    Entry(
        "times_large",
        "Times on 300 supernodes",
        lambda read, values: plots.plot_times(read("network_case"), _of_talk(values["workloads"], 300)),
        "Time of communication on 300 supernodes with 307,200 tasks, as for 64; nearly all packet-level runs with "
        "indirect routes are slower. The totals of the slide include computation, whose times are not published.",
        wanted=lambda settings: any(name.endswith("-300") for name in settings.percs.workloads),
    ),
    Entry(
        "placement",
        "Placement of a job",
        lambda read, values: plots.plot_placement(read("network_case")),
        "Time of a 4D job of 64 supernodes on a machine of 512, by placement; nearly all packet-level runs with "
        "indirect routes are slower. Spreading it over the drawers of all supernodes makes more D links available; "
        "random nodes cancel the benefit of blocks.",
        wanted=lambda settings: settings.percs.sensitivity,
    ),
    Entry(
        "sensitivity",
        "Sensitivity of the best mapping",
        lambda read, values: plots.plot_sensitivity(read("network_case")),
        "Time with direct routes relative to the best mapping of the row; white cells are not computed. The first row "
        "of each workload has gateways by remainder, one link, a torus and whole supernodes; the others name the "
        "difference (turned: other order of grid dimensions).",
    ),
    Entry(
        "packets",
        "Packet-level time and bound",
        lambda read, values: plots.plot_packets(read("comparison")),
        "Packet-level time and time of the busiest link, one point per workload and mapping; on the grey line both "
        "are equal. The latter is a lower bound for direct routes; for indirect routes it uses expected loads and "
        "neglects queues.",
    ),
    Entry(
        "time_features",
        "Features that predict the excess of packet-level time",
        lambda read, values: plots.plot_importance(read("error_feature")),
        "Importance of link-load features for the ratio of packet-level time to its bound: loss of R² on unseen "
        "workloads and mappings when one feature is shuffled. Features below zero or below the spread over folds "
        "(bars) have no detectable effect.",
    ),
    readings_entry("percs"),
)
