"""Figures of PCIe model errors relative to the packet-level simulator."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from fabricast.figures.colours import COLOURS
from fabricast.figures.pcie.models import (
    LOADS,
    draw_tree,
    greys_first,
    link_load,
    listed_models,
    model_label,
    model_look,
)
from fabricast.figures.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, ink_on, legend_below
from fabricast.pcie.models.catalogue import MODELS, VALIDATED
from fabricast.pcie.models.evaluation import factors
from fabricast.pcie.tables.graphs import graphs_from_rows
from fabricast.pcie.topology.tree import PcieTree

#: Number of copies above which graphs are single collective patterns, which other figures show.
_MOST_COPIES = 12
#: Largest error in percent and least share of copies in percent on the axes of error distributions.
_WIDEST, _LEAST_SHARE = 60.0, 1e-3


def _title(model: str) -> str:
    return MODELS[model].title if model in MODELS else model


def _shown_models(models: set[str]) -> list[str]:
    """Return the models with a panel: the functions of users, and the models of the paper."""
    return [*(name for name in listed_models(models) if ":" in name), *VALIDATED]


def _short(origin: str) -> str:
    return origin.removeprefix("packets.").replace("_", " ")


def _name_place(figure: Figure, tree: str, origin: str) -> None:
    """Write the tree and the hardware setting of the simulation above a figure."""
    figure.suptitle(f"{tree}, {_short(origin)}", fontsize=7)


def plot_error_distribution(histogram: pd.DataFrame, subset: str, origin: str, tolerance: float) -> Figure:
    """Draw the validation figure of the paper: error histogram and ECDF by model."""
    rows = histogram[(histogram["subset"] == subset) & (histogram["origin"] == origin)]
    models = set(rows["model"].unique())
    order = listed_models(models)
    shown = _shown_models(models)
    figure = plt.figure(figsize=(PAGE_WIDTH_IN, 3.9 + 1.3 * (len(shown) - len(VALIDATED))))
    grid = figure.add_gridspec(len(shown), 2)
    lefts = [figure.add_subplot(grid[place, 0]) for place in range(len(shown))]
    right = figure.add_subplot(grid[:, 1])
    _name_place(figure, subset.split(".")[0], origin)
    for axes, name in zip(lefts, shown, strict=True):
        _draw_histogram(axes, rows[rows["model"] == name], model_look(name)[0], tolerance)
        axes.set_title(_title(name), fontsize=7)
        axes.tick_params(labelbottom=axes is lefts[-1])
    lefts[-1].set_xlabel("relative error (%)")
    lefts[1].set_ylabel("copies per 1 % bin (%)")
    seen: set[str] = set()
    for name in greys_first(order):
        colour, style = model_look(name)
        part = rows[rows["model"] == name]
        nearer = np.minimum(part["lower"].abs(), part["upper"].abs())
        by_size = part.assign(size=np.maximum(part["lower"].abs(), part["upper"].abs())).assign(nearer=nearer)
        grouped = by_size.groupby(by_size["size"].round(6))["communications"].sum().sort_index()
        grouped = grouped[np.isfinite(grouped.index)]
        share = 100 * grouped.cumsum() / part["communications"].sum()
        right.plot(100 * grouped.index, share, color=colour, linestyle=style, label=model_label(name, seen))
    right.axvline(100 * tolerance, color="0.6", linewidth=0.8)
    right.text(100 * tolerance, 2, f" {100 * tolerance:g} %", fontsize=7, color="0.4")
    right.set_xlabel("absolute relative error (%)")
    right.set_ylabel("copies with a smaller error (%)")
    right.set_xlim(0, _WIDEST)
    right.set_ylim(0, 101)
    legend_below(right)
    return figure


def _draw_histogram(axes: Axes, rows: pd.DataFrame, colour: str, tolerance: float) -> None:
    """Draw the shares of copies by error, with the shares beyond the axis at its ends."""
    axes.axvspan(-100 * tolerance, 100 * tolerance, color="0.92")
    finite = rows[np.isfinite(rows["lower"]) & np.isfinite(rows["upper"])]
    total = rows["communications"].sum()
    if total:
        edges = np.append(finite["lower"], finite["upper"].iloc[-1])
        axes.stairs(100 * finite["communications"] / total, 100 * edges, color=colour, fill=True, baseline=_LEAST_SHARE)
        for side, beyond in (("left", rows["upper"] <= -_WIDEST / 100), ("right", rows["lower"] >= _WIDEST / 100)):
            share = 100 * rows.loc[beyond, "communications"].sum() / total
            if share:
                arrow = f"← {share:.2g} %" if side == "left" else f"{share:.2g} % →"
                axes.text(0.01 if side == "left" else 0.99, 0.8, arrow, ha=side, transform=axes.transAxes, fontsize=7)
    axes.set_yscale("log")
    axes.set(xlim=(-_WIDEST, _WIDEST), ylim=(_LEAST_SHARE, 150), yticks=(0.01, 1, 100))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def plot_predicted_simulated(comparison: pd.DataFrame, set_name: str, origin: str, tolerance: float) -> Figure:
    """Draw predicted against simulated times, one panel per model."""
    rows = comparison[comparison["origin"] == origin]
    models = _shown_models(set(rows["model"].unique()))
    figure, panels = plt.subplots(1, len(models), figsize=(PAGE_WIDTH_IN, 2.7), sharex=True, sharey=True)
    _name_place(figure, set_name, origin)
    top = float(rows["reference"].max()) * 1.1e3
    low = float(rows["reference"].min()) * 0.9e3
    shown = None
    for axes, name in zip(panels, models, strict=True):
        part = rows[rows["model"] == name]
        shown = axes.hexbin(
            part["reference"] * 1e3,
            part["predicted"] * 1e3,
            gridsize=38,
            xscale="log",
            yscale="log",
            bins="log",
            mincnt=1,
            cmap="cividis",
            vmin=1,
            vmax=len(part),
            extent=np.log10([low, top, low, top]).tolist(),
        )
        ends = np.array([low, top])
        for factor in (1 - tolerance, 1.0, 1 + tolerance):
            axes.plot(ends, ends * factor, color="#D55E00", linewidth=0.7, linestyle="-" if factor == 1 else "--")
        axes.set_title(_title(name), fontsize=7)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(base=2.0))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("simulated (ms)")
    panels[0].set_ylabel("predicted (ms)")
    assert shown is not None
    figure.colorbar(shown, ax=list(panels), label="communications", aspect=25)
    return figure


def plot_error_by_size(error_band: pd.DataFrame, set_name: str, tolerance: float) -> Figure:
    """Draw the share within the band by the number of copies in the graph, for every hardware setting."""
    rows = error_band[(error_band["kind"] == "simulated") & (error_band["tolerance"] == tolerance)]
    # A set with validation graphs and graphs of the user has both subsets; the former have more sizes.
    kinds = [f"{set_name}.{kind}.communications." for kind in ("validation", "user")]
    kind = next((one for one in kinds if rows["subset"].str.startswith(one).any()), kinds[0])
    count = rows["subset"].str.extract(rf"^{re.escape(kind)}(\d+)$")[0].astype(float)
    # One copy has nothing to compete with, and the few such graphs say nothing about an error of a model.
    rows = rows.assign(count=count)[count.between(2, _MOST_COPIES)].sort_values("count")
    origins = sorted(set(rows["origin"]))
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.7), sharex=True, sharey=True)
    of_user = sorted(model for model in set(rows["model"]) if ":" in model)
    for axes, model in zip(panels, ("congestion_factor", [*of_user, "back_pressure"][0]), strict=True):
        for number, origin in enumerate(origins):
            part = rows[(rows["model"] == model) & (rows["origin"] == origin)]
            share = 100 * part["share_within"]
            error = np.stack([share - 100 * part["share_within_low"], 100 * part["share_within_high"] - share])
            axes.errorbar(
                part["count"],
                share,
                yerr=error,
                color=COLOURS[number],
                marker="osD^"[number % 4],
                markersize=3,
                linewidth=1.0,
                elinewidth=0.8,
                label=_short(origin),
            )
        axes.set_title(f"{_title(model)}, {set_name}")
        axes.set_xlabel("copies in the graph")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel(f"copies within ±{100 * tolerance:g} % (%)")
    panels[0].set_ylim(-4, 104)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def plot_model_hardware(error_band: pd.DataFrame, subsets: dict[str, str], tolerance: float) -> Figure:
    """Draw the share within the band of every model on every hardware setting."""
    import seaborn as sns  # imported late: the import needs 2 s of CPU time

    rows = error_band[(error_band["kind"] == "simulated") & (error_band["tolerance"] == tolerance)]
    # A set that is too small for a held-out subset is shown as a whole.
    names = set(rows["subset"])
    subsets = {
        subset if subset in names else subset.replace(".held_out", ".all"): (
            title if subset in names else f"{title}, all graphs"
        )
        for subset, title in subsets.items()
    }
    rows = rows[rows["subset"].isin(list(subsets))]
    names = set(rows["model"].unique())
    models = listed_models(names)
    origins = sorted(set(rows["origin"]))
    columns = [(subset, origin) for subset in subsets for origin in origins if (rows["subset"] == subset).any()]
    values = rows.set_index(["model", "subset", "origin"])["share_within"]
    # Models with equal values are one row.
    alike: dict[tuple[float, ...], list[str]] = {}
    for name in models:
        row = tuple(round(100 * values[name, subset, origin], 1) for subset, origin in columns)
        alike.setdefault(row, []).append(_title(name))
    titles = [names[0] + (f" (and {len(names) - 1} equal)" if names[1:] else "") for names in alike.values()]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.26 * len(alike) + 1.4))
    sns.heatmap(
        np.array(list(alike)),
        annot=True,
        fmt=".1f",
        cmap="mako",
        vmin=50,
        vmax=100,
        ax=axes,
        annot_kws={"size": 7},
        linewidths=0.5,
        yticklabels=titles,
        xticklabels=[f"{subsets[subset]}\n{_short(origin)}" for subset, origin in columns],
        cbar_kws={"label": f"within ±{100 * tolerance:g} % (%); black: below 50", "extend": "min"},
    )
    mesh = axes.collections[0]
    colours = mesh.cmap(mesh.norm(np.ravel(list(alike))))
    for text, colour in zip(axes.texts, colours, strict=True):
        text.set_color(ink_on(to_hex(tuple(colour))))
    many = len(columns) > 6
    axes.tick_params(axis="x", rotation=40 if many else 0)
    if many:
        plt.setp(axes.get_xticklabels(), ha="right", rotation_mode="anchor")
    axes.grid(visible=False)
    return figure


def plot_worst_case(
    tree: PcieTree, communication: pd.DataFrame, comparison: pd.DataFrame, parameter: pd.DataFrame, model: str
) -> Figure:
    """Draw the graph with the largest error of a model, as link loads and times."""
    rows = comparison[(comparison["model"] == model) & (comparison["kind"] == "simulated")]
    rows = rows.assign(size=rows["relative_error"].abs())
    worst = rows.sort_values(["size", "case_id", "item"], ascending=[False, True, True]).iloc[0]
    graph, origin = worst["case_id"], worst["origin"]
    graph_rows = rows[(rows["case_id"] == graph) & (rows["origin"] == origin)].assign(
        number=lambda part: part["item"].astype(int)
    )
    graph_rows = graph_rows.sort_values("number")
    ends = communication[communication["graph"] == graph].sort_values("communication").reset_index(drop=True)
    values = parameter[parameter["system"] == f"{tree.name}.{origin}"].set_index("name")["value"]
    pairs = graphs_from_rows(tree, ends).pairs(0)
    rho = factors(
        tree, pairs, MODELS[model], tau=values.get("tau", 0.0), crossing_cost=values.get("crossing_cost", 1.0)
    )
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(COLUMN_WIDTH_IN, 2.3 + 0.24 * len(pairs)), height_ratios=[2.1, 0.4 + 0.24 * len(pairs)]
    )
    draw_tree(tree, link_load(tree, pairs, rho), top)
    scale = figure.colorbar(plt.cm.ScalarMappable(Normalize(0, 1), LOADS), ax=top, shrink=0.7, aspect=18)
    scale.set_label("link load (share of capacity)", fontsize=7)
    ends_of_worst = ends.iloc[int(worst["item"])]
    named = f"{ends_of_worst['source']}→{ends_of_worst['target']}"
    error = f"time {100 * worst['relative_error']:+.0f} % against the packet simulator"
    top.set_title(f"{tree.name}, {_short(origin)}, {_title(model)}: {named}\n{error}", fontsize=7)
    y = np.arange(len(pairs))
    bottom.barh(y - 0.2, graph_rows["predicted"] * 1e3, height=0.36, color=COLOURS[0], label="model")
    bottom.barh(y + 0.2, graph_rows["reference"] * 1e3, height=0.36, color=COLOURS[4], label="packet simulator")
    bottom.set_yticks(y, [f"{s}→{t}" for s, t in zip(ends["source"], ends["target"], strict=True)])
    bottom.invert_yaxis()
    bottom.set_xlabel("elapsed time (ms)")
    bottom.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    bottom.grid(axis="y", visible=False)
    return figure


def plot_error_features(feature: pd.DataFrame, subset: str, origin: str) -> Figure:
    """Draw the importance of features for the absolute error of each validated model."""
    rows = feature[(feature["subset"] == subset) & (feature["origin"] == origin)]
    order = rows.groupby("feature")["importance"].max().sort_values(ascending=False).index[:10]
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 3.1))
    _name_place(figure, subset.split(".")[0], origin)
    if rows.empty:
        axes.text(0.5, 0.5, "too few isomorphism classes of graphs", ha="center", va="center")
        axes.axis("off")
        return figure
    y = np.arange(len(order))
    for number, name in enumerate(VALIDATED):
        part = rows[rows["model"] == name].set_index("feature").loc[order]
        axes.barh(
            y + 0.26 * (number - 1),
            part["importance"],
            xerr=part["spread"],
            height=0.24,
            color=model_look(name)[0],
            error_kw={"linewidth": 0.7},
            label=f"{_title(name)} (R² = {part['r2'].iloc[0]:.2f})",
        )
    axes.set_yticks(y, list(order))
    axes.invert_yaxis()
    axes.set_xlabel("loss of cross-validated R² when the feature is shuffled")
    axes.legend()
    axes.grid(axis="y", visible=False)
    return figure
