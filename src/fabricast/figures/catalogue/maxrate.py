"""Catalogue of the figures of the max-rate study."""

from __future__ import annotations

from typing import Any

from fabricast.figures.catalogue import Entry, Read, lazy_module, readings_entry

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.maxrate")


def _shown(read: Read, values: dict[str, Any]) -> str:
    """Return the configured data set, or the first one if the run does not include it."""
    datasets = sorted(set(read("maxrate_measurement")["dataset"]))
    return str(values["dataset"] if values["dataset"] in datasets else datasets[0])


FIGURES = (
    Entry(
        "card",
        "Rate of a node by process count",
        lambda read, values: cards.maxrate_card(read("maxrate_measurement"), read("maxrate_fit"), _shown(read, values)),
        "Rate of a node whose processes send large messages concurrently. The max-rate model, fitted to messages of "
        "8 KiB and more at all process counts, includes the node limit that scaling up one process misses.",
    ),
    Entry(
        "rates",
        "Rate of a node",
        lambda read, values: plots.plot_rates(read("maxrate_measurement"), read("maxrate_fit"), _shown(read, values)),
        "Bytes of large messages that a node sends, divided by the time, measured (points) and modelled (lines). The "
        "time is that of a round trip, as on the slides, where the benchmark measures one: as many bytes return within "
        "it. Right: all data sets, relative to their largest rate.",
    ),
    Entry(
        "model_errors",
        "Errors of all models on all data sets",
        lambda read, values: plots.plot_model_errors(read("maxrate_fit")),
        "Median error by model and data set, for process counts left out of the fit; the best of each row is bold. "
        "The slides' parameters are not fitted; models with one parameter set per protocol are best on every data "
        "set.",
    ),
    Entry(
        "time_curves",
        "Time by message size",
        lambda read, values: plots.plot_time_curves(
            read("maxrate_measurement"), read("prediction"), _shown(read, values)
        ),
        "Measured time by message size for several process counts (points). The refined model (dashed) cannot "
        "represent the change of protocol; one parameter set per protocol with an overload term (solid) can.",
    ),
    Entry(
        "error_surface",
        "Errors with the published parameters",
        lambda read, values: plots.plot_error_surface(read("maxrate_measurement")),
        "Absolute error of the refined model with the slides' parameters, for every public run on Blue Waters; the "
        "runs are independent of the authors. The slides say adjacent node: nodes at one router and nodes at "
        "adjacent routers both are.",
    ),
    Entry(
        "time_surfaces",
        "Time by message size and process count",
        lambda read, values: plots.plot_time_surfaces(
            read("maxrate_measurement"), read("prediction"), _shown(read, values), ("refined", "overload_protocols")
        ),
        "Left: measured time in which every process of a node exchanges a message. Centre and right: signed error of "
        "the refined model with one parameter set, and of our model with one set per protocol and an overload term; "
        "both are fitted to these data.",
    ),
    Entry(
        "small_messages",
        "Small messages",
        lambda read, values: plots.plot_small_messages(
            read("maxrate_measurement"), read("maxrate_fit"), _shown(read, values)
        ),
        "Time of small messages by process count: measurements (points) and the refined model without (dashed) and "
        "with a latency term (solid). For the smallest messages, a constant start-up time cannot represent the growth "
        "with the process count; the latency term represents it in part.",
    ),
    Entry(
        "slides_estimate",
        "Model time estimate with the slides' parameters",
        lambda read, values: plots.plot_slides_estimate(read("maxrate_measurement"), read("prediction")),
        "Measured times of three public runs on Blue Waters, and the refined model with the slides' parameters, which "
        "are illustrative and fitted by eye. One of the two runs at one hop reproduces the rates of the slides; the "
        "other, and that at the same router, do not. Right: signed error of the estimate.",
        wanted=lambda settings: settings.maxrate.datasets is None or "bluewaters_irecv_1" in settings.maxrate.datasets,
    ),
    Entry(
        "parameter_intervals",
        "Confidence intervals of the rates",
        lambda read, values: plots.plot_parameter_intervals(read("maxrate_fit"), read("parameter")),
        "Rates of the refined model for messages of 8 KiB and more, with 95 % intervals (the wider of profile "
        "likelihood and bootstrap): bytes in one direction per time, as on the slides. The "
        "max-rate form, with one parameter less, may determine rates that are not determined here.",
    ),
    Entry(
        "this_machine",
        "Pairs of processes on this machine",
        lambda read, values: plots.plot_this_machine(read("maxrate_measurement")),
        "Round-trip times between pairs of processes on this machine: lowest 5 % quantile of the undisturbed bursts of "
        "all runs. Messages pass through shared memory; the jump is the change from the eager to the rendezvous "
        "protocol.",
        wanted=lambda settings: settings.maxrate.measured,
    ),
    readings_entry("maxrate"),
)
