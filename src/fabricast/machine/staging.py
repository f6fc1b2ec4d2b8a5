"""Rates of single copies and pairs of copies through host memory: measured, or as on public machines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fabricast.inputs.pair_rates import BOTH_WAYS, ONE_WAY, SWITCHED, PublicShare, is_old_geforce, staged_share
from fabricast.machine.machine import Machine
from fabricast.pcie.models.parameters import link_generation
from fabricast.pcie.topology.paths import narrowest_link

#: Quantile of the ratios to public machines that is usual, because faults only slow copies, and the share of it below
#: which a pair is slow.
_USUAL, _SLOW_PAIR = 0.75, 0.7


@dataclass(frozen=True)
class StagedRate:
    """Rate of a copy, or of both copies of a pair together, through host memory."""

    bytes_per_s: float  # Rate in bytes/s; NaN if it is unknown
    #: Factors from its time to the range; 1 if it was measured.
    shortest: float = 1.0
    longest: float = 1.0
    is_measured: bool = True  # Whether it was measured on this machine
    machines: int = 0  # Number of public machines, if it was not measured


class StagedRates:
    """Staged rates of the pairs of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._tree = machine, machine.tree
        self._one_way = machine.staged_bytes_per_s
        self._both_ways = machine.staged_both_ways_bytes_per_s
        self._generation = link_generation(machine.tree)

    @cached_property
    def is_old_geforce(self) -> bool:
        """Whether the GPUs are of the GeForce 20 or 30 series, whose staged copies are slower."""
        return any(map(is_old_geforce, self._machine.models.values()))

    def one_way(self, source: str, target: str) -> StagedRate:
        """Return the rate of a single copy."""
        measured = self._one_way.get((source, target))
        if measured is not None:
            return StagedRate(measured)
        return self._public(source, target, ONE_WAY)

    def both_ways(self, source: str, target: str) -> StagedRate:
        """Return the rate of both copies of a pair together, in proportion to a measured rate of one way."""
        measured = self._both_ways.get((source, target)) or self._both_ways.get((target, source))
        if measured is not None:
            return StagedRate(measured)
        public, one_way = self._public(source, target, BOTH_WAYS), self._one_way.get((source, target))
        if one_way is None:
            return public
        scale = one_way / self._public(source, target, ONE_WAY).bytes_per_s
        return StagedRate(public.bytes_per_s * scale, public.shortest, public.longest, False, public.machines)

    @cached_property
    def relation_to_public(self) -> float | None:
        """Median ratio of measured rates of pairs, both ways if known, to those of public machines; None if unknown.

        Pairs that are much slower than most of their class say nothing about the host memory of the others.
        """
        usual = [ratio for pair, ratio in self._ratios.items() if self.share_of_usual(*pair) == 1]
        return float(np.median(usual)) if usual else None

    def share_of_usual(self, source: str, target: str) -> float:
        """Return the rate of a pair that is much slower than most of its class, relative to these; 1 for others."""
        ratio = self._ratios.get((source, target), self._ratios.get((target, source)))
        usual = self._usual.get(self._tree.path_class(source, target))
        return 1.0 if usual is None or ratio is None or ratio >= _SLOW_PAIR * usual else ratio / usual

    @property
    def slow_pairs(self) -> list[tuple[str, str]]:
        """Measured pairs that are much slower than most of their class."""
        return [pair for pair in self._ratios if self.share_of_usual(*pair) < 1]

    @cached_property
    def _usual(self) -> dict[str, float]:
        """Usual ratio of the pairs of each path class."""
        classes: dict[str, list[float]] = {}
        for pair, ratio in self._ratios.items():
            classes.setdefault(self._tree.path_class(*pair), []).append(ratio)
        return {name: float(np.quantile(ratios, _USUAL)) for name, ratios in classes.items()}

    @cached_property
    def _ratios(self) -> dict[tuple[str, str], float]:
        """Ratio of measured rates of pairs, both ways if known, to those of public machines."""
        measured, direction = (self._both_ways, BOTH_WAYS) if self._both_ways else (self._one_way, ONE_WAY)
        ratios = {pair: rate / self._public(*pair, direction).bytes_per_s for pair, rate in measured.items()}
        return {pair: ratio for pair, ratio in ratios.items() if np.isfinite(ratio)}

    def _public(self, source: str, target: str, direction: str) -> StagedRate:
        tree = self._tree
        link = tree.link_bytes_per_s
        if link is None:
            return StagedRate(np.nan, is_measured=False)
        share: PublicShare = staged_share(
            self._generation,
            direction,
            below_switch=tree.path_class(source, target) in SWITCHED,
            old_geforce=self.is_old_geforce,
            gpus=len(tree.accelerator_names),
        )
        narrowest = narrowest_link(tree, [(tree.endpoint_number[source], tree.endpoint_number[target])])
        rate = link * narrowest * share.median
        return StagedRate(rate, share.median / share.highest, share.median / share.lowest, False, share.machines)
