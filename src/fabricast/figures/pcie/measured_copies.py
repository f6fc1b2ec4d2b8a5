"""Figures of predicted and measured rates of concurrent copies."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN

_MODELS = (
    ("no_contention_bytes_per_s", "no contention", COLOURS[2]),
    ("sharing_bytes_per_s", "fair link sharing", COLOURS[1]),
    ("engines_bytes_per_s", "with engines", COLOURS[4]),
    ("forecast_bytes_per_s", "ports and engines", COLOURS[0]),
    ("packets_bytes_per_s", "packet simulator", COLOURS[3]),
)
_CLASSES = ("few copies", "many copies of a GPU", "between root complexes", "direct links", "host copies")
#: Upper end of the axis in percent; larger errors are drawn there and counted.
_HIGHEST = 100.0


def plot_measured_copies(copies: pd.DataFrame, tolerance: float) -> Figure:
    """Draw the errors of each model for every class of measured graphs."""
    validated = copies[copies["judged"]]
    classes = [name for name in _CLASSES if name in set(validated["graph_class"])]
    figure, panels = plt.subplots(
        1, max(len(classes), 1), figsize=(PAGE_WIDTH_IN, 2.5), squeeze=False, sharey=True, sharex=True
    )
    y = np.arange(len(_MODELS))[::-1]
    for axes, name in zip(panels[0], classes, strict=False):
        rows = validated[validated["graph_class"] == name]
        axes.axvspan(0, 100 * tolerance, color="0.9", zorder=0)
        for place, (column, _, colour) in zip(y, _MODELS, strict=True):
            error = 100 * (rows[column] / rows["measured_bytes_per_s"] - 1).abs().to_numpy(dtype=float)
            is_known, user_supplied = np.isfinite(error), rows["user_supplied"].to_numpy(dtype=bool)
            if not is_known.any():
                axes.text(1, place, "no forecast", fontsize=7, va="center", color="0.4")
                continue
            # A fixed sequence separates equal errors.
            spread = place + 0.5 * ((np.arange(error.size) * 0.618) % 1 - 0.5)
            shown = np.minimum(error, _HIGHEST)
            for members, marker in ((is_known & ~user_supplied, "o"), (is_known & user_supplied, "*")):
                axes.plot(shown[members], spread[members], marker, color=colour, markersize=3, alpha=0.7, mew=0)
            axes.plot(
                [min(float(np.median(error[is_known])), _HIGHEST)] * 2,
                [place - 0.36, place + 0.36],
                color="black",
                linewidth=1.5,
            )
            beyond = int((error[is_known] > _HIGHEST).sum())
            if beyond:
                text = f"{beyond} above {_HIGHEST:g} %"
                axes.text(_HIGHEST, place + 0.3, text, fontsize=7, ha="right", va="bottom", color=colour)
        axes.set_title(f"{name}\n{len(rows)} graphs", fontsize=7)
        axes.grid(visible=False, axis="y")
        # The square root separates small errors and has a place for 0.
        axes.set_xscale("function", functions=(lambda error: np.sqrt(np.maximum(error, 0)), np.square))
        axes.set_xticks([0, 1, 5, 15, 40, 100])
    panels[0][0].set_yticks(y, [title for _, title, _ in _MODELS])
    panels[0][0].set_xlim(0, _HIGHEST * 1.06)
    figure.supxlabel("error of the total rate (%); bar: median", fontsize=7)
    return figure
