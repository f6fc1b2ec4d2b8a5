"""Catalogue of the figures of the study of collective operations."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

plots = lazy_module("fabricast.figures.collectives")

FIGURES = (
    Entry(
        "card",
        "Measured and forecast bus bandwidth of all_reduce",
        lambda read, values: plots.plot_card(read("collective_time"), read("collective_machine")),
        "Bus bandwidth of all_reduce over the size: measured by others, and forecast. NCCL's estimate ranks its "
        "choices and is no forecast.",
    ),
    Entry(
        "clusters",
        "Bus bandwidth of all_reduce on NVLink nodes and clusters",
        lambda read, values: plots.plot_clusters(read("cluster_time")),
        "Bus bandwidth of all_reduce from 1 MiB on: measured by others (points), forecast with constants that are "
        "fitted to all public machines, and NCCL's estimate; one public machine for each of six classes. Below each, "
        "the times of all sizes divided by the measured ones, with a band of 15 %.",
    ),
    Entry(
        "bandwidth",
        "Bus bandwidth of all_reduce by machine",
        lambda read, values: plots.plot_bandwidth(read("collective_time"), read("collective_machine")),
        "Bus bandwidth of all_reduce over the size on each machine with several measured sizes. The forecast follows "
        "the change of protocol and the rate of the ring; the constants are fitted on these machines.",
    ),
    Entry(
        "errors",
        "Error of forecasts by class of sizes",
        lambda read, values: plots.plot_errors(read("collective_error")),
        "Median of |forecast / measured - 1| of all_reduce; dark blue: fitted on these machines, light blue: machine "
        "left out of the fit. Rates of host memory are unknown on most machines whose copies pass through it.",
    ),
    Entry(
        "choices",
        "NCCL's protocol by size and machine",
        lambda read, values: plots.plot_choices(read("collective_time"), read("collective_machine")),
        "Protocol that NCCL's cost table selects at each measured size (LL: with flags in the data). Where NCCL's "
        "search fails (asus8, turin9575-5090), it uses Simple from 4 KiB on.",
    ),
    Entry(
        "scale",
        "Time of all_reduce over the number of nodes",
        lambda read, values: plots.plot_scale(read("cluster_time")),
        "Above: time of all_reduce of three sizes over the number of nodes, measured on the public cluster with most "
        "node counts (points) and forecast (lines). Above 64 nodes the forecast is not fitted: other jobs congest the "
        "network. Below: bus bandwidth of the largest size of each public machine with nodes of eight H100 or H200, "
        "without those over TCP, which have no forecast.",
    ),
    Entry(
        "pair_rates",
        "Rates of single copies by model of the GPU",
        lambda read, values: plots.plot_pair_rates(read("pair_rate")),
        "Rates of single copies in one direction on public machines, one mark for each machine and path: over PCIe "
        "(left), and over NVLink or xGMI (right). Copies over PCIe are direct, through host memory, or between host "
        "memory and a GPU (the faster direction). Machines of a model differ by generation and lanes of the slot, and "
        "by the driver.",
    ),
)
