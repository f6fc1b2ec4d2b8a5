"""The space of all schedules of a pattern, by number."""

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

__all__ = ["Space", "schedule_space"]


@dataclass(frozen=True)
class Space:
    """Schedules of a pattern as numbers, and steps as codes."""

    pattern: Pattern
    sources: tuple[int, ...]
    permutations: tuple[tuple[tuple[int, ...], ...], ...]
    weights: NDArray[np.int64]
    half: int

    @cached_property
    def digits(self) -> NDArray[np.int64]:
        """In how many ways each source can take part in a step: one for each of its targets, and idle."""
        return np.array([len(self.pattern.targets[s]) + 1 for s in self.sources], dtype=np.int64)

    @property
    def codes(self) -> int:
        """Number of distinct steps: which target each source sends to, or none."""
        return math.prod(self.digits.tolist())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of orders of each source."""
        return np.array([len(own) for own in self.permutations], dtype=np.int64)

    def orders(self, number: int) -> tuple[tuple[int, ...], ...]:
        """Targets of every endpoint in the order of sending."""
        found: list[tuple[int, ...]] = [()] * len(self.pattern.targets)
        for s, own in zip(self.sources, self.permutations, strict=True):
            number, digit = divmod(number, len(own))
            found[s] = tuple(self.pattern.targets[s][choice] for choice in own[digit])
        return tuple(found)

    @cached_property
    def scales(self) -> NDArray[np.int64]:
        """What the next order of each source adds to the number of a schedule."""
        return np.cumprod([1, *self.counts[:-1].tolist()], dtype=np.int64)

    def combine(self, parts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sum what each source adds in each of its ways, over the low and over the high sources.

        `parts` has an array of shape (ways, terms) for each source; the first source's ways vary fastest.
        """
        halves = []
        for half in (parts[: self.half], parts[self.half :]):
            rows = np.zeros((1, parts[0].shape[1]), dtype=np.int64)
            for own in half:
                rows = (own[:, None, :] + rows[None, :, :]).reshape(-1, rows.shape[1])
            halves.append(rows)
        return halves[0], halves[1]

    def step_codes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Codes of all steps, of the low and of the high sources, shape (schedules of half, steps)."""
        parts = []
        for weight, own in zip(self.weights, self.permutations, strict=True):
            codes = np.zeros((len(own), self.pattern.steps), dtype=np.int64)
            codes[:, : len(own[0])] = weight * (np.array(own) + 1)
            parts.append(codes)
        return self.combine(parts)

    def active_sets(self, codes: NDArray[np.int64], *, sized: bool) -> CongestionGraphs:
        """Return the communications of steps as congestion graphs."""
        digits = [codes // weight % ways for weight, ways in zip(self.weights, self.digits, strict=True)]
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
