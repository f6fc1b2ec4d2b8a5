"""Catalogue of the figures of the GPU-centric study."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.gpucentric")


FIGURES = (
    Entry(
        "card",
        "Robustness of the statements",
        lambda read, values: cards.gpucentric_card(read("gpucentric_statement")),
        "Share of samples in which each statement of the talk holds, with the assumed parameters varied from half to "
        "double. Grey statements follow from the form of the model or from published numbers and hold by "
        "construction.",
    ),
    Entry(
        "controls",
        "Forms of control",
        lambda read, values: plots.plot_controls(read("gpucentric_control")),
        "Performance and energy of a Himeno stencil relative to CPU control on the grids of slides 9 and 10, whose "
        "bars are unavailable; pale lines are the 5th to 95th percentile with assumed parameters varied from half to "
        "double. Performance differs by less than 1 %, energy by about 10 % where the CPU may sleep; neither axis "
        "starts at 0.",
    ),
    Entry(
        "curves",
        "Latency and bandwidth of methods",
        lambda read, values: plots.plot_curves(read("parameter")),
        "Time and bandwidth of a message between two GPUs by method; the dashed line has no limit on peer-to-peer "
        "reads, which is lower from 1 MiB on. Published are the minimum latency of GGAS, the start-up time of "
        "GPU-driven verbs and the peak rate of the network; all other parameters are assumed.",
    ),
    Entry(
        "allreduce_power",
        "Power of an allreduce",
        lambda read, values: plots.plot_allreduce_power(read("parameter")),
        "Power of a node during one allreduce, with the message size and node count of the claim because the slide "
        "specifies neither; the area under each curve is the energy. All powers except that of the polling CPU are "
        "assumed.",
    ),
    Entry(
        "workload_performance",
        "Performance of workloads",
        lambda read, values: plots.plot_workloads(read("gpucentric_workload"), "performance_ratio"),
        "Modelled performance relative to MPI on 2 to 12 nodes, with assumed workload profiles; the bars of the slide "
        "are unavailable. Small and irregular messages gain from GPU control, whereas large messages lose because "
        "remote stores (GGAS) and peer-to-peer reads (RMA) are slower than copies.",
    ),
    Entry(
        "workload_energy",
        "Energy of workloads",
        lambda read, values: plots.plot_workloads(read("gpucentric_workload"), "energy_ratio"),
        "Modelled energy relative to MPI on 2 to 12 nodes, with assumed workload profiles.",
    ),
    Entry(
        "robustness",
        "Robustness of the statements",
        lambda read, values: plots.plot_robustness(read("gpucentric_statement")),
        "Share of samples in which each statement of the talk holds, with the assumed parameters varied from half to "
        "double. Grey statements follow from the form of the model or from published numbers and cannot fail; blue "
        "ones depend on assumed values, so agreement with the default values is not evidence.",
    ),
    Entry(
        "choice_map",
        "Best method by message size and overlap",
        lambda read, values: plots.plot_map(read("gpucentric_choice"), values["system"]),
        "Fastest and most energy-efficient method for a step with 1 ms of computation and one message to each of two "
        "neighbours on 8 nodes; overlap is the share of a transfer that computation can hide. In pale cells the best "
        "method leads by less than 10 % of the step, which is below the resolution of the models.",
    ),
    Entry(
        "measured_paths",
        "Measured paths and models",
        lambda read, values: plots.plot_measured_paths(read("gpucentric_path")),
        "Measured one-way times through host memory (staged) and with CUDA-aware MPI (direct) on three systems; dashed "
        "lines are a start-up time and a rate, solid lines interpolate between the other sizes. The direct path is "
        "faster for nearly all sizes, so always choosing it performs as well as the model-based selection.",
    ),
    Entry(
        "feasible_rates",
        "Rates consistent with the talk",
        lambda read, values: plots.plot_feasible(read("gpucentric_feasible"), read("parameter")),
        "Unpublished rates of remote stores and peer-to-peer reads that are consistent with two statements of the "
        "talk: GGAS is fastest for small payloads, and MPI is faster than RMA and GGAS for large ones. The size limits "
        "of 4 KiB and 4 MiB are our assumption.",
    ),
    Entry(
        "this_gpu",
        "Measurements of a GPU of this machine",
        lambda read, values: plots.plot_this_gpu(read("gpu_gpucentric_measurement"), read("gpu_prediction")),
        "Measurements of a GPU of this machine: copy times by size (points) with fitted start-up time and rate "
        "(lines), rates of concurrent copies, and mean powers.",
        wanted=lambda settings: settings.gpucentric.measured,
    ),
)
