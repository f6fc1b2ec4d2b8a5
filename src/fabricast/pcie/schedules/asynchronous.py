"""Completion times of all asynchronous schedules of a pattern.

Schedules that are equivalent by a symmetry of tree and pattern are run once, and so are common beginnings.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.schedules.results import Run
from fabricast.pcie.schedules.space import Space
from fabricast.pcie.topology.symmetry import automorphisms
from fabricast.runtime.threads import over_blocks

if TYPE_CHECKING:
    from fabricast.pcie.schedules.kernels.asynchronous import Rates, Sends


def asynchronous_times_s(run: Run, space: Space) -> NDArray[np.float64]:
    """Compute the times of all schedules whose sources proceed independently.

    Each source starts its next copy when its previous one ends.

    Shapes: result (schedules,).
    """
    from fabricast.pcie.schedules.kernels.asynchronous import asynchronous_times

    symmetries = _symmetries(run, space)
    images = _images_of_steps(space, symmetries, run.threads)
    rates = _rates_of_active_sets(run, space, symmetries, images)
    # A combination of first copies is an active set without idle sources.
    codes = np.flatnonzero(images.smallest == np.arange(space.codes))
    first_sends = codes[((codes[:, np.newaxis] // space.weights) % space.digits != 0).all(axis=1)]
    sends = _sends(run, space)
    elapsed_s = np.full(space.pattern.schedules, np.inf)
    over_blocks(
        lambda first, last: asynchronous_times(first, last, first_sends, sends, rates, elapsed_s),
        first_sends.size,
        threads=run.threads,
        block=-(-first_sends.size // (12 * run.threads)),
    )
    if len(symmetries.places) > 1:
        _copy_to_images(space, symmetries, images, elapsed_s, run.threads)
    return elapsed_s


def _sends(run: Run, space: Space) -> Sends:
    """Return the copies of all sources as the kernel expects them."""
    from fabricast.pcie.schedules.kernels.asynchronous import NO_SEND, Sends

    targets = (space.digits - 1).tolist()
    copies_of_source = np.zeros(len(targets), dtype=np.int64)
    amount_bytes, part = np.zeros(NO_SEND + 1), np.zeros(NO_SEND + 1, dtype=np.int64)
    weight = np.zeros((len(targets), max(targets) + 1), dtype=np.int64)
    first = 0
    for place, (source, count) in enumerate(zip(space.sources, targets, strict=True)):
        copies_of_source[place] = ((1 << count) - 1) << first
        amount_bytes[first : first + count] = space.pattern.size_bytes[source]
        part[first : first + count] = space.weights[place] * np.arange(1, count + 1)
        first += count
        for waiting in range(1, count + 1):
            # Permutations are numbered lexicographically: by their first copy, then by their second.
            weight[place, waiting] = space.scales[place] * math.factorial(waiting - 1)
    alike = run.latency_s == 0.0 and np.unique(amount_bytes[:first]).size == 1
    return Sends(copies_of_source, amount_bytes, part, weight, run.latency_s, alike)


@dataclass(frozen=True)
class _Symmetries:
    """Symmetries of the tree that preserve the pattern; the first is the identity.

    `places[g, source]` is the image of a source. The image of a step or a schedule is the sum of a term for its low
    sources and a term for its high sources, each an array of shape (symmetries, combinations of this half).
    """

    places: NDArray[np.int64]
    steps: tuple[NDArray[np.int64], NDArray[np.int64]]
    schedules: tuple[NDArray[np.int64], NDArray[np.int64]]


def _symmetries(run: Run, space: Space) -> _Symmetries:
    """Return the symmetries of tree and pattern, or the identity if they are too many."""
    pattern = space.pattern
    endpoints = len(pattern.targets)
    size_bytes = np.zeros((endpoints, endpoints))
    for source in space.sources:
        size_bytes[source, list(pattern.targets[source])] = pattern.size_bytes[source]
    same = np.arange(endpoints)[np.newaxis]
    # Larger trees may have too many symmetries.
    images = automorphisms(run.tree) if endpoints <= 8 else same
    kept = images[(size_bytes[images[:, :, np.newaxis], images[:, np.newaxis, :]] == size_bytes).all(axis=(1, 2))]
    halves = math.prod(space.counts[: space.half].tolist()) + math.prod(space.counts[space.half :].tolist())
    # Symmetries do not pay off if their tables are larger than the space of schedules.
    if len(kept) * halves > pattern.schedules:
        kept = same
    places = np.searchsorted(space.sources, kept[:, space.sources])
    steps, orders = [], []
    for place, source in enumerate(space.sources):
        # For each symmetry, the index of the image of each copy of the source.
        becomes = [
            tuple(pattern.targets[image[source]].index(image[target]) for target in pattern.targets[source])
            for image in kept.tolist()
        ]
        digits = np.array([(0, *(choice + 1 for choice in image)) for image in becomes], dtype=np.int64)
        steps.append((space.weights[places[:, place], np.newaxis] * digits).T)
        numbers = np.stack([_numbers_of_orders(image) for image in becomes])
        orders.append((space.scales[places[:, place], np.newaxis] * numbers).T)
    return _Symmetries(places, _by_symmetry(space.combine(steps)), _by_symmetry(space.combine(orders)))


@lru_cache(maxsize=128)
def _numbers_of_orders(becomes: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the number of the image of each permutation under a mapping of copies."""
    orders = np.array(list(itertools.permutations(range(len(becomes)))), dtype=np.int64)
    scale = len(becomes) ** np.arange(len(becomes))[::-1]
    return np.searchsorted(orders @ scale, np.array(becomes)[orders] @ scale)


