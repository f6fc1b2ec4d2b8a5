"""Figures of claims: under which readings each one holds."""

from __future__ import annotations

import re
import textwrap

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fabricast.figures.style import ASSUMED_COLOUR, COLOURS, PAGE_WIDTH_IN

__all__ = ["plot_claim_readings"]

_FILLS = {
    "reproduced": (COLOURS[0], "holds"),
    "decided_by_tolerance": ("#9ecae1", "holds, only within our tolerance"),
    "deviates": (COLOURS[1], "does not hold"),
    "not_testable": ("white", "not in this run, or not determined"),
}
_ROW_IN = 0.25
#: Letters of a line of a statement.
_LINE = 76


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
    height = _ROW_IN * max(len(shown), 1) + 0.7
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH_IN, height))
    most = int(counts.max()) if shown else 1
    for row, name in enumerate(shown):
        own = reading[reading["claim"] == name].sort_values(["is_default", "reading"], ascending=[False, True])
        for column, verdict in enumerate(own["verdict"]):
            colour, _ = _FILLS[verdict]
            axes.add_patch(Rectangle((column + 0.06, row - 0.3), 0.88, 0.6, facecolor=colour,
                                     edgecolor=ASSUMED_COLOUR, linewidth=0.3))  # fmt: skip
        decisive = int(own["is_default"].sum())
        axes.add_patch(
            Rectangle((-0.06, row - 0.4), decisive + 0.06, 0.8, fill=False, edgecolor="black", linewidth=0.9)
        )
        tested = own[own["verdict"] != "not_testable"]
        held = int((tested["verdict"] != "deviates").sum())
        # Without one of its framed readings a claim has no verdict.
        missing = bool((own["is_default"] & (own["verdict"] == "not_testable")).any())
        text = ", ".join([f"{held} of {len(tested)}"] * bool(len(tested)) + ["no verdict"] * missing)
        axes.text(len(own) + 0.4, row, text, va="center", fontsize=5.5)
    statements = dict(zip(claim["claim"], claim["statement"], strict=True))
    axes.set_yticks(range(len(shown)), [_in_two_lines(statements[name]) for name in shown], fontsize=5.5)
    axes.set_xlim(-0.3, most * 1.08 + 4)
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
