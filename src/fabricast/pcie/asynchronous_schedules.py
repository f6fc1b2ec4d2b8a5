"""Times of all asynchronous schedules of a pattern, each computed once for all that symmetries make of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricast.pcie.schedule_runs import Run
from fabricast.pcie.schedule_space import Space
from fabricast.runtime.threads import over_blocks

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
        lambda first, last: asynchronous_times(first, last, numbers, space.counts, *phases, rates, found),
        numbers.size, threads=run.threads, block=max(4096, numbers.size // (6 * run.threads)),
    )  # fmt: skip
    if numbers.size == space.pattern.schedules:
        return found
    elapsed_s = np.empty(space.pattern.schedules, dtype=np.float64)
    elapsed_s[numbers] = found
    expanded: NDArray[np.float64] = elapsed_s[smallest]
    return expanded


def _phases(
    run: Run, space: Space
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Lay out what each order of each source goes through, as the kernel takes it."""
    begins = np.zeros((len(space.sources), int(space.counts.max())), dtype=np.int64)
    amounts: list[NDArray[np.float64]] = []
    paces: list[NDArray[np.float64]] = []
    parts: list[NDArray[np.int64]] = []
    every = 2 if run.latency_s > 0.0 else 1
    laid_out = 0
    for place, (source, orders) in enumerate(zip(space.sources, space.permutations, strict=True)):
        choices = np.array(orders, dtype=np.int64)
        amount = np.full((choices.shape[0], every * choices.shape[1] + 1), np.inf, dtype=np.float64)
        pace, part = np.zeros(amount.shape, dtype=np.float64), np.zeros(amount.shape, dtype=np.int64)
        begins[place, : choices.shape[0]] = laid_out + amount.shape[1] * np.arange(choices.shape[0])
        laid_out += amount.size
        if every == 2:
            amount[:, :-1:2], pace[:, :-1:2] = run.latency_s, 1.0
        amount[:, every - 1 : -1 : every] = np.array(space.pattern.size_bytes[source], dtype=np.float64)[choices]
        part[:, every - 1 : -1 : every] = space.weights[place] * (choices + 1)
        amounts.append(amount.ravel())
        paces.append(pace.ravel())
        parts.append(part.ravel())
    amount = np.concatenate(amounts)
    limit = np.where(np.isfinite(amount), _SAME_TIME * amount, 0.0)
    return begins, amount, limit, np.concatenate(paces), np.concatenate(parts)


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
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest image of each number under symmetries, itself included, and which of them gives it."""
    from fabricast.pcie.kernels.schedules import smallest_images

    low, high = map(np.stack, zip(*images, strict=True))
    smallest, symmetry = np.empty((2, low.shape[1] * high.shape[1]), dtype=np.int64)
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
    degrees = [len(own) for own in pattern.targets]
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

        def step(
            place: int, digit: int, places: NDArray[np.int64] = places, becomes: list[list[int]] = becomes
        ) -> NDArray[np.int64]:
            return space.weights[places[place], np.newaxis] * (becomes[place][digit - 1] + 1 if digit else 0)

        def schedule(
            place: int, k: int, places: NDArray[np.int64] = places, becomes: list[list[int]] = becomes
        ) -> NDArray[np.int64]:
            choices = tuple(becomes[place][choice] for choice in space.permutations[place][k])
            return space.scales[places[place], np.newaxis] * space.permutations[places[place]].index(choices)

        digits = [degrees[source] + 1 for source in space.sources]
        found.append(_Symmetry(places, _flat(space.combine(step, digits)), _flat(space.combine(schedule))))
    return found


def _flat(halves: tuple[NDArray[np.int64], NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return halves[0][:, 0], halves[1][:, 0]
