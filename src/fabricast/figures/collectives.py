"""Figures of the study of collective operations."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, size_name

_FORECASTS = {
    "forecast_s": ("forecast", COLOURS[0], "-"),
    "nccl_s": ("NCCL's estimate", COLOURS[1], "--"),
    "alpha_beta_s": ("alpha-beta", COLOURS[2], ":"),
}
_PROTOCOLS = {"ll": COLOURS[1], "simple": COLOURS[0], "ll128": COLOURS[2]}
_CLASSES = ("up to 32 KiB", "64 to 512 KiB", "from 1 MiB")
_NAMES = {
    "fabricast": ("forecast", COLOURS[0]),
    "fabricast_left_out": ("machine left out of the fit", COLOURS[5]),
    "nccl_estimate": ("NCCL's estimate", COLOURS[1]),
    "alpha_beta": ("alpha-beta", COLOURS[2]),
}
_COLUMNS = 3
#: Number of classes of NVLink nodes and clusters in one figure.
_CLASSES_SHOWN, _MANY_NODES = 6, 16
#: Size in bytes from which bandwidths are drawn on a linear axis, and relative error of the band.
_LARGE_BYTES, _BAND = 2.0**20, 0.15
#: Sizes of the figure over the number of nodes, with colour, and largest number of nodes of the fit.
_SCALE_SIZES = {8.0: COLOURS[0], 2.0**20: COLOURS[1], 2.0**30: COLOURS[2]}
_FITTED_NODES, _SHOWN_NODES = 64, 128
#: Binary logarithm of the ratio of sizes above which every tenth power of two has a label.
_WIDE = 17


def _system_title(system: str) -> str:
    """Return the name of a machine, with the transport in words if it was measured with both.

    >>> _system_title("chlc_p2p"), _system_title("sm02")
    ('chlc, direct', 'sm02')
    """
    name, _, transport = system.rpartition("_")
    words = {"p2p": "direct", "shm": "host memory"}.get(transport)
    return system if words is None else f"{name}, {words}"


def _bus_factor(ranks: int) -> float:
    """Return the ratio of bus bandwidth to algorithm bandwidth of all_reduce."""
    return 2 * (ranks - 1) / ranks


def _size_axis(axes: Axes, sizes: pd.Series) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(value)))
    low, high = math.log2(float(sizes.min())), math.log2(float(sizes.max()))
    step = 5 if high - low < _WIDE else 10
    axes.set_xticks([2.0**power for power in np.arange(math.ceil(low / step) * step, high + 0.1, step)])


def _panel(axes: Axes, rows: pd.DataFrame, ranks: int, columns: tuple[str, ...] = tuple(_FORECASTS)) -> None:
    """Draw measured and forecast bus bandwidth of one machine."""
    rows = rows.sort_values("size_bytes")
    scale = rows["size_bytes"] * _bus_factor(ranks) / 1e9
    for column in columns:
        label, colour, line = _FORECASTS[column]
        axes.plot(rows["size_bytes"], scale / rows[column], line, color=colour, linewidth=1, label=label)
    axes.plot(rows["size_bytes"], scale / rows["measured_s"], "o", color="black", markersize=2.2, label="measured")
    axes.set_yscale("log")
    measured = scale / rows["measured_s"]
    axes.set_ylim(0.4 * float(measured.min()), 3.5 * float(measured.max()))
    _size_axis(axes, rows["size_bytes"])


def _all_reduce(time: pd.DataFrame, machine: pd.DataFrame) -> list[tuple[str, pd.DataFrame, int]]:
    """Return name, rows and ranks of each machine with several sizes of all_reduce."""
    ranks = machine.set_index("system")["ranks"]
    rows = time[time["operation"] == "all_reduce"]
    return [
        (str(system), part, int(ranks[system])) for system, part in rows.groupby("system", sort=True) if len(part) > 1
    ]


def plot_bandwidth(time: pd.DataFrame, machine: pd.DataFrame) -> Figure:
    """Draw the bus bandwidth of all_reduce over the size, one panel per machine."""
    gpu = machine.set_index("system")["gpu"]
    cases = [
        (f"{ranks} x {gpu[name]} ({_system_title(name)})", part, ranks)
        for name, part, ranks in _all_reduce(time, machine)
    ]
    return _panels(cases, tuple(_FORECASTS))


def _panels(cases: list[tuple[str, pd.DataFrame, int]], columns: tuple[str, ...]) -> Figure:
    """Draw a panel of measured and forecast bus bandwidth for each title, rows and ranks."""
    rows = max(1, -(-len(cases) // _COLUMNS))
    figure, panels = plt.subplots(rows, _COLUMNS, figsize=(PAGE_WIDTH_IN, 1.75 * rows + 0.4), squeeze=False)
    for axes, (title, part, ranks) in zip(panels.flat, cases, strict=False):
        _panel(axes, part, ranks, columns)
        axes.set_title(title, fontsize=8)
        axes.set_xlabel("message size")
    for axes in panels.flat[len(cases) :]:
        axes.axis("off")
    for row in panels:
        row[0].set_ylabel("bus bandwidth (GB/s)")
    figure.legend(*panels[0][0].get_legend_handles_labels(), ncols=4, loc="outside lower center")
    return figure


def plot_errors(error: pd.DataFrame) -> Figure:
    """Draw the median error of forecasts by class of sizes and transport."""
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.3), sharey=True)
    for axes, (transport, words) in zip(
        panels, (("P2P", "direct copies"), ("SHM", "through host memory")), strict=True
    ):
        part = error[error["transport"] == transport].set_index(["size_class", "forecast"])["median"]
        for shift, (name, (label, colour)) in enumerate(_NAMES.items()):
            heights = [100 * float(part.get((size_class, name), np.nan)) for size_class in _CLASSES]
            x = np.arange(len(_CLASSES)) + 0.21 * (shift - 1.5)
            axes.bar(x, heights, width=0.2, color=colour, label=label)
            for place, height in zip(x, heights, strict=True):
                if not math.isnan(height):
                    axes.text(place, height + 1, f"{height:.0f}", ha="center", fontsize=7)
        axes.set_xticks(np.arange(len(_CLASSES)), _CLASSES)
        axes.set_title(words, fontsize=8)
    panels[0].set_ylabel("median error (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=4, loc="outside lower center")
    return figure


def plot_choices(time: pd.DataFrame, machine: pd.DataFrame) -> Figure:
    """Draw NCCL's protocol by size and machine."""
    gpu = machine.set_index("system")["gpu"]
    rows = time[time["operation"] == "all_reduce"]
    systems = sorted(rows["system"].unique(), reverse=True)
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, 0.24 * len(systems) + 1.0))
    for y, system in enumerate(systems):
        for row in rows[rows["system"] == system].to_dict("records"):
            power = math.log2(row["size_bytes"])
            axes.barh(y, 0.95, left=power - 0.475, height=0.8, color=_PROTOCOLS[row["protocol"]])
    axes.set_yticks(range(len(systems)), [f"{gpu[one]} ({_system_title(one)})" for one in systems])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(2.0**value)))
    axes.set_xticks(range(10, 31, 5))
    axes.set_xlabel("message size")
    used = [name for name in _PROTOCOLS if name in set(rows["protocol"])]
    axes.legend(
        handles=[Patch(color=_PROTOCOLS[name], label=name.upper() if name != "simple" else "Simple") for name in used],
        fontsize=7,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    return figure


def plot_card(time: pd.DataFrame, machine: pd.DataFrame) -> Figure:
    """Draw the bus bandwidth of one machine, measured and forecast."""
    cases = _all_reduce(time[time["transport"] == "P2P"], machine) or _all_reduce(time, machine)
    name, part, ranks = max(cases, key=lambda case: (len(case[1]), case[0]))
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, 2.2))
    _panel(axes, part, ranks)
    axes.set_ylabel("bus bandwidth (GB/s)")
    axes.set_title(f"all_reduce of {ranks} GPUs ({_system_title(name)})", fontsize=8)
    axes.legend()
    return figure


