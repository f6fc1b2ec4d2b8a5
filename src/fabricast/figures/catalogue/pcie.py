"""Figures of the PCIe study: name, title, how each is drawn from tables, and its caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricast.figures.catalogue import Entry, lazy_module, readings_entry

if TYPE_CHECKING:
    from fabricast.pcie.topology.tree import PcieTree

cards = lazy_module("fabricast.figures.cards")
plots = lazy_module("fabricast.figures.pcie")
schedules = lazy_module("fabricast.figures.pcie_schedules")
validation = lazy_module("fabricast.figures.pcie_validation")
copies = lazy_module("fabricast.figures.measured_copies")
dma = lazy_module("fabricast.figures.dma_rates")
_EXAMPLE = "storm8.example.complete"
_CONFLICT = "storm8.example.three"


def load_tree(name: str) -> PcieTree:
    """Return a topology; imported late, as the plots are."""
    from fabricast.pcie.topology.files import load_tree as load

    return load(name)


FIGURES = (
    Entry(
        "card",
        "Four copies that wait for each other",
        lambda read, values: cards.pcie_card(read("example_communication"), read("example_phase"), _EXAMPLE),
        "Four copies on a tree of 8 GPUs (the worked example of the talk): when each runs, and which share of the "
        "link it gets.",
    ),
    Entry(
        "measured_copies",
        "Forecast and measured rates of concurrent copies",
        lambda read, values: copies.plot_measured_copies(read("measured_copy"), values["tolerance"]),
        "Rates of copies that ran together on machines which others measured, and on yours if there are measurements "
        "of it: forecast divided by measured rate, for every graph that is judged. While few copies run, even sharing "
        "of links is enough to explain them; with many copies of a GPU its engine and the order of the measuring "
        "program decide. The packet-level simulator with the same engines and program (crosses) comes close to the "
        "same rates (none for direct links and host memory, of which it knows nothing); where forecasts agree, one "
        "mark hides another. Each machine has parameters from its copies alone and opposite pairs where these were "
        "measured, else from its links and the duplex cost of other machines; the pause between streams was fitted to "
        "all-to-all copies. Grey is the band of 15 %; arrows leave the axis.",
    ),
    Entry(
        "dma_rates",
        "DMA rates and latencies by transfer size",
        lambda read, values: dma.plot_dma_rates(read("dma_prediction"), read("dma_reference")),
        "Rates and read latencies of one PCIe 3.0 x8 network device on three hosts, measured by others (Neugebauer et "
        "al., SIGCOMM 2018), beside packets of 256 bytes with their headers. The gap after each packet is fitted to "
        "writes of one host (Xeon E5-2637v3) at 512 bytes and more; reads and the other hosts are forecast with it; of "
        "latencies each host has its own at 64 bytes, and the growth is fitted to that one host. Below 512 bytes "
        "(grey) no claim judges: the device limits writes, which are alike on all hosts. Reads of two hosts fall "
        "short of it at many sizes, for which no packet rule accounts. The growth of latency with size is twice what "
        "the link explains, and alike on all hosts: it is the device's; there lines have the colours of the hosts, and "
        "the solid ones that growth. Sizes come in pairs a byte apart, where one more packet begins; dashed: the "
        "formula of the paper.",
    ),
    Entry(
        "topology_loads",
        "Link loads on the tree",
        lambda read, values: plots.plot_link_loads(
            load_tree("storm8"), read("example_communication"), read("example_phase"), _EXAMPLE
        ),
        "Load of every directed link of the tree during each phase of the worked example, as a share of its "
        "capacity. Squares are GPUs, circles switches, the diamond is the root complex; the left arrow of a "
        "pair points upstream.",
    ),
    Entry(
        "worked_example",
        "Worked example",
        lambda read, values: plots.plot_worked_example(read("example_communication"), read("example_phase"), _EXAMPLE),
        "The complete example of the slides (tau = 0.2): which copies are active in each phase with their "
        "congestion factors, and below the time each takes. The height of a bar is the congestion factor, the "
        "text what was moved.",
    ),
    Entry(
        "conflict_example",
        "Conflicts of three copies",
        lambda read, values: plots.plot_worked_example(read("example_communication"), read("example_phase"), _CONFLICT),
        "The example of communication conflicts of the slides, 0 to 7, 1 to 4 and 6 to 7 (tau = 0.2), for which they "
        "print no numbers. 0 to 7 and 1 to 4 leave by one port and cross the root complex; the one that meets 6 to 7 "
        "gets less there, and holds the other back.",
    ),
    Entry(
        "slowdown",
        "Predicted slowdown",
        lambda read, values: plots.plot_slowdown(
            read("prediction"), read("graph"), read("communication"), values["bandwidth_bytes_per_s"]
        ),
        "How much longer a copy takes in its congestion graph than alone, over all graphs of the set named above. "
        "Left: cumulative share for each model. Right: the slides' reading by family of graphs.",
    ),
    Entry(
        "model_differences",
        "Differences between models",
        lambda read, values: plots.plot_model_differences(read("prediction"), read("graph")),
        "How far two models lie apart on the same communications of the set of graphs named above. Below the diagonal "
        "the mean absolute difference of elapsed times, in percent of that of the model whose column it is; above it "
        "the share of communications that differ by more than 15 %, in percent of all. One scale of colours serves "
        "both.",
    ),
    Entry(
        "measured_probes",
        "Predicted against measured",
        lambda read, values: plots.plot_probes(read("measured"), tolerance=values["tolerance"]),
        "Rates of concurrent copies between 8 GPUs, on one machine GPUs 0 to 7 of 16, measured by others "
        "(voipmonitor/rtx6kpro), against the congestion-factor model with tau = 0 and the bandwidth of one copy alone. "
        "Grey is the band of 15 %. The patterns with most copies per GPU are missed: this model knows no copy engines "
        "of endpoints; the one of the first figure does.",
    ),
    Entry(
        "error_distribution",
        "Errors against the packet-level simulator",
        lambda read, values: validation.plot_error_distribution(
            read("error_histogram"), f"{values['simulated_set']}.all", values["origin"], values["tolerance"]
        ),
        "Errors of the models against the packet-level simulator (kind: simulated), on the tree and the hardware named "
        "above (split 256 128: a root complex that cuts packets of 256 bytes into 128). Left: histogram with the ±15 % "
        "band shaded. Right: cumulative share of communications below an absolute error, all models; the line is at "
        "the edge of the band. The parameters were calibrated on three probes, never on these graphs.",
        needs_simulation=True,
    ),
    Entry(
        "predicted_simulated",
        "Predicted against simulated",
        lambda read, values: validation.plot_predicted_simulated(
            read("simulated"), values["simulated_set"], values["origin"], values["tolerance"]
        ),
        "Predicted against simulated elapsed times, on the tree and the hardware named above. Solid: equal; dashed: "
        "±15 %. From left to right the reading of the slides, its variant with round-robin sharing upstream, and the "
        "back-pressure rule that goes beyond the paper.",
        needs_simulation=True,
    ),
    Entry(
        "error_by_size",
        "Errors and the number of communications",
        lambda read, values: validation.plot_error_by_size(
            read("error_band"), values["simulated_set"], values["origin"], values["tolerance"]
        ),
        "Share within ±15 % (bars: 95 % interval, resampled by graph) and mean absolute error by the number "
        "of communications in the graph, for the validation set and the stress set. Drawn "
        "wide: a line on which another lies. Squares without a line: the stress set.",
        needs_simulation=True,
    ),
    Entry(
        "model_hardware",
        "Models on different hardware",
        lambda read, values: validation.plot_model_hardware(
            read("error_band"),
            {f"{name}.held_out": f"{name}, held out" for name in values["held_out"]},
            values["tolerance"],
        ),
        "Share of communications within ±15 % of the simulated time for every model and hardware setting, on graphs "
        "held out from the design of the back-pressure rule. A row "
        "that equals that of the slides' reading takes one rule of it otherwise, which makes no difference to these "
        "shares.",
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
        "The communication on which the slides' reading errs most: link loads that the model predicts at the start, "
        "and elapsed times of model and packet-level simulator side by side. "
        "Tree and hardware are named above.",
        needs_simulation=True,
    ),
    Entry(
        "error_features",
        "What explains the errors",
        lambda read, values: validation.plot_error_features(
            read("error_feature"), f"{values['simulated_set']}.all", values["origin"]
        ),
        "Which features of a communication and its graph explain the absolute error: loss of the R² of a "
        "gradient-boosted model when one feature is shuffled, cross-validated over isomorphism classes of "
        "graphs. Bars: spread over folds.",
        needs_simulation=True,
    ),
    Entry(
        "schedule_distribution",
        "All schedules of a halo exchange",
        lambda read, values: schedules.plot_schedule_distribution(
            read("schedule_histogram"), read("schedule_summary"), values["reference_time_s"]
        ),
        "Times of all schedules of the halo exchanges of which the talk shows a fastest one, on the trees named "
        "above, in units of one message alone. Arrow: the published schedule; dotted: the naive order, neighbour by "
        "neighbour.",
    ),
    Entry(
        "schedule_gain",
        "What a good order of sends saves",
        lambda read, values: schedules.plot_schedule_gain(read("schedule_summary")),
        "Share of the time of a halo exchange that its fastest order saves, in the model, against the naive order and "
        "against the median order. The line is what the authors measured in COSMO, a whole application step with the "
        "overhead of two-sided MPI that the model does not know: it is no prediction of the same quantity.",
    ),
    Entry(
        "schedule_timeline",
        "The fastest schedule",
        lambda read, values: schedules.plot_schedule_timeline(read("schedule"), values["reference_time_s"]),
        "A fastest synchronised schedule (the published one where there is one): targets of each GPU by step. "
        "A step lasts as long as its slowest send.",
    ),
    readings_entry("pcie"),
)
