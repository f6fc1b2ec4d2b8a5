"""Colours of all figures and of the page."""

from __future__ import annotations

__all__ = ["ASSUMED_COLOUR", "COLOURS", "LAYER_COLOURS", "MORE_COLOURS"]

#: Okabe-Ito colours, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
#: More of them, after Tol, where parts are many.
MORE_COLOURS = (
    "#44AA99", "#882255", "#DDCC77", "#332288", "#117733", "#F0E442", "#AA4499", "#661100", "#6699CC", "#999933",
    "#CC6677", "#A6761D",
)  # fmt: skip
#: Layers of a message, the same in every figure.
LAYER_COLOURS = {"CPU": COLOURS[0], "I/O": COLOURS[1], "Network": COLOURS[2]}
#: What is assumed is drawn in grey.
ASSUMED_COLOUR = "#999999"
