"""Overview figure of each study, for the report and the documentation."""

from __future__ import annotations

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fabricast.breakdown.components import COMPONENTS
from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS, LAYER_COLOURS
from fabricast.figures.maxrate import MODEL_COLOURS, fitted_parameters, node_rate_gb_per_s
from fabricast.figures.percs_cases import plain_cases
from fabricast.figures.style import COLUMN_WIDTH_IN, size_name
from fabricast.maxrate.datasets import dataset_title
from fabricast.maxrate.models import predict_time
from fabricast.percs.mappings import MAPPING_TITLES

_HEIGHT_IN = 2.2
_FIRM = 0.95


def _workload_words(workload: str) -> str:
    """Return a readable name of a workload.

    >>> _workload_words("4D-64"), _workload_words("MChalf-64")
    ('4D stencil on 64 supernodes', 'MChalf on 64 supernodes')
    """
    kind, _, supernodes = workload.partition("-")
    return f"{kind}{' stencil' if kind.endswith('D') else ''} on {supernodes} supernodes"


def pcie_card(communication: pd.DataFrame, phase: pd.DataFrame, graph: str) -> Figure:
    """Draw the timeline of the copies of a graph with their shares of the link."""
    rows = phase[(phase["graph"] == graph) & (phase["model"] == "congestion_factor")]
    ends = communication[communication["graph"] == graph].set_index("communication").sort_index()
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, _HEIGHT_IN))
    order = {number: y for y, number in enumerate(reversed(ends.index))}
    for row in rows.to_dict("records"):
        y, start, duration = order[row["communication"]], 1e3 * row["start_s"], 1e3 * row["duration_s"]
        axes.barh(y, duration, left=start, height=0.85 * row["rho"], color=COLOURS[row["communication"]])
        axes.text(
            start + duration / 2,
            y,
            f"{row['rho']:.2g}",
            ha="center",
            va="center",
            fontsize=7,
            color="black",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_yticks(list(order.values()), [f"{ends.loc[n, 'source']}→{ends.loc[n, 'target']}" for n in order])
    axes.set_xlabel("time in ms; height: share of the link")
    axes.grid(axis="y", visible=False)
    axes.set_title("worked example of the talk (storm8, tau 0.2)", fontsize=7)
    return figure


def breakdown_card(component: pd.DataFrame, what_if: pd.DataFrame, total: pd.DataFrame, system: str) -> Figure:
    """Draw the components of the end-to-end latency along the message path."""
    removed = what_if[(what_if["reduction"] == 1.0) & (what_if["system"] == system) & (what_if["metric"] == "latency")]
    share = removed.set_index("component")["share_removed"]
    (whole,) = total[(total["system"] == system) & (total["metric"] == "latency")]["model_ns"]
    layer = component[component["system"] == system].set_index("component")["layer"]
    names = [name for name in COMPONENTS if name in share.index and name in layer.index]
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, _HEIGHT_IN))
    for y, name in enumerate(reversed(names)):
        axes.barh(y, share[name] * whole, color=LAYER_COLOURS[layer[name]], height=0.75)
    axes.set_yticks(range(len(names)), [COMPONENTS[name].title for name in reversed(names)])
    axes.set_xlabel(f"share of the latency in ns, {whole:,.0f} in all")
    axes.grid(axis="y", visible=False)
    shown = [name for name in LAYER_COLOURS if name in set(layer[names])]
    handles = [Patch(color=LAYER_COLOURS[name], label=name) for name in shown]
    figure.legend(handles=handles, ncols=3, loc="outside upper center", columnspacing=1.0, handlelength=1.4)
    return figure


