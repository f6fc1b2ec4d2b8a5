"""Catalogue of the figures of the GPU-centric study."""

from __future__ import annotations

from fabricast.figures.catalogue import Entry, lazy_module

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.gpucentric")
slides = lazy_module("fabricast.figures.gpucentric_slides")


FIGURES = (
    Entry(
        "card",
        "Robustness of the statements",
        lambda read, values: cards.gpucentric_card(read("gpucentric_statement")),
        "Share of samples in which statements of the talk hold, with the assumed parameters varied from half to "
        "double. Statements that follow from the form of the model or from published numbers hold by construction.",
    ),
    Entry(
        "choice_map",
        "Best method by message size and overlap",
        lambda read, values: plots.plot_map(read("gpucentric_choice"), values["system"]),
        "Best method for a step with 1 ms of computation and a message to each of two neighbours; overlap is the "
        "share of a transfer that computation hides. In cells with a dot, the lead is below 10 % of the step: too "
        "small for the models to decide. By time, all cells have one.",
    ),
    Entry(
        "curves",
        "Latency and bandwidth of methods",
        lambda read, values: plots.plot_curves(read("parameter")),
        "Time and bandwidth of a message between two GPUs by method; the dashed line has no limit on peer-to-peer "
        "reads, whose rate falls at the size of the vertical line. All parameters are assumed except the latency of "
        "GGAS, the start-up time of GPU-driven verbs and the peak rate.",
    ),
    Entry(
        "allreduce_power",
        "Power of an allreduce",
        lambda read, values: plots.plot_allreduce_power(read("parameter")),
        "Power of a node during one allreduce, as on slide 18; areas are energies, and all powers except that of the "
        "polling CPU are assumed. GGAS saves energy because it ends earlier; a node that then idles (hatched) saves "
        "far less.",
    ),
    Entry(
        "workload_performance",
        "Performance of workloads",
        lambda read, values: slides.plot_workload_performance(read("gpucentric_workload")),
        "Modelled performance relative to MPI on 2 to 12 nodes, as on slide 24, whose marks are unavailable and whose "
        "axis ends at 3; workload profiles are assumed. Arrows state the largest values beyond that axis: the model "
        "misses a cost of small and irregular messages.",
    ),
    Entry(
        "controls",
        "Forms of control",
        lambda read, values: slides.plot_controls(read("gpucentric_control")),
        "Performance and energy of a Himeno stencil relative to CPU control, as on slides 9 and 10, whose bars are "
        "unavailable. In the model, stream and device synchronisation are nearly as fast as the CPU and save energy "
        "because it sleeps; synchronisation within the kernel is slower and needs more energy.",
    ),
    Entry(
        "workload_energy",
        "Energy of workloads",
        lambda read, values: slides.plot_workload_energy(read("gpucentric_workload")),
        "Modelled energy relative to MPI on 12 nodes, on the axes of slide 25, whose bars are unavailable; workload "
        "profiles are assumed. Himeno with GGAS and large sums with RMA need more energy than MPI.",
    ),
    Entry(
        "observations",
        "Observations of slide 26",
        lambda read, values: slides.plot_observations(read("gpucentric_observation"), read("gpucentric_statement")),
        "Observations of slide 26 with their marks by workload, and whether they hold in this run. The talk has only "
        "the number of marks of each line: black columns are certain, grey ones reconstructed; (X) is in brackets on "
        "the slide. Green: holds in at least 95 % of samples of the assumed parameters.",
    ),
    Entry(
        "robustness",
        "Robustness of the statements",
        lambda read, values: plots.plot_robustness(read("gpucentric_statement")),
        "Share of samples in which each statement of the talk holds, with the assumed parameters varied from half to "
        "double. Grey statements cannot fail; blue ones depend on assumed values, so that agreement with the default "
        "values is not evidence.",
    ),
    Entry(
        "measured_paths",
        "Measured paths and models",
        lambda read, values: plots.plot_measured_paths(read("gpucentric_path")),
        "Measured times through host memory (staged) and with CUDA-aware MPI (direct); dashed: start-up time and "
        "rate, solid: interpolation between the other sizes. The direct path is faster for nearly all sizes, so "
        "always choosing it performs as well as the selection.",
    ),
    Entry(
        "feasible_rates",
        "Rates consistent with the talk",
        lambda read, values: plots.plot_feasible(read("gpucentric_feasible"), read("parameter")),
        "Unpublished rates that are consistent with two statements of the talk: GGAS is fastest for small payloads, "
        "and MPI is faster than RMA and GGAS for large ones. The size limits of 4 KiB and 4 MiB are our assumption.",
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
