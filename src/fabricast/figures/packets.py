"""The timeline of packets on links."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fabricast.figures.style import COLOURS, PAGE_WIDTH_IN

__all__ = ["plot_packet_timeline"]

_SHOWN = 600


def plot_packet_timeline(trace: pd.DataFrame, labels: list[str]) -> Figure:
    """Draw when each link sends a packet of which communication.

    Parameters
    ----------
    trace : pandas.DataFrame
        Columns communication, link, start_s, end_s; the first 600 rows are drawn.
    labels : list of str
        Text of each communication.

    Returns
    -------
    matplotlib.figure.Figure
        One line a link, from sources to targets.
    """
    rows = trace.head(_SHOWN)
    links = list(dict.fromkeys(rows["link"]))
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.22 * len(links) + 1.1))
    for place, link in enumerate(links):
        part = rows[rows["link"] == link]
        spans = [(start * 1e6, (end - start) * 1e6) for start, end in zip(part["start_s"], part["end_s"], strict=True)]
        colours = [COLOURS[c % len(COLOURS)] for c in part["communication"]]
        axes.broken_barh(spans, (place - 0.4, 0.8), facecolors=colours, edgecolor="white", linewidth=0.3)
    axes.set_yticks(range(len(links)), links)
    axes.invert_yaxis()
    axes.set_xlabel("time (µs)")
    axes.grid(axis="y", visible=False)
    used = sorted(set(rows["communication"]))
    axes.legend(
        handles=[Patch(color=COLOURS[c % len(COLOURS)], label=labels[c]) for c in used],
        loc="upper left", bbox_to_anchor=(1.0, 1.0),
    )  # fmt: skip
    return figure
