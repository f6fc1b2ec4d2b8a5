"""Figures of the study of two-level direct networks."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS
from fabricast.figures.percs_cases import plain_cases
from fabricast.figures.style import PAGE_WIDTH_IN, lines_between_columns, plain_log_scale

#: Largest load in MiB up to which an axis has ticks between powers of ten.
_SHORT_AXIS_MIB = 50.0
_MARKERS = ("o", "s", "^", "D", "v", "P")
_ORDER = ("DEF", "BNM", "BDM", "BSM", "RNM", "RDM", "RNMu", "RDMu")
_CLASSES = ("LL", "LR", "D")
#: Mappings and routings of the talk, in its order.
_SLIDE_CASES = {
    ("DEF", "direct"): "rank order (DEF)",
    ("BNM", "direct"): "blocks on nodes (BNM)",
    ("BDM", "direct"): "blocks on drawers (BDM)",
    ("BSM", "direct"): "blocks on supernodes (BSM)",
    ("RNM", "direct"): "random nodes (RNM)",
    ("RDM", "direct"): "random drawers (RDM)",
    ("DEF", "indirect"): "indirect, rank order (DFI)",
    ("RDM", "indirect"): "indirect, random drawers (RDI)",
}
#: Mappings in words.
_MAPPINGS = {
    mapping: text.partition(" (")[0] for (mapping, routing), text in _SLIDE_CASES.items() if routing == "direct"
}
_MAPPINGS |= {"RNMu": "random nodes, in order", "RDMu": "random drawers, in order"}
_PATTERNS = {"2D": "2D stencil", "4D": "4D stencil", "MChalf": "multicast"}
#: Colours of link classes; blue and orange are reserved for direct and indirect routes.
_CLASS_COLOURS = (COLOURS[2], COLOURS[3], COLOURS[4])
#: Label suffix of each gateway rule; the default rule has none.
_GATEWAYS = {"mod": "", "rel": ", gateways by distance", "block": ", gateways in blocks"}


def plot_counts(count: pd.DataFrame) -> Figure:
    """Draw the number of links of each class by number of supernodes."""
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.6))
    for name, colour, marker in zip(_CLASSES, _CLASS_COLOURS, "os^", strict=True):
        line = count[count["class"] == name].sort_values("supernodes")
        axes.plot(
            line["supernodes"], line["links"], marker, ls="-", markersize=3.5, color=colour, label=f"{name} links"
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted(set(count["supernodes"]))
    # Tick labels must not overlap: of two close sizes only the larger one is labelled.
    axes.set_xticks([size for size, following in pairwise([*sizes, np.inf]) if following >= 1.5 * size])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("supernodes")
    axes.set_ylabel("directed links")
    axes.legend()
    return figure


def _slide_axis(axes: Axes, title: str) -> None:
    """Label a panel with one line per mapping and routing of the talk, direct routes above."""
    axes.set_yticks(range(len(_SLIDE_CASES)), list(_SLIDE_CASES.values()))
    axes.set_ylim(len(_SLIDE_CASES) - 0.4, -0.6)
    axes.axhline(5.5, color="0.6", linewidth=0.6)
    axes.grid(visible=False, axis="y")
    axes.set_title(title)


def plot_link_usage(case: pd.DataFrame, link_class: pd.DataFrame, workload: str) -> Figure:
    """Draw minimum, mean and maximum link load by class, for the mappings and routings of the talk."""
    rows = plain_cases(case)
    rows = rows[(rows["workload"] == workload) & (rows["seed"].isna() | (rows["seed"] == 0))]
    rows = rows.merge(link_class, on="case_id")
    figure, panels = plt.subplots(1, 3, figsize=(PAGE_WIDTH_IN, 2.8), sharey=True)
    for axes, name in zip(panels, _CLASSES, strict=True):
        class_rows = rows[rows["class"] == name].set_index(["mapping", "routing"])
        values = class_rows.reindex(list(_SLIDE_CASES))[["min_bytes", "mean_bytes", "max_bytes"]] / 2**20
        y = np.arange(len(values))
        axes.hlines(y, values["min_bytes"], values["max_bytes"], color=COLOURS[0], linewidth=1.2)
        axes.plot(values["max_bytes"], y, ">", color=COLOURS[1], markersize=5, label="largest load", clip_on=False)
        axes.plot(
            values["mean_bytes"], y, "o", color=COLOURS[0], mfc="none", markersize=5, label="mean load", clip_on=False
        )
        axes.plot(values["min_bytes"], y, "|", color=COLOURS[0], markersize=6, label="smallest load", clip_on=False)
        _slide_axis(axes, f"{name} links")
        # Loads below 1 MiB are compressed into a small linear section of the axis.
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.3)
        high = 1.3 * float(values["max_bytes"].max())
        # Few decades need ticks between them.
        steps = (1, 2, 5) if high < _SHORT_AXIS_MIB else (1,)
        ticks = [step * 10.0**power for power in range(6) for step in steps]
        axes.set_xticks([0, *(tick for tick in ticks if tick <= high)])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlim(-0.15, max(high, 1.0))
        axes.axvspan(-0.15, 1.0, color="0.95", zorder=0)
        axes.set_xlabel("load of a link (MiB)")
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=3, loc="outside lower center")
    return figure


def plot_times(case: pd.DataFrame, workloads: list[str]) -> Figure:
    """Draw the time of the busiest link for the mappings and routings of the talk."""
    rows = plain_cases(case)
    figure, panels = plt.subplots(1, len(workloads), figsize=(PAGE_WIDTH_IN, 2.8), squeeze=False, sharey=True)
    for axes, name in zip(panels[0], workloads, strict=True):
        groups = rows[rows["workload"] == name].groupby(["mapping", "routing"])
        time, floor = groups["bottleneck_s"], groups["floor_s"].mean()
        mean, low, high = (getattr(time, kind)().reindex(list(_SLIDE_CASES)) * 1e3 for kind in ("mean", "min", "max"))
        y = np.arange(len(mean))
        # Points, because bars on a logarithmic axis have an arbitrary base.
        axes.hlines(y, low, high, color=COLOURS[0], linewidth=1.2)
        axes.plot(mean, y, "o", color=COLOURS[0], markersize=4, label="communication (busiest link)")
        axes.plot(
            floor.reindex(list(_SLIDE_CASES)) * 1e3,
            y,
            "|",
            color=COLOURS[1],
            markersize=8,
            markeredgewidth=1.6,
            label="lower bound (even loads)",
        )
        _slide_axis(axes, _PATTERNS.get(name.partition("-")[0], name))
        plain_log_scale(axes, "x")
        axes.set_xlabel("time (ms)")
    figure.legend(*panels[0][0].get_legend_handles_labels(), ncols=2, loc="outside lower center")
    return figure


def _part_columns(axes: Axes, columns: int) -> None:
    """Draw separators between the columns of a panel with several marks per column."""
    axes.set_xlim(-0.75, columns - 0.25)
    lines_between_columns(axes, columns)


def plot_placement(case: pd.DataFrame) -> Figure:
    """Draw the time of a job of 64 supernodes on a machine of 512 by placement."""
    rows = case[case["placement"] != "whole"]
    placements = list(dict.fromkeys(rows["placement"]))
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 3.3), sharey=True)
    for axes, routing in zip(panels, ("direct", "indirect"), strict=True):
        table = (
            rows[rows["routing"] == routing].groupby(["placement", "mapping"])["bottleneck_s"].mean().unstack() * 1e3
        )
        mappings = [mapping for mapping in _ORDER if mapping in table.columns]
        for number, (placement, colour) in enumerate(zip(placements, COLOURS, strict=False)):
            x = np.arange(len(mappings)) + (number - 2) * 0.16
            axes.plot(
                x,
                table.loc[placement, mappings],
                _MARKERS[number],
                color=colour,
                markersize=3.5,
                label=placement.replace("_", " "),
            )
        axes.set_xticks(np.arange(len(mappings)), [_MAPPINGS[mapping] for mapping in mappings], rotation=30, ha="right")
        _part_columns(axes, len(mappings))
        plain_log_scale(axes, "y")
        axes.margins(y=0.1)
        axes.set_title(f"{routing} routes", fontsize=8)
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("time of the busiest link (ms)")
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=len(placements), loc="outside upper center")
    return figure


def plot_sensitivity(case: pd.DataFrame) -> Figure:
    """Draw the best mapping with direct routing under different assumptions."""
    rows = case[(case["routing"] == "direct") & case["workload"].str.match("4D|2D|MChalf")]
    workload = rows["workload"].str.split("-", expand=True)
    label = (
        workload[0].map(_PATTERNS)
        + ", "
        + workload[1]
        + " supernodes"
        + rows["gateway"].map(_GATEWAYS)
        + np.where(rows["multiplicity"] == 1, "", ", " + rows["multiplicity"].astype(str) + " links")
        + np.where(rows["wrap"], "", ", open grid")
        + np.where(rows["turned"], ", turned blocks", "")
        + np.where(rows["placement"] == "whole", "", " of 512, " + rows["placement"].str.replace("_", " "))
    )
    table = rows.assign(label=label).groupby(["label", "mapping"], sort=False)["bottleneck_s"].mean().unstack()
    mappings = [mapping for mapping in _ORDER if mapping in table.columns]
    table = table[mappings].dropna(how="all").sort_index()
    relative = table.div(table.min(axis=1), axis=0)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.22 * len(relative) + 1.7))
    shown = axes.imshow(relative.to_numpy(), cmap="cividis_r", norm=LogNorm(1, 32), aspect="auto")
    for row in range(len(relative)):
        for column in range(len(mappings)):
            value = float(relative.to_numpy()[row, column])
            if np.isnan(value):
                continue
            weight, colour = "bold" if value < 1.0001 else "normal", "white" if value > 6 else "black"
            axes.text(
                column, row, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour, fontweight=weight
            )
    names = [_MAPPINGS[mapping] for mapping in mappings]
    axes.set_xticks(range(len(mappings)), names, fontsize=7, rotation=30, ha="left")
    axes.tick_params(axis="x", labeltop=True, labelbottom=False)
    axes.set_yticks(range(len(relative)), relative.index.tolist())
    axes.set_title("time with direct routes / best of the row (bold: best)", fontsize=8)
    axes.grid(visible=False)
    bar = figure.colorbar(shown, ax=axes, aspect=40, pad=0.02, extend="max")
    bar.set_ticks([1, 2, 4, 8, 16, 32], labels=["1", "2", "4", "8", "16", "32"])
    return figure


def plot_packets(comparison: pd.DataFrame) -> Figure:
    """Draw packet-level times against the time of the busiest link."""
    routing = comparison["case_id"].str.split(".").str[2]
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.8))
    for name, colour, marker in (("direct", COLOURS[0], "o"), ("indirect", COLOURS[1], "s")):
        cases = comparison[routing == name]
        left.plot(cases["predicted"] * 1e3, cases["reference"] * 1e3, marker, color=colour, markersize=3.5, label=name)
        right.plot(
            cases["predicted"] * 1e3, cases["reference"] / cases["predicted"], marker, color=colour, markersize=3.5
        )
    ends = np.array([comparison["predicted"].min(), comparison["predicted"].max()]) * 1e3
    left.plot(ends, ends, color="0.5", linewidth=0.8)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("busiest link, indirect: expected (ms)")
    left.set_yscale("log")
    left.set_ylabel("packet level (ms)")
    right.set_ylabel("packet level / busiest link")
    right.axhline(1, color="0.5", linewidth=0.8)
    left.legend()
    return figure


def plot_search(search: pd.DataFrame, case: pd.DataFrame, comparison: pd.DataFrame) -> Figure:
    """Draw the times of the mappings of the search and of the study."""
    rows = plain_cases(case)
    parts = comparison["case_id"].str.split(".", expand=True)
    simulated = comparison.assign(workload=parts[0], mapping=parts[1], routing=parts[2])
    packets = simulated.groupby(["workload", "mapping", "routing"])["reference"].mean()
    names = list(dict.fromkeys(search["workload"]))
    figure, panels = plt.subplots(1, len(names), figsize=(PAGE_WIDTH_IN, 2.9), squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        time = rows[rows["workload"] == name].groupby(["mapping", "routing"])["bottleneck_s"].mean()
        searched = search[search["workload"] == name].set_index("routing")
        shown = [
            (f"{_MAPPINGS[mapping]}, {routing}", time[mapping, routing], packets.get((name, mapping, routing)), routing)
            for routing in ("direct", "indirect")
            for mapping in ("DEF", "BDM", "BSM", "RNM")
        ]
        shown += [(f"searched, {r}", row["bottleneck_s"], row["packets_s"], r) for r, row in searched.iterrows()]
        shown.sort(key=lambda entry: -entry[1])
        for y, (_, bound, packet, routing) in enumerate(shown):
            colour = COLOURS[0] if routing == "direct" else COLOURS[1]
            axes.plot(bound * 1e3, y, "o", color=colour, markersize=4)
            if packet is not None:
                axes.plot(packet * 1e3, y, "x", color=colour, markersize=4)
        axes.set_yticks(range(len(shown)), [entry[0] for entry in shown])
        plain_log_scale(axes, "x")
        axes.set_xlabel("time (ms)")
        axes.set_title(name, fontsize=8)
    marks = [
        Line2D(
            [], [], color="black", marker="o", linestyle="none", markersize=4, label="busiest link (expected loads)"
        ),
        Line2D([], [], color="black", marker="x", linestyle="none", markersize=4, label="packet level"),
        Line2D([], [], color=COLOURS[0], linewidth=3, label="direct routes"),
        Line2D([], [], color=COLOURS[1], linewidth=3, label="indirect routes"),
    ]
    figure.legend(handles=marks, ncols=4, loc="outside upper center")
    return figure


def plot_two_supernodes(example: pd.DataFrame, grid: tuple[int, int]) -> Figure:
    """Draw the talk's example: a stencil on two supernodes in rank order."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.3), width_ratios=[1.5, 1])
    rows, columns = grid
    half = rows * columns // 2
    for rank in range(rows * columns):
        row, column = divmod(rank, columns)
        left.plot(row, column, "o", color="black" if rank < half else COLOURS[5], markersize=5, zorder=3)
        for near in ((row + 1, column), (row, column + 1)):
            if near[0] < rows and near[1] < columns:
                crosses = (rank < half) != (near[0] * columns + near[1] < half)
                left.plot(
                    *zip((row, column), near, strict=True),
                    color=COLOURS[3] if crosses else "0.75",
                    linewidth=2.2 if crosses else 0.8,
                    zorder=2 if crosses else 1,
                )
    left.set_xlabel("first coordinate")
    left.set_ylabel("second coordinate")
    left.set_yticks(range(columns))
    left.set_title(f"{rows} x {columns} nodes in rank order; black and blue: two supernodes", fontsize=8)
    left.grid(visible=False)
    classes = [name for name in _CLASSES if name in set(example["class"])]
    for shift, (wrap, label, colour) in zip(
        (-0.2, 0.2), ((False, "open grid", COLOURS[2]), (True, "torus", COLOURS[4])), strict=True
    ):
        wrap_rows = example[(example["wrap"] == wrap) & (example["fastest"] == columns)].set_index("class").loc[classes]
        right.bar(np.arange(len(classes)) + shift, wrap_rows["max_messages"], width=0.38, color=colour, label=label)
    right.set_xticks(range(len(classes)), [f"{name} links" for name in classes])
    right.set_ylabel("messages on the busiest link")
    right.legend()
    right.grid(axis="x", visible=False)
    return figure


