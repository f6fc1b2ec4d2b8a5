"""Times of all asynchronous schedules of a pattern, each computed once for all that symmetries make of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.schedule_runs import Run
from fabricast.pcie.schedule_space import Space
from fabricast.runtime.threads import over_blocks

if TYPE_CHECKING:
    from fabricast.pcie.kernels.schedules import Phases

__all__ = ["asynchronous_times_s"]

#: Of what a phase has to go, what is left when it counts as over.
_SAME_TIME = 1e-9
#: Kinds of phases; the next ones are the sends, source after source.
_END, _PAUSE = range(2)


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
        When the last send of each schedule ends, in seconds.
    """
    from fabricast.pcie.kernels.schedules import asynchronous_times

    symmetries = _symmetries(run, space)
    rates = run.bandwidth_bytes_per_s * _rates_of_active_sets(run, space, symmetries)
    phases = _phases(run, space)
    if len(symmetries) > 1:
        smallest, _ = _smallest_images([one.schedules for one in symmetries], run.threads)
        numbers = np.flatnonzero(smallest == np.arange(smallest.size))
    else:
        numbers = np.arange(space.pattern.schedules)
    found = np.empty(numbers.size, dtype=np.float64)
    over_blocks(
        lambda first, last: asynchronous_times(first, last, numbers, space.counts, phases, rates, found),
        numbers.size, threads=run.threads, block=max(4096, numbers.size // (6 * run.threads)),
    )  # fmt: skip
    if numbers.size == space.pattern.schedules:
        return found
    elapsed_s = np.empty(space.pattern.schedules, dtype=np.float64)
    elapsed_s[numbers] = found
    expanded: NDArray[np.float64] = elapsed_s[smallest]
    return expanded


def _phases(run: Run, space: Space) -> Phases:
    """Lay out what each order of each source goes through, as the kernel takes it."""
    from fabricast.pcie.kernels.schedules import Phases

    begins = np.zeros((len(space.sources), int(space.counts.max())), dtype=np.int64)
    amount, part = [np.inf, run.latency_s], [0, 0]
    kinds: list[NDArray[np.uint16]] = []
    # With pauses every second phase is a send.
    every = 2 if run.latency_s > 0.0 else 1
    for place, (source, orders) in enumerate(zip(space.sources, space.permutations, strict=True)):
        choices = np.array(orders, dtype=np.uint16)
        own = np.full((choices.shape[0], every * choices.shape[1] + 1), _PAUSE, dtype=np.uint16)
        own[:, -1] = _END
        own[:, every - 1 : -1 : every] = len(amount) + choices
        begins[place, : own.shape[0]] = sum(one.size for one in kinds) + own.shape[1] * np.arange(own.shape[0])
        kinds.append(own.ravel())
        amount += space.pattern.size_bytes[source]
        part += (space.weights[place] * np.arange(1, choices.shape[1] + 1)).tolist()
    amounts = np.array(amount, dtype=np.float64)
    limit = np.where(np.isfinite(amounts), _SAME_TIME * amounts, 0.0)
    pace = np.zeros(amounts.size, dtype=np.float64)
    pace[_PAUSE] = 1.0
    return Phases(begins, np.concatenate(kinds), amounts, limit, pace, np.array(part, dtype=np.int64))


def _rates_of_active_sets(run: Run, space: Space, symmetries: list[_Symmetry]) -> NDArray[np.float64]:
    """Congestion factors of every set of sends that can be active, shape (codes, sources)."""
    # Of the sets that symmetries make of each other, one is evaluated.
    evaluated = every = np.arange(space.codes)
    if len(symmetries) > 1:
        smallest, symmetry = _smallest_images([one.steps for one in symmetries], run.threads)
        evaluated = np.flatnonzero(smallest == every)
    # The first is the empty one.
    graphs = space.active_sets(evaluated[1:], sized=False)
    place = np.full(len(space.pattern.targets), -1, dtype=np.int64)
    place[list(space.sources)] = np.arange(len(space.sources))
    rates = np.zeros((space.codes, len(space.sources)), dtype=np.float64)
    rho = run.evaluate(graphs, first=True).initial_rho
    rates[evaluated[1 + graphs.graph_of_communication], place[graphs.source]] = rho
    if evaluated.size < every.size:
        rates = rates[smallest[:, np.newaxis], np.stack([one.places for one in symmetries])[symmetry]]
    return rates


def _smallest_images(
    images: list[tuple[NDArray[np.int64], NDArray[np.int64]]], threads: int
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Return the smallest image of each number under symmetries, itself included, and which of them gives it."""
    from fabricast.pcie.kernels.schedules import smallest_images

    low, high = map(np.stack, zip(*images, strict=True))
    # Eight endpoints have 40,320 symmetries at most.
    smallest = np.empty(low.shape[1] * high.shape[1], dtype=np.int64)
    symmetry = np.empty(smallest.size, dtype=np.uint16)
    over_blocks(
        lambda first, last: smallest_images(first, last, low, high, smallest, symmetry),
        high.shape[1], threads=threads, block=max(1, high.shape[1] // (4 * threads)),
    )  # fmt: skip
    return smallest, symmetry


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
