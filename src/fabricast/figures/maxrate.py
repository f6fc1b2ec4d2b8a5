"""Figures of the max-rate study."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fabricast.figures.style import COLOURS, PAGE_WIDTH_IN
from fabricast.maxrate.models import FORMS, SLIDE_PARAMETERS, predict_time

__all__ = ["plot_error_surface", "plot_model_errors", "plot_rates", "plot_small_messages"]

_TITLES = {name: form.title for name, form in FORMS.items()} | {
    "slides": "slides, not fitted",
    "protocols": "one set a protocol",
}
_STYLES = (":", "--", "-", "-.")


def _size(value: float) -> str:
    for unit, scale in (("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:g} {unit}"
    return f"{value:g} B"


def _parameters(fit: pd.DataFrame, dataset: str, model: str, protocol: str) -> dict[str, float]:
    row = fit[(fit["dataset"] == dataset) & (fit["model"] == model) & (fit["protocol"] == protocol)].iloc[0]
    return {name: float(row[name]) for name in FORMS[model].parameters}


def plot_rates(measurement: pd.DataFrame, fit: pd.DataFrame, dataset: str) -> Figure:
    """Draw the rate of a node by processes, measured and modelled.

    Parameters
    ----------
    measurement, fit : pandas.DataFrame
        Rows of the tables maxrate_measurement and maxrate_fit.
    dataset : str
        Data set of the left panel.

    Returns
    -------
    matplotlib.figure.Figure
        Left one data set with all models, right all data sets relative to their largest rate.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.9))
    rows = measurement[measurement["dataset"] == dataset]
    for size, colour, marker in zip(sorted(set(rows["size_bytes"]))[-3:], COLOURS, "os^", strict=False):
        own = rows[rows["size_bytes"] == size].sort_values("processes")
        left.plot(own["processes"], own["processes"] * size / own["time_s"] / 1e9, marker, color=colour,
                  markersize=3.5, label=_size(size))  # fmt: skip
    processes = np.linspace(1, float(rows["processes"].max()), 120)
    largest = float(rows["size_bytes"].max())
    for (name, form), style in zip(FORMS.items(), _STYLES, strict=True):
        time = predict_time(name, _parameters(fit, dataset, name, "large"), np.full(120, largest), processes)
        left.plot(processes, processes * largest / time / 1e9, color="black", linestyle=style, linewidth=1,
                  label=form.title)  # fmt: skip
    top = float((rows["processes"] * rows["size_bytes"] / rows["time_s"]).max()) / 1e9
    left.set_ylim(0, 1.6 * top)
    left.set_xlabel("processes on the node")
    left.set_ylabel("k n / T (GB/s)")
    left.set_title(dataset)
    left.legend(fontsize=5.5)
    colours = plt.colormaps["viridis"](np.linspace(0, 0.9, measurement["dataset"].nunique()))
    for (label, part), colour in zip(measurement.groupby("dataset", sort=True), colours, strict=True):
        big = part[part["size_bytes"] == part["size_bytes"].max()].sort_values("processes")
        rate = big["processes"] * big["size_bytes"] / big["time_s"]
        right.plot(big["processes"], rate / rate.max(), color=colour, marker=".", label=str(label))
    right.set_xscale("log", base=2)
    right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    right.set_xlabel("processes on the node")
    right.set_ylabel("rate / largest rate, largest messages")
    right.legend(fontsize=5)
    return figure


