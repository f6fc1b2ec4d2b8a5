"""What matplotlib finds again and again while figures are laid out and drawn, found once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from matplotlib.axis import Axis
from matplotlib.text import Text

__all__ = ["replaced", "texts_laid_out_once", "ticks_found_once"]


@contextmanager
def replaced(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Have a function of a library do something else within the block.

    Parameters
    ----------
    owner : module or type
        What has the function.
    name : str
        Its name.
    function : callable
        What is called instead.

    Examples
    --------
    >>> import math
    >>> with replaced(math, "floor", round):
    ...     math.floor(2.6)
    3
    """
    usual = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, usual)


@contextmanager
def ticks_found_once() -> Iterator[None]:
    """Find the ticks of an axis once for each of its sizes within the block, in which a figure is only drawn.

    Layout asks for them a dozen times, and each drawing four times more.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> axes = figure.add_subplot()
    >>> with ticks_found_once():
    ...     figure.canvas.draw()
    """
    known: WeakKeyDictionary[Axis, tuple[tuple[Any, ...], list[Any]]] = WeakKeyDictionary()
    find: Callable[[Any], list[Any]] = Axis._update_ticks  # type: ignore[attr-defined]  # hidden from stubs

    def ticks_of(axis: Any) -> list[Any]:
        size = (tuple(axis.get_view_interval()), axis.axes.bbox.bounds, axis.get_figure(root=True).dpi)
        if axis not in known or known[axis][0] != size:
            known[axis] = (size, find(axis))
        return known[axis][1]

    with replaced(Axis, "_update_ticks", ticks_of):
        yield


@contextmanager
def texts_laid_out_once() -> Iterator[None]:
    """Lay out equal texts once for each kind of file within the block, in which no setting of matplotlib changes.

    Layout asks for the size of each text several times, and each drawing two or three times more.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> text = figure.text(0.5, 0.5, "a")
    >>> with texts_laid_out_once():
    ...     figure.canvas.draw()
    """
    known: dict[tuple[Any, ...], Any] = {}
    lay_out: Callable[[Any, Any], Any] = Text._get_layout  # type: ignore[attr-defined]  # hidden from stubs

    def layout_of(text: Any, renderer: Any) -> Any:
        if text.get_wrap():
            return lay_out(text, renderer)
        font = text.get_fontproperties()
        key = (
            # Renderers of mixed files stand around those that draw.
            type(getattr(renderer, "_renderer", renderer)), text.get_figure(root=True).dpi, text.get_text(),
            text.get_rotation(), text.get_rotation_mode(), text.get_horizontalalignment(),
            text.get_verticalalignment(), text._get_multialignment(), text._linespacing, text.get_usetex(),
            text.get_parse_math(),
        )  # fmt: skip
        found = known.get((*key, font))
        if found is None:
            # Who changes the font of a text changes the properties that the text has.
            found = known[(*key, font.copy())] = lay_out(text, renderer)
        return found

    with replaced(Text, "_get_layout", layout_of):
        yield
