"""Figures of the GPU-centric study on the axes of the talk; the bars of the talk are unavailable."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS, MORE_COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, ink_on

_ASSUMED = "model with assumed parameters, axes of slide"
#: Forms of control with their colours, in the order of slide 9.
_CONTROLS = {"in_kernel": MORE_COLOURS[1], "stream": COLOURS[5], "device": COLOURS[4]}
_SLIDE = {"performance": 9, "energy": 10}
#: Box that hides lines behind a number.
_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
#: Upper end of the axis of slide 24.
_HIGHEST_RATIO = 3.0
#: Workloads with their titles, in the order of slide 24 and in that of slide 25.
_PANELS = {
    "nbody_small": "n-body, small",
    "nbody_large": "n-body, large",
    "sum_small": "sum, small",
    "sum_large": "sum, large",
    "himeno": "Himeno",
    "random_access": "random access",
}
_BARS = {
    "nbody_small": "n-body,\nsmall",
    "nbody_large": "n-body,\nlarge",
    "sum_small": "sum,\nsmall",
    "sum_large": "sum,\nlarge",
    "random_access": "random\naccess",
    "himeno": "Himeno",
}
_METHODS = {"ggas": COLOURS[1], "rma": COLOURS[2]}
#: Least share of samples of the assumed parameters in which an observation counts as one that holds.
_FIRM = 0.95
_OBSERVED = ("n-body", "himeno", "global sum", "random access")


def plot_controls(control: pd.DataFrame) -> Figure:
    """Draw performance and energy of the forms of control relative to CPU control.

    All grids share a line, because their values differ by less than the width of a mark.
    """
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 1.9), sharey=True)
    names = list(_CONTROLS)
    highest = control[["performance_high", "energy_high"]].to_numpy().max()
    for axes, (quantity, slide) in zip(panels, _SLIDE.items(), strict=True):
        for place, (name, colour) in enumerate(_CONTROLS.items()):
            rows = control[control["control"] == name]
            low, high = rows[f"{quantity}_low"].min(), rows[f"{quantity}_high"].max()
            axes.hlines(place, low, high, color="black", linewidth=1)
            axes.plot(rows[quantity], np.full(len(rows), place), "o", color=colour, markersize=6)
            values = sorted({f"{value:.2f}" for value in rows[quantity]})
            text = values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"
            axes.text(rows[quantity].mean(), place - 0.25, text, ha="center", va="bottom", fontsize=7, bbox=_WHITE)
        axes.axvline(1, color="0.3", linestyle="--", linewidth=0.8, zorder=1)
        axes.set(xlim=(0, 1.05 * highest), ylim=(len(names) - 0.5, -0.8))
        axes.set_xlabel(f"{quantity} / CPU control (slide {slide})")
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(names)), [name.replace("_", "-") for name in names])
    figure.suptitle(f"model with assumed parameters, {control['grid'].nunique()} grids", fontsize=8)
    handles: list[Artist] = [
        Line2D([], [], color="0.3", linestyle="--", linewidth=0.8, label="CPU control"),
        Line2D([], [], color="black", linewidth=1, label="range over varied assumptions"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def plot_workload_performance(workload: pd.DataFrame) -> Figure:
    """Draw the performance of the methods relative to MPI for six workloads, on the axes of slide 24."""
    figure, panels = plt.subplots(1, len(_PANELS), figsize=(PAGE_WIDTH_IN, 2.5), sharex=True, sharey=True)
    for axes, (name, title) in zip(panels, _PANELS.items(), strict=True):
        for place, ((method, colour), marker) in enumerate(zip(_METHODS.items(), "s^", strict=True)):
            line = workload[(workload["workload"] == name) & (workload["method"] == method)].sort_values("nodes")
            axes.plot(line["nodes"], line["performance_ratio"], marker=marker, markersize=3.5, color=colour)
            highest = line["performance_ratio"].max()
            if highest > _HIGHEST_RATIO:
                text = f"{method.upper()} {highest:.3g} ↑"
                axes.text(
                    7, _HIGHEST_RATIO * (0.95 - 0.1 * place), text, ha="center", va="top", color=colour, fontsize=7
                )
        axes.axhline(1, color="0.3", linestyle="--", linewidth=0.8)
        axes.set(xlim=(1, 13), xticks=(2, 4, 8, 12), title=title, ylim=(0, _HIGHEST_RATIO), yticks=(0, 1, 2, 3))
    panels[0].set_ylabel("performance / MPI")
    for axes in panels:
        axes.set_xlabel("nodes")
    figure.suptitle(f"{_ASSUMED} 24", fontsize=8)
    handles: list[Artist] = [
        Line2D([], [], color=colour, marker=marker, markersize=3.5, label=method.upper())
        for (method, colour), marker in zip(_METHODS.items(), "s^", strict=True)
    ]
    handles.append(Line2D([], [], color="0.3", linestyle="--", linewidth=0.8, label="MPI"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def plot_workload_energy(workload: pd.DataFrame) -> Figure:
    """Draw the energy of the methods relative to MPI on 12 nodes, on the axes of slide 25."""
    rows = workload[workload["nodes"] == workload["nodes"].max()]
    table = rows.pivot(index="workload", columns="method", values="energy_ratio").reindex(list(_BARS))
    table.loc["mean"] = table.mean()
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.6))
    for place, (method, colour) in enumerate(_METHODS.items()):
        x = np.arange(len(table)) + 0.38 * (place - 0.5)
        axes.bar(x, table[method], width=0.36, color=colour, label=method.upper())
        for at, value in zip(x, table[method], strict=True):
            if value > 1.2:
                axes.text(at, 1.17, f"{value:.2f}\n↑", ha="center", va="top", fontsize=7, color=ink_on(colour))
            else:
                axes.text(at, value + 0.015, f"{value:.2f}", ha="center", va="bottom", fontsize=7, bbox=_WHITE)
    axes.axhline(1, color="0.3", linestyle="--", linewidth=0.8, label="MPI", zorder=1)
    axes.set_xticks(range(len(table)), [*_BARS.values(), "mean"])
    axes.set(ylim=(0, 1.2), yticks=(0, 0.4, 0.8, 1.2), ylabel="energy / MPI")
    axes.set_title(f"{_ASSUMED} 25, {rows['nodes'].max()} nodes")
    axes.grid(visible=False, axis="x")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def plot_observations(observation: pd.DataFrame, statement: pd.DataFrame) -> Figure:
    """Draw the observations of slide 26 with their marks by workload, and whether they hold in this run."""
    shares = statement[["statement", "share_of_draws"]]
    shown = observation[observation["slide"] == "26"].merge(shares, how="left", on="statement")
    rows = shown.sort_values("observation").to_dict("records")
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 3.9))
    axes.set(xlim=(0, 10.8), ylim=(len(rows) + 0.05, -1.0))
    columns = dict(zip(_OBSERVED, (5.6, 6.6, 7.6, 8.6), strict=True))
    for name, x in columns.items():
        axes.text(x, -0.42, name.replace(" ", "\n").replace("himeno", "Himeno"), ha="center", va="center", fontsize=7)
    axes.text(9.8, -0.42, "this run", ha="center", va="center", fontsize=7)
    for place, row in enumerate(rows):
        axes.axhline(place, color="0.85", linewidth=0.6)
        lines = "\n".join(textwrap.wrap(row["text"], 56))
        axes.text(0.05, place + 0.5, lines, va="center", fontsize=7)
        _draw_marks(axes, row, columns, place + 0.5)
        word, colour = _verdict(row)
        axes.text(9.8, place + 0.5, word, ha="center", va="center", color=colour, weight="bold", fontsize=7)
    axes.set_title("observations of slide 26: marks by workload")
    axes.axis("off")
    return figure


def _verdict(row: Mapping[Hashable, Any]) -> tuple[str, str]:
    """Return words and colour of the result of an observation; green needs nearly all draws of the parameters."""
    if pd.isna(row["passed"]):
        return "not by workload", "0.45"
    if not row["passed"]:
        return "fails", COLOURS[1]
    if pd.notna(row["share_of_draws"]) and row["share_of_draws"] < _FIRM:
        return f"holds in {100 * row['share_of_draws']:.0f} %\nof samples", COLOURS[3]
    return "holds", COLOURS[2]


def _draw_marks(axes: Axes, row: Mapping[Hashable, Any], columns: dict[str, float], y: float) -> None:
    """Draw the marks of one observation."""
    if row["confidence"] == "low":
        centre = float(np.mean(list(columns.values())))
        axes.text(centre, y, f"{row['marks']} X, columns unknown", ha="center", va="center", fontsize=7, color="0.3")
        return
    colour = "black" if row["confidence"] == "high" else ASSUMED_COLOUR
    for name, x in columns.items():
        if name in row["workloads"]:
            bracketed = f"{name} ((X))" in row["workloads"]
            axes.text(x, y, "(X)" if bracketed else "X", ha="center", va="center", color=colour, weight="bold")
