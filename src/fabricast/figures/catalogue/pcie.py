"""Catalogue of the figures of the PCIe study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricast.figures.catalogue import Entry, lazy_module, readings_entry

if TYPE_CHECKING:
    from fabricast.pcie.topology.tree import PcieTree

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.pcie.models")
schedules = lazy_module("fabricast.figures.pcie.schedules")
validation = lazy_module("fabricast.figures.pcie.validation")
copies = lazy_module("fabricast.figures.pcie.measured_copies")
conflicts = lazy_module("fabricast.figures.pcie.conflicts")
_EXAMPLE = "storm8.example.complete"
_CONFLICT = "storm8.example.three"


def load_tree(name: str) -> PcieTree:
    """Read a topology; the reader is imported late, like the plotting modules."""
    from fabricast.machine.build import MACHINE_CONTENTS, load_facts, machine_from

    return machine_from(load_facts([name], *MACHINE_CONTENTS)).tree


FIGURES = (
    Entry(
        "card",
        "Contention between four copies",
        lambda read, values: cards.pcie_card(read("example_communication"), read("example_phase"), _EXAMPLE),
        "Timeline of four copies on a tree of 8 GPUs (the worked example of the talk), with the share of the link that "
        "each copy gets.",
    ),
    Entry(
        "measured_copies",
        "Forecast errors on measured machines, by class and model",
        lambda read, values: copies.plot_measured_copies(read("measured_copy"), values["tolerance"]),
        "Error of the total rate of each validated graph (stars: machines of the user); the grey band ends at 15 %. "
        "With ports and engines, all graphs with many copies of a GPU are within it; the pause between copies was "
        "fitted to them.",
    ),
    Entry(
        "topology_loads",
        "Link loads on the tree",
        lambda read, values: plots.plot_link_loads(
            load_tree("storm8"), read("example_communication"), read("example_phase"), _EXAMPLE
        ),
        "Load of every directed link in each phase of the worked example, as a share of its capacity. Squares are "
        "GPUs, circles are switches, the diamond is the root complex; the left arrow of a pair points upstream.",
    ),
    Entry(
        "worked_example",
        "Worked example",
        lambda read, values: plots.plot_worked_example(read("example_communication"), read("example_phase"), _EXAMPLE),
        "The complete example of the slides (tau = 0.2): active copies with their congestion factors in each phase, "
        "and the timeline below. The height of a bar is the congestion factor; its text is the amount of data.",
    ),
    Entry(
        "slowdown",
        "Predicted slowdown",
        lambda read, values: plots.plot_slowdown(
            read("prediction"), read("graph"), read("communication"), values["bandwidth_bytes_per_s"]
        ),
        "Predicted time of a copy relative to an isolated copy, over all graphs of the set named above (storm8: 8 GPUs "
        "below four switches), by model and by family of graphs: the share of copies that are at least so slow. Models "
        "differ for slow copies; most of these are in random graphs.",
    ),
    Entry(
        "port_conflicts",
        "Conflicts at ports",
        lambda read, values: conflicts.plot_port_conflicts(),
        "Congestion factors by the rules of the slides: copies share an upstream port in proportion; at a downstream "
        "port the group that crosses the root complex loses tau, which the others share. The printed formula adds all "
        "of tau to each of them, so that three or more groups exceed the port (grey). Vertical lines are the slides' "
        "values of tau.",
    ),
    Entry(
        "conflict_example",
        "Conflicts of three copies",
        lambda read, values: plots.plot_worked_example(read("example_communication"), read("example_phase"), _CONFLICT),
        "The slides' example of communication conflicts with copies 0→7, 1→4 and 6→7 (tau = 0.2), for which they print "
        "no numbers. Copies 0→7 and 1→4 share an upstream port; contention of 0→7 with 6→7 at GPU 7 therefore also "
        "slows down 1→4.",
    ),
    Entry(
        "measured_probes",
        "Predicted against measured",
        lambda read, values: plots.plot_probes(read("measured"), tolerance=values["tolerance"]),
        "Rates of concurrent copies between 8 GPUs (voipmonitor/rtx6kpro), predicted by the congestion-factor model "
        "with tau = 0; the grey band is ±15 %. The model has no copy engines and therefore misses patterns with many "
        "copies per GPU.",
    ),
    Entry(
        "error_distribution",
        "Errors against the packet-level simulator",
        lambda read, values: validation.plot_error_distribution(
            read("error_histogram"), f"{values['simulated_set']}.all", values["origin"], values["tolerance"]
        ),
        "Errors relative to the packet simulator, with parameters calibrated on three probes and never on these "
        "graphs (split 256 128: the root complex splits packets of 256 bytes into 128). Right: share of copies with a "
        "smaller error.",
        needs_simulation=True,
    ),
    Entry(
        "predicted_simulated",
        "Predicted against simulated",
        lambda read, values: validation.plot_predicted_simulated(
            read("simulated"), values["simulated_set"], values["origin"], values["tolerance"]
        ),
        "Predicted and simulated elapsed times on the tree and hardware named above (solid: equal, dashed: ±15 %). "
        "From left to right: our interpretation of the slides, its variant with round-robin sharing upstream, and the "
        "back-pressure rule, which extends the paper.",
        needs_simulation=True,
    ),
    Entry(
        "error_by_size",
        "Copies within the band by number of copies and hardware setting",
        lambda read, values: validation.plot_error_by_size(
            read("error_band"), values["simulated_set"], values["tolerance"]
        ),
        "Share of copies within ±15 % of the simulated time (bars: 95 % interval); split 256 64: the root complex "
        "splits packets of 256 bytes into 64. Congestion factors lose accuracy with the number of copies and with "
        "splits; back-pressure does not.",
        needs_simulation=True,
    ),
    Entry(
        "model_hardware",
        "Models on different hardware",
        lambda read, values: validation.plot_model_hardware(
            read("error_band"), {f"{name}.held_out": name for name in values["held_out"]}, values["tolerance"]
        ),
        "Share of copies within ±15 % of the simulated time, on graphs held out from the design of back-pressure "
        "(split 128 64: the root complex splits packets of 128 bytes into 64). Models in one row are equal: their "
        "rule has no effect here.",
        needs_simulation=True,
    ),
    Entry(
        "worst_case",
        "The worst case",
        lambda read, values: validation.plot_worst_case(
            load_tree(values["simulated_topology"]),
            read("simulated_communication"),
            read("simulated"),
            read("parameter"),
            "congestion_factor",
        ),
        "The copy with the largest error of the congestion-factor model. Top: predicted link loads at the start; "
        "bottom: elapsed times of model and packet-level simulator.",
        needs_simulation=True,
    ),
    Entry(
        "error_features",
        "Features that explain the errors",
        lambda read, values: validation.plot_error_features(
            read("error_feature"), f"{values['simulated_set']}.all", values["origin"]
        ),
        "Importance of features of a copy and its graph for the absolute error: loss of R² of a gradient-boosted model "
        "when one feature is shuffled. The cross-validation separates isomorphism classes of graphs; error bars are "
        "the spread over folds.",
        needs_simulation=True,
    ),
    Entry(
        "schedule_distribution",
        "All schedules of a halo exchange",
        lambda read, values: schedules.plot_schedule_distribution(
            read("schedule_histogram"), read("schedule_summary"), values["reference_time_s"]
        ),
        "Times of all schedules of the halo exchanges for which the talk shows a fastest schedule, in units of an "
        "isolated message. The arrow marks the published schedule, the dotted line the naive order, neighbour by "
        "neighbour.",
    ),
    Entry(
        "schedule_gain",
        "Time saved by the fastest order of sends",
        lambda read, values: schedules.plot_schedule_gain(read("schedule_summary")),
        "Left: exchange time that the fastest order saves in the model, and the gain of a whole COSMO step on the "
        "slide. Right: share of copies in a step for which both agree; the slides do not state that share.",
    ),
    Entry(
        "schedule_timeline",
        "Schedules of the talk",
        lambda read, values: schedules.plot_schedule_timeline(read("schedule"), values["reference_time_s"]),
        "Target of each send by step, for the fastest schedules of the talk and the two orders of its motivation "
        "(synchronised: a step, one colour each, lasts as long as its slowest send). The orders of the motivation last "
        "up to three times "
        "as long.",
    ),
    readings_entry("pcie"),
)
