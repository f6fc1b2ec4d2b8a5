"""NCCL's view of a machine: GPUs, PCI links, NUMA nodes, and the paths between GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabricast.core.errors import InputError

#: Version (major, minor, patch) of NCCL.
Version = tuple[int, int, int]
#: Version that is assumed if none is specified; all constants of this package were read in its source.
NEWEST: Version = (2, 30, 7)
#: Oldest version that is emulated.
OLDEST: Version = (2, 12, 0)
#: NCCL rounds bandwidths to three decimal places: integers of 0.001 GB/s avoid rounding errors.
MILLI = 1000
_FASTEST_LINK = 5000.0


class PathType(IntEnum):
    """Distance of two GPUs as NCCL orders it (src/graph/topo.h)."""

    LOC = 0
    NVL = 1
    NVB = 2
    C2C = 3
    PIX = 4
    PXB = 5
    P2C = 6
    PXN = 7
    PHB = 8
    SYS = 9
    NET = 10
    DIS = 11


class Cpu(StrEnum):
    """Processor families that NCCL distinguishes; `UNKNOWN` has the rates of AMD."""

    AMD = "amd"
    INTEL_BROADWELL = "intel_broadwell"
    INTEL_SKYLAKE = "intel_skylake"
    INTEL_SAPPHIRE_RAPIDS = "intel_sapphire_rapids"
    INTEL_EMERALD_RAPIDS = "intel_emerald_rapids"
    ZHAOXIN = "zhaoxin"
    YONGFENG = "yongfeng"
    POWER9 = "power9"
    ARM = "arm"
    UNKNOWN = "unknown"

    @property
    def is_intel(self) -> bool:
        """Whether PCI links transfer 6/5 of the traffic of copies through the host bridge (INTEL_P2P_OVERHEAD)."""
        return self.value.startswith("intel")

    def link_gb_per_s(self, version: Version) -> float:
        """Return the bandwidth of a link between two NUMA nodes in GB/s (src/graph/topo.h)."""
        if self in (Cpu.AMD, Cpu.UNKNOWN):
            return 16.0 if version >= (2, 19, 3) else _FASTEST_LINK
        skylake = 10.0 if version >= (2, 18, 0) else 9.0
        newer = {Cpu.INTEL_SAPPHIRE_RAPIDS: 22.0, Cpu.INTEL_EMERALD_RAPIDS: 40.0}
        if self in newer:
            return newer[self] if version >= (2, 26, 0) else skylake
        return {
            Cpu.INTEL_BROADWELL: 6.0,
            Cpu.INTEL_SKYLAKE: skylake,
            Cpu.ZHAOXIN: 6.0,
            Cpu.YONGFENG: 9.0,
            Cpu.POWER9: 32.0,
            Cpu.ARM: 6.0,
        }[self]


def parse_version(text: str) -> Version:
    """Return a version of NCCL from text such as '2.27.5'.

    >>> parse_version("2.27.5+cuda12.8")
    (2, 27, 5)
    """
    parts = text.split("+")[0].split(".")
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        raise InputError(f"is '{text}', expected a version such as 2.27.5", argument="nccl_version")
    version = (int(parts[0]), int(parts[1]), int(parts[2]) if len(parts) == 3 else 0)
    if not OLDEST <= version < (3, 0, 0):
        raise InputError(f"is '{text}', expected 2.12 to 2.99", argument="nccl_version")
    return version


#: GB/s that NCCL assigns to a PCI lane: the rate in units of 100 Mbit/s, divided by 80 (src/graph/topo.cc).
_LANE_GB_PER_S = {1: 15 / 80, 2: 30 / 80, 3: 60 / 80, 4: 120 / 80, 5: 240 / 80, 6: 480 / 80}
#: Raw rate of a lane in bytes/s after line coding.
_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.98462e9, 4: 1.96923e9, 5: 3.93846e9, 6: 7.87692e9}
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)


def link_gb_per_s(bytes_per_s: float) -> float:
    """Return the bandwidth in GB/s that NCCL assigns to a PCI link of some raw rate.

    >>> link_gb_per_s(63.015e9), link_gb_per_s(31.508e9), link_gb_per_s(15.754e9)
    (48.0, 24.0, 12.0)
    """
    choices = [
        (abs(np.log(bytes_per_s / (rate * width))), -width, _LANE_GB_PER_S[generation] * width)
        for generation, rate in _LANE_BYTES_PER_S.items()
        for width in _WIDTHS
    ]
    return min(choices)[2]


@dataclass(frozen=True)
class NcclPath:
    """Path of the data from one GPU to another, as NCCL counts it."""

    #: Directed links in order. Link ``2 i`` is link i of the system in the order of its ends, ``2 i + 1`` its reverse.
    links: tuple[int, ...]
    type: PathType  # Farthest kind of link on the path
    gb_per_s: float  # Bandwidth of the narrowest link
    p2p: bool  # Whether the GPUs copy directly; otherwise through host memory


@dataclass(frozen=True)
class NcclSystem:
    """GPUs, switches and NUMA nodes of one host with their links, in the order of PCI bus ids."""

    #: Vertices between each GPU and its NUMA node, nearest first: numbers of switches.
    parents: tuple[tuple[int, ...], ...]
    switch_parents: tuple[int, ...]  # Number of the switch above each switch; -1 if it is attached to the NUMA node
    #: Bandwidth of the link above each GPU and above each switch, in GB/s as NCCL counts.
    gpu_gb_per_s: tuple[float, ...]
    switch_gb_per_s: tuple[float, ...]
    numa_nodes: tuple[int, ...]  # NUMA node of each GPU
    cpu: Cpu  # Processor family
    capability: float  # Lowest CUDA compute capability of the GPUs, such as 8.9
    version: Version = NEWEST  # Version of NCCL
    p2p_level: PathType | None = None  # Farthest path of direct copies; None for the rule of the version
    has_peer_access: bool = True  # Whether the driver permits direct copies between all GPUs

    def __post_init__(self) -> None:
        if not 2 <= self.gpus <= 16:
            raise InputError(f"are {self.gpus}, expected 2 to 16 GPUs of one host", argument="ranks")

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return len(self.parents)

    @cached_property
    def milli_gb_per_s(self) -> NDArray[np.int64]:
        """Bandwidth of each directed link in units of 0.001 GB/s: GPUs, switches, then pairs of NUMA nodes."""
        between = self.cpu.link_gb_per_s(self.version)
        rates = [*self.gpu_gb_per_s, *self.switch_gb_per_s, *[between] * len(self._numa_pairs)]
        return np.repeat(np.round(np.array(rates) * MILLI).astype(np.int64), 2)

    @cached_property
    def is_pci(self) -> NDArray[np.bool_]:
        """Whether each directed link is a PCI link."""
        pci = self.gpus + len(self.switch_parents)
        return np.repeat(np.arange(pci + len(self._numa_pairs)) < pci, 2)

    @cached_property
    def _numa_pairs(self) -> list[tuple[int, int]]:
        numbers = sorted(set(self.numa_nodes))
        return [(one, other) for place, one in enumerate(numbers) for other in numbers[place + 1 :]]

    def _numa_link(self, one: int, other: int) -> int:
        pci = self.gpus + len(self.switch_parents)
        pair = self._numa_pairs.index((min(one, other), max(one, other)))
        return 2 * (pci + pair) + (one > other)

    def _to_numa(self, gpu: int) -> list[int]:
        """Return the directed links from a GPU to its NUMA node."""
        return [2 * gpu, *(2 * (self.gpus + switch) for switch in self.parents[gpu])]

    def _with(self, links: Sequence[int], kind: PathType, *, p2p: bool) -> NcclPath:
        rate = float(self.milli_gb_per_s[list(links)].min()) / MILLI
        return NcclPath(tuple(links), kind, rate, p2p)

    def _direct(self, source: int, target: int) -> NcclPath:
        """Return the direct path, which turns at the nearest common switch or NUMA node."""
        up, down = self._to_numa(source), self._to_numa(target)
        common = set(self.parents[source]) & set(self.parents[target])
        if common:
            nearest = next(switch for switch in self.parents[source] if switch in common)
            above, below = self.parents[source].index(nearest), self.parents[target].index(nearest)
            links = [*up[: above + 1], *(link + 1 for link in reversed(down[: below + 1]))]
            # PIX passes one switch, PXB several.
            return self._with(links, PathType.PIX if above == below == 0 else PathType.PXB, p2p=True)
        here, there = self.numa_nodes[source], self.numa_nodes[target]
        across = [] if here == there else [self._numa_link(here, there)]
        links = [*up, *across, *(link + 1 for link in reversed(down))]
        return self._with(links, PathType.SYS if across else PathType.PHB, p2p=True)

    def path(self, source: int, target: int) -> NcclPath:
        """Return the path of the data from one GPU to another.

        Without direct copies, the data pass through the NUMA node of the target (`addInterStep` in paths.cc).
        """
        return self._paths[source][target]

    @cached_property
    def _paths(self) -> list[list[NcclPath]]:
        nothing = NcclPath((), PathType.LOC, _FASTEST_LINK, True)
        paths = [[nothing] * self.gpus for _ in range(self.gpus)]
        for source in range(self.gpus):
            for target in range(self.gpus):
                if source == target:
                    continue
                direct = self._direct(source, target)
                if self.has_peer_access and direct.type <= self.farthest_p2p:
                    paths[source][target] = direct
                    continue
                here, there = self.numa_nodes[source], self.numa_nodes[target]
                across = [] if here == there else [self._numa_link(here, there)]
                down = [link + 1 for link in reversed(self._to_numa(target))]
                kind = PathType.SYS if across else PathType.PHB
                paths[source][target] = self._with([*self._to_numa(source), *across, *down], kind, p2p=False)
        return paths

    @property
    def farthest_p2p(self) -> PathType:
        """Farthest path of direct copies (`ncclTopoCheckP2p` in paths.cc)."""
        if self.p2p_level is not None:
            return self.p2p_level
        is_amd = self.cpu in (Cpu.AMD, Cpu.UNKNOWN)
        if self.version >= (2, 23, 0):
            return PathType.SYS if is_amd and self.gpus <= 2 else PathType.PXB
        return PathType.SYS if is_amd or self.cpu is Cpu.POWER9 else PathType.PXB

    def direct_type(self, source: int, target: int) -> PathType:
        """Return the path type of two GPUs by the topology only, whether or not they copy directly."""
        return self._direct(source, target).type
