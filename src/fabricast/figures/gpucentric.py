"""Figures of the GPU-centric study; titles state if results depend on assumed parameters."""

from __future__ import annotations

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, size_name, statements_at_left
from fabricast.gpucentric.methods import METHODS, allreduce_time_s, message_time_s, powers_w, without_peer_limit
from fabricast.gpucentric.statements import ALLREDUCE_NODES

#: Payload in bytes of the allreduce; the slide specifies none.
_ALLREDUCE_BYTES = 4096.0
#: Number of points per doubling of the message size.
_STEPS = 16
_ASSUMED = "uses assumed parameters"
#: Panel titles of systems with their MPI library.
_TITLES = {
    "lassen_mvapich": "Lassen, MVAPICH",
    "lassen_spectrum": "Lassen, Spectrum MPI",
    "summit_spectrum": "Summit, Spectrum MPI",
}
#: Colours of the components of a node.
_PART_COLOURS = (COLOURS[5], COLOURS[4], COLOURS[2], COLOURS[3])
#: One colour per method in all figures.
_METHOD_COLOURS = dict(zip(METHODS, COLOURS, strict=False))


def _values(parameter: pd.DataFrame) -> dict[str, float]:
    rows = parameter[(parameter["study"] == "gpucentric") & (parameter["system"] == "k20_extoll")]
    return dict(zip(rows["name"], rows["value"].astype(float), strict=True))


def plot_curves(parameter: pd.DataFrame) -> Figure:
    """Draw latency and bandwidth of the methods by message size."""
    value = _values(parameter)
    # Points between powers of two, so that a jump is drawn as a jump.
    size = 2.0 ** (np.arange(0, 22 * _STEPS + 1) / _STEPS + 3)
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.9))
    for name in ("mpi", "ggas", "verbs", "rma", "rma_host"):
        colour = _METHOD_COLOURS[name]
        time = message_time_s(name, value, size)
        small = size <= 2.0**16
        line = ":" if name == "verbs" else "-"
        left.plot(size[small], time[small] * 1e6, color=colour, linestyle=line, label=METHODS[name].title)
        # Verbs and RMA have the same peak rate: dots of verbs stay visible on the line of RMA.
        right.plot(size, size / time / 1e9, color=colour, linestyle=line, zorder=3 if name == "verbs" else 2)
        if name == "rma":
            free = message_time_s(name, without_peer_limit(value), size)
            right.plot(
                size, size / free / 1e9, color=colour, linestyle="--", linewidth=1, label="without the read limit"
            )
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("message size (bytes)")
        axes.set_title(f"model, {_ASSUMED}", fontsize=7)
    right.axvline(value["peer_knee"], color="0.4", linewidth=0.8, zorder=1)
    left.set_yscale("log")
    left.set_ylabel("time (µs)")
    right.set_ylabel("bandwidth (GB/s)")
    handles = [*left.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, ncols=3, loc="outside lower center")
    return figure


def plot_allreduce_power(parameter: pd.DataFrame) -> Figure:
    """Draw the power of a node during one small allreduce, by component; areas are energies."""
    value = _values(parameter)
    names = ("mpi", "ggas")
    ends = {name: float(allreduce_time_s(name, value, _ALLREDUCE_BYTES, ALLREDUCE_NODES)) * 1e6 for name in names}
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.7), sharex=True, sharey=True)
    for axes, name in zip(panels, names, strict=True):
        parts = powers_w(name, value)
        below = 0.0
        for (part, watts), colour in zip(parts.items(), _PART_COLOURS, strict=True):
            axes.fill_between([0, ends[name]], below, below + sum(watts), color=colour, linewidth=0, label=part.upper())
            below += sum(watts)
        idle = sum(watts[0] for watts in parts.values())
        energy_mj, rest_mj = below * ends[name] / 1e3, idle * (max(ends.values()) - ends[name]) / 1e3
        axes.fill_between(
            [ends[name], max(ends.values())],
            0,
            idle,
            facecolor="none",
            edgecolor="0.6",
            hatch="////",
            linewidth=0,
            label="idle node",
        )
        also = f" ({energy_mj + rest_mj:.3g} mJ until {names[0].upper()} ends)" if rest_mj > 0 else ""
        axes.set_title(f"{METHODS[name].title}\n{energy_mj:.3g} mJ{also}")
        axes.set_xlabel("time (µs)")
    panels[0].set(xlim=(0, 1.05 * max(ends.values())), ylim=(0, None), ylabel="power of a node (W)")
    figure.suptitle(
        f"allreduce of {size_name(_ALLREDUCE_BYTES)} on {ALLREDUCE_NODES} nodes, model, {_ASSUMED}", fontsize=8
    )
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=5, loc="outside lower center")
    return figure


