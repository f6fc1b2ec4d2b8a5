"""Times of all asynchronous schedules of a pattern, those that symmetries make of each other and beginnings once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.schedule_runs import Run
from fabricast.pcie.schedule_space import Space
from fabricast.runtime.threads import over_blocks

if TYPE_CHECKING:
    from fabricast.pcie.kernels.schedules import Sends

__all__ = ["asynchronous_times_s"]

#: Of what a phase has to go, what is left when it counts as over.
_SAME_TIME = 1e-9


def asynchronous_times_s(run: Run, space: Space) -> NDArray[np.float64]:
    """Run every schedule of a pattern, each source going on to its next send by itself.

    Parameters
    ----------
    run : Run
        Model and machine.
    space : Space
        The schedules.

    Returns
    -------
    ndarray of float64, shape (schedules,)
        When the last send of each schedule ends, in seconds; infinite if one never does.
    """
    from fabricast.pcie.kernels.schedules import asynchronous_times

    symmetries = _symmetries(run, space)
    images = _images_of_steps(space, symmetries, run.threads)
    rates = _rates_of_active_sets(run, space, images)
    # First sends are an active set in which no source is idle.
    codes = np.flatnonzero(images.smallest == np.arange(space.codes))
    first_sends = codes[((codes[:, np.newaxis] // space.weights) % space.digits != 0).all(axis=1)]
    sends = _sends(run, space)
    elapsed_s = np.full(space.pattern.schedules, np.inf)
    over_blocks(
        lambda first, last: asynchronous_times(first, last, first_sends, space.weights, sends, rates, elapsed_s),
        first_sends.size, threads=run.threads, block=max(64, first_sends.size // (4 * run.threads)),
    )  # fmt: skip
    if len(symmetries) > 1:
        _copy_to_images(space, symmetries, images, elapsed_s, run.threads)
    return elapsed_s


def _sends(run: Run, space: Space) -> Sends:
    """Lay out what each source goes through, as the kernel takes it."""
    from fabricast.pcie.kernels.schedules import Sends

    targets = space.digits - 1
    amount, part = [np.inf, run.latency_s], [0, 0]
    first_kind = np.zeros(targets.size, dtype=np.int64)
    weight = np.zeros((targets.size, int(targets.max()) + 1), dtype=np.int64)
    for place, source in enumerate(space.sources):
        first_kind[place] = len(amount)
        amount += space.pattern.size_bytes[source]
        part += (space.weights[place] * np.arange(1, targets[place] + 1)).tolist()
        for waiting in range(1, int(targets[place]) + 1):
            # Orders have numbers by their first send, then by their second.
            weight[place, waiting] = space.scales[place] * math.factorial(waiting - 1)
    amounts = np.array(amount, dtype=np.float64)
    # What is left without end is never over.
    limit = np.where(np.isfinite(amounts), _SAME_TIME * amounts, 0.0)
    # One limit is enough for phases of one size.
    if run.latency_s == 0.0 and np.unique(amounts[2:]).size == 1:
        limit = limit[2:3]
    pace = np.array([0.0, 1.0] + [0.0] * (amounts.size - 2))
    return Sends(first_kind, targets, amounts, limit, pace, np.array(part, dtype=np.int64), weight, run.latency_s)


@dataclass(frozen=True)
class _Images:
    """Of each step the smallest code that a symmetry gives it, and which symmetry does."""

    smallest: NDArray[np.int64]
    symmetry: NDArray[np.uint16]
    places: NDArray[np.int64]


def _images_of_steps(space: Space, symmetries: list[_Symmetry], threads: int) -> _Images:
    from fabricast.pcie.kernels.schedules import smallest_images

    if len(symmetries) <= 1:
        own = np.arange(len(space.sources))[np.newaxis]
        return _Images(np.arange(space.codes), np.zeros(space.codes, dtype=np.uint16), own)
    low, high = map(np.stack, zip(*(one.steps for one in symmetries), strict=True))
    smallest = np.empty(space.codes, dtype=np.int64)
    # Eight endpoints have 40,320 symmetries at most.
    symmetry = np.empty(space.codes, dtype=np.uint16)
    over_blocks(
        lambda first, last: smallest_images(first, last, low, high, smallest, symmetry),
        high.shape[1], threads=threads, block=max(1, high.shape[1] // (4 * threads)),
    )  # fmt: skip
    return _Images(smallest, symmetry, np.stack([one.places for one in symmetries]))


def _rates_of_active_sets(run: Run, space: Space, images: _Images) -> NDArray[np.float64]:
    """Return the rates in bytes/s of every set of sends that can be active, shape (codes, sources)."""
    from fabricast.pcie.kernels.schedules import copy_rates

    # Of the sets that symmetries make of each other, one is evaluated; the first is the empty one.
    evaluated = np.flatnonzero(images.smallest == np.arange(space.codes))[1:]
    graphs = space.active_sets(evaluated, sized=False)
    place = np.full(len(space.pattern.targets), -1, dtype=np.int64)
    place[list(space.sources)] = np.arange(len(space.sources))
    rates = np.zeros((space.codes, len(space.sources)), dtype=np.float64)
    rho = run.evaluate(graphs, first=True).initial_rho
    rates[evaluated[graphs.graph_of_communication], place[graphs.source]] = run.bandwidth_bytes_per_s * rho
    copy_rates(images.smallest, images.symmetry, images.places, rates)
    return rates


def _copy_to_images(
    space: Space, symmetries: list[_Symmetry], images: _Images, elapsed_s: NDArray[np.float64], threads: int
) -> None:
    """Give schedules that were not run the times of those of which symmetries make them."""
    from fabricast.pcie.kernels.schedules import copy_times

    def first_send(place: int, order: int) -> NDArray[np.int64]:
        return space.weights[place, np.newaxis] * (space.permutations[place][order][0] + 1)

    low_sends, high_sends = _flat(space.combine(space.counts, first_send))
    low_images, high_images = map(np.stack, zip(*(one.schedules for one in symmetries), strict=True))
    over_blocks(
        lambda first, last: copy_times(
            first, last, low_sends, high_sends, images.smallest, images.symmetry, low_images, high_images, elapsed_s
        ),
        high_sends.size, threads=threads, block=max(1, high_sends.size // (4 * threads)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Symmetry:
    """A symmetry of the tree that keeps the pattern and its sizes: what low and high sources add to an image."""

    places: NDArray[np.int64]
    steps: tuple[NDArray[np.int64], NDArray[np.int64]]
    schedules: tuple[NDArray[np.int64], NDArray[np.int64]]


def _symmetries(run: Run, space: Space) -> list[_Symmetry]:
    pattern = space.pattern
    if len(pattern.targets) > 8:
        return []
    size_of = {
        (s, t): size for s in space.sources for t, size in zip(pattern.targets[s], pattern.size_bytes[s], strict=True)
    }
    found = []
    for image in run.tree.automorphisms.tolist():
        if {(image[s], image[t]): size for (s, t), size in size_of.items()} != size_of:
            continue
        places = np.array([space.sources.index(image[source]) for source in space.sources], dtype=np.int64)
        # For each source, which send of its image each of its own becomes.
        becomes = [
            [pattern.targets[image[source]].index(image[target]) for target in pattern.targets[source]]
            for source in space.sources
        ]
        of_step = partial(_image_of_digit, space, places, becomes)
        of_order = partial(_image_of_order, space, places, becomes)
        found.append(
            _Symmetry(places, _flat(space.combine(space.digits, of_step)), _flat(space.combine(space.counts, of_order)))
        )
    return found


def _image_of_digit(
    space: Space, places: NDArray[np.int64], becomes: list[list[int]], place: int, digit: int
) -> NDArray[np.int64]:
    """Return what a source adds to the code of the image of a step."""
    return space.weights[places[place], np.newaxis] * (becomes[place][digit - 1] + 1 if digit else 0)


def _image_of_order(
    space: Space, places: NDArray[np.int64], becomes: list[list[int]], place: int, k: int
) -> NDArray[np.int64]:
    """Return what a source adds to the number of the image of a schedule."""
    choices = tuple(becomes[place][choice] for choice in space.permutations[place][k])
    return space.scales[places[place], np.newaxis] * space.permutations[places[place]].index(choices)


def _flat(halves: tuple[NDArray[np.int64], NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return halves[0][:, 0], halves[1][:, 0]
