"""Figures of the study of copies from GPU to network."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, ink_on, legend_below, size_name

_UNCHANGED, _OTHER = "black", COLOURS[1]
_BAND = 0.15
#: Words for choices that are too long for an axis.
_SHORT = {
    "another order of the hosts ('fabricast map')": "another order of hosts",
    "another order of the hosts ('fabricast map') and adaptive routes": "order and adaptive routes",
    "GPUs use all cards in turn, whatever their distance": "cards in turn",
}
#: Columns of the figure of layers, and least gain that is printed.
_ORDER = (
    *(f"without {layer} limit" for layer in ("node", "card", "network", "process", "latency")),
    "blocks of the grid on nodes",
    "cards in turn",
    "adaptive routes",
    "another order of hosts",
    "order and adaptive routes",
)
_GAINS = 1.005
_MARKERS = ("o", "s", "^", "D")


def plot_card(choices: pd.DataFrame) -> Figure:
    """Draw the time of each pattern and network of the study, unchanged and with the best other choice."""
    choices = choices[~choices["user_supplied"]]
    bars = []
    for (pattern, cluster), part in choices.groupby(["pattern", "cluster"], sort=True):
        unchanged = float(part[part["choice"] == "unchanged"]["time_s"].iloc[0])
        best = part.sort_values("time_s").iloc[0]
        bars.append((f"{pattern}, {cluster}".replace(", half", ",\nhalf"), unchanged, _UNCHANGED))
        if float(best["gain"]) > _GAINS:
            bars.append((f"with {_short(str(best['choice']))}", float(best["time_s"]), _OTHER))
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, 0.3 * len(bars) + 0.6))
    _draw(axes, bars)
    axes.set_xlabel("time of all copies (ms)")
    return figure


def plot_layers(layers: pd.DataFrame, choices: pd.DataFrame) -> Figure:
    """Draw, for each pattern and cluster of the study, the gain without each limit and with each other choice."""
    layers, choices = layers[~layers["user_supplied"]], choices[~choices["user_supplied"]]
    others = choices[choices["choice"] != "unchanged"].assign(column=lambda rows: rows["choice"].map(_short))
    keys = ["pattern", "cluster"]
    gains = pd.concat(
        [
            layers.assign(column="without " + layers["layer"] + " limit")[[*keys, "column", "gain"]],
            others[[*keys, "column", "gain"]],
        ]
    )
    table = gains.pivot_table(index=keys, columns="column", values="gain")
    names = [name for name in _ORDER if name in table]
    table = table[names]
    time_ms = 1e3 * layers.groupby(keys)["time_s"].first().reindex(table.index)
    values = table.to_numpy(dtype=np.float64)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.34 * len(table) + 1.35))
    axes.imshow(np.nan_to_num(values, nan=1.0), cmap="Blues", vmin=1.0, vmax=1.6, aspect="auto")
    for (row, column), gain in np.ndenumerate(values):
        text = "" if np.isnan(gain) else f"{gain:.2f}" if gain >= _GAINS else "\u2013"
        axes.text(column, row, text, ha="center", va="center", color=ink_on(_shade(gain)))
    axes.set_xticks(range(len(names)), names, rotation=40, ha="left")
    axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False)
    labels = [f"{pattern}, {cluster}: {time:.3g} ms" for (pattern, cluster), time in _pairs(time_ms)]
    axes.set_yticks(range(len(table)), labels)
    axes.grid(visible=False)
    axes.set_xlabel("gain: unchanged time over the time without the limit, or with the choice")
    return figure


def _pairs(times: pd.Series) -> list[tuple[tuple[str, str], float]]:
    """Return pattern, cluster and time of each row."""
    patterns, clusters = (times.index.get_level_values(level).astype(str) for level in (0, 1))
    return [((one, other), float(time)) for one, other, time in zip(patterns, clusters, times, strict=True)]


def _short(choice: str) -> str:
    """Return the words of a choice for an axis."""
    return "blocks of the grid on nodes" if choice.startswith("each node has a block") else _SHORT.get(choice, choice)


def _shade(gain: float) -> str:
    """Return the colour of a cell."""
    share = 0.0 if np.isnan(gain) else float(np.clip((gain - 1.0) / 0.6, 0.0, 1.0))
    return to_hex(plt.get_cmap("Blues")(share))


def _draw(axes: Axes, bars: list[tuple[str, float, str]]) -> None:
    places = np.arange(len(bars))[::-1]
    times = np.array([1e3 * time for _, time, _ in bars])
    axes.barh(places, times, color=[colour for _, _, colour in bars], height=0.7)
    for place, time in zip(places, times, strict=True):
        axes.text(time, place, f" {time:.3g}", va="center")
    axes.set_yticks(places, [label for label, _, _ in bars])
    axes.set_xlim(0, 1.2 * float(times.max()))


def plot_measured(copies: pd.DataFrame) -> Figure:
    """Draw the ratio of forecast to measured times over the size, by pattern."""
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.6))
    axes.axhspan(1 - _BAND, 1 + _BAND, color="0.93", zorder=0)
    axes.axhline(1, color="0.6", linewidth=0.6)
    for number, (pattern, part) in enumerate(copies.groupby("pattern", sort=True)):
        marker, colour = _MARKERS[number % len(_MARKERS)], COLOURS[number]
        ratio = part["forecast_s"] / part["measured_s"]
        axes.plot(part["size_bytes"], ratio, marker, color=colour, markersize=3, alpha=0.7, label=pattern)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(value)))
    axes.set_ylim(0, 1.3)
    axes.set_xlabel("size of a buffer (all-to-all) or of a message")
    axes.set_ylabel("forecast / measured time")
    legend_below(axes, 3)
    return figure
