"""Figures of predicted and measured rates of concurrent copies."""

from __future__ import annotations

from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN

__all__ = ["plot_measured_copies"]

_MODELS = (
    ("no_contention_bytes_per_s", "no contention", COLOURS[2], "^"),
    ("sharing_bytes_per_s", "sharing on the tree", COLOURS[1], "s"),
    ("forecast_bytes_per_s", "with engines and program", COLOURS[0], "o"),
    ("packets_bytes_per_s", "same, packet-level simulator", COLOURS[3], "x"),
)
#: Markers that are drawn hollow, so that a mark inside stays visible.
_FILLS: dict[str, Literal["none"]] = {"s": "none"}
_CLASSES = ("few copies", "between root complexes", "many copies of a GPU", "direct links", "host copies")
#: Upper end of the axis; larger ratios are drawn as arrows.
_HIGHEST = 1.8


def plot_measured_copies(copies: pd.DataFrame, tolerance: float) -> Figure:
    """Draw ratios of predicted to measured rates for every class of graphs.

    Parameters
    ----------
    copies : pandas.DataFrame
        Rows of the table measured_copy.
    tolerance : float
        Half width of the shaded band, as a relative error.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per class; machines are labelled by letter, user-supplied ones have a star.
    """
    validated = copies[copies["judged"]]
    in_order = validated.sort_values(["own", "machine"])["machine"]
    letters = {machine: chr(ord("A") + number) for number, machine in enumerate(dict.fromkeys(in_order))}
    classes = [name for name in _CLASSES if name in set(validated["graph_class"])]
    figure, panels = plt.subplots(
        1, max(len(classes), 1), figsize=(PAGE_WIDTH_IN, 2.9), squeeze=False, sharey=True,
        width_ratios=[2 if name == "few copies" else 1 for name in classes] or None,
    )  # fmt: skip
    for axes, name in zip(panels[0], classes, strict=False):
        rows = validated[validated["graph_class"] == name].sort_values(["own", "machine", "measured_bytes_per_s"])
        x = np.arange(len(rows))
        axes.axhspan(1 - tolerance, 1 + tolerance, color="0.9", zorder=0)
        axes.axhline(1, color="0.5", linewidth=0.8, zorder=1)
        for shift, (column, _, colour, marker) in zip((-0.24, -0.08, 0.08, 0.24), _MODELS, strict=True):
            ratio = (rows[column] / rows["measured_bytes_per_s"]).to_numpy()
            shown = np.minimum(ratio, _HIGHEST)
            axes.plot(x + shift, shown, marker, color=colour, markersize=3, fillstyle=_FILLS.get(marker, "full"),
                      markeredgewidth=0.7)  # fmt: skip
            beyond = ratio > _HIGHEST
            axes.plot(
                x[beyond] + shift,
                shown[beyond] + 0.05,
                marker="$↑$",
                color=colour,
                linestyle="none",
                markersize=4,
            )
        user_supplied = rows["own"].to_numpy(dtype=bool)
        axes.plot(x[user_supplied], np.full(user_supplied.sum(), 0.55), "*", color="black", markersize=4)
        axes.set_title(f"{name} ({len(rows)})", fontsize=6.5)
        machines = rows["machine"].to_numpy()
        centres = [float(x[machines == machine].mean()) for machine in dict.fromkeys(machines)]
        axes.set_xticks(centres, [letters[machine] for machine in dict.fromkeys(machines)])
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_xlim(-1, len(rows))
        axes.set_ylim(0.5, _HIGHEST + 0.1)
        for edge in np.flatnonzero(machines[1:] != machines[:-1]):
            axes.axvline(edge + 0.5, color="0.7", linewidth=0.6)
        axes.set_xlabel("graphs by machine")
    names = [f"{letter}: {machine}" for machine, letter in letters.items()]
    figure.supxlabel("\n".join("; ".join(names[i : i + 4]) for i in range(0, len(names), 4)), fontsize=6)
    panels[0][0].set_ylabel("predicted / measured rate")
    handles = [Line2D([], [], color=c, marker=m, linestyle="none", markersize=4, label=t,
               fillstyle=_FILLS.get(m, "full")) for _, t, c, m in _MODELS]  # fmt: skip
    if validated["own"].any():
        handles.append(Line2D([], [], color="black", marker="*", linestyle="none", markersize=5, label="your machine"))
    figure.legend(handles=handles, fontsize=6, ncols=4, loc="outside upper center")
    return figure