def _cluster_cases(time: pd.DataFrame) -> list[tuple[str, pd.DataFrame, int]]:
    """Return title, rows and ranks of one machine for each class with most measured sizes of all_reduce."""
    is_plain = (time["operation"] == "all_reduce") & (time["algorithms"] == "")
    rows = time[is_plain & (time["nodes"] <= _FITTED_NODES)]
    cases: dict[str, tuple[tuple[int, int], str, pd.DataFrame, int]] = {}
    for _, part in rows.groupby(["system", "nodes", "ranks"], sort=True):
        first = part.iloc[0]
        nodes, ranks, kind = int(first["nodes"]), int(first["ranks"]), f"{first['gpu']} {first['machine_class']}"
        # Of equal numbers of sizes, the case with more nodes up to 16.
        rank = (len(part), nodes if nodes <= _MANY_NODES else 0)
        if kind not in cases or rank > cases[kind][0]:
            family, network = (str(first[name]).replace("-", " ").split(" ")[0] for name in ("gpu", "machine_class"))
            title = f"{ranks // nodes} x {family}"
            title = title if nodes == 1 else f"{nodes} nodes, {title}, {network}"
            cases[kind] = (rank, title, part, ranks)
    largest = sorted(cases.values(), key=lambda case: (-case[0][0], case[1]))[:_CLASSES_SHOWN]
    return [(title, part, ranks) for _, title, part, ranks in sorted(largest, key=lambda case: case[1])]


