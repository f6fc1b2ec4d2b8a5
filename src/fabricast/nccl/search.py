"""NCCL's search for rings and trees: number of channels, their speed and the order of GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from fabricast.nccl.system import MILLI, Cpu, NcclSystem, PathType, Version

#: Number of search steps of one search: with equal channels, and otherwise (src/graph/search.cc).
_SAME_CHANNELS_STEPS, _STEPS, _ALL_STEPS = 1 << 8, 1 << 14, 1 << 19
_MOST_CHANNELS = 32
_FALLBACK_GB_PER_S = 0.1


#: Speeds of a channel over several hosts, slower than those that depend on the GPU.
_SLOW_SPEEDS = (15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12)
_SLOW_SPEEDS_90 = (24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12)


def search_speeds(capability: float, version: Version, *, several_hosts: bool = False) -> tuple[float, ...]:
    """Return the speeds of a channel that NCCL tries, in GB/s, fastest first."""
    if several_hosts:
        if capability < 9:
            return (48.0, 30.0, 28.0, 24.0, 20.0, 18.0, *_SLOW_SPEEDS)
        if capability < 10:
            return (48.0, 45.0, 42.0, 40.0, 30.0, *_SLOW_SPEEDS_90)
        fast = (96.0,) * (version >= (2, 28, 0)) + (86.0, 80.0) * (version >= (2, 30, 0))
        return (*fast, 48.0, 45.1, 42.0, 40.0, 30.0, *_SLOW_SPEEDS_90)
    if capability >= 10:
        speeds = [90, 80, 70, 60, 50, 40, 30, 24, 20, 19]
        if version >= (2, 29, 0):
            speeds.insert(5, 45)
        if version >= (2, 27, 0):
            speeds.append(18)
        return tuple(float(speed) for speed in speeds)
    if capability >= 9:
        return (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
    return (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)


class Pattern:
    """Numbers of patterns in logs and graph files (src/include/graph.h)."""

    BALANCED_TREE, SPLIT_TREE, TREE, RING = 1, 2, 3, 4


@dataclass(frozen=True)
class SearchGraph:
    """Rings or trees of NCCL's search, before it doubles the channels for use."""

    orders: tuple[tuple[int, ...], ...]  # GPUs of each channel, in ring order
    gb_per_s: float  # Speed of each channel in GB/s, as NCCL counts
    type: PathType  # Farthest path that a channel may use
    is_fallback: bool = False  # Whether the search failed, so that one slow channel in the order of bus ids is used
    same_channels: bool = True  # Whether all channels have the same order

    @property
    def channels(self) -> int:
        """Number of channels of the search."""
        return len(self.orders)

    @property
    def total_gb_per_s(self) -> float:
        """Speed of all channels in GB/s."""
        return self.channels * self.gb_per_s


@dataclass
class _State:
    """State of one search: remaining bandwidth of each directed link, and channels so far."""

    remaining: list[int]
    gb_per_s: float
    type: PathType
    same_channels: bool
    least_channels: int
    most_channels: int
    steps: int = 0
    hops: int = 0
    orders: list[list[int]] = field(default_factory=list)


@dataclass
class _Best:
    """Best channels so far; `is_complete` if the largest number of channels was reached."""

    orders: list[list[int]] = field(default_factory=list)
    gb_per_s: float = 0.0
    type: PathType = PathType.LOC
    hops: int = 0
    same_channels: bool = True
    is_complete: bool = False


