"""Catalogue of the figures of the study of copies from GPU to network."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

plots = lazy_module("fabricast.figures.clusters")

FIGURES = (
    Entry(
        "card",
        "Time of application patterns by network and choice",
        lambda read, values: plots.plot_card(read("cluster_choice")),
        "Time of all copies of two patterns of 512 GPUs on 64 nodes, unchanged and with the best other choice.",
    ),
    Entry(
        "layers",
        "Time of application patterns on 64 nodes, and what each layer costs",
        lambda read, values: plots.plot_layers(read("cluster_layer"), read("cluster_choice")),
        "Forecasts of a 4D stencil and an all-to-all of 512 GPUs by cards and network. Cells: how many times as fast "
        "all copies would be if one layer limited nothing, or with another choice (a dash: by less than "
        "0.5 %; empty: does not apply). No such run was measured publicly.",
    ),
    Entry(
        "measured",
        "Forecast and measured times of copies between nodes",
        lambda read, values: plots.plot_measured(read("cluster_copy")),
        "Ratio of forecast to measured times of public runs from 1 MiB; the grey band is 15 %. Few channels limit "
        "sendrecv of NCCL, which the forecast of plain copies does not know.",
    ),
)
