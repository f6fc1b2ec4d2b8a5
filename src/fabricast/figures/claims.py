"""Figures of claim verdicts by interpretation of the source."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, statements_at_left

#: Half the height of the shaded range of a claim; claims are 1 apart.
_HALF = 0.3
#: Values relative to the printed one between which the axis is linear; others are drawn at its ends.
_LIMITS = (0.0, 2.5)
#: Letters per line of a statement.
_LINE = 66


def plot_claim_readings(reading: pd.DataFrame, claim: pd.DataFrame) -> Figure:
    """Draw the range of each claim over all readings of its source, relative to the printed value."""
    values = reading[reading["observed"].notna()].merge(claim, on="claim", suffixes=("", "_of_claim"))
    sizes = values.groupby("claim")["reading"].size()
    shown = [row for row in claim.to_dict("records") if sizes.get(row["claim"], 0) > 1 and _printed(row)]
    texts = [textwrap.fill(row["statement"], _LINE) for row in shown]
    # A third line of text needs more space.
    heights = np.array([max(1.0, 0.45 * (1 + text.count("\n"))) for text in texts])
    places = np.cumsum(heights) - heights / 2
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.32 * max(heights.sum(), 1.0) + 0.75))
    axes.set(xlim=(_LIMITS[0] - 0.08, _LIMITS[1] + 0.5), ylim=(max(heights.sum(), 1.0), 0))
    for place, row in zip(places, shown, strict=True):
        _draw_range(axes, row, values[values["claim"] == row["claim"]], place)
    axes.grid(visible=False)
    statements_at_left(axes, places, texts)
    axes.set_xticks([0, 0.5, 1, 1.5, 2, 2.5], ["≤ 0", "0.5", "1", "1.5", "2", "≥ 2.5"])
    axes.set_xlabel("value of this run / printed value")
    axes.spines[["left", "right", "top"]].set_visible(False)
    handles = [
        Line2D([], [], marker="o", linestyle="", color=COLOURS[0], markersize=4, label="readings that the words allow"),
        Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            color=COLOURS[0],
            markerfacecolor="white",
            markersize=4,
            label="other readings",
        ),
        Patch(facecolor="0.88", label="statement holds"),
    ]
    has_others = not values.loc[values["claim"].isin([row["claim"] for row in shown]), "is_default"].all()
    figure.legend(handles=handles if has_others else handles[::2], loc="outside upper left", ncols=3)
    return figure


def _printed(row: dict[Any, Any]) -> float | None:
    """Return the printed value of a claim, by which values are divided; None if it is missing or 0."""
    numbers = [row[name] for name in ("low", "high") if pd.notna(row[name]) and row[name] != 0]
    return numbers[0] if numbers else None


def _draw_range(axes: Axes, row: dict[Any, Any], values: pd.DataFrame, middle: float) -> None:
    printed = _printed(row)
    assert printed is not None
    slack = np.nanmax([row["rounding"], row["tolerance"] if pd.notna(row["tolerance"]) else 0.0])
    low = (row["low"] - slack) / printed if pd.notna(row["low"]) else _LIMITS[0]
    high = (row["high"] + slack) / printed if pd.notna(row["high"]) else _LIMITS[1]
    # A statement with an exact value, or a narrow range, would otherwise have no width.
    middle_value, half = (low + high) / 2, max((high - low) / 2, 0.012)
    low, high = np.clip([middle_value - half, middle_value + half], *_LIMITS)
    axes.add_patch(Rectangle((low, middle - _HALF), high - low, 2 * _HALF, facecolor="0.88", zorder=0))
    axes.plot([1, 1], [middle - _HALF, middle + _HALF], color="0.4", linewidth=0.6)
    places = np.clip(values["observed"].to_numpy(float) / printed, *_LIMITS)
    primary = values["is_default"].to_numpy(bool)
    axes.plot([places.min(), places.max()], [middle, middle], color=COLOURS[0], linewidth=0.8)
    # Other readings are below the line, so that none covers a primary one.
    axes.plot(
        places[~primary],
        [middle + 0.17] * int((~primary).sum()),
        "o",
        color=COLOURS[0],
        mfc="white",
        markersize=3.2,
        markeredgewidth=0.7,
    )
    axes.plot(places[primary], [middle] * int(primary.sum()), "o", color=COLOURS[0], markersize=3.2)
    held = int((values["verdict"] != "deviates").sum())
    axes.text(_LIMITS[1] + 0.06, middle, f"{held} of {len(values)}", va="center", fontsize=7)
