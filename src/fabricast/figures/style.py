"""One look for all figures, and files with equal bytes on every run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogFormatter
from numpy.typing import NDArray

from fabricast.inputs.files import atomic_write

if TYPE_CHECKING:
    import pandas as pd

    from fabricast.figures.catalogue import Entry


COLUMN_WIDTH_IN = 3.5
PAGE_WIDTH_IN = 7.0


def legend_below(axes: Axes, columns: int = 2) -> None:
    """Put the legend of a panel below its horizontal axis, where no data are."""
    axes.legend(ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.2), borderaxespad=0)


def lines_between_columns(axes: Axes, columns: int) -> None:
    """Draw lines between columns at whole numbers whose marks are next to each other."""
    for edge in np.arange(columns - 1) + 0.5:
        axes.axvline(edge, color="0.9", linewidth=0.5, zorder=0)


def statements_at_left(axes: Axes, places: Sequence[float] | NDArray[np.float64], texts: Sequence[str]) -> None:
    """Write a left-aligned statement at each place of the vertical axis of a figure as wide as a page."""
    axes.set_yticks(places, texts, ha="left")
    axes.tick_params(axis="y", pad=265, length=0)


def plain_log_scale(axes: Axes, name: Literal["x", "y"]) -> None:
    """Make an axis of few decades logarithmic, with plain numbers also between the powers of ten."""
    axes.set(**{f"{name}scale": "log"})
    axis = axes.xaxis if name == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    if 0 < low < high < 4 * low:
        # So short an axis begins at a number, or has too few of them.
        decade = 10.0 ** np.floor(np.log10(low))
        axes.set(**{f"{name}lim": (np.floor(low / decade) * decade, high)})
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.8, 0.5)))


def size_name(size_bytes: float) -> str:
    """Return a size in the largest binary unit that it fills.

    >>> size_name(8), size_name(2048), size_name(3 * 2**20), size_name(2**30)
    ('8 B', '2 KiB', '3 MiB', '1 GiB')
    """
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:g} {unit}"
    return f"{size_bytes:g} B"


def ink_on(colour: str) -> str:
    """Return black or white, whichever is read better on a colour.

    >>> ink_on("#0072B2"), ink_on("#E69F00")
    ('white', 'black')
    """
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour))
    # The two contrasts of WCAG 2.1 are equal at this luminance.
    return "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 else "black"


@contextmanager
def paper_style() -> Iterator[None]:
    """Apply the style of all figures within the block."""
    sheet = resources.files("fabricast.figures").joinpath("paper.mplstyle")
    with resources.as_file(sheet) as style, plt.style.context(style):
        yield


#: Metadata that would differ between runs, by format.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}


#: Tick label of a logarithmic axis.
_POWER = re.compile(r"\$\\mathdefault\{(?:[-\d.]+\\times)?[-\d.^{}]*\}\$")


def _without_markup(figure: Figure) -> None:
    """Draw dollar signs in names as they are: only powers of logarithmic axes are formulas."""
    for axes in figure.axes:
        # Tick labels get their text here, before the layout interprets it.
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels(which="both")
    for text in figure.findobj(Text):
        if "$" in text.get_text() and _POWER.fullmatch(text.get_text()) is None:
            text.set_parse_math(False)


def save_figure(figure: Figure, *paths: Path | str) -> None:
    """Save a figure as SVG, PDF and PNG, without dates or random identifiers."""
    _without_markup(figure)
    # One layout for all formats. With a layout engine left, even one that does nothing, matplotlib would draw each file
    # twice; None removes it where the style asks for no other.
    figure.draw_without_rendering()
    with plt.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        figure.set_layout_engine(None)
        for path in map(Path, paths):
            kind = path.suffix[1:]
            with atomic_write(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=_METADATA[kind])
    plt.close(figure)


def save_entries(
    entries: Sequence[Entry], read: Callable[[str], pd.DataFrame], values: dict[str, Any], paths: Sequence[str]
) -> None:
    """Draw and save figures of a study in the paper's style."""
    formats = len(paths) // len(entries)
    with paper_style():
        for position, entry in enumerate(entries):
            figure = entry.draw(read, values)
            save_figure(figure, *paths[formats * position : formats * (position + 1)])
