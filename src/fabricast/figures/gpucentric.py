"""Figures of the GPU-centric study; titles state if results depend on assumed parameters."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS, MORE_COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN, size_name
from fabricast.gpucentric.methods import (
    CONTROLS,
    METHODS,
    allreduce_time_s,
    message_time_s,
    powers_w,
    without_peer_limit,
)
from fabricast.gpucentric.statements import ALLREDUCE_BYTES, ALLREDUCE_NODES

__all__ = [
    "plot_allreduce_power",
    "plot_controls",
    "plot_curves",
    "plot_feasible",
    "plot_map",
    "plot_measured_paths",
    "plot_robustness",
    "plot_this_gpu",
    "plot_workloads",
]

#: Number of points per doubling of the message size.
_STEPS = 16
_ASSUMED = "uses assumed parameters"
_MARKERS = "os^DvP"
#: Panel titles of workloads, and of systems with their MPI library.
_TITLES = {
    "sum_small": "sum, small", "sum_large": "sum, large", "nbody_small": "n-body, small",
    "nbody_large": "n-body, large", "random_access": "random access", "himeno": "Himeno",
    "lassen_mvapich": "Lassen, MVAPICH", "lassen_spectrum": "Lassen, Spectrum MPI",
    "summit_spectrum": "Summit, Spectrum MPI",
}  # fmt: skip
#: Colours of the forms of control, distinct from those of methods.
_CONTROL_COLOURS = (COLOURS[6], COLOURS[5], COLOURS[4], MORE_COLOURS[1])
#: One colour per method in all figures.
_METHOD_COLOURS = dict(zip(METHODS, COLOURS, strict=False))


def _values(parameter: pd.DataFrame) -> dict[str, float]:
    rows = parameter[(parameter["study"] == "gpucentric") & (parameter["system"] == "k20_extoll")]
    return dict(zip(rows["name"], rows["value"].astype(float), strict=True))


def plot_controls(control: pd.DataFrame) -> Figure:
    """Draw performance and energy of the forms of control relative to CPU control.

    Parameters
    ----------
    control : pandas.DataFrame
        Rows of the table gpucentric_control.

    Returns
    -------
    matplotlib.figure.Figure
        Left performance, right energy, by grid; pale lines are the range over varied assumptions.
    """
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 3.1))
    grids = sorted(set(control["grid"]), key=lambda grid: [int(side) for side in grid.split("x")])
    forms = [name for name in CONTROLS if name in set(control["control"])]
    for axes, quantity in zip(panels, ("performance", "energy"), strict=True):
        for number, (name, colour, marker) in enumerate(zip(forms, _CONTROL_COLOURS, _MARKERS, strict=False)):
            rows = control[control["control"] == name].set_index("grid").loc[grids]
            # Marks are shifted, so that nearly equal forms all stay visible.
            x = np.arange(len(grids)) + 0.16 * (number - (len(forms) - 1) / 2)
            axes.vlines(x, rows[f"{quantity}_low"], rows[f"{quantity}_high"], color=colour, alpha=0.35,
                        linewidth=2)  # fmt: skip
            axes.plot(x, rows[quantity], marker=marker, markersize=3, color=colour, linestyle="none",
                      label="CPU" if name == "cpu" else name.replace("_", "-"))  # fmt: skip
        axes.set_xticks(range(len(grids)), grids, rotation=90, fontsize=6)
        axes.set_xlabel("grid of slides 9 and 10 (points)")
        axes.set_ylabel(f"{quantity} / CPU control")
        axes.set_title(f"model, {_ASSUMED}", fontsize=7)
    handles, labels = panels[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color=ASSUMED_COLOUR, linewidth=2))
    labels.append("range over varied assumptions")
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=6)
    return figure


def plot_curves(parameter: pd.DataFrame) -> Figure:
    """Draw latency and bandwidth of the methods by message size.

    Parameters
    ----------
    parameter : pandas.DataFrame
        Rows of the table parameter.

    Returns
    -------
    matplotlib.figure.Figure
        Left time of small messages, right bandwidth; RMA also without the limit of peer-to-peer reads.
    """
    value = _values(parameter)
    # Points between powers of two, so that a jump is drawn as a jump.
    size = 2.0 ** (np.arange(0, 22 * _STEPS + 1) / _STEPS + 3)
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.9))
    for name in ("mpi", "ggas", "verbs", "rma", "rma_host"):
        colour = _METHOD_COLOURS[name]
        time = message_time_s(name, value, size)
        small = size <= 2.0**16
        left.plot(size[small], time[small] * 1e6, color=colour, label=METHODS[name].title)
        # Verbs and RMA have the same peak rate: the wider line of verbs stays visible below that of RMA.
        right.plot(size, size / time / 1e9, color=colour, linewidth=3.2 if name == "verbs" else None)
        if name == "rma":
            free = message_time_s(name, without_peer_limit(value), size)
            right.plot(
                size, size / free / 1e9, color=colour, linestyle="--", linewidth=1, label="without the read limit"
            )
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("message size (bytes)")
        axes.set_title(f"model, {_ASSUMED}", fontsize=7)
    left.set_yscale("log")
    left.set_ylabel("time (µs)")
    right.set_ylabel("bandwidth (GB/s)")
    left.legend(fontsize=5.5)
    right.legend(fontsize=6)
    return figure


def plot_allreduce_power(parameter: pd.DataFrame) -> Figure:
    """Draw the power of a node during one small allreduce; areas are energies.

    Parameters
    ----------
    parameter : pandas.DataFrame
        Rows of the table parameter.

    Returns
    -------
    matplotlib.figure.Figure
        One step curve for MPI and one for GGAS.
    """
    value = _values(parameter)
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 2.6))
    idle = sum(part[0] for part in powers_w("ggas", value).values())
    for name in ("mpi", "ggas"):
        colour = _METHOD_COLOURS[name]
        end = float(allreduce_time_s(name, value, ALLREDUCE_BYTES, ALLREDUCE_NODES)) * 1e6
        power = sum(sum(part) for part in powers_w(name, value).values())
        axes.fill_between([0, end], [power, power], step="post", alpha=0.25, color=colour, linewidth=0)
        axes.step([0, end, end], [power, power, idle], where="post", color=colour,
                  label=f"{METHODS[name].title}: {power * end / 1e3:.2f} mJ")  # fmt: skip
    axes.axhline(idle, color=ASSUMED_COLOUR, linestyle=":", linewidth=1, label="idle (assumed)")
    axes.set_xlabel("time (µs)")
    axes.set_ylabel("power of a node (W)")
    axes.set_ylim(0, None)
    axes.set_title(
        f"allreduce of {size_name(ALLREDUCE_BYTES)} on {ALLREDUCE_NODES} nodes, model, {_ASSUMED}", fontsize=7
    )
    figure.legend(fontsize=6, ncols=3, loc="outside upper center")
    return figure


def plot_workloads(workload: pd.DataFrame, quantity: str) -> Figure:
    """Draw performance or energy of the methods relative to MPI, for six workloads.

    Parameters
    ----------
    workload : pandas.DataFrame
        Rows of the table gpucentric_workload.
    quantity : {'performance_ratio', 'energy_ratio'}
        Column of the table to draw.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per workload, by number of nodes.
    """
    figure, panels = plt.subplots(2, 3, figsize=(PAGE_WIDTH_IN, 3.8), sharex=True)
    names = list(dict.fromkeys(workload["workload"]))
    for axes, name in zip(panels.flat, names, strict=True):
        rows = workload[workload["workload"] == name]
        for method, marker in zip(("mpi", "ggas", "rma"), _MARKERS, strict=False):
            colour = _METHOD_COLOURS[method]
            line = rows[rows["method"] == method].sort_values("nodes")
            axes.plot(
                line["nodes"],
                line[quantity],
                marker=marker,
                markersize=3,
                color=colour,
                label=method.upper(),
            )
        axes.set_title(_TITLES[name], fontsize=8)
        axes.set_ylim(0, 1.15 * float(rows[quantity].max()))
    for axes in panels[1]:
        axes.set_xlabel("nodes")
    for axes in panels[:, 0]:
        axes.set_ylabel("performance / MPI" if quantity.startswith("perf") else "energy / MPI")
    panels[0, 0].legend(fontsize=6)
    figure.suptitle(f"model, slide bars unavailable; {_ASSUMED}", fontsize=7)
    return figure


def plot_robustness(statement: pd.DataFrame) -> Figure:
    """Draw the share of samples of the assumed parameters in which each statement holds.

    Parameters
    ----------
    statement : pandas.DataFrame
        Rows of the table gpucentric_statement.

    Returns
    -------
    matplotlib.figure.Figure
        One bar per statement; grey if it does not depend on assumed values.
    """
    rows = statement.sort_values("statement", ascending=False)
    colours = {"assumed values": COLOURS[0], "structure": ASSUMED_COLOUR, "published numbers": "0.35"}
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 4.2))
    axes.barh(
        range(len(rows)), 100 * rows["share_of_draws"], color=[colours[name] for name in rows["decided_by"]], alpha=0.45
    )
    for y, (passed, text) in enumerate(zip(rows["passed"], rows["text"], strict=True)):
        axes.text(1.5, y, f"{'' if passed else 'default fails: '}{text}", va="center", fontsize=5.2, color="black")
    axes.set_yticks(range(len(rows)), rows["statement"].tolist(), fontsize=6)
    axes.grid(visible=False)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of samples in which it holds, assumed values from half to double (%)")
    handles = [Patch(color=colour, alpha=0.45, label=f"decided by {name}") for name, colour in colours.items()]
    axes.legend(handles=handles, fontsize=6, loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=3)
    return figure


def plot_map(choice: pd.DataFrame, system: str) -> Figure:
    """Draw the best method by message size and overlap on 8 nodes.

    Parameters
    ----------
    choice : pandas.DataFrame
        Rows of the table gpucentric_choice.
    system : str
        System.

    Returns
    -------
    matplotlib.figure.Figure
        Left by time, right by energy; pale cells are ties.
    """
    rows = choice[(choice["system"] == system) & (choice["nodes"] == 8)]
    methods = [name for name in METHODS if name in set(rows["method"])]
    figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.6), sharey=True)
    for axes, objective in zip(panels, ("time", "energy"), strict=True):
        objective_rows = rows[rows["objective"] == objective].assign(number=lambda r: r["method"].map(methods.index))
        number = objective_rows.pivot(index="overlap", columns="size_bytes", values="number")
        tie = objective_rows.pivot(index="overlap", columns="size_bytes", values="tie").to_numpy(dtype=bool)
        axes.pcolormesh(
            np.arange(number.shape[1] + 1), np.arange(number.shape[0] + 1), number.to_numpy(), vmin=-0.5,
            vmax=len(methods) - 0.5, cmap=ListedColormap([_METHOD_COLOURS[name] for name in methods]),
            edgecolors="white", linewidth=0.4, alpha=np.where(tie, 0.4, 1.0),
        )  # fmt: skip
        sizes = number.columns.to_numpy(dtype=np.float64)
        axes.set_xticks(np.arange(0, number.shape[1], 4) + 0.5, [size_name(size) for size in sizes[::4]])
        axes.set_yticks(np.arange(number.shape[0]) + 0.5, [f"{v:g}" for v in number.index])
        axes.set_xlabel("message size")
        axes.set_title(f"least {objective}, 8 nodes; {_ASSUMED}", fontsize=7)
        axes.grid(visible=False)
    panels[0].set_ylabel("overlap (share of a transfer)")
    handles = [Patch(color=_METHOD_COLOURS[name], label=METHODS[name].title) for name in methods]
    handles.append(Patch(color="0.3", alpha=0.4, label="pale: leads by less than 10 % of the step"))
    figure.legend(handles=handles, fontsize=6, ncols=3, loc="outside lower center")
    return figure


def plot_measured_paths(path: pd.DataFrame) -> Figure:
    """Draw measured times of the staged and the direct path with two models.

    Parameters
    ----------
    path : pandas.DataFrame
        Rows of the table gpucentric_path.

    Returns
    -------
    matplotlib.figure.Figure
        Points are measurements; dashed lines have two parameters, solid lines are piecewise interpolations that leave
        out the size itself.
    """
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
    figure.legend(handles, labels, fontsize=6, ncols=4, loc="outside upper center")
    return figure


_CLASSES = {
    "host_to_device.pinned": "to the GPU, pinned", "device_to_host.pinned": "to the host, pinned",
    "host_to_device.pageable": "to the GPU, pageable", "device_to_host.pageable": "to the host, pageable",
    "device_to_device": "within the GPU", "peer": "to the next GPU",
}  # fmt: skip


def plot_this_gpu(measurement: pd.DataFrame, prediction: pd.DataFrame) -> Figure:
    """Draw the measurements of a run on the user's GPU.

    Parameters
    ----------
    measurement : pandas.DataFrame
        Rows of the table gpucentric_measurement.
    prediction : pandas.DataFrame
        Rows of the table prediction: the fits of the same copies.

    Returns
    -------
    matplotlib.figure.Figure
        Copy times with fitted start-up time and rate (lines), rates of concurrent copies relative to an isolated
        copy, and mean powers if measured.
    """
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
    panels[0].legend(fontsize=6)

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
    for axes in panels[1:]:
        axes.tick_params(axis="y", labelsize=6)
    figure.suptitle(str(measurement["gpu"].iloc[0]), fontsize=8)
    return figure


def plot_feasible(feasible: pd.DataFrame, parameter: pd.DataFrame) -> Figure:
    """Draw the rates of stores and peer-to-peer reads that agree with the talk.

    Parameters
    ----------
    feasible, parameter : pandas.DataFrame
        Rows of the tables gpucentric_feasible and parameter.

    Returns
    -------
    matplotlib.figure.Figure
        The plane of both rates; the default is marked.
    """
    state = feasible.assign(number=feasible["small_holds"].astype(int) + 2 * feasible["large_holds"].astype(int))
    table = state.pivot(index="peer_rate_large", columns="store_rate", values="number")
    labels = ("neither", "only: GGAS fastest, small", "only: MPI fastest, large", "both")
    colours = ("#dddddd", COLOURS[5], COLOURS[4], COLOURS[2])
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, 3.2))
    axes.pcolormesh(
        table.columns.to_numpy() / 1e9, table.index.to_numpy() / 1e9, table.to_numpy(), vmin=-0.5, vmax=3.5,
        cmap=ListedColormap(list(colours)), shading="nearest", rasterized=True,
    )  # fmt: skip
    value = _values(parameter)
    axes.plot(value["store_rate"] / 1e9, value["peer_rate_large"] / 1e9, "k*", markersize=9, label="default (assumed)")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rate of remote stores (GB/s)")
    axes.set_ylabel("peer-to-peer reads,\nlarge payloads (GB/s)")
    axes.grid(visible=False)
    handles = [Patch(color=colour, label=label) for label, colour in zip(labels, colours, strict=True)]
    marked = axes.get_legend_handles_labels()[0]
    figure.legend(handles=[*handles, *marked], fontsize=6, ncols=5, loc="outside upper center")
    return figure
