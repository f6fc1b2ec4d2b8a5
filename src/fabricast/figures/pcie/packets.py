"""Timeline of a traced graph: packets on links at the start, rates over the whole run."""

from __future__ import annotations

from typing import Literal

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN

#: Number of transmissions of the busiest link that the window shows.
_SEEN = 24
#: Shortest interval whose rate is drawn, as a fraction of the run.
_SLIVER = 1e-3


def plot_packet_timeline(trace: pd.DataFrame, rates: pd.DataFrame, labels: list[str]) -> Figure:
    """Draw the first packets of each link and the rate of each copy over the run."""
    # In this window the busiest link sends at most 24 packets, so that each is wide enough to be visible.
    busiest = trace["link"].value_counts().idxmax()
    busiest_end_s = trace[trace["link"] == busiest]["end_s"].sort_values().to_numpy()
    window_s = float(busiest_end_s[min(_SEEN, busiest_end_s.size) - 1])
    rows = trace[trace["start_s"] < window_s]
    links = list(dict.fromkeys(trace["link"]))
    figure, (axes, below) = plt.subplots(
        2, 1, figsize=(PAGE_WIDTH_IN, 0.22 * len(links) + 2.9), height_ratios=(0.22 * len(links) + 0.3, 1.6)
    )
    for y, link in enumerate(links):
        part = rows[rows["link"] == link]
        spans = [(start * 1e6, (end - start) * 1e6) for start, end in zip(part["start_s"], part["end_s"], strict=True)]
        colours = [COLOURS[c % len(COLOURS)] for c in part["communication"]]
        axes.broken_barh(spans, (y - 0.4, 0.8), facecolors=colours, edgecolor="white", linewidth=0.3)
    axes.set_yticks(range(len(links)), links)
    axes.invert_yaxis()
    axes.set_xlim(0, window_s * 1e6)
    axes.set_xlabel("time (µs): the first packets")
    axes.grid(axis="y", visible=False)
    styles: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
    # The last packets of the run cover intervals that are too short for a meaningful rate.
    rates = rates[rates["end_s"] - rates["start_s"] > _SLIVER * rates["end_s"].max()]
    for c in range(len(labels)):
        part = rates[rates["communication"] == c]
        time_ms = pd.concat([part["start_s"], part["end_s"].tail(1)]) * 1e3
        rate = pd.concat([part["bytes_per_s"], part["bytes_per_s"].tail(1)]) / 1e9
        below.step(
            time_ms,
            rate,
            where="post",
            color=COLOURS[c % len(COLOURS)],
            linestyle=styles[c // len(COLOURS) % len(styles)],
            # Equal rates coincide: the lines drawn first are wider, so that they stay visible.
            linewidth=1.2 + 3.0 * (len(labels) - 1 - c) / max(len(labels) - 1, 1),
        )
    below.set_xlim(left=0)
    below.set_ylim(bottom=0)
    below.set_xlabel("time (ms): the whole run")
    below.set_ylabel("rate (GB/s)")
    handles = [
        Patch(color=COLOURS[c % len(COLOURS)], label=labels[c])
        if c < len(COLOURS)
        else Line2D(
            [], [], color=COLOURS[c % len(COLOURS)], linestyle=styles[c // len(COLOURS) % len(styles)], label=labels[c]
        )
        for c in range(len(labels))
    ]
    axes.legend(handles=handles[:40], loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
