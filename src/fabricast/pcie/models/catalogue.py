"""Catalogue of PCIe models: the models of the SC16 paper and their variants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import unknown_name


@dataclass(frozen=True)
class CongestionOptions:
    """Interpretations of the congestion-factor algorithm; the defaults follow the slides.

    Parameters
    ----------
    upstream_sharing : {'proportional', 'round_robin'}
        Whether a saturated upstream port is shared in proportion to demands, or max-min fairly over its input ports.
    solo_crossing_penalty : bool
        Whether an isolated communication across the root complex runs at ``1 - tau``.
    coupling : {'ratio', 'minimum'}
        Whether communications that share a saturated upstream port keep the ratio of their rates or all run at the
        lowest rate.
    group_demand : {'sum', 'maximum'}
        Demand of a grouped communication set: sum or maximum of the factors of its members.
    group_split : {'proportional', 'equal'}
        Division of the share of a set among its members.
    crossing_bonus : {'conserving', 'literal'}
        Whether local sets gain in total what crossing sets lose, or ``tau`` each.
    all_crossing : {'equal', 'penalised'}
        Whether sets share equally or are penalised if every set crosses the root complex.
    root_complex_conflict : {'arbitrated', 'ignored'}
        Whether the downstream ports of the root complex arbitrate.
    work_conserving : bool
        Whether other sets use the bandwidth that one set cannot use.
    head_of_line : {'freeze', 'two_rounds', 'off'}
        Head-of-line blocking between communications that merge at a saturated upstream port.
    """

    upstream_sharing: Literal["proportional", "round_robin"] = "proportional"
    solo_crossing_penalty: bool = False
    coupling: Literal["ratio", "minimum"] = "ratio"
    group_demand: Literal["sum", "maximum"] = "sum"
    group_split: Literal["proportional", "equal"] = "proportional"
    crossing_bonus: Literal["conserving", "literal"] = "conserving"
    all_crossing: Literal["equal", "penalised"] = "equal"
    root_complex_conflict: Literal["arbitrated", "ignored"] = "arbitrated"
    work_conserving: bool = True
    head_of_line: Literal["freeze", "two_rounds", "off"] = "freeze"

    def vector(self) -> NDArray[np.int64]:
        """Return the options as numbers, in the order that the kernels expect."""
        return np.array(
            [
                self.upstream_sharing == "round_robin",
                self.solo_crossing_penalty,
                self.coupling == "minimum",
                self.group_demand == "maximum",
                self.group_split == "equal",
                self.crossing_bonus == "literal",
                self.all_crossing == "penalised",
                self.root_complex_conflict == "ignored",
                not self.work_conserving,
                ("freeze", "two_rounds", "off").index(self.head_of_line),
            ],
            dtype=np.int64,
        )


@dataclass(frozen=True)
class Model:
    """Named model of concurrent PCIe copies.

    Parameters
    ----------
    name : str
        Identifier in tables.
    title : str
        Name in figures.
    method : {'congestion_factor', 'no_contention', 'busiest_link', 'max_min', 'back_pressure'}
        Rule for the rates within a phase.
    options : CongestionOptions
        Interpretation of the congestion-factor algorithm.
    uses_tau : bool, default True
        Whether the root-complex penalty is applied.
    """

    name: str
    title: str
    method: Literal["congestion_factor", "no_contention", "busiest_link", "max_min", "back_pressure"]
    options: CongestionOptions = field(default_factory=CongestionOptions)
    uses_tau: bool = True

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the machine parameters that affect the model."""
        has_tau = self.uses_tau and self.method in ("congestion_factor", "back_pressure")
        has_cost = self.method == "back_pressure"
        return frozenset({"bandwidth"} | ({"tau"} if has_tau else set()) | ({"crossing_cost"} if has_cost else set()))


_SLIDES = CongestionOptions()


def _reading(name: str, title: str, **changes: object) -> Model:
    return Model(name, title, "congestion_factor", replace(_SLIDES, **changes))  # type: ignore[arg-type]


_MAIN = (
    Model("congestion_factor", "congestion factors (slides)", "congestion_factor"),
    _reading("round_robin_upstream", "round-robin upstream", upstream_sharing="round_robin"),
    _reading("without_head_of_line", "no head-of-line coupling", head_of_line="off"),
    replace(_reading("without_tau", "no root-complex penalty"), uses_tau=False),
    _reading("literal", "literal formulas", head_of_line="off", work_conserving=False, crossing_bonus="literal"),
    Model("back_pressure", "back-pressure", "back_pressure"),
    Model("max_min", "per-flow max-min", "max_min"),
    Model("busiest_link", "1/k on the busiest link", "busiest_link"),
    Model("no_contention", "no contention", "no_contention"),
)


_SINGLE_OPTIONS = (
    _reading("solo_crossing_penalty", "solo crossing penalty", solo_crossing_penalty=True),
    _reading("coupling_minimum", "coupled to the minimum", coupling="minimum"),
    _reading("group_demand_maximum", "set demand = maximum", group_demand="maximum"),
    _reading("group_split_equal", "sets split equally", group_split="equal"),
    _reading("crossing_bonus_literal", "literal bonus", crossing_bonus="literal"),
    _reading("all_crossing_penalised", "all-crossing penalised", all_crossing="penalised"),
    _reading("root_complex_ignored", "root complex ignored", root_complex_conflict="ignored"),
    _reading("not_work_conserving", "not work-conserving", work_conserving=False),
    _reading("two_rounds", "two coupling rounds", head_of_line="two_rounds"),
)


#: Models by name: interpretation of the slides, important variants, baselines, single-option variants.
MODELS = {model.name: model for model in (*_MAIN, *_SINGLE_OPTIONS)}


def named_model(name: str) -> Model:
    """Return a model by its name.

    >>> named_model("max_min").name
    'max_min'
    """
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]


#: Names of the models that change one option of the slides' interpretation.
ABLATIONS = ("round_robin_upstream", "without_head_of_line", *(model.name for model in _SINGLE_OPTIONS))


#: Interpretation of the slides, its best-supported variant, and a model beyond the paper.
VALIDATED = ("congestion_factor", "round_robin_upstream", "back_pressure")