def plot_clusters(time: pd.DataFrame) -> Figure:
    """Draw the bus bandwidth of large all_reduce on NVLink nodes and clusters, and the ratio of all times below it."""
    cases, columns = _cluster_cases(time), ("forecast_s", "nccl_s")
    lines = max(1, -(-len(cases) // _COLUMNS))
    size = (PAGE_WIDTH_IN, 3.0 * lines + 0.4)
    figure, panels = plt.subplots(2 * lines, _COLUMNS, figsize=size, squeeze=False, height_ratios=[1.3, 1] * lines)
    for number, (title, part, ranks) in enumerate(cases):
        line, column = divmod(number, _COLUMNS)
        _large_panel(panels[2 * line, column], part, ranks, columns)
        _ratio_panel(panels[2 * line + 1, column], part, columns)
        panels[2 * line, column].set_title(title, fontsize=8)
    for number in range(len(cases), lines * _COLUMNS):
        line, column = divmod(number, _COLUMNS)
        panels[2 * line, column].axis("off")
        panels[2 * line + 1, column].axis("off")
    for line in range(lines):
        panels[2 * line, 0].set_ylabel("bus bandwidth (GB/s)")
        panels[2 * line + 1, 0].set_ylabel("time / measured")
    for axes in panels[1::2].flat:
        axes.set_xlabel("message size")
    figure.legend(*panels[0][0].get_legend_handles_labels(), ncols=4, loc="outside lower center")
    return figure


def _large_panel(axes: Axes, rows: pd.DataFrame, ranks: int, columns: tuple[str, ...]) -> None:
    """Draw measured and forecast bus bandwidth of large sizes on a linear axis, over the axis of all sizes."""
    every = rows["size_bytes"]
    rows = rows[rows["size_bytes"] >= _LARGE_BYTES].sort_values("size_bytes")
    scale = rows["size_bytes"] * _bus_factor(ranks) / 1e9
    for name in columns:
        label, colour, line = _FORECASTS[name]
        axes.plot(rows["size_bytes"], scale / rows[name], line, color=colour, linewidth=1, label=label)
    axes.plot(rows["size_bytes"], scale / rows["measured_s"], "o", color="black", markersize=2.2, label="measured")
    axes.set_ylim(bottom=0)
    # The panel of ratios below has all sizes.
    axes.update_datalim([(every.min(), 0), (every.max(), 0)])
    axes.autoscale_view()
    axes.set_ylim(bottom=0)
    _size_axis(axes, every)


def _ratio_panel(axes: Axes, rows: pd.DataFrame, columns: tuple[str, ...]) -> None:
    """Draw forecast times relative to measured ones, with the band of 15 %."""
    rows = rows.sort_values("size_bytes")
    axes.axhspan(1 / (1 + _BAND), 1 + _BAND, color="0.9", zorder=0)
    axes.axhline(1.0, color="0.4", linewidth=0.8)
    for name in columns:
        _, colour, line = _FORECASTS[name]
        axes.plot(rows["size_bytes"], rows[name] / rows["measured_s"], line, color=colour, linewidth=1)
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.35, 2.8)
    axes.set_yticks([0.5, 1.0, 2.0], ["0.5", "1", "2"])
    axes.minorticks_off()
    _size_axis(axes, rows["size_bytes"])


def plot_scale(time: pd.DataFrame) -> Figure:
    """Draw all_reduce over the number of nodes: times on one cluster, and rates of nodes of eight H100 or H200."""
    rows = time[(time["operation"] == "all_reduce") & (time["algorithms"] == "")]
    figure, (above, below) = plt.subplots(2, figsize=(COLUMN_WIDTH_IN, 4.6), height_ratios=[1.2, 1])
    _times_over_nodes(above, rows[rows["nodes"] <= _SHOWN_NODES])
    _rates_over_nodes(below, rows[(rows["ranks"] == 8 * rows["nodes"]) & rows["gpu"].str.startswith(("H100", "H200"))])
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles, labels, ncols=3, loc="outside lower center")
    return figure


