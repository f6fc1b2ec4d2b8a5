"""Colours of all figures and of the report."""

from __future__ import annotations

#: Okabe-Ito palette, safe for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
#: Additional colours, after Tol, for figures with many components.
MORE_COLOURS = (
    "#44AA99",
    "#882255",
    "#DDCC77",
    "#332288",
    "#117733",
    "#F0E442",
    "#AA4499",
    "#661100",
    "#6699CC",
    "#999933",
    "#CC6677",
    "#A6761D",
)
#: Colour of each layer of a message, the same in every figure.
LAYER_COLOURS = {"CPU": COLOURS[0], "I/O": COLOURS[1], "Network": COLOURS[2]}
#: Grey of assumed values.
ASSUMED_COLOUR = "#999999"
