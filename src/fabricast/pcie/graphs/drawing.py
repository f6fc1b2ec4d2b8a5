"""Drawing of a congestion graph as SVG: endpoints on a circle, and an arrow for each copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

#: Maximum number of arrows.
_MOST_ARROWS = 240
_RADIUS, _MARGIN, _DOT = 90.0, 24.0, 9.0
#: Share of the straight line by which the arrows of both directions bend apart.
_BEND = 0.12


def graph_svg(name: str, copies: Sequence[tuple[int, int]]) -> str:
    """Return the drawing of a graph.

    >>> graph_svg("two", [(0, 1), (1, 0)]).count("<path")
    3
    """
    drawn = copies[:_MOST_ARROWS]
    endpoints = sorted({end for copy in drawn for end in copy})
    places = {end: _place(number, len(endpoints)) for number, end in enumerate(endpoints)}
    omitted = f", {len(drawn)} of {len(copies):,} drawn" if len(drawn) < len(copies) else ""
    arrows = "".join(_arrow(places[source], places[target], f"{source} to {target}") for source, target in drawn)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_DOT:g}" fill="#0072B2"/>'
        f'<text x="{x:.1f}" y="{y + 3.5:.1f}" text-anchor="middle" font-size="10" fill="#fff">{end}</text>'
        for end, (x, y) in places.items()
    )
    size = 2 * (_RADIUS + _MARGIN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{size:g}" height="{size:g}" '
        f'font-family="sans-serif"><title>{escape(name)}: {len(copies):,} copies{omitted}</title>'
        '<defs><marker id="fabricast-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>'
        f"{arrows}{dots}</svg>"
    )


def _place(number: int, count: int) -> tuple[float, float]:
    """Return the centre of an endpoint; the first one is at the top."""
    angle = 2 * math.pi * number / count - math.pi / 2
    middle = _RADIUS + _MARGIN
    return middle + _RADIUS * math.cos(angle), middle + _RADIUS * math.sin(angle)


def _arrow(source: tuple[float, float], target: tuple[float, float], title: str) -> str:
    """Return a bent arrow between the rims of two endpoints."""
    across, down = target[0] - source[0], target[1] - source[1]
    middle = (source[0] + target[0]) / 2 - _BEND * down, (source[1] + target[1]) / 2 + _BEND * across
    begin, end = _towards(source, middle), _towards(target, middle)
    return (
        f'<path d="M{begin[0]:.1f} {begin[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {end[0]:.1f} {end[1]:.1f}" '
        f'fill="none" stroke="#555" marker-end="url(#fabricast-head)"><title>{escape(title)}</title></path>'
    )


def _towards(centre: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return the point on the rim of an endpoint in the direction of another point."""
    across, down = other[0] - centre[0], other[1] - centre[1]
    length = math.hypot(across, down)
    return centre[0] + across / length * (_DOT + 1), centre[1] + down / length * (_DOT + 1)
