"""Catalogue of the figures of a user's graph set with validation graphs: those of the PCIe study on their machine."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

plots = lazy_module("fabricast.figures.pcie.models")
validation = lazy_module("fabricast.figures.pcie.validation")


FIGURES = (
    Entry(
        "slowdown",
        "Predicted slowdown",
        lambda read, values: plots.plot_slowdown(
            read("prediction"), read("graph"), read("communication"), values["bandwidth_bytes_per_s"]
        ),
        "Predicted time of a copy relative to an isolated copy, over all graphs of your set, by model and by family of "
        "graphs: the share of copies that are at least so slow.",
    ),
    Entry(
        "link_loads",
        "Link loads of the slowest graph",
        lambda read, values: plots.plot_link_loads(
            values["tree"], read("communication"), values["phase"], values["slowest_graph"]
        ),
        "Load of every directed link in each of the first four phases of the slowest graph, as a share of its "
        "capacity, by the congestion factors of the PCIe study. Squares are GPUs, circles are switches, diamonds are "
        "root complexes; the left arrow of a pair points upstream.",
    ),
    Entry(
        "error_distribution",
        "Errors against the packet-level simulator",
        lambda read, values: validation.plot_error_distribution(
            read("error_histogram"), f"{values['graph_set']}.all", values["origin"], values["tolerance"]
        ),
        "Errors of the models relative to the packet simulator on your tree, with parameters calibrated on three "
        "probes and never on these graphs. Right: share of copies with a smaller error.",
        needs_simulation=True,
    ),
    Entry(
        "error_by_size",
        "Copies within the band by number of copies and hardware setting",
        lambda read, values: validation.plot_error_by_size(
            read("error_band"), values["graph_set"], values["tolerance"]
        ),
        "Share of copies whose predicted time is within the band of the simulated time, by the number of copies in the "
        "graph (bars: 95 % interval).",
        needs_simulation=True,
    ),
)
