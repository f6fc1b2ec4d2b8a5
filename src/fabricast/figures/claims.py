"""Figures of claims: under which readings each one holds."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fabricast.figures.style import ASSUMED_COLOUR, COLOURS, PAGE_WIDTH_IN

__all__ = ["plot_claim_readings"]

_FILLS = {
    "reproduced": (COLOURS[0], "holds"),
    "decided_by_tolerance": ("#9ecae1", "within our tolerance only"),
    "deviates": (COLOURS[1], "does not hold"),
    "not_testable": ("white", "not in this run, or not determined"),
}
_ROW_IN = 0.17
#: Letters of a statement that is longer: its beginning, and its end, which tells similar ones apart.
_BEGINNING, _END = 44, 26


def _shortened(statement: str) -> str:
    if len(statement) <= _BEGINNING + _END:
        return statement
    # What stands first in brackets, such as the workload, tells similar statements apart.
    told = re.search(r"\(([^;,()]{1,30})[;,)]", statement)
    if told is not None:
        return f"{statement[:_BEGINNING].rpartition(' ')[0]} … ({told[1]})"
    return f"{statement[:_BEGINNING].rpartition(' ')[0]} … {statement[-_END:].partition(' ')[2]}"


def plot_claim_readings(reading: pd.DataFrame, claim: pd.DataFrame) -> Figure:
    """Draw one row a claim and one cell a reading of what its source leaves open.

    Parameters
    ----------
    reading : pandas.DataFrame
        Rows of the table claim_reading of one study, in the order of evaluation.
    claim : pandas.DataFrame
        Rows of the table claim: a row is named by its statement.

    Returns
    -------
    matplotlib.figure.Figure
        Framed cells are the readings that the verdict rests on; the number is how many of those tested hold.
    """
    counts = reading.groupby("claim")["reading"].size()
    shown = [name for name, count in counts.items() if count > 1]
    height = _ROW_IN * max(len(shown), 1) + 0.7
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, height))
    most = int(counts.max()) if shown else 1
    for row, name in enumerate(shown):
        own = reading[reading["claim"] == name].sort_values(["is_default", "reading"], ascending=[False, True])
        for column, (verdict, default) in enumerate(zip(own["verdict"], own["is_default"], strict=True)):
            colour, _ = _FILLS[verdict]
            axes.add_patch(Rectangle((column + 0.06, row - 0.36), 0.88, 0.72, facecolor=colour,
                                     edgecolor="black" if default else ASSUMED_COLOUR,
                                     linewidth=1.1 if default else 0.3))  # fmt: skip
        tested = own[own["verdict"] != "not_testable"]
        held = int((tested["verdict"] != "deviates").sum())
        axes.text(len(own) + 0.4, row, f"{held} of {len(tested)}", va="center", fontsize=5.5)
    statements = dict(zip(claim["claim"], claim["statement"], strict=True))
    axes.set_yticks(range(len(shown)), [_shortened(statements[name]) for name in shown], fontsize=5.5)
    axes.set_xlim(0, most * 1.08 + 3)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xticks([])
    axes.set_xlabel(
        "readings, named in the table of claims\n(framed: those that the verdict rests on; the worst of them decides)",
        fontsize=7,
    )
    axes.grid(visible=False)
    handles = [Patch(facecolor=colour, edgecolor="0.4", linewidth=0.4, label=text) for colour, text in _FILLS.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=6)
    return figure
