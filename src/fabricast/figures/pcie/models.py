"""Figures of the PCIe study."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import FuncFormatter

from fabricast.figures.colours import COLOURS, MORE_COLOURS
from fabricast.figures.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, legend_below
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.topology.tree import PcieTree

_FAMILIES = ("exhaustive", "scatter", "gather", "all_to_all", "random", "user")
#: Colours of the families of graphs, distinct from those of models.
_FAMILY_COLOURS = (MORE_COLOURS[1], COLOURS[5], MORE_COLOURS[4], MORE_COLOURS[3], MORE_COLOURS[9], MORE_COLOURS[7])
_LINE_STYLES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (5, 3)))


def _positions(tree: PcieTree) -> dict[str, tuple[float, float]]:
    """Return the positions of all vertices: each one is centred above its children."""
    positions = {name: (float(i), 0.0) for i, name in enumerate(tree.endpoint_names)}
    deepest = max(tree.depth.values())
    inner = [vertex.name for vertex in tree.vertices if vertex.kind != "endpoint"]
    for name in sorted(inner, key=lambda name: -tree.depth[name]):
        children = [positions[child][0] for child in tree.children(name)]
        positions[name] = (float(np.mean(children)), float(deepest - tree.depth[name]))
    return positions


_LOOKS: dict[str, tuple[str, Any]] = {
    "congestion_factor": (COLOURS[0], "-"),
    "round_robin_upstream": (COLOURS[1], "--"),
    "back_pressure": (COLOURS[2], "-"),
    "max_min": (COLOURS[3], "-."),
    "busiest_link": (COLOURS[4], ":"),
    "no_contention": (COLOURS[6], "--"),
}
#: Look of all other models, which are interpretations of the first one.
OTHER_READINGS = ("0.7", "-")


#: Look of the functions of users.
_USER_LOOK: tuple[str, Any] = (COLOURS[5], "-")


def model_look(name: str) -> tuple[str, Any]:
    """Return colour and line style of a model, the same in every figure.

    Other interpretations of the slides are grey.

    >>> model_look("congestion_factor"), model_look("literal")
    (('#0072B2', '-'), ('0.7', '-'))
    """
    return _USER_LOOK if ":" in name else _LOOKS.get(name, OTHER_READINGS)


def greys_first(names: Iterable[str]) -> list[str]:
    """Return models in drawing order: grey lines first, below the named lines."""
    return sorted(names, key=lambda name: model_look(name) != OTHER_READINGS)


def listed_models(names: set[str]) -> list[str]:
    """Return models in the order of the catalogue, then the functions of users."""
    return [*(name for name in MODELS if name in names), *sorted(names - MODELS.keys())]


def model_label(name: str, shown: set[str]) -> str | None:
    """Return the legend entry of a model; all other interpretations share one entry."""
    if name in _LOOKS:
        return MODELS[name].title
    if ":" in name:
        return name
    if "others" in shown:
        return None
    shown.add("others")
    return "other interpretations of the slides"


#: Markers of the kinds of vertices.
_MARKERS = {"endpoint": "s", "switch": "o", "root_complex": "D", "socket": "p", "system": "h"}
#: Colour map of link loads from low to full, as in the explorer of the report.
LOADS = LinearSegmentedColormap.from_list("load", ["#56B4E9", "#E6B400", "#D55E00"])


def draw_tree(tree: PcieTree, load: np.ndarray, axes: Axes) -> None:
    """Draw a tree with each direction of each link coloured by its load in [0, 1]."""
    positions = _positions(tree)
    for number, (source, target, direction, port) in enumerate(tree.link_names):
        lower = source if direction == "pcie_up" else target
        ports = max(1, len(tree.vertex(lower).uplink_groups))
        shift = (-0.07 if direction == "pcie_up" else 0.07) + 0.3 * (port - (ports - 1) / 2)
        (x0, y0), (x1, y1) = positions[source], positions[target]
        busy = load[number] > 0
        axes.add_patch(
            FancyArrowPatch(
                (x0 + shift, y0),
                (x1 + shift, y1),
                arrowstyle="-|>",
                mutation_scale=6,
                shrinkA=7,
                shrinkB=7,
                linewidth=1.8 if busy else 0.6,
                color=LOADS(min(1.0, load[number])) if busy else "0.8",
            )
        )
    for vertex in tree.vertices:
        x, y = positions[vertex.name]
        axes.plot(
            [x], [y], marker=_MARKERS[vertex.kind], markersize=13, color="white", markeredgecolor="black", zorder=3
        )
        axes.text(x, y, vertex.name, ha="center", va="center", fontsize=7, zorder=4)
    axes.set_xlim(-0.6, len(tree.endpoint_names) - 0.4)
    axes.set_ylim(-0.5, max(tree.depth.values()) + 0.5)
    axes.axis("off")


#: Model whose phases are drawn.
_TRACED = "congestion_factor"


def link_load(tree: PcieTree, pairs: list[tuple[int, int]], rho: np.ndarray) -> np.ndarray:
    """Return the load of each directed link as a share of its capacity."""
    routes = tree.routes
    load = np.zeros(routes.capacity.size)
    for (source, target), rate in zip(pairs, rho, strict=True):
        pair = source * routes.endpoints + target
        load[routes.link[routes.offset[pair] : routes.offset[pair + 1]]] += rate
    return load / routes.capacity


#: Most phases of a graph that are drawn below each other.
_MOST_PHASES = 4


def plot_link_loads(tree: PcieTree, communication: pd.DataFrame, phase: pd.DataFrame, graph: str) -> Figure:
    """Draw a topology with the link loads of the first phases of a graph."""
    phase = phase[(phase["graph"] == graph) & (phase["model"] == _TRACED)]
    pairs_of = communication[communication["graph"] == graph].set_index("communication")
    number = tree.endpoint_number
    phases = sorted(phase["phase"].unique())[:_MOST_PHASES]
    figure, panels = plt.subplots(len(phases), 1, figsize=(COLUMN_WIDTH_IN, 2.1 * len(phases)), squeeze=False)
    for axes, index in zip(panels[:, 0], phases, strict=True):
        rows = phase[phase["phase"] == index].sort_values("communication")
        ends = pairs_of.loc[rows["communication"]]
        pairs = [(number[s], number[t]) for s, t in zip(ends["source"], ends["target"], strict=True)]
        draw_tree(tree, link_load(tree, pairs, rows["rho"].to_numpy()), axes)
        text = ", ".join(f"{s}→{t}" for s, t in zip(ends["source"], ends["target"], strict=True))
        axes.set_title(textwrap.fill(f"phase {index + 1}: {text}", 44, break_long_words=False))
    colours = plt.cm.ScalarMappable(cmap=LOADS)
    colours.set_clim(0, 1)
    bar = figure.colorbar(colours, ax=panels[:, 0].tolist(), shrink=0.6, aspect=30)
    bar.set_label("link load (share of capacity)")
    return figure


def plot_worked_example(communication: pd.DataFrame, phase: pd.DataFrame, graph: str) -> Figure:
    """Draw the worked example: the congestion graph of each phase and the timeline."""
    phase = phase[(phase["graph"] == graph) & (phase["model"] == _TRACED)].sort_values(["phase", "communication"])
    ends = communication[communication["graph"] == graph].set_index("communication").sort_index()
    phases = sorted(phase["phase"].unique())
    figure = plt.figure(figsize=(PAGE_WIDTH_IN, 3.6))
    grid = figure.add_gridspec(2, len(phases), height_ratios=[1.35, 1])
    # Senders are on the left, receivers on the right, both in the order of their names.
    positions: dict[tuple[str, str], tuple[float, float]] = {}
    for side, end in ((0.0, "source"), (1.0, "target")):
        names = sorted(set(ends[end]))
        positions |= {(end, name): (side, -(i + 0.5) / len(names)) for i, name in enumerate(names)}
    for panel, index in enumerate(phases):
        axes = figure.add_subplot(grid[0, panel])
        rows = phase[phase["phase"] == index].set_index("communication")
        for c, source, target in ends[["source", "target"]].itertuples():
            tail, head = positions["source", source], positions["target", target]
            active = c in rows.index
            colour = COLOURS[c % len(COLOURS)] if active else "0.85"
            axes.add_patch(
                FancyArrowPatch(tail, head, arrowstyle="-|>", mutation_scale=10, shrinkA=9, shrinkB=9, color=colour)
            )
            if active:
                # Labels are beyond the middle of the arrows, because arrows cross before it and would hide them.
                x, y = (0.4 * a + 0.6 * b for a, b in zip(tail, head, strict=True))
                axes.text(
                    x,
                    y,
                    f"{rows.loc[c, 'rho']:.2f}",
                    color=colour,
                    ha="center",
                    va="center",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
                )
        for (_, name), (x, y) in positions.items():
            axes.plot([x], [y], "s", markersize=13, color="white", markeredgecolor="black")
            axes.text(x, y, name, ha="center", va="center")
        start = rows["start_s"].iloc[0] * 1e3
        stop = start + rows["duration_s"].iloc[0] * 1e3
        axes.set_title(f"phase {panel + 1}: {start:.2f} to {stop:.2f} ms")
        axes.set_xlim(-0.3, 1.3)
        axes.set_ylim(-1.0, 0.0)
        axes.axis("off")
    timeline = figure.add_subplot(grid[1, :])
    for bar in phase.to_dict("records"):
        c = int(bar["communication"])
        timeline.barh(
            c,
            bar["duration_s"] * 1e3,
            left=bar["start_s"] * 1e3,
            height=0.7 * bar["rho"],
            color=COLOURS[c % len(COLOURS)],
            edgecolor="none",
        )
        timeline.text(
            (bar["start_s"] + bar["duration_s"] / 2) * 1e3,
            c,
            f"{bar['transferred_bytes'] / 2**20:.1f} MiB",
            ha="center",
            va="center",
            fontsize=7,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )
    timeline.set_yticks(range(len(ends)), [f"{s}→{t}" for s, t in zip(ends["source"], ends["target"], strict=True)])
    timeline.invert_yaxis()
    timeline.set_xlabel("time (ms); bar height = congestion factor")
    timeline.grid(axis="y", visible=False)
    return figure


def _name_graphs(figure: Figure, graph: pd.DataFrame) -> None:
    """Write the tree and the subsets of graphs above a figure."""
    sets = dict.fromkeys(graph["subset"])
    figure.suptitle(f"{graph['topology'].iloc[0]}: {' and '.join(map(str, sets))} graphs", fontsize=7)


def plot_slowdown(
    prediction: pd.DataFrame, graph: pd.DataFrame, communication: pd.DataFrame, bandwidth_bytes_per_s: float
) -> Figure:
    """Draw the predicted slowdown of all copies, by model and by family of graphs."""
    copies = communication.assign(item=communication["communication"].astype(str)).merge(graph[["graph", "family"]])
    copies = copies.set_index(["graph", "item"])[["size_bytes", "family"]]

    def slowdowns(model: str) -> pd.DataFrame:
        # Models are processed one by one: joining all of them would need several times the largest table.
        rows = prediction.loc[prediction["model"] == model, ["case_id", "item", "value"]]
        rows = rows.join(copies, on=["case_id", "item"], how="inner")
        rows["slowdown"] = rows["value"] / (rows["size_bytes"] / bandwidth_bytes_per_s)
        finite: pd.DataFrame = rows[np.isfinite(rows["slowdown"])]
        return finite

    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 3.9))
    _name_graphs(figure, graph)
    known = set(prediction["model"].unique())
    models = listed_models(known)
    seen: set[str] = set()
    for name in greys_first(models):
        colour, style = model_look(name)
        values = np.sort(slowdowns(name)["slowdown"].to_numpy())
        shown = np.unique(np.linspace(0, values.size - 1, min(values.size, 2000)).astype(int))
        left.plot(
            values[shown],
            1 - shown / values.size,
            color=colour,
            linestyle=style,
            linewidth=1.3 if name in _LOOKS or ":" in name else 0.8,
            label=model_label(name, seen),
        )
    left.set_xscale("log", base=2)
    left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.set_xlabel("predicted slowdown (elapsed / isolated)")
    left.set_ylabel("share of copies at least as slow")
    legend_below(left)
    default_slowdowns = slowdowns("congestion_factor")
    families = [family for family in _FAMILIES if (default_slowdowns["family"] == family).any()]
    for family, colour, dashes in zip(families, _FAMILY_COLOURS, _LINE_STYLES, strict=False):
        values = np.sort(default_slowdowns.loc[default_slowdowns["family"] == family, "slowdown"].to_numpy())
        right.step(
            values,
            1 - np.arange(values.size) / values.size,
            color=colour,
            linestyle=dashes,
            label=f"{family.replace('_', ' ')}, {values.size:,} copies",
        )
    right.set_xscale("log", base=2)
    right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    right.set_xlabel("predicted slowdown, congestion factors")
    right.set_ylabel("share of copies of the family")
    legend_below(right)
    for axes in (left, right):
        # Models agree on most copies; a logarithmic axis separates them where copies are slow.
        axes.set_yscale("log")
        axes.set_ylim(1e-3, 1.3)
    return figure


def plot_probes(comparison: pd.DataFrame, tolerance: float) -> Figure:
    """Draw predicted against measured rates of concurrent copies."""
    rows = comparison[
        (comparison["kind"] == "measured")
        & (comparison["quantity"] == "rate")
        & comparison["origin"].str.startswith("rtx6kpro")
        & (comparison["model"] == "congestion_factor")
    ].sort_values("case_id")
    rows = rows.assign(
        pattern=np.select(
            [rows["case_id"].str.contains("staggered"), rows["case_id"].str.contains("all_to_all|16_cross")],
            ["staggered", "many copies per GPU"],
            default="few copies",
        )
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 3.5))
    ends = np.array([8.0, 500.0])
    left.fill_between(
        ends, ends * (1 - tolerance), ends * (1 + tolerance), color="0.9", label=f"±{100 * tolerance:g} %"
    )
    left.plot(ends, ends, color="0.6", linewidth=0.8)
    markers = {"staggered": "o", "few copies": "s", "many copies per GPU": "X"}
    for (pattern, marker), colour in zip(markers.items(), COLOURS, strict=False):
        part = rows[rows["pattern"] == pattern]
        left.plot(
            part["reference"] / 1e9,
            part["predicted"] / 1e9,
            marker,
            color=colour,
            markersize=4,
            label=pattern,
            alpha=0.8,
        )
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("measured rate (GB/s)")
    left.set_ylabel("predicted rate (GB/s)")
    legend_below(left)
    staggered = rows[rows["pattern"] == "staggered"].assign(
        distance=lambda part: part["case_id"].str.extract(r"staggered_(\d)")[0].astype(int)
    )
    right.axhspan(-100 * tolerance, 100 * tolerance, color="0.9")
    for (origin, part), colour, marker in zip(staggered.groupby("origin"), COLOURS, "osD", strict=False):
        right.plot(
            part["distance"],
            100 * part["relative_error"],
            marker=marker,
            color=colour,
            markersize=4,
            label=str(origin).removeprefix("rtx6kpro "),
        )
    right.set_xlabel("staggered distance k (GPU i sends to i + k)")
    right.set_ylabel("relative error (%)")
    right.set_ylim(-100 * tolerance * 1.15, 100 * tolerance * 1.15)
    legend_below(right, 1)
    return figure
