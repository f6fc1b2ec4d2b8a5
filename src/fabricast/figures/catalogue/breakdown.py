"""Figures of the breakdown study: name, title, how each is drawn from tables, and its caption."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.breakdown")
_INJECTION = ("slide 34 injection", "slide 35 post", "slide 35 progress", "slide 36 LLP post")
_LATENCY = (
    "slide 39 latency", "slide 39 CPU", "slide 39 I/O", "slide 39 Network", "slide 39 on-node",
    "slide 39 initiator", "slide 39 target", "slide 39 target I/O",
)  # fmt: skip


FIGURES = (
    Entry(
        "card",
        "The parts of the latency of a small message",
        lambda read, values: cards.breakdown_card(
            read("breakdown_component"), read("what_if"), read("breakdown_total"), values["system"]
        ),
        "Parts of the end-to-end latency of a small message, in the order of its way; colours are layers. PCIe is "
        "passed twice, once at each node.",
    ),
    Entry(
        "totals",
        "Injection and latency",
        lambda read, values: plots.plot_totals(read("breakdown_component"), read("what_if")),
        "Injection overhead and end-to-end latency of one small message, stacked by their parts; the latency passes "
        "PCIe twice, once at each node; one progress of the low-level protocol completes 64 posts of injection. A "
        "network card on the processor is taken to shorten three of them, by values that are assumed (hatched): the "
        "PIO copy, PCIe and the way to memory; in the picture of faster parts it is the latter two alone, as on the "
        "slides.",
    ),
    Entry(
        "injection_shares",
        "What injection is made of",
        lambda read, values: plots.plot_shares(read("breakdown_share"), values["system"], _INJECTION),
        "Shares of injection overhead on ThunderX2: the parts of a post and of its progress, and the parts of the "
        "low-level post, by the names of the slides (MD: descriptor, DBC: doorbell counter). Where the slide prints "
        "another percentage, it stands beside ours (slide).",
    ),
    Entry(
        "latency_shares",
        "What latency is made of",
        lambda read, values: plots.plot_shares(read("breakdown_share"), values["system"], _LATENCY),
        "Shares of end-to-end latency on ThunderX2: layers, layers within each, and the two nodes. A percentage of the "
        "slide stands beside ours only where it is another one.",
    ),
    Entry(
        "what_if",
        "What if a part were faster",
        lambda read, values: plots.plot_what_if(read("what_if"), values["system"]),
        "Share of the total on ThunderX2 that a faster part removes (what the talk plots as speed-up), in the order of "
        "the talk's legends. Drawn wide: LLP, on which in injection the line of its largest part lies; grey: groups of "
        "parts. PCIe and the way to memory together are what an integrated NIC stands for on the slides. Panels have "
        "scales of their own.",
    ),
    Entry(
        "accuracy",
        "Model against observed",
        lambda read, values: plots.plot_accuracy(read("breakdown_total"), values["tolerance"]),
        "Modelled against observed totals. Whiskers: 2.5th to 97.5th percentile over draws of the components, whose "
        "spreads are assumed; they are no interval of anything measured. The band is the tolerance of the talk. Times "
        "of the paper, those observed too, are recalled: attributed to it from memory, and to be compared with it. "
        "Injection by the low-level protocol alone is what its own benchmark measures, with busy posts and the update "
        "of its own measurement: it is no part of injection by all layers, and takes longer.",
    ),
    Entry(
        "sensitivity",
        "Which component matters",
        lambda read, values: plots.plot_sensitivity(
            read("what_if"), read("breakdown_component"), read("breakdown_total"), values["system"]
        ),
        "Change of injection and latency on ThunderX2 when one component changes by 10 %: pale where it gets shorter, "
        "full where it gets longer.",
    ),
)
