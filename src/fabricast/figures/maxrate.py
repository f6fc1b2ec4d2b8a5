"""Figures of the max-rate study."""

from __future__ import annotations

import textwrap
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import BoundaryNorm, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, legend_below, size_name
from fabricast.maxrate.datasets import dataset_title
from fabricast.maxrate.models import FORMS, MODEL_TITLES, SINGLE_FORMS, SLIDE_PARAMETERS, predict_time

_CHOSEN = "overload_protocols"
#: One colour per model in all figures.
MODEL_COLOURS = dict(zip(MODEL_TITLES, COLOURS, strict=True))
_STYLES = (":", "--", "-", "-.")
#: Colour bands of signed errors in %; errors below 5 % have the neutral colour.
_ERROR_BANDS = BoundaryNorm([-80, -40, -20, -10, -5, 5, 10, 20, 40, 80], 256, extend="both")


def _points(colour: str, marker: str, label: str, *, is_hollow: bool = False) -> Line2D:
    """Return the legend handle of measured points."""
    face = "none" if is_hollow else colour
    return Line2D([], [], color=colour, marker=marker, mfc=face, linestyle="", markersize=4, label=f"{label}, measured")


def _line(style: Literal["-", "--"], label: str) -> Line2D:
    """Return the legend handle of a model; its lines have the colours of the points."""
    return Line2D([], [], color="black", linestyle=style, linewidth=0.9, label=label)


def fitted_parameters(fit: pd.DataFrame, dataset: str, model: str, protocol: str) -> dict[str, float]:
    """Return the fitted parameters of a model for one protocol, or for ``all``."""
    row = fit[(fit["dataset"] == dataset) & (fit["model"] == model) & (fit["protocol"] == protocol)].iloc[0]
    return {name: float(row[name]) for name in FORMS[model].parameters}


def node_rate_gb_per_s(rows: pd.DataFrame) -> pd.Series:
    """Return the bytes that a node sends, divided by the measured time, in GB/s for rows of maxrate_measurement.

    Within a round trip, as many bytes return: unsynchronised pairs use both directions at once, each at this mean rate.
    """
    return rows["processes"] * rows["size_bytes"] / rows["time_s"] / 1e9


#: Machine of the slides, and the data set of two nodes at the same router, one reading of "adjacent node".
_SLIDE_SYSTEM, _ADJACENT = "Blue Waters", "bluewaters_irecv_1"


