"""Figures of claims: under which readings each one holds."""

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
    "decided_by_tolerance": ("#9ecae1", "holds, only within our tolerance"),
    "deviates": (COLOURS[1], "does not hold"),
    "not_testable": ("white", "not in this run, or not determined"),
}
#: Heights of a line of a statement, of the cells below it, and of the space to the next claim.
_LINE_IN, _CELL_IN, _GAP_IN = 0.09, 0.12, 0.07
#: Width kept for the count at the end of the longest row.
_COUNT_IN = 0.8
#: Letters of a line of a statement.
_LINE = 78


def _in_two_lines(statement: str) -> str:
    lines = textwrap.wrap(statement, _LINE)
    if len(lines) <= 2:
        return "\n".join(lines)
    # Of longer ones what stands first in brackets, such as the workload, or the end tells similar ones apart.
    told = re.search(r"\(([^;,()]{1,30})[;,)]", statement)
    if told is not None and told[1] not in lines[0]:
        return f"{lines[0]}\n… ({told[1]})"
    return f"{lines[0]}\n… {statement[-_LINE:].partition(' ')[2]}"


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
        The readings in the frame are those that the verdict rests on; the number is how many of those tested hold.
    """
    counts = reading.groupby("claim")["reading"].size()
    shown = [name for name, count in counts.items() if count > 1]
    statements = dict(zip(claim["claim"], claim["statement"], strict=True))
    texts = [_in_two_lines(statements[name]) for name in shown]
    tops = np.cumsum([0.0, *((text.count("\n") + 1) * _LINE_IN + _CELL_IN + _GAP_IN for text in texts)])
    figure, axes = plt.subplots(figsize=(COLUMN_WIDTH_IN, float(tops[-1]) + 0.6))
    # Upright and across in inches of the page, so that cells of all studies are of one size.
    axes.set(xlim=(0, COLUMN_WIDTH_IN), ylim=(float(tops[-1]), 0))
    axes.axis("off")
    for name, text, top in zip(shown, texts, tops[:-1], strict=True):
        own = reading[reading["claim"] == name].sort_values(["is_default", "reading"], ascending=[False, True])
        # A statement stands above its cells, not beside them: both stay in sight where a picture is enlarged.
        axes.text(0, top, text, va="top", fontsize=5.5)
        _draw_cells(axes, own, top + (text.count("\n") + 1) * _LINE_IN + 0.02)
    handles = [Patch(facecolor=colour, edgecolor="0.4", linewidth=0.4, label=text) for colour, text in _FILLS.values()]
    framed = Patch(fill=False, edgecolor="black", linewidth=0.9, label="what the verdict rests on")
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
    # Without one of its framed readings a claim has no verdict.
    missing = bool((own["is_default"] & (own["verdict"] == "not_testable")).any())
    text = ", ".join([f"{held} of {len(tested)}"] * bool(len(tested)) + ["no verdict"] * missing)
    axes.text(len(own) * width_in + 0.05, top + _CELL_IN / 2, text, va="center", fontsize=5.5)
