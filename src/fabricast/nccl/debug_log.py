"""Lines that NCCL prints with NCCL_DEBUG=INFO: rings, transports, choices, settings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fabricast.core.errors import InputError
from fabricast.inputs.log_lines import clean_lines
from fabricast.nccl.search import SearchGraph
from fabricast.nccl.system import PathType, Version, parse_version

__all__ = ["LoggedChoice", "NcclLog", "is_nccl_log", "read_nccl_log"]

_INFO = re.compile(r"NCCL (?:INFO|WARN) (.*)")
_STATEMENT = re.compile(
    r"NCCL version|set by environment|Channel \d|Pattern \d|n[rR]anks \d|coll channels|Bytes ->|Could not find|"
    r"P2P is disabled"
)
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_COMM = re.compile(r"comm (0x[0-9a-f]+) .*?rank (\d{1,15}) n[rR]anks (\d{1,15})(.*)")
_BUS = re.compile(r"busId ([0-9a-f]+)")
_NODES = re.compile(r"nNodes (\d{1,15})")
_CHANNEL = re.compile(r"Channel (\d{1,15})/(\d{1,15}) :((?:\s+\d{1,15})+)(\.\.\.)?\s*$")
_VIA = re.compile(r"Channel (\d{1,15})(?:/\d+)? : (\d{1,15})\[[^\]]*\] -> (\d{1,15})\[[^\]]*\] (?:\[\w+\] )?via (\S+)")
_PATTERN = re.compile(
    r"Pattern (\d{1,15}), crossNic \d+, nChannels (\d{1,15}), (?:bw|speed) ([\d.]+)/([\d.]+), type (\w+)/(\w+)"
)
_COLL = re.compile(r"(\d{1,15}) coll channels")
_CHOICE = re.compile(
    r"(\w+): (\d{1,15}) Bytes -> Algo (\w+) proto (\w+)(?: channel\{Lo\.\.Hi\}=\{(\d{1,15})\.\.(\d{1,15})\})?"
)
_OLD_CHOICE = re.compile(r"(\d{1,15}) Bytes -> Algo (\d{1,15}) proto (\d{1,15}) time ([\d.]+)")
_ENV = re.compile(r"(NCCL_\w+) set by environment to (\S+?)\.?$")
_FALLBACK = re.compile(r"Could not find a path for pattern (\d{1,15})")
_DISABLED = re.compile(r"P2P is disabled between (?:NVLINK )?connected GPUs (\d{1,15}) and (\d{1,15})")
_ALGORITHMS, _PROTOCOLS = ("tree", "ring"), ("ll", "ll128", "simple")


@dataclass(frozen=True)
class LoggedChoice:
    """Algorithm and protocol that NCCL printed for one size.

    Parameters
    ----------
    operation : str
        Operation in NCCL's words such as AllReduce; empty in older versions.
    size_bytes : int
        Size in bytes.
    algorithm, protocol : str
        Names in lower case.
    channels : int or None
        Channels in use.
    """

    operation: str
    size_bytes: int
    algorithm: str
    protocol: str
    channels: int | None


@dataclass
class NcclLog:
    """Statements of a log about one communicator.

    Parameters
    ----------
    ranks : int or None
        Number of ranks.
    nodes : int
        Number of hosts.
    version : Version or None
        Version of NCCL.
    bus_ids : dict of int to str
        PCI address of ranks in hexadecimal digits as printed.
    orders : dict of int to tuple of int
        Ring order of each channel.
    transports : dict of (int, int) to str
        Words after "via" for each hop.
    patterns : dict of int to (int, float, PathType)
        Channels, speed and path type of each pattern.
    coll_channels : int or None
        Channels in use.
    choices : list of LoggedChoice
        Choices in the order of the log.
    environment : dict of str to str
        Variables that the log states.
    fallbacks : list of int
        Patterns without a path.
    disabled_pairs : list of (int, int)
        GPUs without peer access, by the log.
    truncated_orders : int
        Number of channel lines that NCCL cut off.
    """

    ranks: int | None = None
    nodes: int = 1
    version: Version | None = None
    bus_ids: dict[int, str] = field(default_factory=dict)
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict)
    transports: dict[tuple[int, int], str] = field(default_factory=dict)
    patterns: dict[int, tuple[int, float, PathType]] = field(default_factory=dict)
    coll_channels: int | None = None
    choices: list[LoggedChoice] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    fallbacks: list[int] = field(default_factory=list)
    disabled_pairs: list[tuple[int, int]] = field(default_factory=list)
    truncated_orders: int = 0

    @property
    def uses_p2p(self) -> dict[tuple[int, int], bool]:
        """Whether each printed hop is direct (P2P) or through host memory (SHM)."""
        return {pair: via.startswith("P2P") for pair, via in self.transports.items() if via[:3] in ("P2P", "SHM")}

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
        version = "" if self.version is None else " " + ".".join(map(str, self.version))
        ranks = "unknown number of" if self.ranks is None else self.ranks
        return f"NCCL{version} debug log, {ranks} ranks, {len(self.orders)} channels, {len(self.transports)} hops"


def is_nccl_log(text: str) -> bool:
    """Return whether a text contains lines of NCCL_DEBUG."""
    return "NCCL INFO" in text or "NCCL WARN" in text


def read_nccl_log(text: str, path: Path | str) -> NcclLog:
    r"""Read the statements of a log about its largest communicator.

    >>> log = read_nccl_log(
    ...     "n1:7:7 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n"
    ...     "n1:7:8 [1] NCCL INFO Channel 00 : 1[1] -> 2[2] via SHM/direct/direct\n", "nccl.log")
    >>> log.orders, log.uses_p2p
    ({0: (0, 1, 2, 3)}, {(1, 2): False})
    """
    log, sizes = NcclLog(), Counter[int]()
    for number, line in clean_lines(text, lambda line: "NCCL" in line):
        match = _INFO.search(line)
        # Most lines of a large log state nothing about the communicator.
        if match is not None and _STATEMENT.search(line):
            _statement(log, sizes, match[1].strip(), path, number)
    if not is_nccl_log(text):
        raise InputError("contains no line 'NCCL INFO', expected output with NCCL_DEBUG=INFO", path=path)
    if sizes:
        # Lines of smaller communicators of the same job are ignored.
        log.ranks = max(sizes)
    elif log.orders:
        log.ranks = max(len(order) for order in log.orders.values())
    log.orders = {channel: order for channel, order in log.orders.items() if len(order) == log.ranks}
    return log


def _statement(log: NcclLog, sizes: Counter[int], body: str, path: Path | str, number: int) -> None:
    """Add one line to the log."""
    if (match := _VERSION.search(body)) is not None:
        log.version = parse_version(match[1])
    elif (match := _ENV.search(body)) is not None:
        before = log.environment.setdefault(match[1], match[2])
        if before != match[2]:
            raise InputError(
                f"{match[1]} is {match[2]}, expected {before} as before: the log holds runs with different settings",
                path=path,
                line=number,
            )
    elif (match := _CHANNEL.match(body)) is not None:
        order = tuple(int(rank) for rank in match[3].split())
        if match[4] or len(set(order)) != len(order):
            log.truncated_orders += 1
        else:
            log.orders[int(match[1])] = order
    elif (match := _VIA.match(body)) is not None:
        log.transports[int(match[2]), int(match[3])] = match[4]
    elif (match := _PATTERN.match(body)) is not None:
        kind = PathType.__members__.get(match[5], PathType.SYS)
        log.patterns[int(match[1])] = (int(match[2]), float(match[3]), kind)
    elif (match := _COMM.search(body)) is not None:
        sizes[int(match[3])] += 1
        if (bus := _BUS.search(body)) is not None:
            log.bus_ids[int(match[2])] = bus[1]
        if (nodes := _NODES.search(body)) is not None:
            log.nodes = max(log.nodes, int(nodes[1]))
    elif (match := _COLL.search(body)) is not None:
        log.coll_channels = int(match[1])
    elif (match := _CHOICE.match(body)) is not None:
        channels = None if match[5] is None else int(match[6]) - int(match[5]) + 1
        log.choices.append(LoggedChoice(match[1], int(match[2]), match[3].lower(), match[4].lower(), channels))
    elif (match := _OLD_CHOICE.match(body)) is not None:
        algorithm, protocol = int(match[2]), int(match[3])
        if algorithm < len(_ALGORITHMS) and protocol < len(_PROTOCOLS):
            log.choices.append(LoggedChoice("", int(match[1]), _ALGORITHMS[algorithm], _PROTOCOLS[protocol], None))
    elif (match := _FALLBACK.search(body)) is not None:
        log.fallbacks.append(int(match[1]))
    elif (match := _DISABLED.search(body)) is not None:
        log.disabled_pairs.append((int(match[1]), int(match[2])))