def plot_rates(measurement: pd.DataFrame, fit: pd.DataFrame, dataset: str) -> Figure:
    """Draw measured and modelled node rates by process count."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 4.2))
    rows = measurement[measurement["dataset"] == dataset]
    for size, colour, marker in zip(sorted(set(rows["size_bytes"]))[-3:], COLOURS, "os^", strict=False):
        size_rows = rows[rows["size_bytes"] == size].sort_values("processes")
        left.plot(
            size_rows["processes"],
            node_rate_gb_per_s(size_rows),
            marker,
            color=colour,
            markersize=3.5,
            label=size_name(size),
        )
    processes = np.linspace(1, float(rows["processes"].max()), 120)
    largest = float(rows["size_bytes"].max())
    for name, style in zip(SINGLE_FORMS, _STYLES, strict=True):
        time = predict_time(name, fitted_parameters(fit, dataset, name, "large"), np.full(120, largest), processes)
        left.plot(
            processes,
            processes * largest / time / 1e9,
            color="black",
            linestyle=style,
            linewidth=1,
            label=FORMS[name].title,
        )
    top = float(node_rate_gb_per_s(rows).max())
    stated = fit[(fit["dataset"] == dataset) & (fit["model"] == "slides")]["r_n"]
    if not stated.empty and np.isfinite(stated.iloc[0]):
        value = float(stated.iloc[0]) / 1e9
        words = f"slides: {value:.3g} GB/s"
        left.axhline(value, color=COLOURS[3], linestyle=(0, (1, 1)), linewidth=1.2, label=words)
        top = max(top, value)
    left.set_ylim(0, 1.15 * top)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set_xlabel("processes on the node")
    left.set_ylabel("bytes sent by a node / time (GB/s)")
    left.set_title(dataset_title(dataset))
    legend_below(left, columns=1)
    for number, (label, part) in enumerate(measurement.groupby("dataset", sort=True)):
        # Five colours are reused with other line styles and markers.
        colour, again = (*COLOURS[:4], COLOURS[6])[number % 5], number // 5 % 3
        big = part[part["size_bytes"] == part["size_bytes"].max()].sort_values("processes")
        rate = node_rate_gb_per_s(big)
        right.plot(
            big["processes"],
            rate / rate.max(),
            color=colour,
            marker="o^s"[again],
            markersize=3,
            linewidth=0.9,
            linestyle=("-", "--", ":")[again],
            label=dataset_title(str(label)),
        )
    right.set_xscale("log", base=2)
    right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    right.set_xlabel("processes on the node")
    right.set_ylabel("rate / largest rate, largest messages")
    # Names of data sets are too long for two columns.
    legend_below(right, columns=1)
    return figure


def plot_small_messages(measurement: pd.DataFrame, fit: pd.DataFrame, dataset: str) -> Figure:
    """Draw the time of small messages by process count."""
    rows = measurement[measurement["dataset"] == dataset]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.7))
    points: list[Line2D] = []
    processes = np.linspace(1, float(rows["processes"].max()), 120)
    for size, colour, marker in zip(sorted(set(rows["size_bytes"]))[:7:3], COLOURS, "os^", strict=False):
        size_rows = rows[rows["size_bytes"] == size].sort_values("processes")
        # Hollow marks, because those of the smallest sizes coincide.
        axes.plot(size_rows["processes"], size_rows["time_s"] * 1e6, marker, color=colour, markersize=5, mfc="none")
        points.append(_points(colour, marker, size_name(size), is_hollow=True))
        for name, style in (("refined", "--"), ("refined_latency", "-")):
            time = predict_time(name, fitted_parameters(fit, dataset, name, "all"), np.full(120, size), processes)
            axes.plot(processes, time * 1e6, color=colour, linestyle=style, linewidth=0.9)
    axes.set_xlabel("processes on the node")
    axes.set_ylabel(_time_label(rows))
    axes.set_ylim(0, None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(dataset_title(dataset))
    lines = [_line("--", FORMS["refined"].title), _line("-", FORMS["refined_latency"].title)]
    axes.legend(handles=[*points, *lines])
    return figure


def plot_error_surface(measurement: pd.DataFrame) -> Figure:
    """Draw the error of the slides' parameters by message size and process count."""
    runs = measurement[measurement["system"] == _SLIDE_SYSTEM]
    names = sorted(set(runs["dataset"]), key=lambda name: (name != _ADJACENT, name))
    figure, panels = plt.subplots(1, max(len(names), 1), figsize=(PAGE_WIDTH_IN, 2.9), squeeze=False, sharey=True)
    shown = None
    for axes, dataset in zip(panels[0], names, strict=False):
        rows = runs[runs["dataset"] == dataset]
        size, processes = (rows[name].to_numpy(dtype=np.float64) for name in ("size_bytes", "processes"))
        error = np.abs(predict_time("refined", SLIDE_PARAMETERS, size, processes) / rows["time_s"].to_numpy() - 1)
        table = pd.DataFrame({"size_bytes": size, "processes": processes, "value": error})
        bands = BoundaryNorm([0.0, 0.1, 0.2, 0.4, 0.6, 0.8], 256, extend="max")
        shown = _surface(axes, table, bands, dataset_title(dataset).removeprefix(f"{_SLIDE_SYSTEM}, "))
    panels[0, 0].set_ylabel("processes on the node")
    if shown is not None:
        figure.colorbar(shown, ax=panels[0].tolist(), label="absolute relative error")
    return figure