def _times_over_nodes(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the time of three sizes over the number of nodes on the cluster with most node counts."""
    counts = rows.groupby("system")["nodes"].nunique()
    rows = rows[rows["system"] == counts.idxmax()]
    for size, colour in _SCALE_SIZES.items():
        part = rows[rows["size_bytes"] == size].sort_values("nodes")
        axes.plot(part["nodes"], part["forecast_s"] * 1e6, "-", color=colour, linewidth=1, label=size_name(size))
        axes.plot(part["nodes"], part["measured_s"] * 1e6, "o", color=colour, markersize=3)
    axes.axvline(_FITTED_NODES * 2**0.5, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    _node_axis(axes, rows["nodes"])
    axes.set_ylabel("time (µs)")
    axes.set_title(f"4 x {rows['gpu'].iloc[0]} a node, Slingshot", fontsize=8)
    axes.plot([], [], "o", color="0.4", markersize=3, label="measured")
    axes.plot([], [], "-", color="0.4", linewidth=1, label="forecast")
    axes.plot([], [], ":", color="0.6", linewidth=0.8, label="largest fitted")


def _rates_over_nodes(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the bus bandwidth of the largest size of each machine over its number of nodes."""
    largest = rows.sort_values("size_bytes").groupby(["system", "nodes"], sort=True).tail(1)
    scale = largest["size_bytes"] * 2 * (largest["ranks"] - 1) / largest["ranks"] / 1e9
    axes.plot(largest["nodes"], scale / largest["forecast_s"], "_", color="0.3", markersize=11, markeredgewidth=1.4)
    axes.plot(largest["nodes"], scale / largest["measured_s"], "o", color="0.3", markersize=3)
    if not largest.empty:
        axes.set_ylim(0, 1.1 * float(max((scale / largest[name]).max() for name in ("forecast_s", "measured_s"))))
    _node_axis(axes, largest["nodes"])
    axes.set_xlabel("nodes")
    axes.set_ylabel("bus bandwidth (GB/s)")
    axes.set_title("8 x H100 or H200 a node, largest size (dash: forecast)", fontsize=8)


def _node_axis(axes: Axes, counts: pd.Series) -> None:
    nodes = sorted(counts.unique())
    axes.set_xscale("log", base=2)
    axes.set_xticks(nodes, [str(count) for count in nodes])
    axes.minorticks_off()


#: Paths of single copies: title, kinds, whether over NVLink or xGMI (None: either), colour and marker.
_PATHS = (
    ("direct, over NVLink or xGMI", ("one_way_p2p",), True, COLOURS[1], "D"),
    ("direct, over PCIe", ("one_way_p2p",), False, COLOURS[0], "o"),
    ("host memory and GPU", ("host_to_device", "device_to_host"), None, COLOURS[3], "^"),
    ("through host memory", ("one_way_staged",), None, COLOURS[2], "s"),
)
_LINKED = r"^(?:NV|xGMI)"
#: Raw rate of a link of PCIe Gen5 x16 in GB/s: faster copies pass over another link.
_FASTEST_PCIE_GB = 63.1


def plot_pair_rates(rates: pd.DataFrame) -> Figure:
    """Draw the rate of single copies of each public machine, by model of the GPU and path."""
    rows = rates[rates["kind"].isin([kind for _, kinds, *_ in _PATHS for kind in kinds])]
    # Names may have a remark in parentheses.
    rows = rows.assign(model=rows["gpu"].str.replace(r" \(.*", "", regex=True), gb=rows["rate_bytes_per_s"] / 1e9)
    rows = rows[rows["model"] != "not said"]
    order = rows.groupby("model")["gb"].max().sort_values(kind="stable").index
    place = {name: number for number, name in enumerate(order)}
    size = (COLUMN_WIDTH_IN, 0.17 * len(order) + 1.0)
    figure, (over_pcie, over_links) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=[1.6, 1])
    for title, kinds, is_linked, colour, marker in _PATHS:
        part = rows[rows["kind"].isin(kinds)]
        if is_linked is not None:
            part = part[part["path_class"].str.contains(_LINKED) == is_linked]
        best = part.groupby(["machine", "model", "path_class"])["gb"].max().reset_index()
        # The processors of POWER9 and GH200 have NVLink.
        is_pcie = (best["gb"] <= _FASTEST_PCIE_GB) & (is_linked is not True)
        for axes, shown in ((over_pcie, best[is_pcie]), (over_links, best[~is_pcie])):
            axes.plot(
                shown["gb"],
                shown["model"].map(place),
                linestyle="none",
                marker=marker,
                markersize=3.5,
                markerfacecolor="none",
                color=colour,
                label=title if (axes is over_links) == (is_linked is True) else "_",
            )
    over_pcie.set_yticks(range(len(order)), order)
    over_pcie.set_ylim(-0.6, len(order) - 0.4)
    for axes, title in ((over_pcie, "over PCIe"), (over_links, "NVLink, xGMI")):
        axes.set_xlim(left=0)
        axes.set_title(title, fontsize=7)
    figure.supxlabel("one copy (GB/s)", fontsize=8)
    figure.legend(ncols=2, loc="outside upper center", columnspacing=0.8, handletextpad=0.3)
    return figure
