"""Figures of the breakdown study."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fabricast.breakdown.components import COMPONENTS, METRICS, SYSTEM_TITLES
from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS, LAYER_COLOURS, MORE_COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, ink_on

__all__ = ["plot_accuracy", "plot_sensitivity", "plot_shares", "plot_totals", "plot_what_if"]

_TITLES = {
    "hlp": "HLP", "llp": "LLP", "llp_post": "LLP post", "pio_copy": "PIO copy", "hlp_tx_prog": "HLP send progress",
    "hlp_post": "HLP post", "llp_prog": "LLP progress", "hlp_rx_prog": "HLP receive progress",
    "integrated_nic": "PCIe and RC to memory", "pcie": "PCIe", "rc_to_mem": "RC to memory", "wire": "wire",
    "switch": "switch",
}  # fmt: skip
_CHARTS = (
    ("injection", "injection", ("hlp", "llp", "llp_post", "pio_copy", "hlp_tx_prog", "hlp_post", "llp_prog")),
    ("latency", "latency, CPU", ("hlp", "llp", "hlp_rx_prog", "llp_post", "pio_copy", "hlp_post", "llp_prog")),
    ("latency", "latency, I/O", ("integrated_nic", "pcie", "rc_to_mem")),
    ("latency", "latency, network", ("wire", "switch")),
)
#: A part keeps its colour where its time is assumed.
_ASSUMED_HATCH = "////"
_MARKERS = "osD^vPX*"
#: One colour a component in all figures; the first three are those of the layers.
_COMPONENT_COLOURS = dict(zip(COMPONENTS, [*COLOURS[3:7], *MORE_COLOURS], strict=True))
#: Groups of components are grey: the darker of two that make a whole, the paler.
_DARK, _PALE = "#595959", "#a6a6a6"
_GROUP_COLOURS = {
    "hlp": _DARK, "llp": _PALE, "llp_post": "#7f7f7f", "integrated_nic": _DARK, "post": _PALE, "progress": _DARK,
    "initiator": _DARK, "target": _PALE,
}  # fmt: skip
#: What the slides call components.
_SLIDE_NAMES = {
    "MD setup": "md_setup", "Barrier for MD": "md_barrier", "Barrier for DBC": "dbc_barrier", "PIO copy": "pio_copy",
    "Other": "llp_post_other", "PCIe": "pcie", "RC-to-MEM": "rc_to_mem", "Wire": "wire", "Switch": "switch",
    "Misc": "injection_misc",
}  # fmt: skip


def plot_totals(component: pd.DataFrame, what_if: pd.DataFrame) -> Figure:
    """Draw injection and latency of every system as stacked bars.

    Parameters
    ----------
    component, what_if : pandas.DataFrame
        Rows of the tables breakdown_component and what_if.

    Returns
    -------
    matplotlib.figure.Figure
        Left injection, right latency; one bar a system.
    """
    whole = what_if[what_if["reduction"] == 1.0].set_index(["system", "metric", "component"])["share_removed"]
    systems = list(dict.fromkeys(component["system"]))
    systems.sort(key=lambda name: (name != "thunderx2", name))
    times = component.set_index(["system", "component"])
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 4.2))
    used: set[str] = set()
    for axes, metric in zip(panels, ("injection", "latency"), strict=True):
        for place, system in enumerate(systems):
            bottom = 0.0
            # Any component gives the total: its weighted time over its share.
            for name in COMPONENTS:
                if (system, metric, name) not in whole.index:
                    continue
                value = whole[system, metric, name] * _total(times, whole, system, metric)
                used.add(name)
                assumed = times.loc[(system, name), "tag"] == "assumed"
                colour = _COMPONENT_COLOURS[name]
                axes.bar(place, value, bottom=bottom, width=0.75, edgecolor="white", linewidth=0.5, color=colour,
                         hatch=_ASSUMED_HATCH if assumed else None)  # fmt: skip
                if value > 0.04 * _total(times, whole, system, metric):
                    axes.text(place, bottom + value / 2, f"{COMPONENTS[name].title} {value:.0f}", ha="center",
                              va="center", fontsize=5.5, color=ink_on(colour),
                              bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.8})  # fmt: skip
                bottom += value
            axes.text(place, bottom, f"{bottom:.1f}", ha="center", va="bottom", fontsize=7)
        axes.set_xticks(range(len(systems)), [SYSTEM_TITLES.get(name, name) for name in systems])
        axes.set_ylabel(f"{'injection overhead' if metric == 'injection' else 'end-to-end latency'} (ns)")
        axes.grid(axis="x", visible=False)
    handles = [
        Patch(color=_COMPONENT_COLOURS[name], label=COMPONENTS[name].title) for name in COMPONENTS if name in used
    ]
    handles.append(Patch(facecolor=ASSUMED_COLOUR, edgecolor="white", hatch=_ASSUMED_HATCH, label="hatched: assumed"))
    figure.legend(handles=handles, fontsize=5.5, ncols=6, loc="outside lower center")
    return figure


def _total(times: pd.DataFrame, whole: pd.Series, system: str, metric: str) -> float:
    """Total of a metric from a component that counts once in it."""
    return float(times.loc[(system, "hlp_post"), "time_ns"] / whole[system, metric, "hlp_post"])


def plot_shares(share: pd.DataFrame, system: str, figures: Sequence[str]) -> Figure:
    """Draw bars of shares as the slides do, with what they print.

    Parameters
    ----------
    share : pandas.DataFrame
        Rows of the table breakdown_share.
    system : str
        System.
    figures : sequence of str
        Figures of the talk, one bar each.

    Returns
    -------
    matplotlib.figure.Figure
        Stacked horizontal bars from 0 to 100 %.
    """
    rows = share[share["system"] == system]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.42 * len(figures) + 0.7))
    unnamed: dict[str, str] = {}
    colours = _part_colours(rows["component"])
    for place, name in enumerate(figures):
        left = 0.0
        own = rows[rows["figure"] == name].sort_values("share", ascending=False)
        for row in own.to_dict("records"):
            width, colour = 100 * row["share"], colours[row["component"]]
            axes.barh(place, width, left=left, height=0.7, color=colour, edgecolor="white")
            differs = row["agreement"] == "differs"
            text = f"{row['component']}\n{width:.2f}"
            if differs:
                text += f" (slide: {100 * row['published_share']:.2f})"
            # As wide as its longest line, at 0.9 % of the bar a letter.
            if width > 0.9 * max(map(len, text.split("\n"))):
                axes.text(left + width / 2, place, text, ha="center", va="center", fontsize=5.5, color=ink_on(colour))
            else:
                unnamed[f"{name.removeprefix('slide ')}: {text}".replace("\n", " ")] = colour
            left += width
    axes.set_yticks(range(len(figures)), list(figures))
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    differing = rows.loc[rows["figure"].isin(figures), "agreement"] == "differs"
    axes.set_xlabel("share (%)" + ("; slide: what it prints where that differs" if differing.any() else ""))
    axes.grid(axis="y", visible=False)
    if unnamed:
        handles = [Patch(color=colour, label=text) for text, colour in unnamed.items()]
        figure.legend(handles=handles, fontsize=5.5, ncols=4, loc="outside lower center",
                      title="parts too narrow for their names", title_fontsize=5.5)  # fmt: skip
    return figure


def _part_colours(components: pd.Series) -> dict[str, str]:
    """Return one colour a part, the same in every figure."""
    known = LAYER_COLOURS | {name: _COMPONENT_COLOURS[component] for name, component in _SLIDE_NAMES.items()}
    return {name: known.get(name) or _GROUP_COLOURS[name.lower()] for name in components}


def plot_what_if(what_if: pd.DataFrame, system: str) -> Figure:
    """Draw the talk's four what-if charts.

    Parameters
    ----------
    what_if : pandas.DataFrame
        Rows of the table what_if.
    system : str
        System.

    Returns
    -------
    matplotlib.figure.Figure
        Share of the total removed against the reduction of a part.
    """
    rows = what_if[(what_if["system"] == system) & (what_if["reduction"] < 1.0)]
    figure, panels = plt.subplots(2, 2, figsize=(PAGE_WIDTH_IN, 4.6), sharex=True)
    for axes, (metric, title, names) in zip(panels.flat, _CHARTS, strict=True):
        for name, marker in zip(names, _MARKERS, strict=False):
            colour = _COMPONENT_COLOURS.get(name) or _GROUP_COLOURS[name]
            # Nearly all of the LLP is its post: the line of the whole shows at both sides of that of the part.
            width, size = (3.6, 6.5) if name == "llp" else (1.4, 3.5)
            part = rows[(rows["metric"] == metric) & (rows["component"] == name)].sort_values("reduction")
            axes.plot(100 * part["reduction"], 100 * part["share_removed"], color=colour, marker=marker,
                      linestyle="--" if name in ("hlp", "llp_post", "integrated_nic") else "-", linewidth=width,
                      markersize=size, label=_TITLES[name])  # fmt: skip
        axes.set_title(title)
        axes.set_ylim(0, None)
        axes.set_ylabel(f"{metric} removed (%)")
        axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for axes in panels[1]:
        axes.set_xlabel("reduction of the part (%)")
    return figure


def plot_accuracy(total: pd.DataFrame, tolerance: float) -> Figure:
    """Draw errors of the four totals with the tolerance.

    Parameters
    ----------
    total : pandas.DataFrame
        Rows of the table breakdown_total.
    tolerance : float
        Half width of the band.

    Returns
    -------
    matplotlib.figure.Figure
        One bar a total, with its 95 % interval.
    """
    rows = total.dropna(subset=["observed_ns"]).sort_values(["system", "metric"]).reset_index(drop=True)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.42 * len(rows) + 1.0))
    axes.axvspan(-100 * tolerance, 100 * tolerance, color="0.92", label=f"±{100 * tolerance:g} %")
    error = 100 * rows["relative_error"]
    low = error - 100 * (rows["model_low_ns"] / rows["observed_ns"] - 1)
    high = 100 * (rows["model_high_ns"] / rows["observed_ns"] - 1) - error
    axes.errorbar(error, np.arange(len(rows)), xerr=np.stack([low, high]), fmt="o", color=COLOURS[0], capsize=3)
    for place, row in enumerate(rows.to_dict("records")):
        text = f"{row['model_ns']:.2f} against {row['observed_ns']:.2f} ns"
        axes.text(100 * row["relative_error"], place - 0.18, text, ha="center", va="bottom", fontsize=6)
    axes.axvline(0, color="0.5", linewidth=0.8)
    labels = rows["system"].replace(SYSTEM_TITLES) + "\n" + rows["metric"].map(METRICS)
    axes.set_yticks(np.arange(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.6)
    axes.set_xlabel("model against observed (%)")
    axes.grid(axis="y", visible=False)
    figure.legend(fontsize=6, loc="outside upper center")
    return figure


def plot_sensitivity(what_if: pd.DataFrame, component: pd.DataFrame, total: pd.DataFrame, system: str) -> Figure:
    """Draw how much 10 % of each component moves each total.

    Parameters
    ----------
    what_if, component, total : pandas.DataFrame
        Rows of the tables what_if, breakdown_component and breakdown_total.
    system : str
        System.

    Returns
    -------
    matplotlib.figure.Figure
        A tornado for injection and one for latency; assumed components in grey.
    """
    rows = what_if[(what_if["system"] == system) & (what_if["reduction"] == 0.1)]
    rows = rows[rows["component"].isin(list(COMPONENTS))]
    tags = component[component["system"] == system].set_index("component")["tag"]
    totals = total[total["system"] == system].set_index("metric")["model_ns"]
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 3.2))
    for axes, metric in zip(panels, ("injection", "latency"), strict=True):
        own = rows[(rows["metric"] == metric) & (rows["share_removed"] > 0)].sort_values("share_removed")
        change = own["share_removed"] * totals[metric]
        colours = [ASSUMED_COLOUR if tags.get(name) == "assumed" else COLOURS[0] for name in own["component"]]
        place = np.arange(len(own))
        axes.barh(place, change, color=colours, height=0.7)
        axes.barh(place, -change, color=colours, height=0.7, alpha=0.5)
        axes.set_yticks(place, [COMPONENTS[name].title for name in own["component"]], fontsize=6)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_xlabel(f"change of {metric} (ns) for ±10 %")
        axes.grid(axis="y", visible=False)
    return figure