#: Readable names of link-load features, without the prefix D, LL or LR of their class.
_FEATURES = {
    "second_by_first": "second fullest class / fullest",
    "floor_by_bottleneck": "even loads / busiest link",
    "time_s": "time of the fullest link",
    "mean_by_max": "mean / largest load",
    "p90_by_max": "90th percentile / largest load",
    "p99_by_max": "99th percentile / largest load",
    "used": "share of links in use",
    "indirect": "indirect routes",
}


def _feature_text(name: str) -> str:
    """Return a readable name of a feature, with its link class first.

    >>> _feature_text("D_time_s"), _feature_text("indirect")
    ('D links: time of the fullest link', 'indirect routes')
    """
    links, _, rest = name.partition("_")
    if links in _CLASSES:
        return f"{links} links: {_FEATURES.get(rest, rest.replace('_', ' '))}"
    return _FEATURES.get(name, name.replace("_", " "))


def plot_importance(feature: pd.DataFrame) -> Figure:
    """Draw the importance of link-load features for the excess of packet-level time."""
    rows = feature.sort_values(["importance", "feature"]).tail(10)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.8))
    firm = rows["importance"] > rows["spread"]
    axes.barh(
        range(len(rows)),
        rows["importance"],
        color=np.where(firm, COLOURS[0], ASSUMED_COLOUR),
        xerr=rows["spread"],
        error_kw={"elinewidth": 0.8},
    )
    axes.set_yticks(range(len(rows)), [_feature_text(name) for name in rows["feature"]])
    axes.set_xlabel("loss of R² when the feature is shuffled, on unseen workloads and mappings")
    explained = 100 * float(rows["r2"].iloc[0])
    axes.set_title(
        f"all features explain {max(explained, 0):.0f} % of the variance there; grey: less than its spread", fontsize=8
    )
    return figure
