"""Figures of the breakdown study."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fabricast.breakdown.components import COMPONENTS, METRICS, SYSTEM_TITLES
from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS, LAYER_COLOURS, MORE_COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, ink_on

_TITLES = {
    "hlp": "HLP",
    "llp": "LLP",
    "llp_post": "LLP post",
    "pio_copy": "PIO copy",
    "hlp_tx_prog": "HLP send progress",
    "hlp_post": "HLP post",
    "llp_prog": "LLP progress",
    "hlp_rx_prog": "HLP receive progress",
    "integrated_nic": "PCIe and RC to memory",
    "pcie": "PCIe",
    "rc_to_mem": "RC to memory",
    "wire": "wire",
    "switch": "switch",
}
_CHARTS = (
    ("injection", "injection", ("hlp", "llp", "llp_post", "pio_copy", "hlp_tx_prog", "hlp_post", "llp_prog")),
    ("latency", "latency, CPU", ("hlp", "llp", "hlp_rx_prog", "llp_post", "pio_copy", "hlp_post", "llp_prog")),
    ("latency", "latency, I/O", ("integrated_nic", "pcie", "rc_to_mem")),
    ("latency", "latency, network", ("wire", "switch")),
)
#: Upper limit of each axis in %, as on the slides.
_AXIS_LIMITS = {"injection": 60, "latency": 35}
#: Values that slides 42 to 44 state, by chart: component, reduction and text. The claims test the same values.
STATED = {
    "injection": (("hlp", 0.2, "6.44"), ("pio_copy", 0.84, "at least 25")),
    "latency, I/O": (("integrated_nic", 0.5, "at least 15"),),
}
#: Hatch of bars whose component time is assumed; the colour stays that of the component.
_ASSUMED_HATCH = "////"
#: One colour per component in all figures; the first three palette entries are reserved for layers.
_COMPONENT_COLOURS = dict(zip(COMPONENTS, [*COLOURS[3:7], *MORE_COLOURS], strict=True))
#: Greys for groups of components; two groups that form a whole get different greys.
_DARK, _PALE = "#595959", "#a6a6a6"
_GROUP_COLOURS = {
    "hlp": _DARK,
    "llp": _PALE,
    "llp_post": "#7f7f7f",
    "integrated_nic": _DARK,
    "post": _PALE,
    "progress": _DARK,
    "initiator": _DARK,
    "target": _PALE,
}
#: Component names as printed on the slides.
_SLIDE_NAMES = {
    "MD setup": "md_setup",
    "Barrier for MD": "md_barrier",
    "Barrier for DBC": "dbc_barrier",
    "PIO copy": "pio_copy",
    "Other": "llp_post_other",
    "PCIe": "pcie",
    "RC-to-MEM": "rc_to_mem",
    "Wire": "wire",
    "Switch": "switch",
    "Misc": "injection_misc",
}


def plot_totals(component: pd.DataFrame, what_if: pd.DataFrame) -> Figure:
    """Draw injection overhead and latency of every system as stacked bars."""
    whole = what_if[what_if["reduction"] == 1.0].set_index(["system", "metric", "component"])["share_removed"]
    systems = list(dict.fromkeys(component["system"]))
    systems.sort(key=lambda name: (name != "thunderx2", name))
    times = component.set_index(["system", "component"])
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 4.2))
    used: set[str] = set()
    for axes, metric in zip(panels, ("injection", "latency"), strict=True):
        for x, system in enumerate(systems):
            bottom = 0.0
            # The total follows from the weighted time of any component divided by its share.
            for name in COMPONENTS:
                if (system, metric, name) not in whole.index:
                    continue
                value = whole[system, metric, name] * _total(times, whole, system, metric)
                used.add(name)
                assumed = times.loc[(system, name), "tag"] == "assumed"
                colour = _COMPONENT_COLOURS[name]
                axes.bar(
                    x,
                    value,
                    bottom=bottom,
                    width=0.92,
                    edgecolor="white",
                    linewidth=0.5,
                    color=colour,
                    hatch=_ASSUMED_HATCH if assumed else None,
                )
                if value > 0.04 * _total(times, whole, system, metric):
                    axes.text(
                        x,
                        bottom + value / 2,
                        f"{COMPONENTS[name].title} {value:.0f}",
                        ha="center",
                        va="center",
                        fontsize=7,
                        color=ink_on(colour),
                        bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.8},
                    )
                bottom += value
            axes.text(x, bottom, f"{bottom:.1f}", ha="center", va="bottom", fontsize=7)
        axes.set_xticks(range(len(systems)), [SYSTEM_TITLES.get(name, name) for name in systems])
        axes.set_ylabel(f"{'injection overhead' if metric == 'injection' else 'end-to-end latency'} (ns)")
        axes.grid(axis="x", visible=False)
    handles = [
        Patch(color=_COMPONENT_COLOURS[name], label=COMPONENTS[name].title) for name in COMPONENTS if name in used
    ]
    handles.append(Patch(facecolor=ASSUMED_COLOUR, edgecolor="white", hatch=_ASSUMED_HATCH, label="hatched: assumed"))
    figure.legend(handles=handles, ncols=5, loc="outside lower center")
    return figure


def _total(times: pd.DataFrame, whole: pd.Series, system: str, metric: str) -> float:
    """Return the total of a metric in ns, derived from a component that occurs once in it."""
    return float(times.loc[(system, "hlp_post"), "time_ns"] / whole[system, metric, "hlp_post"])


def plot_shares(share: pd.DataFrame, system: str, figures: Sequence[str]) -> Figure:
    """Draw component shares as stacked bars, with the published percentages."""
    rows = share[share["system"] == system]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.42 * len(figures) + 0.7))
    unnamed: dict[str, str] = {}
    colours = _part_colours(rows["component"])
    for y, name in enumerate(figures):
        left = 0.0
        bar_rows = rows[rows["figure"] == name].sort_values("share", ascending=False)
        for row in bar_rows.to_dict("records"):
            width, colour = 100 * row["share"], colours[row["component"]]
            axes.barh(y, width, left=left, height=0.7, color=colour, edgecolor="white")
            differs = row["agreement"] == "differs"
            text = f"{row['component']}\n{width:.2f}"
            if differs:
                text += f" (slide: {100 * row['published_share']:.2f})"
            # A letter is about 0.9 % of the bar wide; longer texts move to the legend.
            if width > 0.9 * max(map(len, text.split("\n"))):
                axes.text(left + width / 2, y, text, ha="center", va="center", fontsize=7, color=ink_on(colour))
            else:
                unnamed[f"{name.removeprefix('slide ')}: {text}".replace("\n", " ")] = colour
            left += width
    axes.set_yticks(range(len(figures)), list(figures))
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    differing = rows.loc[rows["figure"].isin(figures), "agreement"] == "differs"
    axes.set_xlabel("share (%)" + ("; slide: published share if different" if differing.any() else ""))
    axes.grid(axis="y", visible=False)
    if unnamed:
        handles = [Patch(color=colour, label=text) for text, colour in unnamed.items()]
        figure.legend(
            handles=handles,
            ncols=3,
            loc="outside lower center",
            title="components too narrow for a label",
            title_fontsize=7,
        )
    return figure


def _part_colours(components: pd.Series) -> dict[str, str]:
    """Return the colour of each component or group, the same in every figure."""
    colours = LAYER_COLOURS | {name: _COMPONENT_COLOURS[component] for name, component in _SLIDE_NAMES.items()}
    return {name: colours.get(name) or _GROUP_COLOURS[name.lower()] for name in components}


def plot_what_if(what_if: pd.DataFrame, system: str) -> Figure:
    """Draw the values of the talk's four what-if charts as tables, with the values that the talk states.

    The charts of the talk have straight lines through zero: one number of each line determines it.
    """
    import seaborn as sns  # imported late: the import needs 2 s of CPU time

    rows = what_if[what_if["system"] == system]
    figure, panels = plt.subplot_mosaic(
        [["injection", "latency, CPU"], ["injection", "latency, I/O"], ["injection", "latency, network"]],
        figsize=(PAGE_WIDTH_IN, 3.6),
        height_ratios=[len(names) for _, title, names in _CHARTS if title != "injection"],
    )
    named: list[str] = []
    for metric, title, names in _CHARTS:
        part = rows[(rows["metric"] == metric) & rows["component"].isin(names)]
        shares = 100 * part.pivot(index="component", columns="reduction", values="share_removed")
        whole = shares[1.0]
        for _, reduction, _ in STATED.get(title, ()):
            shares[reduction] = reduction * whole
        shares = shares.drop(columns=1.0).sort_index(axis=1)
        shares = shares.sort_values(shares.columns[-1], ascending=False, kind="stable")
        axes = panels[title]
        sns.heatmap(
            shares.rename(index=_TITLES, columns=lambda reduction: f"{100 * reduction:.0f}"),
            ax=axes,
            annot=True,
            fmt=".1f",
            annot_kws={"fontsize": 7},
            cmap="Blues",
            vmin=0,
            vmax=1.6 * _AXIS_LIMITS[metric],
            cbar=False,
            linewidths=0.5,
            yticklabels=True,
        )
        axes.set(title=f"{title}: share removed (%)", xlabel="", ylabel="")
        axes.tick_params(length=0)
        axes.tick_params(axis="y", rotation=0)
        for component, reduction, stated in STATED.get(title, ()):
            row, column = list(shares.index).index(component), np.flatnonzero(shares.columns == reduction)[0]
            axes.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor=COLOURS[1], linewidth=1.5))
            named.append(f"{_TITLES[component]}, {100 * reduction:.0f} %: {stated} %")
    for title in ("injection", "latency, network"):
        panels[title].set_xlabel("reduction of the component (%)")
    frame = Patch(facecolor="none", edgecolor=COLOURS[1], linewidth=1.5, label="slides state: " + "; ".join(named))
    figure.legend(handles=[frame], loc="outside upper center")
    return figure


def plot_accuracy(total: pd.DataFrame, tolerance: float) -> Figure:
    """Draw the relative errors of the modelled totals with the tolerance band."""
    rows = total.dropna(subset=["observed_ns"]).sort_values(["system", "metric"]).reset_index(drop=True)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.42 * len(rows) + 1.0))
    axes.axvspan(-100 * tolerance, 100 * tolerance, color="0.92", label=f"±{100 * tolerance:g} %")
    error = 100 * rows["relative_error"]
    low = error - 100 * (rows["model_low_ns"] / rows["observed_ns"] - 1)
    high = 100 * (rows["model_high_ns"] / rows["observed_ns"] - 1) - error
    axes.errorbar(error, np.arange(len(rows)), xerr=np.stack([low, high]), fmt="o", color=COLOURS[0], capsize=3)
    for y, row in enumerate(rows.to_dict("records")):
        text = f"{row['model_ns']:.2f} against {row['observed_ns']:.2f} ns"
        axes.text(100 * row["relative_error"], y - 0.18, text, ha="center", va="bottom", fontsize=7)
    axes.axvline(0, color="0.5", linewidth=0.8)
    labels = rows["system"].replace(SYSTEM_TITLES) + "\n" + rows["metric"].map(METRICS)
    axes.set_yticks(np.arange(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.6)
    axes.set_xlabel("model against observed (%)")
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper center")
    return figure


def plot_sensitivity(what_if: pd.DataFrame, component: pd.DataFrame, total: pd.DataFrame, system: str) -> Figure:
    """Draw the change of each total if one component changes by 10 %."""
    rows = what_if[(what_if["system"] == system) & (what_if["reduction"] == 0.1)]
    rows = rows[rows["component"].isin(list(COMPONENTS))]
    tags = component[component["system"] == system].set_index("component")["tag"]
    totals = total[total["system"] == system].set_index("metric")["model_ns"]
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 3.2))
    for axes, metric in zip(panels, ("injection", "latency"), strict=True):
        metric_rows = rows[(rows["metric"] == metric) & (rows["share_removed"] > 0)].sort_values("share_removed")
        change = metric_rows["share_removed"] * totals[metric]
        colours = [ASSUMED_COLOUR if tags.get(name) == "assumed" else COLOURS[0] for name in metric_rows["component"]]
        y = np.arange(len(metric_rows))
        axes.barh(y, change, color=colours, height=0.7)
        axes.barh(y, -change, color=colours, height=0.7, alpha=0.5)
        axes.set_yticks(y, [COMPONENTS[name].title for name in metric_rows["component"]])
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_xlabel(f"change of {metric} (ns) for ±10 %")
        axes.grid(axis="y", visible=False)
    return figure