def _by_symmetry(halves: tuple[NDArray[np.int64], NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both arrays with the symmetries along the first axis."""
    return np.ascontiguousarray(halves[0].T), np.ascontiguousarray(halves[1].T)


@dataclass(frozen=True)
class _Images:
    """Smallest image of each step code over all symmetries, and the number of the symmetry."""

    smallest: NDArray[np.int64]
    symmetry: NDArray[np.uint16]


def _images_of_steps(space: Space, symmetries: _Symmetries, threads: int) -> _Images:
    """Return the smallest image of each step code."""
    from fabricast.pcie.schedules.kernels.synchronised import smallest_images

    low, high = symmetries.steps
    smallest = np.empty(space.codes, dtype=np.int64)
    # Eight endpoints have at most 8! = 40,320 symmetries, which fit into 16 bits.
    symmetry = np.empty(space.codes, dtype=np.uint16)
    over_blocks(
        lambda first, last: smallest_images(first, last, low, high, smallest, symmetry),
        high.shape[1],
        threads=threads,
        block=max(1, high.shape[1] // (4 * threads)),
    )
    return _Images(smallest, symmetry)


def _rates_of_active_sets(run: Run, space: Space, symmetries: _Symmetries, images: _Images) -> Rates:
    """Return a table of the rates of all active sets."""
    from fabricast.pcie.schedules.kernels.asynchronous import Rates
    from fabricast.pcie.schedules.kernels.synchronised import copy_rates

    evaluated = np.flatnonzero(images.smallest == np.arange(space.codes))[1:]
    graphs = space.active_sets(evaluated, sized=False)
    rate_bytes_per_s = run.bandwidth_bytes_per_s * run.evaluate(graphs, first=True).initial_rho
    # Idle sources have index 0, the rate 0.
    values = np.unique(np.append(rate_bytes_per_s, 0.0))
    narrow = np.min_scalar_type(values.size - 1)
    a_word = 8 // narrow.itemsize
    place = np.full(len(space.pattern.targets), -1, dtype=np.int64)
    place[list(space.sources)] = np.arange(len(space.sources))
    numbers = np.zeros((space.codes, -(-len(space.sources) // a_word) * a_word), dtype=narrow)
    numbers[evaluated[graphs.graph_of_communication], place[graphs.source]] = np.searchsorted(values, rate_bytes_per_s)
    copy_rates(images.smallest, images.symmetry, symmetries.places, numbers)
    return Rates(numbers.view(np.uint64), 8 * narrow.itemsize, values)


def _copy_to_images(
    space: Space, symmetries: _Symmetries, images: _Images, elapsed_s: NDArray[np.float64], threads: int
) -> None:
    """Copy the time of each evaluated schedule to its symmetric equivalents."""
    from fabricast.pcie.schedules.kernels.synchronised import copy_times

    first_sends = [
        weight * (np.array(orders)[:, :1] + 1) for weight, orders in zip(space.weights, space.permutations, strict=True)
    ]
    low_sends, high_sends = (half[:, 0] for half in space.combine(first_sends))
    low_images, high_images = symmetries.schedules
    over_blocks(
        lambda first, last: copy_times(
            first, last, low_sends, high_sends, images.smallest, images.symmetry, low_images, high_images, elapsed_s
        ),
        high_sends.size,
        threads=threads,
        block=max(1, high_sends.size // (4 * threads)),
    )