def maxrate_card(measurement: pd.DataFrame, fit: pd.DataFrame, dataset: str) -> Figure:
    """Draw measured and modelled node rates for large messages by process count."""
    rows = measurement[measurement["dataset"] == dataset]
    size = float(rows["size_bytes"].max())
    size_rows = rows[rows["size_bytes"] == size].sort_values("processes")
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, _HEIGHT_IN))
    processes = np.linspace(1, float(size_rows["processes"].max()), 100)
    rate = node_rate_gb_per_s(size_rows)
    axes.plot(
        processes,
        processes * rate.iloc[0] / size_rows["processes"].iloc[0],
        "--",
        color=ASSUMED_COLOUR,
        label="one process × number",
    )
    values = fitted_parameters(fit, dataset, "maxrate", "large")
    time = predict_time("maxrate", values, np.full(100, size), processes)
    axes.plot(processes, processes * size / time / 1e9, color=MODEL_COLOURS["maxrate"], label="max-rate")
    axes.plot(size_rows["processes"], rate, "o", color="black", markersize=4, label="measured")
    axes.set_ylim(0, 1.35 * float(rate.max()))
    axes.set_xlabel("processes sending concurrently")
    axes.set_ylabel("bytes sent by a node / time (GB/s)", fontsize=7)
    axes.set_title(f"{dataset_title(dataset)}, {size_name(size)}", fontsize=7)
    figure.legend(ncols=3, loc="outside upper center", columnspacing=1.0, handlelength=1.4)
    return figure


def gpucentric_card(statement: pd.DataFrame) -> Figure:
    """Draw the share of samples of the assumed parameters in which statements hold, the weak ones by name."""
    certain = statement["decided_by"] != "assumed values"
    firm = ~certain & (statement["share_of_draws"] >= _FIRM)
    weak = statement[~certain & ~firm].sort_values("share_of_draws", ascending=False)
    bars = [
        (f"{certain.sum()} statements by construction", 1.0, ASSUMED_COLOUR),
        (f"{firm.sum()} statements", float(statement.loc[firm, "share_of_draws"].min()), COLOURS[0]),
        *((row["text"].split(" (")[0], row["share_of_draws"], COLOURS[1]) for row in weak.to_dict("records")),
    ]
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, _HEIGHT_IN))
    y = 0.0
    for text, share, colour in bars:
        lines = textwrap.wrap(text.rstrip("."), 52)
        y += 0.6 + 0.5 * len(lines)
        axes.barh(y, 100 * share, height=0.35, color=colour)
        # The name is above its bar, where the whole width of the card is free.
        axes.text(0, y - 0.2, "\n".join(lines), va="bottom", fontsize=7)
        least = "at least " if colour == COLOURS[0] else ""
        axes.text(100 * share + 1, y, f"{least}{100 * share:.0f} %", va="center", fontsize=7)
    axes.set(xlim=(0, 128), ylim=(y + 0.4, 0), yticks=[], xticks=range(0, 101, 25))
    axes.set_xlabel("samples in which it holds (%)")
    axes.grid(visible=False, axis="y")
    return figure


def percs_card(case: pd.DataFrame, search: pd.DataFrame) -> Figure:
    """Draw the time of the busiest link by mapping, with direct routes."""
    plain = plain_cases(case[case["routing"] == "direct"])
    workload = "4D-64" if "4D-64" in set(plain["workload"]) else sorted(plain["workload"])[0]
    time = plain[plain["workload"] == workload].groupby("mapping")["bottleneck_s"].mean()
    searched = search[(search["workload"] == workload) & (search["routing"] == "direct")]
    times = {str(name): float(value) for name, value in time.items()}
    if len(searched):
        times["searched"] = float(searched["bottleneck_s"].min())
    names = sorted(times, key=lambda name: -times[name])
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, _HEIGHT_IN))
    for y, name in enumerate(names):
        colour = {"DEF": COLOURS[1], "searched": COLOURS[2]}.get(name, COLOURS[0])
        axes.plot(1e3 * times[name], y, "o", color=colour, markersize=5)
        axes.annotate(
            f"{1e3 * times[name]:.3g}",
            (1e3 * times[name], y),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    axes.set_yticks(range(len(names)), [MAPPING_TITLES.get(name, name) for name in names])
    axes.set_xscale("log")
    axes.margins(x=0.22)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"busiest link in ms, {_workload_words(workload)}", fontsize=7, loc="right")
    return figure
