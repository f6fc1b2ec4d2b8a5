"""Statements of logs about NCCL: choices and hops of a communicator, and measured times of operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fabricast.core.errors import InputError
from fabricast.nccl.costs import Algorithm, Operation, Protocol, bus_factor
from fabricast.nccl.search import SearchGraph
from fabricast.nccl.system import PathType, Version

#: Relative difference above which a printed bandwidth contradicts size and time; printed numbers have two decimals.
_ROUNDING = 0.02


@dataclass(frozen=True)
class LoggedChoice:
    """Algorithm and protocol that NCCL printed for one size."""

    operation: str  # Operation in NCCL's words such as AllReduce; empty in older versions
    size_bytes: int  # Size in bytes
    #: Names in lower case.
    algorithm: str
    protocol: str
    channels: int | None  # Channels in use


@dataclass
class HostStatements:
    """First statements of the ranks of one host, each with its line."""

    #: Version of NCCL, and network between hosts.
    version: tuple[str, int] | None = None
    network: tuple[str, int] | None = None
    plugin: tuple[str, int] | None = None  # Plugin for the network, or that NCCL uses its own code
    is_plugin_file: bool = False  # Whether its file is stated, and not its name
    interface: tuple[str, int] | None = None  # Interface and address at which other hosts reach this one
    cards: tuple[str, int] | None = None  # Number of network cards
    card_names: tuple[str, ...] = ()  # Their names
    layers: frozenset[str] = frozenset()  # Link layers of its cards: ``IB``, ``RoCE``
    odd_cards: tuple[str, ...] = ()  # Cards of the rarer kind, where some are InfiniBand and others RoCE
    #: Whether a hop over InfiniBand or RoCE uses GPUDirect RDMA: ``with`` or ``without``.
    gpudirect: tuple[str, int] | None = None
    environment: dict[str, tuple[str, int]] = field(default_factory=dict)  # Variables of NCCL


@dataclass
class NcclLog:
    """Statements of a log about one communicator."""

    ranks: int | None = None  # Number of ranks
    nodes: int = 1  # Number of hosts
    version: Version | None = None  # Version of NCCL
    bus_ids: dict[int, str] = field(default_factory=dict)  # PCI address of ranks in hexadecimal digits as printed
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict)  # Ring order of each channel
    transports: dict[tuple[int, int], str] = field(default_factory=dict)  # Words after "via" for each hop
    #: First line of the sender of each hop over a network.
    sends: dict[tuple[int, int], int] = field(default_factory=dict)
    #: Channels, speed and path type of each pattern.
    patterns: dict[int, tuple[int, float, PathType]] = field(default_factory=dict)
    coll_channels: int | None = None  # Channels in use
    choices: list[LoggedChoice] = field(default_factory=list)  # Choices in the order of the log
    environment: dict[str, str] = field(default_factory=dict)  # Variables that the log states
    fallbacks: list[int] = field(default_factory=list)  # Patterns without a path
    #: GPUs without peer access, by the log; the smaller number is first.
    disabled_pairs: set[tuple[str, int, int]] = field(default_factory=set)
    truncated_orders: int = 0  # Number of channel lines that NCCL cut off
    states_nodes: bool = False  # Whether the log states the number of hosts
    network: str = ""  # Network between hosts, such as IB or Socket; empty if the log does not name it
    #: Interface by which no other host is reached, and why; empty if the log names another.
    local_interface: str = ""
    provider: str = ""  # Provider of libfabric, such as efa; empty if the log does not name it
    #: First line that states a hop by each transport (P2P, SHM, NET), the version, a variable, that direct copies are
    #: disabled (``disabled``), that cards have GPUDirect RDMA or not (``GDR``, ``no GDR``), or that the host has no
    #: InfiniBand or RoCE card (``no verbs``).
    lines: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, HostStatements] = field(default_factory=dict)  # What each host states

    @property
    def cards(self) -> int | None:
        """Least number of network cards that a host lists; None if none lists them."""
        listed = [int(host.cards[0]) for host in self.hosts.values() if host.cards is not None]
        return min(listed, default=None)

    @property
    def usual_cards(self) -> int | None:
        """Number of network cards that most hosts list, the larger of equal ones; None if none lists them."""
        listed = Counter(int(host.cards[0]) for host in self.hosts.values() if host.cards is not None)
        return max(listed, key=lambda count: (listed[count], count), default=None)

    @property
    def uses_p2p(self) -> dict[tuple[int, int], bool]:
        """Whether each printed hop is direct (P2P) or through host memory (SHM)."""
        return {pair: via.startswith("P2P") for pair, via in self.transports.items() if via[:3] in ("P2P", "SHM")}

    def choices_of(self, operation: Operation) -> dict[int, tuple[Algorithm, Protocol]]:
        """Return the algorithm and protocol that the log states for an operation, by size in bytes."""
        name, known = operation.replace("_", ""), set(Algorithm)
        stated = {}
        for choice in self.choices:
            algorithm = choice.algorithm.replace("_", "")
            if choice.operation.lower() in (name, "") and algorithm in known and choice.protocol in set(Protocol):
                stated[choice.size_bytes] = (Algorithm(algorithm), Protocol(choice.protocol))
        return stated

    def rings(self) -> SearchGraph | None:
        """Return the rings of the log; None if it states no complete order.

        The channels of the log are those in use, twice those of the search.
        """
        complete = [order for _, order in sorted(self.orders.items()) if len(order) == self.ranks]
        if not complete or self.ranks is None:
            return None
        searched = complete[: max(len(complete) // 2, 1)]
        channels, speed, kind = self.patterns.get(4, (len(searched), 0.0, PathType.SYS))
        if speed == 0.0:
            return None
        return SearchGraph(
            tuple((searched * channels)[:channels]),
            speed,
            kind,
            is_fallback=4 in self.fallbacks or speed < 1,
            same_channels=len(set(searched)) == 1,
        )

    def __str__(self) -> str:
        name = "NCCL" if self.version is None else "NCCL " + ".".join(map(str, self.version))
        if self.ranks is None and not self.transports and not self.orders:
            return f"{name} log without a communicator"
        ranks = "unknown number of" if self.ranks is None else self.ranks
        return f"{name} debug log, {ranks} ranks, {len(self.orders)} channels, {len(self.transports)} hops"


@dataclass(frozen=True)
class NcclTestsRow:
    """Measured time of one size."""

    line: int  # Line in the file
    size_bytes: int  # Size in bytes: the larger of the send and receive buffer of a rank
    time_s: float  # Out-of-place time in s
    bus_bytes_per_s: float  # Printed bus bandwidth in bytes/s
    in_place_s: float | None  # In-place time in s
    wrong: int  # Number of wrong values, out-of-place and in-place; 0 if they were not checked
    #: Whether the row has a reduction (redop) and no root, as those of all_reduce and reduce_scatter.
    reduces_for_all: bool = False
    #: Whether the row states that it has neither a reduction nor a root, as those of all_gather and alltoall.
    is_without_root: bool = False
    is_out_of_place: bool = False  # Whether only out-of-place results can be checked, as those of alltoall and sendrecv


@dataclass(frozen=True)
class NcclTestsTable:
    """One table of a log."""

    operation: Operation | None  # Operation; None if the log does not name it
    ranks: int | None  # Number of ranks; None if the log does not list them
    rows: tuple[NcclTestsRow, ...]  # Rows with valid times and right results
    program: str  # Program with its version, such as ``nccl-tests 2.19.6``
    library: tuple[int, int, int] | None  # Version of NCCL that the program printed
    gpus: tuple[str, ...]  # Product name of each rank
    bus_ids: tuple[str, ...]  # PCI address of each rank as printed
    devices: tuple[int, ...]  # Device number of each rank on its host
    hosts: int  # Number of hosts
    line: int  # Line of the header
    excluded: tuple[tuple[int, str], ...] = ()  # Line and reason of each excluded row
    wrong_lines: tuple[int, ...] = ()  # Lines of the excluded rows whose results are wrong
    host_names: tuple[str, ...] = ()  # Names of the hosts; empty if the log does not list them

    def __str__(self) -> str:
        operation = "unknown operation" if self.operation is None else f"{self.operation}_perf"
        count = "unknown number of" if self.ranks is None else self.ranks
        ranks = f"{count} rank{'' if self.ranks == 1 else 's'}"
        sizes = len(self.rows) + len(self.wrong_lines)
        return f"{self.program}, {operation}, {ranks}, {sizes} size{'' if sizes == 1 else 's'}"


def check_bus_bandwidth(rows: Sequence[NcclTestsRow], operation: Operation, ranks: int) -> None:
    """Check that printed bus bandwidths follow from size, time and number of ranks."""
    for row in rows:
        expected = row.size_bytes / row.time_s * bus_factor(operation, ranks)
        # Two decimals of GB/s are printed.
        if abs(row.bus_bytes_per_s - expected) > _ROUNDING * expected + 0.0051e9:
            raise InputError(
                f"bus bandwidth is {row.bus_bytes_per_s / 1e9:.4g} GB/s, expected {expected / 1e9:.4g} GB/s for "
                f"{operation} of {row.size_bytes} bytes among {ranks} ranks in {row.time_s * 1e6:.4g} us; the column "
                "may be the algorithm bandwidth, or the log of another operation",
                line=row.line,
            )