def plot_small_messages(measurement: pd.DataFrame, fit: pd.DataFrame, dataset: str) -> Figure:
    """Draw the time of small messages by processes.

    Parameters
    ----------
    measurement, fit : pandas.DataFrame
        Rows of the tables maxrate_measurement and maxrate_fit.
    dataset : str
        Data set.

    Returns
    -------
    matplotlib.figure.Figure
        Measured times of three sizes, the refined model and the latency term.
    """
    rows = measurement[measurement["dataset"] == dataset]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.7))
    processes = np.linspace(1, float(rows["processes"].max()), 120)
    for size, colour, marker in zip(sorted(set(rows["size_bytes"]))[:7:3], COLOURS, "os^", strict=False):
        own = rows[rows["size_bytes"] == size].sort_values("processes")
        axes.plot(own["processes"], own["time_s"] * 1e6, marker, color=colour, markersize=4, label=_size(size))
        for name, style in (("refined", "--"), ("refined_latency", "-")):
            time = predict_time(name, _parameters(fit, dataset, name, "all"), np.full(120, size), processes)
            axes.plot(processes, time * 1e6, color=colour, linestyle=style, linewidth=0.9,
                      label=FORMS[name].title if marker == "o" else None)  # fmt: skip
    axes.set_xlabel("processes on the node")
    axes.set_ylabel("time (µs)")
    axes.set_ylim(0, None)
    axes.set_title(dataset)
    axes.legend(fontsize=6)
    return figure


def plot_error_surface(measurement: pd.DataFrame, dataset: str) -> Figure:
    """Draw the error of the slides' parameters over size and processes.

    Parameters
    ----------
    measurement : pandas.DataFrame
        Rows of the table maxrate_measurement.
    dataset : str
        Data set.

    Returns
    -------
    matplotlib.figure.Figure
        A map with the bands of the slides.
    """
    rows = measurement[measurement["dataset"] == dataset]
    size, processes = (rows[name].to_numpy(dtype=np.float64) for name in ("size_bytes", "processes"))
    error = np.abs(predict_time("refined", SLIDE_PARAMETERS, size, processes) / rows["time_s"].to_numpy() - 1)
    table = pd.DataFrame({"size": size, "processes": processes, "error": error}).pivot(
        index="processes", columns="size", values="error"
    )
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 3.0))
    bands = [0.0, 0.1, 0.2, 0.4, 0.6, 0.8]
    shown = axes.pcolormesh(
        np.arange(table.shape[1] + 1), np.arange(table.shape[0] + 1), table.to_numpy(),
        cmap="cividis", norm=BoundaryNorm(bands, 256), edgecolors="white", linewidth=0.3,
    )  # fmt: skip
    axes.set_xticks(
        np.arange(table.shape[1]) + 0.5, [_size(float(value)) for value in table.columns], rotation=45, fontsize=6
    )
    axes.set_yticks(np.arange(table.shape[0]) + 0.5, [f"{value:g}" for value in table.index], fontsize=6)
    axes.set_xlabel("message size")
    axes.set_ylabel("processes on the node")
    axes.set_title(f"{dataset}: refined model with the slides' parameters")
    axes.grid(visible=False)
    figure.colorbar(shown, ax=axes, label="absolute relative error")
    return figure


def plot_model_errors(fit: pd.DataFrame) -> Figure:
    """Draw median and 90th percentile of the error of every model on every data set.

    Parameters
    ----------
    fit : pandas.DataFrame
        Rows of the table maxrate_fit.

    Returns
    -------
    matplotlib.figure.Figure
        One group of bars a data set.
    """
    rows = fit[fit["protocol"] == "all"]
    models = [name for name in _TITLES if name in set(rows["model"])]
    datasets = sorted(set(rows["dataset"]))
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 3.1))
    width = 0.8 / len(models)
    for number, model in enumerate(models):
        own = rows[rows["model"] == model].set_index("dataset")
        place = np.array([datasets.index(name) for name in own.index]) + (number - len(models) / 2 + 0.5) * width
        axes.bar(place, 100 * own["median_error"], width=width, color=COLOURS[number], label=_TITLES[model])
        axes.vlines(place, 100 * own["median_error"], 100 * own["p90_error"], color=COLOURS[number], linewidth=0.8)
    axes.axhline(5, color="0.4", linewidth=0.7, linestyle="--")
    axes.set_xticks(range(len(datasets)), datasets, rotation=30, ha="right", fontsize=6)
    axes.set_ylabel("absolute relative error (%)")
    axes.set_yscale("log")
    axes.set_ylim(0.2, 600)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.legend(fontsize=6, ncols=3)
    axes.grid(axis="x", visible=False)
    return figure
