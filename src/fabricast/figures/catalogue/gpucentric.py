"""Figures of the GPU-centric study: name, title, how each is drawn from tables, and its caption."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.gpucentric")


FIGURES = (
    Entry(
        "card",
        "How firmly statements hold",
        lambda read, values: cards.gpucentric_card(read("gpucentric_statement")),
        "Share of draws of the assumed parameters, from half to double, in which each statement of the talk that they "
        "decide holds; grey: statements that the form of the model or numbers of the slides decide, which hold by "
        "construction.",
    ),
    Entry(
        "controls",
        "Forms of control",
        lambda read, values: plots.plot_controls(read("gpucentric_control")),
        "Forms of control of a Himeno stencil relative to control by the CPU: performance and energy by grid; the GPU "
        "waits for streams, for the device, or inside the kernel. Performance differs by less than a percent, energy "
        "by a tenth where the CPU may sleep; neither axis begins at 0. In-kernel synchronisation is the slowest but on "
        "grids with a small plane, where the assumed cost of a nested launch counts more. The grids are those of "
        "slides 9 and 10, whose bars are lost; pale: 5th to 95th percentile while the assumed parameters vary from "
        "half to double.",
    ),
    Entry(
        "curves",
        "Latency and bandwidth of methods",
        lambda read, values: plots.plot_curves(read("parameter")),
        "Time and bandwidth of a message between two GPUs by method. Dashed: without the limit of peer-to-peer reads. "
        "Drawn wide: verbs, on which the line of RMA lies for large messages. Verbs here are driven by the GPU. MPI "
        "stages data through host memory: two copies and a switch to the CPU come before its message. RMA is from GPU "
        "memory, as in the statements, or from host memory; what is staged there goes piece by piece from one chunk on "
        "(the kink). The read limit has two parts: a rate for all sizes, and a lower one from 1 MiB on (the jump). Of "
        "what is drawn, the floor of GGAS, the start-up of verbs and the peak of the network are published; all other "
        "start-ups and rates are assumed.",
    ),
    Entry(
        "allreduce_power",
        "Power of an allreduce",
        lambda read, values: plots.plot_allreduce_power(read("parameter")),
        "Power of a node during one allreduce of the size and nodes of the claim on it, as the slide names neither; "
        "the area under each curve is its energy. Powers are assumed but for the polling CPU.",
    ),
    Entry(
        "workload_performance",
        "Performance of workloads",
        lambda read, values: plots.plot_workloads(read("gpucentric_workload"), "performance_ratio"),
        "Performance relative to MPI on 2 to 12 nodes in the model. Small and irregular messages gain from control by "
        "the GPU. Where messages are large, GGAS loses, as its stores are slower than copies (sum, large; Himeno), "
        "and so does RMA beyond the limit of peer-to-peer reads (sum, large); the large n-body problem "
        "computes so long that methods are alike. Panels have scales of their own. The bars of the slide are lost and "
        "not invented here; all profiles of workloads are assumed.",
    ),
    Entry(
        "workload_energy",
        "Energy of workloads",
        lambda read, values: plots.plot_workloads(read("gpucentric_workload"), "energy_ratio"),
        "Energy relative to MPI on 2 to 12 nodes in the model; all profiles of workloads are assumed.",
    ),
    Entry(
        "robustness",
        "How firmly statements hold",
        lambda read, values: plots.plot_robustness(read("gpucentric_statement")),
        "How often each statement of the talk holds when assumed parameters are varied from half to double. Grey "
        "statements follow from the form of the model or from numbers of the slides and could not fail; blue ones are "
        "decided by assumed values: that they hold with the defaults is no evidence.",
    ),
    Entry(
        "choice_map",
        "Which method is best",
        lambda read, values: plots.plot_map(read("gpucentric_choice"), values["system"]),
        "The best method for a step: a millisecond of computation and one message to each of two neighbours, over "
        "message size and overlap (share of a transfer that computation can hide), on 8 nodes, for time and for "
        "energy. MPI and RMA from host memory both stage data through host memory; MPI keeps the processor polling, "
        "RMA leaves the transfer to hardware. Pale: the best leads the second by less than 10 % of the step, which the "
        "models do not tell apart. Of a message alone the differences are larger: see the picture of latency and "
        "bandwidth.",
    ),
    Entry(
        "measured_paths",
        "Measured paths and models",
        lambda read, values: plots.plot_measured_paths(read("gpucentric_path")),
        "Measured one-way times through host memory (staged) and by CUDA-aware MPI (direct) on three systems. Dashed: "
        "start-up time and rate; solid: straight lines between the other sizes. The direct path is the faster one "
        "nearly everywhere, so that always choosing it does as well as the selector.",
    ),
    Entry(
        "feasible_rates",
        "Rates that agree with the talk",
        lambda read, values: plots.plot_feasible(read("gpucentric_feasible"), read("parameter")),
        "Which rates of remote stores and peer-to-peer reads, neither of them published, agree with two statements of "
        "the talk: that GGAS is fastest for small payloads, and that MPI beats RMA and GGAS for large ones (sizes of "
        "both are ours: up to 4 KiB, from 4 MiB on).",
    ),
    Entry(
        "this_gpu",
        "A GPU of this machine",
        lambda read, values: plots.plot_this_gpu(read("gpu_gpucentric_measurement"), read("gpu_prediction")),
        "A GPU of this machine, measured here: times of copies by size (points) with start-up time and rate "
        "fitted (lines), rates of copies that start at the same moment, and mean powers.",
        wanted=lambda settings: settings.gpucentric.measured,
    ),
)
