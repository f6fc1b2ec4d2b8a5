"""Figures of the study of two-level direct networks."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures.style import COLOURS, PAGE_WIDTH_IN

__all__ = [
    "plot_counts",
    "plot_importance",
    "plot_link_usage",
    "plot_packets",
    "plot_placement",
    "plot_search",
    "plot_sensitivity",
    "plot_times",
]

_ORDER = ("DEF", "BNM", "BDM", "BSM", "RNM", "RDM", "RNMu", "RDMu")
_CLASSES = ("LL", "LR", "D")


def _plain(case: pd.DataFrame) -> pd.DataFrame:
    """Cases with default gateways, single links, closed grids, on a machine of their own."""
    return case[
        (case["gateway"] == "mod") & (case["multiplicity"] == 1) & (case["placement"] == "whole") & case["wrap"]
    ]


def plot_counts(count: pd.DataFrame) -> Figure:
    """Draw the links of each class by supernodes.

    Parameters
    ----------
    count : pandas.DataFrame
        Rows of the table network_count.

    Returns
    -------
    matplotlib.figure.Figure
        One line a class.
    """
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.6))
    for name, colour, marker in zip(_CLASSES, COLOURS, "os^", strict=False):
        own = count[count["class"] == name].sort_values("supernodes")
        axes.plot(own["supernodes"], own["links"], marker=marker, markersize=3.5, color=colour, label=f"{name} links")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("supernodes")
    axes.set_ylabel("directed links")
    axes.legend()
    return figure


def plot_link_usage(case: pd.DataFrame, link_class: pd.DataFrame, workload: str) -> Figure:
    """Draw least, mean and largest load of each class for every mapping and routing.

    Parameters
    ----------
    case, link_class : pandas.DataFrame
        Rows of the tables network_case and network_link_class.
    workload : str
        Workload.

    Returns
    -------
    matplotlib.figure.Figure
        One panel a class.
    """
    rows = _plain(case)
    rows = rows[(rows["workload"] == workload) & (rows["seed"].isna() | (rows["seed"] == 0))]
    rows = rows.merge(link_class, on="case_id")
    figure, panels = plt.subplots(1, 3, figsize=(PAGE_WIDTH_IN, 2.7))
    for axes, name in zip(panels, _CLASSES, strict=True):
        own = rows[rows["class"] == name]
        for routing, colour, shift in (("direct", COLOURS[0], -0.17), ("indirect", COLOURS[1], 0.17)):
            part = own[own["routing"] == routing].set_index("mapping")
            known = [mapping for mapping in _ORDER if mapping in part.index]
            place = np.arange(len(known)) + shift
            values = part.loc[known]
            axes.vlines(place, values["min_bytes"] / 2**20, values["max_bytes"] / 2**20, color=colour, linewidth=1)
            axes.plot(place, values["max_bytes"] / 2**20, "^", color=colour, markersize=4, label=f"max, {routing}")
            axes.plot(place, values["mean_bytes"] / 2**20, "o", color=colour, markersize=3, label=f"mean, {routing}")
        axes.set_xticks(np.arange(len(known)), known, rotation=45, fontsize=6)
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(0, None)
        axes.set_title(f"{workload}, {name}", fontsize=8)
    panels[0].set_ylabel("load of a link (MiB)")
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=6, ncols=4, loc="outside lower center")
    return figure


def plot_times(case: pd.DataFrame, workloads: list[str]) -> Figure:
    """Draw the time of the busiest link for every mapping and routing.

    Parameters
    ----------
    case : pandas.DataFrame
        Rows of the table network_case.
    workloads : list of str
        One panel each.

    Returns
    -------
    matplotlib.figure.Figure
        Bars are means over seeds, whiskers the range; the tick is the time of even loads.
    """
    rows = _plain(case)
    figure, panels = plt.subplots(1, len(workloads), figsize=(PAGE_WIDTH_IN, 2.9), squeeze=False)
    for axes, name in zip(panels[0], workloads, strict=True):
        own = rows[rows["workload"] == name]
        known = [mapping for mapping in _ORDER if mapping in set(own["mapping"])]
        for routing, colour, shift in (("direct", COLOURS[0], -0.2), ("indirect", COLOURS[1], 0.2)):
            part = own[own["routing"] == routing].groupby("mapping")
            time, floor = part["bottleneck_s"], part["floor_s"].mean()
            place = np.arange(len(known)) + shift
            mean, low, high = (getattr(time, kind)()[known] * 1e3 for kind in ("mean", "min", "max"))
            axes.bar(place, mean, width=0.38, color=colour, label=routing)
            axes.vlines(place, low, high, color="black", linewidth=0.8)
            axes.plot(place, floor[known] * 1e3, "_", color="black", markersize=7,
                      label="even loads" if routing == "indirect" else None)  # fmt: skip
        axes.set_xticks(np.arange(len(known)), known, rotation=45, fontsize=6)
        axes.set_yscale("log")
        axes.set_title(name, fontsize=8)
        axes.grid(axis="x", visible=False)
    panels[0][0].set_ylabel("time of the busiest link (ms)")
    figure.legend(*panels[0][0].get_legend_handles_labels(), fontsize=6, ncols=3, loc="outside upper right")
    return figure


def plot_placement(case: pd.DataFrame) -> Figure:
    """Draw the time of a job of 64 supernodes on a machine of 512 by placement.

    Parameters
    ----------
    case : pandas.DataFrame
        Rows of the table network_case.

    Returns
    -------
    matplotlib.figure.Figure
        Left direct, right indirect routes.
    """
    rows = case[case["placement"] != "whole"]
    placements = list(dict.fromkeys(rows["placement"]))
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.9))
    for axes, routing in zip(panels, ("direct", "indirect"), strict=True):
        table = (
            rows[rows["routing"] == routing].groupby(["placement", "mapping"])["bottleneck_s"].mean().unstack() * 1e3
        )
        known = [mapping for mapping in _ORDER if mapping in table.columns]
        for number, (placement, colour) in enumerate(zip(placements, COLOURS, strict=False)):
            place = np.arange(len(known)) + (number - 2) * 0.16
            axes.bar(place, table.loc[placement, known], width=0.16, color=colour, label=placement.replace("_", " "))
        axes.set_xticks(np.arange(len(known)), known)
        axes.set_yscale("log")
        axes.set_title(f"4D-64 on 512 supernodes, {routing}", fontsize=8)
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("time of the busiest link (ms)")
    panels[1].legend(fontsize=5.5)
    return figure


def plot_sensitivity(case: pd.DataFrame) -> Figure:
    """Draw which mapping is best with direct routing when assumptions change.

    Parameters
    ----------
    case : pandas.DataFrame
        Rows of the table network_case.

    Returns
    -------
    matplotlib.figure.Figure
        A table of times relative to the best of its row; the best is framed.
    """
    rows = case[(case["routing"] == "direct") & case["workload"].str.match("4D|2D|MChalf")]
    label = (
        rows["workload"] + ", " + rows["gateway"] + ", M = " + rows["multiplicity"].astype(str)
        + np.where(rows["wrap"], "", ", open") + np.where(rows["placement"] == "whole", "", ", " + rows["placement"])
    )  # fmt: skip
    table = rows.assign(label=label).groupby(["label", "mapping"], sort=False)["bottleneck_s"].mean().unstack()
    known = [mapping for mapping in _ORDER if mapping in table.columns]
    table = table[known].dropna().sort_index()
    relative = table.div(table.min(axis=1), axis=0)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.19 * len(relative) + 0.7))
    axes.imshow(np.log2(relative.to_numpy()), cmap="cividis_r", vmin=0, vmax=5, aspect="auto")
    for row in range(len(relative)):
        for column in range(len(known)):
            value = float(relative.to_numpy()[row, column])
            weight, colour = "bold" if value < 1.0001 else "normal", "white" if value > 6 else "black"
            axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=5.5, color=colour,
                      fontweight=weight)  # fmt: skip
    axes.set_xticks(range(len(known)), known)
    axes.set_yticks(range(len(relative)), relative.index.tolist(), fontsize=5.5)
    axes.set_title("time with direct routes / best of the row (bold: best)", fontsize=8)
    axes.grid(visible=False)
    return figure


def plot_packets(comparison: pd.DataFrame) -> Figure:
    """Draw packet-level times by the time of the busiest link.

    Parameters
    ----------
    comparison : pandas.DataFrame
        Rows of the table comparison.

    Returns
    -------
    matplotlib.figure.Figure
        Left both times, right how much longer than its busiest link each case takes.
    """
    routing = comparison["case_id"].str.split(".").str[2]
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.8))
    for name, colour, marker in (("direct", COLOURS[0], "o"), ("indirect", COLOURS[1], "s")):
        own = comparison[routing == name]
        left.plot(own["predicted"] * 1e3, own["reference"] * 1e3, marker, color=colour, markersize=3.5, label=name)
        right.plot(own["predicted"] * 1e3, own["reference"] / own["predicted"], marker, color=colour, markersize=3.5)
    ends = np.array([comparison["predicted"].min(), comparison["predicted"].max()]) * 1e3
    left.plot(ends, ends, color="0.5", linewidth=0.8)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("busiest link, indirect: expected (ms)")
    left.set_yscale("log")
    left.set_ylabel("packet level (ms)")
    right.set_ylabel("packet level / busiest link")
    right.axhline(1, color="0.5", linewidth=0.8)
    left.legend(fontsize=6)
    return figure


def plot_search(search: pd.DataFrame, case: pd.DataFrame) -> Figure:
    """Draw the mapping that was searched beside those of the study.

    Parameters
    ----------
    search, case : pandas.DataFrame
        Rows of the tables network_search and network_case.

    Returns
    -------
    matplotlib.figure.Figure
        One panel a workload.
    """
    rows = _plain(case)
    figure, panels = plt.subplots(1, len(search), figsize=(PAGE_WIDTH_IN, 2.7), squeeze=False)
    for axes, (_, found) in zip(panels[0], search.iterrows(), strict=True):
        own = rows[rows["workload"] == found["workload"]]
        time = own.groupby(["mapping", "routing"])["bottleneck_s"].mean() * 1e3
        bars = {f"{m} direct": time.get((m, "direct")) for m in ("DEF", "BSM", "RNM")}
        bars |= {"DEF indirect": time.get(("DEF", "indirect")), "found, direct": found["bottleneck_s"] * 1e3,
                 "found, packets": found["packets_s"] * 1e3}  # fmt: skip
        bars = {name: value for name, value in bars.items() if value is not None}
        colours = [COLOURS[2] if name.startswith("found") else COLOURS[1] if "indirect" in name else COLOURS[0]
                   for name in bars]  # fmt: skip
        axes.barh(range(len(bars)), list(bars.values()), color=colours)
        axes.axvline(found["floor_s"] * 1e3, color="black", linewidth=0.8, linestyle=":", label="even loads")
        for place, value in enumerate(bars.values()):
            axes.text(value * 1.05, place, f"{value:.3g}", va="center", fontsize=6)
        axes.set_yticks(range(len(bars)), list(bars), fontsize=6)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlim(None, max(bars.values()) * 3)
        axes.set_xlabel("time (ms)")
        axes.set_title(found["workload"], fontsize=8)
        axes.legend(fontsize=6)
    return figure


def plot_importance(feature: pd.DataFrame) -> Figure:
    """Draw which features of link loads tell how much longer than its bound a case takes.

    Parameters
    ----------
    feature : pandas.DataFrame
        Rows of the table error_feature of the study.

    Returns
    -------
    matplotlib.figure.Figure
        Importances of extra-trees; the title holds what they explain on unseen cases.
    """
    rows = feature.sort_values(["importance", "feature"]).tail(10)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.8))
    axes.barh(range(len(rows)), rows["importance"], color=COLOURS[0])
    axes.set_yticks(range(len(rows)), [name.replace("_", " ") for name in rows["feature"]], fontsize=6)
    axes.set_xlabel("loss of R² when the feature is shuffled, on unseen workloads and mappings")
    explained = 100 * float(rows["r2"].iloc[0])
    axes.set_title(f"explains {max(explained, 0):.0f} % of the variance on unseen workloads and mappings", fontsize=8)
    return figure