def plot_robustness(statement: pd.DataFrame) -> Figure:
    """Draw the share of samples of the assumed parameters in which each statement holds."""
    rows = statement.sort_values("statement", ascending=False).to_dict("records")
    looks = {
        "assumed values": (COLOURS[0], "o"),
        "structure": (ASSUMED_COLOUR, "s"),
        "published numbers": ("0.35", "^"),
    }
    texts = [textwrap.fill(f"{row['statement']} {row['text']}", 68) for row in rows]
    # Two lines of text need more space than one.
    heights = [1.0 + 0.65 * text.count("\n") for text in texts]
    places = np.cumsum(heights) - np.array(heights) / 2
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 0.2 * sum(heights) + 0.9))
    for y, row in zip(places, rows, strict=True):
        share, (colour, marker) = 100 * row["share_of_draws"], looks[row["decided_by"]]
        axes.hlines(y, 0, share, color=colour, linewidth=1)
        axes.plot(share, y, marker, color=colour, markerfacecolor=colour if row["passed"] else "white", clip_on=False)
    statements_at_left(axes, places, texts)
    axes.grid(visible=False, axis="y")
    axes.set(xlim=(0, 100), ylim=(0, sum(heights)))
    axes.set_xlabel("samples in which it holds (%)")
    handles = [
        Line2D([], [], marker=marker, color=colour, label=f"decided by {name}")
        for name, (colour, marker) in looks.items()
    ]
    handles.append(
        Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            color="black",
            markerfacecolor="white",
            label="fails with the default values",
        )
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def plot_map(choice: pd.DataFrame, system: str) -> Figure:
    """Draw the best method by message size and overlap on 8 nodes."""
    rows = choice[(choice["system"] == system) & (choice["nodes"] == 8)]
    methods = [name for name in METHODS if name in set(rows["method"])]
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.6), sharey=True)
    for axes, objective in zip(panels, ("time", "energy"), strict=True):
        objective_rows = rows[rows["objective"] == objective].assign(number=lambda r: r["method"].map(methods.index))
        number = objective_rows.pivot(index="overlap", columns="size_bytes", values="number")
        tie = objective_rows.pivot(index="overlap", columns="size_bytes", values="tie").to_numpy(dtype=bool)
        axes.pcolormesh(
            np.arange(number.shape[1] + 1),
            np.arange(number.shape[0] + 1),
            number.to_numpy(),
            vmin=-0.5,
            vmax=len(methods) - 0.5,
            cmap=ListedColormap([_METHOD_COLOURS[name] for name in methods]),
            edgecolors="white",
            linewidth=0.4,
        )
        row, column = np.nonzero(tie)
        axes.plot(column + 0.5, row + 0.5, ".", color="white", markersize=3)
        sizes = number.columns.to_numpy(dtype=np.float64)
        axes.set_xticks(np.arange(0, number.shape[1], 4) + 0.5, [size_name(size) for size in sizes[::4]])
        axes.set_yticks(np.arange(number.shape[0]) + 0.5, [f"{v:g}" for v in number.index])
        axes.set_xlabel("message size")
        axes.set_title(f"least {objective}, 8 nodes; {_ASSUMED}", fontsize=7)
        axes.grid(visible=False)
    panels[0].set_ylabel("overlap (share of a transfer)")
    handles = [Patch(color=_METHOD_COLOURS[name], label=METHODS[name].title) for name in methods]
    dot = Line2D([], [], marker=".", linestyle="", color="0.3", label="dot: leads by less than 10 % of the step")
    figure.legend(handles=[*handles, dot], ncols=2, loc="outside lower center")
    return figure


