"""Legibility checks of figures: overlapping texts, legends on data, low contrast."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

__all__ = ["text_problems"]

_SLACK_PX = 1.5
#: WCAG 2.1, 1.4.3.
_LEAST_CONTRAST = 4.5
#: Smallest size of text; exponents of powers of ten are parts of a larger text.
_LEAST_PT = 7.0


def text_problems(figure: Figure) -> list[str]:
    """Return the legibility problems of a figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Figure, which the check lays out.

    Returns
    -------
    list of str
        One line per problem: text of less than 7 pt, outside the figure, on another text, on other axes or across the frame of its axes;
        a legend on lines or bars; text whose contrast on its bar is below 4.5. Text on lines or markers is not
        detected.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> axes = figure.add_subplot()
    >>> _ = axes.text(0.5, 0.5, "one"), axes.text(0.5, 0.5, "other")
    >>> text_problems(figure)
    ["'one' lies on 'other'"]
    """
    boxes = _drawn(figure)
    return [
        *(f"{_short(text)} has {text.get_fontsize():g} pt" for text, _ in boxes if text.get_fontsize() < _LEAST_PT),
        *_outside(figure, boxes),
        *_overlapping(boxes),
        *itertools.chain.from_iterable(_on_axes(axes, boxes) for axes in figure.axes),
        *itertools.chain.from_iterable(_pale(axes, boxes) for axes in figure.axes),
    ]


def _drawn(figure: Figure) -> list[tuple[Text, Bbox]]:
    """Return the drawn texts, which do not include hidden ticks, and their boxes."""
    drawn: list[Text] = []
    original = Text.draw

    def record(self: Text, renderer: Any, *arguments: Any, **keywords: Any) -> None:
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        original(self, renderer, *arguments, **keywords)

    canvas = FigureCanvasAgg(figure)
    with mock.patch.object(Text, "draw", record):
        figure.draw_without_rendering()
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    # The get_window_extent of an annotation would include its arrow.
    return [(text, Text.get_window_extent(text, renderer).padded(-_SLACK_PX)) for text in dict.fromkeys(drawn)]


def _short(text: Text) -> str:
    return repr(text.get_text().replace("\n", " ")[:40])


def _outside(figure: Figure, boxes: list[tuple[Text, Bbox]]) -> Iterator[str]:
    for text, box in boxes:
        if box.x0 < 0 or box.y0 < 0 or box.x1 > figure.bbox.x1 or box.y1 > figure.bbox.y1:
            yield f"{_short(text)} leaves the figure"


def _overlapping(boxes: list[tuple[Text, Bbox]]) -> Iterator[str]:
    # The boxes of slanted texts may overlap although their letters do not.
    oblique = {text for text, _ in boxes if text.get_rotation() % 90}
    for (one, box), (other, other_box) in itertools.combinations(boxes, 2):
        if box.overlaps(other_box) and not {one, other} <= oblique:
            yield f"{_short(one)} lies on {_short(other)}"


def _on_axes(axes: Axes, boxes: list[tuple[Text, Bbox]]) -> Iterator[str]:
    axes_texts = set(axes.texts)
    for text, box in boxes:
        if text.axes not in (axes, None) and box.overlaps(axes.bbox) and not axes.bbox.overlaps(text.axes.bbox):  # type: ignore[union-attr]
            yield f"{_short(text)} lies on other axes"
        inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
        if text in axes_texts and axes.axison and box.overlaps(axes.bbox) and not inside:
            yield f"{_short(text)} crosses the frame"
    legend = axes.get_legend()
    # Data end at the frame, so only the area inside the axes can cover data.
    area = None if legend is None else Bbox.intersection(legend.get_window_extent(), axes.bbox)
    if area is not None:
        lines = [line.get_path().transformed(line.get_transform()) for line in axes.lines]
        hits = sum(path.intersects_bbox(area, filled=False) for path in lines)
        hits += sum(area.overlaps(patch.get_window_extent()) for patch in axes.patches if patch.get_visible())
        if hits:
            yield f"a legend lies on {hits} lines or bars of '{axes.get_title() or axes.get_ylabel()}'"


def _luminance(colour: Any) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return float(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2])


def _pale(axes: Axes, boxes: list[tuple[Text, Bbox]]) -> Iterator[str]:
    """Compare the colour of each text with that of the topmost bar below it."""
    bars = [
        (bar.get_window_extent(), bar.get_facecolor())
        for bar in axes.patches
        if isinstance(bar, Rectangle) and bar.get_visible() and to_rgba(bar.get_facecolor())[3] > 0.5
    ]
    for text, box in boxes:
        if text not in set(axes.texts) or text.get_bbox_patch() is not None:
            continue
        x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        below = next((colour for area, colour in reversed(bars) if area.contains(x, y)), None)
        if below is None:
            continue
        light, dark = sorted((_luminance(text.get_color()), _luminance(below)), reverse=True)
        if (light + 0.05) / (dark + 0.05) < _LEAST_CONTRAST:
            yield f"{_short(text)} is too pale on its bar"