def plot_model_errors(fit: pd.DataFrame) -> Figure:
    """Draw the error of every model on left-out data of every data set."""
    rows = fit[fit["protocol"] == "all"]
    # The slides' parameters are not fitted: all data are unseen.
    unseen = rows["unseen_median_error"].where(rows["model"] != "slides", rows["median_error"])
    table = 100 * rows.assign(unseen=unseen).pivot(index="dataset", columns="model", values="unseen")
    table = table[[name for name in MODEL_TITLES if name in table.columns]]
    values = table.to_numpy(dtype=float)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.24 * len(table) + 1.2))
    norm = LogNorm(1, 100, clip=True)
    shown = axes.imshow(np.ma.masked_invalid(values), cmap="cividis_r", norm=norm, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text, best = f"{value:.1f}", f"{np.nanmin(values[row]):.1f}"
            is_best = text == best
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                weight="bold" if is_best else "normal",
                color="white" if norm(value) > 0.6 else "black",
            )
    titles = [textwrap.fill(MODEL_TITLES[str(name)], 14) for name in table.columns]
    axes.set_xticks(range(len(titles)), titles)
    axes.tick_params(axis="x", labeltop=True, labelbottom=False, length=0)
    axes.set_yticks(range(len(table)), list(map(dataset_title, table.index)))
    axes.set_title("median error for process counts left out of the fit (%)")
    axes.grid(visible=False)
    bar = figure.colorbar(shown, ax=axes, aspect=30, pad=0.02)
    bar.set_ticks([1, 3, 10, 30, 100], labels=["1", "3", "10", "30", "100"])
    return figure


def _time_label(rows: pd.DataFrame) -> str:
    """Return the label of a time axis with the number of messages that a time contains."""
    return "full ping-pong (µs)" if set(rows["convention"]) == {"round_trip"} else "time of a message (µs)"


def _surface(axes: Axes, values: pd.DataFrame, norm: Normalize, title: str, colours: str = "cividis") -> QuadMesh:
    """Draw a table of message sizes by process counts as coloured cells."""
    table = values.pivot(index="processes", columns="size_bytes", values="value")
    shown = axes.pcolormesh(
        np.arange(table.shape[1] + 1),
        np.arange(table.shape[0] + 1),
        table.to_numpy(),
        cmap=colours,
        norm=norm,
        edgecolors="white",
        linewidth=0.2,
    )
    every = slice(None, None, 3)
    columns = [size_name(float(value)) for value in table.columns]
    axes.set_xticks((np.arange(table.shape[1]) + 0.5)[every], columns[every], rotation=45)
    axes.set_yticks((np.arange(table.shape[0]) + 0.5)[every], [f"{k:g}" for k in table.index][every])
    axes.set_xlabel("message size")
    axes.set_title(title, fontsize=8)
    axes.grid(visible=False)
    return shown


def _modelled(prediction: pd.DataFrame, dataset: str, model: str) -> pd.DataFrame:
    rows = prediction[(prediction["model"] == model) & prediction["case_id"].str.startswith(f"{dataset}/")]
    parts = rows["case_id"].str.rsplit("/", n=2, expand=True)
    return pd.DataFrame(
        {"processes": parts[1].astype(int), "size_bytes": parts[2].astype(float), "value": rows["value"] * 1e6}
    )