def plot_measured_paths(path: pd.DataFrame) -> Figure:
    """Draw measured times of the staged and the direct path with two models."""
    systems = sorted(set(path["system"]))
    figure, panels = plt.subplots(1, len(systems), figsize=(PAGE_WIDTH_IN, 2.7), sharey=True)
    for axes, system in zip(np.atleast_1d(panels), systems, strict=True):
        for name, colour, marker in (("staged", COLOURS[0], "o"), ("direct", COLOURS[1], "s")):
            for model, style in (("two_parameters", "--"), ("piecewise_unseen", "-")):
                line = path[(path["system"] == system) & (path["model"] == model)].sort_values("size_bytes")
                axes.plot(line["size_bytes"], line[f"modelled_{name}_s"] * 1e6, style, color=colour, linewidth=0.9)
            axes.plot(line["size_bytes"], line[f"{name}_s"] * 1e6, marker, color=colour, markersize=3, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(_TITLES.get(system, system), fontsize=8)
        axes.set_xlabel("message size (bytes)")
    np.atleast_1d(panels)[0].set_ylabel("one-way time (µs)")
    handles, labels = np.atleast_1d(panels)[0].get_legend_handles_labels()
    handles += [
        Line2D([], [], color="black", linewidth=0.9, linestyle="--"),
        Line2D([], [], color="black", linewidth=0.9, linestyle="-"),
    ]
    labels += ["start-up and rate", "piecewise, fitted without this size"]
    figure.legend(handles, labels, ncols=4, loc="outside upper center")
    return figure


_CLASSES = {
    "host_to_device.pinned": "to the GPU, pinned",
    "device_to_host.pinned": "to the host, pinned",
    "host_to_device.pageable": "to the GPU, pageable",
    "device_to_host.pageable": "to the host, pageable",
    "device_to_device": "within the GPU",
    "peer": "to the next GPU",
}


def plot_this_gpu(measurement: pd.DataFrame, prediction: pd.DataFrame) -> Figure:
    """Draw the measurements of a run on the user's GPU."""
    power = measurement[(measurement["quantity"] == "power") & (measurement["memory"] == "gpu")]
    widths = [1.6, 1, 1] if len(power) else [1.6, 1]
    figure, panels = plt.subplots(1, len(widths), figsize=(PAGE_WIDTH_IN, 2.9), width_ratios=widths)
    times = measurement[
        (measurement["quantity"] == "time") & (measurement["clock"] == "host") & (measurement["size_bytes"] > 0)
    ]
    key = (times["item"] + "." + times["memory"]).str.strip(".")
    for (name, label), colour, marker in zip(_CLASSES.items(), COLOURS, "os^vDP", strict=False):
        part = times[key == name].sort_values("size_bytes")
        if part.empty:
            continue
        panels[0].plot(part["size_bytes"], part["value"] * 1e6, marker, color=colour, markersize=3, label=label)
        fit = prediction[prediction["item"] == name]
        size = fit["case_id"].str.split("/").str[-1].astype(float)
        order = size.argsort()
        panels[0].plot(size.iloc[order], fit["value"].iloc[order] * 1e6, "-", color=colour, linewidth=0.9)
    panels[0].set_xscale("log", base=2)
    panels[0].set_yscale("log")
    panels[0].set_xlabel("size of a copy (bytes)")
    panels[0].set_ylabel("time of a copy (µs)")
    panels[0].legend()

    rates = measurement[(measurement["quantity"] == "rate") & (measurement["item"] != "store")]
    several = rates[rates["copies"] > 1].sort_values(["copies", "item"])
    isolated_rate = rates.loc[rates["copies"] == 1, "value"].mean()
    panels[1].barh(several["item"], several["value"] / several["copies"] / isolated_rate, color=COLOURS[0])
    panels[1].axvline(1, color="black", linewidth=0.8)
    panels[1].set_xlabel("rate of each copy /\nisolated copy")
    if len(power):
        power = power.sort_values("value")
        panels[2].barh(power["item"], power["value"], color=COLOURS[1])
        panels[2].set_xlabel("mean power\nof the GPU (W)")
    figure.suptitle(str(measurement["gpu"].iloc[0]), fontsize=8)
    return figure


def plot_feasible(feasible: pd.DataFrame, parameter: pd.DataFrame) -> Figure:
    """Draw the rates of stores and peer-to-peer reads that agree with the talk."""
    state = feasible.assign(number=feasible["small_holds"].astype(int) + 2 * feasible["large_holds"].astype(int))
    table = state.pivot(index="peer_rate_large", columns="store_rate", values="number")
    labels = ("neither", "only: GGAS fastest, small", "only: MPI fastest, large", "both")
    colours = ("#dddddd", COLOURS[5], COLOURS[4], COLOURS[2])
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 3.2))
    axes.pcolormesh(
        table.columns.to_numpy() / 1e9,
        table.index.to_numpy() / 1e9,
        table.to_numpy(),
        vmin=-0.5,
        vmax=3.5,
        cmap=ListedColormap(list(colours)),
        shading="nearest",
        rasterized=True,
    )
    value = _values(parameter)
    axes.plot(value["store_rate"] / 1e9, value["peer_rate_large"] / 1e9, "k*", markersize=9, label="default (assumed)")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rate of remote stores (GB/s)")
    axes.set_ylabel("peer-to-peer reads,\nlarge payloads (GB/s)")
    axes.grid(visible=False)
    handles = [Patch(color=colour, label=label) for label, colour in zip(labels, colours, strict=True)]
    marked = axes.get_legend_handles_labels()[0]
    figure.legend(handles=[*handles, *marked], ncols=5, loc="outside upper center")
    return figure
