"""Catalogue of the figures of the breakdown study."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.breakdown")
_INJECTION = ("slide 34 injection", "slide 35 post", "slide 35 progress", "slide 36 LLP post")
_LATENCY = (
    "slide 39 latency",
    "slide 39 CPU",
    "slide 39 I/O",
    "slide 39 Network",
    "slide 39 on-node",
    "slide 39 initiator",
    "slide 39 target",
    "slide 39 target I/O",
)


FIGURES = (
    Entry(
        "card",
        "Components of the latency of a small message",
        lambda read, values: cards.breakdown_card(
            read("breakdown_component"), read("what_if"), read("breakdown_total"), values["system"]
        ),
        "Components of the end-to-end latency of a small message, in the order of the message path; colours are "
        "layers. The message crosses PCIe twice, once at each node.",
    ),
    Entry(
        "totals",
        "Injection and latency",
        lambda read, values: plots.plot_totals(read("breakdown_component"), read("what_if")),
        "Injection overhead and end-to-end latency of one small message by component (hatched: assumed times). "
        "The latency includes PCIe at both nodes, and one LLP progress completes 64 posts; an integrated NIC is "
        "assumed to shorten the PIO copy, PCIe and RC to memory.",
    ),
    Entry(
        "accuracy",
        "Modelled and observed totals",
        lambda read, values: plots.plot_accuracy(read("breakdown_total"), values["tolerance"]),
        "Relative error of modelled totals with the tolerance of the talk (band); whiskers are the 2.5th to 97.5th "
        "percentile of samples with assumed spreads. The times are recalled, not compared with the paper; LLP "
        "injection is a separate benchmark, which includes busy posts.",
    ),
    Entry(
        "latency_shares",
        "Components of the latency",
        lambda read, values: plots.plot_shares(read("breakdown_share"), values["system"], _LATENCY),
        "Shares of the end-to-end latency on ThunderX2: layers, components within each layer, and the two nodes. "
        "Where the percentage of the slide differs, it is printed, too.",
    ),
    Entry(
        "what_if",
        "Effect of faster components",
        lambda read, values: plots.plot_what_if(read("what_if"), values["system"]),
        "Share of the ThunderX2 total that a faster component removes: the values of the lines of slides 42 to 45, "
        "which call it speed-up. All lines go through zero, so that the last column determines them. Frames: values "
        "that slides 42 to 44 state.",
    ),
    Entry(
        "injection_shares",
        "Components of the injection overhead",
        lambda read, values: plots.plot_shares(read("breakdown_share"), values["system"], _INJECTION),
        "Shares of the injection overhead on ThunderX2: post, progress and LLP post, with the component names of the "
        "slides (MD: descriptor, DBC: doorbell counter). A slide's percentage is added where it differs from ours.",
    ),
    Entry(
        "sensitivity",
        "Sensitivity to each component",
        lambda read, values: plots.plot_sensitivity(
            read("what_if"), read("breakdown_component"), read("breakdown_total"), values["system"]
        ),
        "Change of injection overhead and latency on ThunderX2 when one component becomes 10 % longer (dark) or 10 % "
        "shorter (pale).",
    ),
)