def plot_time_surfaces(
    measurement: pd.DataFrame, prediction: pd.DataFrame, dataset: str, models: tuple[str, ...]
) -> Figure:
    """Draw maps of measured time and of the signed errors of models."""
    rows = measurement[measurement["dataset"] == dataset]
    measured = rows[["processes", "size_bytes"]].assign(value=rows["time_s"] * 1e6)
    modelled = {MODEL_TITLES[model]: _modelled(prediction, dataset, model) for model in models}
    norm = LogNorm(measured["value"].min(), measured["value"].max())
    figure, axes = plt.subplots(1, 1 + len(models), figsize=(PAGE_WIDTH_IN, 2.7), sharey=True)
    shown = _surface(axes[0], measured, norm, "measured")
    for panel_axes, (title, panel) in zip(axes[1:], modelled.items(), strict=True):
        error = _surface(
            panel_axes,
            _error_percent(panel, measured),
            _ERROR_BANDS,
            f"error of {title}".replace(", with", ",\nwith"),
            "PuOr",
        )
    axes[0].set_ylabel("processes on the node")
    figure.suptitle(dataset_title(dataset), fontsize=8)
    # The unit is above the bar: next to the bar it would overlap the axis of the next panel.
    for mesh, panel_axes, name in ((shown, axes[:1], "µs"), (error, axes[1:], "%")):
        figure.colorbar(mesh, ax=list(panel_axes)).ax.set_title(name, fontsize=7)
    return figure


