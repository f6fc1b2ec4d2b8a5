"""Parallel work in threads: blocks of numbers, ordered results and prefetching."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def over_blocks(
    work: Callable[[int, int], object],
    count: int,
    *,
    threads: int,
    block: int,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Process the numbers 0 to `count` - 1 in blocks that are distributed over threads.

    Small blocks keep all threads busy.

    >>> squares = [0] * 5
    >>> def work(first, last):
    ...     squares[first:last] = [n * n for n in range(first, last)]
    >>> over_blocks(work, 5, threads=2, block=2)
    >>> squares
    [0, 1, 4, 9, 16]
    """
    bounds = [(first, min(first + block, count)) for first in range(0, count, block)]

    def one(bound: tuple[int, int]) -> int:
        work(*bound)
        return bound[1] - bound[0]

    in_order(one, bounds, threads=threads, progress=progress, parts=lambda done: done)


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    threads: int,
    progress: Callable[[int], None] | None = None,
    parts: Callable[[Result], int] = lambda result: 1,
) -> list[Result]:
    """Apply a function to items in threads and return the results in order.

    >>> in_order(abs, [-2, 1], threads=2)
    [2, 1]
    """
    results = []
    # A single thread needs no pool, whose start would slow down short work.
    with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
        for result in map(work, items) if pool is None else pool.map(work, items):
            results.append(result)
            if progress is not None:
                progress(parts(result))
    return results


def prefetched(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items in order while a thread prefetches the next item.

    >>> list(prefetched(iter("ab")))
    ['a', 'b']
    """
    end = object()
    remaining = iter(items)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, remaining, end)
        while (item := following.result()) is not end:
            following = pool.submit(next, remaining, end)
            yield item  # type: ignore[misc]  # the end marker is never yielded


def prefetched_map(work: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> Iterator[Result]:
    """Yield the results of a function for items in order, and prefetch further results.

    As many results are computed ahead as there are threads; with one thread, each result is computed on request.

    >>> list(prefetched_map(abs, iter([-2, 1, -3]), threads=2))
    [2, 1, 3]
    """
    if threads == 1:
        yield from map(work, items)
        return
    pool, pending = ThreadPoolExecutor(threads), deque[Future[Result]]()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        # After an error or an interrupt, work that has not begun is left.
        pool.shutdown(cancel_futures=True)
