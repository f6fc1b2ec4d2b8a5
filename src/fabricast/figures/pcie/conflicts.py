"""Figure of the conflict rules at ports of the PCIe study."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from fabricast.figures.colours import COLOURS
from fabricast.figures.style import PAGE_WIDTH_IN
from fabricast.pcie.models.catalogue import MODELS
from fabricast.pcie.models.evaluation import factors
from fabricast.pcie.topology.regular import regular_tree

#: Values of tau on the slides: of the complete example, and of the validation.
_TAU = {"example: 0.2": 0.2, "validation: 1 − 1/1.21": 1 - 1 / 1.21}
_STYLES = ("-", "--", ":")


def plot_port_conflicts() -> Figure:
    """Draw the congestion factors of conflicts at an upstream port and at a downstream port.

    The factors are those of the model of the study on a tree of two switches with four GPUs each.
    """
    tree, model = regular_tree("two switches", (2, 4)), MODELS["congestion_factor"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH_IN, 2.9), sharey=True, width_ratios=[1, 1.8])
    counts = range(1, 5)
    shares = [factors(tree, [(gpu, 4 + gpu) for gpu in range(count)], model, tau=0.0)[0] for count in counts]
    left.bar(list(counts), shares, color=COLOURS[0], width=0.6)
    for count, share in zip(counts, shares, strict=True):
        left.text(count, share + 0.02, f"{share:.3g}", ha="center")
    left.set(xticks=list(counts), ylim=(0, 1.1), xlabel="copies at an upstream port", ylabel="congestion factor")
    left.set_title("proportional sharing")
    taus = np.linspace(0.0, 0.5, 101)
    for groups, style in zip((2, 3, 4), _STYLES, strict=True):
        # One group crosses the root complex; each local copy is a group.
        pairs = [(4, 0), *((gpu, 0) for gpu in range(1, groups))]
        found = np.array([factors(tree, pairs, model, tau=float(tau)) for tau in taus])
        right.plot(taus, found[:, 1], style, color=COLOURS[0], label=f"local, {groups} groups")
        right.plot(taus, found[:, 0], style, color=COLOURS[1], label=f"crossing, {groups} groups")
        if groups > 2:
            printed = np.array([factors(tree, pairs, MODELS["literal"], tau=float(tau)) for tau in taus])
            right.plot(taus, printed[:, 1], style, color="0.5", label=f"local, {groups} groups, as printed")
    for (text, tau), side in zip(_TAU.items(), (1, -1), strict=True):
        right.axvline(tau, color="0.4", linewidth=0.8)
        right.text(tau + 0.006 * side, 1.06, text, ha="left" if side > 0 else "right", va="center", fontsize=7)
    right.set(xlim=(0, 0.5), xlabel="tau (reduction for crossing the root complex)")
    right.set_title("round-robin at a downstream port")
    figure.legend(*right.get_legend_handles_labels(), ncols=4, loc="outside lower center")
    return figure
