"""Figures of claim verdicts by interpretation of the source."""

from __future__ import annotations

import re
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fabricast.figures.colours import ASSUMED_COLOUR, COLOURS
from fabricast.figures.style import COLUMN_WIDTH_IN

__all__ = ["plot_claim_readings"]

_FILLS = {
    "reproduced": (COLOURS[0], "holds"),
    "decided_by_tolerance": ("#9ecae1", "holds only within our tolerance"),
    "deviates": (COLOURS[1], "does not hold"),
    "not_testable": ("white", "not in this run, or not determined"),
}
#: Heights in inches of a line of text, of the row of cells below it, and of the gap to the next claim.
_LINE_IN, _CELL_IN, _GAP_IN = 0.09, 0.12, 0.07
#: Width in inches that is reserved for the count at the end of the longest row.
_COUNT_IN = 0.8
#: Letters per line of a statement.
_LINE = 78


def _in_two_lines(statement: str) -> str:
    lines = textwrap.wrap(statement, _LINE)
    if len(lines) <= 2:
        return "\n".join(lines)
    # Longer statements are distinguished by their first bracketed term, such as the workload, or by their end.
    bracketed = re.search(r"\(([^;,()]{1,30})[;,)]", statement)
    if bracketed is not None and bracketed[1] not in lines[0]:
        return f"{lines[0]}\n… ({bracketed[1]})"
    return f"{lines[0]}\n… {statement[-_LINE:].partition(' ')[2]}"


def plot_claim_readings(reading: pd.DataFrame, claim: pd.DataFrame) -> Figure:
    """Draw one row per claim and one cell per interpretation of its source.

    Parameters
    ----------
    reading : pandas.DataFrame
        Rows of the table claim_reading of one study, in the order of evaluation.
    claim : pandas.DataFrame
        Rows of the table claim, which provides the statements.

    Returns
    -------
    matplotlib.figure.Figure
        Framed cells are the interpretations that determine the verdict; the number counts the tested
        interpretations under which the claim holds.
    """
    counts = reading.groupby("claim")["reading"].size()
    shown = [name for name, count in counts.items() if count > 1]
    statements = dict(zip(claim["claim"], claim["statement"], strict=True))
    texts = [_in_two_lines(statements[name]) for name in shown]
    tops = np.cumsum([0.0, *((text.count("\n") + 1) * _LINE_IN + _CELL_IN + _GAP_IN for text in texts)])
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, float(tops[-1]) + 0.6))
    # Both axes are in inches, so that cells have the same size in all studies.
    axes.set(xlim=(0, COLUMN_WIDTH_IN), ylim=(float(tops[-1]), 0))
    axes.axis("off")
    for name, text, top in zip(shown, texts, tops[:-1], strict=True):
        claim_rows = reading[reading["claim"] == name].sort_values(["is_default", "reading"], ascending=[False, True])
        # The statement is drawn above its cells: both stay visible when the figure is enlarged.
        axes.text(0, top, text, va="top", fontsize=5.5)
        _draw_cells(axes, claim_rows, top + (text.count("\n") + 1) * _LINE_IN + 0.02)
    handles = [Patch(facecolor=colour, edgecolor="0.4", linewidth=0.4, label=text) for colour, text in _FILLS.values()]
    framed = Patch(fill=False, edgecolor="black", linewidth=0.9, label="determines the verdict")
    figure.legend(handles=[*handles, framed], loc="outside upper left", ncols=2, fontsize=5.5)
    return figure


def _draw_cells(axes: Axes, own: pd.DataFrame, top: float) -> None:
    width_in = min(_CELL_IN, (COLUMN_WIDTH_IN - _COUNT_IN) / len(own))
    for column, verdict in enumerate(own["verdict"]):
        colour, _ = _FILLS[verdict]
        axes.add_patch(Rectangle(((column + 0.1) * width_in, top + 0.015), 0.8 * width_in, _CELL_IN - 0.03,
                                 facecolor=colour, edgecolor=ASSUMED_COLOUR, linewidth=0.3))  # fmt: skip
    decisive = int(own["is_default"].sum())
    axes.add_patch(Rectangle((0, top), decisive * width_in, _CELL_IN, fill=False, edgecolor="black", linewidth=0.9))
    tested = own[own["verdict"] != "not_testable"]
    held = int((tested["verdict"] != "deviates").sum())
    # A claim has no verdict if one of its framed interpretations is not testable.
    missing = bool((own["is_default"] & (own["verdict"] == "not_testable")).any())
    text = ", ".join([f"{held} of {len(tested)}"] * bool(len(tested)) + ["no verdict"] * missing)
    axes.text(len(own) * width_in + 0.05, top + _CELL_IN / 2, text, va="center", fontsize=5.5)
