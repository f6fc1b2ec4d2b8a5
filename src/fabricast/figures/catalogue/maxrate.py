"""Figures of the max-rate study: name, title, how each is drawn from tables, and its caption."""

from __future__ import annotations

from typing import Any

from fabricast.figures.catalogue import Entry, Read, lazy_module, readings_entry

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.maxrate")


def _shown(read: Read, values: dict[str, Any]) -> str:
    """Return the data set that is shown: a run on other data shows the first of them."""
    known = sorted(set(read("maxrate_measurement")["dataset"]))
    return str(values["dataset"] if values["dataset"] in known else known[0])


FIGURES = (
    Entry(
        "card",
        "Rate of a node by processes",
        lambda read, values: cards.maxrate_card(read("maxrate_measurement"), read("maxrate_fit"), _shown(read, values)),
        "Rate of a node whose processes send large messages at once: what a test of one process tells knows no limit, "
        "the max-rate model, fitted to messages of 8 KiB and more at all numbers of processes, has one.",
    ),
    Entry(
        "rates",
        "Rate of a node",
        lambda read, values: plots.plot_rates(read("maxrate_measurement"), read("maxrate_fit"), _shown(read, values)),
        "Rate of a node by processes at large messages, in one direction (of round trips: the bytes of one way over "
        "half the time): measured (points) and models fitted to messages of 8 KiB and more at all numbers of processes "
        "(lines, at the largest size); the postal model, with one rate whatever their number, then misses one process "
        "too. Right: all data sets, relative to their largest rate; where rates are alike, one line hides another.",
    ),
    Entry(
        "time_surfaces",
        "Time over size and processes",
        lambda read, values: plots.plot_time_surfaces(
            read("maxrate_measurement"), read("prediction"), _shown(read, values), ("refined", "overload_protocols")
        ),
        "Left: measured time in which every process of a node has exchanged a message, by size and number of "
        "processes. Beside it how far the refined model with one parameter set, and our model with one set per "
        "protocol and an overload term, lie above or below it; both are fitted to these data.",
    ),
    Entry(
        "time_curves",
        "Time by size",
        lambda read, values: plots.plot_time_curves(
            read("maxrate_measurement"), read("prediction"), _shown(read, values)
        ),
        "Time by message size for some numbers of processes. Points are measured. The refined model (dashed) "
        "cannot follow the change of protocol; one parameter set per protocol with an overload term (solid) "
        "does.",
    ),
    Entry(
        "small_messages",
        "Small messages",
        lambda read, values: plots.plot_small_messages(
            read("maxrate_measurement"), read("maxrate_fit"), _shown(read, values)
        ),
        "Time of small messages by processes: measured (points), the refined model with one start-up time "
        "(dashed), and with the latency term (solid). Times grow with processes: one start-up time cannot follow "
        "them; the term can in part, and with most processes may end above what was measured.",
    ),
    Entry(
        "error_surface",
        "Where the published parameters err",
        lambda read, values: plots.plot_error_surface(read("maxrate_measurement")),
        "Absolute relative error of the refined model with the parameters that the slides print, unfitted, over "
        "message size and processes, for every public run on their machine (Blue Waters); bands as on the slides. The "
        "slides name adjacent nodes (first panel); the runs are not the authors' own.",
    ),
    Entry(
        "slides_estimate",
        "Model time estimate with the slides' parameters",
        lambda read, values: plots.plot_time_surfaces(
            read("maxrate_measurement"), read("prediction"), _shown(read, values), ("slides",)
        ),
        "The slides' figures of measured and estimated time: an independent run between adjacent nodes of the same "
        "machine, and the refined model with the parameters that the slides print for illustration, fitted by eye. On "
        "the right how far the estimate lies above or below the measured time.",
        wanted=lambda settings: settings.maxrate.datasets is None or "bluewaters_irecv_1" in settings.maxrate.datasets,
    ),
    Entry(
        "model_errors",
        "Errors of all models on all data",
        lambda read, values: plots.plot_model_errors(read("maxrate_fit")),
        "Absolute relative error of every model on every data set: its median on numbers of processes that were left "
        "out of the fit (filled), by which the best form is chosen, and median (hollow) and 90th percentile (end of "
        "the line) on the data of the fit, where more parameters always help. The last two fit one parameter set for "
        "each protocol, with switch points found in the data; the numbers of the slides are of one machine, were not "
        "fitted, and are held against its data alone.",
    ),
    Entry(
        "parameter_intervals",
        "What the data tell of the rates",
        lambda read, values: plots.plot_parameter_intervals(read("maxrate_fit"), read("maxrate_measurement")),
        "Rates of the refined model for messages of 8 KiB and more, with 95 % intervals: the wider of profile "
        'likelihood and bootstrap over whole numbers of processes. "Not determined": the parameter can be moved '
        "without harm to the fit; the max-rate form, which has a parameter less, may determine it all the same. Rates "
        "are of one direction.",
    ),
    Entry(
        "this_machine",
        "Pairs of processes on this machine",
        lambda read, values: plots.plot_this_machine(read("maxrate_measurement")),
        "Round trips between pairs of processes of this machine: the lowest 5 % quantile of the quiet bursts "
        "of all runs. In shared memory there is no network card; the jump is the change from eager to "
        "rendezvous.",
        wanted=lambda settings: settings.maxrate.measured,
    ),
    readings_entry("maxrate"),
)
