"""Work on ranges of numbers, spread over threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TypeVar

__all__ = ["in_order", "made_ahead", "mapped_ahead", "over_blocks"]

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
    """Work on the numbers 0 to `count` - 1 in blocks; small ones keep all threads busy.

    Parameters
    ----------
    work : callable
        Takes the first number of a block and the one after its last; it must release the
        lock of the interpreter, and results must not depend on the order of blocks.
    count : int
        How many numbers there are.
    threads : int
        Threads to use.
    block : int
        Numbers that a thread takes at a time.
    progress : callable, optional
        Called with the number of results since its last call.

    Examples
    --------
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
    """Work on items in threads and return the results in their order.

    Parameters
    ----------
    work : callable
        Takes an item; it must release the lock of the interpreter to gain from threads.
    items : iterable
        What to work on.
    threads : int
        Threads to use.
    progress : callable, optional
        Called with how much was done since its last call.
    parts : callable, optional
        How much a result counts; by default 1.

    Examples
    --------
    >>> in_order(abs, [-2, 1], threads=2)
    [2, 1]
    """
    results = []
    # One thread alone needs no pool: short work is then not slowed down by starting one.
    with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
        for result in map(work, items) if pool is None else pool.map(work, items):
            results.append(result)
            if progress is not None:
                progress(parts(result))
    return results


def made_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Give items in their order; while one is in use, a thread makes the next.

    Parameters
    ----------
    items : iterable
        What is made one after the other; errors in it are raised here.

    Examples
    --------
    >>> list(made_ahead(iter("ab")))
    ['a', 'b']
    """
    end = object()
    remaining = iter(items)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, remaining, end)
        while (item := following.result()) is not end:
            following = pool.submit(next, remaining, end)
            yield item  # type: ignore[misc]  # the mark of the end is not given


def mapped_ahead(work: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> Iterator[Result]:
    """Give what work returns for items, in their order; while one is in use, as many as there are threads are made.

    Parameters
    ----------
    work : callable
        Takes an item; errors in it are raised here. With one thread it takes one item after the other, when asked.
    items : iterable
        What to work on, taken by who asks for results.
    threads : int
        Threads to use.

    Examples
    --------
    >>> list(mapped_ahead(abs, iter([-2, 1, -3]), threads=2))
    [2, 1, 3]
    """
    if threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        made: deque[Future[Result]] = deque()
        for item in items:
            made.append(pool.submit(work, item))
            if len(made) > threads:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
