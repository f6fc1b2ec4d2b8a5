"""Numbering of all schedules and steps of a pattern."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.graphs.patterns import Pattern


@dataclass(frozen=True)
class Space:
    """Numbering of the schedules of a pattern, and codes of their steps.

    A schedule has a permutation for each source with copies. Its number is a mixed-radix number whose digits are the
    numbers of these permutations. A step has a mixed-radix code with one digit per source: 0 if the source is idle, or
    1 plus the index of its target. Tables are split into low sources (the first `half`) and high sources, such that
    each number is the sum of two terms.
    """

    pattern: Pattern
    sources: tuple[int, ...]
    permutations: tuple[tuple[tuple[int, ...], ...], ...]
    weights: NDArray[np.int64]
    half: int

    @cached_property
    def digits(self) -> NDArray[np.int64]:
        """Number of values of the digit of each source in a step code: its targets, and idle."""
        return np.array([len(self.pattern.targets[s]) + 1 for s in self.sources], dtype=np.int64)

    @property
    def codes(self) -> int:
        """Number of step codes."""
        return math.prod(self.digits.tolist())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of permutations of each source."""
        return np.array([len(own) for own in self.permutations], dtype=np.int64)

    def orders(self, number: int) -> tuple[tuple[int, ...], ...]:
        """Return the targets of each endpoint in the order of its copies in a schedule."""
        targets: list[tuple[int, ...]] = [()] * len(self.pattern.targets)
        for s, permutations in zip(self.sources, self.permutations, strict=True):
            number, digit = divmod(number, len(permutations))
            targets[s] = tuple(self.pattern.targets[s][choice] for choice in permutations[digit])
        return tuple(targets)

    @cached_property
    def scales(self) -> NDArray[np.int64]:
        """Weight of the permutation number of each source in the number of a schedule."""
        return np.cumprod([1, *self.counts[:-1].tolist()], dtype=np.int64)

    def combine(self, parts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sum the terms of all sources, separately for the low and the high sources.

        `parts` has an array of shape (choices, terms) for each source. The choices of the first source vary fastest.
        """
        halves = []
        for half in (parts[: self.half], parts[self.half :]):
            rows = np.zeros((1, parts[0].shape[1]), dtype=np.int64)
            for terms in half:
                rows = (terms[:, None, :] + rows[None, :, :]).reshape(-1, rows.shape[1])
            halves.append(rows)
        return halves[0], halves[1]

    def step_codes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the step codes of low and of high sources, shape (combinations, steps) each."""
        parts = []
        for weight, permutations in zip(self.weights, self.permutations, strict=True):
            codes = np.zeros((len(permutations), self.pattern.steps), dtype=np.int64)
            codes[:, : len(permutations[0])] = weight * (np.array(permutations) + 1)
            parts.append(codes)
        return self.combine(parts)

    def active_sets(self, codes: NDArray[np.int64], *, sized: bool) -> CongestionGraphs:
        """Return the copies of each step as a congestion graph."""
        digits = [codes // weight % radix for weight, radix in zip(self.weights, self.digits, strict=True)]
        active = np.stack([digit > 0 for digit in digits], axis=1)
        target = np.stack(
            [np.array((0, *self.pattern.targets[s]))[digit] for s, digit in zip(self.sources, digits, strict=True)],
            axis=1,
        )
        size = np.stack(
            [
                np.array((1.0, *self.pattern.size_bytes[s]))[digit] if sized else np.ones(codes.size)
                for s, digit in zip(self.sources, digits, strict=True)
            ],
            axis=1,
        )
        source = np.broadcast_to(np.array(self.sources), active.shape)
        count = int(active.sum())
        return CongestionGraphs(
            names=("",) * codes.size,
            families=("user",) * codes.size,
            offset=np.concatenate([[0], np.cumsum(active.sum(axis=1))]).astype(np.int64),
            source=source[active].astype(np.int64),
            target=target[active].astype(np.int64),
            size_bytes=size[active].astype(np.float64),
            start_s=np.zeros(count, dtype=np.float64),
        )


def schedule_space(pattern: Pattern) -> Space:
    """Return the space of all schedules of a pattern."""
    sources = tuple(s for s, own in enumerate(pattern.targets) if own)
    permutations = tuple(tuple(itertools.permutations(range(len(pattern.targets[s])))) for s in sources)
    weights, weight = [], 1
    for s in sources:
        weights.append(weight)
        weight *= len(pattern.targets[s]) + 1
    return Space(pattern, sources, permutations, np.array(weights, dtype=np.int64), len(sources) // 2)
