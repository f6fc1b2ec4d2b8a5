"""Figure of DMA rates and latencies by transfer size."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN

__all__ = ["plot_dma_rates"]

_MODELS = {
    "packets": ("packets and headers", ":"),
    "packets_with_gap": ("with the device's gap", "-"),
    "published_formula": ("published formula", "--"),
}
_PANELS = (
    ("DMA write rate", "writes", "GB/s", 1e9),
    ("DMA read rate", "reads", "GB/s", 1e9),
    ("DMA read latency", "read latency", "ns", 1e-9),
)
_DEVICE_LIMITS_BYTES = 512
_MARKERS = ("o", "s", "^")


def _with_size(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(size_bytes=rows["case_id"].str.rpartition(".")[2].astype(int)).sort_values("size_bytes")


def plot_dma_rates(prediction: pd.DataFrame, reference: pd.DataFrame) -> Figure:
    """Draw DMA write and read rates and read latency by transfer size.

    Parameters
    ----------
    prediction, reference : pandas.DataFrame
        Rows of the tables of these names. The case must end with the size in bytes.

    Returns
    -------
    matplotlib.figure.Figure
        Three panels: marks are measurements, lines are models.
    """
    predicted, measured = _with_size(prediction), _with_size(reference)
    hosts = sorted(measured["origin"].unique())
    figure, panels = plt.subplots(1, len(_PANELS), figsize=(PAGE_WIDTH_IN, 2.6))
    for axes, (quantity, title, unit, scale) in zip(panels, _PANELS, strict=True):
        quantity_rows = predicted[predicted["quantity"] == quantity]
        for model, (label, style) in _MODELS.items():
            rows = quantity_rows[quantity_rows["model"] == model]
            # Modelled rates do not depend on the host; latencies start from the value measured on each host.
            for host in hosts if quantity.endswith("latency") else hosts[:1]:
                line = rows[rows["case_id"].str.contains(f".{host}.", regex=False)]
                ink = COLOURS[hosts.index(host)] if quantity.endswith("latency") else "0.3"
                axes.plot(line["size_bytes"], line["value"] / scale, style, color=ink, linewidth=0.9, label=label)
        for host, colour, marker in zip(hosts, COLOURS, _MARKERS, strict=False):
            rows = measured[(measured["quantity"] == quantity) & (measured["origin"] == host)]
            axes.plot(
                rows["size_bytes"], rows["value"] / scale, marker, color=colour, markersize=3, label=host, alpha=0.8
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks([64, 256, 1024], ["64", "256", "1024"])
        axes.set_xlabel("transfer in bytes")
        axes.set_ylabel(f"{title} in {unit}")
        if quantity.endswith("rate"):
            axes.axvspan(axes.get_xlim()[0], _DEVICE_LIMITS_BYTES, color="0.92", zorder=0)
        axes.set_xlim(56, 2400)
        axes.set_ylim(bottom=0)
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    order = [*hosts, *(label for label, _ in _MODELS.values() if label in unique)]
    figure.legend([unique[name] for name in order], order, ncols=3, loc="outside upper center")
    return figure