def _error_percent(modelled: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the signed errors of modelled times in %."""
    both = modelled.merge(measured, on=["processes", "size_bytes"], suffixes=("", "_measured"))
    return both.assign(value=100 * (both["value"] / both["value_measured"] - 1))


#: The public runs that "adjacent node" may mean.
_SLIDES_RUNS = ("bluewaters_irecv_1", "bluewaters_irecv_2", "bluewaters_blocking_2")


def plot_slides_estimate(measurement: pd.DataFrame, prediction: pd.DataFrame) -> Figure:
    """Draw measured times of runs on Blue Waters, the times of the slides' parameters and their signed errors."""
    runs = [run for run in _SLIDES_RUNS if run in set(measurement["dataset"])]
    times: dict[tuple[str, str], pd.DataFrame] = {}
    errors: dict[str, pd.DataFrame] = {}
    for run in runs:
        rows = measurement[measurement["dataset"] == run]
        measured = rows[["processes", "size_bytes"]].assign(value=rows["time_s"] * 1e6)
        modelled = _modelled(prediction, run, "slides")
        times |= {(run, "measured"): measured, (run, "modelled"): modelled}
        errors[run] = _error_percent(modelled, measured)
    values = pd.concat([panel["value"] for panel in times.values()])
    norm = LogNorm(values.min(), values.max())
    size = (PAGE_WIDTH_IN, 0.5 + 1.6 * len(runs))
    figure, axes = plt.subplots(len(runs), 3, figsize=size, sharex=True, sharey=True, squeeze=False)
    for run, panels in zip(runs, axes, strict=True):
        name = dataset_title(run).removeprefix("Blue Waters, ")
        shown = _surface(panels[0], times[run, "measured"], norm, f"measured, {name}")
        _surface(panels[1], times[run, "modelled"], norm, "slides, not fitted")
        middle = errors[run]["value"].abs().median()
        error = _surface(panels[2], errors[run], _ERROR_BANDS, f"error, median {middle:.0f} %", "PuOr")
        panels[0].set_ylabel("processes on the node")
    for panel in axes[:-1].ravel():
        panel.set_xlabel("")
    for mesh, panel_axes, unit in ((shown, axes[:, :2], "µs"), (error, axes[:, 2:], "%")):
        figure.colorbar(mesh, ax=list(panel_axes.ravel())).ax.set_title(unit, fontsize=7)
    return figure


def plot_time_curves(measurement: pd.DataFrame, prediction: pd.DataFrame, dataset: str) -> Figure:
    """Draw time by message size for several process counts."""
    rows = measurement[measurement["dataset"] == dataset]
    counts = sorted(set(rows["processes"]))
    chosen = sorted({counts[0], counts[len(counts) // 4], counts[len(counts) // 2], counts[-1]})
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 3.0))
    points: list[Line2D] = []
    for k, colour, marker in zip(chosen, COLOURS, "os^D", strict=False):
        process_rows = rows[rows["processes"] == k].sort_values("size_bytes")
        axes.plot(process_rows["size_bytes"], process_rows["time_s"] * 1e6, marker, color=colour, markersize=3.5)
        points.append(_points(colour, marker, "1 process" if k == 1 else f"{k} processes"))
        for model, style in (("refined", "--"), (_CHOSEN, "-")):
            modelled = _modelled(prediction, dataset, model)
            line = modelled[modelled["processes"] == k].sort_values("size_bytes")
            axes.plot(line["size_bytes"], line["value"], color=colour, linestyle=style, linewidth=0.9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(value)))
    axes.set_xlabel("message size")
    axes.set_ylabel(_time_label(rows))
    axes.set_title(dataset_title(dataset))
    lines = [_line("--", MODEL_TITLES["refined"]), _line("-", MODEL_TITLES[_CHOSEN])]
    axes.legend(handles=[*points, *lines])
    return figure


def plot_parameter_intervals(fit: pd.DataFrame, parameter: pd.DataFrame) -> Figure:
    """Draw the rates of the refined model with their 95 % intervals, and those of the slides for Blue Waters."""
    of_slides = parameter[parameter["system"] == "blue_waters.slides"].set_index("name")["value"]
    rows = fit[(fit["model"] == "refined") & (fit["protocol"] == "large")].sort_values("dataset", ascending=False)
    figure, axes = plt.subplots(1, 3, figsize=(PAGE_WIDTH_IN, 2.6), sharey=True)
    titles = {"r_n": "node (r_n)", "r_b": "first process (r_b)", "r_i": "next process (r_i)"}
    for panel, (name, title) in zip(axes, titles.items(), strict=True):
        for y, (_, row) in enumerate(rows.iterrows()):
            if name not in list(row["identifiable"]):
                panel.text(
                    0.03,
                    y,
                    "not determined",
                    fontsize=7,
                    va="center",
                    transform=panel.get_yaxis_transform(),
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
                )
                continue
            if row["dataset"].startswith("bluewaters"):
                panel.plot(1e-9 * of_slides[name], y, "|", color="black", markersize=10, zorder=3)
            ends = [1e-9 * row[f"{name}_low"], 1e-9 * row[f"{name}_high"]]
            panel.plot(ends, [y, y], color=COLOURS[0], linewidth=1.2)
            panel.plot(1e-9 * row[name], y, "o", color=COLOURS[0], markersize=3.5)
        panel.set_xscale("log")
        panel.set_xlim(0.3, 100)
        panel.set_title(title, fontsize=8)
        panel.set_xlabel("bytes sent / time (GB/s)")
    axes[0].set_yticks(range(len(rows)), map(dataset_title, rows["dataset"]))
    fitted = Line2D([], [], color=COLOURS[0], marker="o", markersize=3.5, label="fitted rate with 95 % interval")
    slides = Line2D(
        [], [], color="black", marker="|", markersize=10, linestyle="none", label="slides' value for Blue Waters"
    )
    explanation = "not determined: other values of this rate fit as well"
    figure.legend(handles=[fitted, slides], ncols=2, loc="outside upper center", title=explanation, title_fontsize=7)
    return figure


def plot_this_machine(measurement: pd.DataFrame) -> Figure:
    """Draw the round-trip times of this machine by message size and path."""
    rows = measurement[measurement["dataset"].str.startswith("this_machine.")]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.8))
    for (_, path), colour in zip(enumerate(sorted(set(rows["path"]))), COLOURS, strict=False):
        path_rows = rows[rows["path"] == path]
        for k, style in zip(sorted(set(path_rows["processes"])), ("-", "--", ":", "-.") * 4, strict=False):
            part = path_rows[path_rows["processes"] == k].sort_values("size_bytes")
            axes.plot(
                part["size_bytes"],
                part["time_s"] * 1e6,
                style,
                marker="o",
                markersize=3,
                color=colour,
                label=f"{path.replace('_', ' ')}, {k} pair{'s' if k > 1 else ''}",
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(value)))
    axes.set_xlabel("message size")
    axes.set_ylabel("round trip (µs)")
    axes.legend()
    return figure
