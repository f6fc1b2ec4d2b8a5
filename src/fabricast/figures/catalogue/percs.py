"""Figures of the study of two-level networks: name, title, how each is drawn from tables, and its caption."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module, readings_entry
from fabricast.percs.workloads import EXAMPLE_GRID

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.percs")

#: Ends captions of pictures with short names of mappings.
_MAPPINGS = (
    " Mappings: DEF is rank order; BNM, BDM, BSM are blocks of the grid on nodes, drawers, supernodes; RNM and RDM "
    "such blocks on random nodes and drawers; RNMu and RDMu chunks in rank order on these."
)
_USAGE = " Where the mean is near the largest load, the dot fills the triangle."
_CLASSES = " Links: LL within a drawer, LR between drawers of a supernode, D between supernodes."
_EXPECTED = " Times of indirect routes are those of expected loads: at packet level nearly all runs take longer."


FIGURES = (
    Entry(
        "card",
        "Time of the busiest link by mapping",
        lambda read, values: cards.percs_card(read("network_case"), read("network_search")),
        "Time of the busiest link by mapping of tasks; the searched mapping is green, the default one red.",
    ),
    Entry(
        "two_supernodes",
        "The talk's example: two supernodes",
        lambda read, values: plots.plot_two_supernodes(read("network_example"), EXAMPLE_GRID),
        "A two-dimensional stencil of 16 x 4 nodes on two supernodes in rank order. All messages that leave a "
        "supernode (thick lines) share the only link between the two, each way. Right: on the torus further messages "
        "join opposite sides of the grid, which are not drawn.",
    ),
    Entry(
        "link_counts",
        "Links by supernodes",
        lambda read, values: plots.plot_counts(read("network_count")),
        "Directed links of PERCS by class. Links between supernodes grow with the square of their number, so "
        "that small jobs have few." + _CLASSES,
    ),
    Entry(
        "usage_4d",
        "Link usage, 4D stencil",
        lambda read, values: plots.plot_link_usage(read("network_case"), read("network_link_class"), "4D-64"),
        "Least, mean and largest load of the links of each class for the 4D stencil on 64 supernodes. Default "
        "rank order puts everything on few links between supernodes; random nodes raise the mean and lower "
        "the maximum. The axis is even up to 1 MiB and logarithmic above." + _USAGE + _MAPPINGS + _CLASSES,
    ),
    Entry(
        "usage_mchalf",
        "Link usage, multicast",
        lambda read, values: plots.plot_link_usage(read("network_case"), read("network_link_class"), "MChalf-64"),
        "Least, mean and largest load of the links of each class for the multicast to 14 targets on 64 supernodes. "
        "With default rank order and direct routes the fullest link between supernodes (D) carries many times the "
        "mean; indirect routes bring it near. The axis is even up to 1 MiB and logarithmic above."
        + _USAGE
        + _MAPPINGS
        + _CLASSES,
        wanted=lambda settings: "MChalf-64" in settings.percs.workloads,
    ),
    Entry(
        "usage_2d",
        "Link usage, 2D stencil",
        lambda read, values: plots.plot_link_usage(read("network_case"), read("network_link_class"), "2D-64"),
        "Least, mean and largest load of the links of each class for the 2D stencil on 64 supernodes. The axis is even "
        "up to 1 MiB and logarithmic above." + _USAGE + _MAPPINGS + _CLASSES,
        wanted=lambda settings: "2D-64" in settings.percs.workloads,
    ),
    Entry(
        "times_small",
        "Times on 64 supernodes",
        lambda read, values: plots.plot_times(
            read("network_case"),
            [name for name in values["workloads"] if name.endswith("-64") and not name.startswith("MCs")],
        ),
        "Time of the busiest link by mapping and routing on 64 supernodes. Points: means over random mappings, upright "
        "lines their ranges. Dashes: the time if every class of links were evenly loaded. MCstride-64 stands in the "
        "table." + _EXPECTED + _MAPPINGS,
    ),
    Entry(
        "times_large",
        "Times on 300 supernodes",
        lambda read, values: plots.plot_times(
            read("network_case"), [name for name in values["workloads"] if name.endswith("-300")]
        ),
        "Time of the busiest link by mapping and routing on 300 supernodes, 307,200 tasks. Points: means over random "
        "mappings, upright lines their ranges. Dashes: the time if every class of links were evenly loaded."
        + _EXPECTED
        + _MAPPINGS,
        wanted=lambda settings: any(name.endswith("-300") for name in settings.percs.workloads),
    ),
    Entry(
        "placement",
        "Placement of a job",
        lambda read, values: plots.plot_placement(read("network_case")),
        "A 4D job of 64 supernodes on a machine of 512, by placement. Spread over the drawers of all supernodes it has "
        "more pairs of supernodes to use, with direct routes and with indirect ones; on supernodes drawn at random, "
        "each of them whole, it has no more than on neighbouring ones. Indirect routes go over all 512 supernodes, so "
        "that they are faster than on a machine of 64; on nodes drawn at random blocks lose what they gain."
        + _EXPECTED
        + _MAPPINGS,
        wanted=lambda settings: settings.percs.sensitivity,
    ),
    Entry(
        "sensitivity",
        "What decides the best mapping",
        lambda read, values: plots.plot_sensitivity(read("network_case")),
        "Which mapping is best with direct routing when the rule of gateways, the parallel links between supernodes, "
        "the ends of the grid or the placement change; most are assumptions. The first row of each workload has "
        "gateways by remainder, one link, a torus and whole supernodes; the others name what differs. A gateway is the "
        "node of a supernode that holds its link to another one: by the remainder of that one's number, by the "
        "distance of the two numbers, or by blocks of numbers (turned: dimensions of the grid in another order; of "
        "512: a job on a machine of 512 supernodes, by its placement). Message size scales all times alike. White: not "
        "computed." + _MAPPINGS,
    ),
    Entry(
        "packets",
        "Packet level and bound",
        lambda read, values: plots.plot_packets(read("comparison")),
        "Packet-level times beside the time of the busiest link, one point per workload and mapping; grey: both equal. "
        "With direct routes that time is a bound, which packets exceed by more where a message is few packets. With "
        "indirect routes it is that of expected loads: each packet draws the supernode that it goes over, so queues "
        "form by chance and nearly all runs take longer, some by more than half: other pictures show indirect routes "
        "without these queues.",
    ),
    Entry(
        "mapping_search",
        "Mappings found by search",
        lambda read, values: plots.plot_search(read("network_search"), read("network_case"), read("comparison")),
        "Mappings found by swapping nodes, for direct and for indirect routes, beside those of the talk: the time of "
        "the busiest link, and that at packet level, which is longer. Regular blocks on drawers and supernodes with "
        "indirect routes are faster than what was found for direct ones, by less at packet level. The search with "
        "indirect routes is short, as each proposal moves loads everywhere: the table has the numbers of proposals."
        + _MAPPINGS,
    ),
    Entry(
        "time_features",
        "What may tell the packet level from its bound",
        lambda read, values: plots.plot_importance(read("error_feature")),
        "Which features of link loads tell how much longer than its bound a case takes at packet level, learnt by many "
        "random regression trees: loss of the R² on workloads and mappings that were not learnt from when the feature "
        "is shuffled, mean and spread over folds. What is no larger than its spread, or below zero, tells nothing.",
    ),
    readings_entry("percs"),
)
