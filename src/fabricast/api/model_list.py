"""Models for predictions: when to use each, and its error on public measurements."""

from __future__ import annotations

from typing import NamedTuple

from fabricast.pcie.machines.engine_model import ENGINE_MODELS, PORTS_AND_ENGINES, USES
from fabricast.pcie.machines.expected_errors import expected_errors
from fabricast.pcie.measurements.measured_graph import FEW_COPIES, MANY_COPIES
from fabricast.pcie.models.catalogue import MODELS

#: Models that a user would choose.
_CHOSEN = ("ports_and_engines", "endpoint_engines", "back_pressure", "congestion_factor", "max_min", "no_contention")
_NOT_DISTINGUISHED = "these measurements do not distinguish the readings"
_READING = "a reading of the SC16 paper, for comparison with its study"


class ModelEntry(NamedTuple):
    """Model, or several models with equal errors."""

    names: tuple[str, ...]
    title: str
    use: str
    errors: tuple[str, ...]


def model_list(*, every: bool = False) -> list[ModelEntry]:
    """Return the models that a user would choose, or all; readings of the paper with equal errors are one entry.

    >>> [entry.names[0] for entry in model_list()][:2]
    ['ports_and_engines', 'endpoint_engines']
    """
    titles = {**ENGINE_MODELS, **{name: model.title for name, model in MODELS.items()}}
    names = [*_CHOSEN, *(name for name in titles if name not in _CHOSEN and every)]
    entries: dict[tuple[str, tuple[str, ...]], ModelEntry] = {}
    for name in names:
        use, errors = USES.get(name, _READING), _errors(name)
        # Readings that differ in one option have their own titles, but equal errors.
        key = (use if use == _READING else name, errors)
        before = entries.get(key)
        if before is None:
            entries[key] = ModelEntry((name,), titles[name], use, errors)
        else:
            entries[key] = before._replace(names=(*before.names, name), title=f"{before.title}; {titles[name]}")
    return [
        one if len(one.names) == 1 or not one.errors else one._replace(errors=(*one.errors, _NOT_DISTINGUISHED))
        for one in entries.values()
    ]


def _errors(name: str) -> tuple[str, ...]:
    """Return the errors of a model by class of graphs, in words."""
    found = ((graphs, expected_errors().get((graphs, name))) for graphs in (FEW_COPIES, MANY_COPIES))
    words = tuple(
        f"{graphs}: median error {100 * error.median:.1f} %, {100 * error.within_band:.0f} % of {error.graphs} "
        "measured graphs within 15 %"
        for graphs, error in found
        if error is not None
    )
    default = expected_errors().get((FEW_COPIES, PORTS_AND_ENGINES))
    if name == "max_min" and default is not None:
        # The model has one rate for all links; the default one has the measured rate of each.
        words += (f"{FEW_COPIES}, with the measured rate of each link: median error {100 * default.sharing:.1f} %",)
    return words
