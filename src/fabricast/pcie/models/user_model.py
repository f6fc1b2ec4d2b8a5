"""Models that a user writes: a Python function returns the rates of the copies that run at the same time."""

from __future__ import annotations

import heapq
import reprlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError
from fabricast.pcie.graphs.congestion_graphs import CongestionGraphs
from fabricast.pcie.topology.tree import PcieTree

#: Function of topology and running copies, as pairs of endpoint names, that returns the rate of each in bytes/s.
UserRates = Callable[[PcieTree, Sequence[tuple[str, str]]], Sequence[float]]
#: Remaining bytes of a copy below which it is complete.
_COMPLETE_BYTES = 1e-6


#: Rate below which all copies of a graph are in another unit, such as GB/s.
_SLOWEST_BYTES_PER_S = 1e6


@dataclass(frozen=True)
class UserModel:
    """Model of a user.

    Parameters
    ----------
    rates : callable
        Function ``rates(tree, copies)``; it is called whenever a copy starts or ends.
    """

    rates: UserRates
    #: Machine parameters that its tree has.
    parameters = frozenset({"bandwidth"})

    @property
    def name(self) -> str:
        """Name of the function."""
        return getattr(self.rates, "__name__", "user function")

    def end_s(self, tree: PcieTree, graphs: CongestionGraphs) -> NDArray[np.float64]:
        """Return the completion time of each copy in s.

        >>> from fabricast.pcie.graphs.congestion_graphs import from_pairs
        >>> from fabricast.pcie.topology.regular import regular_tree
        >>> equal = UserModel(lambda tree, copies: [10e9 / len(copies)] * len(copies))
        >>> equal.end_s(regular_tree("pair", (2,)), from_pairs([[(0, 1), (1, 0)]], size_bytes=10e9)).tolist()
        [2.0, 2.0]
        """
        parts = [self._of_graph(tree, graphs, number) for number in range(len(graphs))]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _of_graph(self, tree: PcieTree, graphs: CongestionGraphs, number: int) -> NDArray[np.float64]:
        part = slice(int(graphs.offset[number]), int(graphs.offset[number + 1]))
        names = tree.endpoint_names
        copies = [(names[source], names[target]) for source, target in graphs.pairs(number)]
        left, end_s = graphs.size_bytes[part].copy(), np.zeros(len(copies))
        waiting = [(float(start), copy) for copy, start in enumerate(graphs.start_s[part])]
        heapq.heapify(waiting)
        running: list[int] = []
        now = 0.0
        while waiting or running:
            if not running:
                now = waiting[0][0]
            while waiting and waiting[0][0] <= now:
                running.append(heapq.heappop(waiting)[1])
            rates = self._checked(tree, graphs.names[number], [copies[copy] for copy in running])
            step = min(left[copy] / rate for copy, rate in zip(running, rates, strict=True))
            if waiting:
                step = min(step, waiting[0][0] - now)
            now += step
            left[running] -= np.array(rates) * step
            done = [copy for copy in running if left[copy] <= _COMPLETE_BYTES]
            end_s[done] = now
            running = [copy for copy in running if copy not in done]
        return end_s

    def _checked(self, tree: PcieTree, graph: str, copies: list[tuple[str, str]]) -> list[float]:
        """Return the rates of running copies; a function that returns others is refused."""
        try:
            returned = self.rates(tree, copies)
        except Exception as error:
            # A function of the user can raise anything.
            text = f"'{self.name}' raised {type(error).__name__}: {error} for graph '{graph}'{_raised_at(error)}"
            raise InputError(text, argument="model") from error
        try:
            rates = [float(rate) for rate in returned]
        except (TypeError, ValueError):
            rates = []
        if len(rates) != len(copies) or not all(np.isfinite(rate) and rate > 0 for rate in rates):
            raise InputError(
                f"'{self.name}' returned {reprlib.repr(returned)} for {len(copies)} copies of graph '{graph}', "
                "expected one positive rate in bytes/s for each",
                argument="model",
            )
        if rates and max(rates) < _SLOWEST_BYTES_PER_S:
            raise InputError(
                f"'{self.name}' returned rates up to {max(rates):g} for graph '{graph}', expected bytes/s, at least "
                f"{_SLOWEST_BYTES_PER_S:g}",
                argument="model",
            )
        return rates


def _raised_at(error: Exception) -> str:
    """Return the last line of a file that an error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    # The first frame is the call; a wrong number of arguments has no other one.
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if len(frames) > 1 else ""


def named_function(name: str) -> UserRates:
    """Return the function of a name such as ``my_models:fair``.

    >>> named_function("operator:add").__name__
    'add'
    """
    module, _, function = name.partition(":")
    if not all(word.isidentifier() for word in (*module.split("."), function)):
        raise InputError(f"'{name}' is no name of a function, expected module:function such as my_models:fair")
    folder = str(Path.cwd())
    if folder not in sys.path:  # programs that are not started by `python -m` do not search the working folder
        sys.path.append(folder)
    try:
        found = getattr(import_module(module), function)
    except Exception as error:
        # A module of the user can raise anything.
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"'{name}' cannot be imported ({reason}), expected a function such as my_models:fair in the working folder"
        ) from error
    if not callable(found):
        raise InputError(f"'{name}' is no function, expected one such as my_models:fair")
    return found  # type: ignore[no-any-return]  # any callable
