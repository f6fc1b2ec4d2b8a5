"""Figures of the study of collective operations."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, size_name

__all__ = ["plot_bandwidth", "plot_card", "plot_choices", "plot_errors"]

_FORECASTS = {
    "forecast_s": ("forecast", COLOURS[0], "-"),
    "nccl_s": ("NCCL's estimate", COLOURS[1], "--"),
    "alpha_beta_s": ("alpha-beta", COLOURS[2], ":"),
}
_PROTOCOLS = {"ll": COLOURS[1], "simple": COLOURS[0], "ll128": COLOURS[2]}
_CLASSES = ("up to 32 KiB", "64 to 512 KiB", "from 1 MiB")
_NAMES = {
    "fabricast": ("forecast", COLOURS[0]),
    "fabricast_left_out": ("machine left out of the fit", COLOURS[5]),
    "nccl_estimate": ("NCCL's estimate", COLOURS[1]),
    "alpha_beta": ("alpha-beta", COLOURS[2]),
}
_COLUMNS = 3
#: Binary logarithm of the ratio of sizes above which every tenth power of two has a label.
_WIDE = 17


def _system_title(system: str) -> str:
    """Return the name of a machine, with the transport in words if it was measured with both.

    >>> _system_title("chlc_p2p"), _system_title("sm02")
    ('chlc, direct', 'sm02')
    """
    name, _, transport = system.rpartition("_")
    words = {"p2p": "direct", "shm": "host memory"}.get(transport)
    return system if words is None else f"{name}, {words}"


def _bus_factor(ranks: int) -> float:
    """Return the ratio of bus bandwidth to algorithm bandwidth of all_reduce."""
    return 2 * (ranks - 1) / ranks


def _size_axis(axes: Axes, sizes: pd.Series) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(value)))
    low, high = math.log2(float(sizes.min())), math.log2(float(sizes.max()))
    step = 5 if high - low < _WIDE else 10
    axes.set_xticks([2.0**power for power in np.arange(math.ceil(low / step) * step, high + 0.1, step)])


def _panel(axes: Axes, rows: pd.DataFrame, ranks: int) -> None:
    """Draw measured and forecast bus bandwidth of one machine."""
    rows = rows.sort_values("size_bytes")
    scale = rows["size_bytes"] * _bus_factor(ranks) / 1e9
    for column, (label, colour, line) in _FORECASTS.items():
        axes.plot(rows["size_bytes"], scale / rows[column], line, color=colour, linewidth=1, label=label)
    axes.plot(rows["size_bytes"], scale / rows["measured_s"], "o", color="black", markersize=2.2, label="measured")
    axes.set_yscale("log")
    measured = scale / rows["measured_s"]
    axes.set_ylim(0.4 * float(measured.min()), 3.5 * float(measured.max()))
    _size_axis(axes, rows["size_bytes"])


def _all_reduce(time: pd.DataFrame, machine: pd.DataFrame) -> list[tuple[str, pd.DataFrame, int]]:
    """Return name, rows and ranks of each machine with several sizes of all_reduce."""
    ranks = machine.set_index("system")["ranks"]
    rows = time[time["operation"] == "all_reduce"]
    return [
        (str(system), part, int(ranks[system])) for system, part in rows.groupby("system", sort=True) if len(part) > 1
    ]


def plot_bandwidth(time: pd.DataFrame, machine: pd.DataFrame) -> Figure:
    """Draw the bus bandwidth of all_reduce over the size, one panel per machine."""
    cases = _all_reduce(time, machine)
    rows = max(1, -(-len(cases) // _COLUMNS))
    figure, panels = plt.subplots(rows, _COLUMNS, figsize=(PAGE_WIDTH_IN, 1.75 * rows + 0.4), squeeze=False)
    for axes, case in zip(panels.flat, cases, strict=False):
        name, part, ranks = case
        _panel(axes, part, ranks)
        axes.set_title(f"{_system_title(name)}, {ranks} GPUs", fontsize=8)
        axes.set_xlabel("message size")
    for axes in panels.flat[len(cases) :]:
        axes.axis("off")
    for row in panels:
        row[0].set_ylabel("bus bandwidth (GB/s)")
    figure.legend(*panels[0][0].get_legend_handles_labels(), ncols=4, loc="outside lower center")
    return figure


def plot_errors(error: pd.DataFrame) -> Figure:
    """Draw the median error of forecasts by class of sizes and transport."""
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.3), sharey=True)
    for axes, (transport, words) in zip(
        panels, (("P2P", "direct copies"), ("SHM", "through host memory")), strict=True
    ):
        part = error[error["transport"] == transport].set_index(["size_class", "forecast"])["median"]
        for shift, (name, (label, colour)) in enumerate(_NAMES.items()):
            heights = [100 * float(part.get((size_class, name), np.nan)) for size_class in _CLASSES]
            x = np.arange(len(_CLASSES)) + 0.21 * (shift - 1.5)
            axes.bar(x, heights, width=0.2, color=colour, label=label)
            for place, height in zip(x, heights, strict=True):
                if not math.isnan(height):
                    axes.text(place, height + 1, f"{height:.0f}", ha="center", fontsize=7)
        axes.set_xticks(np.arange(len(_CLASSES)), _CLASSES)
        axes.set_title(words, fontsize=8)
    panels[0].set_ylabel("median error (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=4, loc="outside lower center")
    return figure


def plot_choices(time: pd.DataFrame) -> Figure:
    """Draw NCCL's protocol by size and machine."""
    rows = time[time["operation"] == "all_reduce"]
    systems = sorted(rows["system"].unique(), reverse=True)
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, 0.24 * len(systems) + 1.0))
    for y, system in enumerate(systems):
        for row in rows[rows["system"] == system].to_dict("records"):
            power = math.log2(row["size_bytes"])
            axes.barh(y, 0.95, left=power - 0.475, height=0.8, color=_PROTOCOLS[row["protocol"]])
    axes.set_yticks(range(len(systems)), map(_system_title, systems))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(2.0**value)))
    axes.set_xticks(range(10, 31, 5))
    axes.set_xlabel("message size")
    used = [name for name in _PROTOCOLS if name in set(rows["protocol"])]
    axes.legend(
        handles=[Patch(color=_PROTOCOLS[name], label=name.upper() if name != "simple" else "Simple") for name in used],
        fontsize=7,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    return figure


def plot_card(time: pd.DataFrame, machine: pd.DataFrame) -> Figure:
    """Draw the bus bandwidth of one machine, measured and forecast."""
    cases = _all_reduce(time[time["transport"] == "P2P"], machine) or _all_reduce(time, machine)
    name, part, ranks = max(cases, key=lambda case: (len(case[1]), case[0]))
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, 2.2))
    _panel(axes, part, ranks)
    axes.set_ylabel("bus bandwidth (GB/s)")
    axes.set_title(f"all_reduce of {ranks} GPUs ({_system_title(name)})", fontsize=8)
    axes.legend()
    return figure
