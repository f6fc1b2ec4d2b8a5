"""Figures of halo-exchange schedules."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, ink_on

_MODEL = "congestion_factor"


def plot_schedule_distribution(histogram: pd.DataFrame, summary: pd.DataFrame, reference_time_s: float) -> Figure:
    """Draw the times of all schedules, with the published and the naive ones marked."""
    rows = summary[(summary["model"] == _MODEL) & summary["published_s"].notna()]
    panels = list(dict.fromkeys(zip(rows["pattern"], rows["topology"], strict=True)))
    panels.sort(key=lambda panel: (panel[1] != "storm8", panel[1], panel[0]))
    panels = panels[:4]
    columns = min(2, max(1, len(panels)))
    lines = -(-len(panels) // columns) or 1
    figure, axes = plt.subplots(lines, columns, figsize=(PAGE_WIDTH_IN, 2.3 * lines + 0.2), squeeze=False)
    for ax, (pattern, topology) in zip(axes.flat, panels, strict=False):
        panel_rows = rows[(rows["pattern"] == pattern) & (rows["topology"] == topology)].sort_values("mode")
        for case, colour in zip(panel_rows.to_dict("records"), COLOURS, strict=False):
            bins = histogram[histogram["decomposition"] == case["decomposition"]].sort_values("bin")
            edges = np.append(bins["lower_s"], bins["upper_s"].iloc[-1]) / reference_time_s
            share = 100 * bins["schedules"].to_numpy() / bins["schedules"].sum()
            ax.stairs(share, edges, color=colour, label=case["mode"], fill=True, alpha=0.35)
            ax.stairs(share, edges, color=colour)
        naive = panel_rows["naive_s"].to_numpy() / reference_time_s
        for value, colour in zip(naive, COLOURS, strict=False):
            # The line is black if the naive order is equally fast in all modes.
            ax.axvline(value, color="black" if np.ptp(naive) == 0 else colour, linestyle=":", linewidth=1)
        published = float(panel_rows["published_s"].min()) / reference_time_s
        ax.annotate(
            "fastest of the talk",
            (published, 0),
            (published, 0.45),
            xycoords=("data", "data"),
            textcoords=("data", "axes fraction"),
            ha="center",
            fontsize=7,
            rotation=90,
            arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 0.8},
        )
        ax.set_title(f"{pattern} on {topology}: {int(panel_rows['schedules'].iloc[0]):,} schedules")
        ax.set_xlim(2.5, None)
        ax.set_xlabel("elapsed / isolated message")
        ax.set_ylabel("schedules (%)")
    modes = list(dict.fromkeys(rows.sort_values("mode")["mode"]))
    handles: list[Patch | Line2D] = [
        Patch(color=colour, alpha=0.5, label=mode) for mode, colour in zip(modes, COLOURS, strict=False)
    ]
    naive_label = "naive order (black: equal in both)"
    handles.append(Line2D([], [], color="black", linestyle=":", linewidth=1, label=naive_label))
    figure.legend(handles=handles, ncols=4, loc="outside upper center")
    for ax in list(axes.flat)[len(panels) :]:
        ax.axis("off")
    return figure


#: Relative gain that the authors measured for a halo exchange step of COSMO, as printed on the slides.
_MEASURED_GAIN = 0.056


def plot_schedule_gain(summary: pd.DataFrame) -> Figure:
    """Draw the time that the fastest order of sends saves, and the share of copies in a step that this implies."""
    rows = summary[(summary["model"] == _MODEL) & summary["median_s"].notna()]
    of_talk = rows[rows["topology"] == "storm8"]
    rows = (rows if of_talk.empty else of_talk).sort_values(["topology", "pattern", "mode"], ascending=False)
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 0.28 * len(rows) + 1.1), sharey=True)
    y = np.arange(len(rows))
    for column, label, colour, marker in (
        ("naive_s", "against the naive order", COLOURS[0], "o"),
        ("median_s", "against the median order", COLOURS[1], "s"),
    ):
        saved = 1 - rows["best_s"] / rows[column]
        left.plot(100 * saved, y, marker, color=colour, label=label)
        right.plot(100 * _MEASURED_GAIN / saved, y, marker, color=colour)
    left.axvline(100 * _MEASURED_GAIN, color="0.3", linewidth=1, linestyle="--", label="COSMO step, measured (slide)")
    left.set_yticks(y, [f"{row.pattern}, {row.mode}" for row in rows.itertuples()])
    left.set_ylim(-0.6, len(rows) - 0.4)
    left.set_xlim(0, None)
    left.set_xlabel("exchange time saved by the fastest order (%)")
    right.set_xlim(0, None)
    right.set_xlabel("share of copies in a step that\nexplains the measured gain (%)")
    figure.legend(*left.get_legend_handles_labels(), ncols=3, loc="outside upper center")
    return figure


def plot_schedule_timeline(schedule: pd.DataFrame, reference_time_s: float) -> Figure:
    """Draw the synchronised schedules of the talk on its machine, or the fastest one if none is published."""
    rows = schedule[
        schedule["decomposition"].str.contains(" synchronised ") & schedule["decomposition"].str.endswith(_MODEL)
    ]
    rows = rows.assign(best_s=rows.groupby("decomposition")["elapsed_s"].transform("min"))
    of_talk = rows["published"] & rows["decomposition"].str.startswith("storm8")
    shown = rows[of_talk].sort_values(["decomposition", "elapsed_s"], ascending=[False, True])
    if shown.empty:
        shown = rows.sort_values(["elapsed_s", "decomposition", "rank"]).head(1)
    lines = -(-len(shown) // 2)
    figure, panels = plt.subplots(
        lines, min(2, len(shown)), figsize=(PAGE_WIDTH_IN, 2.2 * lines), squeeze=False, sharex=True
    )
    for axes, row in zip(panels.flat, shown.to_dict("records"), strict=False):
        _draw_schedule(axes, row, reference_time_s)
    for axes in list(panels.flat)[len(shown) :]:
        axes.axis("off")
    for axes in panels[-1]:
        axes.set_xlabel("time / isolated message")
    return figure


def _draw_schedule(axes: Axes, row: Mapping[Hashable, Any], reference_time_s: float) -> None:
    """Draw the sends of one schedule."""
    steps = [step.split() for step in row["schedule"].split(" | ")]
    sources = sorted({pair.split(">")[0] for step in steps for pair in step}, key=lambda name: (len(name), name))
    starts = [0.0, *np.cumsum(np.array(row["steps_s"], dtype=np.float64) / reference_time_s)]
    for number, step in enumerate(steps):
        colour = COLOURS[number % len(COLOURS)]
        width = starts[number + 1] - starts[number]
        for pair in step:
            source, target = pair.split(">")
            y = sources.index(source)
            axes.barh(y, width, left=starts[number], height=0.85, color=colour, edgecolor="white")
            axes.text(
                starts[number] + width / 2, y, f"→{target}", ha="center", va="center", fontsize=7, color=ink_on(colour)
            )
    axes.set_yticks(range(len(sources)), [f"GPU {source}" for source in sources])
    axes.invert_yaxis()
    _, pattern, grid, _, _ = row["decomposition"].split()
    times = row["elapsed_s"] / row["best_s"]
    kind = "fastest" if times < 1 + 1e-9 else f"{times:.2f} times the fastest"
    axes.set_title(f"{pattern} {grid}: {row['elapsed_s'] / reference_time_s:.2f} messages, {kind}")
    axes.grid(axis="y", visible=False)
