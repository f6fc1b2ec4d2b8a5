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
        "Share of draws of the assumed parameters in which each statement of the talk holds.",
    ),
    Entry(
        "controls",
        "Forms of control",
        lambda read, values: plots.plot_controls(read("gpucentric_control")),
        "Forms of control of a Himeno stencil relative to control by the CPU: performance and energy by grid; "
        "the GPU waits for streams, for the device, or inside the kernel. "
        "Performance differs by less than a percent (the axis does not begin at 0); energy by a tenth, where the CPU "
        "may sleep. The grids are those of slides 9 and 10, whose bars are lost; pale: 5th to 95th percentile while "
        "the assumed parameters vary from half to double.",
    ),
    Entry(
        "curves",
        "Latency and bandwidth of methods",
        lambda read, values: plots.plot_curves(read("parameter")),
        "Time and bandwidth of a message between two GPUs by method. Dashed: without the limit of peer-to-peer reads. "
        "Drawn wide: verbs, on which the line of RMA lies for large messages. MPI stages data through host memory, so "
        "that its start-up is more than that of verbs driven by the CPU, which are not drawn. RMA is from GPU memory, "
        "as in the statements, or from host memory; what is staged there goes piece by piece from one chunk on (the "
        "kink). Latency floors are published, rates are assumed.",
    ),
    Entry(
        "allreduce_power",
        "Power of an allreduce",
        lambda read, values: plots.plot_allreduce_power(read("parameter")),
        "Power of a node during one allreduce; the area under each curve is its energy. Powers are assumed "
        "but for the polling CPU.",
    ),
    Entry(
        "workload_performance",
        "Performance of workloads",
        lambda read, values: plots.plot_workloads(read("gpucentric_workload"), "performance_ratio"),
        "Performance relative to MPI on 2 to 12 nodes in the model. Small and irregular messages gain from control by "
        "the GPU; where computation takes the time, methods are alike. The bars of the slide are lost and not invented "
        "here; all profiles of workloads are assumed.",
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
        "How often each statement of the talk holds when assumed parameters are varied from half to double. "
        "Grey statements are decided by assumed values: that they hold with the defaults is no evidence.",
    ),
    Entry(
        "choice_map",
        "Which method is best",
        lambda read, values: plots.plot_map(read("gpucentric_choice"), values["system"]),
        "The best method over message size and overlap (share of a transfer that computation can hide) on 8 nodes, "
        "for time and for energy. MPI and RMA from host memory both stage data through host memory; MPI keeps the "
        "processor polling, RMA leaves the transfer to hardware. Pale: a tie within the models' error; where a map is "
        "pale all over, its method wins nowhere.",
    ),
    Entry(
        "measured_paths",
        "Measured paths and models",
        lambda read, values: plots.plot_measured_paths(read("gpucentric_path")),
        "Measured one-way times through host memory (staged) and by CUDA-aware MPI (direct) on three systems. "
        "Dashed: start-up time and rate; solid: straight lines between the other sizes.",
    ),
    Entry(
        "feasible_rates",
        "Rates that agree with the talk",
        lambda read, values: plots.plot_feasible(read("gpucentric_feasible"), read("parameter")),
        "Which rates of remote stores and peer-to-peer reads, neither of them published, agree with two "
        "statements of the talk.",
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