class _Search:
    """Depth-first search of one pattern; a step budget bounds it as in NCCL."""

    def __init__(self, system: NcclSystem, *, is_ring: bool, most_channels: int, least_channels: int) -> None:
        self._system, self._is_ring = system, is_ring
        self._most, self._least = most_channels, least_channels
        gpus = range(system.gpus)
        self._paths = [[system.path(source, target) for target in gpus] for source in gpus]
        # Intel host bridges: copies of type PHB count 6/5 on PCI links.
        self._needs = {
            (source, target): [
                (link, 1.2 if path.type == PathType.PHB and system.cpu.is_intel and system.is_pci[link] else 1.0)
                for link in path.links
            ]
            for source in gpus
            for target in gpus
            if (path := self._paths[source][target]).links
        }
        self.best = _Best()

    def _follow(self, state: _State, source: int, target: int) -> bool:
        """Reserve the links of a path; False if one lacks bandwidth or the path is too far."""
        path = self._paths[source][target]
        if path.type > state.type or (not self._is_ring and self._paths[target][source].type > state.type):
            return False
        reserved: list[tuple[int, int]] = []
        for link, factor in self._needs[source, target]:
            need = round(state.gb_per_s * factor * MILLI)
            if state.remaining[link] < need:
                for taken, amount in reserved:
                    state.remaining[taken] += amount
                return False
            state.remaining[link] -= need
            reserved.append((link, need))
        state.hops += len(path.links)
        return True

    def _leave(self, state: _State, source: int, target: int) -> None:
        for link, factor in self._needs[source, target]:
            state.remaining[link] += round(state.gb_per_s * factor * MILLI)
        state.hops -= len(self._paths[source][target].links)

    def _next(self, gpu: int, order: list[int]) -> list[int]:
        """Return the next GPUs to try: highest bandwidth, fewest hops, nearest number."""
        count = self._system.gpus
        candidates = [(gpu + offset) % count for offset in range(1, count)]
        paths = self._paths[gpu]
        rest = [one for one in candidates if one not in order]
        return sorted(rest, key=lambda one: (-paths[one].gb_per_s, len(paths[one].links)))

    def _finish_channel(self, state: _State) -> None:
        best, channels = self.best, len(state.orders)
        if channels >= state.least_channels:
            mine, other = channels * state.gb_per_s, len(best.orders) * best.gb_per_s
            if mine > other or (mine == other and state.hops < best.hops):
                best.orders = [list(order) for order in state.orders]
                best.gb_per_s, best.type, best.hops = state.gb_per_s, state.type, state.hops
                best.same_channels = state.same_channels
                if channels == state.most_channels:
                    best.is_complete, state.steps = True, -1
        if channels < state.most_channels:
            self._channel(state)

    def _gpu(self, state: _State, gpu: int, forced: list[int] | None) -> None:
        """Continue the last channel from a GPU."""
        if state.steps <= 0:
            return
        state.steps -= 1
        order, count = state.orders[-1], self._system.gpus
        if len(order) < count:
            following = [forced[len(order)]] if forced is not None else self._next(gpu, order)
            for one in following:
                if self._follow(state, gpu, one):
                    order.append(one)
                    self._gpu(state, one, forced)
                    order.pop()
                    self._leave(state, gpu, one)
        elif self._is_ring:
            if self._follow(state, gpu, order[0]):
                self._close(state)
                self._leave(state, gpu, order[0])
        else:
            self._close(state)

    def _close(self, state: _State) -> None:
        if state.steps <= 0:
            return
        state.steps -= 1
        self._finish_channel(state)

    def _start(self, state: _State, gpu: int, forced: list[int] | None) -> None:
        state.orders.append([gpu])
        self._gpu(state, gpu, forced)
        state.orders.pop()

    def _channel(self, state: _State) -> None:
        """Add a channel: in the order of bus ids, in that of the last channel, then in any order."""
        count = self._system.gpus
        is_first = not state.orders
        previous = list(range(count)) if is_first else list(state.orders[-1])
        self._start(state, previous[0], previous)
        if not state.same_channels or is_first:
            for gpu in range(count):
                self._start(state, gpu, None)

    def _run(self, gb_per_s: float, kind: PathType, same: bool, least: int) -> int:
        """Search once; return the remaining steps, or -1 if the most channels fit."""
        state = _State(self._system.milli_gb_per_s.tolist(), gb_per_s, kind, same, least, self._most)
        state.steps = _SAME_CHANNELS_STEPS if same else _STEPS
        self.best.is_complete = False
        self._channel(state)
        return -1 if self.best.is_complete else max(state.steps, 0)

    def run(self) -> SearchGraph:
        """Return the channels by the order of searches in `ncclTopoCompute`."""
        system = self._system
        pairs = [(one, other) for one in range(system.gpus) for other in range(system.gpus) if one != other]
        kinds = [self._paths[one][other].type for one, other in pairs]
        total = float(np.max(system.gpu_gb_per_s))
        fastest = max(self._paths[one][other].gb_per_s for one, other in pairs)
        reachable = total if self._is_ring else total * system.gpus / (system.gpus - 1)
        speeds = search_speeds(system.capability, system.version)
        self._first_pass(speeds, min(kinds), max(kinds), fastest, reachable, total)
        self._duplicate()
        self._second_pass(speeds, max(kinds))
        best = self.best
        if not best.orders:
            order = tuple(range(system.gpus))
            return SearchGraph((order,), _FALLBACK_GB_PER_S, PathType.SYS, is_fallback=True)
        return SearchGraph(
            tuple(tuple(order) for order in best.orders),
            best.gb_per_s,
            best.type,
            same_channels=all(order == best.orders[0] for order in best.orders),
        )

    def _first_pass(
        self,
        speeds: tuple[float, ...],
        nearest: PathType,
        farthest: PathType,
        fastest: float,
        reachable: float,
        total: float,
    ) -> None:
        """Search from the fastest speed downwards: same order, other orders, farther paths, lower speed."""
        is_amd = self._system.cpu in (Cpu.AMD, Cpu.UNKNOWN)
        index = 0
        while index < len(speeds) - 1 and (speeds[index] > fastest or speeds[index] * self._least > reachable):
            index += 1
        kind, same, budget = nearest, True, _ALL_STEPS
        best = self.best
        while True:
            budget -= _SAME_CHANNELS_STEPS if same else _STEPS
            steps = self._run(speeds[index], kind, same, self._least)
            if steps == -1 or len(best.orders) * best.gb_per_s >= total:
                return
            if same and not (is_amd and kind == PathType.SYS):
                same = False
                continue
            same = True
            budget += steps
            if budget < 0 and best.orders:
                return
            if kind < farthest and (not best.orders or kind < best.type):
                kind = PathType(kind + 1)
                continue
            kind = nearest
            if index < len(speeds) - 1 and (not best.orders or speeds[index + 1] / best.gb_per_s > 0.49):
                index += 1
                continue
            return

    def _duplicate(self) -> None:
        """Double fast channels at half the speed (`ncclTopoDupChannels`)."""
        best, capability = self.best, self._system.capability
        if not best.orders or best.gb_per_s < 25 or (capability > 8 and best.gb_per_s < 50 and len(best.orders) > 4):
            return
        count = min(2 * len(best.orders), self._most)
        best.gb_per_s /= -(-count // len(best.orders))
        best.orders = (best.orders * 2)[:count]

    def _second_pass(self, speeds: tuple[float, ...], farthest: PathType) -> None:
        """Raise the speed of the channels, step by step, while the search succeeds."""
        best = self.best
        if not best.orders:
            return
        index = 0
        while index < len(speeds) - 1 and speeds[index] > best.gb_per_s:
            index += 1
        kind, same, least = best.type, best.same_channels, len(best.orders)
        steps = -1
        while steps != 0 and index > 0 and (self._is_ring or steps == -1):
            index -= 1
            before = best.gb_per_s
            steps = self._run(speeds[index], kind, same, least)
            if not self._is_ring and best.gb_per_s == before:
                return


@lru_cache(maxsize=64)
def search_rings(system: NcclSystem) -> SearchGraph:
    """Return the rings that NCCL finds on a machine.

    NVIDIA/nccl 5067397c (v2.30.7), src/graph/search.cc, `ncclTopoCompute`.

    Between two sockets of AMD processors, one channel of 15 GB/s fits. For GPUs of capability 10 and later, NCCL tries
    no speed below 18 GB/s, so that the search fails:

    >>> from dataclasses import replace
    >>> system = NcclSystem(((),) * 4, (), (24.0,) * 4, (), (0, 0, 1, 1), Cpu.AMD, 8.9, p2p_level=PathType.SYS)
    >>> search_rings(system).channels, search_rings(system).gb_per_s
    (1, 15.0)
    >>> search_rings(replace(system, capability=12.0)).is_fallback
    True
    """
    return _Search(system, is_ring=True, most_channels=_MOST_CHANNELS, least_channels=1).run()


@lru_cache(maxsize=64)
def search_trees(system: NcclSystem) -> SearchGraph:
    """Return the trees that NCCL finds: on one host, chains with the number of channels of the rings."""
    channels = search_rings(system).channels
    return _Search(system, is_ring=False, most_channels=channels, least_channels=channels).run()
